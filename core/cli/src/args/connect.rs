//! How to come to a server and prove who calls: the same options for every command that does.

use std::path::PathBuf;

use clap::Args;
use edt::TransferOptions;
use edt::options::{Plain, SecretSource};

#[derive(Debug, Default, Args)]
pub(crate) struct ConnectArgs {
    /// Read the shared secret from the first line of FILE (default: `EDT_TOKEN`, then `token` in the configuration directory)
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub(crate) token_file: Option<PathBuf>,
    /// Go without encryption beyond loopback too; the server must say so as well (default: encrypted beyond loopback)
    #[arg(long, help_heading = "Security")]
    pub(crate) plain: bool,
    /// Keep the pinned identities of servers in FILE (default: `known_hosts` in the configuration directory)
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub(crate) known_hosts: Option<PathBuf>,
}

impl ConnectArgs {
    /// The options of a command that moves no data.
    pub(crate) fn options(&self) -> TransferOptions {
        let mut options = TransferOptions::default();
        self.fill(&mut options);
        options
    }

    pub(crate) fn fill(&self, options: &mut TransferOptions) {
        options.secret = secret(self.token_file.as_ref());
        options.plain = plain(self.plain);
        options.known_hosts.clone_from(&self.known_hosts);
    }
}

pub(super) fn secret(file: Option<&PathBuf>) -> SecretSource {
    file.map_or(SecretSource::Environment, |file| SecretSource::File(file.clone()))
}

pub(super) fn plain(anywhere: bool) -> Plain {
    if anywhere { Plain::Anywhere } else { Plain::LoopbackOnly }
}
