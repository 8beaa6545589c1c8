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

impl Shared {
    /// Tells which files stand at the destination, of those that the sender may send.
    pub(super) fn tell_present(&self, base: &RelativePath) -> Result<()> {
        let times = self.capabilities.times;
        let tell = |present: &mut Vec<Key>, written: &mut Vec<i64>| {
            let (present, written) = (std::mem::take(present), std::mem::take(written));
            self.tell(Have { present, written: (times == Times::Written).then_some(written), ..Have::default() })
        };
        let all = [RelativePath::root()];
        let (mut present, mut written) = (Vec::new(), Vec::new());
        for path in self.chosen.as_deref().unwrap_or(&all) {
            self.go_on("what stands at the destination was looked at")?;
            for entry in self.standing_at(&base.join(path))?.flatten().filter(|entry| entry.kind == EntryKind::File) {
                self.go_on("what stands at the destination was listed")?;
                let path = entry.path.strip_prefix(base).unwrap_or_default();
                present.push(key::of_content(&path, entry.size, entry.modified_ns, times));
                written.push(entry.modified_ns.unwrap_or(i64::MIN));
                if present.len() >= KEYS_PER_MESSAGE {
                    tell(&mut present, &mut written)?;
                }
            }
        }
        tell(&mut present, &mut written)
    }

    /// Tells a dry run what stands at the destination: what is not to be replaced, and what is in the way of an item of another kind, for
    /// which only a mirror makes way. Where nobody may look, all counts as free.
    pub(super) fn tell_standing(&self, base: &RelativePath) -> Result<()> {
        let is_kept = self.overwrite == Overwrite::Never;
        // Where directories are only what the names of files say, nothing is in their way, nor are they.
        let is_obstacle = self.capabilities.directories && self.options.selection != MIRROR;
        if !is_kept && !is_obstacle {
            return Ok(());
        }
        let mut left = if is_kept || self.options.selection > 0 {
            usize::MAX
        } else if self.capabilities.flushes {
            MOST_LOOKED_AT
        } else {
            MOST_ASKED_FOR
        };
        let all = [RelativePath::root()];
        let mut taken = Vec::new();
        let tell = |taken: &mut Vec<Key>| self.tell(Have { taken: Some(std::mem::take(taken)), ..Have::default() });
        for path in self.chosen.as_deref().unwrap_or(&all) {
            self.go_on("what stands at the destination was looked at")?;
            if left == 0 {
                break;
            }
            left -= 1;
            if is_obstacle {
                taken.extend(self.obstacle_at(&base.join(path), path));
            }
            if taken.len() >= KEYS_PER_MESSAGE {
                tell(&mut taken)?;
            }
            let standing = match self.standing_at(&base.join(path)) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied || !is_kept => continue,
                standing => standing?,
            };
            for entry in standing.flatten().take(left) {
                left -= 1;
                self.go_on("what stands at the destination was listed")?;
                let path = entry.path.strip_prefix(base).unwrap_or_default();
                if is_kept && entry.kind != EntryKind::Directory {
                    taken.push(key::of_path(&path));
                }
                if is_obstacle {
                    taken.extend(self.obstacle(&entry.kind, &path));
                }
                if taken.len() >= KEYS_PER_MESSAGE {
                    tell(&mut taken)?;
                }
            }
        }
        tell(&mut taken)
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
