//! FTP and FTPS as a file server: `ftp://user@host/path` below the user's directory, `ftp://host//path` from the server's root.
//!
//! A plain `ftps://` asks for TLS on the ordinary port, for the control and the data connections. Passwords are in `~/.netrc`.

mod facts;
mod failure;
mod listing;
mod names;
mod pool;
mod read;
#[cfg(test)]
mod tests;
mod tls;
mod write;

use std::collections::HashMap;
use std::sync::Arc;

use suppaftp::Status;

use self::facts::Facts;
use self::pool::{Control, Login, Pool};
use self::read::FtpRanges;
use self::tls::Tls;
use self::write::FtpFile;
use super::{Abilities, Ranges, Served, ServedFile, netrc};
use crate::endpoint::{Scheme, ServiceUrl};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::store::{Entry, EntryKind, Metadata, Times};
use crate::sync::Mutex;

const PORT: u16 = 21;

/// What public servers call those who have no account.
const ANONYMOUS: &str = "anonymous";

/// Connections that servers usually allow one user.
const MOST_CONNECTIONS: u16 = 8;

/// A server; a clone is the same one.
#[derive(Clone)]
pub(crate) struct Ftp {
    pool: Arc<Pool>,
    /// Files whose size the server does not tell, and why not.
    unsized_files: Arc<Mutex<HashMap<RelativePath, Error>>>,
}

impl Ftp {
    /// Finds user and password; connects with the first call.
    pub(crate) fn open(url: &ServiceUrl) -> Result<Self> {
        let (user, password) = match netrc::credentials(&url.host, url.user.as_deref()) {
            Some(found) => found,
            None => (url.user.clone().unwrap_or_else(|| ANONYMOUS.to_owned()), String::new()),
        };
        let password = if user == ANONYMOUS && password.is_empty() { "edt@".to_owned() } else { password };
        let absolute = url.path.starts_with('/');
        let login = Login {
            host: url.host.clone(),
            port: url.port.unwrap_or(PORT),
            user,
            password,
            absolute,
            place: if absolute { format!("{}/", url.place()) } else { url.place() },
        };
        let tls = (url.scheme == Scheme::Ftps).then(Tls::new).transpose()?;
        Ok(Self { pool: Arc::new(Pool::new(login, tls)), unsized_files: Arc::default() })
    }

    /// The path of an entry on the server.
    fn whole(&self, path: &RelativePath) -> Result<String> {
        Ok(names::below(&self.pool.server()?.root, path))
    }

    fn what(&self, operation: &str, path: &RelativePath) -> String {
        format!("could not {operation} `{}`", self.show(path))
    }

    fn call<T>(
        &self,
        operation: &str,
        path: &RelativePath,
        commands: impl FnOnce(&mut Control, &str) -> suppaftp::FtpResult<T>,
    ) -> Result<T> {
        let whole = self.whole(path)?;
        self.pool.call(&self.what(operation, path), |control| commands(control, &whole))
    }

    /// The facts of an entry, from the commands that every server has.
    fn plain_facts(&self, path: &RelativePath) -> Result<Facts> {
        const OPERATION: &str = "read the metadata of";
        match self.call(OPERATION, path, |control, whole| control.size(whole)) {
            Ok(size) => {
                let mut facts = Facts::of(EntryKind::File);
                facts.size = Some(size as u64);
                facts.modified_ns = self.modified(path)?;
                Ok(facts)
            }
            Err(error) if !failure::is_refusal(&error) => Err(error),
            Err(_) => {
                let root = self.whole(&RelativePath::root())?;
                // Back at once: some servers cannot remove a directory in which somebody is.
                self.call(OPERATION, path, |control, whole| control.cwd(whole).and_then(|()| control.cwd(root.as_str())))
                    .map_err(missing)?;
                Ok(Facts::of(EntryKind::Directory))
            }
        }
    }

    /// The modification time of a file, if the server tells.
    fn modified(&self, path: &RelativePath) -> Result<Option<i64>> {
        if !self.pool.server()?.has("MDTM") {
            return Ok(None);
        }
        match self.call("read the time of", path, |control, whole| control.mdtm(whole)) {
            Ok(time) => Ok(time.and_utc().timestamp_nanos_opt()),
            Err(error) if failure::is_refusal(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The kind of an entry, if there is one.
    fn kind(&self, path: &RelativePath) -> Option<EntryKind> {
        self.stat(path).ok().map(|entry| entry.kind)
    }

    /// Finds out why a name could not be made or taken, where the server did not tell.
    fn explained(&self, error: Error, path: &RelativePath) -> Error {
        if !failure::is_refusal(&error) {
            return error;
        }
        let kind = match (self.kind(path), path.parent()) {
            (Some(EntryKind::Directory), _) => ErrorKind::WrongType,
            (None, Some(above)) if !above.is_root() && self.kind(&above) != Some(EntryKind::Directory) => ErrorKind::NotFound,
            _ if error.kind() == ErrorKind::Io => ErrorKind::PermissionDenied,
            _ => error.kind(),
        };
        of_kind(kind, error)
    }
}

/// A refusal to describe something: there is none.
fn missing(error: Error) -> Error {
    let untold = matches!(error.kind(), ErrorKind::Io | ErrorKind::WrongType | ErrorKind::InvalidInput);
    if untold { of_kind(ErrorKind::NotFound, error) } else { error }
}

/// The same error of another kind.
fn of_kind(kind: ErrorKind, error: Error) -> Error {
    if error.kind() == kind {
        return error;
    }
    let other = Error::new(kind, error.what());
    match error.cause() {
        Some(cause) => other.with_cause(cause),
        None => other,
    }
}

impl Served for Ftp {
    fn abilities(&self) -> Abilities {
        let sets_times = self.pool.known().is_some_and(|server| server.has("MFMT"));
        Abilities {
            writes: true,
            lists: true,
            random_writes: false,
            reads_back: false,
            appends: true,
            times: if sets_times { Times::Seconds } else { Times::Written },
            modes: false,
            symlinks: false,
            connections: Some(MOST_CONNECTIONS),
        }
    }

    fn show(&self, path: &RelativePath) -> String {
        format!("{}/{path}", self.pool.place())
    }

    fn probe(&self) -> Result<()> {
        self.pool.server().map(|_| ())
    }

    fn check_name(&self, path: &RelativePath) -> Result<()> {
        if !path.as_bytes().iter().any(|byte| b"\r\n".contains(byte)) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidInput, self.what("use", path))
            .with_cause("the commands of FTP cannot carry a name with a line break")
            .with_hint("rename the file"))
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        let what = "read the metadata of";
        if !self.pool.server()?.has("MLST") {
            return Ok(self.plain_facts(path)?.entry(path.clone()));
        }
        let line = self.call(what, path, |control, whole| control.mlst(Some(whole))).map_err(missing)?;
        let (facts, _) = facts::of_machine_line(&line).ok_or_else(|| {
            Error::new(ErrorKind::Protocol, self.what(what, path)).with_cause("the server's answer makes no sense")
        })?;
        self.described(path.clone(), facts)
    }

    fn children(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        let listed = if self.pool.server()?.has("MLST") { self.machine_children(path) } else { self.plain_children(path) };
        match listed {
            Err(error) if failure::is_refusal(&error) => {
                let is_directory = self.stat(path)?.kind == EntryKind::Directory;
                let kind = if is_directory { ErrorKind::PermissionDenied } else { ErrorKind::WrongType };
                Err(of_kind(kind, error))
            }
            listed => listed,
        }
    }

    fn trouble(&self, entry: &RelativePath) -> Option<Error> {
        self.unsized_files.lock().get(entry).map(|error| error.clone().about(entry))
    }

    fn read(&self, path: &RelativePath, entry: &Entry) -> Result<Box<dyn Ranges>> {
        Ok(Box::new(FtpRanges::new(self, path, entry)?))
    }

    fn write(&self, path: &RelativePath, size: u64, keep: bool) -> Result<Box<dyn ServedFile>> {
        match FtpFile::open(self, path, size, keep) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => Err(self.explained(error, path)),
        }
    }

    /// With [`Overwrite::Never`] it looks before; the protocol has nothing better.
    fn rename(&self, from: &RelativePath, to: &RelativePath, overwrite: Overwrite) -> Result<()> {
        let taken = || Error::new(ErrorKind::AlreadyExists, self.what("rename to", to)).with_cause("the name is taken");
        if overwrite == Overwrite::Never && self.kind(to).is_some() {
            return Err(taken());
        }
        let new = self.whole(to)?;
        let rename = || self.call("rename", from, |control, old| control.rename(old, new.as_str()));
        let Err(error) = rename() else { return Ok(()) };
        if !failure::is_refusal(&error) {
            return Err(error);
        }
        match self.kind(to) {
            Some(EntryKind::Directory) => Err(of_kind(ErrorKind::WrongType, error)),
            // Servers on Windows replace nothing: the name is free for a moment.
            Some(_) if overwrite == Overwrite::Replace && error.kind() == ErrorKind::AlreadyExists => {
                self.remove_file(to)?;
                rename()
            }
            _ if self.kind(from).is_none() => Err(of_kind(ErrorKind::NotFound, error)),
            _ => Err(self.explained(error, to)),
        }
    }

    fn make_directory(&self, path: &RelativePath) -> Result<()> {
        self.call("create the directory", path, |control, whole| control.mkdir(whole)).map_err(|error| {
            // One that the server found may be gone by now, and there again a moment later.
            let found = error.kind() == ErrorKind::AlreadyExists;
            if failure::is_refusal(&error) && (found || self.kind(path).is_some()) {
                return of_kind(ErrorKind::AlreadyExists, error);
            }
            self.explained(error, path)
        })
    }

    fn make_symlink(&self, path: &RelativePath, _: &[u8]) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, self.what("create the link", path))
            .with_cause("the protocol has no links")
            .with_hint("follow or skip symbolic links: --symlinks follow, --symlinks skip"))
    }

    fn set_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        let Some(time) = metadata.modified_ns.and_then(facts::time_to_text) else { return Ok(()) };
        self.call("set the time of", path, |control, whole| {
            control
                .custom_command(format!("MFMT {time} {whole}"), &[Status::File, Status::CommandOk, Status::RequestedFileActionOk])
        })
        .map(|_| ())
        .map_err(|error| self.explained(error, path))
    }

    fn remove_file(&self, path: &RelativePath) -> Result<()> {
        self.call("remove", path, |control, whole| control.rm(whole)).map_err(|error| {
            if failure::is_refusal(&error) && self.kind(path).is_none() {
                return of_kind(ErrorKind::NotFound, error);
            }
            self.explained(error, path)
        })
    }

    fn remove_directory(&self, path: &RelativePath) -> Result<()> {
        self.call("remove", path, |control, whole| control.rmdir(whole)).map_err(|error| {
            if !failure::is_refusal(&error) {
                return error;
            }
            match self.children(path) {
                Ok(inside) if inside.is_empty() => of_kind(ErrorKind::PermissionDenied, error),
                Ok(_) => of_kind(ErrorKind::AlreadyExists, error),
                Err(none) if none.kind() == ErrorKind::NotFound => none,
                Err(_) => error,
            }
        })
    }
}
