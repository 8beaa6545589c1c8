//! What can go wrong with a path, with what to do about it.

use std::io;

/// Why a path could not be made, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option, a schedule or a value in it cannot be used.
    #[error("{0}")]
    Options(String),
    /// A call of the system failed.
    #[error("could not {what}: {source}\nhint: {hint}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// The command `ip` failed.
    #[error("`{command}` failed: {said}\nhint: {hint}")]
    Command {
        /// The command with its arguments.
        command: String,
        /// What it wrote to standard error.
        said: String,
        /// What to do about it.
        hint: &'static str,
    },
}
