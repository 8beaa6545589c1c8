//! The port of a server.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};

use crate::error::{Error, Result};

/// A port that is open: whoever connects waits until somebody accepts.
#[derive(Debug)]
pub struct Port {
    /// Accepts connections, and does not block.
    pub listener: TcpListener,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Port {
    /// Opens the port `listen`, written as `HOST:PORT`, that `option` of a command names; port 0 takes a free one.
    pub fn open(listen: &str, option: &str) -> Result<Self> {
        open(listen).map_err(|cause| {
            Error::io(format!("could not listen on `{listen}`"), &cause)
                .with_hint(format!("choose another address or port with {option} HOST:PORT"))
        })
    }
}

fn open(listen: &str) -> io::Result<Port> {
    let unknown = |cause: io::Error| match cause.kind() {
        io::ErrorKind::InvalidInput => cause,
        // A host that nobody knows is no address of this machine; systems say so without a kind.
        _ => io::Error::new(io::ErrorKind::AddrNotAvailable, cause),
    };
    let addresses: Vec<SocketAddr> = listen.to_socket_addrs().map_err(unknown)?.collect();
    let listener = TcpListener::bind(addresses.as_slice())?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok(Port { listener, address })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_port_that_cannot_be_opened_is_unreachable_and_one_that_is_none_a_mistake() {
        let taken = Port::open("127.0.0.1:0", "--listen").unwrap();
        assert_ne!(taken.address.port(), 0);
        let address = taken.address.to_string();
        for (listen, kind) in [
            (address.as_str(), ErrorKind::Unreachable),
            ("no..host:0", ErrorKind::Unreachable),
            ("127.0.0.1", ErrorKind::InvalidInput),
            ("127.0.0.1:port", ErrorKind::InvalidInput),
        ] {
            let error = Port::open(listen, "--flight").unwrap_err();
            assert_eq!((error.kind(), error.what()), (kind, format!("could not listen on `{listen}`").as_str()));
            assert_eq!(error.hint(), Some("choose another address or port with --flight HOST:PORT"));
        }
    }
}
