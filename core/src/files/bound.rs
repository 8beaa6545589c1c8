//! How many sessions a server is asked for: no more than it had when it refused one, and by and by more again.

use std::time::{Duration, Instant};

/// How long after a refusal one more session is tried, and how long after that the next.
const AGAIN: Duration = Duration::from_secs(5);

/// A bound that falls when the server is full. Pure: time is an argument.
pub(super) struct Bound {
    most: usize,
    ceiling: usize,
    refused: Option<Instant>,
    /// When it may grow next.
    next: Option<Instant>,
}

impl Bound {
    /// A bound that never exceeds `ceiling`, where it begins.
    pub(super) fn new(ceiling: usize) -> Self {
        let ceiling = ceiling.max(1);
        Self { most: ceiling, ceiling, refused: None, next: None }
    }

    /// Whether there may be one more than are open. Where a refusal was long enough ago, that is one more than there were.
    pub(super) fn admits(&mut self, open: usize, now: Instant) -> bool {
        if open >= self.most && self.next().is_some_and(|next| now >= next) {
            self.most += 1;
            self.next = Some(now + AGAIN);
        }
        open < self.most
    }

    /// When it grows next, if it does.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next.filter(|_| self.most < self.ceiling)
    }

    /// Hears that the server takes no more sessions than are open now.
    pub(super) fn refuse(&mut self, open: usize, now: Instant) {
        self.most = open.clamp(1, self.most);
        (self.refused, self.next) = (Some(now), Some(now + AGAIN));
    }

    /// Hears that the server let a session in that was begun at some time: if that was after the last refusal, it may have room for more.
    pub(super) fn let_in(&mut self, begun: Instant, now: Instant) {
        if self.refused.is_some_and(|refused| begun > refused) {
            self.next = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_fell_grows_by_one_after_a_while() {
        let (mut bound, now) = (Bound::new(9), Instant::now());
        assert!(bound.admits(8, now) && !bound.admits(9, now) && bound.next().is_none());
        bound.refuse(2, now);
        assert!(!bound.admits(2, now) && bound.next() == Some(now + AGAIN));
        assert!(bound.admits(2, now + AGAIN));
        assert!(!bound.admits(3, now + AGAIN) && bound.admits(3, now + 2 * AGAIN));
    }

    #[test]
    fn a_session_that_is_let_in_after_the_refusal_lets_the_next_one_follow_at_once() {
        let (mut bound, now) = (Bound::new(3), Instant::now());
        let later = now + AGAIN;
        bound.refuse(0, now);
        bound.let_in(now, now);
        assert!(!bound.admits(1, now));
        assert!(bound.admits(1, later));
        bound.let_in(later, later);
        assert!(bound.admits(2, later));
        bound.let_in(later, later);
        assert!(!bound.admits(3, later), "not beyond its ceiling");
    }

    #[test]
    fn a_refusal_never_raises_a_bound() {
        let (mut bound, now) = (Bound::new(9), Instant::now());
        bound.refuse(2, now);
        bound.refuse(7, now);
        assert!(!bound.admits(2, now));
    }
}
