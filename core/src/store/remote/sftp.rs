//! Files on SFTP servers, through the user's own OpenSSH client: as many connections of ssh as fill the path, with many requests on each.
//!
//! `sftp://host/path` lies below the home directory and `sftp://host//path` below the root, as OpenSSH's own tools read such URLs.

mod connection;
mod directory;
mod lane;
mod pool;
mod read;
mod reply;
mod request;
mod ssh;
mod write;

use std::sync::Arc;

use self::pool::{Pool, Want};
use self::read::Reading;
use self::reply::{Attributes, Reply};
use self::request::Request;
use self::ssh::Target;
use self::write::Writing;
use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::store::remote::{Abilities, Ranges, Served, ServedFile};
use crate::store::{Entry, EntryKind, Metadata, Times};

/// Workers that wait for round trips at a time; they share far fewer connections.
const WORKERS: u16 = 32;

const TYPE: u32 = 0o170_000;

/// A server, seen from the home directory or from the root.
pub(super) struct Sftp {
    pool: Arc<Pool>,
    place: String,
    /// `/` for the root; empty for the home directory, where the server begins.
    root: &'static str,
}

impl Sftp {
    /// Takes the server of a URL; connects when it is first asked for something.
    pub(super) fn open(url: &ServiceUrl) -> Result<Self> {
        let root = if url.path.starts_with('/') { "/" } else { "" };
        Ok(Self { pool: Pool::new(Target::new(url)?), place: url.place(), root })
    }

    /// A path as the server knows it.
    fn wire(&self, path: &RelativePath) -> Vec<u8> {
        match [self.root.as_bytes(), path.as_bytes()].concat() {
            home if home.is_empty() => b".".to_vec(),
            path => path,
        }
    }

    /// What could not be done, for an error.
    fn could_not(&self, verb: &str, path: &RelativePath) -> String {
        format!("could not {verb} `{}`", self.show(path))
    }

    fn ask(&self, request: Request<'_>) -> Result<Reply> {
        self.pool.lease(Want::Brief)?.connection().ask(request)
    }

    /// Asks for something that is answered with a status, under the name of `path` in errors.
    fn carry_out(&self, verb: &str, path: &RelativePath, request: Request<'_>) -> Result<()> {
        self.ask(request)?.done(|| self.could_not(verb, path))
    }

    /// The error of a request that fails if its name is taken, which version 3 does not tell: a look at the name does.
    fn taken(&self, path: &RelativePath, error: Error) -> Error {
        if error.kind() != ErrorKind::Io || self.stat(path).is_err() {
            return error;
        }
        Error::new(ErrorKind::AlreadyExists, error.what()).with_cause("the name is taken")
    }

    /// Renames over what is there; a server that cannot do so in one step has it removed first.
    fn replace(&self, from: &RelativePath, to: &RelativePath) -> Result<()> {
        let lease = self.pool.lease(Want::Brief)?;
        let connection = lease.connection();
        let (old, new) = (self.wire(from), self.wire(to));
        if connection.facts().replaces {
            return connection.ask(Request::replace(&old, &new))?.done(|| self.could_not("rename to", to));
        }
        let rename = || connection.ask(Request::rename(&old, &new))?.done(|| self.could_not("rename to", to));
        match rename() {
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::AlreadyExists) => {
                // One whose answer was lost may have renamed it: what stands there is then the only copy.
                connection.ask(Request::describe(&old))?.attributes(|| self.could_not("rename to", to))?;
                // A directory is not removed like this, and then keeps its name.
                connection.ask(Request::remove(&new))?.done(|| self.could_not("replace", to)).map_err(|_| error)?;
                rename()
            }
            renamed => renamed,
        }
    }

    /// Renames to a name that must be free: by a second name and the end of the first, where the server and its file system have that.
    fn spare(&self, from: &RelativePath, to: &RelativePath) -> Result<()> {
        let (old, new) = (self.wire(from), self.wire(to));
        let lease = self.pool.lease(Want::Brief)?;
        let connection = lease.connection();
        if connection.facts().links {
            match connection.ask(Request::link(&old, &new))?.done(|| self.could_not("rename to", to)) {
                Ok(()) => {
                    // It has its name: what is left of the other one goes with the transfer.
                    if let Err(error) = self.remove_file(from) {
                        tracing::info!(%error, "a partial file keeps its name beside the final one");
                    }
                    return Ok(());
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => return Err(error),
                Err(_) => {}
            }
        }
        if self.stat(to).is_ok() {
            let taken = Error::new(ErrorKind::AlreadyExists, self.could_not("rename to", to));
            return Err(taken.with_cause("the name is taken"));
        }
        let renamed = connection.ask(Request::rename(&old, &new))?.done(|| self.could_not("rename to", to));
        renamed.map_err(|error| self.taken(to, error))
    }
}

impl Served for Sftp {
    fn abilities(&self) -> Abilities {
        Abilities {
            writes: true,
            lists: true,
            random_writes: true,
            reads_back: true,
            appends: true,
            times: Times::Seconds,
            modes: true,
            symlinks: true,
            connections: Some(WORKERS),
        }
    }

    fn show(&self, path: &RelativePath) -> String {
        format!("{}/{}{path}", self.place, self.root)
    }

    fn probe(&self) -> Result<()> {
        let root = RelativePath::root();
        let kind = self.stat(&root)?.kind;
        let wrong = || Error::new(ErrorKind::WrongType, self.could_not("use", &root)).with_cause("it is no directory");
        if matches!(kind, EntryKind::File | EntryKind::Other) { Err(wrong()) } else { Ok(()) }
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        let wire = self.wire(path);
        let attributes = self.ask(Request::describe(&wire))?.attributes(|| self.could_not("look at", path))?;
        let kind = match kind_of(&attributes) {
            EntryKind::Symlink(_) => {
                let names = self.ask(Request::read_link(&wire))?.names(|| self.could_not("read the link", path))?;
                EntryKind::Symlink(target(names).ok_or_else(|| self.no_target(path))?)
            }
            kind => kind,
        };
        Ok(entry_of(path.clone(), &attributes, kind))
    }

    fn children(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        self.list(path)
    }

    fn read(&self, path: &RelativePath, entry: &Entry) -> Result<Box<dyn Ranges>> {
        Ok(Box::new(Reading::new(Arc::clone(&self.pool), self.wire(path), self.show(path), entry.clone())))
    }

    fn write(&self, path: &RelativePath, size: u64, keep: bool) -> Result<Box<dyn ServedFile>> {
        Ok(Box::new(Writing::open(Arc::clone(&self.pool), self.wire(path), self.show(path), size, keep)?))
    }

    /// To spare what is there is exact with servers that make hard links; others are asked before whether the name is free.
    fn rename(&self, from: &RelativePath, to: &RelativePath, overwrite: Overwrite) -> Result<()> {
        match overwrite {
            Overwrite::Replace => self.replace(from, to),
            Overwrite::Never => self.spare(from, to),
        }
    }

    fn make_directory(&self, path: &RelativePath) -> Result<()> {
        let made = self.carry_out("make the directory", path, Request::make_directory(&self.wire(path)));
        made.map_err(|error| self.taken(path, error))
    }

    fn make_symlink(&self, path: &RelativePath, target: &[u8]) -> Result<()> {
        let made = self.carry_out("make the link", path, Request::make_link(&self.wire(path), target));
        made.map_err(|error| self.taken(path, error))
    }

    fn set_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        let attributes =
            Attributes { size: None, mode: metadata.mode.map(|mode| mode & 0o1777), modified: metadata.modified_ns.map(seconds) };
        if attributes == Attributes::default() {
            return Ok(());
        }
        self.carry_out("set time and mode of", path, Request::set(&self.wire(path), &attributes))
    }

    fn remove_file(&self, path: &RelativePath) -> Result<()> {
        self.carry_out("remove", path, Request::remove(&self.wire(path)))
    }

    fn remove_directory(&self, path: &RelativePath) -> Result<()> {
        let removed = self.carry_out("remove the directory", path, Request::remove_directory(&self.wire(path)));
        removed.map_err(|error| match self.children(path) {
            Ok(children) if error.kind() == ErrorKind::Io && !children.is_empty() => {
                Error::new(ErrorKind::AlreadyExists, error.what()).with_cause("it is not empty")
            }
            _ => error,
        })
    }
}

/// The time that the protocol can hold: whole seconds from 1970 to 2106.
fn seconds(ns: i64) -> u32 {
    u32::try_from(ns.div_euclid(1_000_000_000).max(0)).unwrap_or(u32::MAX)
}

fn modified_ns(attributes: &Attributes) -> Option<i64> {
    attributes.modified.map(|seconds| i64::from(seconds) * 1_000_000_000)
}

/// What an entry is; the target of a link is not known here.
fn kind_of(attributes: &Attributes) -> EntryKind {
    match attributes.mode.map(|mode| mode & TYPE) {
        Some(0o100_000 | 0) | None => EntryKind::File,
        Some(0o040_000) => EntryKind::Directory,
        Some(0o120_000) => EntryKind::Symlink(Box::default()),
        Some(_) => EntryKind::Other,
    }
}

/// The entry that a description stands for; version 3 knows nothing of a file that would tell it from its replacement.
fn entry_of(path: RelativePath, attributes: &Attributes, kind: EntryKind) -> Entry {
    let size = if kind == EntryKind::File { attributes.size.unwrap_or(0) } else { 0 };
    let mode = attributes.mode.map(|mode| mode & !TYPE);
    Entry { path, kind, size, modified_ns: modified_ns(attributes), mode, version: None, sparse: false }
}

/// What a link points to.
fn target(names: Option<Vec<reply::Name>>) -> Option<Box<[u8]>> {
    names.and_then(|names| names.into_iter().next()).map(|name| name.name.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Endpoint, Location};

    fn sftp(url: &str) -> Sftp {
        let Location::Service(url) = Endpoint::from(url).resolve().unwrap() else { panic!() };
        Sftp::open(&url).unwrap()
    }

    #[test]
    fn one_slash_leads_home_and_two_to_the_root() {
        let path = RelativePath::from_user("a/b").unwrap();
        let home = sftp("sftp://me@h:22/a/b");
        assert_eq!((home.wire(&path), home.wire(&RelativePath::root())), (b"a/b".to_vec(), b".".to_vec()));
        assert_eq!(home.show(&path), "sftp://me@h:22/a/b");
        let root = sftp("sftp://h//a/b");
        assert_eq!((root.wire(&path), root.wire(&RelativePath::root())), (b"/a/b".to_vec(), b"/".to_vec()));
        assert_eq!(root.show(&path), "sftp://h//a/b");
    }

    #[test]
    fn a_description_is_an_entry_in_whole_seconds() {
        let attributes = Attributes { size: Some(5), mode: Some(0o100_640), modified: Some(7) };
        let entry = entry_of(RelativePath::root(), &attributes, kind_of(&attributes));
        assert_eq!((entry.kind, entry.size, entry.mode), (EntryKind::File, 5, Some(0o640)));
        assert_eq!(entry.modified_ns, Some(7_000_000_000));
        assert_eq!((seconds(7_999_999_999), seconds(-1), seconds(i64::MAX)), (7, 0, u32::MAX));
        let directory = Attributes { mode: Some(0o040_755), ..attributes };
        assert_eq!(kind_of(&directory), EntryKind::Directory);
    }
}
