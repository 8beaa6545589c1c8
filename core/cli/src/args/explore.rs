//! The arguments of `edt explore`, and the options that they fill.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use edt::explore::ExploreOptions;
use edt::optimizer::explore::Stages;
use edt::{Error, ErrorKind};

use super::{ConnectArgs, values};
use crate::exit::EXIT_CODES;

const EXPLANATION: &str = "\
With one stage, bytes go from memory to memory: of SRC and DST only the machines
count (a path, zero: or null: is this one), and no file is touched. With three
stages the data of SRC is copied again and again into a scratch directory below
DST, which is removed at the end.

The measurements are kept for the pair of machines, in the directory `paths` of
EDT_DATA_DIR (default: ~/.local/share/edt on Linux), where `edt train` finds them.

Examples:
  edt explore zero: edt://host/
  edt explore --seconds 60 --stages 3 sample/ edt://host/scratch/
  edt explore --report monday.json --report tuesday.json data/ edt://host/data/";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXPLANATION}\n\n{EXIT_CODES}"))]
pub(crate) struct ExploreArgs {
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = values::seconds)]
    pub(crate) seconds: Duration,
    /// Stages with a concurrency of their own: 1, or 3 for read, network and write
    #[arg(long, value_name = "N", default_value = "1", value_parser = PossibleValuesParser::new(["1", "3"]))]
    pub(crate) stages: String,
    /// Most streams, and most workers per stage: what is tried is drawn from 1 to N
    #[arg(long, value_name = "N", default_value = "64")]
    pub(crate) max_streams: NonZeroU16,
    /// The same seed tries the same numbers
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,
    /// Seconds of one measurement
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = values::seconds)]
    pub(crate) interval: Duration,
    /// Most bytes per second that a worker of this side reads or writes, at least 100kB, with three stages (default: no limit)
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) worker_rate: Option<f64>,
    /// Measure nothing, and take the intervals of past transfers from FILE, which `edt cp --report FILE` wrote; may be repeated (default: measure)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "max_streams", "seed", "interval", "worker_rate"])]
    pub(crate) report: Vec<PathBuf>,
    /// Write the measurements to FILE (default: keep them for the pair of machines)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Print the measurements on standard output as one JSON object (default: a table of the estimates)
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// From where: a path or URL
    #[arg(value_name = "SRC", value_parser = values::endpoint())]
    pub(crate) source: String,
    /// To where: a path or URL
    #[arg(value_name = "DST", value_parser = values::endpoint())]
    pub(crate) destination: String,
}

impl ExploreArgs {
    pub(crate) fn stages(&self) -> Stages {
        if self.stages == "3" { Stages::Three } else { Stages::One }
    }

    /// The options of the exploration, validated.
    pub(crate) fn options(&self) -> edt::Result<ExploreOptions> {
        if self.seconds < 2 * self.interval {
            let text = "an exploration takes at least twice as long as one of its measurements";
            return Err(Error::new(ErrorKind::InvalidInput, text).with_hint("choose more --seconds"));
        }
        if self.worker_rate.is_some() && self.stages() == Stages::One {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "from memory to memory there is no storage whose workers have a rate",
            )
            .with_hint("use --worker-rate with --stages 3"));
        }
        let mut options = ExploreOptions { duration: self.seconds, stages: self.stages(), seed: self.seed, ..Default::default() };
        options.transfer.interval = Some(self.interval);
        options.transfer.max_streams = self.max_streams;
        options.transfer.worker_rate = self.worker_rate;
        self.connect.fill(&mut options.transfer);
        options.transfer.validate()?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    fn parse(arguments: &str) -> Result<ExploreArgs, clap::Error> {
        let line = format!("edt explore {arguments} data edt://host/");
        Cli::try_parse_from(line.split_whitespace()).map(|cli| match cli.command {
            Command::Explore(args) => *args,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn no_option_at_all_gives_the_defaults_of_the_core() {
        let (ours, core) = (parse("").unwrap().options().unwrap(), ExploreOptions::default());
        assert_eq!(format!("{ours:?}"), format!("{core:?}"));
    }

    #[test]
    fn each_option_says_the_same_to_the_core() {
        let options = parse("--stages 3 --seconds 60 --max-streams 9 --seed 7 --interval 0.5 --worker-rate 10MB").unwrap();
        let options = options.options().unwrap();
        assert_eq!((options.stages, options.seed, options.duration), (Stages::Three, 7, Duration::from_mins(1)));
        let transfer = options.transfer;
        assert_eq!((transfer.max_streams.get(), transfer.interval), (9, Some(Duration::from_millis(500))));
        assert_eq!(transfer.worker_rate, Some(1e7));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in ["--seconds 1", "--worker-rate 1MB", "--stages 3 --worker-rate 1kB", "--interval 0.01"] {
            assert_eq!(parse(bad).unwrap().options().unwrap_err().kind(), ErrorKind::InvalidInput, "{bad}");
        }
        for bad in ["--stages 2", "--max-streams 0", "--report a.json --seconds 9"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
