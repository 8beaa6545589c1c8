//! Links that are named as a source or a destination on a server.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test")]

mod files_support;
mod link_support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use edt::options::Selection;
use edt::{ErrorKind, Report, Result, Transfer, TransferOptions};
use files_support::{World, options};

/// A server with a directory `real`, links to it and elsewhere, and beside its root what a client has.
fn world() -> World {
    let world = World::new();
    fs::create_dir_all(world.path("real/deep")).unwrap();
    fs::write(world.path("real/k"), "kept").unwrap();
    symlink("deep", world.path("real/inner")).unwrap();
    symlink("real", world.path("link")).unwrap();
    symlink("real/k", world.path("file.link")).unwrap();
    symlink("nowhere", world.path("dangling")).unwrap();
    symlink("../outside", world.path("out")).unwrap();
    fs::create_dir_all(here(&world, "outside")).unwrap();
    fs::write(here(&world, "outside/secret"), "secret").unwrap();
    fs::create_dir_all(here(&world, "d")).unwrap();
    fs::write(here(&world, "d/x"), "two").unwrap();
    fs::write(here(&world, "f"), "one").unwrap();
    world
}

fn here(world: &World, name: &str) -> PathBuf {
    world.place.path().join(name)
}

fn url(world: &World, name: &str) -> String {
    format!("edt://127.0.0.1:{}/{name}", world.port)
}

fn up(world: &World, name: &str, to: &str, selection: Selection) -> Result<Report> {
    let source = here(world, name).to_str().unwrap().to_owned();
    Transfer::new(source, url(world, to)).with_options(TransferOptions { selection, ..options() }).run()
}

fn down(world: &World, name: &str, to: &str, options: TransferOptions) -> Result<Report> {
    let destination = here(world, to).to_str().unwrap().to_owned();
    Transfer::new(url(world, name), destination).with_options(options).run()
}

fn failures(outcome: Result<Report>) -> u64 {
    outcome.map_or(1, |report| report.totals.failed)
}

#[test]
fn a_link_to_a_directory_is_entered_at_the_destination() {
    let world = world();
    for (to, name) in [("link", "f"), ("link/", "f"), ("link/new/name", "")] {
        let report = up(&world, "f", to, Selection::All).unwrap();
        assert_eq!(report.totals.failed, 0, "{to}");
        let named: Vec<_> = report.manifest.entries().map(|entry| entry.unwrap().path.to_string()).collect();
        assert_eq!(named, [name], "the manifest has what is below the destination named: {to}");
    }
    assert_eq!(failures(up(&world, "d", "link", Selection::All)), 0);
    for (name, content) in [("f", "one"), ("new/name", "one"), ("x", "two"), ("k", "kept")] {
        assert_eq!(fs::read_to_string(world.path("real").join(name)).unwrap(), content);
    }
    assert_eq!(failures(up(&world, "d", "link", Selection::Mirror)), 0);
    let left: Vec<_> = fs::read_dir(world.path("real")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["x"]);
    assert_eq!(fs::read_link(world.path("link")).unwrap(), Path::new("real"));
}

#[test]
fn a_link_that_leads_out_is_no_directory_of_the_destination() {
    let world = world();
    for selection in [Selection::All, Selection::Mirror] {
        for to in ["out", "out/below"] {
            assert!(failures(up(&world, "d", to, selection)) > 0, "{to}");
        }
    }
    assert!(failures(up(&world, "f", "out/", Selection::All)) > 0);
    assert_eq!(fs::read_link(world.path("out")).unwrap(), Path::new("../outside"));
    assert_eq!(fs::read_dir(here(&world, "outside")).unwrap().count(), 1);
    assert_eq!(failures(up(&world, "f", "dangling", Selection::All)), 0);
    assert_eq!(fs::read_to_string(world.path("dangling")).unwrap(), "one");
    assert!(!world.path("nowhere").exists());
}

#[test]
fn a_link_that_is_the_only_source_is_followed() {
    let world = world();
    assert_eq!(failures(down(&world, "link", "got", options())), 0);
    assert!(here(&world, "got").symlink_metadata().unwrap().is_dir());
    assert_eq!(fs::read_to_string(here(&world, "got/k")).unwrap(), "kept");
    assert_eq!(fs::read_link(here(&world, "got/inner")).unwrap(), Path::new("deep"));
    let named = TransferOptions { include: vec!["*.link".to_owned()], ..options() };
    assert_eq!(failures(down(&world, "file.link", "d/", named)), 0);
    assert!(here(&world, "d/file.link").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(here(&world, "d/file.link")).unwrap(), "kept");
}

#[test]
fn a_source_that_is_a_dangling_link_or_leads_out_is_an_error() {
    let world = world();
    for (name, kind) in [("dangling", ErrorKind::NotFound), ("out", ErrorKind::PermissionDenied)] {
        assert_eq!(down(&world, name, "got", options()).unwrap_err().kind(), kind, "{name}");
        assert!(here(&world, "got").symlink_metadata().is_err());
    }
}
