//! Links at the destination: nothing is written through them.

#![cfg(unix)]
use std::fs;
use std::os::unix::fs::symlink;

use edt::Transfer;

#[test]
fn nothing_is_written_through_a_link_at_the_destination() {
    let place = tempfile::tempdir().unwrap();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir_all(source.join("current/deep")).unwrap();
    fs::write(source.join("current/precious"), "new").unwrap();
    fs::write(source.join("current/deep/file"), vec![7; 300_000]).unwrap();
    fs::write(source.join("beside"), "beside").unwrap();
    fs::create_dir_all(target.join("releases/1")).unwrap();
    fs::write(target.join("releases/1/precious"), "old").unwrap();
    symlink("releases/1", target.join("current")).unwrap();

    let report = Transfer::new(source.as_path(), target.as_path()).run().unwrap();

    assert_eq!(fs::read_to_string(target.join("releases/1/precious")).unwrap(), "old");
    assert_eq!(fs::read_dir(target.join("releases/1")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(target.join("beside")).unwrap(), "beside", "the others are copied");
    assert!(report.failures.iter().all(|failure| failure.kind == "wrong-type"), "{:?}", report.failures);
    assert_eq!(report.totals.failed, 4, "two directories and two files: {:?}", report.failures);
}
