//! Keeps a sender from writing through symbolic links: below the destination, what leads to an item is a directory or nothing.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::pipeline::receiver::Shared;
use crate::protocol::message::ItemKind;
use crate::store::EntryKind;

/// The directories that items of this session lie in, and the links that it makes: no path is ever both.
#[derive(Default)]
pub(crate) struct Ways {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    directories: HashSet<RelativePath>,
    links: HashSet<RelativePath>,
}

impl State {
    /// Claims the ways to an item; returns those that were not claimed before.
    fn claim(&mut self, base: &RelativePath, path: &RelativePath, kind: ItemKind) -> Option<Vec<RelativePath>> {
        let own = (kind == ItemKind::Directory).then(|| path.clone());
        let above = std::iter::successors(path.parent(), RelativePath::parent);
        let below_base = |way: &RelativePath| way != base && way.strip_prefix(base).is_some();
        let ways = own.into_iter().chain(above).take_while(below_base);
        let new: Vec<RelativePath> = ways.take_while(|way| !self.directories.contains(way)).collect();
        let crosses = new.iter().any(|way| self.links.contains(way));
        if crosses || (kind == ItemKind::Symlink && self.directories.contains(path)) {
            return None;
        }
        self.directories.extend(new.iter().cloned());
        if kind == ItemKind::Symlink {
            self.links.insert(path.clone());
        }
        Some(new)
    }
}

impl Shared {
    /// Makes sure that no link leads to an item, neither one that stands at the destination nor one that the same sender makes.
    pub(crate) fn claim_ways(&self, path: &RelativePath, kind: ItemKind) -> Result<()> {
        let base = self.base.lock().clone();
        let new = self.ways.state.lock().claim(&base, path, kind).ok_or_else(|| crossed(path))?;
        for way in &new {
            if self.store.stat(way).is_ok_and(|entry| matches!(entry.kind, EntryKind::Symlink(_))) {
                let mut state = self.ways.state.lock();
                for way in &new {
                    state.directories.remove(way);
                }
                return Err(crossed(path));
            }
        }
        Ok(())
    }
}

fn crossed(path: &RelativePath) -> Error {
    Error::new(ErrorKind::WrongType, format!("could not write `{path}`"))
        .with_cause("a symbolic link stands where a directory should be")
        .with_hint("remove the link at the destination, or copy into the directory that it points to")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::from_user(text).unwrap()
    }

    #[test]
    fn a_path_is_a_link_or_leads_to_files_but_never_both() {
        let (mut state, base) = (State::default(), path("base"));
        assert!(state.claim(&base, &path("base/a/b/file"), ItemKind::File).is_some());
        assert!(state.claim(&base, &path("base/a"), ItemKind::Symlink).is_none());
        assert!(state.claim(&base, &path("base/link"), ItemKind::Symlink).is_some());
        assert!(state.claim(&base, &path("base/link/deep/file"), ItemKind::File).is_none());
        assert!(state.claim(&base, &path("base/link"), ItemKind::Directory).is_none());
    }

    #[test]
    fn each_way_is_looked_at_once() {
        let (mut state, base) = (State::default(), path("base"));
        let new = state.claim(&base, &path("base/a/b/file"), ItemKind::File).unwrap();
        assert_eq!(new, [path("base/a/b"), path("base/a")]);
        assert!(state.claim(&base, &path("base/a/b/other"), ItemKind::File).unwrap().is_empty());
    }
}
