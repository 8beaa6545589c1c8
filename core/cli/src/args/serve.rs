//! The arguments of `edt serve`.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use edt::ServeOptions;
use edt::options::Access;

use super::{connect, values};
use crate::exit::EXIT_CODES;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ServeArgs {
    /// Listen there; port 0 takes a free port, which standard output tells
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7632")]
    pub(crate) listen: String,
    /// Serve the same directory to Arrow Flight clients as well; port 0 takes a free port, which standard output tells (default: not)
    #[cfg(feature = "flight")]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) flight: Option<String>,
    /// Let clients read only (default: they may read and write)
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Read the shared secret from the first line of FILE (default: `EDT_TOKEN`, then `token` in the configuration directory, where a new one is made)
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Use the certificate chain in FILE, PEM (default: an own identity that clients pin on first use)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Use the private key in FILE, PEM (default: an own one)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let clients beyond loopback come without encryption; they must say so as well (default: encrypted beyond loopback)
    #[arg(long)]
    pub(crate) plain: bool,
    /// Sessions at once; further ones are refused
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_sessions: usize,
    /// Streams of one session
    #[arg(long, value_name = "N", default_value = "128")]
    pub(crate) max_streams: NonZeroU16,
    /// Most bytes per second that each worker of a session reads or writes, at least 100kB, as on storage that limits every process (default: no limit)
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) worker_rate: Option<f64>,
    /// The directory that clients see as the root and never leave
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

impl ServeArgs {
    pub(crate) fn options(&self) -> ServeOptions {
        let mut options = ServeOptions::new(&self.directory);
        options.listen.clone_from(&self.listen);
        options.secret = connect::secret(self.token_file.as_ref());
        options.access = if self.read_only { Access::ReadOnly } else { Access::ReadWrite };
        options.certificate = self.tls_cert.clone().zip(self.tls_key.clone());
        options.plain = connect::plain(self.plain);
        options.max_sessions = self.max_sessions;
        options.max_streams = self.max_streams;
        options.worker_rate = self.worker_rate;
        options
    }
}
