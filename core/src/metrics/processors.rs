//! Whether this program keeps the processors of its host busy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Least share of what the processors can do that this program takes where it keeps them busy, and most of their time that is idle then. A
/// program that takes little of a busy host is not what keeps it busy.
const OWN: f64 = 0.3;
const IDLE: f64 = 0.05;

/// Whether this program does nothing but transfers, so that what it computes is for them.
static ONLY_TRANSFERS: AtomicBool = AtomicBool::new(false);

/// To be said by a program that does nothing but transfers. What others compute beside them, such as a script that imports edt, says
/// nothing about streams; in them nothing is told of processors.
pub fn this_program_only_transfers() {
    ONLY_TRANSFERS.store(true, Ordering::Relaxed);
}

/// Cumulative times at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Processors {
    /// When.
    pub at: Instant,
    /// For how long this program has computed, all threads together.
    pub own: Duration,
    /// The host.
    pub host: Host,
}

/// The processors of the host, all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// How many there are.
    pub count: usize,
    /// Their time since the host started, in ticks.
    pub all: u64,
    /// The part of it in which nothing was to do that does not stay behind this program: also that of processes which are nice, and of
    /// waiting for storage.
    pub idle: u64,
}

impl Processors {
    /// The times now; `None` where the system does not tell them, or this program may use but a part of the processors, or does other work.
    pub fn now() -> Option<Self> {
        if !ONLY_TRANSFERS.load(Ordering::Relaxed) {
            return None;
        }
        let host = host()?;
        let usable = std::thread::available_parallelism().ok()?.get();
        (usable == host.count).then_some(Self { at: Instant::now(), own: own()?, host })
    }

    /// Whether this program kept the processors busy since then: more workers would only wait for them.
    pub fn busy_since(&self, before: &Self) -> bool {
        let could = self.host.count as f64 * self.at.saturating_duration_since(before.at).as_secs_f64();
        let own = self.own.saturating_sub(before.own).as_secs_f64();
        could > 0.0 && own >= OWN * could && self.host.idle_since(before.host).is_some_and(|idle| idle < IDLE)
    }
}

impl Host {
    /// From `/proc/stat`: user, nice, system, idle, iowait, irq, softirq and steal of all processors, in which what guests take is contained,
    /// and a line for each of them.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let ticks: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        let [_, nice, _, idle, waiting, ..] = ticks[..] else { return None };
        let count = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
        Some(Self { count, all: ticks.iter().sum(), idle: nice + idle + waiting })
    }

    /// The idle share of the time since then; `None` if none has passed, or the system counted backwards.
    fn idle_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some(self.idle.checked_sub(before.idle)? as f64 / all as f64)
    }
}

#[cfg(target_os = "linux")]
fn own() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok()
}

#[cfg(target_os = "linux")]
fn host() -> Option<Host> {
    Host::parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

#[cfg(not(target_os = "linux"))]
fn own() -> Option<Duration> {
    None
}

#[cfg(not(target_os = "linux"))]
fn host() -> Option<Host> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_of_all_processors_and_others_how_many_there_are() {
        let stat = "cpu  100 5 50 700 100 10 20 15 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu1 1 2 3 4 5 6 7 8 9 0\nintr 1 2\n";
        assert_eq!(Host::parse(stat), Some(Host { count: 2, all: 1000, idle: 805 }));
        for wrong in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3", "cpu  1 2 3 x 5"] {
            assert_eq!(Host::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_program_keeps_processors_busy_with_others_too_but_not_where_others_alone_do() {
        let begun = Instant::now();
        let at = |seconds: u64, own: f64, idle: u64| Processors {
            at: begun + Duration::from_secs(seconds),
            own: Duration::from_secs_f64(own),
            host: Host { count: 4, all: 1000 + 400 * seconds, idle },
        };
        // Of four processors for two seconds, which are 800 ticks.
        let busy = |own: f64, idle: u64| at(2, 3.0 + own, 500 + idle).busy_since(&at(0, 3.0, 500));
        assert!(busy(7.9, 10) && busy(3.0, 10), "by itself and with others");
        assert!(!busy(3.0, 100), "some were idle");
        assert!(!busy(1.0, 0), "others alone");
        assert!(!at(2, 9.0, 400).busy_since(&at(0, 3.0, 500)), "counted backwards");
        assert!(!at(0, 3.0, 500).busy_since(&at(0, 3.0, 500)), "no time");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_this_program_computes_is_told_only_if_it_does_nothing_else() {
        let (before, host) = (own().unwrap(), host().unwrap());
        let spun = (0..20_000_000_u64).fold(0, |sum, each| std::hint::black_box(sum + each));
        assert!(spun > 0 && own().unwrap() > before && host.count > 0 && host.all > host.idle);
        assert_eq!(Processors::now(), None);
    }
}
