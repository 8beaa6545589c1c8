//! What all transfers of a host share.

use std::num::NonZeroU16;

/// Limits of all transfers of this host together, see [`crate::broker`]. What is not given here a variable may give; where several transfers
/// say different things, the least holds for all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostLimits {
    /// Whether this transfer shares with the others of its host; default it does, unless `EDT_BROKER` says `off`.
    pub sharing: Sharing,
    /// Streams, and workers per stage, of all transfers; default `EDT_HOST_STREAMS`, else 256, or what one transfer may have if that is more.
    pub streams: Option<NonZeroU16>,
    /// The same of those to one server or service; default `EDT_SERVER_STREAMS`, else 64, or what one transfer may have if that is more.
    pub server_streams: Option<NonZeroU16>,
    /// Bytes in the buffers of all transfers; default `EDT_HOST_MEMORY`, else a quarter of the memory there is.
    pub memory: Option<u64>,
    /// Bytes per second of all transfers; default `EDT_HOST_RATE`, else no limit.
    pub rate: Option<f64>,
}

/// Whether a transfer shares with the others of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// What `EDT_BROKER` says: `on` or `off`; else it does.
    #[default]
    Environment,
    /// It does.
    Shared,
    /// It does not: neither do the others limit it, nor does it count among them.
    Apart,
}
