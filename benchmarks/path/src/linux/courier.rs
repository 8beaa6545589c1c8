//! Carries the packets of one direction: reads them from a device, has the direction decide, and writes them to the other device.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::{Batch, Direction, Error, FlowKey, Packet, PathOptions};

use super::pool::Pool;
use super::system;
use super::tun::Tun;

/// Packets that are read before those that are due are written: at 3 us each they make the others 0.2 ms late.
const READ_AT_ONCE: usize = 64;

/// Pause after a pass that moved packets: they come in handfuls then instead of one by one. It is this part of the round trip time, at least
/// and at most so long: what wakes more often takes the processors from those who send.
const PAUSE: f64 = 0.0125;
const LEAST_PAUSE: Duration = Duration::from_micros(250);
const MOST_PAUSE: Duration = Duration::from_millis(1);

const HINT: &str = "somebody removed the namespace or its device; start the path again";

/// The worker of one direction.
pub(super) struct Courier {
    from: Tun,
    to: Tun,
    direction: Arc<Mutex<Direction>>,
    begin: Instant,
    pause: Duration,
    pool: Pool,
    read: Vec<(FlowKey, Packet)>,
    batch: Batch,
}

/// What became of a pass.
struct Pass {
    moved: bool,
    /// Packets may be left to read.
    more: bool,
    next: Option<Duration>,
}

impl Courier {
    /// A worker from one device to another; times are counted from `begin`.
    pub(super) fn new((from, to): (Tun, Tun), direction: Arc<Mutex<Direction>>, begin: Instant, options: &PathOptions) -> Self {
        let (read, pool) = (Vec::with_capacity(READ_AT_ONCE), Pool::new(usize::from(options.mtu)));
        let pause = options.rtt.mul_f64(PAUSE).clamp(LEAST_PAUSE, MOST_PAUSE);
        Self { from, to, direction, begin, pause, pool, read, batch: Batch::default() }
    }

    /// Works until told to stop, or until a device is gone.
    pub(super) fn work(mut self, stop: &AtomicBool, wake: &Wake) -> Result<(), Error> {
        prefer_this_thread();
        while !stop.load(Ordering::Relaxed) {
            let pass = self.pass()?;
            if pass.moved && !pass.more {
                std::thread::sleep(self.pause);
            } else if !pass.more {
                self.wait(pass.next, wake)?;
            }
        }
        Ok(())
    }

    /// Reads what there is, decides, and writes what is due.
    fn pass(&mut self) -> Result<Pass, Error> {
        self.read_some()?;
        let now = self.begin.elapsed();
        let next = {
            let mut direction = self.direction.lock();
            direction.advance(now, &mut self.batch);
            for (flow, packet) in &self.read {
                direction.offer(now, *flow, *packet, &mut self.batch);
            }
            direction.advance(now, &mut self.batch);
            direction.next()
        };
        let moved = !self.read.is_empty() || !self.batch.delivered.is_empty();
        let more = self.read.len() == READ_AT_ONCE;
        self.read.clear();
        self.write_due()?;
        Ok(Pass { moved, more, next })
    }

    fn read_some(&mut self) -> Result<(), Error> {
        while self.read.len() < READ_AT_ONCE {
            let Some(slot) = self.pool.take() else { break };
            let bytes = self.pool.bytes(slot);
            let Some(size) = self.from.read(bytes).map_err(system("read from the device", HINT))? else {
                self.pool.put(slot);
                break;
            };
            let packet = Packet { slot, bytes: u32::try_from(size).expect("a packet is not above the MTU") };
            self.read.push((FlowKey::of(&bytes[..size]), packet));
        }
        Ok(())
    }

    fn write_due(&mut self) -> Result<(), Error> {
        for packet in self.batch.delivered.drain(..) {
            let bytes = &self.pool.bytes(packet.slot)[..packet.bytes as usize];
            self.to.write(bytes).map_err(system("write to the device", HINT))?;
            self.pool.put(packet.slot);
        }
        self.batch.dropped.drain(..).for_each(|packet| self.pool.put(packet.slot));
        Ok(())
    }

    /// Sleeps until there is something to read, something is due, or somebody rings.
    fn wait(&self, next: Option<Duration>, wake: &Wake) -> Result<(), Error> {
        // The system may end a poll by a thousandth late: wake before that, and poll again for the rest.
        let left = next.map(|next| next.saturating_sub(self.begin.elapsed()).mul_f64(0.998));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        // With all memory in use nothing can be read until something was written.
        let readable = if self.pool.has_room() { PollFlags::IN } else { PollFlags::empty() };
        let mut events = [PollFd::new(&wake.file, PollFlags::IN), PollFd::new(&self.from, readable)];
        match poll(&mut events, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(system("wait for packets", HINT)(error)),
        }
    }
}

/// Ends the sleep of a courier.
pub(super) struct Wake {
    file: OwnedFd,
}

impl Wake {
    /// One that has not been rung.
    pub(super) fn new() -> Result<Self, Error> {
        let file = eventfd(0, EventfdFlags::CLOEXEC).map_err(system("make an event", "lift the limit of open files"))?;
        Ok(Self { file })
    }

    /// Ends the sleep, and every one after it.
    pub(super) fn ring(&self) {
        // It fails only once the count is at its limit, and then the courier is awake.
        let _ = rustix::io::write(&self.file, &1_u64.to_ne_bytes());
    }
}

/// Lets this thread sleep to the microsecond, and run at once when it wakes: a network does not wait for the hosts' processors.
/// It cannot starve them, because it has packets to move only while they make some.
fn prefer_this_thread() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: no pointer is passed; it fails at worst, and then sleeps are 50 us less exact.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    // SAFETY: the parameters outlive the call; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } != 0 {
        // SAFETY: no pointer is passed; 0 is the calling thread. It fails at worst, and then a busy machine delays packets.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) };
    }
}
