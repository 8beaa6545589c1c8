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

/// Hexadecimal digits of the name of an upload, and of its nonce.
const DIGITS: usize = 40;
const NONCE: usize = 32;

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
        let upload = self.opened(root, &name, &Wanted::Any(header))?;
        Ok(Begun { ranges: upload.written(), upload: id(&name, upload.nonce()) })
    }

    /// The upload that was told to be called so.
    pub(super) fn find(&self, root: &Root, id: &str) -> Result<Arc<Upload>> {
        let (name, nonce) = parts(id)?;
        self.opened(root, name, &Wanted::Begun(nonce))
    }

    /// Publishes a complete upload.
    pub(super) fn commit(&self, root: &Root, body: &CommitBody) -> Result<Digests> {
        let expected = body.crc64nvme.as_deref().map(parse_hex64).transpose()?;
        let (name, nonce) = parts(&body.upload)?;
        let upload = self.find(root, &body.upload)?;
        let digests = upload.publish(root, expected, body)?;
        let ended = self.with_slot(name, |slot| {
            // Its journal is no longer locked then.
            upload.fail(upload.ended());
            end(root, name, nonce, slot)
        });
        if let Err(error) = ended {
            tracing::warn!(upload = %name, %error, "could not remove the journal of an upload");
        }
        Ok(digests)
    }

    /// Gives an upload up; one that is not there is no error, and one that was begun anew since stays.
    pub(super) fn abort(&self, root: &Root, id: &str) -> Result<()> {
        let (name, nonce) = parts(id)?;
        self.with_slot(name, |slot| end(root, name, nonce, slot))
    }

    /// Ends uploads into which nothing was written for long.
    fn expire(&self, root: &Root) -> Result<()> {
        let Some(before) = SystemTime::now().checked_sub(KEPT).filter(|_| root.writable().is_ok()) else { return Ok(()) };
        let names = root.local.abandoned(UPLOAD, before)?;
        for name in names.iter().filter(|name| parts(name).is_ok_and(|(_, nonce)| nonce.is_empty())) {
            let ended = self.with_slot(name, |slot| {
                // Somebody writes to it again.
                if slot.as_ref().is_some_and(|upload| Arc::strong_count(upload) > 1) {
                    return Ok(());
                }
                tracing::info!(upload = %name, "an upload was abandoned");
                discard(root, name, slot.take())
            });
            if let Err(error) = ended {
                tracing::warn!(upload = %name, %error, "could not end an abandoned upload");
            }
        }
        Ok(())
    }

    fn opened(&self, root: &Root, name: &str, wanted: &Wanted<'_>) -> Result<Arc<Upload>> {
        self.make_room(name)?;
        self.with_slot(name, |slot| {
            if let Some(upload) = slot.as_ref().filter(|upload| !upload.has_failed()) {
                return if wanted.is(upload.nonce()) { Ok(Arc::clone(upload)) } else { Err(unknown(name)) };
            }
            // One that failed gives its lock back before it is taken up again.
            *slot = None;
            Ok(Arc::clone(slot.insert(Arc::new(open(root, name, wanted)?))))
        })
    }

    /// Does something with the slot of a name while nobody else does. One that is empty afterwards goes.
    fn with_slot<T>(&self, name: &str, with: impl FnOnce(&mut Option<Arc<Upload>>) -> T) -> T {
        loop {
            // Whoever has a slot may ask for the map, and nobody waits for a slot who has that.
            let place = Arc::clone(self.open.lock().entry(name.to_owned()).or_default());
            let mut slot = place.lock();
            let is_known = |open: &HashMap<String, Slot>| open.get(name).is_some_and(|known| Arc::ptr_eq(known, &place));
            // Who had it before may have emptied it, and another come into its place.
            if !is_known(&self.open.lock()) {
                continue;
            }
            let done = with(&mut slot);
            let mut open = self.open.lock();
            if slot.is_none() && is_known(&open) {
                open.remove(name);
            }
            return done;
        }
    }

    /// Where there are too many, one to which nobody writes is closed; its journal opens it again.
    fn make_room(&self, name: &str) -> Result<()> {
        let mut open = self.open.lock();
        if open.len() >= OPEN && !open.contains_key(name) {
            let idle = open.iter().find(|(_, slot)| is_idle(slot)).map(|(name, _)| name.clone()).ok_or_else(|| {
                Error::new(ErrorKind::Throttled, format!("the server is busy with {OPEN} uploads"))
                    .with_hint("try again when one of them has ended")
            })?;
            open.remove(&idle);
        }
        Ok(())
    }
}

/// Whether nobody uses an upload, or waits for it.
fn is_idle(slot: &Slot) -> bool {
    Arc::strong_count(slot) == 1
        && slot.try_lock().is_some_and(|upload| upload.as_ref().is_none_or(|upload| Arc::strong_count(upload) == 1))
}

/// Which upload of a name is wanted.
enum Wanted<'a> {
    /// Whatever is there, or a new one.
    Any(Header),
    /// The one that was begun with this nonce.
    Begun(&'a str),
}

impl Wanted<'_> {
    fn is(&self, nonce: &str) -> bool {
        match self {
            Self::Any(_) => true,
            Self::Begun(begun) => *begun == nonce,
        }
    }
}

/// Opens an upload from its journal, or begins it.
fn open(root: &Root, name: &str, wanted: &Wanted<'_>) -> Result<Upload> {
    let new = match wanted {
        Wanted::Any(header) => Some(header),
        Wanted::Begun(_) => None,
    };
    let file = root.local.journal(name)?.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the root keeps no journals"))?;
    let (journal, found, ranges) = Journal::open(file, new)?;
    let is_new = found.is_none();
    let Some(header) = found.or_else(|| new.cloned()) else {
        // Opening made it; there is no such upload.
        drop(journal);
        root.local.discard(name)?;
        return Err(unknown(name));
    };
    if !wanted.is(&header.nonce) {
        return Err(unknown(name));
    }
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

/// Ends the upload of this name, if it is the one with this nonce.
fn end(root: &Root, name: &str, nonce: &str, slot: &mut Option<Arc<Upload>>) -> Result<()> {
    let is_another = match slot.as_ref() {
        Some(upload) => upload.nonce() != nonce,
        None => kept(root, name)?.is_some_and(|header| header.nonce != nonce),
    };
    if is_another { Ok(()) } else { discard(root, name, slot.take()) }
}

/// Ends an upload for all who write to it, and removes what there is of it.
fn discard(root: &Root, name: &str, upload: Option<Arc<Upload>>) -> Result<()> {
    if let Some(upload) = upload {
        upload.fail(given_up(name));
    }
    root.local.discard(name)
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
    let mut unique = [0; NONCE / 2];
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
    let is_hex = |digits: &str| digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let (name, rest) = id.split_at_checked(UPLOAD.len() + DIGITS).ok_or_else(|| unknown(id))?;
    let nonce = if rest.is_empty() { Some(rest) } else { rest.strip_prefix('-').filter(|nonce| nonce.len() == NONCE) };
    let is_name = name.strip_prefix(UPLOAD).is_some_and(is_hex);
    nonce.filter(|nonce| is_name && is_hex(nonce)).map(|nonce| (name, nonce)).ok_or_else(|| unknown(id))
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
