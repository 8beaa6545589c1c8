//! What a mirror removes so that an item of another kind can stand there.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use edt::options::{RunMode, Selection};
use edt::{ErrorKind, Report, Transfer, TransferOptions};

fn mirror(place: &Path, change: impl FnOnce(&mut TransferOptions)) -> Report {
    let mut options = TransferOptions { selection: Selection::Mirror, ..TransferOptions::default() };
    change(&mut options);
    let [from, to] = ["from", "to"].map(|name| place.join(name).to_str().unwrap().to_owned());
    Transfer::new(from, to).with_options(options).run().unwrap()
}

/// A file in the source, and a directory with items at its name at the destination.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("from")).unwrap();
    fs::create_dir_all(place.path().join("to/x/sub")).unwrap();
    fs::write(place.path().join("from/x"), "one").unwrap();
    fs::write(place.path().join("to/x/sub/deep"), "deep").unwrap();
    place
}

#[test]
fn what_a_pattern_matches_is_not_mirrored_but_a_name_with_its_characters_is() {
    let place = place();
    let [matched, named, to] = ["fro*", "fro[m]", "to"].map(|name| place.path().join(name).to_str().unwrap().to_owned());
    let mirror = |from: &str| {
        let options = TransferOptions { selection: Selection::Mirror, ..TransferOptions::default() };
        Transfer::new(from, to.as_str()).with_options(options).run()
    };
    for pattern in [&matched, &named] {
        let error = mirror(pattern).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.what().starts_with("what a pattern matches cannot be mirrored"), "{error}");
        assert!(place.path().join("to/x/sub/deep").exists());
    }
    fs::create_dir(&named).unwrap();
    assert_eq!(mirror(&named).unwrap().totals.removed, 3);
}

#[test]
fn what_made_way_is_counted_as_a_dry_run_counts_it() {
    let place = place();
    let dry = mirror(place.path(), |options| options.run = RunMode::DryRun);
    let real = mirror(place.path(), |_| {});
    assert_eq!((dry.totals.removed, real.totals.removed, real.totals.failed), (2, 2, 0));
    assert_eq!(fs::read_to_string(place.path().join("to/x")).unwrap(), "one");
}

#[test]
fn what_the_filter_leaves_alone_does_not_make_way_and_the_item_says_why() {
    let place = place();
    fs::write(place.path().join("to/x/precious"), "precious").unwrap();
    let report = mirror(place.path(), |options| options.exclude = vec!["precious".to_owned()]);
    assert_eq!(report.totals.failed, 2, "the item, and that the rest was not removed: {report:?}");
    assert!(format!("{report:?}").contains("could not remove"), "{report:?}");
    assert_eq!(fs::read_to_string(place.path().join("to/x/precious")).unwrap(), "precious");
}
