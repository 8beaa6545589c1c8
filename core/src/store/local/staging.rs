//! The directory `.edt` at the root: temporary and partial files, and journals, in the same file system as the final names.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(unix)]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::facts::{Found, Kind};
use super::place::{Mode, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Symlinks;
use crate::path::{RelativePath, name_bytes};
use crate::sync::Mutex;

/// The name of it.
pub(crate) const NAME: &str = ".edt";
const TEMPORARY: &str = "tmp";

/// How the keys begin of uploads to the Flight service.
pub const UPLOAD: &str = "flight-";

/// How many entries of it are looked at to tell what put them there.
const LOOKED_AT: usize = 100;

/// What the plugins for workflow engines keep beside it, where they are told to stage below a root.
const OF_PLUGINS: [&str; 5] = ["lanes", "staging", "ahead", "writing", "publishing"];

/// Directories that are kept open although nothing in them is: each has one of the files that a process may have open.
const PLACES: usize = 64;

/// How often a directory is made again that others removed before anything was put into it.
const ATTEMPTS: usize = 32;

/// The name of a journal below its key.
pub(super) const JOURNAL: &str = "journal";

/// Makes, finds and removes what is staged below one root.
pub(super) struct Staging {
    places: Mutex<HashMap<String, Arc<Place>>>,
    #[cfg(unix)]
    umasked: OnceLock<u32>,
    seed: u64,
}

/// A file in the staging directory; removed when it is dropped, unless it is a partial file or was moved away.
pub(super) struct Temporary {
    pub(super) place: Arc<Place>,
    pub(super) name: PathBuf,
    pub(super) kept: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            let _ = self.place.remove_file(&self.name);
        }
    }
}

impl Staging {
    pub(super) fn new() -> Self {
        Self {
            places: Mutex::default(),
            #[cfg(unix)]
            umasked: OnceLock::new(),
            seed: RandomState::new().build_hasher().finish(),
        }
    }

    /// A file of its own that nobody else names.
    pub(super) fn temporary(&self, root: &Place) -> io::Result<(File, Temporary)> {
        let name = PathBuf::from(self.unique());
        let (place, file) = self.open(root, TEMPORARY, &name, Mode::New)?;
        Ok((file, Temporary { place, name, kept: false }))
    }

    /// The partial file of a number below a key, continued if there is one.
    pub(super) fn partial(&self, root: &Place, key: &str, number: u64) -> io::Result<(File, Temporary)> {
        let name = PathBuf::from(number.to_string());
        let (place, file) = self.open(root, key, &name, Mode::Partial)?;
        Ok((file, Temporary { place, name, kept: true }))
    }

    /// The partial file of a number below a key, begun anew.
    pub(super) fn fresh_partial(&self, root: &Place, key: &str, number: u64) -> io::Result<(File, Temporary)> {
        let name = PathBuf::from(number.to_string());
        let (place, file) = self.within(root, key, |place| open_anew(place, &name))?;
        Ok((file, Temporary { place, name, kept: true }))
    }

    /// The journal of a key, and where it stands.
    pub(super) fn journal(&self, root: &Place, key: &str) -> io::Result<(Arc<Place>, File)> {
        self.open(root, key, Path::new(JOURNAL), Mode::Append)
    }

    /// Makes a link that is about to be moved to its name; answers where it stands.
    #[cfg(unix)]
    pub(super) fn link(&self, root: &Place, target: &Path, name: &Path) -> io::Result<Arc<Place>> {
        self.within(root, TEMPORARY, |place| place.symlink(target, name)).map(|(place, ())| place)
    }

    /// Removes the directory of temporary files, and the staging directory if nothing else is in it.
    pub(super) fn tidy(&self, root: &Place) {
        let mut places = self.places.lock();
        // Whoever still uses it here tidies up later.
        if places.get(TEMPORARY).is_some_and(|place| Arc::strong_count(place) > 1) {
            return;
        }
        places.remove(TEMPORARY);
        drop(places);
        remove_empty(root);
    }

    /// Removes what is staged for a key, and the staging directory if nothing else is in it.
    pub(super) fn discard(&self, root: &Place, key: &str) -> io::Result<()> {
        self.forget(key);
        self.forget(TEMPORARY);
        let directory = below(key);
        // Listed before the journal goes: from then on another process may begin the same transfer here.
        let names = |found: Found| (found.name != *OsStr::new(JOURNAL)).then_some(found.name);
        let rest: Vec<OsString> =
            root.entries(&directory).map(|found| found.flatten().filter_map(names).collect()).unwrap_or_default();
        match root.remove_file(&directory.join(JOURNAL)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Without its journal nothing continues the rest, and some of it may be not ours to remove, as what NFS keeps of open files.
        for name in rest {
            let _ = root.remove_file(&directory.join(name));
        }
        let _ = root.remove_directory(&directory);
        remove_empty(root);
        Ok(())
    }

    /// The mode of a new file of this process, 0666 less its umask; asked of the file system because reading a umask sets it.
    #[cfg(unix)]
    pub(super) fn default_mode(&self, root: &Place) -> u32 {
        *self.umasked.get_or_init(|| {
            let probe = PathBuf::from(self.unique());
            let probed = self.within(root, TEMPORARY, |place| place.create_one(&probe)).and_then(|(place, ())| {
                let probed = place.facts(&probe, Symlinks::Keep);
                let _ = place.remove_directory(&probe);
                probed
            });
            probed.ok().and_then(|facts| facts.mode).map_or(0o644, |mode| mode & 0o666)
        })
    }

    /// A name that no other process and no other call makes.
    pub(super) fn unique(&self) -> String {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        format!("{:x}-{:x}-{:x}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed), self.seed)
    }

    fn open(&self, root: &Place, key: &str, name: &Path, mode: Mode) -> io::Result<(Arc<Place>, File)> {
        self.within(root, key, |place| place.open(name, mode))
    }

    /// Makes something in the directory of a key, which is made where it is missing.
    fn within<T>(&self, root: &Place, key: &str, create: impl Fn(&Place) -> io::Result<T>) -> io::Result<(Arc<Place>, T)> {
        let mut attempts = 0;
        loop {
            let place = self.place(root, key)?;
            match create(&place) {
                // The directory was removed since: with a transfer that ended, by one who tidied up, or by hand.
                Err(error) if is_gone(&error) && attempts < ATTEMPTS => attempts += 1,
                made => return made.map(|made| (place, made)),
            }
            self.forget(key);
        }
    }

    fn place(&self, root: &Place, key: &str) -> io::Result<Arc<Place>> {
        if let Some(place) = self.places.lock().get(key) {
            return Ok(Arc::clone(place));
        }
        let place = Arc::new(make(root, key)?);
        let mut places = self.places.lock();
        if places.len() >= PLACES {
            // A transfer that was interrupted may never come back.
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        places.insert(key.to_owned(), Arc::clone(&place));
        Ok(place)
    }

    fn forget(&self, key: &str) {
        self.places.lock().remove(key);
    }
}

/// Opens an empty file in the place of what has its name. That is removed, not cut: it may stand under a final name too.
fn open_anew(place: &Place, name: &Path) -> io::Result<File> {
    match place.open(name, Mode::New) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            place.remove_file(name)?;
            place.open(name, Mode::New)
        }
        opened => opened,
    }
}

fn make(root: &Place, key: &str) -> io::Result<Place> {
    let path = below(key);
    let mut attempts = 0;
    loop {
        match root.create_private(Path::new(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                root.make_itself()?;
                root.create_private(Path::new(NAME))?;
            }
            made => made?,
        }
        match root.create_private(&path).and_then(|()| root.below(&path)) {
            // Somebody removed the directory between the two calls.
            Err(error) if is_gone(&error) && attempts < ATTEMPTS => attempts += 1,
            made => return made,
        }
    }
}

/// Whether the directory in which something should happen is none any more; network file systems have a word of their own for it, and
/// Windows does not let anybody into one that is being removed.
fn is_gone(error: &io::Error) -> bool {
    let kind = error.kind();
    let leaving = cfg!(windows) && kind == io::ErrorKind::PermissionDenied;
    leaving || matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle)
}

/// Removes the directories that all transfers share. Others may be using them: what is not empty stays.
fn remove_empty(root: &Place) {
    let _ = root.remove_directory(&below(TEMPORARY));
    let _ = root.remove_directory(Path::new(NAME));
}

fn below(key: &str) -> PathBuf {
    [NAME, key].iter().collect()
}

/// The keys that begin with `prefix` below which nothing was written since `before`.
pub(super) fn abandoned(root: &Place, prefix: &str, before: SystemTime) -> io::Result<Vec<String>> {
    let keys = match root.entries(Path::new(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        keys => keys?,
    };
    let mut abandoned = Vec::new();
    for directory in keys {
        let directory = directory?;
        let Some(key) = directory.name.to_str().map(str::to_owned).filter(|key| key.starts_with(prefix)) else { continue };
        // One that cannot be looked at is left alone.
        let Ok(files) = root.entries(&below(&key)) else { continue };
        let is_old = |found: io::Result<Found>| {
            let modified = found.ok()?.facts.ok()?.modified_ns?;
            (super::facts::system_time(modified) < before).then_some(())
        };
        // In one that was just made nothing is yet.
        if files.chain([Ok(directory)]).all(|found| is_old(found).is_some()) {
            abandoned.push(key);
        }
    }
    Ok(abandoned)
}

/// Whether nothing is staged below a root.
pub(super) fn is_clear(root: &Place) -> bool {
    matches!(root.facts(Path::new(NAME), Symlinks::Keep), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// The path of what has the name of the staging directory and holds nothing that edt puts there, if it stands at the root.
pub(super) fn of_others(root: &Place, symlinks: Symlinks) -> Option<RelativePath> {
    let facts = root.facts(Path::new(NAME), Symlinks::Keep).ok()?;
    let is_theirs = match facts.kind {
        // Those of other users are closed to this one.
        Kind::Directory => root.entries(Path::new(NAME)).is_ok_and(|entries| {
            let mut known = entries.take(LOOKED_AT).map(|found| found.is_ok_and(|found| is_known(&found.name))).peekable();
            known.peek().is_some() && !known.any(|known| known)
        }),
        Kind::Symlink => symlinks != Symlinks::Skip,
        _ => true,
    };
    is_theirs.then(|| RelativePath::from_bytes(NAME.as_bytes()).ok()).flatten()
}

/// Whether something in the staging directory has a name that edt or one of its plugins gives.
fn is_known(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_key = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_key || name.starts_with(UPLOAD) || name == TEMPORARY || OF_PLUGINS.contains(&&*name)
}

/// Whether a path leads into the staging directory, which no client may name.
pub(super) fn holds(path: &RelativePath) -> bool {
    path.components().next().is_some_and(is_staging)
}

/// The same for a path of this system.
pub(super) fn leads_into(path: &Path) -> bool {
    path.components().next().and_then(|first| name_bytes(first.as_os_str())).is_some_and(is_staging)
}

/// Whether an entry of the root is the staging directory.
#[cfg(target_os = "linux")]
pub(super) fn is_staging(name: &[u8]) -> bool {
    name == NAME.as_bytes()
}

/// Whether an entry of the root is the staging directory.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_staging(name: &[u8]) -> bool {
    // File systems of the other systems take `.EDT` for the same name.
    name.eq_ignore_ascii_case(NAME.as_bytes())
}

/// Refuses a key that is no plain name or that is taken.
pub(super) fn check_key(key: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if key.is_empty() || key.len() > 64 || key == TEMPORARY || !key.bytes().all(plain) {
        return Err(Error::new(ErrorKind::InvalidInput, format!("could not use the journal key `{}`", key.escape_debug()))
            .with_cause("a key is 1 to 64 letters, digits, `-` or `_`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_transfers_that_were_interrupted_are_not_all_kept_open() {
        let directory = tempfile::tempdir().unwrap();
        let root = Place::confined(directory.path()).unwrap();
        let staging = Staging::new();
        let (_file, used) = staging.partial(&root, "used", 0).unwrap();
        for number in 0..3 * PLACES {
            staging.journal(&root, &format!("key-{number}")).unwrap();
        }
        let places = staging.places.lock();
        assert!(places.len() <= PLACES, "{} are open", places.len());
        assert!(places.get("used").is_some_and(|place| Arc::ptr_eq(place, &used.place)));
    }
}
