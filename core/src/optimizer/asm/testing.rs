//! Surfaces made by hand.

use super::setting::{Bounds, Setting};
use super::surface::{Cluster, ENOUGH, Grid, Surface, best_of};

/// Bounds that allow everything.
pub(super) const ANY: Bounds = Bounds::NONE;

/// A knowledge file: a path of 1/32 s with files of 1 MiB under three loads, and one of 1/1024 s with files of 1 GiB.
pub(super) const KNOWLEDGE: &str = r#"{
  "kind": "asm", "format": 2,
  "features": [{"name": "rtt", "scale": 0.5}, {"name": "mean_size", "scale": 1.0}],
  "clusters": [
    {
      "centroid": [-5.0, 20.0], "entries": 100,
      "grids": [{"parallelism": [1], "concurrency": [1, 2, 4, 8], "pipelining": [4]}],
      "surfaces": [
        {"load": 0.0, "argmax": [1, 8, 4], "throughput": [[100, 200, 400, 800]], "deviation": [[0.05, 0.05, 0.05, 0.05]]},
        {"load": 0.5, "argmax": [1, 4, 4], "throughput": [[100, 200, 400, 300]], "deviation": [[0.05, 0.05, 0.05, 0.05]]},
        {"load": 0.75, "argmax": [1, 2, 4], "throughput": [[100, 200, 150, 100]], "deviation": [[0.05, 0.05, 0.05, 0.05]]}
      ]
    },
    {
      "centroid": [-10.0, 30.0], "entries": 1000,
      "grids": [{"parallelism": [65535], "concurrency": [1, 16], "pipelining": [65535]}],
      "surfaces": [{"load": 0.0, "argmax": [65535, 16, 65535], "throughput": [[500, 900]], "deviation": [[0.05, 0.05]]}]
    }
  ],
  "learned": {"clusters": []}
}"#;

pub(super) fn setting(parallelism: u16, concurrency: u16, pipelining: u16) -> Setting {
    Setting { parallelism, concurrency, pipelining }
}

/// The grid of some concurrencies, with one stream for each file and pipelining 4.
pub(super) fn concurrencies(values: &[u16]) -> Grid {
    Grid { parallelism: vec![1], concurrency: values.to_vec(), pipelining: vec![4] }
}

/// A cluster of surfaces, each a load and the throughputs at the settings of the grids, with deviations of 5 %.
pub(super) fn cluster(grids: Vec<Grid>, surfaces: &[(f64, &[f64])]) -> Cluster {
    let surface = |(load, throughput): &(f64, &[f64])| {
        let settings = grids.iter().flat_map(Grid::settings).zip(throughput.iter());
        let (argmax, _) = settings.max_by(|a, b| a.1.total_cmp(b.1)).expect("a surface has a setting");
        let best = best_of(&grids, throughput, ANY, ENOUGH).expect("a surface has a setting");
        Surface { load: *load, argmax, best, throughput: throughput.to_vec(), deviation: vec![0.05; throughput.len()] }
    };
    let surfaces = surfaces.iter().map(surface).collect();
    Cluster { centroid: Vec::new(), entries: 1, grids, surfaces, enough: ENOUGH }
}
