//! What the kernel tells of one TCP connection.

use std::time::Duration;

use crate::protocol::message::TcpMeters;

/// Counters and gauges of one connection, in the kernel's own accounting. Counters of a kernel that has not got them are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpSnapshot {
    /// Segments with data sent, repeated ones included.
    pub segments_out: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Bytes that the peer's kernel has acknowledged.
    pub bytes_acked: u64,
    /// Segments that it has got beyond gaps.
    pub beyond_gaps: u32,
    /// Bytes of a segment at most.
    pub segment: u32,
    /// Bytes sent, repeated ones included.
    pub bytes_sent: u64,
    /// Bytes sent again.
    pub bytes_retransmitted: u64,
    /// Smoothed round trip time.
    pub rtt: Duration,
    /// Least round trip time seen.
    pub min_rtt: Duration,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// Most recent delivery rate in bytes per second.
    pub delivery_rate: u64,
    /// Segments with data that the peer's kernel has told of, also beyond gaps.
    pub delivered: u64,
    /// Bytes in the send buffer that were never sent.
    pub unsent: u32,
    /// Time spent with something to send.
    pub busy: Duration,
    /// Time in which the peer's window was the limit.
    pub receive_window_limited: Duration,
    /// Time in which the own send buffer was the limit.
    pub send_buffer_limited: Duration,
    /// Whether its congestion control sends ever more until a queue overflows; false where it is not known.
    pub fills_queues: bool,
}

impl TcpSnapshot {
    /// Whether bytes are on their way, or wait to be sent; false if the kernel has no counters of them.
    pub fn is_sending(&self) -> bool {
        self.unsent > 0 || self.bytes_sent.saturating_sub(self.bytes_retransmitted) > self.bytes_acked
    }

    /// Bytes that the peer's kernel has told of, also beyond gaps.
    fn received(&self) -> u64 {
        self.bytes_acked + u64::from(self.beyond_gaps) * u64::from(self.segment)
    }
}

impl From<TcpSnapshot> for TcpMeters {
    fn from(tcp: TcpSnapshot) -> Self {
        Self {
            segments: tcp.segments_out,
            retransmitted: tcp.retransmitted,
            rtt_us: u64::try_from(tcp.rtt.as_micros()).unwrap_or(u64::MAX),
            delivery_rate: tcp.delivery_rate,
            received: Some(tcp.received()),
            fills_queues: Some(tcp.fills_queues),
        }
    }
}

/// Asks the kernel about a connected TCP socket; `None` where the system does not tell, or if it is no such socket.
#[cfg(target_os = "linux")]
pub fn tcp_info(socket: &impl std::os::fd::AsFd) -> Option<TcpSnapshot> {
    linux::read(socket.as_fd())
}

/// Asks the kernel about a connected TCP socket; `None` where the system does not tell, or if it is no such socket.
#[cfg(not(target_os = "linux"))]
pub fn tcp_info<S>(_socket: &S) -> Option<TcpSnapshot> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::{offset_of, size_of};
    use std::os::fd::{AsRawFd, BorrowedFd};
    use std::time::Duration;

    use super::TcpSnapshot;

    /// The congestion controls of Linux that go by what is lost alone.
    const BY_LOSS: [&str; 8] = ["cubic", "reno", "bic", "htcp", "highspeed", "hybla", "scalable", "westwood"];

    /// `struct tcp_info` of `linux/tcp.h`, which only ever grows, up to the last field used; libc ends earlier. Fields with an
    /// underscore stand for spans that are not used.
    #[repr(C)]
    #[derive(Default)]
    struct TcpInfo {
        _states: [u8; 8],
        _timeouts: [u32; 2],
        segment: u32,
        _receive_segment_and_unacknowledged: [u32; 2],
        beyond_gaps: u32,
        _lost_to_last_ack: [u32; 7],
        _path_mtu_to_receive_threshold: [u32; 2],
        rtt_us: u32,
        _rtt_variance: u32,
        _send_threshold: u32,
        congestion_window: u32,
        _advertised_mss_to_receive_space: [u32; 4],
        retransmitted: u32,
        _pacing_rates: [u64; 2],
        bytes_acked: u64,
        _bytes_received: u64,
        _segments: [u32; 2],
        unsent: u32,
        min_rtt_us: u32,
        _data_segments_in: u32,
        data_segments_out: u32,
        delivery_rate: u64,
        busy_us: u64,
        receive_window_limited_us: u64,
        send_buffer_limited_us: u64,
        delivered: u32,
        _delivered_marked: u32,
        bytes_sent: u64,
        bytes_retransmitted: u64,
    }

    const _: () = assert!(offset_of!(TcpInfo, segment) == 16 && offset_of!(TcpInfo, beyond_gaps) == 28);
    const _: () = assert!(offset_of!(TcpInfo, rtt_us) == 68 && offset_of!(TcpInfo, retransmitted) == 100);
    const _: () = assert!(offset_of!(TcpInfo, data_segments_out) == 156 && offset_of!(TcpInfo, bytes_sent) == 200);

    pub(super) fn read(socket: BorrowedFd<'_>) -> Option<TcpSnapshot> {
        let mut info = TcpInfo::default();
        let mut length = libc::socklen_t::try_from(size_of::<TcpInfo>()).ok()?;
        // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `length` bytes to `info`, which is that
        // long and made of integers only, so that any bytes are a valid value.
        let answer = unsafe {
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
        };
        let told = usize::try_from(length).ok()?;
        let fills_queues = socket2::SockRef::from(&socket).tcp_congestion().is_ok_and(|name| fills_queues(&name));
        let told = answer == 0 && told >= offset_of!(TcpInfo, delivery_rate);
        told.then(|| TcpSnapshot { fills_queues, ..snapshot(&info) })
    }

    /// Whether a congestion control goes by what is lost alone; its name may end with zeros.
    fn fills_queues(name: &[u8]) -> bool {
        BY_LOSS.contains(&String::from_utf8_lossy(name).trim_end_matches('\0'))
    }

    fn snapshot(info: &TcpInfo) -> TcpSnapshot {
        TcpSnapshot {
            segments_out: u64::from(info.data_segments_out),
            retransmitted: u64::from(info.retransmitted),
            bytes_acked: info.bytes_acked,
            beyond_gaps: info.beyond_gaps,
            segment: info.segment,
            bytes_sent: info.bytes_sent,
            bytes_retransmitted: info.bytes_retransmitted,
            rtt: Duration::from_micros(u64::from(info.rtt_us)),
            min_rtt: Duration::from_micros(u64::from(info.min_rtt_us)),
            congestion_window: info.congestion_window,
            delivery_rate: info.delivery_rate,
            delivered: u64::from(info.delivered),
            unsent: info.unsent,
            busy: Duration::from_micros(info.busy_us),
            receive_window_limited: Duration::from_micros(info.receive_window_limited_us),
            send_buffer_limited: Duration::from_micros(info.send_buffer_limited_us),
            fills_queues: false,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn counters_of_a_real_connection_grow_with_what_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiver = listener.accept().unwrap().0;
        let before = tcp_info(&sender).unwrap();
        let mut reply = [0; 1];
        let mut payload = vec![7; 1 << 20];
        let reader = std::thread::spawn(move || {
            receiver.read_exact(&mut payload).unwrap();
            receiver.write_all(&[1]).unwrap();
        });
        sender.write_all(&vec![7; 1 << 20]).unwrap();
        sender.read_exact(&mut reply).unwrap();
        reader.join().unwrap();
        let after = tcp_info(&sender).unwrap();
        assert!(after.bytes_acked >= before.bytes_acked + (1 << 20));
        assert!(after.bytes_sent >= after.bytes_acked - 1);
        assert!(after.segments_out > before.segments_out && after.delivered > before.delivered);
        assert!(after.received() >= after.bytes_acked && after.segment > 0);
        let gaps = TcpSnapshot { beyond_gaps: 3, segment: 1000, ..after };
        assert_eq!(gaps.received(), after.bytes_acked + 3000);
        assert!(after.rtt > Duration::ZERO && after.congestion_window > 0 && after.delivery_rate > 0);
    }

    #[test]
    fn whether_queues_are_filled_goes_by_the_congestion_control() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for (name, fills) in [("reno", true), ("cubic", true), ("bbr", false), ("vegas", false)] {
            if socket2::SockRef::from(&sender).set_tcp_congestion(name.as_bytes()).is_ok() {
                assert_eq!(tcp_info(&sender).unwrap().fills_queues, fills, "{name}");
            }
        }
    }

    #[test]
    fn a_socket_that_is_not_tcp_tells_nothing() {
        assert_eq!(tcp_info(&UdpSocket::bind("127.0.0.1:0").unwrap()), None);
    }
}
