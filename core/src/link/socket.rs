//! TCP sockets as edt wants them: connected in bounded time, unbuffered sends, dead peers noticed, kernel buffers left to themselves.

use std::io;
#[cfg(not(target_os = "linux"))]
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use crate::error::{Error, ErrorKind, Result};

/// How long a connection may take to be made, over all addresses of a name.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server waits for all handshakes of a connection together.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

const KEEPALIVE: Duration = Duration::from_secs(30);

/// What a data stream's receive window may grow to at once. From the kernel's own start of 64 KiB its tuning takes several round trips.
#[cfg(target_os = "linux")]
const FIRST_WINDOW: usize = 1 << 20;

/// What a socket is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Messages, and handshakes.
    Control,
    /// Frames.
    Data,
}

/// Connects to the first address of a name that answers, in the resolver's order; also says how long that one took, which is one round
/// trip.
pub fn connect(host: &str, port: u16) -> Result<(TcpStream, Duration)> {
    let unreachable = |cause: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Unreachable, format!("could not connect to `{}`", name(host, port))).with_cause(cause)
    };
    let addresses: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|cause| unreachable(&cause).with_hint("check the spelling of the host name"))?
        .collect();
    let end = Instant::now() + CONNECT_TIMEOUT;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (tried, address) in (0u32..).zip(&addresses) {
        let left = u32::try_from(addresses.len()).unwrap_or(u32::MAX).saturating_sub(tried).max(1);
        // Each address gets its share of what is left, so that a silent first one cannot use up the time of a second that works.
        let patience = end.saturating_duration_since(Instant::now()) / left;
        let began = Instant::now();
        match TcpStream::connect_timeout(address, patience.max(Duration::from_millis(1))) {
            Ok(socket) => return Ok((socket, began.elapsed())),
            Err(cause) => last = cause,
        }
    }
    Err(unreachable(&last).with_hint(format!("check that `edt serve` runs there and that no firewall closes port {port}")))
}

/// A host and port for people: an IPv6 address in brackets.
pub fn name(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Connects to an address that answered before.
pub fn connect_again(address: SocketAddr) -> Result<TcpStream> {
    TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
        .map_err(|cause| Error::new(ErrorKind::Unreachable, format!("could not connect to `{address}`")).with_cause(cause))
}

/// Sets the options of a connected socket. The sizes of the kernel's buffers are left to its own tuning, which reaches further; a data
/// stream only begins with more.
pub fn configure(socket: &TcpStream, purpose: Use) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let reference = SockRef::from(socket);
    reference.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    #[cfg(target_os = "linux")]
    {
        reference.set_tcp_user_timeout(Some(user_timeout(purpose)))?;
        if purpose == Use::Data {
            hold(socket, super::unsent::FIRST)?;
            // The kernel makes the receive buffer so large that it could hold this much, and goes on tuning it; setting the buffer's size
            // itself would end that.
            gather(socket, FIRST_WINDOW)?;
            gather(socket, 1)?;
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = purpose;
    Ok(())
}

/// How long sent bytes may stay unacknowledged. Linux counts a closed receive window as well, and a data stream's window may be closed
/// for long by a slow destination, which is no failure; a dead peer is noticed sooner on the control channel.
#[cfg(target_os = "linux")]
fn user_timeout(purpose: Use) -> Duration {
    match purpose {
        Use::Control => Duration::from_secs(30),
        Use::Data => Duration::from_mins(3),
    }
}

/// Limits what the system holds for a socket, beyond what it has sent, to so many bytes. Elsewhere it does nothing.
pub(super) fn hold(socket: &TcpStream, bytes: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return SockRef::from(socket).set_tcp_notsent_lowat(bytes);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (socket, bytes);
        Ok(())
    }
}

/// Limits what a socket sends to so many bytes per second, `u64::MAX` for no limit, by the pacing of Linux' own TCP. Elsewhere it does nothing.
pub(super) fn pace(socket: &TcpStream, rate: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return set_option(socket, libc::SO_MAX_PACING_RATE, rate.max(1));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (socket, rate);
        Ok(())
    }
}

/// An error unless this system lets its user choose this congestion control.
pub(crate) fn check_congestion(name: &str) -> Result<()> {
    let checked = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
        .and_then(|socket| set_congestion(&socket.into(), name));
    checked.map_err(|cause| {
        let why = match cause.kind() {
            io::ErrorKind::NotFound => "the sending machine does not have it".to_owned(),
            io::ErrorKind::PermissionDenied => "the sending machine lets only its administrator choose it".to_owned(),
            _ => cause.to_string(),
        };
        Error::new(ErrorKind::InvalidInput, format!("could not choose the congestion control `{name}`"))
            .with_cause(why)
            .with_hint("`sysctl net.ipv4.tcp_allowed_congestion_control` on the sending machine lists what it lets users choose")
    })
}

/// Whether the system sends by BBR on connections like this one, which may be a matter of the route; false where it does not tell.
pub(super) fn sends_by_bbr(socket: &TcpStream) -> bool {
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    return SockRef::from(socket).tcp_congestion().is_ok_and(|name| is_bbr(&String::from_utf8_lossy(&name)));
    #[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
    {
        let _ = socket;
        false
    }
}

/// Most bytes of a segment on this connection, where the system tells.
pub(super) fn segment(socket: &TcpStream) -> Option<u32> {
    #[cfg(unix)]
    return SockRef::from(socket).tcp_mss().ok().filter(|bytes| *bytes > 0);
    #[cfg(not(unix))]
    {
        let _ = socket;
        None
    }
}

/// Whether what is sent over the network is sent by BBR, where this congestion control is asked for, or none, and it is known whether the systems
/// here and there use it by themselves.
pub(crate) fn by_bbr(asked: Option<&str>, upload: bool, here: bool, there: bool) -> bool {
    let usual = if upload { here } else { there };
    asked.map_or(usual, is_bbr)
}

/// Whether a congestion control of this name is BBR, of whatever version.
fn is_bbr(name: &str) -> bool {
    name.starts_with("bbr")
}

/// Chooses the congestion control of a connection, by the name that Linux and FreeBSD give it.
pub(super) fn set_congestion(socket: &TcpStream, name: &str) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    return SockRef::from(socket).set_tcp_congestion(name.as_bytes());
    #[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
    {
        let _ = (socket, name);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Sets how many bytes must be there before [`read_gathered`] returns. Elsewhere than on Linux it does nothing.
pub(super) fn gather(socket: &TcpStream, bytes: usize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return set_option(socket, libc::SO_RCVLOWAT, libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (socket, bytes);
        Ok(())
    }
}

/// Reads once as many bytes are there as [`gather`] says, or the connection ends, or the kernel has no room for so many. A read that
/// waits by itself would not do: when it has taken a part, the kernel wakes it only for as many bytes *again*, which may never come.
pub(super) fn read_gathered(
    #[cfg_attr(target_os = "linux", allow(unused_mut))] mut socket: &TcpStream,
    slices: &mut [io::IoSliceMut<'_>],
) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    loop {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::io::Errno;
        use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
        match recvmsg(socket, slices, &mut RecvAncillaryBuffer::default(), RecvFlags::DONTWAIT) {
            Ok(received) => return Ok(received.bytes),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    return socket.read_vectored(slices);
}

#[cfg(target_os = "linux")]
fn set_option<T: Copy>(socket: &TcpStream, option: libc::c_int, value: T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open while `socket` is borrowed, and the pointer and length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(std::os::fd::AsRawFd::as_raw_fd(socket), libc::SOL_SOCKET, option, (&raw const value).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether an address leads back to this machine, also where it is an IPv4 address in IPv6 form.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connected_socket_takes_every_option() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (socket, _) = connect("127.0.0.1", listener.local_addr().unwrap().port()).unwrap();
        configure(&socket, Use::Control).unwrap();
        configure(&socket, Use::Data).unwrap();
        assert!(socket.nodelay().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(SockRef::from(&socket).tcp_notsent_lowat().unwrap(), super::super::unsent::FIRST);
        #[cfg(target_os = "linux")]
        assert!(SockRef::from(&socket).recv_buffer_size().unwrap() >= FIRST_WINDOW);
        pace(&socket, 5_000_000).unwrap();
        #[cfg(target_os = "linux")]
        assert!(set_congestion(&socket, "reno").is_ok());
        #[cfg(target_os = "linux")]
        assert!(!sends_by_bbr(&socket));
        assert_eq!(check_congestion("no such control").unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn the_sending_system_or_who_asks_tells_whether_it_is_bbr() {
        let usual = |upload| [(true, false), (false, true)].map(|(here, there)| by_bbr(None, upload, here, there));
        assert_eq!((usual(true), usual(false)), ([true, false], [false, true]));
        let asked = |name| by_bbr(Some(name), true, name == "cubic", false);
        assert_eq!(["bbr", "bbr2", "cubic"].map(asked), [true, true, false]);
    }

    #[test]
    fn a_closed_port_is_unreachable_and_says_what_to_check() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = connect("127.0.0.1", port).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.hint().unwrap().contains("edt serve"));
        assert_eq!(name("::1", 7), "[::1]:7");
    }

    #[test]
    fn loopback_is_known_in_all_its_forms() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("::", false),
        ] {
            assert_eq!(is_loopback(address.parse().unwrap()), expected, "{address}");
        }
    }
}
