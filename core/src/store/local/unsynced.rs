//! Directories whose new entries a crash of the machine could still take: flushed with the next flush of directories.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::sync::Mutex;

/// Above this many directories only the flush of everything is remembered.
const KEPT: usize = 1 << 16;

/// The directories in which others, or links, were made since they were last flushed.
///
/// One leaves only when its flush ended and nothing was made in it meanwhile: whoever flushes beside another waits for the same.
#[derive(Default)]
pub(super) struct Unsynced {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each with the number of the last change in it.
    directories: HashMap<PathBuf, u64>,
    everything: Option<u64>,
    above: Vec<PathBuf>,
    changes: u64,
}

/// What is to be flushed, as it was when it was asked for.
#[derive(Clone, Default)]
pub(super) struct Pending {
    /// Directories, relative to the root.
    pub(super) directories: Vec<(PathBuf, u64)>,
    /// Whether there were too many to remember.
    pub(super) everything: Option<u64>,
    /// Directories above the root, by their own paths.
    pub(super) above: Vec<PathBuf>,
}

impl Unsynced {
    /// Expects that a root that does not exist will be made, with those above it.
    pub(super) fn before(root: &Path) -> Self {
        let mut state = State::default();
        let mut made = root;
        while let Some(parent) = made.parent().filter(|_| !made.as_os_str().is_empty() && !made.exists()) {
            state.above.push(if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() });
            made = parent;
        }
        Self { state: Mutex::new(state) }
    }

    /// Notes that a directory has a new entry.
    pub(super) fn note(&self, directory: &Path) {
        let state = &mut *self.state.lock();
        state.changes += 1;
        if let Some(noted) = state.directories.get_mut(directory) {
            *noted = state.changes;
            return;
        }
        if state.directories.len() >= KEPT {
            state.directories = HashMap::new();
            state.everything = Some(state.changes);
        }
        match &mut state.everything {
            Some(noted) => *noted = state.changes,
            None => drop(state.directories.insert(directory.to_owned(), state.changes)),
        }
    }

    pub(super) fn pending(&self) -> Pending {
        let state = self.state.lock();
        let directories = state.directories.iter().map(|(path, change)| (path.clone(), *change)).collect();
        Pending { directories, everything: state.everything, above: state.above.clone() }
    }

    /// Forgets what was flushed.
    pub(super) fn flushed(&self, pending: &Pending) {
        let state = &mut *self.state.lock();
        for (path, change) in &pending.directories {
            if state.directories.get(path) == Some(change) {
                state.directories.remove(path);
            }
        }
        state.everything = state.everything.filter(|change| pending.everything != Some(*change));
        state.above.retain(|path| !pending.above.contains(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(unsynced: &Unsynced) -> Vec<PathBuf> {
        unsynced.pending().directories.into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn a_directory_that_changes_while_it_is_flushed_is_flushed_again() {
        let unsynced = Unsynced::default();
        unsynced.note(Path::new("a"));
        unsynced.note(Path::new("b"));
        let pending = unsynced.pending();
        unsynced.note(Path::new("a"));
        unsynced.flushed(&pending);
        assert_eq!(names(&unsynced), [Path::new("a")]);
        unsynced.flushed(&unsynced.pending());
        assert!(names(&unsynced).is_empty());
    }

    #[test]
    fn too_many_directories_are_flushed_with_everything() {
        let unsynced = Unsynced::default();
        (0..=KEPT).for_each(|number| unsynced.note(Path::new(&number.to_string())));
        let pending = unsynced.pending();
        assert!(pending.directories.is_empty() && pending.everything.is_some());
        unsynced.note(Path::new("later"));
        unsynced.flushed(&pending);
        assert!(unsynced.pending().everything.is_some(), "something was made since");
        unsynced.flushed(&unsynced.pending());
        assert!(unsynced.pending().everything.is_none());
    }

    #[test]
    fn the_directories_above_a_missing_root_are_flushed() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("not/yet");
        assert_eq!(Unsynced::before(&missing).pending().above, [directory.path().join("not"), directory.path().to_owned()]);
        assert!(Unsynced::before(directory.path()).pending().above.is_empty());
    }
}
