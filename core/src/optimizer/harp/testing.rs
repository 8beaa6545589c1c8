//! Past transfers to make others from.

use super::polynomial::{Measured, Point};
use crate::history::Past;

/// The values that a grid of settings has for each parameter, and those of a smaller one.
const VALUES: [u16; 6] = [1, 2, 4, 8, 16, 32];
const FEW: [u16; 4] = [1, 2, 4, 8];

/// All settings of a grid, each with the throughput that `f` tells.
pub(super) fn grid(f: impl Fn(Point) -> f64) -> Vec<Measured> {
    let all =
        VALUES.into_iter().flat_map(|cc| VALUES.into_iter().flat_map(move |p| VALUES.into_iter().map(move |pp| [cc, p, pp])));
    all.map(|at| at.map(f64::from)).map(|at| Measured { at, throughput: f(at) }).collect()
}

/// A hundred files of 1 MB over 10 Gbit/s and 40 ms, one by one.
pub(super) fn past() -> Past {
    Past {
        began_s: 0.0,
        source: "here".to_owned(),
        destination: "there".to_owned(),
        bandwidth: Some(1.25e9),
        rtt_s: Some(0.04),
        tcp_buffer: Some(32e6),
        files: 100,
        bytes: 100_000_000,
        concurrency: 1,
        parallelism: 1,
        streams: None,
        pipelining: 1,
        goodput: 1e8,
    }
}

/// A pass over a grid of settings that began at some time, with the bytes per second that `f` tells for each.
pub(super) fn pass(like: &Past, began_s: f64, f: impl Fn(u16, u16, u16) -> f64) -> Vec<Past> {
    let settings =
        VALUES.into_iter().flat_map(|cc| FEW.into_iter().flat_map(move |p| FEW.into_iter().map(move |pp| (cc, p, pp))));
    let row = |(concurrency, parallelism, pipelining): (u16, u16, u16)| Past {
        began_s,
        concurrency,
        parallelism,
        pipelining,
        goodput: f(concurrency, parallelism, pipelining),
        ..like.clone()
    };
    settings.map(row).collect()
}
