//! The test kit: the suite that every store passes, stores that are slow or fail on purpose, and a clock moved by hand.

pub mod clock;
pub mod conformance;
pub mod faulty;
pub mod throttled;
