//! WebDAV servers: files and directories with PROPFIND, PUT, MOVE and the like, and copies between servers.

use std::sync::{Arc, OnceLock};

use reqwest::{Method, RequestBuilder};

use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::store::remote::http::place::Form;
use crate::store::remote::http::ranges::FileRanges;
use crate::store::remote::http::server::Server;
use crate::store::remote::{Abilities, Ranges, Served, ServedFile};
use crate::store::{Copier, Entry, EntryKind, Metadata, Times};

mod find;
mod lock;
mod multistatus;
mod pull;
mod put;

/// Connections to one server.
const CONNECTIONS: u16 = 32;

/// Whether a new name with this byte is another one for servers that decode the header `Destination` before they take it apart, as WsgiDAV
/// does: it ends there, or goes on without it.
fn is_misread(byte: u8) -> bool {
    b"?#;".contains(&byte) || byte.is_ascii_control()
}

/// What copies from a source to a WebDAV server without the bytes passing through this machine; `None` if nothing does.
pub(super) fn copier(source: &ServiceUrl, destination: &ServiceUrl) -> Result<Option<Arc<dyn Copier>>> {
    pull::copier(source, destination)
}

/// A WebDAV server.
pub(crate) struct WebDav {
    server: Arc<Server>,
    sets_times: OnceLock<bool>,
}

impl WebDav {
    /// The server of a URL; does not connect.
    pub(crate) fn open(url: &ServiceUrl) -> Result<Self> {
        Ok(Self { server: Server::open(url)?, sets_times: OnceLock::new() })
    }

    /// Whether the server sets modification times when it is told to. Asked by [`Served::probe`], before anything is written.
    fn sets_times(&self) -> bool {
        self.sets_times.get().is_some_and(|sets_times| *sets_times)
    }

    fn request(&self, method: &str, path: &RelativePath, form: Form) -> Result<RequestBuilder> {
        let method = Method::from_bytes(method.as_bytes()).expect("a token is a method");
        self.server.request(method, path, form)
    }

    fn failed(&self, kind: ErrorKind, operation: &str, path: &RelativePath, cause: &str) -> Error {
        Error::new(kind, self.server.what(operation, path)).with_cause(cause)
    }

    /// Renames; false if there is something at the new name that may not be replaced.
    fn moved(&self, from: &RelativePath, to: &RelativePath, replace: &'static str) -> Result<bool> {
        let target = self.server.place().url(to, Form::File)?;
        let request = self.request("MOVE", from, Form::File)?.header("destination", target.as_str()).header("overwrite", replace);
        let answer = self.server.send("rename to", to, request, &[409, 412])?;
        match answer.status() {
            409 => Err(self.failed(ErrorKind::NotFound, "rename to", to, "the directory above it is missing")),
            412 => Ok(false),
            207 => Err(self.failed(ErrorKind::Io, "rename to", to, "the server renamed only a part")),
            _ => Ok(true),
        }
    }

    /// Looks whether a renamed file has the name that was meant, where servers are known to get it wrong.
    fn check_renamed(&self, to: &RelativePath) -> Result<()> {
        if !to.as_bytes().iter().copied().any(is_misread) {
            return Ok(());
        }
        match find::stat(&self.server, to) {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self
                .failed(
                    ErrorKind::InvalidInput,
                    "rename to",
                    to,
                    "the server takes its name, with `?`, `#`, `;` or a control character, for another",
                )
                .with_hint("rename the file; what was sent may stand there under a part of its name")),
            looked => looked.map(drop),
        }
    }

    fn not_empty(&self, path: &RelativePath) -> Error {
        self.failed(ErrorKind::AlreadyExists, "remove", path, "the directory is not empty")
    }

    fn remove_if_empty(&self, path: &RelativePath, token: Option<&str>) -> Result<()> {
        if !find::children(&self.server, path)?.is_empty() {
            return Err(self.not_empty(path));
        }
        lock::remove(&self.server, path, token)
    }
}

impl Served for WebDav {
    fn abilities(&self) -> Abilities {
        Abilities {
            writes: true,
            lists: true,
            random_writes: false,
            reads_back: false,
            // What Content-Range means in a PUT is not agreed upon: some servers then replace the file by the range.
            appends: false,
            times: if self.sets_times() { Times::Seconds } else { Times::Written },
            modes: false,
            symlinks: false,
            connections: Some(CONNECTIONS),
        }
    }

    fn show(&self, path: &RelativePath) -> String {
        self.server.place().show(path)
    }

    fn probe(&self) -> Result<()> {
        let sets_times = find::sets_times(&self.server, self.server.place().base())?;
        self.sets_times.get_or_init(|| sets_times);
        Ok(())
    }

    /// A name that is no text makes some servers break off, which looks like a lost connection.
    fn check_name(&self, path: &RelativePath) -> Result<()> {
        match std::str::from_utf8(path.as_bytes()) {
            Ok(_) => Ok(()),
            Err(_) => Err(self
                .failed(ErrorKind::InvalidInput, "use", path, "the names of WebDAV are text in UTF-8")
                .with_hint("rename the file")),
        }
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        find::stat(&self.server, path)
    }

    fn children(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        find::children(&self.server, path)
    }

    fn read(&self, path: &RelativePath, entry: &Entry) -> Result<Box<dyn Ranges>> {
        let (server, path) = (Arc::clone(&self.server), path.clone());
        let describe = Box::new(move || find::stat(&server, &path));
        Ok(Box::new(FileRanges::new(Arc::clone(&self.server), entry, describe)))
    }

    fn write(&self, path: &RelativePath, size: u64, _: bool) -> Result<Box<dyn ServedFile>> {
        Ok(Box::new(put::Upload::begin(&self.server, path, size)?))
    }

    /// Never replaces a directory, which RFC 4918 has a server do with all that is in it: what is replaced is looked at before.
    fn rename(&self, from: &RelativePath, to: &RelativePath, overwrite: Overwrite) -> Result<()> {
        if self.moved(from, to, "F")? {
            return self.check_renamed(to);
        }
        // What is taken must be this name, not what the server takes it for.
        self.check_renamed(to)?;
        if overwrite == Overwrite::Never {
            return Err(self.failed(ErrorKind::AlreadyExists, "rename to", to, "the name is taken"));
        }
        match find::stat(&self.server, to) {
            Ok(entry) if entry.kind == EntryKind::Directory => {
                return Err(self.failed(ErrorKind::WrongType, "rename to", to, "a directory stands at its name"));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if self.moved(from, to, "T")? {
            return Ok(());
        }
        Err(self.failed(ErrorKind::AlreadyExists, "rename to", to, "the server does not replace it"))
    }

    fn make_directory(&self, path: &RelativePath) -> Result<()> {
        let answer =
            self.server.send("make the directory", path, self.request("MKCOL", path, Form::Directory)?, &[405, 409, 500])?;
        match answer.status() {
            405 => Err(self.failed(ErrorKind::AlreadyExists, "make the directory", path, "the name is taken")),
            409 => Err(self.failed(ErrorKind::NotFound, "make the directory", path, "the directory above it is missing")),
            // What servers say where nothing can be written, or when another has made it at the same moment.
            500 if find::stat(&self.server, path).is_ok() => {
                Err(self.failed(ErrorKind::AlreadyExists, "make the directory", path, "the name is taken"))
            }
            500 => Err(self.failed(ErrorKind::Io, "make the directory", path, "the server says 500")),
            _ => Ok(()),
        }
    }

    fn make_symlink(&self, path: &RelativePath, _: &[u8]) -> Result<()> {
        Err(self.failed(ErrorKind::Unsupported, "make the link", path, "WebDAV has no symbolic links"))
    }

    fn set_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        let Some(modified_ns) = metadata.modified_ns.filter(|_| self.sets_times()) else { return Ok(()) };
        let request = self
            .request("PROPPATCH", path, Form::File)?
            .header("content-type", "application/xml; charset=utf-8")
            .body(multistatus::proppatch(modified_ns.div_euclid(1_000_000_000)));
        let answer = self.server.send("set the time of", path, request, &[500])?;
        if answer.status() == 500 {
            // What rclone answers for directories: another attempt changes nothing.
            return Err(self.failed(ErrorKind::Unsupported, "set the time of", path, "the server says 500"));
        }
        if answer.status() != 207 {
            return Ok(());
        }
        let refused =
            multistatus::parse(&answer.text()?).ok().and_then(|found| found.into_iter().find_map(|resource| resource.refused));
        match refused {
            Some(status) => {
                Err(self.failed(ErrorKind::Unsupported, "set the time of", path, &format!("the server says {status}")))
            }
            None => Ok(()),
        }
    }

    /// Looks first: DELETE would remove a directory with all that is in it.
    fn remove_file(&self, path: &RelativePath) -> Result<()> {
        if find::stat(&self.server, path)?.kind == EntryKind::Directory {
            return Err(self.failed(ErrorKind::WrongType, "remove", path, "it is a directory"));
        }
        self.server.send("remove", path, self.request("DELETE", path, Form::File)?, &[]).map(|_| ())
    }

    /// Looks first, as [`Served::remove_file`] does, under a lock: without one, what another client puts into the directory in between
    /// would be lost.
    fn remove_directory(&self, path: &RelativePath) -> Result<()> {
        if !find::children(&self.server, path)?.is_empty() {
            return Err(self.not_empty(path));
        }
        let token = lock::take(&self.server, path)?;
        let removed = self.remove_if_empty(path, token.as_deref());
        if let Some(token) = &token {
            // Some servers keep it for a name that is gone. One that cannot be ended ends by itself.
            let _ = lock::release(&self.server, path, token);
        }
        removed
    }
}
