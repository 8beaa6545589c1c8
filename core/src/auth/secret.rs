//! The shared secret of a server and its callers: found, generated, and proven without being sent.

/// Where a secret came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `EDT_TOKEN`.
    Environment,
    /// A file.
    File(std::path::PathBuf),
    /// The embedding program.
    Program,
    /// Generated just now and stored in this file; the text is shown once.
    Generated {
        /// Where it is stored.
        path: std::path::PathBuf,
        /// The secret, for people to copy.
        text: String,
    },
}
