//! What an earlier run copied: left out by the next one, and nevertheless in its manifest.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use edt::options::{Digest, RunMode, SecretSource, Selection};
use edt::path::RelativePath;
use edt::pipeline::manifest::{Manifest, ManifestEntry};
use edt::server::{Server, ServerHandle};
use edt::{ErrorKind, Event, Report, ServeOptions, Transfer, TransferOptions};

const SECRET: &str = "a secret for tests of resuming";

/// A source, and a destination where a directory stands in the way of one of its files.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.path("source/below")).unwrap();
        fs::write(place.path("source/small"), b"small").unwrap();
        fs::write(place.path("source/empty"), b"").unwrap();
        fs::write(place.path("source/below/large"), vec![7; 700_001]).unwrap();
        fs::write(place.path("source/blocked"), b"in the way").unwrap();
        fs::create_dir_all(place.path("target/blocked/full")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Serves everything, and answers with the URL of the root.
    fn serve(&self) -> (String, ServerHandle) {
        let server = Server::bind(ServeOptions {
            listen: "127.0.0.1:0".to_owned(),
            secret: SecretSource::Text(SECRET.to_owned()),
            identity: Some(self.path("identity.pem")),
            ..ServeOptions::new(self.directory.path())
        })
        .unwrap();
        let (url, handle) = (format!("edt://{}/", server.address()), server.handle());
        std::thread::spawn(move || server.run());
        (url, handle)
    }

    fn unblock(&self) {
        fs::remove_dir_all(self.path("target/blocked")).unwrap();
    }
}

fn options() -> TransferOptions {
    TransferOptions { secret: SecretSource::Text(SECRET.to_owned()), ..TransferOptions::default() }
}

fn copy(from: &str, to: &str, options: TransferOptions) -> Report {
    Transfer::new(from, to).with_options(options).run().unwrap()
}

/// Entries by path.
fn entries(manifest: &Manifest) -> BTreeMap<String, ManifestEntry> {
    let entries: Vec<ManifestEntry> = manifest.entries().collect::<Result<_, _>>().unwrap();
    assert_eq!(entries.len() as u64, manifest.len());
    let count = entries.len();
    let named: BTreeMap<_, _> = entries.into_iter().map(|entry| (entry.path.to_string(), entry)).collect();
    assert_eq!(named.len(), count, "a file is in the manifest twice");
    named
}

/// Both runs of a transfer whose first one cannot write one of the files; the manifest of the second must be that of a single run.
fn resumed_manifest_is_that_of_one_run(place: &Place, from: &str, to: &str, digest: Digest) {
    let options = TransferOptions { digest, ..options() };
    let first = copy(from, to, options.clone());
    assert_eq!((first.totals.files_done, first.totals.failed), (3, 1), "{:?}", first.failures);
    place.unblock();
    let second = copy(from, to, options.clone());
    assert_eq!((second.totals.files_done, second.totals.files_skipped, second.totals.failed), (1, 3, 0), "{:?}", second.failures);
    let whole = copy(&place.text("source"), &place.text("at once"), options);
    assert_eq!(entries(&second.manifest), entries(&whole.manifest));
    assert_eq!(entries(&second.manifest).len(), 4);
}

#[test]
fn a_resumed_copy_between_local_directories_has_a_whole_manifest() {
    let place = Place::new();
    resumed_manifest_is_that_of_one_run(&place, &place.text("source"), &place.text("target"), Digest::Blake3);
}

#[test]
fn a_resumed_upload_has_a_whole_manifest() {
    let place = Place::new();
    let (url, handle) = place.serve();
    resumed_manifest_is_that_of_one_run(&place, &place.text("source"), &format!("{url}target"), Digest::Blake3);
    handle.shutdown();
}

#[test]
fn a_resumed_download_has_a_whole_manifest() {
    let place = Place::new();
    let (url, handle) = place.serve();
    resumed_manifest_is_that_of_one_run(&place, &format!("{url}source"), &place.text("target"), Digest::Blake3);
    handle.shutdown();
}

#[test]
fn a_resumed_copy_without_blake3_has_a_whole_manifest_too() {
    let place = Place::new();
    resumed_manifest_is_that_of_one_run(&place, &place.text("source"), &place.text("target"), Digest::None);
}

#[test]
fn a_file_that_stood_there_before_is_not_in_the_manifest() {
    let place = Place::new();
    place.unblock();
    let selected = TransferOptions { selection: Selection::Changed, ..options() };
    copy(&place.text("source"), &place.text("target"), options());
    fs::write(place.path("source/new"), b"new").unwrap();
    let report = copy(&place.text("source"), &place.text("target"), selected);
    assert_eq!((report.totals.files_done, report.totals.files_skipped), (1, 4));
    assert_eq!(entries(&report.manifest).into_keys().collect::<Vec<_>>(), ["new"]);
}

#[test]
fn a_dry_run_lists_times_and_modes() {
    let place = Place::new();
    let report = copy(&place.text("source"), &place.text("nowhere"), TransferOptions { run: RunMode::DryRun, ..options() });
    let listed = entries(&report.manifest);
    assert_eq!(listed.len(), 4);
    assert!(listed.values().all(|entry| entry.modified_ns.is_some()));
}

#[test]
fn a_cancelled_transfer_leaves_its_manifest_behind() {
    let place = Place::new();
    for number in 0..200 {
        fs::write(place.path(&format!("source/file {number}")), vec![3; 100_000]).unwrap();
    }
    let named = place.path("manifest");
    let limited = TransferOptions { manifest: Some(named.clone()), limit_rate: Some(500e3), ..options() };
    let running = Transfer::new(place.text("source"), place.text("target")).with_options(limited).start().unwrap();
    let done = running.events().iter().find(|event| matches!(event, Event::FileDone(_)));
    assert!(done.is_some());
    running.cancel();
    assert_eq!(running.join().unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(lines(&named) > 0, "the manifest is empty");
}

fn lines(path: &Path) -> usize {
    let text = fs::read(path).unwrap();
    Manifest::read(&text[..]).map(Result::unwrap).count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_listing_with_long_texts_is_answered_in_as_many_messages_as_it_takes() {
    let place = Place::new();
    fs::create_dir(place.path("links")).unwrap();
    for number in 0..300 {
        std::os::unix::fs::symlink("x".repeat(4090), place.path(&format!("links/{number}"))).unwrap();
    }
    let (url, handle) = place.serve();
    let endpoint = edt::Endpoint::new(format!("{url}links"));
    let files = edt::files::Files::open(&endpoint, &options()).unwrap();
    assert_eq!(files.list(&edt::path::RelativePath::root(), edt::store::Depth::One).unwrap().map(Result::unwrap).count(), 300);
    handle.shutdown();
}

#[test]
fn a_chosen_file_whose_place_is_below_a_file_fails_alone() {
    for up in [true, false] {
        let place = Place::new();
        let (url, handle) = place.serve();
        place.unblock();
        fs::write(place.path("target/below"), b"a file").unwrap();
        let files = ["below/large", "small", "none"].map(|name| RelativePath::from_user(name).unwrap());
        let options = TransferOptions { files: Some(files.to_vec()), selection: Selection::Changed, ..options() };
        let ends =
            if up { (place.text("source"), format!("{url}target")) } else { (format!("{url}source"), place.text("target")) };
        let report = copy(&ends.0, &ends.1, options);
        assert_eq!((report.totals.files_done, report.totals.failed), (1, 2), "{:?}", report.failures);
        let mut failed: Vec<_> = report.failures.iter().map(|failure| failure.path.as_str()).collect();
        failed.sort_unstable();
        assert_eq!(failed, ["below/large", "none"]);
        assert_eq!(fs::read(place.path("target/small")).unwrap(), b"small");
        handle.shutdown();
    }
}
