//! Failures of sessions and items.

use minicbor::{Decode, Encode};

use crate::error::{Error, ErrorKind};

/// A failure of a whole session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Failed {
    /// [`ErrorKind::code`].
    #[n(0)]
    pub kind: u8,
    /// What failed and where.
    #[n(1)]
    pub what: String,
    /// Why.
    #[n(2)]
    pub cause: Option<String>,
    /// What to do.
    #[n(3)]
    pub hint: Option<String>,
}

/// A failure of one item.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ItemFailed {
    /// Its number; 0 if it never got one.
    #[n(0)]
    pub file: u32,
    /// Its name below the destination.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    /// The failure.
    #[n(2)]
    pub failed: Failed,
}

impl From<&Error> for Failed {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind().code(),
            what: error.what().to_owned(),
            cause: error.cause().map(str::to_owned),
            hint: error.hint().map(str::to_owned),
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        let mut error = Self::new(ErrorKind::from_code(failed.kind), failed.what);
        if let Some(cause) = failed.cause {
            error = error.with_cause(cause);
        }
        if let Some(hint) = failed.hint {
            error = error.with_hint(hint);
        }
        error
    }
}
