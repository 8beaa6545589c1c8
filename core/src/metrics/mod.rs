//! What is measured while bytes move: workers and bytes of each stage, TCP counters, processors, and the rates between two samples.

mod held_back;
pub(crate) mod listed;
pub mod meter;
pub mod processors;
pub mod sampler;
pub mod tcp_info;

pub use meter::StageMeter;
pub use processors::{Processors, this_program_only_transfers};
pub use sampler::{Rates, Sample};
pub use tcp_info::{TcpSnapshot, tcp_info};
