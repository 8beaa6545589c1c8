//! A file on a server without ranges: one body from the beginning, lent to one reader after the other.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::store::remote::Body;
use crate::sync::{Condvar, Mutex};

/// How long a reader waits for another one that wants what comes before, and may not have asked yet.
const GRACE: Duration = Duration::from_millis(200);
/// How long a reader waits while the one before makes no progress, before it reads from the beginning by itself.
const STALLED: Duration = Duration::from_secs(5);
const SKIPPED: usize = 64 << 10;

/// The body that stands, and who waits for it.
#[derive(Default, Clone)]
pub(super) struct Whole {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    needed: AtomicBool,
    state: Mutex<State>,
    returned: Condvar,
    /// Bytes read by all readers: whether anything moves.
    read: AtomicU64,
}

#[derive(Default)]
struct State {
    standing: Option<Standing>,
    /// Where those begin who have a body.
    lent: Vec<u64>,
    /// Where the readers that wait want to begin.
    waiting: BTreeSet<u64>,
}

struct Standing {
    body: Box<dyn Body>,
    position: u64,
}

/// What a reader that asks for a body gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The one that stands.
    Standing,
    /// None that there is: it begins another one.
    Anew,
    /// Nothing yet.
    Wait,
}

impl State {
    /// What a reader gets that waits for `start`; `alone` says that nothing has happened for a while.
    fn turn(&self, start: u64, alone: bool) -> Turn {
        // What comes before is wanted first, for nobody can go back.
        let lowest = self.waiting.first() == Some(&start);
        match &self.standing {
            Some(standing) if standing.position == start => Turn::Standing,
            Some(standing) if standing.position < start && alone && lowest => Turn::Standing,
            Some(standing) if standing.position < start => Turn::Wait,
            standing => {
                let comes_by = self.lent.iter().any(|begun| *begun < start);
                let gone_by = standing.is_some() || !self.lent.is_empty();
                if lowest && !comes_by && (alone || gone_by) { Turn::Anew } else { Turn::Wait }
            }
        }
    }

    /// Takes away the body that stands if nobody waits for what is to come of it: a server that has one connection at a time is then free.
    fn take_unwanted(&mut self) -> Option<Standing> {
        let waiting = &self.waiting;
        self.standing.take_if(|standing| waiting.range(standing.position..).next().is_none())
    }

    /// Takes a body back, if it did not break; of two the one that has more to come stays, and the other one is answered.
    fn give_back(&mut self, begun: u64, standing: Option<Standing>) -> Option<Standing> {
        if let Some(index) = self.lent.iter().position(|other| *other == begun) {
            self.lent.swap_remove(index);
        }
        let returned = standing?;
        if self.standing.as_ref().is_some_and(|stands| stands.position <= returned.position) {
            return Some(returned);
        }
        self.standing.replace(returned)
    }
}

impl Whole {
    /// Whether the server was found to have no ranges.
    pub(super) fn is_needed(&self) -> bool {
        self.shared.needed.load(Ordering::Relaxed)
    }

    /// Says that the server has no ranges, and brings a body that stands at the beginning.
    pub(super) fn offer(&self, body: Box<dyn Body>) {
        self.shared.needed.store(true, Ordering::Relaxed);
        let mut state = self.shared.state.lock();
        let offered = Standing { body, position: 0 };
        let surplus =
            if state.standing.is_none() && state.lent.is_empty() { state.standing.replace(offered) } else { Some(offered) };
        drop(state);
        drop(surplus);
        self.shared.returned.notify_all();
    }

    /// A body of a range, as soon as what stands comes to it; `begin` makes one from the beginning if none will.
    pub(super) fn open(&self, range: Range<u64>, begin: &dyn Fn() -> Result<Box<dyn Body>>) -> Result<Box<dyn Body>> {
        let taken = self.take(range.start);
        let mut lease = Lease { shared: Arc::clone(&self.shared), begun: range.start, standing: taken, left: 0 };
        if lease.standing.is_none() {
            lease.standing = Some(Standing { body: begin()?, position: 0 });
        }
        lease.skip_to(range.start)?;
        lease.left = range.end - range.start;
        Ok(Box::new(lease))
    }

    /// Waits for the body; `None` if it has gone by, or there is none. Counts the caller as one who has a body.
    fn take(&self, start: u64) -> Option<Standing> {
        let mut state = self.shared.state.lock();
        state.waiting.insert(start);
        let (mut read, mut since) = (0, Instant::now());
        let mut alone = start == 0;
        let (taken, unwanted) = loop {
            match state.turn(start, alone) {
                Turn::Standing => break (state.standing.take(), None),
                Turn::Anew => break (None, state.take_unwanted()),
                Turn::Wait if since.elapsed() >= STALLED => break (None, None),
                Turn::Wait => alone = self.shared.returned.wait_for(&mut state, GRACE).timed_out(),
            }
            let now = self.shared.read.load(Ordering::Relaxed);
            if now != read {
                (read, since) = (now, Instant::now());
            }
        };
        state.waiting.remove(&start);
        state.lent.push(start);
        drop(state);
        drop(unwanted);
        taken
    }
}

/// A body that is given back where it stands, for who reads on from there.
struct Lease {
    shared: Arc<Shared>,
    /// Where it was to begin.
    begun: u64,
    standing: Option<Standing>,
    left: u64,
}

impl Lease {
    fn skip_to(&mut self, start: u64) -> Result<()> {
        let mut scratch = vec![0; SKIPPED];
        while let Some(standing) = &self.standing
            && standing.position < start
        {
            let count = usize::try_from(start - standing.position).map_or(SKIPPED, |count| count.min(SKIPPED));
            self.advance(&mut scratch[..count])?;
        }
        Ok(())
    }

    /// Reads on; a body that broke is not given back.
    fn advance(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let Some(standing) = &mut self.standing else { return Ok(0) };
        match standing.body.read(buffer) {
            Ok(count) if count > 0 || buffer.is_empty() => {
                standing.position += count as u64;
                self.shared.read.fetch_add(count as u64, Ordering::Relaxed);
                Ok(count)
            }
            ended => {
                self.standing = None;
                ended
            }
        }
    }
}

impl Body for Lease {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = self.advance(&mut buffer[..count])?;
        self.left -= count as u64;
        Ok(count)
    }

    fn is_lent(&self) -> bool {
        true
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let surplus = self.shared.state.lock().give_back(self.begun, self.standing.take());
        self.shared.returned.notify_all();
        drop(surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that follow from their offsets.
    struct Counting(u64);

    impl Body for Counting {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            for byte in buffer.iter_mut() {
                *byte = (self.0 % 251) as u8;
                self.0 += 1;
            }
            Ok(buffer.len())
        }
    }

    fn read(whole: &Whole, range: Range<u64>, begun: &AtomicU64) {
        let mut body = whole.open(range.clone(), &|| Ok(begin(begun))).unwrap();
        let mut content = vec![0; usize::try_from(range.end - range.start).unwrap()];
        assert_eq!(body.read(&mut content).unwrap(), content.len());
        assert_eq!(body.read(&mut [0]).unwrap(), 0);
        assert!(content.iter().zip(range).all(|(byte, offset)| *byte == (offset % 251) as u8));
    }

    #[test]
    fn readers_in_any_order_share_one_body() {
        let (whole, begun) = (Whole::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for chunk in (0..8).rev() {
                let (whole, begun) = (&whole, &begun);
                scope.spawn(move || read(whole, chunk * 1000..(chunk + 1) * 1000, begun));
            }
        });
        assert_eq!(begun.load(Ordering::SeqCst), 1);
    }

    fn begin(begun: &AtomicU64) -> Box<dyn Body> {
        begun.fetch_add(1, Ordering::SeqCst);
        Box::new(Counting(0))
    }

    #[test]
    fn a_body_that_was_given_back_midway_is_gone_on_with() {
        let (whole, begun) = (Whole::default(), AtomicU64::new(0));
        let mut body = whole.open(0..8000, &|| Ok(begin(&begun))).unwrap();
        assert!(body.is_lent() && body.read(&mut [0; 1000]).unwrap() == 1000);
        drop(body);
        read(&whole, 1000..3000, &begun);
        read(&whole, 3000..4000, &begun);
        assert_eq!(begun.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn who_wants_what_no_body_comes_by_does_not_wait_for_one() {
        let (whole, begun, since) = (Whole::default(), AtomicU64::new(0), Instant::now());
        read(&whole, 0..4000, &begun);
        let held = whole.open(4000..9000, &|| Ok(begin(&begun))).unwrap();
        for start in [1000, 2000, 3000] {
            read(&whole, start..start + 1000, &begun);
        }
        assert!(since.elapsed() < STALLED);
        assert_eq!(begun.load(Ordering::SeqCst), 2, "what was begun anew is gone on with");
        drop(held);
        read(&whole, 4000..5000, &begun);
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn who_goes_back_lets_go_of_what_nobody_wants_any_more() {
        let (whole, begun) = (Whole::default(), AtomicU64::new(0));
        read(&whole, 0..9000, &begun);
        let back = whole.open(1000..2000, &|| {
            assert!(whole.shared.state.lock().standing.is_none());
            Ok(begin(&begun))
        });
        drop(back.unwrap());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn what_has_gone_by_is_read_again_and_a_gap_is_skipped() {
        let (whole, begun) = (Whole::default(), AtomicU64::new(0));
        whole.offer(Box::new(Counting(0)));
        assert!(whole.is_needed());
        read(&whole, 5000..6000, &begun);
        assert_eq!(begun.load(Ordering::SeqCst), 0);
        read(&whole, 0..1000, &begun);
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        read(&whole, 6000..7000, &begun);
        assert_eq!(begun.load(Ordering::SeqCst), 1);
    }
}
