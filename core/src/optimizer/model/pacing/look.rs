//! Looks whether there is room for more streams that may make much lost: first all of them are sent only a little faster, together, than those
//! before them.

use super::Pacing;
use super::sent::{Found, State};
use crate::optimizer::model::stage::LOSSY;

/// What so many more streams may carry together, as a multiple of what was carried; and the part of that growth from which on there is room.
const LOOK: f64 = 1.15;
const ROOM: f64 = 0.5;

/// What a look went out from.
pub(super) fn before(pacing: Option<f64>) -> State {
    pacing.map_or(State::Free, |rate| State::Paced { rate })
}

impl Pacing {
    /// Begins a look with `next` streams; does nothing where some is lost already, or where these are sent no faster anyway.
    pub(in super::super) fn look(&mut self, next: u16) {
        let from = match self.state {
            State::Free => None,
            State::Paced { rate } if self.slower.is_none() => Some(rate),
            _ => return,
        };
        // An interval may carry less by chance, or after another look.
        let carried = self.last.rate.max(self.before.rate);
        let rate = LOOK * carried / f64::from(next.max(1));
        if self.has_settled() && rate < from.unwrap_or(f64::INFINITY) {
            self.state = State::Looking { rate, carried, from };
        }
    }

    /// Whether nothing is lost but by streams that are new.
    fn has_settled(&self) -> bool {
        self.last.lost() <= LOSSY || !self.is_steady()
    }

    /// Ends a look.
    pub(super) fn found(&mut self, carried: f64, from: Option<f64>) -> Found {
        self.state = before(from);
        let enough = (1.0 + ROOM * (LOOK - 1.0)) * carried;
        if self.last.rate >= enough && self.last.lost() <= LOSSY { Found::Room } else { Found::Full }
    }
}
