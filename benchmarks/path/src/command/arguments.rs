//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use edt_path::{Congestion, PathOptions, Profile, Rate, Schedule};

/// A network path on this machine: rate, delay, loss and per-stream caps between two network namespaces
#[derive(Parser)]
#[command(name = "edt-path", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Makes a path; prints a line of JSON once it is ready, and removes it on SIGTERM or SIGINT
    Run(Box<Run>),
    /// Lists the profiles with their parameters, one JSON object per line
    Profiles,
}

#[derive(Args)]
pub(crate) struct Run {
    /// Parameters to start from; see `edt-path profiles`
    #[arg(long, default_value = "cloudlab")]
    profile: String,
    /// Rate of the bottleneck in bits per second of IP packets: 1G, 150M, or `none`
    #[arg(long, value_parser = edt_path::rate)]
    rate: Option<Rate>,
    /// Round trip time of the empty path: 67ms
    #[arg(long, value_parser = edt_path::duration)]
    rtt: Option<Duration>,
    /// Rate of each flow in bits per second, or `none`
    #[arg(long, value_parser = edt_path::rate)]
    stream_rate: Option<Rate>,
    /// Share of packets lost at random: 0.1%
    #[arg(long, value_parser = edt_path::share)]
    loss: Option<f64>,
    /// Limit of the bottleneck's queue in bytes: 64KiB [default: rate times RTT]
    #[arg(long, value_parser = edt_path::bytes)]
    queue: Option<u64>,
    /// Limit of each flow's queue in bytes [default: stream rate times RTT]
    #[arg(long, value_parser = edt_path::bytes)]
    stream_queue: Option<u64>,
    /// Largest IP packet in bytes [default: 9000]
    #[arg(long)]
    mtu: Option<u16>,
    /// Congestion control at both ends [default: cubic]
    #[arg(long, value_enum)]
    congestion: Option<Congestion>,
    /// JSON file with what changes when; see benchmarks/path/README.md
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Seed of the random losses [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// File that gets a line of JSON every second
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Name of the path: its namespaces are edt-NAME-near and edt-NAME-far [default: the process id]
    #[arg(long)]
    name: Option<String>,
    /// Command to run at the near end instead of waiting for a signal; `$EDT_PATH_FAR` is the address of the far end
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl Run {
    /// The profile, with what the command line says instead.
    pub(crate) fn options(&self) -> anyhow::Result<PathOptions> {
        let profile = Profile::named(&self.profile)
            .with_context(|| format!("there is no profile `{}`; `edt-path profiles` lists them", self.profile))?;
        let base = profile.options;
        let schedule = self.schedule.as_ref().map(|file| -> anyhow::Result<Schedule> {
            let text = std::fs::read_to_string(file).with_context(|| format!("could not read `{}`", file.display()))?;
            Ok(Schedule::parse(&text)?)
        });
        let options = PathOptions {
            rate: self.rate.unwrap_or(base.rate),
            rtt: self.rtt.unwrap_or(base.rtt),
            stream_rate: self.stream_rate.unwrap_or(base.stream_rate),
            loss: self.loss.unwrap_or(base.loss),
            queue: self.queue.or(base.queue),
            stream_queue: self.stream_queue.or(base.stream_queue),
            mtu: self.mtu.unwrap_or(base.mtu),
            congestion: self.congestion.unwrap_or(base.congestion),
            cliff: base.cliff,
            schedule: schedule.transpose()?.unwrap_or(base.schedule),
            seed: self.seed.unwrap_or(base.seed),
        };
        Ok(options.validated()?)
    }

    /// The name of the path.
    #[cfg(target_os = "linux")]
    pub(crate) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| std::process::id().to_string())
    }
}
