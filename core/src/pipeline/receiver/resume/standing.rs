//! What stands at the destination before a session begins, as far as the sender has to know it.

use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::pipeline::receiver::Shared;
use crate::pipeline::receiver::finish::MIRROR;
use crate::plan::key;
use crate::protocol::message::{Have, Key};
use crate::store::{Depth, EntryKind, Listing, Times};

use super::KEYS_PER_MESSAGE;

/// Entries of a destination that a dry run looks at for what is in the way, where nothing else asks for a listing: it may be a whole disk.
const MOST_LOOKED_AT: usize = 1 << 18;

/// The same where each file or directory that is looked at may be a request.
const MOST_ASKED_FOR: usize = 1 << 12;

/// What was found at the destination, and is not told yet.
#[derive(Default)]
struct Found {
    present: Vec<Key>,
    written: Vec<i64>,
    taken: Vec<Key>,
}

impl Shared {
    /// Tells what stands at the destination, from one listing: the files to compare, of those that the sender may send; and to a dry run also
    /// what is not to be replaced, and what is in the way of an item of another kind, for which only a mirror makes way. Where nobody may
    /// look, all counts as free, unless files are to be compared.
    pub(super) fn tell_standing(&self, base: &RelativePath) -> Result<()> {
        let is_compared = self.options.selection > 0;
        let is_kept = self.options.dry_run && self.overwrite == Overwrite::Never;
        // Where directories are only what the names of files say, nothing is in their way, nor are they.
        let is_obstacle = self.options.dry_run && self.capabilities.directories && self.options.selection != MIRROR;
        if !is_compared && !is_kept && !is_obstacle {
            return Ok(());
        }
        let mut left = if is_compared || is_kept {
            usize::MAX
        } else if self.capabilities.flushes {
            MOST_LOOKED_AT
        } else {
            MOST_ASKED_FOR
        };
        let times = self.capabilities.times;
        let all = [RelativePath::root()];
        let mut found = Found::default();
        for path in self.chosen.as_deref().unwrap_or(&all) {
            self.go_on("what stands at the destination was looked at")?;
            if left == 0 {
                break;
            }
            left -= 1;
            if is_obstacle {
                found.taken.extend(self.obstacle_at(&base.join(path), path));
            }
            self.tell_found(&mut found, KEYS_PER_MESSAGE)?;
            let standing = match self.standing_at(&base.join(path)) {
                Err(error) if !is_compared && (error.kind() == ErrorKind::PermissionDenied || !is_kept) => continue,
                standing => standing?,
            };
            for entry in standing.flatten().take(left) {
                left -= 1;
                self.go_on("what stands at the destination was listed")?;
                let path = entry.path.strip_prefix(base).unwrap_or_default();
                if is_compared && entry.kind == EntryKind::File {
                    found.present.push(key::of_content(&path, entry.size, entry.modified_ns, times));
                    found.written.push(entry.modified_ns.unwrap_or(i64::MIN));
                }
                if is_kept && entry.kind != EntryKind::Directory {
                    found.taken.push(key::of_path(&path));
                }
                if is_obstacle {
                    found.taken.extend(self.obstacle(&entry.kind, &path));
                }
                self.tell_found(&mut found, KEYS_PER_MESSAGE)?;
            }
        }
        self.tell_found(&mut found, 0)
    }

    /// Tells what was found, if it is at least so many keys.
    fn tell_found(&self, found: &mut Found, least: usize) -> Result<()> {
        if found.present.len() + found.taken.len() < least {
            return Ok(());
        }
        let Found { present, written, taken } = std::mem::take(found);
        let written = (self.capabilities.times == Times::Written).then_some(written);
        self.tell(Have { present, written, taken: (!taken.is_empty()).then_some(taken), ..Have::default() })
    }

    /// What stands at a place itself, which a listing of what is below does not tell.
    fn obstacle_at(&self, place: &RelativePath, path: &RelativePath) -> Vec<Key> {
        match self.store.stat(place) {
            Ok(entry) if entry.kind == EntryKind::Directory => self.obstacle(&entry.kind, path),
            // Something above it is no directory.
            Err(error) if error.kind() == ErrorKind::WrongType => self.obstacle(&EntryKind::Other, path),
            _ => Vec::new(),
        }
    }

    /// In whose way something of a kind is.
    fn obstacle(&self, kind: &EntryKind, path: &RelativePath) -> Vec<Key> {
        match kind {
            EntryKind::Directory => vec![key::of_directory(path)],
            EntryKind::File => vec![key::of_obstacle(path)],
            // What services make of one that leads to a directory is not known.
            EntryKind::Symlink(_) if self.capabilities.flushes => vec![key::of_obstacle(path)],
            EntryKind::Symlink(_) => Vec::new(),
            EntryKind::Other => vec![key::of_directory(path), key::of_obstacle(path)],
        }
    }

    /// What stands at a place of the destination, which may be nothing. Where a chosen item cannot be looked at, it fails alone when it
    /// is brought there.
    fn standing_at(&self, place: &RelativePath) -> Result<Listing<'_>> {
        let nothing = std::sync::Arc::new(|_: &RelativePath| false);
        let unreachable = |kind| matches!(kind, ErrorKind::WrongType | ErrorKind::PermissionDenied) && self.chosen.is_some();
        match self.store.list(place, Depth::Tree, nothing) {
            Err(error) if error.kind() == ErrorKind::NotFound || unreachable(error.kind()) => Ok(Box::new(std::iter::empty())),
            listing => listing,
        }
    }

    /// An error if the half ends meanwhile.
    pub(super) fn go_on(&self, meanwhile: &str) -> Result<()> {
        if self.stop.is_set() {
            return Err(Error::new(ErrorKind::Cancelled, format!("the transfer ended while {meanwhile}")));
        }
        Ok(())
    }
}
