//! Streams that are divided among files by their size: what a decision gives to each size is what it gets, up to a server and back.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use edt::optimizer::{Policy, SizeShare};
use edt::options::{Remember, SecretSource};
use edt::server::Server;
use edt::{Decision, Observation, Optimizer, ServeOptions, Transfer, TransferOptions};

const SECRET: &str = "a secret for tests of dividing";

/// What a worker of the sending side reads, in bytes per second, so that streams move alike.
const RATE: f64 = 4e6;

const SMALL: u64 = 256 << 10;
const LARGE: u64 = 1 << 20;

/// Two streams for small files, and four for large ones.
const STREAMS: [u16; 2] = [2, 4];

/// Divides six streams, and looks at each decision what has come of small and of large files.
struct Divided {
    target: PathBuf,
    seen: Arc<Mutex<Vec<[u64; 2]>>>,
}

impl Divided {
    fn decision() -> Decision {
        let share = |(exponent, streams)| SizeShare { exponent, streams, parallelism: u16::MAX };
        let shares = [18, 20].into_iter().zip(STREAMS).map(share).collect();
        Decision { shares, ..Decision::uniform(STREAMS.iter().sum(), "divided") }
    }
}

impl Optimizer for Divided {
    fn name(&self) -> &'static str {
        "divided"
    }

    fn start(&mut self, _: &Policy) -> Decision {
        Self::decision()
    }

    fn decide(&mut self, _: &Observation) -> edt::Result<Decision> {
        self.seen.lock().unwrap().push(arrived(&self.target));
        Ok(Self::decision())
    }
}

/// Bytes of the small and of the large files that are complete.
fn arrived(target: &Path) -> [u64; 2] {
    let names = std::fs::read_dir(target).map(|entries| entries.map(|entry| entry.unwrap().file_name()).collect());
    let names: Vec<_> = names.unwrap_or_default();
    let is_one = |name: &str, kind: &str| name.strip_prefix(kind).is_some_and(|number| number.parse::<u32>().is_ok());
    let count = |kind: &str| names.iter().filter(|name| is_one(&name.to_string_lossy(), kind)).count() as u64;
    [count("small-") * SMALL, count("large-") * LARGE]
}

/// As many bytes for each stream of its size, so that both sizes end together.
fn fill(root: &Path) {
    std::fs::create_dir_all(root).unwrap();
    for (kind, size, count) in [("small", SMALL, 64), ("large", LARGE, 32)] {
        for number in 0..count {
            std::fs::write(root.join(format!("{kind}-{number}")), vec![b'x'; usize::try_from(size).unwrap()]).unwrap();
        }
    }
}

/// Serves a directory until what is answered with the address is called; its workers read and write at a rate, if one is named.
fn serve(root: &Path, worker_rate: Option<f64>) -> (String, impl FnOnce()) {
    std::fs::create_dir_all(root).unwrap();
    let options = ServeOptions {
        listen: "127.0.0.1:0".to_owned(),
        secret: SecretSource::Text(SECRET.to_owned()),
        identity: Some(root.with_extension("pem")),
        worker_rate,
        ..ServeOptions::new(root)
    };
    let server = Server::bind(options).unwrap();
    let (url, handle) = (format!("edt://{}/", server.address()), server.handle());
    let serving = std::thread::spawn(move || server.run());
    let end = move || {
        handle.shutdown();
        serving.join().unwrap().unwrap();
    };
    (url, end)
}

/// Copies, and holds what is seen of it halfway to what the sizes were given.
fn copy(from: &str, to: &str, target: &Path, worker_rate: Option<f64>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let options = TransferOptions {
        interval: Some(Duration::from_millis(50)),
        max_streams: NonZeroU16::new(STREAMS.iter().sum()).unwrap(),
        worker_rate,
        secret: SecretSource::Text(SECRET.to_owned()),
        history: Remember::Nothing,
        ..TransferOptions::default()
    };
    let optimizer = Divided { target: target.to_owned(), seen: Arc::clone(&seen) };
    let report = Transfer::new(from, to).with_options(options).with_optimizer(optimizer).without_guard().run().unwrap();
    assert!(report.is_complete(), "{:?}", report.failures);
    assert_eq!(arrived(target), [64 * SMALL, 32 * LARGE]);
    let seen = seen.lock().unwrap();
    let halfway = seen.iter().filter(|[_, large]| (8..24).contains(&(large / LARGE)));
    let halfway: Vec<f64> = halfway.map(|[small, large]| *small as f64 / *large as f64).collect();
    // Half as much of small ones. What is under way does not count, which is more of large ones.
    assert!(!halfway.is_empty() && halfway.iter().all(|share| (0.35..0.85).contains(share)), "{seen:?}");
}

#[test]
fn each_size_has_the_streams_that_it_was_given_up_to_a_server_and_back() {
    let place = tempfile::tempdir().unwrap();
    let (source, root, slow, back) =
        (place.path().join("source"), place.path().join("root"), place.path().join("slow"), place.path().join("back"));
    fill(&source);
    let (up, end) = serve(&root, None);
    copy(source.to_str().unwrap(), &format!("{up}tree"), &root.join("tree"), Some(RATE));
    end();
    fill(&slow.join("tree"));
    let (down, end) = serve(&slow, Some(RATE));
    copy(&format!("{down}tree"), back.to_str().unwrap(), &back, None);
    end();
}
