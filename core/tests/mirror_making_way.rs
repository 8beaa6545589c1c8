//! What is mirrored, and what a mirror removes so that an item of another kind can stand there.
#![expect(clippy::unwrap_used, reason = "a test")]

mod files_support;
mod link_support;

use std::fs;
use std::path::Path;

use edt::options::{RunMode, Selection};
use edt::{ErrorKind, Report, Transfer, TransferOptions};
use files_support::{World, options};

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
fn what_a_server_of_the_destination_has_staged_there_stays() {
    let place = place();
    let staged = place.path().join("to/.edt/0123456789abcdef0123456789abcdef");
    fs::create_dir_all(&staged).unwrap();
    fs::write(staged.join("1"), "partial").unwrap();
    let report = mirror(place.path(), |_| {});
    assert_eq!((report.totals.failed, report.totals.removed), (0, 2));
    assert!(staged.join("1").exists());
    assert_eq!(fs::read_to_string(place.path().join("to/x")).unwrap(), "one");
}

#[test]
fn what_a_pattern_matches_is_not_mirrored_but_a_name_with_its_characters_is() {
    let place = place();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let [matched, named, nothing, to] = ["fro*", "fro[m]", "none*", "to"].map(at);
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
    assert_eq!(mirror(&nothing).unwrap_err().kind(), ErrorKind::NotFound);
    fs::create_dir(&named).unwrap();
    assert_eq!(mirror(&named).unwrap().totals.removed, 3);
}

#[test]
fn what_a_pattern_matches_at_a_server_is_not_mirrored_either() {
    let world = World::new();
    for name in ["runs/b[1]", "runs/b1"] {
        fs::create_dir_all(world.path(name)).unwrap();
        fs::write(world.path(name).join("x"), "x").unwrap();
    }
    let to = world.place.path().join("to");
    fs::create_dir(&to).unwrap();
    fs::write(to.join("kept"), "kept").unwrap();
    let mirror = |from: &str| {
        let source = format!("edt://127.0.0.1:{}/{from}", world.port);
        let options = TransferOptions { selection: Selection::Mirror, ..options() };
        Transfer::new(source, to.to_str().unwrap()).with_options(options).run()
    };
    for pattern in ["runs/*", "*/b?", "ru*"] {
        assert_eq!(mirror(pattern).unwrap_err().kind(), ErrorKind::InvalidInput, "{pattern}");
    }
    for nothing in ["runs/x*", "*/x", "none/*", "**/none"] {
        assert_eq!(mirror(nothing).unwrap_err().kind(), ErrorKind::NotFound, "{nothing}");
    }
    assert!(to.join("kept").exists());
    assert_eq!(mirror("runs/b[1]").unwrap().totals.removed, 1);
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
fn a_directory_stays_in_which_something_is_excluded_and_a_dry_run_does_not_count_it() {
    let place = place();
    let to = place.path().join("to");
    for name in ["held/keep.log", "held/surplus", "over/cache/x", "surplus/sub/deep"] {
        fs::create_dir_all(to.join(name).parent().unwrap()).unwrap();
        fs::write(to.join(name), name).unwrap();
    }
    let filtered = |run| {
        mirror(place.path(), |options| {
            options.exclude = vec!["*.log".to_owned(), "cache/".to_owned()];
            options.run = run;
        })
    };
    let (dry, real) = (filtered(RunMode::DryRun), filtered(RunMode::Copy));
    // Two of them made way, and of the others one was a file in a directory that stays.
    assert_eq!((dry.totals.removed, real.totals.removed, real.totals.failed), (6, 6, 0));
    assert!(to.join("held/keep.log").exists() && to.join("over/cache/x").exists());
    assert!(!to.join("held/surplus").exists() && !to.join("surplus").exists());
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
