//! The knowledge file of `edt learn`, read and checked: clusters of similar transfers, each with its surfaces [ASM section 4.1].
//!
//! `docs/learning.md` describes the format.

use serde::Deserialize;

use super::features::{Feature, Features};
use super::setting::{Bounds, Setting};
use super::surface::{Cluster, ENOUGH, Grid, Surface, best_of};
use crate::error::{Error, ErrorKind, Result};

/// The version of the file. In the first, logs had other names, and would count again, and pipelining could be 0.
const FORMAT: u32 = 2;

/// What a file says that it is.
const KIND: &str = "asm";

/// The difference, in scales, to a cluster of which a feature is not known.
const UNSURE: f64 = 1.0;

const HINT: &str = "make it with `edt learn`, which learns from the history or from logs";

/// What was learned of past transfers.
#[derive(Debug, Clone, PartialEq)]
pub struct Knowledge {
    scales: Vec<Scale>,
    clusters: Vec<Cluster>,
}

/// A feature, and the difference of its logarithm that counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Scale {
    name: Feature,
    scale: f64,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    kind: String,
    format: u32,
}

#[derive(Deserialize)]
struct Text {
    features: Vec<Scale>,
    clusters: Vec<ClusterText>,
}

#[derive(Deserialize)]
struct ClusterText {
    centroid: Vec<Option<f64>>,
    entries: u64,
    grids: Vec<Grid>,
    surfaces: Vec<SurfaceText>,
}

#[derive(Deserialize)]
struct SurfaceText {
    load: f64,
    argmax: [u16; 3],
    throughput: Vec<Vec<f64>>,
    deviation: Vec<Vec<f64>>,
}

impl Knowledge {
    /// Reads the bytes of a file; an error says what is wrong with it, and what to do.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let unreadable = |cause: serde_json::Error| refused("it cannot be read").with_cause(cause);
        let Version { kind, format } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if kind != KIND {
            return Err(refused(format!("it is of the kind `{kind}`, not `{KIND}`")));
        }
        if format != FORMAT {
            let remedy = if format < FORMAT { "learn anew" } else { "update edt, or learn anew" };
            return Err(refused(format!("it is of format {format}, and this edt knows format {FORMAT}"))
                .with_hint(format!("{remedy} with `edt learn --fresh`, naming the logs again")));
        }
        let Text { features, clusters } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if features.iter().any(|feature| !(feature.scale.is_finite() && feature.scale > 0.0)) {
            return Err(refused("the scale of a feature is not positive"));
        }
        if clusters.is_empty() {
            return Err(refused("it knows no transfers").with_hint("run some transfers, then `edt learn`; or learn from logs"));
        }
        let clusters: Result<Vec<Cluster>> = clusters.into_iter().map(|cluster| cluster.checked(features.len())).collect();
        Ok(Self { scales: features, clusters: clusters? })
    }

    /// Whether the bytes are knowledge that an older edt made, which is not read any more.
    pub(crate) fn is_outdated(bytes: &[u8]) -> bool {
        serde_json::from_slice(bytes).is_ok_and(|Version { kind, format }| kind == KIND && format < FORMAT)
    }

    /// The same where, of settings that promise at least this share of the highest throughput, the one with the fewest streams is the best;
    /// 1 takes the highest. Without this it is 0.98.
    #[must_use]
    pub fn with_enough(mut self, share: f64) -> Self {
        self.clusters = self.clusters.into_iter().map(|cluster| cluster.with_enough(share)).collect();
        self
    }

    /// The clusters in the order of the file.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The cluster whose centroid is nearest to a transfer, by what is known of the transfer, and the distance; with nothing known,
    /// the largest.
    pub fn nearest(&self, features: &Features) -> (usize, f64) {
        let distances = self.clusters.iter().map(|cluster| self.distance(cluster, features));
        let nearest = distances.enumerate().min_by(|(a, near), (b, far)| {
            let entries = |index: usize| self.clusters[index].entries;
            near.total_cmp(far).then(entries(*b).cmp(&entries(*a)))
        });
        nearest.unwrap_or((0, 0.0))
    }

    /// The Euclidean distance of a transfer from a cluster, in scales of the features.
    pub(super) fn distance(&self, cluster: &Cluster, features: &Features) -> f64 {
        let difference = |(feature, centre): (&Scale, &Option<f64>)| {
            let own = features.logarithm(feature.name)?;
            Some(centre.map_or(UNSURE, |centre| (own - centre) / feature.scale))
        };
        let differences = self.scales.iter().zip(&cluster.centroid).filter_map(difference);
        differences.map(|difference| difference.powi(2)).sum::<f64>().sqrt()
    }
}

impl ClusterText {
    fn checked(self, features: usize) -> Result<Cluster> {
        let Self { centroid, entries, grids, surfaces } = self;
        if centroid.len() != features {
            return Err(refused(format!("a centroid has {} values for {features} features", centroid.len())));
        }
        if centroid.iter().flatten().any(|value| !value.is_finite()) {
            return Err(refused("a centroid is not finite"));
        }
        if grids.is_empty() || surfaces.is_empty() {
            return Err(refused("a cluster has no surface"));
        }
        grids.iter().try_for_each(Grid::check)?;
        let surfaces: Result<Vec<Surface>> = surfaces.into_iter().map(|surface| surface.checked(&grids)).collect();
        let cluster = Cluster { centroid, entries, grids, surfaces: surfaces?, enough: ENOUGH };
        if cluster.surfaces.windows(2).any(|pair| pair[0].load > pair[1].load) {
            return Err(refused("the surfaces of a cluster are not in the order of their loads"));
        }
        if let Some(surface) = cluster.surfaces.iter().find(|surface| !cluster.has(surface.argmax)) {
            return Err(refused(format!("the maximum of a surface, {}, is not on its grid", surface.argmax)));
        }
        Ok(cluster)
    }
}

impl SurfaceText {
    fn checked(self, grids: &[Grid]) -> Result<Surface> {
        let [parallelism, concurrency, pipelining] = self.argmax;
        let (throughput, deviation) = (joined(&self.throughput, grids)?, joined(&self.deviation, grids)?);
        let argmax = Setting { parallelism, concurrency, pipelining };
        let best = best_of(grids, &throughput, Bounds::NONE, ENOUGH).unwrap_or(argmax);
        let surface = Surface { load: self.load, argmax, best, throughput, deviation };
        if !(0.0..=1.0).contains(&surface.load) {
            return Err(refused(format!("a load of {} is not between 0 and 1", surface.load)));
        }
        if surface.throughput.iter().any(|value| !(value.is_finite() && *value > 0.0)) {
            return Err(refused("a throughput is not positive"));
        }
        if surface.deviation.iter().any(|value| !(value.is_finite() && *value >= 0.0)) {
            return Err(refused("a deviation is negative or not finite"));
        }
        Ok(surface)
    }
}

/// The values at all grids, one after another.
fn joined(values: &[Vec<f64>], grids: &[Grid]) -> Result<Vec<f64>> {
    let found: Vec<usize> = values.iter().map(Vec::len).collect();
    let needed: Vec<usize> = grids.iter().map(Grid::points).collect();
    if found == needed {
        Ok(values.concat())
    } else {
        Err(refused(format!("a surface has {found:?} values on grids of {needed:?} settings")))
    }
}

/// The error for knowledge that cannot be used.
pub(super) fn refused(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, what).with_hint(HINT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::asm::testing::KNOWLEDGE;
    use std::time::Duration;

    fn refusal(from: &str, to: &str) -> String {
        assert!(KNOWLEDGE.contains(from), "{from}");
        let error = Knowledge::parse(KNOWLEDGE.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.hint().unwrap().contains("learn"), "{error:?}");
        error.to_string()
    }

    #[test]
    fn a_file_is_read_with_its_clusters_and_surfaces() {
        let knowledge = Knowledge::parse(KNOWLEDGE.as_bytes()).unwrap();
        let surfaces: Vec<usize> = knowledge.clusters().iter().map(Cluster::surfaces).collect();
        assert_eq!(surfaces, [3, 1]);
        assert!((knowledge.clusters()[0].load(2) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn the_nearest_cluster_is_found_by_what_is_known() {
        let knowledge = Knowledge::parse(KNOWLEDGE.as_bytes()).unwrap();
        // Centroids: 1/32 s and 1 MiB; 1/1024 s and 1 GiB, with ten times the entries.
        let found = |rtt: Option<u64>, mean_size: Option<f64>| {
            let features = Features { rtt: rtt.map(Duration::from_micros), mean_size, ..Features::default() };
            knowledge.nearest(&features)
        };
        assert_eq!(found(Some(31_250), Some(1_048_576.0)), (0, 0.0));
        assert_eq!(found(Some(31_250), None).0, 0);
        assert_eq!(found(None, Some(1e9)).0, 1);
        assert_eq!(found(None, None).0, 1, "with nothing known, the largest");
        let unsure = Knowledge::parse(KNOWLEDGE.replace("[-5.0, 20.0]", "[null, 20.0]").as_bytes()).unwrap();
        let mebibytes = Features { rtt: Some(Duration::from_millis(1)), mean_size: Some(1_048_576.0), ..Features::default() };
        assert_eq!(unsure.nearest(&mebibytes), (0, UNSURE));
        let (cluster, distance) = found(Some(125_000), Some(1_048_576.0));
        assert_eq!(cluster, 0);
        assert!((distance - 4.0).abs() < 1e-9, "two octaves of half an octave each: {distance}");
    }

    #[test]
    fn what_is_broken_newer_or_of_another_kind_is_refused() {
        for (from, to, expected) in [
            ("\"format\": 2", "\"format\": 3", "format 3"),
            ("\"format\": 2", "\"format\": 1", "format 1, and this edt knows format 2"),
            ("\"asm\"", "\"harp\"", "`harp`"),
            ("{", "[", "cannot be read"),
            ("\"scale\": 0.5", "\"scale\": 0", "scale"),
            ("\"rtt\"", "\"weather\"", "unknown variant `weather`"),
            ("[-5.0, 20.0]", "[-5.0]", "1 values for 2 features"),
            ("\"load\": 0.5", "\"load\": 1.5", "1.5"),
            ("\"load\": 0.75", "\"load\": 0.25", "order"),
            ("\"argmax\": [1, 8, 4]", "\"argmax\": [1, 9, 4]", "not on its grid"),
            ("[100, 200, 400, 300]", "[100, 200, 400]", "[3] values"),
            ("[100, 200, 400, 300]", "[100, 200, 400, 0]", "not positive"),
            ("\"deviation\": [[0.05", "\"deviation\": [[-0.05", "negative"),
            ("[1, 2, 4, 8]", "[1, 4, 2, 8]", "ascending"),
            ("\"pipelining\": [4]", "\"pipelining\": [0]", "from 1"),
        ] {
            let found = refusal(from, to);
            assert!(found.contains(expected), "{found} without {expected}");
        }
    }

    #[test]
    fn a_file_without_transfers_asks_for_some() {
        let empty = r#"{"kind": "asm", "format": 2, "features": [], "clusters": []}"#;
        let error = Knowledge::parse(empty.as_bytes()).unwrap_err();
        assert_eq!(error.what(), "it knows no transfers");
        assert!(error.hint().unwrap().contains("edt learn"));
        assert!(Knowledge::parse(br#"{"format": 2}"#).unwrap_err().what().contains("``"));
    }

    #[test]
    fn the_remedy_for_a_file_of_before_is_to_learn_anew_and_for_a_later_one_to_update() {
        let hint = |format: &str| {
            let text = KNOWLEDGE.replace("\"format\": 2", format);
            Knowledge::parse(text.as_bytes()).unwrap_err().hint().unwrap().to_owned()
        };
        assert!(hint("\"format\": 1").starts_with("learn anew with `edt learn --fresh`"));
        assert!(hint("\"format\": 3").starts_with("update edt, or learn anew"));
        let outdated = |format: &str| Knowledge::is_outdated(KNOWLEDGE.replace("\"format\": 2", format).as_bytes());
        assert_eq!(["1", "2", "3"].map(|format| outdated(&format!("\"format\": {format}"))), [true, false, false]);
        assert!(!Knowledge::is_outdated(b"{"));
    }
}
