//! What listings told of files a moment ago, so that opening one of them asks nothing.

use std::collections::HashMap;

use crate::path::RelativePath;
use crate::store::{Entry, EntryKind};
use crate::sync::Mutex;

/// Entries of one generation; the one before it is kept as well.
const MOST: usize = 8192;

/// Entries of files by their path: the latest ones, each until it is taken.
#[derive(Default)]
pub(super) struct Recent(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<RelativePath, Entry>,
    old: HashMap<RelativePath, Entry>,
}

impl Recent {
    pub(super) fn add(&self, entry: &Entry) {
        if entry.kind != EntryKind::File {
            return;
        }
        let mut generations = self.0.lock();
        if generations.young.len() >= MOST {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(entry.path.clone(), entry.clone());
    }

    pub(super) fn take(&self, path: &RelativePath) -> Option<Entry> {
        let mut generations = self.0.lock();
        let young = generations.young.remove(path);
        let old = generations.old.remove(path);
        young.or(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_entries_are_kept_and_the_oldest_forgotten() {
        let recent = Recent::default();
        let path = |number: usize| RelativePath::from_user(&number.to_string()).unwrap();
        let entry = |number: usize| Entry {
            path: path(number),
            kind: EntryKind::File,
            size: number as u64,
            modified_ns: None,
            mode: None,
            version: None,
            sparse: false,
        };
        (0..3 * MOST).for_each(|number| recent.add(&entry(number)));
        assert_eq!(recent.take(&path(0)), None);
        assert_eq!(recent.take(&path(2 * MOST)), Some(entry(2 * MOST)));
        assert_eq!(recent.take(&path(2 * MOST)), None, "each is taken once");
    }
}
