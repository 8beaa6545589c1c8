//! What the samples of a path say of it: bandwidth, rate of a stream, and how many streams are best.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::explore::PathSample;
use crate::optimizer::PerStage;
use crate::optimizer::explore::Stages;

/// Workers, averaged over an interval, below which their rate says nothing: most of them were just coming or going.
const LEAST_WORKERS: f64 = 0.5;

/// What a path gives, by the samples of an exploration; a stage that was not explored has no estimates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The most that each stage moved, in bytes per second.
    pub bandwidth: PerStage<Option<f64>>,
    /// The most that one worker of each stage moved, in bytes per second.
    pub stream_rate: PerStage<Option<f64>>,
    /// Workers of each stage that just fill the narrowest one.
    pub optimum: PerStage<Option<f64>>,
    /// The utility at the optimum, the sum over the stages, in bytes per second: the yardstick of training.
    pub r_max: f64,
    /// The shortest round trip time seen, in milliseconds: that of the path without its queues. `None` where the system does not tell.
    pub rtt_ms: Option<f64>,
}

/// Bandwidth and rate of one worker.
#[derive(Clone, Copy)]
struct StageRates {
    bandwidth: f64,
    worker: f64,
}

/// Estimates a path as the papers do, with the price `k` of a stream [EDT §IV-E1, AutoMDT §IV-A], from samples with half a worker or more.
///
/// An error if no sample shows bytes and workers of a stage that counts.
pub fn estimate(samples: &[PathSample], stages: Stages, k: f64) -> Result<Estimate> {
    let rates = PerStage {
        read: rates_of(samples, |of| of.read).filter(|_| stages == Stages::Three),
        network: rates_of(samples, |of| of.network),
        write: rates_of(samples, |of| of.write).filter(|_| stages == Stages::Three),
    };
    let known: Vec<StageRates> = [rates.read, rates.network, rates.write].into_iter().flatten().collect();
    if known.len() < usize::from(stages.count()) {
        return Err(Error::new(ErrorKind::InvalidInput, "could not estimate the path")
            .with_cause(format!("none of {} samples shows what moves in every stage", samples.len()))
            .with_hint("explore for longer, or with a source that has more data"));
    }
    // b = min B_i; with one stage it is BW.
    let narrowest = known.iter().map(|stage| stage.bandwidth).fold(f64::INFINITY, f64::min);
    // n_i* = b / TPT_i; with one stage CC* = BW / TPT.
    let optimum = rates.map(|stage| stage.map(|stage| narrowest / stage.worker));
    // R_max = sum of b / k^(n_i*).
    let r_max = [optimum.read, optimum.network, optimum.write].into_iter().flatten().map(|n| narrowest / k.powf(n)).sum();
    Ok(Estimate {
        bandwidth: rates.map(|stage| stage.map(|stage| stage.bandwidth)),
        stream_rate: rates.map(|stage| stage.map(|stage| stage.worker)),
        optimum,
        r_max,
        rtt_ms: samples.iter().filter_map(|sample| sample.rtt_ms).reduce(f64::min),
    })
}

/// BW = max T, TPT = max T / n, of one stage; of each the median of the largest twentieth. The papers print the maximum, and their programs
/// take a median of the largest too: after many streams, an interval with one still delivers what the others left on the way. A larger
/// share would reach beyond the intervals in which all workers of a wide stage are busy, which are few.
fn rates_of(samples: &[PathSample], of: impl Fn(&PerStage<f64>) -> f64) -> Option<StageRates> {
    let moved = samples.iter().map(|sample| (of(&sample.throughput), of(&sample.concurrency)));
    let sound: Vec<_> = moved.filter(|(throughput, workers)| throughput.is_finite() && *workers >= LEAST_WORKERS).collect();
    let rates = StageRates {
        bandwidth: largest(sound.iter().map(|(throughput, _)| *throughput)),
        worker: largest(sound.iter().map(|(throughput, workers)| throughput / workers)),
    };
    (rates.bandwidth > 0.0).then_some(rates)
}

/// The median of the largest twentieth, 0 of nothing; of less than forty values it is the largest.
fn largest(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(|a, b| b.total_cmp(a));
    let twentieth = (values.len() / 20).max(1);
    values.get(twentieth / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: f64 = 1e6 / 8.0;

    fn sample(workers: [f64; 3], throughput: [f64; 3]) -> PathSample {
        let [read, network, write] = workers;
        let [t_read, t_network, t_write] = throughput.map(|mbit| mbit * MBIT);
        PathSample {
            elapsed_s: 1.0,
            interval_s: Some(1.0),
            concurrency: PerStage { read, network, write },
            throughput: PerStage { read: t_read, network: t_network, write: t_write },
            rtt_ms: None,
            loss: None,
        }
    }

    /// A path that gives each stream 150 Mbit/s and 1 Gbit/s in all.
    fn cloudlab(streams: f64) -> PathSample {
        sample([streams; 3], [(150.0 * streams).min(1000.0); 3])
    }

    fn near(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 1e-6 * expected)
    }

    #[test]
    fn one_stage_has_the_optimum_that_edt_prints() {
        let samples: Vec<PathSample> = [40.0, 3.0, 12.0, 60.0].map(cloudlab).to_vec();
        let estimate = estimate(&samples, Stages::One, 1.02).unwrap();
        assert!(near(estimate.bandwidth.network, 1000.0 * MBIT) && near(estimate.stream_rate.network, 150.0 * MBIT));
        assert!(near(estimate.optimum.network, 1000.0 / 150.0));
        assert!(near(Some(estimate.r_max), 1000.0 * MBIT / 1.02f64.powf(1000.0 / 150.0)));
        assert_eq!((estimate.bandwidth.read, estimate.optimum.write), (None, None));
    }

    #[test]
    fn three_stages_have_the_optima_of_the_bottleneck_scenarios() {
        // [AutoMDT §V-B1]: 1 Gbit/s, and caps of each worker in Mbit/s.
        let workers = [[20.0, 3.0, 9.0], [2.0, 16.0, 4.0], [6.0, 12.0, 30.0]];
        for (caps, optima) in [
            ([80.0, 160.0, 200.0], [12.5, 6.25, 5.0]),
            ([205.0, 75.0, 195.0], [4.878, 13.333, 5.128]),
            ([200.0, 150.0, 70.0], [5.0, 6.667, 14.286]),
        ] {
            let of = |n: [f64; 3]| sample(n, [0, 1, 2].map(|stage: usize| (n[stage] * caps[stage]).min(1000.0)));
            let estimate = estimate(&workers.map(of), Stages::Three, 1.02).unwrap();
            let found = [estimate.optimum.read, estimate.optimum.network, estimate.optimum.write].map(Option::unwrap);
            assert!(found.iter().zip(optima).all(|(n, expected): (&f64, f64)| (n - expected).abs() < 0.001), "{found:?}");
            let utility: f64 = optima.iter().map(|n| 1000.0 * MBIT / 1.02f64.powf(*n)).sum();
            assert!((estimate.r_max - utility).abs() < 1e-4 * utility);
        }
    }

    #[test]
    fn the_narrowest_stage_decides_how_many_workers_the_others_need() {
        let samples = [sample([4.0, 4.0, 4.0], [400.0, 1000.0, 800.0])];
        let estimate = estimate(&samples, Stages::Three, 1.02).unwrap();
        assert!(near(estimate.optimum.read, 4.0) && near(estimate.optimum.network, 1.6) && near(estimate.optimum.write, 2.0));
    }

    #[test]
    fn one_lucky_interval_of_many_does_not_count() {
        let mut samples: Vec<PathSample> = (1..=40).map(|streams| cloudlab(f64::from(streams))).collect();
        samples.push(sample([1.0; 3], [600.0; 3]));
        let estimate = estimate(&samples, Stages::One, 1.02).unwrap();
        assert!(near(estimate.stream_rate.network, 150.0 * MBIT) && near(estimate.bandwidth.network, 1000.0 * MBIT));
    }

    #[test]
    fn the_shortest_round_trip_is_that_of_the_path() {
        let with = |rtt_ms| PathSample { rtt_ms, ..cloudlab(5.0) };
        let samples = [with(None), with(Some(80.0)), with(Some(67.0))];
        assert_eq!(estimate(&samples, Stages::One, 1.02).unwrap().rtt_ms, Some(67.0));
    }

    #[test]
    fn what_shows_nothing_is_left_out_and_nothing_at_all_is_an_error() {
        let broken = [sample([0.1; 3], [500.0; 3]), sample([4.0; 3], [f64::NAN; 3]), sample([4.0; 3], [0.0; 3])];
        for stages in [Stages::One, Stages::Three] {
            assert_eq!(estimate(&broken, stages, 1.02).unwrap_err().kind(), ErrorKind::InvalidInput);
            assert!(estimate(&[], stages, 1.02).is_err());
        }
        let samples = [&broken[..], &[cloudlab(2.0)]].concat();
        assert!(near(estimate(&samples, Stages::One, 1.02).unwrap().stream_rate.network, 150.0 * MBIT));
        let unread = [sample([0.0, 4.0, 4.0], [0.0, 400.0, 400.0])];
        assert!(estimate(&unread, Stages::One, 1.02).is_ok() && estimate(&unread, Stages::Three, 1.02).is_err());
    }
}
