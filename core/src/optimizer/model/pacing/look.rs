//! Looks whether there is room for more streams that may make much lost: first all of them are sent only a little faster, together, than those
//! before them.

use super::sent::{Found, Look, State};
use super::{KEPT, Pacing, QUIET, STEP};
use crate::optimizer::model::stage::LOSSY;

/// What so many more streams may carry together, as a multiple of what was carried; and the part of that growth from which on there is room.
const LOOK: f64 = 1.15;
const ROOM: f64 = 0.4;

impl Look {
    /// Bytes per second from which on there is room.
    fn enough(self) -> f64 {
        (1.0 + ROOM * (LOOK - 1.0)) * self.carried
    }

    /// What it went out from.
    pub(super) fn origin(self) -> State {
        self.from.map_or(State::Free, |rate| State::Paced { rate })
    }
}

impl Pacing {
    /// Begins a look with `next` streams, of another interval if they are slow to find their rate; does nothing where some is lost already, or
    /// where these are sent no faster anyway.
    pub(in super::super) fn look(&mut self, next: u16, slow: bool) {
        let from = match self.state {
            State::Free => None,
            State::Paced { rate } if self.slower.is_none() => Some(rate),
            _ => return,
        };
        let (last, before) = (self.last, self.before);
        // New streams lose much anyway.
        if last.lost() > LOSSY && before.streams >= last.streams {
            return;
        }
        // An interval may carry less by chance.
        let carried = if before.streams <= last.streams { last.rate.max(before.rate) } else { last.rate };
        let rate = LOOK * carried / (self.part * f64::from(next.max(1)));
        if rate < from.unwrap_or(f64::INFINITY) {
            let most = if before.streams == last.streams { before.each().max(KEPT * last.each()) } else { f64::INFINITY };
            let each = last.each().min(most);
            self.guessed = false;
            self.state = State::Looking(Look { rate, carried, each, from, streams: (last.streams, next), again: slow });
        }
    }

    /// More streams join those that there were, none faster than these were: each may have a rate of its own, which its sender would exceed until it
    /// has found it.
    pub(super) fn joined(&mut self, rate: f64) {
        self.state = State::Paced { rate };
        self.begin_anew();
        self.guessed = true;
        (self.quiet, self.gap, self.step, self.lowered) = (0.0, QUIET.0, STEP.0, 0);
    }

    /// What an interval of a look says.
    pub(super) fn found(&mut self, look: Look) -> Found {
        let sent = self.last;
        self.state = look.origin();
        if sent.streams < look.streams.1 {
            return Found::Missed;
        }
        if sent.rate >= look.enough() && sent.lost() <= LOSSY {
            // They are as new as if they had not been there yet.
            (self.last.streams, self.alone) = (look.streams.0, false);
            if look.from.is_none() {
                self.joined(look.each);
            }
            return Found::Room;
        }
        if sent.lost() > LOSSY || !look.again {
            // What it has put into queues is still lost right after it, and is no reason to pace those that stay, or to go down.
            (self.before.streams, self.quiet) = (look.streams.0, 0.0);
            return Found::Full;
        }
        self.state = State::Looking(Look { again: false, ..look });
        Found::Nothing
    }
}
