//! Looking at entries and changing them.

use arrow_flight::Action;
use edt::options::Access;
use edt_flight::contract::{Digests, Entry, EntryName, Item, ListBody, PathBody, RenameBody, Rule, action, hex64};
use futures_util::TryStreamExt as _;
use serde_json::Value;
use tonic::Code;

use super::support::{World, content, refused};

fn path(path: &str) -> PathBody {
    PathBody { path: path.to_owned() }
}

fn list(path: &str, tree: bool) -> ListBody {
    ListBody { path: path.to_owned(), tree }
}

fn listed(world: &World, body: &ListBody) -> Vec<String> {
    let items: Vec<Item> = world.action(action::LIST, body).unwrap();
    let name = |item: &Item| match item {
        Item::Entry(entry) => entry.path.clone(),
        Item::Failed(failed) => format!("failed: {}", failed.error),
    };
    items.iter().map(name).collect()
}

#[test]
fn entries_are_described_and_listed() {
    let world = World::new();
    world.write("d/e/f", "12345");
    world.write("d/a", "");
    std::os::unix::fs::symlink("a", world.path("d/link")).unwrap();
    let entry: Entry = world.action(action::STAT, &path("d/e/f")).unwrap().remove(0);
    assert_eq!((entry.path.as_str(), entry.kind, entry.size), ("d/e/f", EntryName::File, 5));
    let link: Entry = world.action(action::STAT, &path("d/link")).unwrap().remove(0);
    assert_eq!((link.kind, link.target.as_deref()), (EntryName::Symlink, Some("a")));
    let root: Entry = world.action(action::STAT, &path("")).unwrap().remove(0);
    assert_eq!((root.path.as_str(), root.kind), ("", EntryName::Directory));
    assert_eq!(listed(&world, &list("d", false)), ["d/a", "d/e", "d/link"]);
    assert_eq!(listed(&world, &list("", true)), ["d", "d/a", "d/e", "d/link", "d/e/f"]);
    assert_eq!(listed(&world, &list("d/a", true)), ["d/a"]);
    assert_eq!(listed(&world, &list("d/", false)), ["d/a", "d/e", "d/link"]);
    assert_eq!(refused(world.action::<Value>(action::STAT, &path("d/none"))).0, Code::NotFound);
    assert_eq!(refused(world.action::<Value>(action::LIST, &list("none", true))).0, Code::NotFound);
    let (code, message) = refused(world.action::<Value>(action::LIST, &list("d/a/", true)));
    assert!(code == Code::FailedPrecondition && message.contains("could not list `d/a/`"), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_not_text_is_told_as_one_that_failed() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new();
    std::fs::write(world.directory.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    world.write("a", "");
    assert_eq!(listed(&world, &list("", false)), ["a", "failed: invalid-input"]);
}

#[test]
fn directories_are_made_and_entries_renamed_and_removed() {
    let world = World::new();
    world.action::<Value>(action::MKDIR, &path("x/y")).unwrap();
    world.action::<Value>(action::MKDIR, &path("x/y")).unwrap();
    assert!(world.path("x/y").is_dir());
    world.write("one", "1");
    world.write("two", "2");
    let rename = |from: &str, to: &str, overwrite| RenameBody { from: from.to_owned(), to: to.to_owned(), overwrite };
    assert_eq!(refused(world.action::<Value>(action::RENAME, &rename("one", "two", Rule::Never))).0, Code::AlreadyExists);
    world.action::<Value>(action::RENAME, &rename("one", "two", Rule::Replace)).unwrap();
    world.action::<Value>(action::RENAME, &rename("two", "new/place", Rule::Never)).unwrap();
    assert_eq!((world.names(), world.read("new/place")), (vec!["new/place".to_owned()], b"1".to_vec()));
    assert_eq!(refused(world.action::<Value>(action::RENAME, &rename("one", "x/z", Rule::Replace))).0, Code::NotFound);
    assert_eq!(refused(world.action::<Value>(action::REMOVE, &list("new", false))).0, Code::AlreadyExists);
    world.action::<Value>(action::REMOVE, &list("new", true)).unwrap();
    world.action::<Value>(action::REMOVE, &list("x/y", false)).unwrap();
    assert!(world.path("x").is_dir() && !world.path("x/y").exists() && !world.path("new").exists());
    assert_eq!(refused(world.action::<Value>(action::REMOVE, &list("", true))).0, Code::PermissionDenied);
}

#[test]
fn the_digests_of_a_file_are_those_of_its_bytes() {
    let world = World::new();
    let file = content(3_000_001);
    world.write("f", &file);
    let digests: Digests = world.action(action::CHECKSUM, &path("f")).unwrap().remove(0);
    let expected = Digests {
        size: file.len() as u64,
        crc64nvme: hex64(edt::pipeline::digest::crc64nvme(&file)),
        blake3: blake3::hash(&file).to_hex().to_string(),
    };
    assert_eq!(digests, expected);
}

#[test]
fn every_action_is_listed_and_others_are_not_known() {
    let world = World::new();
    let known: Vec<arrow_flight::ActionType> =
        world.run(async { world.client().await.list_actions().await.unwrap().try_collect().await.unwrap() });
    let names: Vec<&str> = known.iter().map(|action| action.r#type.as_str()).collect();
    assert_eq!(names, ["stat", "list", "mkdir", "remove", "rename", "checksum", "begin", "commit", "abort"]);
    assert!(known.iter().all(|action| action.description.contains('{')));
    let (code, message) = refused(world.action::<Value>("format", &path("a")));
    assert!(code == Code::Unimplemented && message.contains("checksum"), "{message}");
    let (code, message) = refused(world.action::<Value>(action::STAT, &list("a", true)));
    assert!(code == Code::InvalidArgument && message.contains("tree"), "{message}");
}

#[test]
fn a_server_that_is_read_only_changes_nothing() {
    let world = World::with(|options| options.access = Access::ReadOnly);
    world.write("f", "x");
    for (name, body) in [
        (action::MKDIR, r#"{"path":"d"}"#),
        (action::REMOVE, r#"{"path":"f"}"#),
        (action::RENAME, r#"{"from":"f","to":"g"}"#),
        (action::BEGIN, r#"{"path":"g","size":1}"#),
        (action::COMMIT, r#"{"upload":"x"}"#),
        (action::ABORT, r#"{"upload":"x"}"#),
    ] {
        let outcome = world.run(async {
            let mut client = world.client().await;
            client.do_action(Action::new(name, body)).await.map(|_| ()).map_err(super::support::status)
        });
        assert_eq!(refused(outcome).0, Code::PermissionDenied, "{name}");
    }
    assert_eq!(world.names(), ["f"]);
    assert_eq!(world.action::<Entry>(action::STAT, &path("f")).unwrap()[0].size, 1);
}
