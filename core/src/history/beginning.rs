//! What the history keeps of a transfer when it begins.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::write::now_s;
use super::{database_file, path_file, place};
use crate::endpoint::{Endpoint, Location};
use crate::error::Result;
use crate::optimizer::PerStage;
use crate::options::{Remember, RunMode, Selection, TransferOptions};

/// The machines of sides that are no storage: `zero:` makes its files up, `null:` discards what it gets. Such transfers say nothing of others.
const MADE_UP: &str = "zero";
const DISCARDED: &str = "null";

/// The first row of a transfer.
#[derive(Debug, Clone)]
pub(crate) struct Beginning {
    /// The database.
    pub(super) file: Result<PathBuf>,
    /// When it began, in seconds since 1970.
    pub(super) began_s: f64,
    pub(super) source: String,
    pub(super) destination: String,
    /// Sources and destination as they were named, if that is to be kept.
    pub(super) names: Option<(String, String)>,
    pub(super) optimizer: String,
    pub(super) policy: String,
    /// The options that matter for how it goes, as JSON.
    pub(super) options: String,
    pub(super) rtt: Option<Duration>,
    /// The address of this side of the path.
    local: Option<IpAddr>,
    /// Whether this side sends.
    sends: bool,
    explored: Option<PathBuf>,
}

/// What is known of the path besides its round trip time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PathFacts {
    /// Bytes per second that the path carries: as it was explored, else what the interface of this side does.
    pub(super) bandwidth: Option<f64>,
    /// Bytes that the TCP buffer of a stream may grow to, at this side.
    pub(super) tcp_buffer: Option<u64>,
    /// Bytes of a packet, at most.
    pub(super) mtu: Option<u32>,
}

impl Beginning {
    /// Of a transfer with these options; `None` if the history is to keep nothing of it, or the endpoints are none.
    pub(crate) fn of(sources: &[Endpoint], destination: &Endpoint, options: &TransferOptions) -> Option<Self> {
        let remember = remembered(options.history, std::env::var_os("EDT_HISTORY").as_deref());
        if remember == Remember::Nothing || options.run == RunMode::DryRun {
            return None;
        }
        let first = sources.first()?;
        let name = |endpoints: &[Endpoint]| endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" ");
        let names = (remember == Remember::Names).then(|| (name(sources), name(std::slice::from_ref(destination))));
        let source = side(first).ok()?;
        Some(Self {
            file: database_file(),
            began_s: now_s(),
            sends: source == "local" || source == MADE_UP,
            source,
            destination: side(destination).ok()?,
            names,
            optimizer: options.optimizer.clone(),
            policy: word(options.policy),
            options: telling(options).to_string(),
            rtt: None,
            local: None,
            explored: path_file(first, destination, 1).ok(),
        })
    }

    /// Adds the round trip time of the path, and the address of this side of it, which are known once it is connected.
    pub(crate) fn over(self, rtt: Option<Duration>, local: Option<IpAddr>) -> Self {
        Self { rtt, local, ..self }
    }

    /// Whether it goes over a network, from storage to storage: other transfers tell nothing of one within this machine.
    pub(super) fn has_path(&self) -> bool {
        let no_storage = self.source == MADE_UP || self.destination == DISCARDED;
        !no_storage && (self.source.as_str(), self.destination.as_str()) != ("local", "local")
    }

    /// Looks up what is known of the path; takes a moment.
    pub(super) fn path_facts(&self) -> PathFacts {
        let interface = interface(self.local.filter(|local| !local.is_loopback()), self.sends);
        PathFacts { bandwidth: self.explored.as_deref().and_then(explored).or(interface.bandwidth), ..interface }
    }
}

/// The machine of an endpoint, or the word for one without storage.
fn side(endpoint: &Endpoint) -> Result<String> {
    match endpoint.resolve()? {
        Location::Zero { .. } => Ok(MADE_UP.to_owned()),
        Location::Null => Ok(DISCARDED.to_owned()),
        _ => place(endpoint),
    }
}

/// What is to be kept, by the option and by the variable `EDT_HISTORY`. A word that is not known keeps nothing.
fn remembered(option: Remember, variable: Option<&OsStr>) -> Remember {
    if option != Remember::Environment {
        return option;
    }
    match variable.unwrap_or_default().to_string_lossy().to_ascii_lowercase().as_str() {
        "" | "on" | "machines" => Remember::Machines,
        "names" => Remember::Names,
        "off" => Remember::Nothing,
        _ => {
            static SAID: Once = Once::new();
            SAID.call_once(|| tracing::warn!("`EDT_HISTORY` is none of `off`, `machines` and `names`: no history is kept"));
            Remember::Nothing
        }
    }
}

/// The options that tell something of how a transfer goes; none of them names a file or a place.
fn telling(options: &TransferOptions) -> Value {
    let selection = match options.selection {
        Selection::All => "all",
        Selection::Changed => "changed",
        Selection::Mirror => "mirror",
    };
    json!({
        "concurrency": options.concurrency, "limit_rate": options.limit_rate, "worker_rate": options.worker_rate,
        "max_streams": options.max_streams.get(), "parallelism": options.parallelism.map(std::num::NonZeroU16::get),
        "pipelining": options.pipelining, "congestion": options.congestion, "chunk_size": options.chunk_size,
        "interval_s": options.interval.map(|interval| interval.as_secs_f64()), "selection": selection,
        "fsync": format!("{:?}", options.fsync).to_lowercase(), "digest": format!("{:?}", options.digest).to_lowercase(),
        "buffer": options.buffer, "deterministic": options.deterministic, "seed": options.seed,
    })
}

/// The word for a value in JSON.
pub(super) fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The bandwidth that an exploration of the path has found.
fn explored(path: &Path) -> Option<f64> {
    #[derive(Deserialize)]
    struct Explored {
        estimate: Estimate,
    }
    #[derive(Deserialize)]
    struct Estimate {
        bandwidth: PerStage<Option<f64>>,
    }
    let text = std::fs::read_to_string(path).ok()?;
    serde_json::from_str::<Explored>(&text).ok()?.estimate.bandwidth.network
}

#[cfg(target_os = "linux")]
fn interface(local: Option<IpAddr>, sends: bool) -> PathFacts {
    local.map(|local| super::interface::facts(local, sends)).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn interface(_: Option<IpAddr>, _: bool) -> PathFacts {
    PathFacts::default()
}

#[cfg(test)]
impl Beginning {
    /// Of a transfer from this machine to one of that name, written to a file.
    pub(super) fn of_a_test(file: &Path, destination: &str) -> Self {
        let options = TransferOptions { history: Remember::Machines, ..TransferOptions::default() };
        let url = Endpoint::new(format!("edt://{destination}/secret-folder/"));
        Self::of(&["secret-source".into()], &url, &options).expect("the endpoints have machines").into_file(file)
    }

    /// The same, written to a file, and of a path that nobody explored.
    pub(super) fn into_file(self, file: &Path) -> Self {
        Self { file: Ok(file.to_owned()), explored: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_wins_over_the_variable_and_an_unknown_word_keeps_nothing() {
        let kept = |variable: Option<&str>| remembered(Remember::Environment, variable.map(OsStr::new));
        assert_eq!(kept(None), Remember::Machines);
        assert_eq!(kept(Some("")), Remember::Machines);
        assert_eq!(kept(Some("OFF")), Remember::Nothing);
        assert_eq!(kept(Some("names")), Remember::Names);
        assert_eq!(kept(Some("fals")), Remember::Nothing);
        #[cfg(unix)]
        assert_eq!(
            remembered(Remember::Environment, Some(std::os::unix::ffi::OsStrExt::from_bytes(b"off\xff"))),
            Remember::Nothing
        );
        assert_eq!(remembered(Remember::Names, Some(OsStr::new("off"))), Remember::Names);
        assert_eq!(remembered(Remember::Nothing, Some(OsStr::new("names"))), Remember::Nothing);
    }

    #[test]
    fn names_are_kept_only_if_that_is_asked_for_and_dry_runs_never() {
        let of = |history, run| {
            let options = TransferOptions { history, run, name: Some("secret".to_owned()), ..TransferOptions::default() };
            Beginning::of(&["/home/secret".into()], &"edt://dtn.example/secret".into(), &options)
        };
        assert!(of(Remember::Nothing, RunMode::Copy).is_none() && of(Remember::Names, RunMode::DryRun).is_none());
        let beginning = of(Remember::Machines, RunMode::Copy).unwrap();
        assert_eq!((beginning.source.as_str(), beginning.destination.as_str()), ("local", "dtn.example_7632"));
        assert_eq!((beginning.policy.as_str(), beginning.names.as_ref()), ("fair", None));
        assert!(!format!("{:?} {}", beginning.names, beginning.options).contains("secret"));
        let names = of(Remember::Names, RunMode::Copy).unwrap().names.unwrap();
        assert_eq!(names, ("/home/secret".to_owned(), "edt://dtn.example/secret".to_owned()));
    }

    #[test]
    fn a_side_without_storage_is_no_machine() {
        let of = |source: &str, destination: &str| {
            let options = TransferOptions { history: Remember::Machines, ..TransferOptions::default() };
            let beginning = Beginning::of(&[source.into()], &destination.into(), &options).unwrap();
            (beginning.source, beginning.destination, beginning.sends)
        };
        let words = |source: &str, destination: &str, sends| (source.to_owned(), destination.to_owned(), sends);
        assert_eq!(of("zero:4x1MiB", "edt://h/"), words("zero", "h_7632", true));
        assert_eq!(of("edt://zero/", "null:"), words("zero_7632", "null", false));
        assert_eq!(of("data/", "null"), words("local", "local", true));
    }

    #[test]
    fn a_path_that_was_explored_has_its_bandwidth() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        assert_eq!(explored(&path), None);
        std::fs::write(&path, r#"{"estimate": {"bandwidth": {"read": null, "network": 125e6, "write": null}}}"#).unwrap();
        assert_eq!(explored(&path), Some(125e6));
        let beginning = Beginning { explored: Some(path), ..Beginning::of_a_test(directory.path(), "h") };
        assert_eq!(beginning.path_facts().bandwidth, Some(125e6));
    }
}
