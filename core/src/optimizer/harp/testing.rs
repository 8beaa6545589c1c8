//! Past transfers to make others from.

use crate::history::Past;

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
        pipelining: 1,
        goodput: 1e8,
    }
}

/// A pass over a grid of settings that began at some time, with the bytes per second that `f` tells for each.
pub(super) fn pass(like: &Past, began_s: f64, f: impl Fn(u16, u16, u16) -> f64) -> Vec<Past> {
    let (some, few) = ([1, 2, 4, 8, 16, 32], [1, 2, 4, 8]);
    let settings = some.iter().flat_map(|cc| few.iter().flat_map(move |p| few.iter().map(move |pp| (*cc, *p, *pp))));
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
