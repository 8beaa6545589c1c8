//! Web servers, to read: files by ranges, and directories by the pages that list them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Method;

use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::store::remote::web::Answer;
use crate::store::remote::{Abilities, Ranges, Served, ServedFile};
use crate::store::{Entry, EntryKind, Metadata, Times};
use crate::sync::Mutex;

pub(crate) mod credentials;
pub(crate) mod facts;
mod index;
pub(crate) mod place;
pub(crate) mod ranges;
pub(crate) mod server;
mod whole;

use facts::Facts;
use place::Form;
use ranges::{FileRanges, Held};
use server::Server;

/// Connections to one server, as download tools have at most.
const CONNECTIONS: u16 = 16;
/// Files of a directory that are described at once.
const DESCRIBED: usize = 16;
/// Bytes of a file without a length, which is kept in memory.
const MOST_HELD: usize = 16 << 20;
/// Files without a length that are kept between their description and their reading.
const MOST_FILES: usize = 4;
/// Further attempts at a file of a directory that fails for the time being, fewer than a listing makes.
const RETRIES: u32 = 3;
/// Bytes of a page that lists a directory.
const MOST_PAGE: usize = 64 << 20;
/// Answers to HEAD that do not say what GET would answer; a URL that is signed for GET is refused with 403.
const WITHOUT_HEAD: [u16; 4] = [400, 403, 405, 501];

/// A web server.
pub(crate) struct Http {
    files: Arc<Files>,
}

struct Files {
    server: Arc<Server>,
    held: Mutex<VecDeque<(RelativePath, Arc<[u8]>)>>,
    /// Files of directories that could not be described: how often, and why the last time.
    failed: Mutex<HashMap<RelativePath, (u32, Error)>>,
}

impl Http {
    /// The server of a URL; does not connect.
    pub(crate) fn open(url: &ServiceUrl) -> Result<Self> {
        Ok(Self { files: Arc::new(Files { server: Server::open(url)?, held: Mutex::default(), failed: Mutex::default() }) })
    }

    fn no_writing(&self, operation: &str, path: &RelativePath) -> Error {
        Error::new(ErrorKind::Unsupported, self.files.server.what(operation, path))
            .with_cause("a web server has no way to put a file there whole or not at all")
            .with_hint("write to it with webdavs:// if it speaks WebDAV, or with the protocol that its owner offers")
    }
}

impl Files {
    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        let directory = path.is_root() || self.server.place().is_named_directory(path);
        let form = if directory { Form::Directory } else { Form::File };
        let answer = self.head(path, form)?;
        let facts = Facts::of(&answer);
        if directory || answer.url().path().ends_with('/') {
            return Ok(facts::directory(path, None));
        }
        match facts.size {
            Some(size) => Ok(facts::file(path, size, facts.modified_ns, facts.version)),
            None => self.hold(path),
        }
    }

    /// The headers of a file, by HEAD, or by a GET of its first byte where that says more.
    fn head(&self, path: &RelativePath, form: Form) -> Result<Answer> {
        let request = self.server.request(Method::HEAD, path, form)?.header("accept-encoding", "identity");
        let answer = self.server.send("read", path, request, &WITHOUT_HEAD)?;
        // Programs behind web servers answer HEAD with no content and its length: only GET tells whether a file is empty.
        let has_length = answer.length().is_some_and(|length| length > 0);
        let known = form == Form::Directory || has_length || answer.url().path().ends_with('/');
        if answer.status() < 300 && known {
            return Ok(answer);
        }
        let request =
            self.server.request(Method::GET, path, form)?.header("accept-encoding", "identity").header("range", "bytes=0-0");
        self.server.send("read", path, request, &[416])
    }

    /// Reads a file into memory whose length only its end tells.
    fn hold(&self, path: &RelativePath) -> Result<Entry> {
        let request = self.server.request(Method::GET, path, Form::File)?.header("accept-encoding", "identity");
        let answer = self.server.send("read", path, request, &[])?;
        let facts = Facts::of(&answer);
        let content = answer.bytes(MOST_HELD).map_err(|error| {
            if error.kind() != ErrorKind::Protocol {
                return error;
            }
            Error::new(ErrorKind::Unsupported, self.server.what("read", path))
                .with_cause("the server does not say how long it is, and it is longer than 16 MiB")
                .with_hint("ask the server's owner for a link to the file itself, with a Content-Length")
        })?;
        let version = facts.version.unwrap_or_else(|| facts::version_of(&content));
        let entry = facts::file(path, content.len() as u64, facts.modified_ns, Some(version));
        let mut held = self.held.lock();
        held.retain(|(other, _)| other != path);
        held.push_back((path.clone(), Arc::from(content)));
        if held.len() > MOST_FILES {
            held.pop_front();
        }
        Ok(entry)
    }

    /// The content of a file that was described just now, if it has no length.
    fn take_held(&self, path: &RelativePath) -> Option<Arc<[u8]>> {
        let mut held = self.held.lock();
        let index = held.iter().position(|(other, _)| other == path)?;
        held.remove(index).map(|(_, content)| content)
    }

    fn children(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        let request = self.server.request(Method::GET, path, Form::Directory)?;
        let answer = self.server.send("list", path, request, &[404])?;
        let listed = answer.url().path().ends_with('/');
        if answer.status() == 404 || !listed {
            // A file is not found with a slash behind its name.
            let entry = self.stat(path)?;
            let cause = if entry.kind == EntryKind::File { "it is a file" } else { "the server shows no list of it" };
            let kind = if entry.kind == EntryKind::File { ErrorKind::WrongType } else { ErrorKind::Unsupported };
            return Err(Error::new(kind, self.server.what("list", path)).with_cause(cause));
        }
        if !answer.header("content-type").is_some_and(|kind| kind.contains("html")) {
            return Err(Error::new(ErrorKind::Unsupported, self.server.what("list", path))
                .with_cause("the server shows no list of it")
                .with_hint("name the files one by one, or use another protocol of the server"));
        }
        let page = answer.url().clone();
        let html = String::from_utf8_lossy(&answer.bytes(MOST_PAGE)?).into_owned();
        let links = index::links(&html, &page);
        // A name that cannot stand in a path is no file of this directory.
        let found: Vec<_> = links.iter().filter_map(|link| Some((path.child(&link.name).ok()?, link.directory))).collect();
        self.describe(&found)
    }

    /// Describes what a page lists, several files at once: sizes and times on the page are for people.
    fn describe(&self, found: &[(RelativePath, bool)]) -> Result<Vec<Entry>> {
        let (next, entries) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(found.len())));
        let work = || {
            while let Some((path, directory)) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
                let entry = if *directory { Ok(facts::directory(path, None)) } else { self.listed(path) };
                entries.lock().push(entry);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..DESCRIBED.min(found.len()) {
                scope.spawn(work);
            }
            work();
        });
        let mut entries = entries.into_inner().into_iter().collect::<Result<Vec<_>>>()?;
        entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(entries)
    }

    /// A file of a list; one that cannot be described, however often it is tried, does not keep the others from being listed.
    fn listed(&self, path: &RelativePath) -> Result<Entry> {
        self.stat(path).or_else(|error| {
            let mut failed = self.failed.lock();
            let (times, why) = failed.entry(path.clone()).or_insert_with(|| (0, error.clone()));
            (*times, *why) = (*times + 1, error.clone());
            let for_good = match error.retry() {
                Retry::Never => error.kind() != ErrorKind::Cancelled,
                Retry::Temporary => *times > RETRIES,
                Retry::Throttled => false,
            };
            if for_good { Ok(facts::unreadable(path)) } else { Err(error) }
        })
    }
}

impl Served for Http {
    fn abilities(&self) -> Abilities {
        Abilities {
            writes: false,
            lists: true,
            random_writes: false,
            reads_back: false,
            appends: false,
            times: Times::Written,
            modes: false,
            symlinks: false,
            connections: Some(CONNECTIONS),
        }
    }

    fn show(&self, path: &RelativePath) -> String {
        self.files.server.place().show(path)
    }

    fn probe(&self) -> Result<()> {
        self.files.stat(self.files.server.place().base()).map(drop)
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        self.files.stat(path)
    }

    fn children(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        self.files.children(path)
    }

    fn trouble(&self, entry: &RelativePath) -> Option<Error> {
        self.files.failed.lock().get(entry).map(|(_, error)| error.clone().about(entry))
    }

    fn read(&self, path: &RelativePath, entry: &Entry) -> Result<Box<dyn Ranges>> {
        let (files, described) = (Arc::clone(&self.files), path.clone());
        let describe = Box::new(move || files.stat(&described));
        Ok(match self.files.take_held(path).filter(|content| content.len() as u64 == entry.size) {
            Some(content) => Box::new(Held { content, describe }),
            None => Box::new(FileRanges::new(Arc::clone(&self.files.server), entry, describe)),
        })
    }

    fn write(&self, path: &RelativePath, _: u64, _: bool) -> Result<Box<dyn ServedFile>> {
        Err(self.no_writing("write", path))
    }

    fn rename(&self, _: &RelativePath, to: &RelativePath, _: Overwrite) -> Result<()> {
        Err(self.no_writing("write", to))
    }

    fn make_directory(&self, path: &RelativePath) -> Result<()> {
        Err(self.no_writing("make the directory", path))
    }

    fn make_symlink(&self, path: &RelativePath, _: &[u8]) -> Result<()> {
        Err(self.no_writing("make the link", path))
    }

    fn set_metadata(&self, path: &RelativePath, _: &Metadata) -> Result<()> {
        Err(self.no_writing("set the time of", path))
    }

    fn remove_file(&self, path: &RelativePath) -> Result<()> {
        Err(self.no_writing("remove", path))
    }

    fn remove_directory(&self, path: &RelativePath) -> Result<()> {
        Err(self.no_writing("remove", path))
    }
}
