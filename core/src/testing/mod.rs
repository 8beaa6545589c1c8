//! The test kit: the suite that every store passes, stores of services for it, a store that fails on purpose, and a clock moved by hand.

pub mod clock;
pub mod conformance;
pub mod faulty;
pub mod services;
