//! A file being uploaded: small ones in one request when they are published, large ones in parts as these become whole.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use super::Bucket;
use super::parts::{Parts, Taken, part_size};
use super::publish::Target;
use super::uploads::Note;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::store::remote::patience::clearing;
use crate::store::remote::state::{State, check_key};
use crate::store::remote::{About, Upload};
use crate::store::{NewFile, Partial, Writer};
use crate::sync::Mutex;

/// An object that does not exist yet.
pub(super) struct ObjectWriter {
    pub(super) bucket: Arc<Bucket>,
    pub(super) file: NewFile,
    pub(super) key: String,
    pub(super) parts: Parts,
    part: u64,
    recovered: Once,
    upload: Mutex<Option<Upload>>,
    /// Nothing is left to be removed.
    settled: AtomicBool,
}

impl ObjectWriter {
    pub(super) fn new(bucket: &Arc<Bucket>, file: &NewFile) -> Result<Self> {
        let key = bucket.key(&file.path)?;
        if let Some(resume) = &file.resume {
            check_key(&resume.key)?;
        }
        let failed = |kind| Error::new(kind, format!("could not create `{}`", bucket.service.show(&key)));
        if key.is_empty() {
            return Err(failed(ErrorKind::WrongType).with_cause("an object needs a name"));
        }
        let part = part_size(file.size, &bucket.service.limits()).ok_or_else(|| {
            failed(ErrorKind::Unsupported).with_cause(format!("the service takes no object of {} bytes", file.size))
        })?;
        Ok(Self {
            bucket: Arc::clone(bucket),
            file: file.clone(),
            parts: Parts::new(file.size, part),
            key,
            part,
            recovered: Once::new(),
            upload: Mutex::default(),
            settled: AtomicBool::new(false),
        })
    }

    pub(super) fn shown(&self) -> String {
        self.bucket.service.show(&self.key)
    }

    /// What it becomes.
    pub(super) fn target(&self) -> Target<'_> {
        Target { bucket: &self.bucket, key: &self.key, size: self.file.size }
    }

    /// The upload, once it is begun.
    pub(super) fn upload(&self) -> Option<Upload> {
        self.upload.lock().clone()
    }

    /// Finds what an earlier attempt left, once.
    pub(super) fn recover(&self) {
        if !self.parts.is_single() {
            self.recovered.call_once(|| self.look_for_parts());
        }
    }

    fn look_for_parts(&self) {
        let Some(note) = self.note() else { return };
        if (&note.key, note.size, note.part) != (&self.key, self.file.size, self.part) {
            return self.give_up(&note.upload());
        }
        let upload = note.upload();
        match self.bucket.patience.run(|| self.bucket.service.parts(&upload)) {
            Ok(parts) => self.parts.keep(parts),
            // Some services say so of uploads that they have: what nobody goes on with must not stay.
            Err(error) if error.kind() == ErrorKind::NotFound => return self.give_up(&upload),
            // What is there is not known now: it is sent again, as the same parts of the same upload.
            Err(_) => {}
        }
        *self.upload.lock() = Some(upload);
    }

    /// The upload, begun by the first who needs it; the others wait, for without it they can do nothing.
    fn begin(&self) -> Result<Upload> {
        let mut upload = self.upload.lock();
        if let Some(upload) = upload.as_ref() {
            return Ok(upload.clone());
        }
        let about = About { metadata: self.file.metadata.clone(), crc64nvme: None, overwrite: Overwrite::Replace };
        let id = self.bucket.patience.run(|| self.bucket.service.begin(&self.key, &about))?;
        let begun = Upload { key: self.key.clone(), id, begun_ns: None };
        // Noted before there is any part of it: what nobody remembers would be kept, and paid for, for ever.
        if let Err(error) = self.remember(&begun) {
            self.give_up(&begun);
            return Err(error);
        }
        Ok(upload.insert(begun).clone())
    }

    fn send(&self, mut taken: Taken<'_>) -> Result<()> {
        let (number, content) = (taken.number, std::mem::take(&mut taken.bytes));
        let sent = self.begin().and_then(|upload| {
            let crc64nvme = crc_fast::crc64_nvme(&content);
            self.bucket.patience.run(|| {
                let _request = self.bucket.memory.request();
                let part = self.bucket.service.put_part(&upload, number, &content, crc64nvme)?;
                if part.crc64nvme.is_some_and(|found| found != crc64nvme) {
                    return Err(Error::new(ErrorKind::Corrupted, self.could_not_upload(number))
                        .with_cause("the service has other bytes than were sent"));
                }
                Ok(part)
            })
        });
        drop(content);
        taken.arrived(sent?);
        Ok(())
    }

    fn could_not_upload(&self, number: u32) -> String {
        format!("could not upload part {number} of `{}`", self.shown())
    }

    fn resume(&self) -> Option<(&State, &Partial)> {
        Some((self.bucket.state().ok()?, self.file.resume.as_ref()?))
    }

    fn note(&self) -> Option<Note> {
        let (state, partial) = self.resume()?;
        state.note(&partial.key, partial.number).ok()?
    }

    fn remember(&self, upload: &Upload) -> Result<()> {
        let Some(partial) = &self.file.resume else { return Ok(()) };
        let (url, key, id) = (self.shown(), upload.key.clone(), upload.id.clone());
        let note = Note { url, key, id, size: self.file.size, part: self.part };
        self.bucket.state()?.keep(&partial.key, partial.number, &note)
    }

    fn forget(&self) {
        if let Some((state, partial)) = self.resume() {
            let _ = state.forget(&partial.key, partial.number);
        }
    }

    /// Removes an upload; one that cannot be removed now stays for `edt clean`.
    fn give_up(&self, upload: &Upload) {
        let _ = clearing(|| self.bucket.patience.run(|| self.bucket.service.abort(upload)));
        self.forget();
    }

    /// The object is there: nothing is left to be continued or removed.
    pub(super) fn settle(&self) {
        if !self.settled.swap(true, Ordering::SeqCst) && !self.parts.is_single() {
            self.forget();
        }
    }

    /// Removes what was uploaded, for it can be of no use.
    pub(super) fn discard(&self) {
        if self.settled.swap(true, Ordering::SeqCst) {
            return;
        }
        let upload = self.upload();
        if let Some(upload) = upload.or_else(|| self.note().map(|note| note.upload())) {
            self.give_up(&upload);
        }
    }
}

impl Writer for ObjectWriter {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.file.size) {
            let size = self.file.size;
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("could not write {} bytes at {offset} of `{}`", bytes.len(), self.shown()),
            )
            .with_cause(format!("it was announced with {size} bytes")));
        }
        self.recover();
        for piece in self.parts.cut(offset, bytes.len()) {
            let memory = |length| {
                let what = || format!("could not write {} bytes at {offset} of `{}`", bytes.len(), self.shown());
                self.bucket.memory.take(length, &self.bucket.patience, what)
            };
            let complete = self.parts.fill(piece.number, piece.offset, &bytes[piece.range], memory)?;
            if complete
                && !self.parts.is_single()
                && let Some(taken) = self.parts.take(piece.number)
            {
                self.send(taken)?;
            }
        }
        Ok(())
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(Error::new(ErrorKind::Unsupported, format!("could not read back `{}`", self.shown()))
            .with_cause("an upload cannot be read before it is completed"))
    }

    fn kept(&self) -> Vec<Range<u64>> {
        self.recover();
        self.parts.kept()
    }

    fn abort(self: Box<Self>) {
        self.discard();
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Drop for ObjectWriter {
    /// What no later attempt will continue is removed.
    fn drop(&mut self) {
        if self.file.resume.is_none() && self.upload.get_mut().is_some() {
            self.discard();
        }
    }
}
