//! Files that one call writes whole: small ones from memory, and copies inside a store.

use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::store::{EntryKind, Metadata, NewFile, Publication, Reader, Store, Writer};

/// Asked from time to time, and right before a file appears: an error ends the work, and nothing appears.
pub(crate) type GoOn<'a> = &'a dyn Fn() -> Result<()>;

/// Writes a file that appears under its name when it is complete; one that it replaces keeps its mode.
pub(crate) fn write(store: &dyn Store, path: &RelativePath, content: &[u8], overwrite: Overwrite, go_on: GoOn<'_>) -> Result<()> {
    let metadata = Metadata { modified_ns: None, mode: replaced_mode(store, path, overwrite) };
    let file = NewFile { size: content.len() as u64, metadata, overwrite, ..NewFile::of(path.clone()) };
    bring(store, file, |writer| {
        writer.write_at(0, content)?;
        go_on()
    })
}

/// Copies a file to another name, under which it appears when it is complete.
pub(crate) fn copy(
    store: &dyn Store,
    from: &RelativePath,
    to: &RelativePath,
    overwrite: Overwrite,
    go_on: GoOn<'_>,
) -> Result<()> {
    let reader = store.open(from)?;
    let source = reader.stat()?;
    let metadata = Metadata { modified_ns: None, mode: source.mode };
    let file = NewFile { size: source.size, metadata, overwrite, ..NewFile::of(to.clone()) };
    bring(store, file, |writer| {
        let size = move_bytes(&*reader, writer, go_on)?;
        let now = reader.stat()?;
        if size == source.size && now.size == source.size && now.modified_ns == source.modified_ns {
            return go_on();
        }
        Err(Error::new(ErrorKind::SourceChanged, format!("could not copy `{from}`")).with_cause("it changed meanwhile"))
    })
}

/// The mode of a file that will be replaced, where to ask for it is no request of its own.
fn replaced_mode(store: &dyn Store, path: &RelativePath, overwrite: Overwrite) -> Option<u32> {
    let known = overwrite == Overwrite::Replace && store.capabilities().flushes;
    let there = known.then(|| store.stat(path).ok()).flatten();
    there.filter(|entry| entry.kind == EntryKind::File).and_then(|entry| entry.mode)
}

/// Makes a file, has it filled, and brings it to its name; nothing else is left behind once the store was tidied.
fn bring(store: &dyn Store, new: NewFile, fill: impl FnOnce(&dyn Writer) -> Result<()>) -> Result<()> {
    let writer = store.create(&new)?;
    if let Err(error) = fill(&*writer) {
        writer.abort();
        return Err(error);
    }
    let (metadata, overwrite) = (new.metadata, new.overwrite);
    publish(store, Publication { metadata, overwrite, ..Publication::of(writer) })
}

fn move_bytes(reader: &dyn Reader, writer: &dyn Writer, go_on: GoOn<'_>) -> Result<u64> {
    let mut buffer = vec![0; 4 * SLAB_SIZE];
    let mut offset = 0;
    loop {
        let count = reader.read_at(offset, &mut buffer)?;
        if count == 0 {
            return Ok(offset);
        }
        go_on()?;
        writer.write_at(offset, &buffer[..count])?;
        offset += count as u64;
    }
}

fn publish(store: &dyn Store, publication: Publication) -> Result<()> {
    store.publish(vec![publication], Fsync::File).pop().unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::options::Symlinks;
    use crate::store::local::LocalStore;

    fn path(text: &str) -> RelativePath {
        RelativePath::from_user(text).unwrap()
    }

    fn stores(root: &std::path::Path) -> [LocalStore; 2] {
        [LocalStore::open(root, Symlinks::Keep), LocalStore::confined(root, Symlinks::Keep).unwrap()]
    }

    #[test]
    fn nothing_but_the_file_is_left_behind() {
        let place = tempfile::tempdir().unwrap();
        for store in stores(place.path()) {
            write(&store, &path("a"), b"alpha", Overwrite::Replace, &|| Ok(())).unwrap();
            assert!(write(&store, &path("a"), b"beta", Overwrite::Never, &|| Ok(())).is_err());
            copy(&store, &path("a"), &path("b"), Overwrite::Replace, &|| Ok(())).unwrap();
            store.tidy();
            let mut names: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["a", "b"]);
        }
    }

    #[test]
    fn what_must_not_go_on_does_not_appear() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a"), "old").unwrap();
        let lost = || Err(Error::new(ErrorKind::ConnectionLost, "nobody is there any more"));
        for store in stores(place.path()) {
            let written = write(&store, &path("a"), b"new", Overwrite::Replace, &lost);
            let copied = copy(&store, &path("a"), &path("b"), Overwrite::Replace, &lost);
            assert_eq!([written, copied].map(|done| done.unwrap_err().kind()), [ErrorKind::ConnectionLost; 2]);
            store.tidy();
            assert_eq!(std::fs::read(place.path().join("a")).unwrap(), b"old");
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn those_who_write_at_once_do_not_tidy_away_what_others_need() {
        let place = tempfile::tempdir().unwrap();
        let shared = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
        std::thread::scope(|scope| {
            for number in 0..4 {
                let own = LocalStore::confined(place.path(), Symlinks::Keep).unwrap();
                let store = if number < 2 { Arc::clone(&shared) } else { Arc::new(own) };
                scope.spawn(move || {
                    for turn in 0..300 {
                        let name = path(&format!("{number}/{turn}"));
                        write(&*store, &name, b"x", Overwrite::Replace, &|| Ok(())).unwrap();
                        store.tidy();
                    }
                });
            }
        });
        assert!(!place.path().join(".edt").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_written_again_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a");
        for store in stores(place.path()) {
            for mode in [0o755, 0o600, 0o444] {
                std::fs::write(&file, "old").unwrap();
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
                write(&store, &path("a"), b"new", Overwrite::Replace, &|| Ok(())).unwrap();
                assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, mode);
                std::fs::remove_file(&file).unwrap();
            }
        }
    }
}
