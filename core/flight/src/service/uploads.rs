//! Uploads: files whose bytes come on any number of streams, in any order, and go on after either side was killed.
//!
//! What was written of an upload is in its journal, with a digest of each range. An upload that is taken up again is read back first:
//! only what is right now counts as there.

mod journal;
mod upload;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use edt::path::RelativePath;
use edt::store::local::UPLOAD;
use edt::store::{NewFile, Partial, Store};
use edt::sync::Mutex;
use edt::{Error, ErrorKind, Result};

use super::root::{Root, path};
use crate::contract::{BeginBody, Begun, CommitBody, Digests, parse_hex64};
use journal::{Header, Journal};
pub(super) use upload::Upload;

/// An upload ends after this time without a write.
const KEPT: Duration = Duration::from_hours(24);

/// How often abandoned uploads are looked for.
const EXPIRY: Duration = Duration::from_hours(1);

/// The number of the one partial file below the key of an upload.
const NUMBER: u64 = 0;

/// Hexadecimal digits of the name of an upload.
const DIGITS: usize = 40;

/// Uploads that are open at once; each takes three of the files that a process may have open.
const OPEN: usize = 128;

/// The uploads that are under way.
#[derive(Default)]
pub(super) struct Uploads {
    open: Mutex<HashMap<String, Slot>>,
}

/// An upload, opened by whoever comes first while the others wait for it and for no other.
type Slot = Arc<Mutex<Option<Arc<Upload>>>>;

impl Uploads {
    /// Begins an upload, or takes up the one of the same path, size and key.
    pub(super) fn begin(&self, root: &Root, body: &BeginBody) -> Result<Begun> {
        let path = path(&body.path)?;
        if path.is_root() {
            return Err(Error::new(ErrorKind::WrongType, "could not begin an upload").with_cause("it names the root itself"));
        }
        let name = name(&path, body)?;
        let (modified_ns, mode) = (body.modified_ns, body.mode);
        let header = Header { path: path.to_string(), size: body.size, modified_ns, mode, nonce: nonce()? };
        let upload = self.opened(root, &name, Some(header))?;
        Ok(Begun { ranges: upload.written(), upload: id(&name, upload.nonce()) })
    }

    /// The upload that was told to be called so.
    pub(super) fn find(&self, root: &Root, id: &str) -> Result<Arc<Upload>> {
        let (name, nonce) = parts(id)?;
        let upload = self.opened(root, name, None)?;
        if upload.nonce() == nonce { Ok(upload) } else { Err(unknown(id)) }
    }

    /// Publishes a complete upload.
    pub(super) fn commit(&self, root: &Root, body: &CommitBody) -> Result<Digests> {
        let expected = body.crc64nvme.as_deref().map(parse_hex64).transpose()?;
        let upload = self.find(root, &body.upload)?;
        let digests = upload.publish(root, expected, body)?;
        self.forget(root, parts(&body.upload)?.0);
        Ok(digests)
    }

    /// Gives an upload up; one that is not there is no error, and one that was begun anew since stays.
    pub(super) fn abort(&self, root: &Root, id: &str) -> Result<()> {
        let (name, nonce) = parts(id)?;
        self.end(root, name, Some(nonce))
    }

    /// Ends the upload of a name, if it is the one with this nonce.
    fn end(&self, root: &Root, name: &str, nonce: Option<&str>) -> Result<()> {
        let place = self.open.lock().get(name).cloned().unwrap_or_default();
        let mut slot = place.lock();
        if let Some(nonce) = nonce {
            let is_another = match slot.as_ref() {
                Some(upload) => upload.nonce() != nonce,
                None => kept(root, name)?.is_some_and(|header| header.nonce != nonce),
            };
            if is_another {
                return Ok(());
            }
        }
        if let Some(upload) = slot.take() {
            upload.fail(given_up(name));
        }
        self.remove(name, &place);
        root.local.discard(name)
    }

    /// Ends uploads into which nothing was written for long.
    fn expire(&self, root: &Root) -> Result<()> {
        let Some(before) = SystemTime::now().checked_sub(KEPT).filter(|_| root.writable().is_ok()) else { return Ok(()) };
        for name in root.local.abandoned(UPLOAD, before)? {
            tracing::info!(upload = %name, "an upload was abandoned");
            self.end(root, &name, None)?;
        }
        Ok(())
    }

    fn opened(&self, root: &Root, name: &str, new: Option<Header>) -> Result<Arc<Upload>> {
        let place = self.slot(name)?;
        let mut slot = place.lock();
        if let Some(upload) = slot.as_ref().filter(|upload| !upload.has_failed()) {
            return Ok(Arc::clone(upload));
        }
        // One that failed gives its lock back before it is taken up again.
        *slot = None;
        match open(root, name, new) {
            Ok(upload) => Ok(Arc::clone(slot.insert(Arc::new(upload)))),
            Err(error) => {
                self.remove(name, &place);
                Err(error)
            }
        }
    }

    /// The place of an upload. Where there are too many, one to which nobody writes is closed; its journal opens it again.
    fn slot(&self, name: &str) -> Result<Slot> {
        let mut open = self.open.lock();
        if open.len() >= OPEN && !open.contains_key(name) {
            let idle = open.iter().find(|(_, slot)| is_idle(slot)).map(|(name, _)| name.clone()).ok_or_else(|| {
                Error::new(ErrorKind::Throttled, format!("the server is busy with {OPEN} uploads"))
                    .with_hint("try again when one of them has ended")
            })?;
            open.remove(&idle);
        }
        Ok(Arc::clone(open.entry(name.to_owned()).or_default()))
    }

    /// Takes a place away, unless another has come into it.
    fn remove(&self, name: &str, place: &Slot) {
        let mut open = self.open.lock();
        if open.get(name).is_some_and(|known| Arc::ptr_eq(known, place)) {
            open.remove(name);
        }
    }

    fn forget(&self, root: &Root, name: &str) {
        self.open.lock().remove(name);
        if let Err(error) = root.local.discard(name) {
            tracing::warn!(upload = %name, %error, "could not remove the journal of an upload");
        }
    }
}

/// Whether nobody uses an upload, or waits for it.
fn is_idle(slot: &Slot) -> bool {
    Arc::strong_count(slot) == 1
        && slot.try_lock().is_some_and(|upload| upload.as_ref().is_none_or(|upload| Arc::strong_count(upload) == 1))
}

/// Opens an upload from its journal, or begins it.
fn open(root: &Root, name: &str, new: Option<Header>) -> Result<Upload> {
    let file = root.local.journal(name)?.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the root keeps no journals"))?;
    let (journal, found, ranges) = Journal::open(file, new.as_ref())?;
    let is_new = found.is_none();
    let Some(header) = found.or(new) else {
        // Opening made it; there is no such upload.
        drop(journal);
        root.local.discard(name)?;
        return Err(unknown(name));
    };
    let resume = Some(Partial { key: name.to_owned(), number: NUMBER });
    let new = NewFile { size: header.size, resume, ..NewFile::of(RelativePath::from_user(&header.path)?) };
    let writer = match root.written.create(&new) {
        Ok(writer) => writer,
        Err(error) => {
            // An upload that could not even begin leaves nothing.
            drop(journal);
            if is_new {
                root.local.discard(name)?;
            }
            return Err(error);
        }
    };
    Upload::resume(header, writer, journal, ranges)
}

/// What the journal of an upload that is not open says of it.
fn kept(root: &Root, name: &str) -> Result<Option<Header>> {
    let file = root.local.journal(name)?;
    file.map_or(Ok(None), |file| Journal::open(file, None).map(|(_, header, _)| header))
}

/// The name of an upload, below which its file and its journal are: from what its client calls it, or one that nobody has.
fn name(path: &RelativePath, body: &BeginBody) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(path.as_bytes()).update(&[0]).update(&body.size.to_le_bytes());
    match &body.key {
        Some(key) => hasher.update(b"key").update(key.as_bytes()),
        None => hasher.update(b"new").update(nonce()?.as_bytes()),
    };
    let digits = hasher.finalize().to_hex();
    Ok(format!("{UPLOAD}{}", &digits[..DIGITS]))
}

/// What tells an upload from an earlier one of the same name, for which late rows may still come.
fn nonce() -> Result<String> {
    let mut unique = [0; 16];
    getrandom::fill(&mut unique)
        .map_err(|cause| Error::new(ErrorKind::Io, "could not draw random bytes from the operating system").with_cause(cause))?;
    Ok(edt::protocol::hex(&unique))
}

/// What clients call an upload. One of a journal from before there were nonces has its name alone.
fn id(name: &str, nonce: &str) -> String {
    if nonce.is_empty() { name.to_owned() } else { format!("{name}-{nonce}") }
}

/// The name and the nonce of an upload. What is no name is refused before it names files.
fn parts(id: &str) -> Result<(&str, &str)> {
    let (name, rest) = id.split_at_checked(UPLOAD.len() + DIGITS).ok_or_else(|| unknown(id))?;
    let digits = name.strip_prefix(UPLOAD);
    let right = digits.is_some_and(|digits| digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')));
    if right { Ok((name, rest.strip_prefix('-').unwrap_or(rest))) } else { Err(unknown(id)) }
}

fn unknown(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("could not find the upload `{}`", id.escape_debug()))
        .with_cause("it was never begun, was committed or aborted, or had no write for 24 h")
        .with_hint("begin it again with the same key: what is still there is kept")
}

fn given_up(id: &str) -> Error {
    Error::new(ErrorKind::Cancelled, format!("the upload `{id}` was given up"))
}

/// Ends abandoned uploads for as long as the server runs.
pub(super) async fn expire(root: Arc<Root>) {
    let mut turn = tokio::time::interval(EXPIRY);
    loop {
        turn.tick().await;
        let root = Arc::clone(&root);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || root.uploads.expire(&root)).await {
            tracing::warn!(%error, "could not end abandoned uploads");
        }
    }
}
