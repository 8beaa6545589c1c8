//! What the transfers of one host share: streams, memory and rate, without a service that would have to run.
//!
//! Each transfer has a slot in a table of a directory of the user, where it writes what it wants, has and moves, and reads what the others
//! do: once an interval, in some tens of microseconds. From the same table each computes the same shares, max-min fair by the weights of
//! their policies, and takes of its own only what the others have given back. A slot is held by a lock that the system lets go of when its
//! process ends, however it ends, so that what a killed transfer had is free at once.
//!
//! The control loop asks before each decision: the optimizer and its guard see the share as the limit of the policy.
//! Whoever cannot have a slot, because the directory cannot be written to or all slots are taken, keeps the share that it had, or a part of
//! the limits that were set, and tries again whenever it asks.

mod fill;
mod folder;
mod hosted;
mod limits;
mod member;
mod record;
mod share;
mod state;
mod table;

pub use hosted::{Hosted, Sharer, hosted};
pub(crate) use limits::Limits;
pub use member::Member;
pub(crate) use state::{Claim, Use};

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// After so long without a word the share of a transfer is free, though its slot is held: its process was stopped and moves nothing, or it
/// was killed and one that was forked off it lives on.
const SILENCE: Duration = Duration::from_secs(30);

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Whether what was last written at `beat_ms` still counts. A clock that was set back makes nobody silent.
fn is_present(beat_ms: u64, now_ms: u64) -> bool {
    u128::from(now_ms.saturating_sub(beat_ms)) < SILENCE.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_for_long_is_not_present() {
        assert!(is_present(1_000_000, 1_000_000) && is_present(1_000_000, 1_029_999) && is_present(1_000_000, 5));
        assert!(!is_present(1_000_000, 1_030_000));
        assert!(is_present(now_ms(), now_ms()));
    }
}
