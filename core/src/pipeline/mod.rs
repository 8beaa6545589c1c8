//! The journey of a chunk: the two halves of a transfer, their stages, and what they keep.

pub(crate) mod account;
pub mod digest;
pub(crate) mod frames;
pub(crate) mod half;
pub mod journal;
pub(crate) mod limiter;
pub mod manifest;
pub(crate) mod obstacle;
pub(crate) mod pool;
pub mod ranges;
pub(crate) mod receiver;
pub(crate) mod sender;
pub(crate) mod stop;
pub(crate) mod streams;

use crate::error::{Error, ErrorKind};

/// Why a file is not written whose name is taken, where nothing is to be replaced.
pub(crate) fn taken(name: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("could not write `{name}`"))
        .with_cause("the name is taken, and what is there shall not be replaced")
        .with_hint("let it be replaced, or choose another destination")
}
