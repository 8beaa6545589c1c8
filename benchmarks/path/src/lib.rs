//! A network path in user space: two network namespaces joined by a path of a given rate, delay and loss.
//!
//! [`Direction`] decides what happens to each packet; it is pure, time is an argument. On Linux [`Path`] makes the namespaces,
//! opens a TUN device in each, and runs one thread per direction between them.

mod direction;
mod error;
mod flow;
mod options;
mod profile;
mod schedule;
mod units;

#[cfg(target_os = "linux")]
mod linux;

pub use direction::{Batch, Direction, Drops, Packet, Second};
pub use error::Error;
pub use flow::FlowKey;
#[cfg(target_os = "linux")]
pub use linux::{End, Path};
pub use options::{Cliff, Congestion, PathOptions};
pub use profile::Profile;
pub use schedule::{Background, Change, Schedule, Step};
pub use units::{Rate, bytes, duration, rate, share};
