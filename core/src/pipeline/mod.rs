//! The journey of a chunk: the two halves of a transfer, their stages, and what they keep.

pub(crate) mod account;
pub mod digest;
pub(crate) mod frames;
pub(crate) mod half;
pub mod journal;
pub(crate) mod limiter;
pub mod manifest;
pub(crate) mod pool;
pub mod ranges;
pub(crate) mod receiver;
pub(crate) mod sender;
pub(crate) mod stop;
pub(crate) mod streams;
