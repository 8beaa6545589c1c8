//! Who may come in: shared secrets, the server's identity, and the identities that a client has pinned.

pub mod identity;
pub mod known_hosts;
pub mod secret;
