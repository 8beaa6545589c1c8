//! Exit codes: the part of every command's answer that scripts read.

use std::io;

use edt::ErrorKind;

/// The exit codes as `edt help` and the man pages show them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    all is there and verified
  1    some items failed (they are listed), or storage failed as a whole
  2    usage: an argument, option or URL cannot be used
  3    refused: unusable or wrong secret, changed identity, or no permission
  4    source or destination missing, unreachable or lost; address not free
  130  interrupted; the same command resumes";

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is there and verified.
    Complete,
    /// Some items failed.
    Incomplete,
    /// An argument cannot be used.
    Usage,
    /// The peer or the system refuses this caller.
    Refused,
    /// An endpoint is missing or cannot be reached.
    Unreachable,
    /// Interrupted by the user or the system.
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Complete => 0,
            Self::Incomplete => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unreachable => 4,
            Self::Interrupted => 130,
        }
    }

    /// The exit for an error that ended a command as a whole.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if is_closed_pipe(error) {
            return Self::Complete;
        }
        error.downcast_ref::<edt::Error>().map_or(Self::Incomplete, |error| Self::of_kind(error.kind()))
    }

    /// The exit for a kind of error that ended a command as a whole.
    pub(crate) fn of_kind(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::InvalidInput | ErrorKind::Unsupported => Self::Usage,
            ErrorKind::Refused | ErrorKind::PermissionDenied => Self::Refused,
            ErrorKind::NotFound
            | ErrorKind::Unreachable
            | ErrorKind::ConnectionLost
            | ErrorKind::Protocol
            | ErrorKind::Throttled => Self::Unreachable,
            ErrorKind::Cancelled => Self::Interrupted,
            _ => Self::Incomplete,
        }
    }

    /// The exit of a command of which some items failed, by the names of the kinds of their errors.
    ///
    /// The gravest failures decide: those that the same command would meet again, such as an item that is missing. Lost connections beside
    /// them do not hide them. A service that refuses all that it was asked for refused as a whole; what only lost its connection, it may be
    /// asked for again.
    pub(crate) fn of_failures<'a>(kinds: impl IntoIterator<Item = &'a str>, nothing_done: bool) -> Self {
        let is = |name: &str, kinds: &[ErrorKind]| kinds.iter().any(|kind| kind.name() == name);
        let (passing, lasting): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|name| is(name, &PASSING));
        match (passing.is_empty(), lasting.is_empty()) {
            (false, true) => Self::Unreachable,
            (_, false) if nothing_done && lasting.iter().all(|name| is(name, &REFUSALS)) => Self::Refused,
            _ => Self::Incomplete,
        }
    }
}

/// The kinds of the errors of items that failed, each once.
#[derive(Debug, Default)]
pub(crate) struct FailedKinds(Vec<&'static str>);

impl FailedKinds {
    pub(crate) fn add(&mut self, kind: ErrorKind) {
        if !self.0.contains(&kind.name()) {
            self.0.push(kind.name());
        }
    }

    /// The exit of a command of which these items failed; without any all is there.
    pub(crate) fn exit(&self, nothing_done: bool) -> Exit {
        if self.0.is_empty() { Exit::Complete } else { Exit::of_failures(self.0.iter().copied(), nothing_done) }
    }
}

/// What the same command may get over: the service was not there, or had too much to do.
const PASSING: [ErrorKind; 3] = [ErrorKind::ConnectionLost, ErrorKind::Unreachable, ErrorKind::Throttled];

/// What another user, or another secret, may be let do.
const REFUSALS: [ErrorKind; 2] = [ErrorKind::Refused, ErrorKind::PermissionDenied];

/// Whether the reader of standard output went away, as `head` does: no failure of the command.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_documented_code_is_the_code_of_some_exit() {
        let exits = [Exit::Complete, Exit::Incomplete, Exit::Usage, Exit::Refused, Exit::Unreachable, Exit::Interrupted];
        let documented: Vec<i32> =
            EXIT_CODES.lines().skip(1).map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
        assert_eq!(documented, exits.map(Exit::code));
    }

    #[test]
    fn an_error_of_the_core_decides_the_exit_by_its_kind() {
        for (kind, code) in [
            (ErrorKind::InvalidInput, 2),
            (ErrorKind::Refused, 3),
            (ErrorKind::NotFound, 4),
            (ErrorKind::Unreachable, 4),
            (ErrorKind::ConnectionLost, 4),
            (ErrorKind::NoSpace, 1),
            (ErrorKind::Corrupted, 1),
            (ErrorKind::Cancelled, 130),
        ] {
            assert_eq!(Exit::of(&edt::Error::new(kind, "x").into()).code(), code, "{kind:?}");
        }
    }

    #[test]
    fn the_gravest_of_the_failures_of_a_transfer_decide() {
        const LOST: &str = "connection-lost";
        let cases: [(&[&str], bool, Exit); 9] = [
            (&[LOST, "unreachable", "throttled"], false, Exit::Unreachable),
            (&[LOST, "not-found", LOST], true, Exit::Incomplete),
            (&[LOST, "no-space"], false, Exit::Incomplete),
            (&["not-found"], true, Exit::Incomplete),
            (&["refused", "permission-denied"], true, Exit::Refused),
            (&["permission-denied", LOST], true, Exit::Refused),
            (&["permission-denied", LOST], false, Exit::Incomplete),
            (&["permission-denied", "not-found", LOST], true, Exit::Incomplete),
            (&[], true, Exit::Incomplete),
        ];
        for (kinds, nothing_done, exit) in cases {
            assert_eq!(Exit::of_failures(kinds.iter().copied(), nothing_done), exit, "{kinds:?}, nothing done: {nothing_done}");
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        assert_eq!(Exit::of(&io::Error::from(io::ErrorKind::BrokenPipe).into()), Exit::Complete);
        assert_eq!(Exit::of(&io::Error::from(io::ErrorKind::NotFound).into()), Exit::Incomplete);
    }
}
