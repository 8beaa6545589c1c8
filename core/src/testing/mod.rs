//! For tests of this and of other crates.

pub mod clock;
