//! The arguments of `edt cp`, and the options that they fill.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use edt::TransferOptions;
use edt::optimizer::{self, PolicyName};
use edt::options::{Digest, Fsync, Overwrite, Remember, RunMode, Selection, Symlinks};

use super::{ConnectArgs, HostArgs, chosen, values};
use crate::exit::EXIT_CODES;

const EXAMPLES: &str = "\
`cp SRC DST` copies a file to a file, or a directory's content into DST; several
sources need a directory, in which each keeps its name. A pattern in quotes is
expanded at the source: 'edt://host/runs/*.h5'. Files appear under their names
only complete and verified; after an interruption the same command sends only
what is missing.

Examples:
  edt cp results/ edt://host/results/
  edt cp --sync --exclude '*.tmp' data/ edt://host/data/
  edt cp --files-from runs.txt edt://host/runs/ runs/
  edt cp --limit-rate 800Mbit edt://host/archive/ archive/";

// Each flag of the command line is a bool.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct CopyArgs {
    /// Optimizer that tunes the concurrency (default: auto; fixed with --concurrency or --policy fixed)
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(optimizer::NAMES), help_heading = "Tuning")]
    pub(crate) optimizer: Option<String>,
    /// Agent file of the optimizers `edt`, `automdt` and `drl`, as `edt train` writes it (default: the one kept for SRC and DST)
    #[arg(long, value_name = "FILE", requires = "optimizer", help_heading = "Tuning")]
    pub(crate) agent: Option<PathBuf>,
    /// Knowledge file of the optimizer `asm`, as `edt learn` writes it (default: the one that it keeps)
    #[arg(long, value_name = "FILE", requires = "optimizer", help_heading = "Tuning")]
    pub(crate) knowledge: Option<PathBuf>,
    /// Let an agent take the mean, or the most likely move (default: it samples, as the papers do)
    #[arg(long, help_heading = "Tuning")]
    pub(crate) deterministic: bool,
    /// Seed of an agent's sampling: the same observations give the same decisions
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Tuning")]
    pub(crate) seed: u64,
    /// Streams and workers per stage that the optimizer `fixed` keeps, and so chooses it (default: 4)
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub(crate) concurrency: Option<NonZeroU16>,
    /// How hard to compete with others on the path; `fixed` keeps a constant concurrency
    #[arg(long, value_name = "NAME", value_enum, default_value = "fair", help_heading = "Tuning")]
    pub(crate) policy: PolicyArg,
    /// Most bytes per second (100MB, 100M, 95MiB) or bits per second (800Mbit) of the whole transfer (default: no limit)
    #[arg(long, value_name = "RATE", value_parser = values::rate, help_heading = "Tuning")]
    pub(crate) limit_rate: Option<f64>,
    /// Most bytes per second that each worker of this side reads or writes, at least 100kB, as on storage that limits every process (default: no limit)
    #[arg(long, value_name = "RATE", value_parser = values::rate, help_heading = "Tuning")]
    pub(crate) worker_rate: Option<f64>,
    /// Most streams, and most workers per stage
    #[arg(long, value_name = "N", default_value = "64", help_heading = "Tuning")]
    pub(crate) max_streams: NonZeroU16,
    /// Most chunks of one file in flight at once; 1 sends each file whole on one stream (default: no limit)
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub(crate) parallelism: Option<NonZeroU16>,
    /// Most chunks that a stream may have unacknowledged; 0 opens a new connection for each chunk or small file (default: no limit)
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub(crate) pipelining: Option<u16>,
    /// TCP congestion control of the streams, as the sending machine names it: cubic, bbr, reno (default: the system's)
    #[arg(long, value_name = "NAME", help_heading = "Tuning")]
    pub(crate) congestion: Option<String>,
    /// Bytes of a chunk, with units k, M, G or KiB, MiB, GiB (default: what the path moves in 0.1 s, 16MiB to 64MiB)
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "Tuning")]
    pub(crate) chunk_size: Option<u64>,
    /// Seconds between two decisions (default: ten round trips, 1 to 5; eight for `auto` and `model`, 0.5 to 5, unless SRC or DST is a service)
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds, help_heading = "Tuning")]
    pub(crate) interval: Option<Duration>,
    /// Copy only the files and directories that FILE (`-`: standard input) lists, one a line, relative to SRC (default: all of SRC)
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub(crate) files_from: Option<PathBuf>,
    /// Name of this transfer: it goes on where the last one of its name between SRC and DST ended, whatever files that chose (default: none)
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    pub(crate) name: Option<String>,
    /// Copy only files that match PATTERN; may be repeated (default: all files)
    #[arg(long, value_name = "PATTERN", help_heading = "Selection")]
    pub(crate) include: Vec<String>,
    /// Leave out files and directories that match PATTERN; may be repeated, wins over --include (default: none)
    #[arg(long, value_name = "PATTERN", help_heading = "Selection")]
    pub(crate) exclude: Vec<String>,
    /// Send only files whose size or modification time differs at the destination (default: all)
    #[arg(long, help_heading = "Selection")]
    pub(crate) sync: bool,
    /// With --sync, remove from the destination what the source does not have (default: keep)
    #[arg(long, requires = "sync", help_heading = "Selection")]
    pub(crate) delete: bool,
    /// Fail a file rather than replace one of its name (default: replace)
    #[arg(long, help_heading = "Selection")]
    pub(crate) no_overwrite: bool,
    /// What becomes of symbolic links: kept as links, followed, or left out
    #[arg(long, value_name = "HOW", value_enum, default_value = "keep", help_heading = "Selection")]
    pub(crate) symlinks: SymlinksArg,
    /// When to force data to stable storage: never, before each rename, or also each directory before its file counts as done
    #[arg(long, value_name = "WHEN", value_enum, default_value = "file", help_heading = "Integrity")]
    pub(crate) fsync: FsyncArg,
    /// Digest of whole files in the manifest, beside the crc64nvme that is always there
    #[arg(long, value_name = "NAME", value_enum, default_value = "blake3", help_heading = "Integrity")]
    pub(crate) digest: DigestArg,
    /// Write files, sizes and digests to FILE as JSON lines, for `edt verify`; a dry run does not (default: not written)
    #[arg(long, value_name = "FILE", help_heading = "Integrity")]
    pub(crate) manifest: Option<PathBuf>,
    /// Print one JSON event per line on standard output, the report last (default: nothing there)
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Write the report to FILE as JSON (default: not written)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,
    /// Keep no record of this transfer for `edt history` (default: keep one, unless `EDT_HISTORY` says `off`)
    #[arg(long, help_heading = "Output")]
    pub(crate) no_history: bool,
    /// Print what would be copied, and change nothing (default: copy)
    #[arg(long, help_heading = "Output")]
    pub(crate) dry_run: bool,
    /// Show neither progress nor summary, only failures (default: both, progress only on a terminal)
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Name each file, retry and decision as it happens (default: not)
    #[arg(short, long, help_heading = "Output")]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// What to copy: paths, URLs or quoted patterns
    #[arg(required = true, num_args = 1.., value_name = "SRC", value_parser = values::endpoint())]
    pub(crate) sources: Vec<String>,
    /// Where to: a path or URL
    #[arg(required = true, value_name = "DST", value_parser = values::endpoint())]
    pub(crate) destination: String,
}

impl CopyArgs {
    /// The options of the transfer, validated.
    pub(crate) fn options(&self) -> edt::Result<TransferOptions> {
        let mut options = TransferOptions {
            optimizer: self.optimizer()?,
            agent: self.agent.clone(),
            knowledge: self.knowledge.clone(),
            deterministic: self.deterministic,
            seed: self.seed,
            policy: self.policy.into(),
            limit_rate: self.limit_rate,
            worker_rate: self.worker_rate,
            max_streams: self.max_streams,
            parallelism: self.parallelism,
            pipelining: self.pipelining,
            congestion: self.congestion.clone(),
            chunk_size: self.chunk_size,
            interval: self.interval,
            files: self.files_from.as_deref().map(chosen::files).transpose()?,
            name: self.name.clone(),
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            selection: self.selection(),
            overwrite: if self.no_overwrite { Overwrite::Never } else { Overwrite::Replace },
            symlinks: self.symlinks.into(),
            fsync: self.fsync.into(),
            digest: self.digest.into(),
            run: if self.dry_run { RunMode::DryRun } else { RunMode::Copy },
            manifest: self.manifest.clone(),
            host: self.host.limits(),
            history: if self.no_history { Remember::Nothing } else { Remember::Environment },
            ..TransferOptions::default()
        };
        if let Some(concurrency) = self.concurrency {
            options.concurrency = concurrency.get();
        }
        self.connect.fill(&mut options);
        options.validate()?;
        Ok(options)
    }

    fn selection(&self) -> Selection {
        match (self.sync, self.delete) {
            (false, _) => Selection::All,
            (true, false) => Selection::Changed,
            (true, true) => Selection::Mirror,
        }
    }

    fn optimizer(&self) -> edt::Result<String> {
        let fixed = self.concurrency.is_some() || matches!(self.policy, PolicyArg::Fixed);
        match self.optimizer.as_deref() {
            None if fixed => Ok("fixed".to_owned()),
            None => Ok(TransferOptions::default().optimizer),
            Some(name) if fixed && name != "fixed" => Err(edt::Error::new(
                edt::ErrorKind::InvalidInput,
                format!("the optimizer `{name}` keeps no fixed concurrency"),
            )
            .with_hint(
                "use --optimizer fixed, or leave out --concurrency and --policy fixed; --max-streams limits every optimizer",
            )),
            Some(name) => Ok(name.to_owned()),
        }
    }
}

/// Makes an enum of argument values that stands for an enum of the core's options, name for name.
macro_rules! argument_values {
    ($name:ident for $target:ident { $($(#[$doc:meta])* $value:ident),+ $(,)? }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub(crate) enum $name { $($(#[$doc])* $value),+ }

        impl From<$name> for $target {
            fn from(value: $name) -> Self {
                match value { $($name::$value => Self::$value),+ }
            }
        }
    };
}

argument_values!(PolicyArg for PolicyName {
    /// A good neighbour: a stream must bring about 2 % to be kept
    Fair,
    /// Ahead of others: a stream must bring 0.5 %
    High,
    /// Behind others: a stream must bring 5 %
    Low,
    /// A constant concurrency
    Fixed,
});
argument_values!(SymlinksArg for Symlinks {
    /// Made again as links
    Keep,
    /// What they point to is copied in their place
    Follow,
    /// Left out
    Skip,
});
argument_values!(FsyncArg for Fsync {
    /// Never: a crash of the machine may lose files reported as done
    None,
    /// The data before each rename, directories at the end
    File,
    /// The data and the directory of every file before it is reported as done
    Full,
});
argument_values!(DigestArg for Digest {
    /// As `b3sum` prints it
    Blake3,
    /// None beyond the crc64nvme
    None,
});

#[cfg(test)]
mod tests {
    use edt::options::{HostLimits, Sharing};

    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    fn parse(arguments: &str) -> CopyArgs {
        let line = format!("edt cp {arguments} src dst");
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Command::Cp(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_option_at_all_gives_the_defaults_of_the_core() {
        let (ours, core) = (parse("").options().unwrap(), TransferOptions::default());
        assert_eq!(format!("{ours:?}"), format!("{core:?}"));
    }

    #[test]
    fn the_last_argument_is_the_destination() {
        let args = parse("one two");
        assert_eq!((args.sources, args.destination.as_str()), (vec!["one".into(), "two".into(), "src".into()], "dst"));
    }

    #[test]
    fn a_concurrency_chooses_the_fixed_optimizer() {
        let options = parse("--concurrency 7").options().unwrap();
        assert_eq!((options.optimizer.as_str(), options.concurrency), ("fixed", 7));
        assert_eq!(parse("--policy fixed").options().unwrap().optimizer, "fixed");
        assert!(parse("--concurrency 7 --optimizer falcon").options().is_err());
    }

    #[test]
    fn an_agent_reaches_the_transfer_and_only_an_optimizer_that_takes_one() {
        let options = parse("--optimizer edt --agent a --deterministic --seed 7").options().unwrap();
        assert_eq!((options.agent, options.deterministic, options.seed), (Some("a".into()), true, 7));
        let error = parse("--optimizer falcon --agent a").options().unwrap_err();
        assert_eq!(error.what(), "the optimizer `falcon` takes no agent");
    }

    #[test]
    fn sync_and_delete_select_files() {
        assert_eq!(parse("--sync").options().unwrap().selection, Selection::Changed);
        assert_eq!(parse("--sync --delete").options().unwrap().selection, Selection::Mirror);
    }

    #[test]
    fn every_option_reaches_the_transfer() {
        let options = parse(
            "--limit-rate 800Mbit --max-streams 9 --chunk-size 1MiB --interval 0.5 --include *.a --exclude *.b --no-overwrite \
             --symlinks skip --fsync full --digest none --dry-run --manifest m --token-file t --plain --known-hosts k --policy low --no-history \
             --host-streams 7 --server-streams 5 --host-memory 1GiB --host-rate 80Mbit",
        )
        .options()
        .unwrap();
        assert_eq!((options.limit_rate, options.max_streams.get(), options.chunk_size), (Some(1e8), 9, Some(1 << 20)));
        assert_eq!(options.interval, Some(Duration::from_millis(500)));
        assert_eq!((options.include, options.exclude), (vec!["*.a".to_owned()], vec!["*.b".to_owned()]));
        assert_eq!((options.overwrite, options.symlinks), (Overwrite::Never, Symlinks::Skip));
        assert_eq!((options.fsync, options.digest, options.run), (Fsync::Full, Digest::None, RunMode::DryRun));
        assert_eq!((options.manifest, options.known_hosts), (Some("m".into()), Some("k".into())));
        assert_eq!(options.history, Remember::Nothing);
        let (streams, server_streams) = (NonZeroU16::new(7), NonZeroU16::new(5));
        let host = HostLimits { streams, server_streams, memory: Some(1 << 30), rate: Some(1e7), ..HostLimits::default() };
        assert_eq!(options.host, host);
        assert_eq!(parse("--no-broker").options().unwrap().host.sharing, Sharing::Apart);
        assert_eq!(options.secret, edt::options::SecretSource::File("t".into()));
        assert_eq!((options.plain, options.policy), (edt::options::Plain::Anywhere, PolicyName::Low));
    }
}
