//! The manifest of a transfer: one line for each file, kept on disk so that memory does not grow with their number.

/// Files with their sizes and digests.
#[derive(Debug, Default)]
pub struct Manifest {}
