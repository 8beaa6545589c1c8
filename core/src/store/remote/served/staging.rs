//! The directory beside what a transfer writes: partial files, in the same file system as their final names.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::host::Host;
use super::in_parallel;
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::remote::ServedFile;
use crate::store::remote::patience::clearing;
use crate::store::{EntryKind, Partial};
use crate::sync::Mutex;

/// The name of the directory where all transfers to one place share it, and what it begins with where each has its own.
const DIRECTORY: &[u8] = b".edt-partial";

/// Digits behind that of a transfer's own directory.
const DIGITS: usize = 32;

/// What the names of copies begin with that the server makes by itself; no key of a transfer has a dot.
const COPY: &str = "copy.";

/// How often the directory is made again because other transfers remove it as they end: each of them does so once.
const MADE_AGAIN: u32 = 6;

/// How often a directory is made again where a server cannot tell why it did not make it.
const MAKING_AGAIN: u32 = 3;

/// Where a store keeps partial files, found out when the first is needed.
pub(super) struct Staging {
    base: RelativePath,
    /// Whether the URL's path is meant as a directory.
    directory: bool,
    place: Mutex<Option<Place>>,
    /// Held by the thread that makes the place.
    making: Mutex<()>,
    seed: u64,
}

/// A directory for partial files, and whether it was made.
#[derive(Clone)]
struct Place {
    directory: RelativePath,
    made: bool,
    /// Whether it went away since it was made.
    lost: bool,
}

/// Which partial file a writer has.
#[derive(Debug, Clone)]
pub(super) struct PartialName {
    name: String,
    /// The transfer's key, for a file that a later process may continue.
    key: Option<String>,
}

impl PartialName {
    pub(super) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl Staging {
    pub(super) fn new(base: RelativePath, directory: bool) -> Self {
        Self {
            base,
            directory,
            place: Mutex::new(None),
            making: Mutex::new(()),
            seed: RandomState::new().build_hasher().finish(),
        }
    }

    pub(super) fn base(&self) -> &RelativePath {
        &self.base
    }
}

/// Whether a path leads into a directory of partial files, which no caller may name.
pub(super) fn holds(path: &RelativePath) -> bool {
    path.components().any(is_directory)
}

/// Whether a name is that of a directory for partial files. Whatever only resembles it belongs to users.
pub(super) fn is_directory(name: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match name.strip_prefix(DIRECTORY) {
        Some([]) => true,
        Some([b'-', digits @ ..]) => digits.len() == DIGITS && digits.iter().all(is_digit),
        _ => false,
    }
}

/// The name of a directory for partial files that is one transfer's own; it follows from `of`, which nobody else has.
pub(in crate::store::remote) fn own_directory(of: &str) -> Vec<u8> {
    [DIRECTORY, b"-", &blake3::hash(of.as_bytes()).to_hex().as_bytes()[..DIGITS]].concat()
}

/// The name of a copy that the server makes by itself: it tells when it was begun, in nanoseconds since 1970.
pub(in crate::store::remote) fn copy_name(number: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{COPY}{}.{}-{number}", now.as_nanos(), std::process::id())
}

/// When a copy of that name was begun; `None` for all other names.
pub(super) fn begun_ns(name: &[u8]) -> Option<i64> {
    let begun = std::str::from_utf8(name).ok()?.strip_prefix(COPY)?.split('.').next()?;
    begun.parse().ok()
}

impl Host {
    /// Whether a partial file can be continued.
    pub(super) fn continues(&self) -> bool {
        let abilities = self.service.abilities();
        abilities.random_writes || abilities.appends
    }

    /// The name of a transfer's partial file. One that is not continued has a name that no other process and no other call makes: of what
    /// stands there, nothing is another file.
    pub(super) fn partial_name(&self, partial: Option<&Partial>) -> PartialName {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let own = || format!("{:x}-{:x}", COUNTER.fetch_add(1, Ordering::Relaxed), self.staging.seed);
        let name = match partial {
            Some(Partial { key, number }) if self.continues() && *number < Partial::SMALL_FILES => format!("{key}.{number}"),
            Some(Partial { key, number }) => format!("{key}.{number}-{}", own()),
            None => format!("tmp.{:x}-{}", std::process::id(), own()),
        };
        PartialName { name, key: partial.map(|partial| partial.key.clone()) }
    }

    /// What the directory for partial files is called. Where nothing is continued each transfer has its own, and the same one when it is
    /// run again: with a server that removes a directory with all that is in it, another transfer would take its files away.
    fn directory_name(&self, key: Option<&str>) -> Vec<u8> {
        match key {
            _ if self.continues() => DIRECTORY.to_vec(),
            Some(key) => own_directory(key),
            None => own_directory(&format!("{:x}-{:x}", std::process::id(), self.staging.seed)),
        }
    }

    /// Directories beside what the URL named in which transfers to it may have left partial files.
    pub(super) fn places_beside(&self) -> Result<Vec<RelativePath>> {
        let writes = self.service.abilities().writes;
        let Some(above) = self.base().parent().filter(|_| writes) else { return Ok(Vec::new()) };
        if self.continues() {
            return Ok(vec![above.child(DIRECTORY)?]);
        }
        let entries = match self.run(|service| service.children(&above)) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WrongType) => Vec::new(),
            entries => entries?,
        };
        Ok(entries.into_iter().map(|entry| entry.path).filter(|path| path.name().is_some_and(is_directory)).collect())
    }

    /// Where a partial file is, which need not exist.
    pub(super) fn partial(&self, name: &PartialName) -> Result<RelativePath> {
        self.place(name.key())?.child(name.name.as_bytes())
    }

    /// Opens a partial file, empty or with `keep` as it is; makes one attempt.
    pub(super) fn open_partial(&self, name: &PartialName, size: u64, keep: bool) -> Result<Box<dyn ServedFile>> {
        let path = self.partial(name)?;
        self.in_place(|| self.service.write(&path, size, keep))
    }

    /// Does something in the directory for partial files, again if another transfer that ended removed the directory meanwhile.
    pub(super) fn in_place<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        for earlier in 0..MADE_AGAIN {
            self.make_place()?;
            match attempt() {
                Err(error) if error.kind() == ErrorKind::NotFound => self.forget_place(),
                answer => return answer,
            }
            if earlier > 0 {
                self.patience.rest(earlier - 1);
            }
        }
        self.make_place()?;
        attempt()
    }

    /// A name among the partial files that nothing has.
    pub(super) fn new_beside(&self) -> Result<RelativePath> {
        self.partial(&self.partial_name(None))
    }

    /// Removes the directory for partial files if this store made it and nothing is left in it; makes one attempt.
    pub(super) fn leave_place(&self) {
        let place = self.staging.place.lock().take();
        if let Some(place) = place.filter(|place| place.made && !self.is_interrupted()) {
            let _ = self.service.remove_directory(&place.directory);
        }
    }

    /// Removes the partial files of a transfer, and their directory if nothing else is in it.
    pub(super) fn discard_partials(&self, key: &str) -> Result<()> {
        if !self.service.abilities().writes {
            return Ok(());
        }
        let (place, found) = clearing(|| -> Result<_> {
            let place = self.place(Some(key))?;
            let found = self.partials_of(&place, key)?;
            Ok((place, found))
        })?;
        in_parallel(found, |path| clearing(|| self.remove_file(&path))).into_iter().collect::<Result<()>>()?;
        self.forget_place();
        // Another transfer may be using it: what is not empty stays.
        let _ = clearing(|| self.patience.once(|| self.service.remove_directory(&place)));
        Ok(())
    }

    fn partials_of(&self, place: &RelativePath, key: &str) -> Result<Vec<RelativePath>> {
        let entries = match self.run(|service| service.children(place)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            entries => entries?,
        };
        let beginning = format!("{key}.");
        let is_own = |path: &RelativePath| path.name().is_some_and(|name| name.starts_with(beginning.as_bytes()));
        Ok(entries.into_iter().map(|entry| entry.path).filter(is_own).collect())
    }

    fn place(&self, key: Option<&str>) -> Result<RelativePath> {
        let mut place = self.staging.place.lock();
        if let Some(place) = &*place {
            return Ok(place.directory.clone());
        }
        // The lock is held on purpose: whoever writes needs the answer.
        let directory = self.choose(key)?.child(&self.directory_name(key))?;
        *place = Some(Place { directory: directory.clone(), made: false, lost: false });
        Ok(directory)
    }

    /// Beside a file; in a directory that is there or certainly will be; beside one that may become a file. An attempt that began before
    /// the directory was there is continued where it began.
    fn choose(&self, key: Option<&str>) -> Result<RelativePath> {
        let base = self.base().clone();
        let Some(above) = base.parent().filter(|_| !self.staging.directory) else { return Ok(base) };
        match self.stat(&base) {
            Ok(entry) if entry.kind == EntryKind::Directory => {
                let begun = key.map(|key| self.partials_of(&above.child(&self.directory_name(Some(key)))?, key)).transpose();
                // Where the directory above cannot be read, nothing was begun in it.
                Ok(if begun.is_ok_and(|begun| begun.is_some_and(|begun| !begun.is_empty())) { above } else { base })
            }
            Ok(_) => Ok(above),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(above),
            Err(error) => Err(error),
        }
    }

    fn make_place(&self) -> Result<()> {
        // Some servers fail where two make the same directory at a time.
        let _making = self.staging.making.lock();
        let Some(place) = self.staging.place.lock().clone().filter(|place| !place.made) else { return Ok(()) };
        let attempt = || self.run(|service| self.stands(&place, service.make_directory(&place.directory)));
        let mut made = match attempt() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.create_directory(&place.directory.parent().unwrap_or_default())?;
                attempt()
            }
            answer => answer,
        };
        // Some servers know no better where one makes and another removes it at a time.
        for failures in 0..MAKING_AGAIN {
            if made.as_ref().err().is_some_and(|error| error.kind() == ErrorKind::Io) {
                self.patience.rest(failures);
                made = attempt();
            }
        }
        match made {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) if error.hint().is_some() => return Err(error),
            Err(error) => return Err(error.with_hint("see that this user may write there, and that there is space")),
            Ok(()) => {}
        }
        if let Some(place) = self.staging.place.lock().as_mut() {
            place.made = true;
        }
        Ok(())
    }

    /// Of a place that went away before: whether what has its name now is a directory, and not what a server keeps under a lock there.
    fn stands(&self, place: &Place, made: Result<()>) -> Result<()> {
        let taken = match made {
            Err(error) if place.lost && error.kind() == ErrorKind::AlreadyExists => error,
            made => return made,
        };
        match self.service.stat(&place.directory) {
            Ok(entry) if entry.kind == EntryKind::Directory => Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Err(Error::new(ErrorKind::ConnectionLost, taken.what()).with_cause("another transfer removes it just now")),
        }
    }

    /// Takes the directory for partial files for certain no more.
    pub(super) fn forget_place(&self) {
        if let Some(place) = self.staging.place.lock().as_mut() {
            (place.lost, place.made) = (true, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_exact_form_are_those_of_directories_for_partial_files() {
        let own = own_directory("key");
        assert!(is_directory(DIRECTORY) && is_directory(&own) && own != own_directory("other"));
        let digits = "0123456789abcdef0123456789abcdef";
        assert!(is_directory(format!(".edt-partial-{digits}").as_bytes()));
        for users in [
            ".edt-partial-",
            ".edt-partials",
            &format!(".edt-partial-{digits}0"),
            &format!(".edt-partial-{}", digits.to_uppercase()),
        ] {
            assert!(!is_directory(users.as_bytes()), "{users}");
        }
    }

    #[test]
    fn the_name_of_a_copy_tells_when_it_was_begun() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let begun = begun_ns(copy_name(7).as_bytes()).unwrap();
        assert!(now.as_nanos().abs_diff(u128::from(begun.unsigned_abs())) < 60_000_000_000);
        for other in ["0123abcd.17", "tmp.1-2-3", "copy.x", "copy"] {
            assert_eq!(begun_ns(other.as_bytes()), None, "{other}");
        }
    }
}
