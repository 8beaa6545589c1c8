//! The arguments of `edt learn`: the words that the Python package takes, as they are.

use std::ffi::OsString;

use clap::Args;

const EXPLANATION: &str = "\
Runs `python -m edt.learning` with the same words; they and the exit code are
the package's. It needs the extra `learn`: pip install 'edt[learn]'.

Forms:
  edt learn [OPTIONS]              from the history of this machine's transfers
  edt learn [OPTIONS] FILE.csv...  from logs, in the form of `edt history import`

What was learned before stays: new logs add to it, and nothing counts twice.

Main options:
  --history      from the history too, beside logs
  --output FILE  where the knowledge is kept (default: where
                 `edt cp --optimizer asm` finds it)
  --fresh        forget what was learned before
  --axes KIND    on which axes the splines run: log2 (default) or raw
  --seed N       the same seed and logs give the same knowledge (default: 0)
  --json         print what was learned as JSON on standard output
  --quiet        show no summary

The interpreter is EDT_PYTHON, else the one of the active virtual environment,
else python3.

Examples:
  edt learn && edt cp --optimizer asm data/ edt://host/data/
  edt learn gridftp.csv --output gridftp.json";

#[derive(Debug, Args)]
#[command(after_help = EXPLANATION)]
pub(crate) struct LearnArgs {
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
            Command::Learn(args) => Ok(args.arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_are_passed_on_as_they_are() {
        for words in ["", "--history", "a.csv b.csv --output k.json", "-q --axes raw --help"] {
            let passed = parse(&format!("edt learn {words}")).unwrap();
            assert_eq!(passed, words.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn help_is_our_own() {
        assert_eq!(parse("edt learn --help").unwrap_err(), ErrorKind::DisplayHelp);
    }
}
