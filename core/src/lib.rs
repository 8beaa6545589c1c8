//! Elastic Data Transfer: moves a tree of files between two endpoints and tunes itself while it does.
//!
//! Read [`transfer`] first: a [`Transfer`] plans, runs the three stages read, network and write, and answers with a [`Report`].

pub mod auth;
pub mod broker;
pub mod buffer;
pub mod control;
pub mod endpoint;
pub mod error;
pub mod event;
pub mod explore;
pub mod files;
pub mod history;
mod limits;
pub mod link;
pub mod metrics;
mod open;
pub mod optimizer;
pub mod options;
pub mod path;
pub mod pipeline;
pub mod plan;
pub mod protocol;
pub mod report;
pub mod server;
mod session;
pub mod store;
pub mod sync;
// Not behind a feature: with one, a build for tests compiles this crate a second time.
#[doc(hidden)]
pub mod testing;
pub mod transfer;
pub mod whole_file;

pub use endpoint::Endpoint;
pub use error::{Error, ErrorKind, Result};
pub use event::Event;
pub use optimizer::{Decision, Observation, Optimizer};
pub use options::{ServeOptions, TransferOptions};
pub use report::Report;
pub use transfer::{Transfer, TransferHandle};
