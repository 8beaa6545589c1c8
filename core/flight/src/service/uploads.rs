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
        let id = name(&path, body)?;
        let header = Header { path: path.to_string(), size: body.size, modified_ns: body.modified_ns, mode: body.mode };
        let upload = self.opened(root, &id, Some(header))?;
        Ok(Begun { ranges: upload.written(), upload: id })
    }

    /// The upload of this name.
    pub(super) fn find(&self, root: &Root, id: &str) -> Result<Arc<Upload>> {
        check(id)?;
        self.opened(root, id, None)
    }

    /// Publishes a complete upload.
    pub(super) fn commit(&self, root: &Root, body: &CommitBody) -> Result<Digests> {
        let expected = body.crc64nvme.as_deref().map(parse_hex64).transpose()?;
        let upload = self.find(root, &body.upload)?;
        let digests = upload.publish(root, expected, body)?;
        self.forget(root, &body.upload);
        Ok(digests)
    }

    /// Gives an upload up; one that is not there is no error.
    pub(super) fn abort(&self, root: &Root, id: &str) -> Result<()> {
        check(id)?;
        // Only one of the two locks at a time: whoever opens an upload holds its slot and then asks for the other.
        let slot = self.open.lock().remove(id);
        let upload = slot.and_then(|slot| slot.lock().take());
        if let Some(upload) = upload {
            upload.fail(given_up(id));
        }
        root.local.discard(id)
    }

    /// Ends uploads into which nothing was written for long.
    fn expire(&self, root: &Root) -> Result<()> {
        let Some(before) = SystemTime::now().checked_sub(KEPT).filter(|_| root.writable().is_ok()) else { return Ok(()) };
        for id in root.local.abandoned(UPLOAD, before)? {
            tracing::info!(upload = %id, "an upload was abandoned");
            self.abort(root, &id)?;
        }
        Ok(())
    }

    fn opened(&self, root: &Root, id: &str, new: Option<Header>) -> Result<Arc<Upload>> {
        let place = self.slot(id)?;
        let mut slot = place.lock();
        if let Some(upload) = slot.as_ref().filter(|upload| !upload.has_failed()) {
            return Ok(Arc::clone(upload));
        }
        // One that failed gives its lock back before it is taken up again.
        *slot = None;
        match open(root, id, new) {
            Ok(upload) => Ok(Arc::clone(slot.insert(Arc::new(upload)))),
            Err(error) => {
                // Another may have come into its place.
                let mut open = self.open.lock();
                if open.get(id).is_some_and(|known| Arc::ptr_eq(known, &place)) {
                    open.remove(id);
                }
                Err(error)
            }
        }
    }

    /// The place of an upload. Where there are too many, one to which nobody writes is closed; its journal opens it again.
    fn slot(&self, id: &str) -> Result<Slot> {
        let mut open = self.open.lock();
        if open.len() >= OPEN && !open.contains_key(id) {
            let idle = open.iter().find(|(_, slot)| is_idle(slot)).map(|(id, _)| id.clone()).ok_or_else(|| {
                Error::new(ErrorKind::Throttled, format!("the server is busy with {OPEN} uploads"))
                    .with_hint("try again when one of them has ended")
            })?;
            open.remove(&idle);
        }
        Ok(Arc::clone(open.entry(id.to_owned()).or_default()))
    }

    fn forget(&self, root: &Root, id: &str) {
        self.open.lock().remove(id);
        if let Err(error) = root.local.discard(id) {
            tracing::warn!(upload = %id, %error, "could not remove the journal of an upload");
        }
    }
}

/// Whether nobody uses an upload, or waits for it.
fn is_idle(slot: &Slot) -> bool {
    Arc::strong_count(slot) == 1
        && slot.try_lock().is_some_and(|upload| upload.as_ref().is_none_or(|upload| Arc::strong_count(upload) == 1))
}

/// Opens an upload from its journal, or begins it.
fn open(root: &Root, id: &str, new: Option<Header>) -> Result<Upload> {
    let file = root.local.journal(id)?.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the root keeps no journals"))?;
    let (journal, found, ranges) = Journal::open(file, new.as_ref())?;
    let is_new = found.is_none();
    let Some(header) = found.or(new) else {
        // Opening made it; there is no such upload.
        drop(journal);
        root.local.discard(id)?;
        return Err(unknown(id));
    };
    let resume = Some(Partial { key: id.to_owned(), number: NUMBER });
    let new = NewFile { size: header.size, resume, ..NewFile::of(RelativePath::from_user(&header.path)?) };
    let writer = match root.written.create(&new) {
        Ok(writer) => writer,
        Err(error) => {
            // An upload that could not even begin leaves nothing.
            drop(journal);
            if is_new {
                root.local.discard(id)?;
            }
            return Err(error);
        }
    };
    Upload::resume(header, writer, journal, ranges)
}

/// The name of an upload: from what its client calls it, or one that nobody has.
fn name(path: &RelativePath, body: &BeginBody) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(path.as_bytes()).update(&[0]).update(&body.size.to_le_bytes());
    if let Some(key) = &body.key {
        hasher.update(b"key").update(key.as_bytes());
    } else {
        let mut unique = [0; 16];
        getrandom::fill(&mut unique).map_err(|cause| {
            Error::new(ErrorKind::Io, "could not draw random bytes from the operating system").with_cause(cause)
        })?;
        hasher.update(b"new").update(&unique);
    }
    let digits = hasher.finalize().to_hex();
    Ok(format!("{UPLOAD}{}", &digits[..40]))
}

/// Refuses what is no name of an upload before it names files.
fn check(id: &str) -> Result<()> {
    let digits = id.strip_prefix(UPLOAD).filter(|digits| digits.len() == 40);
    let right = digits.is_some_and(|digits| digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')));
    if right { Ok(()) } else { Err(unknown(id)) }
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
