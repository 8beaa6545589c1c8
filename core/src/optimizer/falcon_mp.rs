//! Falcon with all three parameters: conjugate gradient over concurrency, parallelism and pipelining [Falcon §5.4].
//!
//! Around a centre it measures one neighbour along each parameter, follows the conjugate of the slope in steps that double as long as the
//! utility rises, and begins anew from the best setting found; it never stops. A round takes five measurements and more where gradient
//! descent on streams takes two, and the utility is not concave in three parameters: the paper finds it up to three times as slow, 30 % better on
//! small files and 18 % worse on large ones.
//!
//! The paper names the method of Dai and Yuan (SIAM Journal on Optimization 10, 1999) and no more. Here the parameters are
//! taken by their logarithms, so that a step is a factor, the first step of a line doubles or halves the parameter that changes most, and the
//! utility is relative to that of the centre. The authors' program leaves out the price of loss; this has it as printed.

use super::setting::Setting;
use super::{Decision, Observation, Optimizer, Policy, utility};
use crate::error::Result;

/// The longest and the shortest step along a line, in doublings of the parameter that changes most.
const STEPS: (f64, f64) = (4.0, 0.5);

/// Conjugate gradient over three parameters.
#[derive(Debug, Clone)]
pub struct FalconMp {
    asked: Setting,
    centre: Probe,
    stage: Stage,
    slope: [f64; 3],
    /// The slope and the direction of the round before.
    previous: Option<([f64; 3], [f64; 3])>,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    setting: Setting,
    utility: f64,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The centre is measured.
    Centre,
    /// So far along this parameter the slopes are known; its neighbour is measured.
    Neighbour(usize),
    /// A step of a length along a direction is measured; the best point of the line so far.
    Line { direction: [f64; 3], step: f64, best: Option<Probe> },
}

impl FalconMp {
    /// Begins with 2 files in flight, as one chunk each, one after the other.
    pub fn new() -> Self {
        let first = Setting::new(2, 1, 1);
        let centre = Probe { setting: first, utility: 0.0 };
        Self { asked: first, centre, stage: Stage::Centre, slope: [0.0; 3], previous: None }
    }

    fn ask(&mut self, setting: Setting, policy: &Policy, reason: &str) -> Decision {
        self.asked = setting.within(policy);
        self.asked.decision(policy, format!("{reason}{}", self.asked))
    }

    /// Measures the centre again, since paths change, and then its neighbours.
    fn begin(&mut self, policy: &Policy, why: &str) -> Decision {
        self.stage = Stage::Centre;
        self.ask(self.centre.setting, policy, &format!("{why}measuring "))
    }

    /// Goes on to the first parameter from this one on that can change, or to the line if there is none.
    fn neighbour(&mut self, from: usize, policy: &Policy) -> Decision {
        let centre = self.centre.setting;
        let other = |axis| neighbour(centre, axis, policy).map(|setting| (axis, setting));
        let Some((axis, setting)) = (from..3).find_map(other) else { return self.line(policy) };
        self.stage = Stage::Neighbour(axis);
        self.ask(setting, policy, "slope: measuring ")
    }

    // Dai and Yuan: d = g + beta d', beta = |g|^2 / (d' . y), with y the change of the slope; signs are those of an ascent.
    /// Begins to follow the conjugate of the slope.
    fn line(&mut self, policy: &Policy) -> Decision {
        let slope = self.slope;
        let conjugate = self.previous.map(|(before, direction)| {
            let beta = dot(slope, slope) / dot(direction, minus(before, slope));
            [0, 1, 2].map(|axis| slope[axis] + beta * direction[axis])
        });
        // A direction that does not rise is none: then the slope itself is.
        let rises = |direction: &[f64; 3]| direction.iter().all(|part| part.is_finite()) && dot(*direction, slope) > 0.0;
        let direction = conjugate.filter(rises).unwrap_or(slope);
        let steepest = direction.iter().fold(0.0_f64, |most, part| most.max(part.abs()));
        if steepest == 0.0 {
            self.previous = None;
            return self.begin(policy, "no parameter matters: ");
        }
        self.previous = Some((slope, direction));
        let direction = direction.map(|part| part / steepest);
        self.step(direction, 1.0, None, policy)
    }

    fn step(&mut self, direction: [f64; 3], step: f64, best: Option<Probe>, policy: &Policy) -> Decision {
        let from = self.centre.setting.point();
        let setting = Setting::nearest([0, 1, 2].map(|axis| from[axis] + step * direction[axis]), policy);
        if best.is_some_and(|best| best.setting == setting) || setting == self.centre.setting {
            return self.end(best, policy);
        }
        self.stage = Stage::Line { direction, step, best };
        self.ask(setting, policy, "along the slope: measuring ")
    }

    /// Ends a line at its best point, or at the centre if there was no better one.
    fn end(&mut self, best: Option<Probe>, policy: &Policy) -> Decision {
        let Some(best) = best else {
            self.previous = None;
            return self.begin(policy, "nothing is better along the slope: ");
        };
        let percent = 100.0 * (best.utility - self.centre.utility) / self.centre.utility.abs().max(f64::MIN_POSITIVE);
        self.centre = best;
        self.begin(policy, &format!("utility {percent:+.1} %: "))
    }

    fn measured(&mut self, probe: Probe, policy: &Policy) -> Decision {
        match self.stage {
            Stage::Centre => {
                (self.centre, self.slope) = (probe, [0.0; 3]);
                self.neighbour(0, policy)
            }
            Stage::Neighbour(axis) => {
                self.slope[axis] = slope(self.centre, probe, axis);
                self.neighbour(axis + 1, policy)
            }
            Stage::Line { direction, step, best } => {
                let beaten = best.map_or(self.centre.utility, |best| best.utility);
                if probe.utility > beaten && 2.0 * step <= STEPS.0 {
                    self.step(direction, 2.0 * step, Some(probe), policy)
                } else if probe.utility > beaten {
                    self.end(Some(probe), policy)
                } else if best.is_none() && 0.5 * step >= STEPS.1 {
                    self.step(direction, 0.5 * step, None, policy)
                } else {
                    self.end(best, policy)
                }
            }
        }
    }
}

/// The setting beside this one along a parameter: a quarter more, or less where no more is permitted; `None` where nothing else is.
fn neighbour(centre: Setting, axis: usize, policy: &Policy) -> Option<Setting> {
    let changed = |change: fn(u16) -> u16| {
        let mut setting = centre;
        match axis {
            0 => setting.concurrency = change(centre.concurrency),
            1 => setting.parallelism = change(centre.parallelism),
            _ => setting.pipelining = change(centre.pipelining),
        }
        setting
    };
    let more = changed(|value| value.saturating_add((value / 4).max(1)));
    let less = changed(|value| value - (value / 4).max(1).min(value - 1));
    let permitted = |setting: &Setting| *setting != centre && Setting::nearest(setting.point(), policy) == *setting;
    [more, less].into_iter().find(permitted)
}

/// The relative change of utility by doublings of a parameter; 0 where something else ran that did not change it.
///
/// It is finite even where the centre moved nothing: of infinite parts a direction could not be made.
fn slope(centre: Probe, probe: Probe, axis: usize) -> f64 {
    let doublings = probe.setting.point()[axis] - centre.setting.point()[axis];
    if doublings == 0.0 {
        return 0.0;
    }
    let change = (probe.utility - centre.utility) / centre.utility.abs().max(f64::MIN_POSITIVE);
    (change / doublings).clamp(f64::MIN, f64::MAX)
}

// Falcon eq. 6: u = n p t / K^(n p) - n t L B, with t the throughput of a stream. As printed the price of loss is that of one stream a file.
/// The utility of a setting.
fn utility_of(setting: Setting, observation: &Observation) -> f64 {
    let (throughput, policy) = (utility::arrived(observation), &observation.policy);
    let loss = observation.loss.map(|loss| loss / f64::from(setting.parallelism.max(1)));
    utility::utility(throughput, f64::from(observation.applied.concurrency.network), loss, policy)
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn minus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|axis| a[axis] - b[axis])
}

impl Default for FalconMp {
    fn default() -> Self {
        Self::new()
    }
}

impl Optimizer for FalconMp {
    fn name(&self) -> &'static str {
        "falcon-mp"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.begin(policy, "start: ")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let policy = &observation.policy;
        let ran = self.asked.ran(observation).map(|setting| Probe { setting, utility: utility_of(setting, observation) });
        let Some(probe) = ran.filter(|probe| probe.utility.is_finite()) else {
            return Ok(self.ask(self.asked, policy, "nothing usable was measured: once more "));
        };
        Ok(self.measured(probe, policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;
    use crate::optimizer::testing::{TestPath, Trial};

    /// Files of 1 MiB over 50 ms: without pipelining a stream waits for most of its time.
    fn small_files() -> TestPath {
        TestPath { file_size: 1 << 20, ..TestPath::of_streams(12) }
    }

    #[test]
    fn it_measures_the_slope_and_follows_it_in_growing_steps() {
        let mut optimizer = FalconMp::new();
        let mut trial = Trial::new(&mut optimizer, small_files(), 64);
        // The centre, its three neighbours, and steps of one, two and four doublings along the slope.
        assert_eq!(trial.settings(7), [(2, 1, 1), (3, 1, 1), (4, 2, 1), (2, 1, 2), (8, 2, 1), (28, 4, 2), (64, 16, 4)]);
        // The best of the line is the centre now; its slope leads down, to fewer streams.
        assert_eq!(trial.settings(5), [(28, 4, 2), (32, 4, 2), (35, 5, 2), (28, 4, 3), (8, 2, 2)]);
        assert_eq!(trial.settings(4), [(15, 3, 2), (8, 2, 2), (15, 3, 2), (18, 3, 2)]);
    }

    #[test]
    fn it_finds_streams_and_pipelining_on_small_files() {
        let mut optimizer = FalconMp::new();
        let mut trial = Trial::new(&mut optimizer, small_files(), 64);
        let late = trial.decisions(60).split_off(30);
        let path = small_files();
        let mean = late.iter().map(|decision| path.moves(decision).0).sum::<f64>() / 30.0;
        assert!(mean > 0.85 * path.capacity, "{:.2} of the capacity", mean / path.capacity);
    }

    #[test]
    fn few_large_files_need_parallelism() {
        let path = TestPath { files: 2, ..TestPath::of_streams(12) };
        let mut optimizer = FalconMp::new();
        let mut trial = Trial::new(&mut optimizer, path.clone(), 64);
        let late = trial.decisions(60).split_off(40);
        let best = late.iter().map(|decision| path.moves(decision).0).fold(0.0, f64::max);
        assert!(best > 0.85 * path.capacity, "{:.2} of the capacity", best / path.capacity);
    }

    #[test]
    fn the_price_of_loss_is_that_of_one_stream_a_file() {
        let decision = Setting::new(3, 4, 1).decision(&Policy::new(PolicyName::Fair, 64), "");
        let mut observation = Observation::of_a_test(decision, 120.0, 64);
        observation.loss = Some(0.02);
        let found = utility_of(Setting::new(3, 4, 1), &observation);
        // n p t = 120, so that n t = 30.
        assert!((found - (120.0 / 1.02_f64.powi(12) - 30.0 * 0.02 * 10.0)).abs() < 1e-9, "{found}");
    }

    #[test]
    fn a_neighbour_is_a_quarter_away_and_within_the_limits() {
        let policy = Policy::new(PolicyName::Fair, 16);
        assert_eq!(neighbour(Setting::new(8, 1, 1), 0, &policy), Some(Setting::new(10, 1, 1)));
        assert_eq!(neighbour(Setting::new(16, 1, 1), 0, &policy), Some(Setting::new(12, 1, 1)));
        assert_eq!(neighbour(Setting::new(16, 1, 1), 1, &policy), None);
        assert_eq!(neighbour(Setting::new(8, 1, 64), 2, &policy), Some(Setting::new(8, 1, 48)));
        assert_eq!(neighbour(Setting::new(1, 1, 1), 0, &Policy::new(PolicyName::Fair, 1)), None);
    }

    #[test]
    fn a_centre_that_moved_nothing_does_not_lead_back_to_one_stream() {
        let (policy, setting) = (Policy::new(PolicyName::Fair, 64), Setting::new(8, 1, 2));
        let mut falcon = FalconMp { asked: setting, ..FalconMp::new() };
        let mut decision = setting.decision(&policy, "");
        // The centre, and its three neighbours.
        for throughput in [0.0, 30e6, 20e6, 20e6] {
            decision = falcon.decide(&Observation::of_a_test(decision, throughput, 64)).unwrap();
        }
        assert_eq!((decision.concurrency.network, decision.parallelism, decision.pipelining), (32, 2, 4), "each is doubled");
    }

    #[test]
    fn after_a_cut_by_the_guard_it_asks_again() {
        let mut falcon = FalconMp::new();
        let cut = Observation::of_a_test(Decision::uniform(1, "cut"), 1e6, 64);
        let again = falcon.decide(&cut).unwrap();
        assert_eq!((again.concurrency.network, again.parallelism, again.pipelining), (2, 1, 1));
    }
}
