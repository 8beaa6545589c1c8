//! ANN and online tuning: a small neural network, trained on past transfers, says what each setting would bring, and goes on learning from
//! what this transfer measures [ASM §5] [HARP §4, reference 26].
//!
//! Before the transfer the network learns throughput from round trip time, number and size of files and the three parameters. The setting
//! of which it promises the most utility is the first. Then it is trained a little more after each interval, on the intervals of this
//! transfer and on the past in equal parts, so that it follows the load of the moment, and another setting is chosen once it promises at least
//! 5 % more. [`Ann::once`] leaves that training out, as the static network that ASM's paper compares with: the past alone decides, and
//! anew only where more is known of the files or of the round trip time.
//!
//! The papers say no more than that of ANN+OT: the network (12 hidden units, tanh; one input tells this transfer from the past) and its
//! training are ours. It knows only what the history holds: no parameter and no number of streams beyond those that were used is ever chosen,
//! and without at least 30 past transfers there is nothing to learn from. It takes what others did before for all there is, as the paper says of it, and does
//! not explore.

use std::time::Duration;

use super::setting::Setting;
use super::{Decision, Observation, Optimizer, Policy, Setup, utility};
use crate::error::{Error, ErrorKind, Result};
use crate::history::Past;

mod learner;

use learner::{INPUTS, Learner, Row, When};

/// Fewest past transfers that are worth learning from.
const LEAST_HISTORY: usize = 30;

/// Most past transfers that are learnt from: more would make the start of a transfer wait.
const MOST_HISTORY: usize = 1000;

/// How far round trip times of paths that count as equally long may be apart, as a share.
const ALIKE: f64 = 0.25;

/// Intervals of this transfer that are learnt from, the newest.
const RECENT: usize = 20;

/// Rounds of training before the transfer, and after each interval: a third of a second and a few milliseconds at most.
const EPOCHS: (u32, u32) = (400, 20);

/// The gain in utility that another setting has to promise.
const GAIN: f64 = 0.05;

/// Values of a parameter that are considered, within those that the history holds.
const LADDER: [u16; 15] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64];

/// More than this of a parameter counts as this: no limit is a large number.
const MOST: u16 = 64;

/// A network that learns from the past and from this transfer.
pub struct Ann {
    learner: Learner,
    recent: Vec<Row>,
    rtt: Option<Duration>,
    candidates: Vec<Setting>,
    asked: Setting,
    /// Past transfers that it learnt from.
    learnt: usize,
    training: Training,
}

/// When the network learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Training {
    /// Before the transfer, and after each interval of it.
    Online,
    /// Before the transfer only.
    Before,
}

impl Ann {
    /// Learns from the history of the setup, and then from the transfer [ASM §5, ANN+OT].
    ///
    /// Fails where the history is too short to learn from.
    pub fn new(setup: &Setup<'_>) -> Result<Self> {
        let history = telling(setup.history, setup.rtt);
        let rows: Vec<Row> = history.iter().filter_map(|past| of_past(past)).collect();
        if rows.len() < LEAST_HISTORY {
            return Err(too_short(rows.len()));
        }
        let candidates = candidates(&history);
        let mut learner = Learner::new(rows);
        learner.train(&[], EPOCHS.0);
        let (learnt, asked) = (learner.rows(), candidates[0]);
        let training = Training::Online;
        Ok(Self { learner, recent: Vec::new(), rtt: setup.rtt, candidates, asked, learnt, training })
    }

    /// Learns from the history of the setup alone [ASM §5, static ANN].
    ///
    /// Fails where the history is too short to learn from.
    pub fn once(setup: &Setup<'_>) -> Result<Self> {
        Ok(Self { training: Training::Before, ..Self::new(setup)? })
    }

    /// The candidate that promises the most utility, with the utility of each of the two: that one and what was asked for last.
    fn best(&self, files: Option<(f64, f64)>, policy: &Policy) -> (Setting, f64, f64) {
        let when = if self.recent.is_empty() { When::Before } else { When::Now };
        let worth = |setting: &Setting| {
            let throughput = self.learner.predict(when, &inputs(self.rtt, files, *setting)).exp();
            utility::utility(throughput, f64::from(setting.streams()), None, policy)
        };
        let permitted = self.candidates.iter().map(|setting| setting.within(policy));
        let first = (self.asked.within(policy), worth(&self.asked.within(policy)));
        let best =
            permitted.map(|setting| (setting, worth(&setting))).fold(first, |best, one| if one.1 > best.1 { one } else { best });
        (best.0, best.1, first.1)
    }

    fn choose(&mut self, files: Option<(f64, f64)>, policy: &Policy) -> Decision {
        let (best, promised, now) = self.best(files, policy);
        let percent = 100.0 * (promised - now) / now.abs().max(f64::MIN_POSITIVE);
        let sources = match self.training {
            Training::Online => format!("{} past transfers and {} intervals", self.learnt, self.recent.len()),
            Training::Before => format!("{} past transfers", self.learnt),
        };
        if promised <= (1.0 + GAIN) * now {
            let kept = self.asked.within(policy);
            return kept.decision(policy, format!("by {sources} nothing promises 5 % more than {kept}"));
        }
        self.asked = best;
        best.decision(policy, format!("by {sources} {percent:+.0} % with {best}"))
    }
}

/// The error for a history that holds too little.
fn too_short(rows: usize) -> Error {
    let what =
        format!("the optimizers `ann` and `ann-once` learn from at least {LEAST_HISTORY} past transfers, and {rows} are known");
    Error::new(ErrorKind::InvalidInput, what).with_hint(
        "copy with other optimizers first, each transfer is recorded (see `edt history list`), or import logs of other tools",
    )
}

/// The past transfers to learn from: the newest over paths as long as this one, then the newest of all others.
fn telling(history: &[Past], rtt: Option<Duration>) -> Vec<&Past> {
    let here = rtt.unwrap_or_default().as_secs_f64();
    let is_alike = |past: &&Past| (past.rtt_s.unwrap_or(0.0) - here).abs() <= ALIKE * here;
    let (alike, others): (Vec<_>, Vec<_>) = history.iter().partition(is_alike);
    let mut chosen = newest(&alike, MOST_HISTORY).to_vec();
    chosen.extend(newest(&others, MOST_HISTORY - chosen.len()));
    chosen
}

/// The last so many, or all.
fn newest<'a, 'b>(pasts: &'b [&'a Past], most: usize) -> &'b [&'a Past] {
    &pasts[pasts.len().saturating_sub(most)..]
}

/// What a past transfer teaches; nothing if it moved nothing.
fn of_past(past: &Past) -> Option<Row> {
    let rtt = past.rtt_s.and_then(|rtt| Duration::try_from_secs_f64(rtt).ok());
    let setting = of_history(past);
    let learns = past.goodput.is_finite() && past.goodput > 0.0 && past.bytes > 0;
    let files = Some((past.files.max(1) as f64, past.mean_size()));
    learns.then(|| Row { when: When::Before, inputs: inputs(rtt, files, setting), output: past.goodput.ln() })
}

fn of_history(past: &Past) -> Setting {
    let known = |value: u16| value.clamp(1, MOST);
    Setting::new(known(past.concurrency), known(past.parallelism), known(past.pipelining))
}

/// The inputs of the network, about as large as one another; `None` for what is not known.
fn inputs(rtt: Option<Duration>, files: Option<(f64, f64)>, setting: Setting) -> [Option<f64>; INPUTS] {
    let [concurrency, parallelism, pipelining] = setting.point();
    [
        rtt.map(|rtt| (1.0 + 1e3 * rtt.as_secs_f64()).ln()),
        files.map(|(count, _)| count.max(1.0).ln()),
        files.map(|(_, size)| size.max(1.0).ln()),
        Some(concurrency),
        Some(parallelism),
        Some(pipelining),
    ]
}

/// The settings within what the history holds of each parameter; first the one that was fastest, with the fewest streams of several.
fn candidates(history: &[&Past]) -> Vec<Setting> {
    let settings: Vec<_> =
        history.iter().filter(|past| of_past(past).is_some()).map(|past| (of_history(past), past.goodput)).collect();
    let slower = |a: &&(Setting, f64), b: &&(Setting, f64)| a.1.total_cmp(&b.1).then(b.0.streams().cmp(&a.0.streams()));
    let fastest = settings.iter().max_by(slower).map(|(setting, _)| *setting);
    let used = |parameter: fn(&Setting) -> u16| {
        let values = settings.iter().map(|(setting, _)| parameter(setting));
        let (least, most) = values.fold((u16::MAX, 0), |(least, most), value| (least.min(value), most.max(value)));
        LADDER.into_iter().filter(move |value| (least..=most).contains(value)).collect::<Vec<_>>()
    };
    let (files, chunks, ahead) = (used(|one| one.concurrency), used(|one| one.parallelism), used(|one| one.pipelining));
    let streams = settings.iter().map(|(setting, _)| setting.streams()).max().unwrap_or(1);
    let mut found: Vec<_> = fastest.into_iter().collect();
    for concurrency in files {
        for parallelism in chunks.iter().filter(|parallelism| concurrency * **parallelism <= streams) {
            found.extend(ahead.iter().map(|pipelining| Setting::new(concurrency, *parallelism, *pipelining)));
        }
    }
    found
}

impl Optimizer for Ann {
    fn name(&self) -> &'static str {
        match self.training {
            Training::Online => "ann",
            Training::Before => "ann-once",
        }
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.choose(None, policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let policy = &observation.policy;
        self.rtt = observation.rtt.or(self.rtt);
        let listed = &observation.listed;
        let files = (!listed.classes.is_empty()).then(|| (listed.files() as f64, listed.mean_size()));
        let throughput = utility::arrived(observation);
        let ran = self.asked.within(policy).ran(observation);
        let learns = self.training == Training::Online && throughput.is_finite() && throughput > 0.0;
        if let Some(setting) = ran.filter(|_| learns) {
            if self.recent.len() == RECENT {
                self.recent.remove(0);
            }
            self.recent.push(Row { when: When::Now, inputs: inputs(self.rtt, files, setting), output: throughput.ln() });
            self.learner.train(&self.recent, EPOCHS.1);
        }
        Ok(self.choose(files, policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;
    use crate::optimizer::testing::{TestPath, Trial};

    /// What transfers of 100 large files over a path would have left in the history: one for each number of streams from 1 to 40.
    fn history(path: &TestPath) -> Vec<Past> {
        let policy = Policy::new(PolicyName::Fair, 64);
        (1..=40)
            .map(|concurrency| Past {
                began_s: f64::from(concurrency),
                source: String::new(),
                destination: String::new(),
                bandwidth: None,
                rtt_s: Some(path.rtt.as_secs_f64()),
                tcp_buffer: None,
                files: 100,
                bytes: 100 << 30,
                concurrency,
                parallelism: 1,
                streams: None,
                pipelining: 8,
                goodput: path.moves(&Setting::new(concurrency, 1, 8).decision(&policy, "")).0,
            })
            .collect()
    }

    fn setup<'a>(history: &'a [Past], path: &TestPath) -> Setup<'a> {
        Setup { history, rtt: Some(path.rtt), ..Setup::of_a_test() }
    }

    #[test]
    fn it_begins_with_what_the_history_promises_the_most_and_stays_while_that_holds() {
        let path = TestPath::of_streams(12);
        let past = history(&path);
        let mut optimizer = Ann::new(&setup(&past, &path)).unwrap();
        let mut trial = Trial::new(&mut optimizer, path, 64);
        assert_eq!(trial.settings(6), [(12, 1, 8); 6]);
    }

    #[test]
    fn it_learns_from_this_transfer_that_there_is_less_than_there_was() {
        let path = TestPath::of_streams(12);
        let past = history(&path);
        let mut optimizer = Ann::new(&setup(&past, &path)).unwrap();
        let busy = TestPath { capacity: path.capacity / 4.0, ..path };
        let mut trial = Trial::new(&mut optimizer, busy.clone(), 64);
        let decisions = trial.decisions(30);
        let streams: Vec<_> = decisions.iter().map(|decision| decision.concurrency.network).collect();
        // One interval misleads it; some more tell it what of the past still holds.
        assert_eq!(streams[..8], [12, 32, 32, 20, 20, 12, 12, 12]);
        let seen = inputs(Some(busy.rtt), Some((1e6, 1e9)), optimizer.asked);
        let expected = optimizer.learner.predict(When::Now, &seen).exp();
        let moved = busy.moves(&decisions[29]).0;
        assert!((expected / moved - 1.0).abs() < 0.5, "{expected} promised, {moved} moved");
    }

    #[test]
    fn without_learning_from_this_transfer_it_stays_with_what_the_past_promised() {
        let path = TestPath::of_streams(12);
        let past = history(&path);
        let mut optimizer = Ann::once(&setup(&past, &path)).unwrap();
        let busy = TestPath { capacity: path.capacity / 4.0, ..path };
        let decisions = Trial::new(&mut optimizer, busy, 64).decisions(30);
        let streams: Vec<_> = decisions.iter().map(|decision| decision.concurrency.network).collect();
        assert_eq!(streams, [12; 30]);
        assert!(decisions[29].reason.starts_with("by 40 past transfers nothing promises"), "{}", decisions[29].reason);
        assert_eq!(optimizer.name(), "ann-once");
    }

    #[test]
    fn a_short_history_is_refused_with_what_to_do() {
        let path = TestPath::of_streams(12);
        let error = Ann::new(&setup(&history(&path)[..29], &path)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.what().contains("29 are known") && error.hint().unwrap().contains("edt history"), "{error:?}");
    }

    #[test]
    fn nothing_beyond_what_was_used_is_considered() {
        let path = TestPath::of_streams(12);
        let mut past = history(&path);
        past[3].pipelining = u16::MAX;
        past.push(Past { goodput: 0.0, parallelism: 9, ..past[0].clone() });
        let found = candidates(&past.iter().collect::<Vec<_>>());
        assert_eq!(found[0], Setting::new(12, 1, 8), "the fastest");
        assert!(found.iter().all(|one| one.concurrency <= 40 && one.parallelism == 1 && (8..=64).contains(&one.pipelining)));
        assert!(found.contains(&Setting::new(40, 1, 64)) && found.contains(&Setting::new(1, 1, 8)));
        past.push(Past { concurrency: 1, parallelism: 8, ..past[0].clone() });
        let found = candidates(&past.iter().collect::<Vec<_>>());
        assert!(found.iter().any(|one| one.parallelism == 8) && found.iter().all(|one| one.streams() <= 40));
    }

    #[test]
    fn the_newest_over_paths_as_long_come_first_and_the_newest_of_others_fill_up() {
        let one = &history(&TestPath::of_streams(1))[0];
        let of = |rtt_s, count: u32| -> Vec<Past> {
            (0..count).map(|number| Past { began_s: f64::from(number), rtt_s, ..one.clone() }).collect()
        };
        let told = |alike, others| {
            let all = [of(Some(0.045), alike), of(Some(0.001), others)].concat();
            let chosen = telling(&all, Some(Duration::from_millis(50)));
            let first = |rtt_s| chosen.iter().find(|past| past.rtt_s == Some(rtt_s)).map(|past| past.began_s);
            (chosen.len(), first(0.045), first(0.001))
        };
        assert_eq!(told(3, 2), (5, Some(0.0), Some(0.0)));
        assert_eq!(told(1500, 10), (1000, Some(500.0), None));
        assert_eq!(told(400, 900), (1000, Some(0.0), Some(300.0)));
        assert_eq!(told(0, 0), (0, None, None));
    }

    #[test]
    fn the_same_history_gives_the_same_decisions() {
        let path = TestPath::of_streams(20);
        let past = history(&path);
        let decide = || {
            let mut optimizer = Ann::new(&setup(&past, &path)).unwrap();
            Trial::new(&mut optimizer, path.clone(), 64).decisions(10)
        };
        assert_eq!(decide(), decide());
    }
}
