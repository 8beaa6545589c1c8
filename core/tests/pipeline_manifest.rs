//! Manifests: written, read back, and read from other tools.

#![allow(clippy::unwrap_used)]

use edt::ErrorKind;
use edt::path::RelativePath;
use edt::pipeline::manifest::{Expected, Manifest, ManifestEntry};

fn entry(path: &[u8], size: u64) -> ManifestEntry {
    let path = RelativePath::from_bytes(path).unwrap();
    ManifestEntry { path, size, modified_ns: Some(-7), mode: Some(0o640), crc64nvme: 0xab, blake3: Some([9; 32]) }
}

fn read(text: &[u8]) -> Vec<edt::Result<Expected>> {
    Manifest::read(text).collect()
}

#[test]
fn entries_come_back_in_order_whether_stored_or_not() {
    let mut manifest = Manifest::create(None).unwrap();
    let entries: Vec<ManifestEntry> = (0..2000).map(|n| entry(format!("dir/file {n}").as_bytes(), n)).collect();
    for entry in &entries {
        manifest.add(entry).unwrap();
    }
    assert_eq!(manifest.entries().collect::<Result<Vec<_>, _>>().unwrap(), entries);
    let manifest = manifest.finish().unwrap();
    assert_eq!(manifest.len(), 2000);
    assert_eq!(manifest.entries().collect::<Result<Vec<_>, _>>().unwrap(), entries);
}

#[test]
fn a_cleared_manifest_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("manifest");
    for mut manifest in [Manifest::default(), Manifest::create(Some(&name)).unwrap()] {
        (0..3000).for_each(|number| manifest.add(&entry(format!("before {number}").as_bytes(), number)).unwrap());
        manifest.clear().unwrap();
        assert!(manifest.is_empty());
        manifest.add(&entry(b"after", 1)).unwrap();
        let manifest = manifest.finish().unwrap();
        assert_eq!(manifest.entries().map(Result::unwrap).collect::<Vec<_>>(), [entry(b"after", 1)]);
    }
    assert_eq!(std::fs::read_to_string(&name).unwrap().lines().count(), 1);
}

#[test]
fn two_readers_do_not_disturb_each_other() {
    let mut manifest = Manifest::default();
    (0..3000).for_each(|n| manifest.add(&entry(format!("{n}").as_bytes(), n)).unwrap());
    let pairs = manifest.entries().zip(manifest.entries());
    assert_eq!(pairs.filter(|(a, b)| a.as_ref().unwrap() == b.as_ref().unwrap()).count(), 3000);
}

#[test]
fn a_named_manifest_is_a_file_of_json_lines() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("manifest.jsonl");
    let mut manifest = Manifest::create(Some(&name)).unwrap();
    manifest.add(&entry(b"a", 5)).unwrap();
    let manifest = manifest.finish().unwrap();
    let text = std::fs::read_to_string(&name).unwrap();
    let digest = "09".repeat(32);
    let expected = format!(
        r#"{{"path":"a","size":5,"modified_ns":-7,"mode":416,"crc64nvme":"00000000000000ab","blake3":"{digest}","files":1}}"#
    );
    assert_eq!(text, format!("{expected}\n"));
    let mut copy = Vec::new();
    manifest.write_to(&mut copy).unwrap();
    assert_eq!(copy, text.as_bytes());
}

#[test]
fn a_name_that_is_no_text_survives() {
    let mut manifest = Manifest::default();
    let odd = ManifestEntry { blake3: None, modified_ns: None, mode: None, ..entry(b"\xff\nx", 1) };
    manifest.add(&odd).unwrap();
    let mut text = Vec::new();
    manifest.write_to(&mut text).unwrap();
    assert!(text.starts_with(br#"{"path_bytes":"ff0a78""#));
    assert_eq!(manifest.entries().next().unwrap().unwrap(), odd);
    let expected = Expected { path: odd.path, size: Some(1), crc64nvme: Some(0xab), blake3: None };
    assert_eq!(read(&text)[0].as_ref().unwrap(), &expected);
}

#[test]
fn lines_of_b3sum_are_understood() {
    let digest = "0a".repeat(32);
    let text = format!("{digest}  ./dir/a b\r\n\n\\{digest}  x\\ny\\\\z\n{digest}  last");
    let paths: Vec<_> = read(text.as_bytes()).into_iter().map(|line| line.unwrap()).collect();
    let expected: [&[u8]; 3] = [b"dir/a b", b"x\ny\\z", b"last"];
    assert_eq!(paths.iter().map(|line| line.path.as_bytes()).collect::<Vec<_>>(), expected);
    assert!(paths.iter().all(|line| line.blake3 == Some([10; 32]) && line.size.is_none()));
}

#[test]
fn a_broken_line_is_named_and_the_others_are_read() {
    let digest = "0a".repeat(32);
    let text = format!("{digest}  a\n{{\"size\":1}}\nnonsense\n{digest}  ../b\n{digest}  c\n");
    let lines = read(text.as_bytes());
    assert_eq!(lines.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, false, false, true]);
    let error = lines[2].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.what().contains("line `3`") && error.hint().is_some());
}

#[test]
fn an_endless_line_is_refused_without_reading_it_whole() {
    let lines = read(&vec![b'x'; 1 << 20]);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].as_ref().unwrap_err().cause().unwrap().contains("longer"));
}

#[test]
fn a_file_of_an_earlier_run_stays_until_the_manifest_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("manifest");
    std::fs::write(&name, "earlier").unwrap();
    let mut manifest = Manifest::create(Some(&name)).unwrap();
    (0..3000).for_each(|n| manifest.add(&entry(format!("{n}").as_bytes(), n)).unwrap());
    assert_eq!(std::fs::read(&name).unwrap(), b"earlier");
    manifest.finish().unwrap();
    let text = std::fs::read(&name).unwrap();
    assert_eq!(read(&text).into_iter().map(Result::unwrap).count(), 3000);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    drop(Manifest::create(Some(&name)).unwrap());
    assert_eq!(std::fs::read(&name).unwrap(), text);
}

#[test]
fn a_manifest_of_nothing_is_whole_and_an_empty_file_is_none() {
    let mut text = Vec::new();
    Manifest::default().write_to(&mut text).unwrap();
    assert_eq!(text, b"{\"files\":0}\n");
    assert!(read(&text).is_empty());
    for empty in ["", "\n\n"] {
        let found = read(empty.as_bytes());
        assert_eq!((found.len(), found[0].as_ref().unwrap_err().what()), (1, "the manifest is empty"));
    }
}

#[test]
fn what_was_cut_off_a_manifest_is_noticed() {
    let mut manifest = Manifest::default();
    (0..3).for_each(|n| manifest.add(&entry(format!("{n}").as_bytes(), n)).unwrap());
    let mut text = Vec::new();
    manifest.write_to(&mut text).unwrap();
    let line = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let end = |text: &[u8]| {
        let mut listing = Manifest::read(text);
        let found: Vec<_> = listing.by_ref().collect();
        (found.iter().filter(|file| file.is_ok()).count(), found.last().unwrap().is_err(), listing.may_be_cut())
    };
    assert_eq!(end(&text), (3, false, false));
    assert_eq!(end(&[&text[..], &text].concat()), (6, false, false));
    // Without its last line it might be one of an edt that told no number.
    assert_eq!(end(&text[..2 * line]), (2, false, true));
    assert_eq!(end(&text[line..]), (2, true, false));
    assert_eq!(read(&text[line..]).pop().unwrap().unwrap_err().what(), "the manifest lists 2 of 3 files");
    assert_eq!(end(format!("{}  a\n", "0a".repeat(32)).as_bytes()), (1, false, false));
}
