//! Actions: looking at entries, changing them, and the beginning and end of uploads.

use std::sync::Arc;

use arrow_flight::{Action, Result as ActionResult};
use edt::files::digest_file;
use edt::path::RelativePath;
use edt::store::{self, Depth, Metadata, Store};
use edt::{Error, ErrorKind, Result};
use serde::Serialize;

use super::blocking::Feed;
use super::root::{Root, Walk, path};
use crate::contract::{
    BeginBody, CommitBody, Digests, Entry, Failed, Item, ListBody, MkdirBody, PathBody, RenameBody, UploadBody, action, json,
    parse,
};

type Results = Feed<ActionResult>;

/// Runs an action; a long one ends early once `gone` says that nobody waits for it.
pub(super) fn run(root: &Arc<Root>, asked: &Action, gone: &dyn Fn() -> bool) -> Result<Results> {
    let body = &asked.body[..];
    match asked.r#type.as_str() {
        action::STAT => {
            let path = path(&parse::<PathBody>(body, action::STAT)?.path)?;
            one(Entry::try_from(&root.local.stat(&path)?))
        }
        action::LIST => {
            let ListBody { path: name, tree } = parse(body, action::LIST)?;
            list(root, &root.listed(&name)?, depth(tree))
        }
        action::CHECKSUM => one(checksum(root, &path(&parse::<PathBody>(body, action::CHECKSUM)?.path)?, gone)),
        _ => change(root, asked.r#type.as_str(), body),
    }
}

fn change(root: &Arc<Root>, name: &str, body: &[u8]) -> Result<Results> {
    let known = action::ALL.iter().any(|(known, _)| *known == name);
    if known {
        root.writable()?;
    }
    match name {
        action::MKDIR => {
            let MkdirBody { path: directory, modified_ns, mode } = parse(body, name)?;
            done(make_directory(root, &path(&directory)?, &Metadata { modified_ns, mode }))
        }
        action::REMOVE => {
            let ListBody { path: name, tree } = parse(body, name)?;
            done(root.local.remove(&path(&name)?, depth(tree)))
        }
        action::RENAME => {
            let RenameBody { from, to, overwrite } = parse(body, name)?;
            let renamed = root.local.rename(&path(&from)?, &path(&to)?, overwrite.into());
            done(renamed.and_then(|()| root.local.sync_directories(&[])))
        }
        action::BEGIN => one(root.uploads.begin(root, &parse::<BeginBody>(body, name)?)),
        action::COMMIT => one(root.uploads.commit(root, &parse::<CommitBody>(body, name)?)),
        action::ABORT => done(root.uploads.abort(root, &parse::<UploadBody>(body, name)?.upload)),
        _ => {
            let names: Vec<&str> = action::ALL.iter().map(|(name, _)| *name).collect();
            Err(Error::new(ErrorKind::Unsupported, format!("could not do `{}`", name.escape_debug()))
                .with_cause("there is no such action")
                .with_hint(format!("the actions are {}", names.join(", "))))
        }
    }
}

fn make_directory(root: &Root, path: &RelativePath, metadata: &Metadata) -> Result<()> {
    if path.is_root() && *metadata != Metadata::default() {
        return Err(Error::new(ErrorKind::PermissionDenied, "could not set time and mode of the root")
            .with_cause("they are its operator's: by its mode one client could shut all others out")
            .with_hint("leave `modified_ns` and `mode` out, or name a directory below it"));
    }
    root.local.create_directory(path)?;
    if *metadata != Metadata::default() {
        root.local.set_directory_metadata(path, metadata)?;
    }
    root.local.sync_directories(&[])
}

fn depth(tree: bool) -> Depth {
    if tree { Depth::Tree } else { Depth::One }
}

fn done(outcome: Result<()>) -> Result<Results> {
    outcome.map(|()| Box::new(std::iter::empty()) as Results)
}

fn one(outcome: Result<impl Serialize>) -> Result<Results> {
    outcome.map(|result| Box::new(std::iter::once(Ok(told(&result)))) as Results)
}

fn told(result: &impl Serialize) -> ActionResult {
    ActionResult { body: json(result).into() }
}

fn checksum(root: &Root, path: &RelativePath, gone: &dyn Fn() -> bool) -> Result<Digests> {
    let found = digest_file(root.read.as_ref(), path, gone)?;
    Ok(Digests { size: found.size, crc64nvme: found.crc64nvme, blake3: found.blake3 })
}

fn list(root: &Arc<Root>, path: &RelativePath, depth: Depth) -> Result<Results> {
    let walk = Walk::new(Arc::clone(root), path, depth, &[])?;
    Ok(Box::new(walk.map(|entry| Ok(told(&item(entry))))))
}

fn item(entry: Result<store::Entry>) -> Item {
    match entry.and_then(|entry| Entry::try_from(&entry)) {
        Ok(entry) => Item::Entry(entry),
        Err(error) => Item::Failed(Failed { error: error.kind().name().to_owned(), message: error.explain() }),
    }
}
