//! What Linux tells of the network interface that an address belongs to.

use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::beginning::PathFacts;

/// Bytes per second of a megabit per second.
const MEGABIT: f64 = 1e6 / 8.0;

/// The speed of the interface, the packets that it takes, and what TCP's buffers may grow to for what is sent, or received.
pub(super) fn facts(address: IpAddr, sends: bool) -> PathFacts {
    let name = name(address);
    let setting = |what: &str| name.as_ref().and_then(|name| number(&format!("/sys/class/net/{name}/{what}")));
    let buffer = if sends { "tcp_wmem" } else { "tcp_rmem" };
    PathFacts {
        // Interfaces without a speed of their own, as virtual ones, say -1 or nothing.
        bandwidth: setting("speed").filter(|speed| *speed > 0).map(|speed| speed as f64 * MEGABIT),
        tcp_buffer: number(&format!("/proc/sys/net/ipv4/{buffer}")).and_then(|bytes| u64::try_from(bytes).ok()),
        mtu: setting("mtu").and_then(|bytes| u32::try_from(bytes).ok()),
    }
}

/// The last number of a file.
fn number(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.split_whitespace().last()?.parse().ok()
}

/// The name of the interface that has an address.
fn name(address: IpAddr) -> Option<String> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the call writes a pointer to where one may be written.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let mut next: *const libc::ifaddrs = first;
    let mut found = None;
    while !next.is_null() && found.is_none() {
        // SAFETY: an element of the list is valid until the list is freed, below.
        let interface = unsafe { &*next };
        // SAFETY: the address of an element is null, or one of the length that its family has.
        if unsafe { address_at(interface.ifa_addr) } == Some(address) {
            // SAFETY: the name of an element ends with a NUL.
            found = Some(unsafe { CStr::from_ptr(interface.ifa_name) }.to_string_lossy().into_owned());
        }
        next = interface.ifa_next;
    }
    // SAFETY: the list came from `getifaddrs`, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// Reads an address of the system.
///
/// # Safety
/// The pointer is null, or leads to an address of the length that its family has.
unsafe fn address_at(place: *const libc::sockaddr) -> Option<IpAddr> {
    if place.is_null() {
        return None;
    }
    // SAFETY: every address begins with its family; the caller vouches for the rest of it.
    match i32::from(unsafe { (*place).sa_family }) {
        libc::AF_INET => {
            // SAFETY: an address of this family has this form.
            let address = unsafe { place.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family has this form.
            let address = unsafe { place.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_of_an_address_is_found() {
        // Where there is no loopback interface nothing can be asked.
        if let Some(name) = name(IpAddr::V4(Ipv4Addr::LOCALHOST)) {
            let facts = facts(IpAddr::V4(Ipv4Addr::LOCALHOST), true);
            assert_eq!(facts.mtu.map(i64::from), number(&format!("/sys/class/net/{name}/mtu")));
            assert_eq!(facts.bandwidth, None, "a loopback interface has no speed");
        }
        assert_eq!(name(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7))), None);
    }
}
