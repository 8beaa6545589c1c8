//! Entries of edt's own service: described, listed as they arrive, and remembered until they are opened.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_flight::Action;
use edt::path::RelativePath;
use edt::store::{self, Depth, EntryKind, Prune};
use edt::sync::Mutex;
use edt::{Error, Result};
use tonic::Streaming;

use super::host::{Host, Lease};
use crate::contract::{self, Entry, EntryName, Item, ListBody, PathBody, action};
use crate::status;

/// Entries of one generation that are remembered; the one before it is as well.
const MOST: usize = 8192;

/// An entry, with the version that the service knows it by.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) entry: store::Entry,
    pub(super) version: String,
}

impl TryFrom<Entry> for Known {
    type Error = Error;

    fn try_from(told: Entry) -> Result<Self> {
        let kind = match told.kind {
            EntryName::File => EntryKind::File,
            EntryName::Directory => EntryKind::Directory,
            EntryName::Symlink => EntryKind::Symlink(told.target.unwrap_or_default().into_bytes().into()),
            EntryName::Other => EntryKind::Other,
        };
        let hash = blake3::hash(told.version.as_bytes());
        let number = hash.as_bytes()[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let entry = store::Entry {
            path: RelativePath::from_bytes(told.path.as_bytes())?,
            kind,
            size: told.size,
            modified_ns: told.modified_ns,
            mode: told.mode,
            version: Some(number),
            sparse: false,
        };
        Ok(Self { entry, version: told.version })
    }
}

/// Asks for one entry, once.
pub(super) fn described(host: &Arc<Host>, path: &RelativePath) -> Result<Known> {
    let what = || format!("could not describe `{path}` at `{}`", host.name());
    let body = PathBody { path: contract::text(path)? };
    let mut answers: Vec<Entry> = host.act(action::STAT, &body, &what)?;
    let lacking = || Error::new(edt::ErrorKind::Protocol, what()).with_cause("the service answered without a result");
    answers.pop().ok_or_else(lacking)?.try_into()
}

/// Files that listings told of a moment ago, so that opening one of them asks nothing.
#[derive(Default)]
pub(super) struct Recent(Mutex<[HashMap<RelativePath, Known>; 2]>);

impl Recent {
    pub(super) fn add(&self, known: &Known) {
        if known.entry.kind != EntryKind::File {
            return;
        }
        let [young, old] = &mut *self.0.lock();
        if young.len() >= MOST {
            *old = std::mem::take(young);
        }
        young.insert(known.entry.path.clone(), known.clone());
    }

    pub(super) fn take(&self, path: &RelativePath) -> Option<Known> {
        let [young, old] = &mut *self.0.lock();
        let (young, old) = (young.remove(path), old.remove(path));
        young.or(old)
    }
}

/// A listing as it arrives.
pub(super) struct Walk<'a> {
    host: Arc<Host>,
    recent: &'a Recent,
    lease: Lease,
    stream: Streaming<arrow_flight::Result>,
    what: String,
    prune: Prune,
    pruned: HashSet<RelativePath>,
    over: bool,
    /// The first answer, which tells whether there is anything to list.
    first: Option<arrow_flight::Result>,
}

impl<'a> Walk<'a> {
    /// Asks for the entries below a path, and waits for the first.
    pub(super) fn new(host: &Arc<Host>, recent: &'a Recent, path: &RelativePath, (depth, prune): (Depth, Prune)) -> Result<Self> {
        let what = format!("could not list `{path}` at `{}`", host.name());
        let body = ListBody { path: contract::text(path)?, tree: depth == Depth::Tree };
        host.patience.run(|| {
            let mut lease = host.lease()?;
            let request = host.request(Action::new(action::LIST, contract::json(&body)));
            let (stream, first) = host.wait_for_message(&|| what.clone(), async {
                let mut stream = lease.client.do_action(request).await?.into_inner();
                let first = stream.message().await?;
                Ok((stream, first))
            })?;
            let over = first.is_none();
            if over {
                lease.keep();
            }
            let (host, what, prune) = (Arc::clone(host), what.clone(), Arc::clone(&prune));
            Ok(Self { host, recent, lease, stream, what, prune, pruned: HashSet::new(), over, first })
        })
    }

    fn receive(&mut self) -> Result<Option<Item>> {
        let result = match self.first.take() {
            Some(first) => Some(first),
            None => self.host.wait_for_message(&|| self.what.clone(), self.stream.message())?,
        };
        if result.is_none() {
            self.lease.keep();
        }
        result.map(|result| contract::parse(&result.body, "an entry")).transpose()
    }

    /// Whether an entry is left out with the directory above it.
    fn is_pruned(&mut self, entry: &store::Entry) -> bool {
        let below = entry.path.parent().is_some_and(|parent| self.pruned.contains(&parent));
        let pruned = below || (entry.kind == EntryKind::Directory && (self.prune)(&entry.path));
        if pruned && entry.kind == EntryKind::Directory {
            self.pruned.insert(entry.path.clone());
        }
        pruned
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<store::Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.over {
            let known = match self.receive() {
                Ok(Some(Item::Entry(entry))) => Known::try_from(entry),
                Ok(Some(Item::Failed(failed))) => Err(status::told(&failed.error, &failed.message)),
                Ok(None) => {
                    self.over = true;
                    return None;
                }
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            };
            match known {
                Ok(known) if self.is_pruned(&known.entry) => {}
                Ok(known) => {
                    self.recent.add(&known);
                    return Some(Ok(known.entry));
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}
