//! Stages that grow and shrink at every interval, split and fuse: nothing is lost, whichever way the bytes go.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::Path;
use std::time::Duration;

use edt::optimizer::{PerStage, Policy, SizeShare};
use edt::options::SecretSource;
use edt::server::Server;
use edt::{Decision, Observation, Optimizer, Report, ServeOptions, Transfer, TransferOptions};

const SECRET: &str = "a secret for tests of resizing";

/// Asks for other sizes at each decision: now three different ones, now the same for all, now one file at a time.
struct Jumpy {
    state: u64,
}

impl Jumpy {
    fn below(&mut self, limit: u16) -> u16 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u16::try_from((self.state >> 33) % u64::from(limit)).unwrap() + 1
    }

    fn jump(&mut self) -> Decision {
        let network = self.below(9);
        let fused = self.below(2) == 1;
        let (read, write) = if fused { (network, network) } else { (self.below(9), self.below(9)) };
        let concurrency = PerStage { read, network, write };
        let parallelism = if self.below(3) == 1 { 1 } else { u16::MAX };
        let pipelining = if self.below(3) == 1 { 2 } else { u16::MAX };
        let shares = if self.below(2) == 1 { vec![] } else { [8, 18].map(|exponent| self.share(exponent)).to_vec() };
        let pacing = [None, Some(1 << 20), Some(1 << 30)][usize::from(self.below(3)) - 1];
        Decision { concurrency, parallelism, pipelining, shares, pacing, reason: "jumping".to_owned() }
    }

    fn share(&mut self, exponent: u8) -> SizeShare {
        SizeShare { exponent, streams: self.below(4) - 1, parallelism: self.below(2) }
    }
}

impl Optimizer for Jumpy {
    fn name(&self) -> &'static str {
        "jumpy"
    }

    fn start(&mut self, _: &Policy) -> Decision {
        self.jump()
    }

    fn decide(&mut self, _: &Observation) -> edt::Result<Decision> {
        Ok(self.jump())
    }
}

/// Bytes that differ from block to block, so that a misplaced one shows.
fn fill(path: &Path, size: usize, seed: u64) {
    let mut state = seed | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let content: Vec<u8> = words.flatten().take(size).collect();
    std::fs::write(path, content).unwrap();
}

fn tree(root: &Path, seed: u64) {
    std::fs::create_dir_all(root.join("small")).unwrap();
    for number in 0..200 {
        fill(&root.join(format!("small/{number}")), number * 37, seed + number as u64);
    }
    // Many, for near the end of the work nothing is decided any more.
    for number in 0..50 {
        let size = [700_001, 262_144, 262_145, 140_000][number % 4];
        fill(&root.join(format!("large-{number}")), size, seed + 1000 + number as u64);
    }
}

fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn copy(from: &str, to: &str, seed: u64) -> Report {
    let options = TransferOptions {
        interval: Some(Duration::from_millis(50)),
        limit_rate: Some(16e6),
        max_streams: NonZeroU16::new(9).unwrap(),
        secret: SecretSource::Text(SECRET.to_owned()),
        ..TransferOptions::default()
    };
    let report = Transfer::new(from, to).with_options(options).with_optimizer(Jumpy { state: seed }).run().unwrap();
    assert!(report.is_complete(), "{:?}", report.failures);
    assert!(report.decisions.len() > 4, "only {} decisions were made", report.decisions.len());
    report
}

#[test]
fn stages_that_jump_lose_nothing_between_local_directories() {
    for seed in 1..4 {
        let place = tempfile::tempdir().unwrap();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        tree(&source, seed);
        copy(source.to_str().unwrap(), target.to_str().unwrap(), seed);
        assert!(contents(&source) == contents(&target), "the trees differ with seed {seed}");
    }
}

#[test]
fn stages_that_jump_lose_nothing_up_to_a_server_and_back() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    std::fs::create_dir_all(&root).unwrap();
    let server = Server::bind(ServeOptions {
        listen: "127.0.0.1:0".to_owned(),
        secret: SecretSource::Text(SECRET.to_owned()),
        identity: Some(place.path().join("identity.pem")),
        ..ServeOptions::new(&root)
    })
    .unwrap();
    let (url, handle) = (format!("edt://{}/", server.address()), server.handle());
    let serving = std::thread::spawn(move || server.run());
    for seed in 10..13 {
        let (source, back) = (place.path().join(format!("source-{seed}")), place.path().join(format!("back-{seed}")));
        tree(&source, seed);
        copy(source.to_str().unwrap(), &format!("{url}tree-{seed}"), seed);
        assert!(contents(&source) == contents(&root.join(format!("tree-{seed}"))), "the upload differs with seed {seed}");
        copy(&format!("{url}tree-{seed}"), back.to_str().unwrap(), seed);
        assert!(contents(&source) == contents(&back), "the download differs with seed {seed}");
    }
    handle.shutdown();
    serving.join().unwrap().unwrap();
}
