//! The service as clients see it: a real server in this process, and the client of the arrow-flight library.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod actions;
mod admission;
mod bytes;
mod hostile;
mod put;
mod support;
mod tables;
mod uploads;
