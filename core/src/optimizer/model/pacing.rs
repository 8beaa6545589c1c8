//! How fast the system sends each stream at most: where queues are short, streams lose nothing if they are sent only as fast as they get
//! through, and new ones do not push the others aside.
//! A trial begins with what each stream carried while much was lost. It is right if half of that is lost at most and nearly as much gets
//! through. Higher rates are tried now and then, as for streams. Whether each stream has a rate of its own, or all share one, tells what
//! more of them carry, or fewer: only where they share are fewer sent faster.

use super::seen::Paced;
use super::stage::{LOSSY, MUCH};
use full::Full;
use rates::{Rates, TELLING};
pub(super) use sent::{Found, Sent};
use sent::{Look, Slower, State};

mod fewer;
mod full;
mod look;
mod rates;
mod sent;
#[cfg(test)]
mod tests;
mod trial;

/// The part of what they carried at which streams are paced; of the loss, and of that rate, which a trial leaves where it is right.
const SLOWER: f64 = 0.95;
const LEFT: f64 = 0.5;
const KEPT: f64 = 0.9;

/// The same of equal streams from when others join them.
const JOINED: f64 = 0.96;

/// The lost share up to which hardly anything is lost.
const OTHER: f64 = 0.02;

/// The part of their pacing from which on streams are held back by it.
const CARRIED: f64 = 0.9;

/// How many times in a row fewer streams come than were asked for where no more will.
const MISSED: u32 = 5;

/// What an interval adds to the part of their pacing that such streams usually carry.
const MEAN: f64 = 0.25;

/// What they go down by where they still lose, and how many times in a row before it is seen anew whether pacing is what they lack.
const LOWER: f64 = 0.97;
const LOWERED: u32 = 3;

/// By how much each of the streams that are left carries more than in the interval before, as long as they still become faster.
const GROWN: f64 = 1.05;

/// Seconds before pacing is tried again where it was in vain, at first and at most; each further time doubles them.
const AGAIN: (f64, f64) = (4.0, 64.0);

/// Seconds of pacing without loss before a higher rate is tried, at first and at most: each one in vain doubles them.
const QUIET: (f64, f64) = (2.0, 32.0);

/// How many times its pacing a single stream has to be worth without it: what it loses when it begins says little of what it loses later.
const FREER: f64 = 1.1;

/// What a trial multiplies the rate by, at first and at most: each further success squares it.
const STEP: (f64, f64) = (1.05, 2.0);

/// The pacing of streams.
#[derive(Debug, Clone)]
pub(super) struct Pacing {
    state: State,
    /// What was sent in the last interval, and in the one before it.
    last: Sent,
    before: Sent,
    /// Whether each has a rate of its own.
    rates: Rates,
    /// Whether the rate is what those carried that others have joined, and it is still to be seen whether more of them carry as much each.
    guessed: bool,
    /// What was before fewer streams are sent faster, until it is known what these carry.
    slower: Option<Slower>,
    /// Whether streams that are tried at a pacing had told by how equal they are that each has a rate of its own.
    equal: bool,
    /// Whether it is still to be seen if a single stream is worth more without its rate, which was right at once.
    alone: bool,
    /// Seconds until a trial, and after the next one in vain.
    wait: f64,
    again: f64,
    /// Seconds of pacing that held streams back, after which a higher rate is tried, and what that multiplies it by.
    quiet: f64,
    gap: f64,
    step: f64,
    /// The part of their pacing that streams carry which are held back by it.
    part: f64,
    /// What has filled the path, as far as is known.
    full: Option<Full>,
    /// How many streams were asked for last, and how many times in a row fewer came.
    asked: u16,
    missed: u32,
    /// How often in a row the rate went down because some was lost, or would have if they had not differed.
    lowered: u32,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            state: State::Free,
            last: Sent::default(),
            before: Sent::default(),
            rates: Rates::default(),
            guessed: false,
            slower: None,
            equal: false,
            alone: false,
            wait: 0.0,
            again: AGAIN.0,
            quiet: 0.0,
            gap: QUIET.0,
            step: STEP.0,
            part: 1.0,
            full: None,
            asked: 0,
            missed: 0,
            lowered: 0,
        }
    }
}

impl Pacing {
    /// Most bytes per second of each stream; `None` for no limit.
    pub(super) fn rate(&self) -> Option<u64> {
        match self.state {
            State::Free | State::Freeing { .. } => None,
            State::Trying { rate, .. }
            | State::Paced { rate }
            | State::Raising { rate, .. }
            | State::Looking(Look { rate, .. }) => Some(bytes(rate)),
        }
    }

    /// Whether the streams of the last interval were paced, and what is known of what each carries.
    pub(super) fn told(&self) -> Paced {
        match self.last.pacing {
            None if self.is_equal() => Paced::Alone,
            None => Paced::No,
            Some(_) if self.last.queued && (self.has_filled() || self.rates.own && self.falls_short()) => Paced::Crowded,
            Some(_) if self.rates.own => Paced::Told,
            Some(_) => Paced::Untold,
        }
    }

    /// Takes what was sent since the last decision.
    pub(super) fn observe(&mut self, sent: &Sent) -> Found {
        self.before = std::mem::replace(&mut self.last, *sent);
        self.wait -= sent.time;
        if sent.pacing != self.rate() {
            self.overruled(sent.pacing);
        }
        match self.state {
            State::Free => Found::Usual,
            State::Trying { rate, lost, more, right } => self.tried(rate, lost, more, right),
            State::Paced { rate } => self.paced(rate),
            State::Raising { rate, from } => self.raised(rate, from),
            State::Freeing { from } => self.freed(from),
            State::Looking(look) => self.found(look),
        }
    }

    /// All streams are new, as after a connection was lost: what was tried with the others is not known.
    pub(super) fn begin_again(&mut self) {
        self.state = match (self.state, self.slower.take()) {
            (State::Trying { .. }, _) => State::Free,
            (State::Looking(look), _) => look.origin(),
            (State::Raising { from, .. } | State::Freeing { from, .. }, _) => State::Paced { rate: from },
            (State::Paced { .. }, Some(slower)) => {
                self.rates.fewest = slower.fewest;
                State::Paced { rate: slower.rate }
            }
            (state, _) => state,
        };
        (self.last, self.guessed) = (Sent::default(), false);
    }

    /// Somebody else decided.
    fn overruled(&mut self, pacing: Option<u64>) {
        self.state = pacing.map_or(State::Free, |rate| State::Paced { rate: rate as f64 });
        self.begin_anew();
    }

    /// Nothing is known of a rate but that so many streams have it.
    fn begin_anew(&mut self) {
        self.rates = Rates::of(self.last.streams);
        (self.guessed, self.slower, self.alone, self.full) = (false, None, false, None);
    }

    /// What was tried was in vain, and is not tried again soon.
    fn in_vain(&mut self, state: State) {
        (self.state, self.wait, self.again) = (state, self.again, (2.0 * self.again).min(AGAIN.1));
    }

    fn freed(&mut self, from: f64) -> Found {
        if self.last.worth() > FREER * from {
            self.in_vain(State::Free);
            return Found::Usual;
        }
        self.in_vain(State::Paced { rate: from });
        self.quiet = 0.0;
        if self.last.lost() > LOSSY { Found::Nothing } else { Found::Usual }
    }

    fn paced(&mut self, rate: f64) -> Found {
        self.fill(rate);
        if self.would_fill(self.step) {
            self.step = STEP.0;
        }
        let sent = self.last;
        if self.guessed && self.rates.tell(&sent) && (sent.lost() > LOSSY || !self.rates.own && !self.rates.each(&sent, rate)) {
            self.guess(rate);
            return Found::Usual;
        }
        self.rates.learn(&sent, rate);
        self.guessed &= !self.rates.own;
        let (held, lossy) = (self.is_held_back(rate), sent.lost() > LOSSY);
        let fewer = self.slower.filter(|slower| sent.streams <= slower.fewer);
        if fewer.is_some() && held && lossy && !self.is_steady() {
            return Found::Nothing;
        }
        // The windows of those that are left may have to grow first.
        let grow = sent.each() > GROWN * self.before.each() && !held && !lossy;
        let Some(slower) = fewer.filter(|_| !grow) else {
            self.settle(rate);
            return Found::Usual;
        };
        self.sent_faster(slower, rate)
    }

    /// The rate was a guess, and is not what each of more streams carries: that is taken instead where they lose what is sent beyond it.
    fn guess(&mut self, rate: f64) {
        let each = self.last.each().clamp(LEFT * rate, rate);
        self.state = if self.last.lost() > LOSSY { State::Paced { rate: each } } else { State::Free };
        self.begin_anew();
    }

    /// Goes down where some is lost still, and knows for how long nothing is.
    fn settle(&mut self, rate: f64) {
        let (sent, held) = (self.last, self.is_held_back(rate));
        // New streams lose some, and those before them did not; fewer lose what those that left had put into queues.
        let lossy = sent.lost() > LOSSY && (self.is_steady() || sent.streams > self.before.streams && self.before.lost() > LOSSY);
        // What a trial has put into the queues is still lost right after it.
        // Those that lose again, and carry equally much, are each sent faster than a rate of its own. What came of a trial is no second loss.
        let as_fast = self.before.pacing.is_some_and(|before| LOWER * before as f64 <= rate) && self.is_steady();
        let again = sent.even && as_fast && self.before.lost() > LOSSY && self.lowered < LOWERED;
        let lower = lossy && (again || if held { self.quiet > 0.0 } else { self.rates.own && !sent.uneven });
        if lower {
            (self.state, self.quiet) = (State::Paced { rate: LOWER * rate }, 0.0);
        } else if held {
            self.quiet += sent.time;
            // As many have carried as much each for a while.
            self.guessed &= self.quiet < QUIET.0;
        }
        if held {
            self.part = (self.part + MEAN * (sent.each() / rate - self.part)).min(1.0);
        }
        // Where they differ by rates of their own, fewer of them lose as much: a trial has to tell.
        self.lowered = if lossy { self.lowered + u32::from(lower || sent.uneven && !held) } else { 0 };
    }

    /// Whether their pacing may be what held streams back in the last interval.
    pub(super) fn holds_back(&self) -> bool {
        self.last.pacing.is_some_and(|rate| self.is_held_back(rate as f64))
    }

    fn is_held_back(&self, rate: f64) -> bool {
        self.last.each() >= CARRIED * rate
    }

    /// Whether as much is sent as filled the path, and it is known whether they share one rate.
    fn has_filled(&self) -> bool {
        self.is_full() && (self.rates.own || self.rates.shared)
    }

    /// Whether they carry less than the pacing that stays.
    fn falls_short(&self) -> bool {
        matches!(self.state, State::Paced { rate } if !self.is_held_back(rate))
    }

    /// Whether it is to be seen anew whether a rate is right, where some is lost.
    fn is_wrong(&self, rate: f64) -> bool {
        !self.rates.own && !self.is_held_back(rate) || self.lowered >= LOWERED
    }

    fn raised(&mut self, rate: f64, from: f64) -> Found {
        // What fills a queue gets through no faster.
        let filled = self.last.queued && !self.before.queued;
        let more = (self.last.lost() - self.before.lost()).max(0.0);
        let gained = self.last.worth_losing(more) > self.part * f64::midpoint(rate, from) && self.last.lost() <= LOSSY && !filled;
        self.quiet = 0.0;
        if gained {
            self.step = if self.gap > 0.0 { STEP.0 } else { (self.step * self.step).min(STEP.1) };
            // No faster than they may carry: what holds them back is known by what they carry.
            let rate = rate.min(self.last.each() / (CARRIED * self.part));
            (self.state, self.gap, self.guessed) = (State::Paced { rate }, 0.0, false);
            return Found::Usual;
        }
        (self.state, self.step) = (State::Paced { rate: from }, STEP.0);
        self.gap = (2.0 * self.gap).clamp(QUIET.0, QUIET.1);
        Found::Nothing
    }

    /// What is tried next, with the streams that there are, where there would be `next` of them, perhaps only to see what these carry; `None` if
    /// nothing is.
    pub(super) fn decide(&mut self, next: u16, probing: bool) -> Option<&'static str> {
        // So few are not wanted any more.
        if let Some(slower) = self.slower.take_if(|slower| next > slower.fewer) {
            let ran = self.last.streams <= slower.fewer;
            let faster = matches!(self.state, State::Paced { rate } if slower.too_few || self.is_far_above(slower, rate));
            self.rates.own |= ran && !faster;
            self.rates.tried = if ran { self.last.streams } else { self.rates.tried };
            (self.state, self.rates.fewest) = (State::Paced { rate: slower.rate }, slower.fewest);
        }
        // Whether there is room for another comes first.
        if let (State::Paced { rate }, true, 1, 1) = (self.state, self.alone, next, self.last.streams) {
            (self.state, self.alone) = (State::Freeing { from: rate }, false);
            return Some("seeing whether it is worth more if it is not paced");
        }
        self.missed = if self.asked > self.last.streams { self.missed + 1 } else { 0 };
        let trial = self.trial(next, probing);
        self.asked = if trial.is_some() { self.last.streams } else { next };
        trial
    }

    fn trial(&mut self, next: u16, probing: bool) -> Option<&'static str> {
        match self.state {
            State::Free if next > self.last.streams && !probing && self.is_equal() => {
                self.joined(JOINED * self.last.each());
                None
            }
            State::Free if self.wait <= 0.0 && (self.loses() || self.last.lost() > LOSSY && self.is_equal()) => {
                Some(self.begin())
            }
            // All share less than that, or something else than their rate is why they lose.
            State::Paced { rate } if next >= self.last.streams && self.is_steady() && self.loses() && self.is_wrong(rate) => {
                Some(self.begin())
            }
            State::Paced { rate } if self.is_quiet() && self.is_as_many(next) && !probing && self.slower.is_none() => {
                self.state = State::Raising { rate: self.step * rate, from: rate };
                Some("seeing whether each gets through faster")
            }
            State::Paced { rate } if next < self.rates.fewest && !self.rates.own => {
                self.fewer(rate, next);
                None
            }
            _ => None,
        }
    }

    /// Whether nothing was lost for so long that more may get through.
    fn is_quiet(&self) -> bool {
        self.quiet >= self.gap && self.last.lost() <= LOSSY && !self.would_fill(self.step)
    }

    /// Whether there were as many streams in the interval before.
    fn is_steady(&self) -> bool {
        self.before.streams == self.last.streams
    }

    /// Whether there are to be as many streams, or so few more that a higher rate tells the same, unless each has its own.
    fn is_as_many(&self, next: u16) -> bool {
        let streams = self.last.streams;
        // A server may let no more of them in.
        next == streams
            || self.missed >= MISSED
            || !self.rates.own && next > streams && f64::from(next) < TELLING * f64::from(streams)
    }

    /// Whether each overflows a queue of its own, or has just done so: streams that share a full path differ, and where storage limits them all
    /// there is no queue. Pacing makes them equal, whatever they would carry without.
    fn is_equal(&self) -> bool {
        let new = self.last.streams > self.before.streams;
        let lossy = self.last.lost().max(self.last.loss_before.filter(|_| new).unwrap_or(0.0)) > LOSSY;
        self.last.even && self.last.queued && lossy && self.last.pacing.is_none()
    }

    /// Whether so much is lost that a trial may be worth it. New streams lose much anyway.
    fn loses(&self) -> bool {
        if self.is_steady() { self.last.lost() > LOSSY } else { self.before.streams == 0 && self.last.lost() > MUCH }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates, and the rate is at least 1")]
fn bytes(rate: f64) -> u64 {
    rate.max(1.0) as u64
}
