//! The end of a session at the receiver: mirror, directories, flushes, journal.

use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::options::Fsync;
use crate::path::RelativePath;
use crate::pipeline::journal::Record;
use crate::pipeline::receiver::Shared;
use crate::pipeline::receiver::file::metadata;
use crate::plan::{Filter, key};
use crate::protocol::message::{Complete, ItemFailed, ItemKind, Message};
use crate::store::{Depth, EntryKind};

/// Failures of the last steps that the sender is told one by one.
const FAILURES_TOLD: usize = 100;

/// `ReceiveOptions::selection` of a mirror.
pub(crate) const MIRROR: u8 = 2;

impl Shared {
    /// Every item is settled: completes what only the end can complete, and says so.
    pub(crate) fn finish(&self, intact: bool) -> Result<()> {
        let mut complete = Complete::default();
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
            self.set_directories(&mut complete);
            self.sync_directories(&mut complete);
            if whole && complete.failed.is_empty() || !self.resumable.load(Ordering::Relaxed) {
                self.close_journal();
                if let Err(error) = self.store.discard(&self.key) {
                    tracing::warn!(%error, "what is left of the transfer could not be removed");
                }
            }
        }
        shorten(&mut complete.failed);
        self.acknowledge();
        if let Some(account) = &self.account {
            account.removed(complete.removed);
            complete.failed.iter().for_each(|item| account.failed(&item.path, &item.failed.clone().into()));
        }
        self.control.send(&Message::Complete(complete))?;
        self.complete.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// In a mirror, removes what stands in the way of an item of another kind.
    pub(crate) fn make_way(&self, path: &RelativePath, kind: ItemKind) {
        if self.options.selection != MIRROR || path.is_root() {
            return;
        }
        let Ok(entry) = self.store.stat(path) else { return };
        let in_the_way = (entry.kind == EntryKind::Directory) != (kind == ItemKind::Directory);
        if in_the_way && let Err(error) = self.store.remove(path, Depth::Tree) {
            tracing::info!(%error, "could not make way");
        }
    }

    /// Removes what the source does not have; what the filter leaves out of the source is left alone here too.
    fn remove_surplus(&self, complete: &mut Complete) -> Result<()> {
        let filter = Filter::new(&self.options.include, &self.options.exclude)?;
        let base = self.base.lock().clone();
        let kept = std::mem::take(&mut *self.kept.lock());
        let below = |path: &RelativePath| path.strip_prefix(&base).unwrap_or_default();
        let pruning = filter.clone();
        let prefix = base.clone();
        let prune = std::sync::Arc::new(move |path: &RelativePath| {
            path.strip_prefix(&prefix).is_some_and(|path| !path.is_root() && pruning.prunes(&path))
        });
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        let listing = match self.store.list(&base, Depth::Tree, prune) {
            Ok(listing) => listing,
            // A dry run to a new destination.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
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
            match entry.kind {
                EntryKind::Directory if filter.includes_directory(&path) => directories.push(entry.path),
                EntryKind::Directory => {}
                _ if filter.includes_file(&path) => files.push(entry.path),
                _ => {}
            }
        }
        directories.reverse();
        for path in files.into_iter().chain(directories) {
            if self.options.dry_run {
                complete.removed += 1;
                continue;
            }
            match self.store.remove(&path, Depth::One) {
                Ok(()) => complete.removed += 1,
                // Something that the filter protects is still in it.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => complete.failed.push(failure(&below(&path), &error)),
            }
        }
        Ok(())
    }

    /// Sets times and modes of directories, the deepest first, for whatever is put into a directory changes its time.
    fn set_directories(&self, complete: &mut Complete) {
        let mut directories = std::mem::take(&mut *self.directories.lock());
        directories.sort_by_key(|directory| std::cmp::Reverse(directory.path.components().count()));
        for directory in directories {
            if directory.path.is_root() {
                continue;
            }
            if let Err(error) = self.store.set_directory_metadata(&directory.path, &metadata(&directory.header)) {
                // A directory of somebody else, which files may be put into all the same.
                if error.kind() == ErrorKind::PermissionDenied {
                    tracing::info!(%error, "a directory keeps its own time and mode");
                    continue;
                }
                let path = RelativePath::from_bytes(&directory.header.path).unwrap_or_default();
                complete.failed.push(failure(&path, &error));
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
            if matches!(record, Record::Range { .. } | Record::Done(_)) {
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

/// Keeps the message within its bounds; the last entry then says how many there were.
fn shorten(failed: &mut Vec<ItemFailed>) {
    let more = failed.len().saturating_sub(FAILURES_TOLD);
    failed.truncate(FAILURES_TOLD);
    if more > 0 {
        let error = Error::new(ErrorKind::Io, format!("{more} more items failed at the end of the transfer"));
        failed.push(failure(&RelativePath::root(), &error));
    }
}

fn failure(path: &RelativePath, error: &Error) -> ItemFailed {
    ItemFailed { file: 0, path: path.as_bytes().to_vec(), failed: error.into() }
}
