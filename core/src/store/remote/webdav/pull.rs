//! Copies that the servers make themselves: inside one WebDAV server, or by third-party copy in pull mode, in which the destination
//! fetches from the source (WLCG HTTP-TPC: dCache, `XRootD`, `StoRM`).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{Method, RequestBuilder};

use super::WebDav;
use crate::endpoint::{Scheme, ServiceUrl};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::store::remote::http::credentials::Credentials;
use crate::store::remote::http::place::Form;
use crate::store::remote::http::server::Server;
use crate::store::remote::web::Answer;
use crate::store::remote::{Patience, Served, served};
use crate::store::{Copier, EntryKind, NewFile, RetryWatcher};

/// What servers that fetch from others call themselves in the header `Server`.
const FETCHING: [&str; 3] = ["dcache", "xrootd", "storm"];
/// Set to 1, says that a server fetches that does not call itself so.
const ASSURANCE: &str = "EDT_HTTP_TPC";
/// How often the directory for copies is made again because `edt clean` removes it.
const MADE_AGAIN: usize = 4;
/// How long a server may be silent over a copy inside it, of which it says nothing before its end.
const COPYING: Duration = Duration::from_hours(1);
/// Bytes of a line of a server's progress.
const MOST_LINE: usize = 64 << 10;

/// What copies from a source to a WebDAV server; `None` if the bytes must pass through this machine.
pub(super) fn copier(source: &ServiceUrl, destination: &ServiceUrl) -> Result<Option<Arc<dyn Copier>>> {
    let inside = source.same_place(destination);
    // The destination is told the source's token, or a URL that is signed: both over TLS.
    let sealed = matches!(source.scheme, Scheme::Https | Scheme::WebDavs) && destination.scheme == Scheme::WebDavs;
    if !inside && !sealed {
        return Ok(None);
    }
    let (dav, from) = (WebDav::open(destination)?, Server::open(source)?);
    // A password is handed to nobody.
    if !inside && (matches!(from.credentials(), Credentials::Basic { .. }) || !fetches(&dav.server)) {
        return Ok(None);
    }
    let patience = Patience::new();
    patience.run(|| dav.probe())?;
    Ok(Some(Arc::new(Pull { dav, from, inside, patience, directory: OnceLock::new(), number: AtomicU64::new(0) })))
}

/// Whether a server is of a kind that fetches from others.
fn fetches(server: &Server) -> bool {
    if std::env::var_os(ASSURANCE).is_some_and(|value| value == "1") {
        return true;
    }
    let base = server.place().base();
    let Ok(request) = server.request(Method::OPTIONS, base, Form::Directory) else { return false };
    let Ok(answer) = server.send("ask the options of", base, request, &[401, 403, 404, 405]) else { return false };
    let name = answer.header("server").unwrap_or_default().to_ascii_lowercase();
    FETCHING.iter().any(|kind| name.starts_with(kind))
}

struct Pull {
    dav: WebDav,
    from: Arc<Server>,
    inside: bool,
    patience: Patience,
    /// Where copies grow, once it is made.
    directory: OnceLock<RelativePath>,
    number: AtomicU64,
}

impl Copier for Pull {
    /// Under a partial name first; the size is compared before it gets its own.
    fn copy(&self, from: &RelativePath, file: &NewFile, overwrite: Overwrite) -> Result<Option<u64>> {
        self.dav.check_name(&file.path)?;
        self.check_free(&file.path, overwrite)?;
        let name = served::copy_name(self.number.fetch_add(1, Ordering::Relaxed));
        let partial = self.directory()?.child(name.as_bytes())?;
        let copied = self.fetch_in_place(from, &partial).and_then(|()| self.settle(&partial, file, overwrite));
        if copied.is_err() {
            let _ = self.dav.remove_file(&partial);
        }
        copied.map(|()| None)
    }

    fn interrupt(&self) {
        self.patience.interrupt();
    }

    fn watch(&self, watcher: &RetryWatcher) {
        self.patience.watch(watcher);
    }
}

impl Pull {
    /// Looks whether a name that must not be replaced is free, before anything is copied.
    fn check_free(&self, path: &RelativePath, overwrite: Overwrite) -> Result<()> {
        if overwrite == Overwrite::Replace {
            return Ok(());
        }
        match self.patience.run(|| self.dav.stat(path)) {
            Ok(_) => Err(Error::new(ErrorKind::AlreadyExists, format!("could not copy to `{}`", self.dav.show(path)))
                .with_cause("the name is taken")
                .with_hint("let it be replaced, or choose another destination")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Copies, again if `edt clean` removed the directory meanwhile.
    fn fetch_in_place(&self, from: &RelativePath, partial: &RelativePath) -> Result<()> {
        let fetch = || self.patience.run(|| self.fetch(from, partial));
        for _ in 0..MADE_AGAIN {
            match (fetch(), partial.parent()) {
                (Err(error), Some(directory)) if error.kind() == ErrorKind::NotFound => {
                    self.patience.run(|| self.make(&directory))?;
                }
                (fetched, _) => return fetched,
            }
        }
        fetch()
    }

    /// Makes the directory for partial files: in the one that the user named, or beside the file.
    fn directory(&self) -> Result<&RelativePath> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory);
        }
        let place = self.dav.server.place();
        let inside = place.is_named_directory(place.base())
            || self.patience.run(|| self.dav.stat(place.base())).is_ok_and(|entry| entry.kind == EntryKind::Directory);
        let above = if inside { place.base().clone() } else { place.base().parent().unwrap_or_default() };
        let chance = RandomState::new().build_hasher().finish();
        let directory = above.child(&served::own_directory(&format!("{}-{chance:x}", served::copy_name(0))))?;
        self.patience.run(|| self.make(&directory))?;
        Ok(self.directory.get_or_init(|| directory))
    }

    fn fetch(&self, from: &RelativePath, partial: &RelativePath) -> Result<()> {
        let answer = self.dav.server.send("copy to", partial, self.request(from, partial)?, &[409])?;
        let what = format!("could not copy `{}` to `{}`", self.from.place().show(from), self.dav.show(partial));
        match answer.status() {
            409 => Err(Error::new(ErrorKind::NotFound, what).with_cause("the directory above it is missing")),
            207 => Err(Error::new(ErrorKind::Io, what).with_cause("the server copied only a part")),
            202 => followed(&what, answer),
            _ => Ok(()),
        }
    }

    fn request(&self, from: &RelativePath, partial: &RelativePath) -> Result<RequestBuilder> {
        let copy = Method::from_bytes(b"COPY").expect("a token is a method");
        let server = &self.dav.server;
        if self.inside {
            let target = server.place().url(partial, Form::File)?;
            let request = server.request(copy, from, Form::File)?.timeout(COPYING);
            return Ok(request.header("destination", target.as_str()).header("overwrite", "T"));
        }
        let source = self.from.place().url(from, Form::File)?;
        let request = server.request(copy, partial, Form::File)?.header("source", source.as_str()).header("overwrite", "T");
        let request = request.header("credential", "none");
        Ok(match self.from.credentials().token() {
            Some(token) => request.header("transferheaderauthorization", format!("Bearer {token}")),
            None => request,
        })
    }

    fn settle(&self, partial: &RelativePath, file: &NewFile, overwrite: Overwrite) -> Result<()> {
        let size = self.patience.run(|| self.dav.stat(partial))?.size;
        if size != file.size {
            return Err(Error::new(ErrorKind::SourceChanged, format!("could not copy to `{}`", self.dav.show(&file.path)))
                .with_cause(format!("the copy has {size} bytes instead of {}", file.size)));
        }
        let rename = || served::rename(&self.dav, &self.patience, (partial, &file.path), file.size, overwrite);
        let renamed = match (rename(), file.path.parent()) {
            // Some servers say of a missing directory that it is forbidden.
            (Err(error), Some(parent)) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                self.patience.run(|| self.make(&parent))?;
                rename()
            }
            (renamed, _) => renamed,
        };
        renamed.and_then(|()| self.patience.run(|| self.dav.set_metadata(&file.path, &file.metadata)))
    }

    /// Makes a directory and those above it.
    fn make(&self, directory: &RelativePath) -> Result<()> {
        let made = self.dav.make_directory(directory);
        match (made.as_ref().err().map(Error::kind), directory.parent()) {
            (Some(ErrorKind::AlreadyExists), _) => Ok(()),
            (Some(ErrorKind::NotFound), Some(parent)) => self.make(&parent).and_then(|()| self.make_last(directory)),
            _ => made,
        }
    }

    fn make_last(&self, directory: &RelativePath) -> Result<()> {
        match self.dav.make_directory(directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }
}

impl Drop for Pull {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.get() {
            let _ = self.dav.remove_directory(directory);
        }
    }
}

/// Follows a copy that the server reports on until it says how it ended.
fn followed(what: &str, mut answer: Answer) -> Result<()> {
    let mut line = Vec::new();
    while let Some(piece) = answer.piece()? {
        for byte in piece {
            if byte != b'\n' {
                line.push(byte);
            } else if let Some(outcome) = outcome_of(what, &line) {
                return outcome;
            } else {
                line.clear();
            }
            if line.len() > MOST_LINE {
                return Err(Error::new(ErrorKind::Protocol, what).with_cause("the server's progress is no text of lines"));
            }
        }
    }
    let unknown = || Error::new(ErrorKind::ConnectionLost, what).with_cause("the server stopped to tell how far it is");
    outcome_of(what, &line).unwrap_or_else(|| Err(unknown()))
}

/// The last line of a copy's progress: `success: Created` or `failure: ` and the reason.
fn outcome_of(what: &str, line: &[u8]) -> Option<Result<()>> {
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    if line.to_ascii_lowercase().starts_with("success") {
        return Some(Ok(()));
    }
    let failed = line.to_ascii_lowercase().starts_with("failure") || line.to_ascii_lowercase().starts_with("aborted");
    failed.then(|| {
        let reason = line.split_once(':').map_or(line, |(_, reason)| reason.trim());
        let hint = "check that the destination reaches the source, and that the source takes the token";
        let refused = [("401", ErrorKind::Refused), ("403", ErrorKind::PermissionDenied), ("404", ErrorKind::NotFound)];
        let kind =
            refused.iter().find(|(status, _)| reason.contains(status)).map_or(ErrorKind::ConnectionLost, |(_, kind)| *kind);
        Err(Error::new(kind, what).with_cause(format!("the destination says: {reason}")).with_hint(hint))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::endpoint::{Endpoint, Location};

    #[test]
    fn the_last_line_says_how_a_copy_ended() {
        for line in ["Perf Marker", "    Stripe Bytes Transferred: 238745", "End", ""] {
            assert!(outcome_of("x", line.as_bytes()).is_none(), "{line}");
        }
        assert!(outcome_of("x", b"success: Created\r").unwrap().is_ok());
        let error = outcome_of("x", b"failure: rejected GET: 403 Forbidden").unwrap().unwrap_err();
        assert_eq!(error.cause(), Some("the destination says: rejected GET: 403 Forbidden"));
    }

    #[test]
    fn an_interrupt_ends_a_copy_that_is_never_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("webdav://{}/a/", listener.local_addr().unwrap());
        let Location::Service(url) = Endpoint::from(url.as_str()).resolve().unwrap() else { panic!() };
        let (dav, from) = (WebDav::open(&url).unwrap(), Server::open(&url).unwrap());
        let (patience, number) = (Patience::new(), AtomicU64::new(0));
        // Made already, so that nothing is asked before the copy.
        let directory = OnceLock::from(RelativePath::from_user("a/x").unwrap());
        let pull = Pull { dav, from, inside: true, patience, directory, number };
        let path = RelativePath::from_user("a/f").unwrap();
        std::thread::scope(|scope| {
            let copies = scope.spawn(|| pull.fetch_in_place(&path, &path));
            let asked = listener.accept().unwrap();
            pull.interrupt();
            assert_eq!(copies.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
            drop(asked);
        });
        drop(listener);
    }
}
