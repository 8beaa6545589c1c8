//! The end of a session at the receiver: mirror, directories, flushes, journal.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::options::Fsync;
use crate::path::RelativePath;
use crate::pipeline::journal::Record;
use crate::pipeline::receiver::{Discard, Shared};
use crate::plan::{Filter, key};
use crate::protocol::message::{Complete, ItemFailed, ItemKind, Key, Message, parts};
use crate::store::local::STAGING;
use crate::store::{Depth, EntryKind};
use crate::sync::Mutex;

/// `ReceiveOptions::selection` of a mirror.
pub(crate) const MIRROR: u8 = 2;

/// The bits of a mode by which the owner of a directory may put something into it.
const OWNER_WRITES: u32 = 0o300;

/// How often the end looks whether the last files are under their names.
const CLOSING_LOOK: Duration = Duration::from_millis(1);

/// Failures that the last message tells at most.
const FAILURES_TOLD: usize = 1000;

impl Shared {
    /// Every item is settled or closed: completes what only the end can complete, and says so.
    pub(crate) fn finish(&self, intact: bool) -> Result<()> {
        while self.closing.load(Ordering::SeqCst) > 0 || self.taking.load(Ordering::SeqCst) > 0 {
            if self.stop.wait(CLOSING_LOOK) {
                return Ok(());
            }
        }
        let mut complete = Complete { removed: self.made_way.load(Ordering::SeqCst), ..Complete::default() };
        let whole = intact && !self.failures.load(Ordering::SeqCst);
        if self.options.selection == MIRROR && whole {
            self.remove_surplus(&mut complete)?;
        } else if self.options.selection == MIRROR {
            let error = Error::new(ErrorKind::Io, "nothing was removed at the destination")
                .with_cause("items failed, so it is not certain what the source has")
                .with_hint("mend the other failures and run the same command again");
            complete.failed.push(failure(&RelativePath::root(), &error));
        }
        if !self.options.dry_run {
            self.set_directories(&mut complete, whole);
            self.sync_directories(&mut complete);
            let spent = whole && complete.failed.is_empty() && !self.set_aside.load(Ordering::Relaxed);
            if spent || !self.is_resumable() {
                self.close_journal();
                match self.discard {
                    Discard::OnGoodbye if !self.options.forget => self.spent.store(true, Ordering::SeqCst),
                    Discard::AtOnce | Discard::OnGoodbye => self.discard(),
                }
            }
        }
        self.acknowledge();
        if self.stop.is_set() {
            return Ok(());
        }
        if let Some(account) = &self.account {
            account.removed(complete.removed);
            complete.failed.iter().for_each(|item| account.failed(&item.path, &item.failed.clone().into()));
        }
        complete.failed = told(complete.failed);
        self.control.send(&Message::Complete(complete))?;
        self.complete.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Removes the journal and whatever else is left of the transfer, unless another process has begun it again and holds the journal.
    pub(crate) fn discard(&self) {
        // Not held any longer than that: NFS keeps an open file, and its directory with it.
        if self.store.journal(&self.key).is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
            return;
        }
        if let Err(error) = self.store.discard(&self.key) {
            tracing::warn!(%error, "what is left of the transfer could not be removed");
        }
    }

    /// In a mirror, removes what stands in the way of an item of another kind: a link, a file, or a directory with what is in it, but for
    /// what the filter leaves alone. The destination itself stays, and so does a device, pipe or socket.
    pub(crate) fn make_way(&self, path: &RelativePath, kind: ItemKind) -> Result<()> {
        if self.options.selection != MIRROR || *path == *self.base.lock() {
            return Ok(());
        }
        let Ok(entry) = self.store.stat(path) else { return Ok(()) };
        if entry.kind == EntryKind::Other || (entry.kind == EntryKind::Directory) == (kind == ItemKind::Directory) {
            return Ok(());
        }
        if entry.kind == EntryKind::Directory {
            let mut cleared = Complete::default();
            self.remove_below(path, &HashSet::new(), &mut cleared)?;
            self.made_way.fetch_add(cleared.removed, Ordering::SeqCst);
            cleared.failed.into_iter().next().map_or(Ok(()), |item| Err(Error::from(item.failed)))?;
        }
        match self.store.remove(path, Depth::One) {
            // A directory that is only what the names of files say is gone with the last of them.
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => {
                self.touched.lock().remove(path);
                Ok(())
            }
        }
    }

    /// Removes what the source does not have.
    fn remove_surplus(&self, complete: &mut Complete) -> Result<()> {
        let base = self.base.lock().clone();
        let kept = std::mem::take(&mut *self.kept.lock());
        self.remove_below(&base, &kept, complete)
    }

    /// Removes what is below a place and not kept.
    fn remove_below(&self, place: &RelativePath, kept: &HashSet<Key>, complete: &mut Complete) -> Result<()> {
        for path in self.surplus_below(place, kept, complete)? {
            if self.options.dry_run {
                complete.removed += 1;
                continue;
            }
            match self.store.remove(&path, Depth::One) {
                Ok(()) => {
                    complete.removed += 1;
                    // What an earlier attempt published into it needs no flush any more.
                    self.touched.lock().remove(&path);
                }
                // Something is in it that the listing did not tell.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let path = path.strip_prefix(&self.base.lock()).unwrap_or_default();
                    complete.failed.push(failure(&path, &error));
                }
            }
        }
        Ok(())
    }

    /// What is below a place and not kept, in the order in which it can be removed. What the filter leaves out of the source is left alone
    /// here too, and so are the directories above it, and what is staged at the destination itself: a server of it goes on with that.
    fn surplus_below(&self, place: &RelativePath, kept: &HashSet<Key>, complete: &mut Complete) -> Result<Vec<RelativePath>> {
        let filter = Filter::new(&self.options.include, &self.options.exclude)?;
        let base = self.base.lock().clone();
        let below = |path: &RelativePath| path.strip_prefix(&base).unwrap_or_default();
        let holding = Arc::new(Mutex::new(HashSet::new()));
        let (pruning, prefix, above_pruned) = (filter.clone(), base.clone(), Arc::clone(&holding));
        let prune = Arc::new(move |path: &RelativePath| {
            let left_alone = |below: &RelativePath| below.as_bytes() == STAGING.as_bytes() || pruning.prunes(below);
            let prunes = path.strip_prefix(&prefix).is_some_and(|below| !below.is_root() && left_alone(&below));
            if prunes {
                add_above(path, &mut above_pruned.lock());
            }
            prunes
        });
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        let listing = match self.store.list(place, Depth::Tree, prune) {
            Ok(listing) => listing,
            // A dry run to a new destination.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        for entry in listing {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    complete.failed.push(failure(&RelativePath::root(), &error));
                    continue;
                }
            };
            let path = below(&entry.path);
            if path.is_root() || kept.contains(&key::of_path(&path)) {
                continue;
            }
            let is_directory = entry.kind == EntryKind::Directory;
            if is_directory && filter.includes_directory(&path) {
                directories.push(entry.path);
            } else if !is_directory && filter.includes_file(&path) {
                files.push(entry.path);
            } else {
                add_above(&entry.path, &mut holding.lock());
            }
        }
        // Where directories are only what the names of files say, they go with the last of them.
        if !self.capabilities.directories {
            directories.clear();
        }
        let holding = holding.lock();
        files.extend(directories.into_iter().rev().filter(|directory| !holding.contains(directory)));
        Ok(files)
    }

    /// Sets times and modes of directories, the deepest first, for whatever is put into a directory changes its time. Where items failed,
    /// the owner may write in all of them: the same command brings the rest.
    fn set_directories(&self, complete: &mut Complete, whole: bool) {
        let mut directories = std::mem::take(&mut *self.directories.lock());
        directories.sort_by_key(|directory| std::cmp::Reverse(directory.path.components().count()));
        for mut directory in directories {
            if directory.path.is_root() {
                continue;
            }
            let mode = directory.metadata.mode;
            directory.metadata.mode = mode.map(|mode| if whole { mode } else { mode | OWNER_WRITES });
            match self.store.set_directory_metadata(&directory.path, &directory.metadata) {
                Ok(()) => {}
                // A directory that stood there before and belongs to someone else keeps its time and mode; the files in it are all right.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    tracing::warn!(%error, "a directory keeps its time and mode");
                }
                Err(error) => {
                    let path = directory.path.strip_prefix(&self.base.lock()).unwrap_or_default();
                    complete.failed.push(failure(&path, &error));
                }
            }
        }
    }

    fn sync_directories(&self, complete: &mut Complete) {
        if self.fsync == Fsync::None {
            return;
        }
        let touched: Vec<RelativePath> = self.touched.lock().drain().collect();
        if let Err(error) = self.store.sync_directories(&touched) {
            complete.failed.push(failure(&RelativePath::root(), &error));
        }
    }

    /// Adds a record to the journal, to be written with the next acknowledgement.
    pub(crate) fn journal(&self, record: &Record) {
        if let Some(journal) = self.journal.lock().as_mut() {
            journal.append(record);
            if matches!(record, Record::Range { .. } | Record::Block { .. } | Record::Done(_)) {
                self.resumable.store(true, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn flush_journal(&self) -> Result<()> {
        self.journal.lock().as_mut().map_or(Ok(()), |journal| {
            journal.flush().map_err(|error| {
                error.with_hint(
                    "without a journal nothing can be resumed: free space at the destination and run the command again",
                )
            })
        })
    }

    /// Writes what is left and lets go of the journal, so that another process may take it.
    pub(crate) fn close_journal(&self) {
        if let Err(error) = self.flush_journal() {
            tracing::warn!(%error, "the journal could not be written");
        }
        *self.journal.lock() = None;
    }
}

/// Adds the directories above a path, of which those above one that was added before were added with it.
fn add_above(path: &RelativePath, directories: &mut HashSet<RelativePath>) {
    let mut above = path.parent();
    while let Some(directory) = above {
        above = directory.parent();
        if !directories.insert(directory) {
            break;
        }
    }
}

/// What fits into the last message, with a last failure that says how many more there are.
fn told(mut failed: Vec<ItemFailed>) -> Vec<ItemFailed> {
    let fits = parts(&failed, FAILURES_TOLD).next().map_or(0, <[_]>::len);
    if let Some(more) = failed.len().checked_sub(fits).filter(|more| *more > 0) {
        let error = Error::new(ErrorKind::Io, format!("{more} more items failed at the destination"))
            .with_hint("mend the failures before this one and run the same command again");
        failed.truncate(fits);
        failed.push(failure(&RelativePath::root(), &error));
    }
    failed
}

fn failure(path: &RelativePath, error: &Error) -> ItemFailed {
    ItemFailed { file: 0, path: path.as_bytes().to_vec(), failed: error.into() }
}

#[cfg(test)]
mod tests;
