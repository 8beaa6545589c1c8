//! Publishing: metadata, then the flush, then the rename, many files at a time.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LocalStore;
use super::facts::{Kind, system_time};
use super::place::{Mode, Place};
use super::writer::LocalWriter;
use super::written::is_link_in_the_way;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Fsync, Overwrite, Symlinks};
use crate::path::RelativePath;
use crate::store::{Metadata, Publication};

/// From this many files on, flushing the whole file system at once is cheaper than one journal commit for each.
#[cfg(target_os = "linux")]
const FLUSH_TOGETHER_FROM: usize = 9;

/// Open directories kept while a batch is renamed.
const PLACES_KEPT: usize = 64;

/// A file that only lacks its name.
struct Finished {
    writer: Box<LocalWriter>,
    metadata: Metadata,
    overwrite: Overwrite,
}

/// The directories of a batch: opened once each.
#[derive(Default)]
struct Parents {
    /// The root of ordinary paths.
    root: Option<Place>,
    open: HashMap<RelativePath, Arc<Place>>,
}

impl LocalStore {
    pub(super) fn publish_batch(&self, batch: Vec<Publication>, fsync: Fsync) -> Vec<Result<()>> {
        let finished: Vec<Result<Finished>> = batch.into_iter().map(|publication| self.finish(publication)).collect();
        let flushed = flush(finished, fsync);
        let mut parents = Parents::default();
        let named: Vec<Result<RelativePath>> =
            flushed.into_iter().map(|file| file.and_then(|file| self.name(file, &mut parents))).collect();
        if fsync == Fsync::Full { self.flush_parents(named) } else { drop_names(named) }
    }

    /// Sets time and mode; from here on only the name is missing.
    fn finish(&self, publication: Publication) -> Result<Finished> {
        let Publication { writer, metadata, overwrite, .. } = publication;
        let mut writer = writer.into_any().downcast::<LocalWriter>().map_err(|_| {
            Error::new(ErrorKind::InvalidInput, "could not publish a file").with_cause("its writer belongs to another store")
        })?;
        // Each attempt writes a small file again: one that does not get its name goes.
        writer.temporary.kept &= !writer.small;
        self.set_metadata(&writer.file, &metadata)
            .map_err(|error| Error::io(format!("could not set time and mode of `{}`", writer.shown), &error))?;
        Ok(Finished { writer, metadata, overwrite })
    }

    fn set_metadata(&self, file: &File, metadata: &Metadata) -> io::Result<()> {
        #[cfg(unix)]
        {
            let mode = metadata.mode.unwrap_or_else(|| self.staging.default_mode(&self.root));
            super::set_mode(file, mode)?;
        }
        metadata.modified_ns.map_or(Ok(()), |modified| file.set_modified(system_time(modified)))
    }

    fn name(&self, mut file: Finished, parents: &mut Parents) -> Result<RelativePath> {
        let path = &file.writer.path;
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::new(ErrorKind::WrongType, format!("could not publish `{}`", file.writer.shown))
                .with_cause("it is the root of the store"));
        };
        let name = RelativePath::from_bytes(name)?.to_local()?;
        self.settle(&file, &parent, &name, parents).map_err(|error| self.unpublished(&file, &error))?;
        file.writer.temporary.kept = true;
        Ok(parent)
    }

    /// Moves the file; directories are made only after the first attempt shows that they are missing.
    fn settle(&self, file: &Finished, parent: &RelativePath, name: &Path, parents: &mut Parents) -> io::Result<()> {
        let local = parent.to_local().map_err(|_| io::Error::from(io::ErrorKind::InvalidFilename))?;
        let moved = parents.place(&self.root, parent, &local).and_then(|place| self.bring(file, &place, name));
        match moved {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_directory(&local)?;
                // The root may be what was missing.
                *parents = Parents::default();
                parents.place(&self.root, parent, &local).and_then(|place| self.bring(file, &place, name))
            }
            moved => moved,
        }
    }

    fn bring(&self, file: &Finished, place: &Place, name: &Path) -> io::Result<()> {
        let temporary = &file.writer.temporary;
        let moved = match file.overwrite {
            Overwrite::Replace => temporary.place.replace(&temporary.name, place, name),
            Overwrite::Never => temporary.place.rename_new(&temporary.name, place, name),
        };
        match moved {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => self.copy_across(file, place, name),
            moved => moved,
        }
    }

    /// Another file system is mounted below the root: the rename must happen inside it, after a copy.
    fn copy_across(&self, file: &Finished, place: &Place, name: &Path) -> io::Result<()> {
        let nearby = nearby_name(name, &self.staging.unique());
        let copied = self.copy_to(file, place, &nearby).and_then(|()| match file.overwrite {
            Overwrite::Replace => place.replace(&nearby, place, name),
            Overwrite::Never => place.rename_new(&nearby, place, name),
        });
        match copied {
            Ok(()) => {
                let temporary = &file.writer.temporary;
                temporary.place.remove_file(&temporary.name)
            }
            Err(error) => {
                let _ = place.remove_file(&nearby);
                Err(error)
            }
        }
    }

    fn copy_to(&self, file: &Finished, place: &Place, nearby: &Path) -> io::Result<()> {
        let mut target = place.open(nearby, Mode::New)?;
        let mut source = &file.writer.file;
        source.rewind()?;
        io::copy(&mut source, &mut target)?;
        self.set_metadata(&target, &file.metadata)?;
        target.sync_all()
    }

    fn unpublished(&self, file: &Finished, error: &io::Error) -> Error {
        let LocalWriter { path, shown, .. } = &*file.writer;
        let what = format!("could not publish `{shown}`");
        if is_link_in_the_way(error) {
            return Error::io(what, error).with_hint(super::LINK_HINT);
        }
        let there = self.checked(path).ok().and_then(|local| self.root.facts(&local, Symlinks::Keep).ok());
        match there.map(|facts| facts.kind) {
            Some(Kind::Directory) => {
                return Error::new(ErrorKind::WrongType, what)
                    .with_cause("a directory stands at its name")
                    .with_hint("remove or rename the directory, then run the same command again");
            }
            Some(Kind::Other) => {
                return Error::new(ErrorKind::WrongType, what)
                    .with_cause("a device, pipe or socket stands at its name")
                    .with_hint("remove or rename it, or choose another destination: `null:` discards what is written");
            }
            _ => {}
        }
        match Error::io(what, error) {
            taken if taken.kind() == ErrorKind::AlreadyExists => {
                taken.with_hint("let it be replaced, or choose another destination")
            }
            other => other,
        }
    }

    fn flush_parents(&self, named: Vec<Result<RelativePath>>) -> Vec<Result<()>> {
        let made = self.flush_unsynced();
        let mut flushed: HashMap<RelativePath, Result<()>> = HashMap::new();
        let mut flush = |parent: RelativePath| {
            made.clone()?;
            flushed.entry(parent).or_insert_with_key(|parent| self.flush_directory(parent)).clone()
        };
        named.into_iter().map(|parent| flush(parent?)).collect()
    }
}

fn drop_names(named: Vec<Result<RelativePath>>) -> Vec<Result<()>> {
    named.into_iter().map(|name| name.map(|_| ())).collect()
}

impl Parents {
    fn place(&mut self, root: &Place, path: &RelativePath, local: &Path) -> io::Result<Arc<Place>> {
        if let Some(place) = self.open.get(path) {
            return Ok(Arc::clone(place));
        }
        if self.open.len() >= PLACES_KEPT {
            self.open.clear();
        }
        let root = match (root, &self.root) {
            (Place::Confined(_), _) => root,
            (Place::Free(_), Some(opened)) => opened,
            (Place::Free(_), None) => self.root.insert(root.written(Path::new(""))?),
        };
        let place = Arc::new(root.written(local)?);
        self.open.insert(path.clone(), Arc::clone(&place));
        Ok(place)
    }
}

/// A name beside the final one; the final one is cut so that both fit into 255 bytes.
fn nearby_name(name: &Path, unique: &str) -> PathBuf {
    let name = name.to_string_lossy();
    let kept: String = name.chars().take(40).collect();
    PathBuf::from(format!(".{kept}.edt-{unique}"))
}

fn flush(finished: Vec<Result<Finished>>, fsync: Fsync) -> Vec<Result<Finished>> {
    if fsync == Fsync::None || (fsync == Fsync::File && flushed_together(&finished)) {
        return finished;
    }
    let one = |file: Finished| {
        let flushed = if fsync == Fsync::Full { file.writer.file.sync_all() } else { file.writer.file.sync_data() };
        flushed.map_err(|error| Error::io(format!("could not flush `{}`", file.writer.shown), &error))?;
        Ok(file)
    };
    finished.into_iter().map(|file| file.and_then(one)).collect()
}

/// Flushes all files with one call where there is one; false leaves the flush to be done file by file.
#[cfg(target_os = "linux")]
fn flushed_together(finished: &[Result<Finished>]) -> bool {
    let files = || finished.iter().flatten();
    let Some(first) = files().next() else { return true };
    files().count() >= FLUSH_TOGETHER_FROM && rustix::fs::syncfs(&first.writer.file).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn flushed_together(_: &[Result<Finished>]) -> bool {
    false
}
