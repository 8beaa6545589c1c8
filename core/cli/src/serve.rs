//! `edt serve`: says where and how to reach the server, and serves until it is told to stop.

#[cfg(feature = "flight")]
mod flight;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use edt::auth::secret::Origin;
use edt::options::Access;
use edt::server::Server;
use edt::{Error, ErrorKind, ServeOptions};
#[cfg(feature = "flight")]
use edt_flight::service::FlightHandle;

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::terminal::{Stdout, say};
#[cfg(feature = "flight")]
pub use flight::Flight;

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let options = args.options();
    refuse_file(&options.root)?;
    #[cfg(feature = "flight")]
    let port = args.flight.as_deref().map(Flight::open).transpose()?;
    let server = Server::bind(options.clone())?;
    let handle = server.handle();
    #[cfg(feature = "flight")]
    let flight = port.map(|port| Flight::start(port, &options, &server)).transpose()?;
    #[cfg(feature = "flight")]
    let beside = flight.as_ref().map(Flight::handle);
    let _guard = interrupt::on_interrupt(
        "shutting down: no new sessions, running ones may go on for 30 s; press Ctrl-C again to stop at once",
        move || {
            handle.shutdown();
            #[cfg(feature = "flight")]
            beside.iter().for_each(FlightHandle::shutdown);
        },
    );
    say(&introduction(&options, server.address(), server.fingerprint(), server.secret()));
    #[cfg(feature = "flight")]
    if let Some(flight) = &flight {
        say(&format!("flight       {}", url(flight.scheme, flight.address)));
    }
    announce("listening", server.address());
    #[cfg(feature = "flight")]
    if let Some(flight) = &flight {
        announce("flight", flight.address);
    }
    server.run()?;
    #[cfg(feature = "flight")]
    flight.map_or(Ok(()), Flight::join)?;
    Ok(Exit::Complete)
}

/// What is no directory has nothing below it to serve.
fn refuse_file(root: &Path) -> edt::Result<()> {
    if root.is_dir() || !root.exists() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, format!("could not serve `{}`", root.display()))
        .with_cause("it is no directory")
        .with_hint("serve the directory that holds it"))
}

/// Tells scripts a port; a closed standard output means that nobody wants to know.
fn announce(what: &str, address: SocketAddr) {
    let mut out = Stdout;
    let _ = writeln!(out, "{what} on {address}").and_then(|()| out.flush());
}

fn introduction(options: &ServeOptions, address: SocketAddr, fingerprint: &str, secret: &Origin) -> String {
    let root = options.root.canonicalize().unwrap_or_else(|_| options.root.clone());
    let url = url("edt", address);
    let (origin, token) = match secret {
        Origin::Environment => ("EDT_TOKEN".to_owned(), "...".to_owned()),
        Origin::File(path) => (path.display().to_string(), "...".to_owned()),
        Origin::Program => ("the calling program".to_owned(), "...".to_owned()),
        Origin::Generated { path, text } => {
            (format!("generated just now, kept in {}, shown this once: {text}", path.display()), text.clone())
        }
    };
    let command = match options.access {
        Access::ReadWrite => format!("edt cp FILE {url}"),
        Access::ReadOnly => format!("edt cp {url}FILE ."),
    };
    format!(
        "root         {}\nurl          {url}\nfingerprint  {fingerprint}\nsecret       {origin}\nclients      EDT_TOKEN={token} {command}",
        root.display()
    )
}

fn url(scheme: &str, address: SocketAddr) -> String {
    let port = address.port();
    if address.ip().is_unspecified() { format!("{scheme}://HOST:{port}/") } else { format!("{scheme}://{address}/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_secret_is_shown_with_the_command_that_uses_it() {
        let secret = Origin::Generated { path: "/c/token".into(), text: "s3cret".into() };
        let text = introduction(&ServeOptions::new("/no-such"), "[::1]:7".parse().unwrap(), "ab:cd", &secret);
        assert!(text.contains("clients      EDT_TOKEN=s3cret edt cp FILE edt://[::1]:7/"), "{text}");
        assert!(text.contains("kept in /c/token") && text.contains("fingerprint  ab:cd") && text.contains("/no-such"));
    }

    #[test]
    fn a_server_that_is_only_read_shows_how_to_read_from_it() {
        let options = ServeOptions { access: Access::ReadOnly, ..ServeOptions::new("/no-such") };
        let text = introduction(&options, "[::1]:7".parse().unwrap(), "ab:cd", &Origin::Environment);
        assert!(text.ends_with("\nclients      EDT_TOKEN=... edt cp edt://[::1]:7/FILE ."), "{text}");
    }

    #[test]
    fn a_server_on_all_addresses_leaves_the_host_to_the_reader() {
        assert_eq!(url("edt", "0.0.0.0:9".parse().unwrap()), "edt://HOST:9/");
    }
}
