//! How much of the time of this host's processors this program took, and all others.

use std::time::{Duration, Instant};

/// Least share of what the processors that this program may use can do, from which on it keeps them busy by itself; least share of that
/// from which on it does together with others, and most of the host's time that is idle then. A transfer that takes little of a busy host
/// is not what keeps it busy.
const ALONE: f64 = 0.9;
const AMONG_OTHERS: f64 = 0.3;
const IDLE: f64 = 0.05;

/// Cumulative times at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Processors {
    /// When.
    pub at: Instant,
    /// For how long this program has computed, all threads together.
    pub own: Duration,
    /// How many processors it may use.
    pub count: usize,
    /// The time of all processors of the host; `None` where the system does not tell.
    pub host: Option<HostTime>,
}

/// The time of all processors of the host, in ticks since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostTime {
    /// All of it.
    pub all: u64,
    /// The part of it in which nothing was to do, or only storage was waited for.
    pub idle: u64,
}

impl Processors {
    /// The times now; `None` where the system does not tell them.
    pub fn now() -> Option<Self> {
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Some(Self { at: Instant::now(), own: own()?, count, host: host() })
    }

    /// Whether this program kept the processors busy since then: more workers would only wait for them.
    pub fn busy_since(&self, before: &Self) -> bool {
        let could = self.count as f64 * self.at.saturating_duration_since(before.at).as_secs_f64();
        let own = self.own.saturating_sub(before.own).as_secs_f64();
        let idle = self.host.zip(before.host).and_then(|(now, then)| now.idle_since(then));
        could > 0.0 && (own >= ALONE * could || (own >= AMONG_OTHERS * could && idle.is_some_and(|idle| idle < IDLE)))
    }
}

impl HostTime {
    /// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq and steal; what guests take is in the first two.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let ticks: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        let idle = ticks.get(3..5)?.iter().sum();
        Some(Self { all: ticks.iter().sum(), idle })
    }

    /// The idle share of the time since then; `None` if none has passed.
    fn idle_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some(self.idle.saturating_sub(before.idle) as f64 / all as f64)
    }
}

#[cfg(unix)]
fn own() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok()
}

#[cfg(not(unix))]
fn own() -> Option<Duration> {
    None
}

#[cfg(target_os = "linux")]
fn host() -> Option<HostTime> {
    HostTime::parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

#[cfg(not(target_os = "linux"))]
fn host() -> Option<HostTime> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_of_all_processors() {
        let stat = "cpu  100 5 50 700 100 10 20 15 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(HostTime::parse(stat), Some(HostTime { all: 1000, idle: 800 }));
        for wrong in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3", "cpu  1 2 3 x 5"] {
            assert_eq!(HostTime::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_program_keeps_processors_busy_by_itself_or_with_others_but_not_where_others_alone_do() {
        let begun = Instant::now();
        let at = |seconds: u64, own: f64, idle: Option<u64>| Processors {
            at: begun + Duration::from_secs(seconds),
            own: Duration::from_secs_f64(own),
            count: 4,
            host: idle.map(|idle| HostTime { all: 1000 + 400 * seconds, idle }),
        };
        let busy = |own: f64, idle: Option<u64>| at(2, 3.0 + own, idle).busy_since(&at(0, 3.0, idle.map(|_| 0)));
        assert!(busy(7.5, Some(400)) && busy(7.5, None), "all of a control group's, or what the system does not tell more of");
        assert!(!busy(6.0, Some(200)) && !busy(6.0, None), "some were idle");
        assert!(busy(3.0, Some(10)), "with others");
        assert!(!busy(1.0, Some(0)), "others alone");
        assert!(!at(0, 3.0, None).busy_since(&at(0, 3.0, None)), "no time");
    }

    #[cfg(unix)]
    #[test]
    fn what_this_program_computes_is_told() {
        let before = Processors::now().unwrap();
        let spun = (0..20_000_000_u64).fold(0, |sum, each| std::hint::black_box(sum + each));
        let after = Processors::now().unwrap();
        assert!(spun > 0 && after.own > before.own && after.count > 0);
    }
}
