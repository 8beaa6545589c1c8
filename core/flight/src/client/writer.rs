//! A file on its way to edt's own service: small ones in one call when they are published, others as an upload on several streams.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use edt::pipeline::ranges::Ranges;
use edt::store::remote::State;
use edt::store::{NewFile, Writer};
use edt::sync::Mutex;
use edt::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::host::Host;
use super::put::Put;
use crate::contract::{self, BeginBody, Begun, Command, Form, ROW_BYTES, UploadBody, action};

/// The largest file that waits in memory until it is published: one block of the pipeline.
const SMALL: usize = 256 << 10;

/// What is kept on this machine of an upload under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) upload: String,
}

/// A file that is being written.
pub(super) struct FlightWriter {
    pub(super) host: Arc<Host>,
    pub(super) file: NewFile,
    pub(super) path: String,
    /// The upload's, which finds it again if an answer is lost.
    key: String,
    notes: Result<State>,
    held: Mutex<Option<Vec<u8>>>,
    upload: Mutex<Option<Upload>>,
    streams: Mutex<Vec<Put>>,
    /// Bytes of a stream were lost, or nothing is left to be removed.
    broken: AtomicBool,
    settled: AtomicBool,
}

/// An upload that was begun.
struct Upload {
    id: String,
    there: Ranges,
}

impl FlightWriter {
    pub(super) fn new(host: &Arc<Host>, file: &NewFile, notes: Result<State>) -> Result<Self> {
        let path = contract::text(&file.path)?;
        let key = match &file.resume {
            Some(partial) => format!("{}-{}", partial.key, partial.number),
            None => random()?,
        };
        Ok(Self {
            host: Arc::clone(host),
            file: file.clone(),
            path,
            key,
            notes,
            held: Mutex::default(),
            upload: Mutex::default(),
            streams: Mutex::default(),
            broken: AtomicBool::new(false),
            settled: AtomicBool::new(false),
        })
    }

    /// The whole of a small file, if it waits here.
    pub(super) fn take_held(&self) -> Option<Vec<u8>> {
        let held = self.held.lock().take();
        held.or_else(|| (self.file.size == 0).then(Vec::new))
    }

    /// Waits until the service has every byte, and answers with the name of the upload.
    pub(super) fn finish(&self) -> Result<String> {
        let mut streams = std::mem::take(&mut *self.streams.lock());
        streams.iter_mut().for_each(Put::close);
        let finished = streams.into_iter().try_for_each(Put::finish);
        if finished.is_err() {
            self.broken.store(true, Ordering::SeqCst);
        }
        finished?;
        let (id, complete) = self.with_upload(|upload| (upload.id.clone(), upload.there.is_complete(self.file.size)))?;
        if complete && !self.broken.load(Ordering::SeqCst) {
            return Ok(id);
        }
        Err(Error::new(ErrorKind::Io, self.what("publish"))
            .with_cause("not all of its bytes are at the service")
            .with_hint("run the same command again"))
    }

    /// Nothing is left to be continued or removed.
    pub(super) fn settle(&self) {
        if !self.settled.swap(true, Ordering::SeqCst) {
            self.forget();
        }
    }

    /// Removes what the service has of it.
    pub(super) fn discard(&self) {
        if self.settled.swap(true, Ordering::SeqCst) {
            return;
        }
        self.streams.lock().clear();
        let begun = self.upload.lock().as_ref().map(|upload| upload.id.clone());
        if let Some(id) = begun.or_else(|| self.note().map(|note| note.upload)) {
            give_up(&self.host, &id);
        }
        self.forget();
    }

    pub(super) fn what(&self, operation: &str) -> String {
        format!("could not {operation} `{}` at `{}`", self.file.path, self.host.name())
    }

    /// Does something with the upload, which is begun by the first who needs it; the others wait.
    fn with_upload<T>(&self, with: impl FnOnce(&mut Upload) -> T) -> Result<T> {
        let mut upload = self.upload.lock();
        if let Some(upload) = upload.as_mut() {
            return Ok(with(upload));
        }
        let begun: Begun = self.host.act_once(action::BEGIN, &self.begun(), &|| self.what("begin"))?;
        let mut there = Ranges::new();
        for [begin, length] in begun.ranges {
            there.insert(begin, begin.saturating_add(length));
        }
        if let Err(error) = self.remember(&begun.upload) {
            give_up(&self.host, &begun.upload);
            return Err(error);
        }
        Ok(with(upload.insert(Upload { id: begun.upload, there })))
    }

    /// What begins the upload, and finds it again.
    fn begun(&self) -> BeginBody {
        let (path, metadata) = (self.path.clone(), &self.file.metadata);
        let (modified_ns, mode, key) = (metadata.modified_ns, metadata.mode, Some(self.key.clone()));
        BeginBody { path, size: self.file.size, modified_ns, mode, key }
    }

    fn send(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let id = self.with_upload(|upload| upload.id.clone())?;
        let waiting = self.streams.lock().pop();
        let mut stream = waiting.unwrap_or_else(|| {
            let command = Command { form: Some(Form::Bytes), upload: Some(id), ..Command::of(self.path.clone()) };
            Put::new(&self.host, command, self.begun(), self.what("write"))
        });
        for (piece, at) in bytes.chunks(ROW_BYTES).zip((offset..).step_by(ROW_BYTES)) {
            if let Err(error) = stream.send(at, piece) {
                self.broken.store(true, Ordering::SeqCst);
                return Err(error);
            }
        }
        if self.host.crowd.is_scarce() {
            // Who waits for a place gets this one.
            stream.finish().inspect_err(|_| self.broken.store(true, Ordering::SeqCst))?;
        } else {
            self.streams.lock().push(stream);
        }
        self.with_upload(|upload| upload.there.insert(offset, offset + bytes.len() as u64)).map(drop)
    }

    fn note(&self) -> Option<Note> {
        let (notes, partial) = self.notes.as_ref().ok().zip(self.file.resume.as_ref())?;
        notes.note(&partial.key, partial.number).ok()?
    }

    fn remember(&self, id: &str) -> Result<()> {
        let Some(partial) = &self.file.resume else { return Ok(()) };
        self.notes.clone()?.keep(&partial.key, partial.number, &Note { upload: id.to_owned() })
    }

    fn forget(&self) {
        if let (Ok(notes), Some(partial)) = (&self.notes, &self.file.resume) {
            let _ = notes.forget(&partial.key, partial.number);
        }
    }
}

/// Removes an upload; one that cannot be removed now ends by itself after a day.
pub(super) fn give_up(host: &Arc<Host>, upload: &str) {
    let body = UploadBody { upload: upload.to_owned() };
    let what = || format!("could not give up an upload at `{}`", host.name());
    if let Err(error) = host.act_last(action::ABORT, &body, &what) {
        tracing::info!(%error, "an upload stays until the service clears it away");
    }
}

/// A key that no other upload has.
fn random() -> Result<String> {
    let mut unique = [0; 16];
    getrandom::fill(&mut unique)
        .map_err(|cause| Error::new(ErrorKind::Io, "could not draw random bytes from the operating system").with_cause(cause))?;
    Ok(edt::protocol::hex(&unique))
}

impl Writer for FlightWriter {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.file.size) {
            return Err(Error::new(ErrorKind::InvalidInput, self.what("write"))
                .with_cause(format!("it was announced with {} bytes", self.file.size)));
        }
        let whole = bytes.len() as u64 == self.file.size && bytes.len() <= SMALL;
        if whole && self.upload.lock().is_none() {
            *self.held.lock() = Some(bytes.to_vec());
            return Ok(());
        }
        if bytes.is_empty() { Ok(()) } else { self.send(offset, bytes) }
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(Error::new(ErrorKind::Unsupported, self.what("read back"))
            .with_cause("an upload cannot be read before it is complete"))
    }

    fn kept(&self) -> Vec<Range<u64>> {
        if self.file.resume.is_none() || self.file.size == 0 {
            return Vec::new();
        }
        let kept = self.with_upload(|upload| upload.there.iter().map(|(begin, end)| begin..end).collect());
        kept.unwrap_or_else(|error| {
            tracing::info!(%error, "an upload cannot be continued");
            Vec::new()
        })
    }

    fn abort(self: Box<Self>) {
        self.discard();
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Drop for FlightWriter {
    /// What no later attempt will continue is removed.
    fn drop(&mut self) {
        if self.file.resume.is_none() && self.upload.get_mut().is_some() {
            self.discard();
        }
    }
}
