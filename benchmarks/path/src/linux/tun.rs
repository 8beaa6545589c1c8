//! A TUN device: a network interface whose packets this process reads and writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Error;

use super::system;

const HINT: &str = "run it as root, where the device /dev/net/tun exists (`modprobe tun`)";

/// An open TUN device; clones share it.
#[derive(Clone)]
pub(super) struct Tun {
    file: Arc<File>,
}

impl Tun {
    /// Makes a device of that name in a namespace. Its packets have no header before that of IP.
    pub(super) fn open(namespace: &Path, device: &'static str) -> Result<Self, Error> {
        inside(namespace, move || {
            let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
            attach(&file, device)?;
            Ok(Self { file: Arc::new(file) })
        })
    }

    /// Reads one packet; `None` when there is none.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&*self.file).read(buffer) {
            Ok(size) => Ok(Some(size)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands one packet to the namespace's network. Where the system has no memory for it, it is lost, as on any network.
    pub(super) fn write(&self, packet: &[u8]) -> io::Result<()> {
        match (&*self.file).write(packet) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::ENOBUFS | libc::EINVAL)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Does something on a thread of its own that has moved into a namespace.
pub(super) fn inside<T: Send>(namespace: &Path, work: impl FnOnce() -> io::Result<T> + Send) -> Result<T, Error> {
    let moved = || {
        let file = File::open(namespace)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    };
    let done = std::thread::scope(|scope| scope.spawn(moved).join());
    let done = done.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
    done.map_err(system(format!("work in the namespace `{}`", namespace.display()), HINT))
}

/// Makes an open `/dev/net/tun` the device of that name.
fn attach(file: &File, device: &str) -> io::Result<()> {
    // SAFETY: an `ifreq` of zeros is a valid one: integers and bytes.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero and ends the name.
    let places = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
    places.zip(device.bytes()).for_each(|(place, byte)| *place = libc::c_char::from_ne_bytes([byte]));
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_TUN | libc::IFF_NO_PI).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open, and the request lives until the call returns.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
