//! Partial files that interrupted transfers left, for `edt clean`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::host::Host;
use super::listing::{Hidden, Walk};
use super::staging;
use crate::error::{ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::remote::{Abandoned, AbandonedItem};
use crate::store::{Depth, Entry, EntryKind};

/// Partial files below and beside what a URL names, and the directories for them in which nothing is left.
pub(super) struct PartialFiles {
    host: Arc<Host>,
    /// What was listed, by the name that it was given.
    listed: HashMap<String, Entry>,
}

/// What a listing found.
#[derive(Default)]
struct Found {
    items: Vec<Result<Entry>>,
    /// Directories for partial files in which nothing was found yet.
    empty: BTreeMap<RelativePath, Entry>,
}

impl Found {
    fn add(&mut self, entry: Entry) {
        if entry.kind == EntryKind::Directory && is_place(&entry.path) {
            self.empty.insert(entry.path.clone(), entry);
            return;
        }
        let Some(above) = entry.path.parent().filter(is_place) else { return };
        self.empty.remove(&above);
        if entry.kind != EntryKind::Directory {
            self.items.push(Ok(entry));
        }
    }
}

fn is_place(path: &RelativePath) -> bool {
    path.name().is_some_and(staging::is_directory)
}

impl PartialFiles {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { host, listed: HashMap::new() }
    }

    /// Looks below a directory; there is nothing if it is missing or a file. What cannot be listed is told among the items.
    fn look(&self, directory: &RelativePath, depth: Depth, found: &mut Found) -> Result<()> {
        let walk = match Walk::new(&self.host, directory, (depth, Arc::new(|_: &RelativePath| false)), Hidden::Shown) {
            Ok(walk) => walk,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WrongType) => return Ok(()),
            Err(error) => return Err(error),
        };
        if is_place(directory) {
            found.add(self.host.run(|service| service.stat(directory))?);
        }
        for entry in walk {
            match entry {
                Ok(entry) => found.add(entry),
                Err(error) => {
                    if let Some(directory) = error.path() {
                        found.empty.remove(directory);
                    }
                    found.items.push(Err(error));
                }
            }
        }
        Ok(())
    }

    fn item(&mut self, entry: Entry) -> AbandonedItem {
        let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
        let name = format!("{}{slash}", self.host.service.show(&entry.path));
        // The copy of a server may have the time of its source; its name tells when it was begun.
        let begun_ns = entry.modified_ns.max(entry.path.name().and_then(staging::begun_ns));
        let item = AbandonedItem { name: name.clone(), begun_ns, bytes: Some(entry.size) };
        self.listed.insert(name, entry);
        item
    }
}

impl Abandoned for PartialFiles {
    fn list(&mut self) -> Result<Vec<Result<AbandonedItem>>> {
        self.listed.clear();
        let base = self.host.base().clone();
        let mut found = Found::default();
        self.look(&base, Depth::Tree, &mut found)?;
        let beside = self.host.places_beside().unwrap_or_else(|error| {
            found.items.push(Err(error));
            Vec::new()
        });
        for place in beside.iter().filter(|place| place.strip_prefix(&base).is_none()) {
            if let Err(error) = self.look(place, Depth::One, &mut found) {
                found.items.push(Err(error));
            }
        }
        let entries = found.items.into_iter().chain(found.empty.into_values().map(Ok));
        Ok(entries.map(|entry| entry.map(|entry| self.item(entry))).collect())
    }

    fn remove(&self, item: &AbandonedItem) -> Result<()> {
        let Some(entry) = self.listed.get(&item.name) else { return Ok(()) };
        if entry.kind == EntryKind::Directory {
            return self.remove_place(&entry.path);
        }
        match self.host.remove_file(&entry.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if let Some(directory) = entry.path.parent() {
            // The last one takes the directory with it.
            let _ = self.host.service.remove_directory(&directory);
        }
        Ok(())
    }
}

impl PartialFiles {
    /// Removes a directory for partial files, unless a transfer has begun to use it.
    fn remove_place(&self, directory: &RelativePath) -> Result<()> {
        match self.host.remove_directory(directory) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => Err(error),
            _ => Ok(()),
        }
    }
}
