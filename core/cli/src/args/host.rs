//! The limits of the host, which a transfer shares with all others, and the arguments of `edt jobs`.

use std::num::NonZeroU16;

use clap::Args;
use edt::options::{HostLimits, Sharing};

use super::values;
use crate::exit::EXIT_CODES;

#[derive(Debug, Default, Args)]
pub(crate) struct HostArgs {
    /// Most streams of all transfers of this host together (default: `EDT_HOST_STREAMS`, else 256)
    #[arg(long, value_name = "N", help_heading = "Sharing this host")]
    pub(crate) host_streams: Option<NonZeroU16>,
    /// Most streams of all transfers of this host to one server or service (default: `EDT_SERVER_STREAMS`, else 64)
    #[arg(long, value_name = "N", help_heading = "Sharing this host")]
    pub(crate) server_streams: Option<NonZeroU16>,
    /// Most bytes in buffers of all transfers of this host together (default: `EDT_HOST_MEMORY`, else a quarter of the memory)
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "Sharing this host")]
    pub(crate) host_memory: Option<u64>,
    /// Most bytes per second of all transfers of this host together, as in --limit-rate (default: `EDT_HOST_RATE`, else no limit)
    #[arg(long, value_name = "RATE", value_parser = values::rate, help_heading = "Sharing this host")]
    pub(crate) host_rate: Option<f64>,
    /// Neither heed other transfers of this host nor count among them (default: share with them, unless `EDT_BROKER` says `off`)
    #[arg(long, conflicts_with_all = ["host_streams", "server_streams", "host_memory", "host_rate"], help_heading = "Sharing this host")]
    pub(crate) no_broker: bool,
}

impl HostArgs {
    pub(crate) fn limits(&self) -> HostLimits {
        HostLimits {
            sharing: if self.no_broker { Sharing::Apart } else { Sharing::Environment },
            streams: self.host_streams,
            server_streams: self.server_streams,
            memory: self.host_memory,
            rate: self.host_rate,
        }
    }
}

const SHARING: &str = "\
Transfers of one host share its streams, its memory and, with --host-rate, a
rate: max-min fair, by the weight of their --policy (high 4, fair 2, low 1).
What one does not need goes to the others. No service runs for that: they meet
in a directory of this user, or in EDT_BROKER_DIR.

The limits are options of `edt cp`, as --host-streams, or EDT_HOST_STREAMS,
EDT_SERVER_STREAMS, EDT_HOST_MEMORY and EDT_HOST_RATE; where transfers say
different things, the least holds. EDT_BROKER=off leaves a transfer out.";

/// Each line is a process, its age, its server, its streams and its share of them, its rate, its memory.
#[derive(Debug, Args)]
#[command(after_help = format!("{SHARING}\n\n{EXIT_CODES}"))]
pub(crate) struct JobsArgs {
    /// Print one JSON object (default: text)
    #[arg(long)]
    pub(crate) json: bool,
}
