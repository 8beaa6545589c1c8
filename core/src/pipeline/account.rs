//! The account of a transfer, kept in the caller's process: every item ends in exactly one of its totals.

mod earlier;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::error::Error;
use crate::event::{Event, EventSender, Failure, FileDone, FileSkipped, Planned, Retried, Totals};
use crate::path::RelativePath;
use crate::pipeline::account::earlier::Earlier;
use crate::pipeline::manifest::{Manifest, ManifestEntry};
use crate::protocol::hex;
use crate::protocol::message::{DoneItem, FileHeader, ItemKind, Listed, Skipped};
use crate::sync::Mutex;

/// Failures that are kept; of those beyond, the first one of each kind that is not among them.
const FAILURES_KEPT: usize = 10_000;

/// Counts, records and tells what becomes of each item.
pub(crate) struct Account {
    events: EventSender,
    begun: Instant,
    counters: Counters,
    failures: Mutex<Failures>,
    manifest: Mutex<Manifest>,
    listed: Mutex<Listed>,
    earlier: Mutex<Earlier>,
    only: Mutex<Option<Only>>,
}

/// The file that a transfer of one moves.
struct Only {
    name: RelativePath,
    /// Whether it goes into the destination, which is a directory.
    is_inside: bool,
}

/// The failures that are kept.
#[derive(Default)]
struct Failures {
    kept: Vec<Failure>,
    /// The kinds of errors among them.
    kinds: Vec<&'static str>,
}

impl Failures {
    /// Keeps a failure if there is room, or none of its kind yet: whoever asks what kinds there were hears of all.
    fn add(&mut self, failure: &Failure) {
        let is_new = !self.kinds.contains(&failure.kind);
        if is_new {
            self.kinds.push(failure.kind);
        }
        if is_new || self.kept.len() < FAILURES_KEPT {
            self.kept.push(failure.clone());
        }
    }
}

#[derive(Default)]
struct Counters {
    files_done: AtomicU64,
    files_skipped: AtomicU64,
    others_done: AtomicU64,
    failed: AtomicU64,
    removed: AtomicU64,
    bytes_done: AtomicU64,
    bytes_skipped: AtomicU64,
    bytes_resumed: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_verified: AtomicU64,
    retries: AtomicU64,
}

impl Account {
    pub(crate) fn new(events: EventSender, manifest: Manifest) -> Self {
        Self {
            events,
            begun: Instant::now(),
            counters: Counters::default(),
            failures: Mutex::default(),
            manifest: Mutex::new(manifest),
            listed: Mutex::default(),
            earlier: Mutex::default(),
            only: Mutex::default(),
        }
    }

    /// The source is one file of this name; `None`: it is no file.
    pub(crate) fn begin(&self, file_name: Option<&[u8]>) {
        let name = file_name.and_then(|name| RelativePath::from_bytes(name).ok());
        *self.only.lock() = name.map(|name| Only { name, is_inside: false });
    }

    /// Whether that file goes into the destination, as the receiver tells it.
    pub(crate) fn resolved(&self, is_inside: bool) {
        if let Some(only) = self.only.lock().as_mut() {
            only.is_inside = is_inside;
        }
    }

    /// The name of a file below the destination given. A file that goes into a directory is that itself in the plan, and has no name there.
    fn name(&self, path: &[u8]) -> RelativePath {
        if path.is_empty()
            && let Some(only) = self.only.lock().as_ref().filter(|only| only.is_inside)
        {
            return only.name.clone();
        }
        RelativePath::from_bytes(path).unwrap_or_default()
    }

    /// What listing found so far; a new attempt lists again from nothing.
    pub(crate) fn listed(&self, listed: Listed) {
        *self.listed.lock() = listed;
        self.events.send(Event::Planned(Planned { items: listed.items, bytes: listed.bytes, complete: listed.complete }));
    }

    /// An item is complete under its final name.
    pub(crate) fn done(&self, header: &FileHeader, item: &DoneItem) {
        if header.kind != ItemKind::File {
            add(&self.counters.others_done, 1);
            return;
        }
        add(&self.counters.files_done, 1);
        add(&self.counters.bytes_done, header.size);
        self.earlier.lock().publish(&header.path);
        let entry = ManifestEntry {
            path: self.name(&header.path),
            size: header.size,
            modified_ns: header.modified_ns,
            mode: header.mode,
            crc64nvme: item.crc64nvme,
            blake3: item.blake3,
        };
        let unknown = header.copy_from.is_some() && item.crc64nvme == 0;
        if !unknown {
            self.record(&entry);
        }
        self.events.send(Event::FileDone(FileDone {
            path: entry.path.to_string(),
            size: header.size,
            crc64nvme: if unknown { String::new() } else { format!("{:016x}", item.crc64nvme) },
            blake3: item.blake3.map(|digest| hex(&digest)),
        }));
    }

    /// A file is not sent: the destination has it, or this is a dry run and the manifest lists what would be sent.
    pub(crate) fn left_out(&self, skipped: &Skipped) {
        // Of a file that stood at the destination before, no digest is known, and a manifest holds none without.
        if let Some(crc64nvme) = skipped.crc64nvme.or(skipped.wanted.then_some(0)) {
            self.record(&ManifestEntry {
                path: self.name(&skipped.path),
                size: skipped.size,
                modified_ns: skipped.modified_ns,
                mode: skipped.mode,
                crc64nvme,
                blake3: skipped.blake3,
            });
        }
        if skipped.wanted {
            add(&self.counters.files_done, 1);
            add(&self.counters.bytes_done, skipped.size);
        } else {
            self.skipped(&skipped.path, skipped.size);
        }
    }

    fn record(&self, entry: &ManifestEntry) {
        if let Err(error) = self.manifest.lock().add(entry) {
            tracing::warn!(%error, "the manifest could not be written");
        }
    }

    fn skipped(&self, path: &[u8], size: u64) {
        // One that an earlier attempt published is counted as done.
        if self.earlier.lock().has_published(path) {
            return;
        }
        add(&self.counters.files_skipped, 1);
        add(&self.counters.bytes_skipped, size);
        self.events.send(Event::FileSkipped(FileSkipped { path: self.name(path).to_string(), size }));
    }

    /// An item failed for good.
    pub(crate) fn failed(&self, path: &[u8], error: &Error) {
        add(&self.counters.failed, 1);
        let failure = Failure::new(String::from_utf8_lossy(path), error);
        self.failures.lock().add(&failure);
        self.events.send(Event::FileFailed(failure));
    }

    /// Something is tried again.
    pub(crate) fn retried(&self, place: impl Into<String>, cause: &Error, wait_ms: u64) {
        add(&self.counters.retries, 1);
        self.events.send(Event::Retried(Retried { place: place.into(), cause: cause.to_string(), wait_ms }));
    }

    /// Bytes of a partial file were found at the destination; what an earlier attempt of this process has counted of them is not counted again.
    pub(crate) fn resumed(&self, bytes: u64) {
        let new = self.earlier.lock().found(bytes);
        add(&self.counters.bytes_resumed, new);
    }

    pub(crate) fn verified(&self, bytes: u64) {
        add(&self.counters.bytes_verified, bytes);
    }

    pub(crate) fn sent(&self, bytes: u64) {
        add(&self.counters.bytes_sent, bytes);
    }

    pub(crate) fn removed(&self, items: u64) {
        add(&self.counters.removed, items);
    }

    /// Bytes acknowledged so far: grows with every progress.
    pub(crate) fn progress(&self) -> u64 {
        self.counters.bytes_verified.load(Ordering::Relaxed) + self.counters.files_done.load(Ordering::Relaxed)
    }

    /// A new attempt lists and counts failures and skipped files again; what was done stays done, and what is there of other files stays
    /// there. The manifest is begun anew, for the attempt meets every file again: those done before as skipped ones whose digests are known.
    pub(crate) fn restart(&self) {
        let (counters, totals) = (&self.counters, self.totals());
        let there = totals.bytes_verified + totals.bytes_resumed;
        self.earlier.lock().restart(there.saturating_sub(totals.bytes_done));
        for counter in [&counters.failed, &counters.others_done, &counters.files_skipped, &counters.bytes_skipped] {
            counter.store(0, Ordering::Relaxed);
        }
        *self.failures.lock() = Failures::default();
        *self.listed.lock() = Listed::default();
        if let Err(error) = self.manifest.lock().clear() {
            tracing::warn!(%error, "the manifest could not be begun anew");
        }
    }

    /// Items that were listed and are in none of the totals.
    pub(crate) fn unaccounted(&self) -> u64 {
        let totals = self.totals();
        let settled = totals.files_done + totals.files_skipped + totals.others_done + totals.failed;
        self.listed.lock().items.saturating_sub(settled)
    }

    pub(crate) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        Totals {
            files_done: read(&counters.files_done),
            files_skipped: read(&counters.files_skipped),
            others_done: read(&counters.others_done),
            failed: read(&counters.failed),
            removed: read(&counters.removed),
            bytes_done: read(&counters.bytes_done),
            bytes_skipped: read(&counters.bytes_skipped),
            bytes_resumed: read(&counters.bytes_resumed),
            bytes_sent: read(&counters.bytes_sent),
            bytes_verified: read(&counters.bytes_verified),
            retries: read(&counters.retries),
            elapsed_s: self.begun.elapsed().as_secs_f64(),
        }
    }

    /// Hands out what the report needs; the account is empty of it afterwards.
    pub(crate) fn close(&self) -> (Vec<Failure>, Manifest) {
        (std::mem::take(&mut self.failures.lock().kept), std::mem::take(&mut self.manifest.lock()))
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn done(account: &Account, path: &str) {
        done_with(account, path, 5);
    }

    fn done_with(account: &Account, path: &str, size: u64) {
        let header = FileHeader { path: path.into(), ..FileHeader::of_a_test(1, size) };
        account.done(&header, &DoneItem { file: 1, crc64nvme: 7, blake3: None });
    }

    #[test]
    fn of_more_failures_than_are_kept_each_kind_is_there() {
        let account = Account::new(EventSender::channel().0, Manifest::default());
        let error = |kind: ErrorKind| Error::new(kind, "as a test");
        for _ in 0..FAILURES_KEPT + 5 {
            account.failed(b"a", &error(ErrorKind::ConnectionLost));
        }
        for kind in [ErrorKind::NotFound, ErrorKind::NotFound, ErrorKind::NoSpace, ErrorKind::ConnectionLost] {
            account.failed(b"b", &error(kind));
        }
        assert_eq!(account.totals().failed, FAILURES_KEPT as u64 + 9);
        let kept = account.close().0;
        assert_eq!(kept.len(), FAILURES_KEPT + 2);
        let last: Vec<_> = kept[FAILURES_KEPT - 1..].iter().map(|failure| failure.kind).collect();
        assert_eq!(last, ["connection-lost", "not-found", "no-space"]);
    }

    #[test]
    fn one_file_has_a_name_below_a_directory_and_none_below_its_own() {
        for (is_inside, name) in [(true, "run.dat"), (false, "")] {
            let (events, told) = EventSender::channel();
            let account = Account::new(events, Manifest::default());
            account.begin(Some(b"run.dat"));
            account.resolved(is_inside);
            account.left_out(&Skipped { crc64nvme: Some(7), ..Skipped::default() });
            let Ok(Event::FileSkipped(file)) = told.try_recv() else { panic!("no file is skipped") };
            assert_eq!(file.path, name);
            done(&account, "");
            let Ok(Event::FileDone(file)) = told.try_recv() else { panic!("no file is done") };
            assert_eq!(file.path, name);
            assert!(account.close().1.entries().all(|entry| entry.unwrap().path.to_string() == name));
        }
    }

    #[test]
    fn what_several_attempts_meet_is_in_the_manifest_once() {
        let account = Account::new(EventSender::channel().0, Manifest::default());
        let known = |path: &str| Skipped { path: path.into(), size: 5, crc64nvme: Some(7), ..Skipped::default() };
        account.left_out(&known("of an earlier run"));
        done(&account, "of this run");
        account.restart();
        account.left_out(&known("of an earlier run"));
        account.left_out(&known("of this run"));
        account.left_out(&Skipped { path: b"stood there".to_vec(), size: 5, ..Skipped::default() });
        done(&account, "last");
        let totals = account.totals();
        assert_eq!((totals.files_done, totals.files_skipped), (2, 2));
        let names: Vec<String> = account.close().1.entries().map(|entry| entry.unwrap().path.to_string()).collect();
        assert_eq!(names, ["of an earlier run", "of this run", "last"]);
    }

    /// The bytes that are at the destination, as progress shows them.
    fn there(account: &Account) -> u64 {
        let totals = account.totals();
        totals.bytes_verified + totals.bytes_skipped + totals.bytes_resumed
    }

    #[test]
    fn bytes_that_an_earlier_attempt_has_counted_are_there_once() {
        let account = Account::new(EventSender::channel().0, Manifest::default());
        account.verified(400);
        // Whether it is told of them before it breaks off or not.
        for told in [0, 400, 400] {
            account.restart();
            account.resumed(told);
            assert_eq!(there(&account), 400);
        }
        account.resumed(50);
        assert_eq!((there(&account), account.totals().bytes_resumed), (450, 50));
    }

    #[test]
    fn bytes_of_an_earlier_run_stay_there_when_their_file_is_published_and_when_it_is_not() {
        let account = Account::new(EventSender::channel().0, Manifest::default());
        account.resumed(400);
        account.verified(600);
        done_with(&account, "one", 1000);
        account.resumed(100);
        account.verified(200);
        account.restart();
        account.left_out(&Skipped { path: b"one".to_vec(), size: 1000, crc64nvme: Some(7), ..Skipped::default() });
        account.resumed(300);
        assert_eq!((there(&account), account.totals().bytes_resumed), (1300, 500));
    }

    #[test]
    fn what_this_process_published_is_known_by_its_name() {
        let account = Account::new(EventSender::channel().0, Manifest::default());
        let old = Skipped { path: b"old".to_vec(), size: 1, ..Skipped::default() };
        let new = Skipped { path: b"new".to_vec(), size: 1000, crc64nvme: Some(7), ..Skipped::default() };
        account.left_out(&old);
        done_with(&account, "new", 1000);
        for _ in 0..2 {
            account.restart();
            account.left_out(&old);
            account.left_out(&new);
            let totals = account.totals();
            assert_eq!((totals.files_done, totals.files_skipped, totals.bytes_skipped), (1, 1, 1));
        }
    }
}
