//! The journey of a chunk: the two halves of a transfer, their stages, and what they keep.

pub mod digest;
pub mod journal;
pub mod manifest;
pub mod ranges;
