//! The one error of the crate: what failed, where, why, whether a retry can help, and what to do.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::path::RelativePath;

/// The result of every fallible function of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in the words that a caller decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The named file or directory does not exist.
    NotFound,
    /// The operating system or the store denies this user the access.
    PermissionDenied,
    /// Something that must not be replaced stands where the file should go.
    AlreadyExists,
    /// The name leads to a directory where a file is needed, or the other way round.
    WrongType,
    /// The device or the quota is full.
    NoSpace,
    /// An argument, option, URL or name cannot be used.
    InvalidInput,
    /// The store or the peer cannot do what was asked.
    Unsupported,
    /// The peer refuses this caller: wrong secret, unknown identity, read-only root.
    Refused,
    /// No connection to the peer can be made.
    Unreachable,
    /// An established connection broke or fell silent.
    ConnectionLost,
    /// Bytes differ from their digest.
    Corrupted,
    /// The source file changed while or since it was read.
    SourceChanged,
    /// The peer broke the wire protocol.
    Protocol,
    /// The store asks for fewer requests.
    Throttled,
    /// The caller cancelled the transfer.
    Cancelled,
    /// An optimizer failed; only the tuning ends.
    Optimizer,
    /// Any other failure of storage or operating system.
    Io,
}

/// Whether the same operation may succeed when it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It may, after a short wait.
    Temporary,
    /// It may, once the store's own wait has passed.
    Throttled,
    /// It cannot.
    Never,
}

const KINDS: [ErrorKind; 17] = [
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::AlreadyExists,
    ErrorKind::WrongType,
    ErrorKind::NoSpace,
    ErrorKind::InvalidInput,
    ErrorKind::Unsupported,
    ErrorKind::Refused,
    ErrorKind::Unreachable,
    ErrorKind::ConnectionLost,
    ErrorKind::Corrupted,
    ErrorKind::SourceChanged,
    ErrorKind::Protocol,
    ErrorKind::Throttled,
    ErrorKind::Cancelled,
    ErrorKind::Optimizer,
    ErrorKind::Io,
];

impl ErrorKind {
    /// Says whether a retry can help.
    pub fn retry(self) -> Retry {
        match self {
            Self::Unreachable | Self::ConnectionLost | Self::Corrupted | Self::SourceChanged => Retry::Temporary,
            Self::Throttled => Retry::Throttled,
            _ => Retry::Never,
        }
    }

    /// The stable number of this kind on the wire, from 1.
    pub fn code(self) -> u8 {
        KINDS.iter().zip(1u8..).find(|(kind, _)| **kind == self).map_or(0, |(_, code)| code)
    }

    /// The kind behind a wire number; an unknown number is [`ErrorKind::Io`].
    pub fn from_code(code: u8) -> Self {
        usize::from(code).checked_sub(1).and_then(|index| KINDS.get(index)).copied().unwrap_or(Self::Io)
    }

    /// The name of the kind in JSON events and reports, for example `not-found`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::PermissionDenied => "permission-denied",
            Self::AlreadyExists => "already-exists",
            Self::WrongType => "wrong-type",
            Self::NoSpace => "no-space",
            Self::InvalidInput => "invalid-input",
            Self::Unsupported => "unsupported",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectionLost => "connection-lost",
            Self::Corrupted => "corrupted",
            Self::SourceChanged => "source-changed",
            Self::Protocol => "protocol",
            Self::Throttled => "throttled",
            Self::Cancelled => "cancelled",
            Self::Optimizer => "optimizer",
            Self::Io => "io",
        }
    }
}

/// A failure: what could not be done and where, its cause, and a hint.
///
/// `Display` prints what failed and the cause on one line; [`Error::explain`] prints the three lines for people.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    cause: Option<Arc<str>>,
    hint: Option<String>,
    after: Option<Duration>,
    path: Option<Arc<RelativePath>>,
}

impl Error {
    /// Makes an error; `what` names the operation and the place, in lower case with values in backticks.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), cause: None, hint: None, after: None, path: None }
    }

    /// Makes an error from an I/O error, whose kind decides this kind and a default hint.
    pub fn io(what: impl Into<String>, source: &io::Error) -> Self {
        let kind = kind_of(source);
        let mut error = Self::new(kind, what).with_cause(source);
        error.hint = default_hint(kind).map(str::to_owned);
        error
    }

    /// For a file that an option names: that it does not exist, or is none, is a mistake in the option.
    #[must_use]
    pub(crate) fn into_usage(mut self) -> Self {
        if matches!(self.kind, ErrorKind::NotFound | ErrorKind::WrongType) {
            self.kind = ErrorKind::InvalidInput;
        }
        self
    }

    /// Adds the cause, replacing an earlier one.
    #[must_use]
    pub fn with_cause(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(Arc::from(cause.to_string()));
        self
    }

    /// Adds what the reader can do about it, replacing an earlier hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds how long a throttling store asks to wait.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.after = Some(after);
        self
    }

    /// Names the item of a store that the error is about, where only the message would tell.
    #[must_use]
    pub fn about(mut self, path: &RelativePath) -> Self {
        self.path = Some(Arc::new(path.clone()));
        self
    }

    /// The item of a store that the error is about, if a listing named it.
    pub fn path(&self) -> Option<&RelativePath> {
        self.path.as_deref()
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What could not be done, and where.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Why, if known.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// What to do about it, if known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// How long a throttling store asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.after
    }

    /// Whether a retry can help.
    pub fn retry(&self) -> Retry {
        self.kind.retry()
    }

    /// The error for people: what failed, then `source:` and `hint:` lines where they are known.
    pub fn explain(&self) -> String {
        let mut text = self.what.clone();
        if let Some(cause) = &self.cause {
            text.push_str("\nsource: ");
            text.push_str(cause);
        }
        if let Some(hint) = &self.hint {
            text.push_str("\nhint: ");
            text.push_str(hint);
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}

impl std::error::Error for Error {}

fn kind_of(error: &io::Error) -> ErrorKind {
    use io::ErrorKind as Io;
    match error.kind() {
        Io::NotFound => ErrorKind::NotFound,
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
        Io::AlreadyExists | Io::DirectoryNotEmpty => ErrorKind::AlreadyExists,
        Io::NotADirectory | Io::IsADirectory => ErrorKind::WrongType,
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => ErrorKind::NoSpace,
        Io::InvalidInput | Io::InvalidFilename => ErrorKind::InvalidInput,
        Io::ConnectionRefused | Io::HostUnreachable | Io::NetworkUnreachable | Io::AddrNotAvailable | Io::AddrInUse => {
            ErrorKind::Unreachable
        }
        Io::ConnectionReset
        | Io::ConnectionAborted
        | Io::BrokenPipe
        | Io::UnexpectedEof
        | Io::TimedOut
        | Io::NotConnected
        | Io::WouldBlock => ErrorKind::ConnectionLost,
        _ => ErrorKind::Io,
    }
}

fn default_hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NoSpace => Some("free space or raise the quota at the destination, then run the same command to resume"),
        ErrorKind::PermissionDenied => Some("check the owner and mode of the file and of the directories above it"),
        ErrorKind::NotFound => Some("check the spelling of the path"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_wire() {
        for kind in KINDS {
            assert_eq!(ErrorKind::from_code(kind.code()), kind);
        }
        assert_eq!(ErrorKind::from_code(0), ErrorKind::Io);
        assert_eq!(ErrorKind::from_code(200), ErrorKind::Io);
    }

    #[test]
    fn explain_names_the_cause_and_the_hint() {
        let error = Error::io("could not write `a.bin`", &io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.explain().contains("\nsource: "));
        assert!(error.explain().contains("\nhint: free space"));
    }
}
