//! The arguments of `edt train`: the words that the Python package takes, as they are.

use std::ffi::OsString;

use clap::Args;

const EXPLANATION: &str = "\
Runs `python -m edt.training` with the same words; they and the exit code are
the package's. It needs the extra `train`: pip install 'edt[train]'.

Forms:
  edt train [OPTIONS] SRC DST      the path that `edt explore SRC DST` measured
  edt train [OPTIONS] --path FILE  the path in a file of `edt explore --output FILE`
  edt train --generalist --output DIR  the policy of the optimizer `generalist`, for
                           all paths: what edt was built with, to train it anew

Main options:
  --agent edt|automdt|drl  which agent (edt: one concurrency; automdt: one for
                           each stage; drl: steps of -3 to 3)
  --max-streams N          most streams that it asks for (default: three times the
                           optimum)
  --seconds LIMIT          end the training after this time
  --stationary             train on the path as it is, never with less capacity
  --paper                  train as the papers do: one update an episode
  --seed N                 the same seed trains the same agent
  --output FILE            where to write the agent (default: kept for the pair
                           of machines, where `edt cp --optimizer NAME` finds it)
  --plot FILE              draw the training curve
  --onnx FILE              write the network as ONNX too
  --json                   print the report as JSON on standard output
  --quiet                  show neither progress nor summary

The exit code is 1 where the agent was kept but did not reach 0.9 of the best
reward.

The interpreter is EDT_PYTHON, else the one of the active virtual environment,
else python3.

Examples:
  edt explore zero: edt://host/ && edt train zero: edt://host/
  edt cp --optimizer edt data/ edt://host/data/";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXPLANATION)]
pub(crate) struct TrainArgs {
    /// Passed on as they are
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;
    use clap::error::ErrorKind;

    fn parse(line: &str) -> Result<Vec<OsString>, ErrorKind> {
        let cli = Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.kind())?;
        match cli.command {
            Command::Train(args) => Ok(args.arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_are_passed_on_as_they_are() {
        for words in ["--path a.json --quiet", "zero: edt://host/ --agent edt", "-q --seed 7 --help", "a -- --b -c=d"] {
            let passed = parse(&format!("edt train {words}")).unwrap();
            assert_eq!(passed, words.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn help_is_our_own_and_so_is_that_without_any_word() {
        assert_eq!(parse("edt train --help").unwrap_err(), ErrorKind::DisplayHelp);
        assert_eq!(parse("edt train").unwrap_err(), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
    }
}
