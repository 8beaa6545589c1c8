//! Files being received: their writers, what of them is verified, and what became of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::link::Frame;
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::pipeline::digest::FileDigest;
use crate::pipeline::journal::{BlockRecord, Record};
use crate::pipeline::ranges::Ranges;
use crate::pipeline::receiver::Shared;
use crate::pipeline::taken;
use crate::plan::key;
use crate::protocol::frame::FLAG_ZERO;
use crate::protocol::message::{FileHeader, ItemFailed, ItemKind, Message};
use crate::store::{Metadata, NewFile, Partial, Writer};
use crate::sync::{Condvar, Mutex, RwLock};

/// A directory whose time and mode are set when everything below it is there.
pub(crate) struct TargetDirectory {
    pub(crate) path: RelativePath,
    pub(crate) metadata: Metadata,
}

/// A file that arrives in chunks.
pub(crate) struct TargetFile {
    pub(crate) header: FileHeader,
    pub(crate) path: RelativePath,
    /// Its number in the journal.
    pub(crate) number: u64,
    pub(crate) state: Mutex<FileState>,
    /// Taken when the file is published.
    pub(crate) writer: RwLock<Option<Box<dyn Writer>>>,
    failed: AtomicBool,
    /// Whether all its bytes are there.
    whole: AtomicBool,
    /// Whether it goes on after an earlier attempt, so that holes of it may hold bytes.
    recovered: bool,
}

impl TargetFile {
    /// Whether all its bytes are there.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::SeqCst)
    }
}

/// What of a file is verified.
pub(crate) struct FileState {
    pub(crate) ranges: Ranges,
    pub(crate) digest: FileDigest,
}

/// The files of a session.
#[derive(Default)]
pub(crate) struct Files {
    open: Mutex<HashMap<u32, Place>>,
    opened: Condvar,
    settled: Mutex<Settled>,
}

/// A file, or the place that is kept for it while one stream opens it and while it is on its way to its final name.
enum Place {
    Opening,
    Open(Arc<TargetFile>),
    Closing,
}

/// Numbers of settled items, as bits: late copies of their frames are ignored.
#[derive(Default)]
struct Settled(Vec<u64>);

impl Settled {
    fn insert(&mut self, number: u32) -> bool {
        let (word, bit) = ((number / 64) as usize, number % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let new = self.0[word] & (1 << bit) == 0;
        self.0[word] |= 1 << bit;
        new
    }

    fn contains(&self, number: u32) -> bool {
        self.0.get((number / 64) as usize).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }
}

/// Files that may wait for their flush before streams wait for them.
const UNPUBLISHED: usize = 128;

/// How far beyond the items seen so far a number may lie: a sender numbers densely, so more is an attack on memory.
pub(crate) const MOST_ITEMS: u32 = 1 << 28;

impl Files {
    pub(crate) fn get(&self, number: u32) -> Option<Arc<TargetFile>> {
        match self.open.lock().get(&number) {
            Some(Place::Open(file)) => Some(Arc::clone(file)),
            _ => None,
        }
    }

    /// Takes a file out; until it is settled its place is kept, so that late copies of its frames are known for what they are.
    pub(crate) fn take(&self, number: u32) -> Option<Arc<TargetFile>> {
        let mut open = self.open.lock();
        let place = open.get_mut(&number).filter(|place| matches!(place, Place::Open(_)))?;
        match std::mem::replace(place, Place::Closing) {
            Place::Open(file) => Some(file),
            Place::Opening | Place::Closing => None,
        }
    }

    /// Files whose bytes are all there and that are not under their final names yet.
    fn unpublished(&self) -> usize {
        let waits = |place: &&Place| match place {
            Place::Opening => false,
            Place::Open(file) => file.is_whole(),
            Place::Closing => true,
        };
        self.open.lock().values().filter(waits).count()
    }

    /// Keeps a place for a file that the caller then opens; false if it is open. Waits while another stream opens it.
    fn reserve(&self, number: u32) -> bool {
        let mut open = self.open.lock();
        while matches!(open.get(&number), Some(Place::Opening)) {
            self.opened.wait(&mut open);
        }
        if open.contains_key(&number) {
            return false;
        }
        open.insert(number, Place::Opening);
        true
    }

    fn fill(&self, number: u32, file: Option<TargetFile>) {
        let mut open = self.open.lock();
        open.remove(&number);
        if let Some(file) = file {
            open.insert(number, Place::Open(Arc::new(file)));
        }
        drop(open);
        self.opened.notify_all();
    }

    /// Marks an item settled; false if it was already.
    pub(crate) fn settle(&self, number: u32) -> bool {
        if number > MOST_ITEMS {
            return false;
        }
        let new = self.settled.lock().insert(number);
        let mut open = self.open.lock();
        if matches!(open.get(&number), Some(Place::Closing)) {
            open.remove(&number);
        }
        new
    }

    pub(crate) fn is_settled(&self, number: u32) -> bool {
        // In the opposite order of `settle`: what leaves its place is marked before.
        matches!(self.open.lock().get(&number), Some(Place::Closing)) || self.settled.lock().contains(number)
    }
}

impl Shared {
    /// A file begins, or goes on after an earlier attempt, or was opened by another stream before.
    pub(crate) fn open_file(&self, header: FileHeader) -> Result<()> {
        if header.file == 0 || header.file > MOST_ITEMS || header.kind != ItemKind::File || header.size == 0 {
            return Err(Error::new(ErrorKind::Protocol, "a file's header has an impossible number, kind or size"));
        }
        if self.files.is_settled(header.file) {
            return Ok(());
        }
        let path = self.target(&header.path)?;
        // Files that wait for a flush keep a descriptor each: a stream does not run away from the publishers.
        while self.files.unpublished() >= UNPUBLISHED && !self.stop.is_set() {
            self.stop.wait(std::time::Duration::from_millis(2));
        }
        if !self.files.reserve(header.file) {
            return Ok(());
        }
        let (number, name) = (header.file, header.path.clone());
        let opened = self.make_way(&path, header.kind).and_then(|()| self.begin(header, path));
        let failure = opened.as_ref().err().cloned();
        self.files.fill(number, opened.ok());
        if let Some(error) = failure {
            self.item_failed(number, &name, &error);
        }
        Ok(())
    }

    fn begin(&self, header: FileHeader, path: RelativePath) -> Result<TargetFile> {
        self.check_free(&path)?;
        let name = RelativePath::from_bytes(&header.path)?;
        let recovered = self.partials.take(&key::of_path(&name));
        let fits = recovered.filter(|recovered| {
            let fits = recovered.identity == header.identity && recovered.size == header.size;
            if !fits {
                self.drop_partial(recovered.number, recovered.size, &path);
            }
            fits
        });
        let continued = fits.is_some();
        if let (Some(fits), Some(account)) = (&fits, &self.account) {
            account.resumed(fits.ranges.covered());
        }
        let (number, ranges, digest) = if let Some(recovered) = fits {
            (recovered.number, recovered.ranges, recovered.digest)
        } else {
            let number = self.partials.next_number();
            self.journal(&Record::Begin {
                number,
                path: name,
                size: header.size,
                identity: header.identity,
                sparse: header.sparse,
            });
            (number, Ranges::default(), FileDigest::new(header.size, self.digest))
        };
        let resume = Some(Partial { key: self.key.clone(), number });
        let (size, sparse, overwrite) = (header.size, header.sparse, self.overwrite);
        let (metadata, fresh) = (metadata(&header), !continued);
        let new = NewFile { size, sparse, metadata, resume, fresh, overwrite, ..NewFile::of(path.clone()) };
        let writer = self.store.create(&new)?;
        let whole = AtomicBool::new(ranges.is_complete(header.size));
        let state = Mutex::new(FileState { ranges, digest });
        let writer = RwLock::new(Some(writer));
        Ok(TargetFile { header, path, number, state, writer, failed: AtomicBool::new(false), whole, recovered: continued })
    }

    /// Looks whether a name that must not be replaced is free, before many bytes are sent to it; publishing decides.
    fn check_free(&self, path: &RelativePath) -> Result<()> {
        if self.overwrite == Overwrite::Replace || self.store.stat(path).is_err() {
            return Ok(());
        }
        Err(taken(&path.to_string()))
    }

    /// Removes a partial file that cannot be continued. It keeps its size until it is gone: it may stand under its final name too.
    pub(crate) fn drop_partial(&self, number: u64, size: u64, path: &RelativePath) {
        self.journal(&Record::Forget { number });
        let resume = Some(Partial { key: self.key.clone(), number });
        if let Ok(writer) = self.store.create(&NewFile { size, sparse: true, resume, ..NewFile::of(path.clone()) }) {
            writer.abort();
        }
    }

    /// Writes the bytes of a frame; returns how many, or `None` if the session ends over it.
    pub(crate) fn take_data(&self, frame: &Frame) -> Option<u64> {
        let header = &frame.header;
        let Some(file) = self.files.get(header.file) else {
            if self.files.is_settled(header.file) {
                return Some(0);
            }
            self.fatal(Error::new(ErrorKind::Protocol, "bytes arrived for a file that was not opened"));
            return None;
        };
        if file.failed.load(Ordering::Relaxed) {
            return Some(0);
        }
        let end = header.offset + u64::from(header.length);
        if end > file.header.size || (end < file.header.size && header.length as usize != crate::buffer::SLAB_SIZE) {
            self.fatal(Error::new(ErrorKind::Protocol, "bytes arrived that do not fit their file"));
            return None;
        }
        match self.write(&file, frame, end) {
            Ok(new) => Some(if new { u64::from(header.length) } else { 0 }),
            Err(error) => {
                self.file_failed(&file, &error);
                Some(0)
            }
        }
    }

    /// Writes and journals the bytes of a frame; false if they were there already.
    fn write(&self, file: &TargetFile, frame: &Frame, end: u64) -> Result<bool> {
        let header = &frame.header;
        // What is verified is never written again: a second copy may come from another state of the source.
        if file.state.lock().ranges.contains(header.offset, end) {
            return Ok(false);
        }
        let writer = file.writer.read();
        let Some(writer) = writer.as_ref() else { return Ok(false) };
        if header.flags & FLAG_ZERO == 0 {
            writer.write_at(header.offset, frame.payload.as_deref().unwrap_or_default())?;
        } else if !file.header.sparse || file.recovered || !self.capabilities.holes {
            writer.write_at(header.offset, &vec![0; header.length as usize])?;
        }
        let mut state = file.state.lock();
        if state.ranges.contains(header.offset, end) {
            return Ok(false);
        }
        state.ranges.insert(header.offset, end);
        state.digest.add(header.offset, u64::from(header.length), header.crc64nvme, &header.blake3);
        file.whole.store(state.ranges.is_complete(file.header.size), Ordering::SeqCst);
        drop(state);
        let (number, offset, length, crc64nvme) = (file.number, header.offset, u64::from(header.length), header.crc64nvme);
        self.journal(&if self.capabilities.reads_back {
            Record::Range { number, offset, length, crc64nvme }
        } else {
            Record::Block { number, block: BlockRecord { offset, length, crc64nvme, blake3: header.blake3 } }
        });
        Ok(true)
    }

    /// The source was not what was sent: what is there of the file is dropped.
    pub(crate) fn abandon(&self, number: u32) {
        let file = self.files.take(number);
        self.files.settle(number);
        if let Some(file) = file {
            file.failed.store(true, Ordering::Relaxed);
            if let Some(writer) = file.writer.write().take() {
                writer.abort();
            }
            self.journal(&Record::Forget { number: file.number });
        }
        if self.finishing.load(Ordering::SeqCst) {
            // Nothing begins again after `Finish`: it has failed.
            self.failures.store(true, Ordering::SeqCst);
        }
        self.give_up_closing(number);
    }

    /// A file cannot be written; what is verified of it stays for another attempt.
    pub(crate) fn file_failed(&self, file: &TargetFile, error: &Error) {
        if file.failed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.files.take(file.header.file);
        if error.kind() != ErrorKind::ConnectionLost || !self.hands_back() {
            return self.item_failed(file.header.file, &file.header.path, error);
        }
        let writer = file.writer.write().take();
        if let Some(writer) = writer {
            writer.abort();
        }
        self.journal(&Record::Forget { number: file.number });
        self.hand_back(&file.header, error);
    }

    /// Whether a file of which a store lost a part has to be begun again: what the store has of it cannot be continued.
    pub(crate) fn hands_back(&self) -> bool {
        !self.capabilities.resumable && !self.capabilities.flushes
    }

    /// Hands a file back of which nothing is kept: the sender begins it again, or says that it failed.
    pub(crate) fn hand_back(&self, header: &FileHeader, error: &Error) {
        if !self.files.settle(header.file) {
            return;
        }
        let item = ItemFailed { file: header.file, path: header.path.clone(), failed: error.into() };
        if let Err(error) = self.control.send(&Message::ItemFailed(item)) {
            self.fatal(self.control.failure().unwrap_or(error));
        }
        self.give_up_closing(header.file);
    }

    /// An item failed at this side.
    pub(crate) fn item_failed(&self, number: u32, path: &[u8], error: &Error) {
        if !self.files.settle(number) {
            return;
        }
        self.failures.store(true, Ordering::SeqCst);
        if let Some(account) = &self.account {
            account.failed(path, error);
        }
        self.acks.failed(ItemFailed { file: number, path: path.to_vec(), failed: error.into() });
        self.give_up_closing(number);
    }
}

/// What is set on an item when it is published.
pub(crate) fn metadata(header: &FileHeader) -> Metadata {
    Metadata { modified_ns: header.modified_ns, mode: header.mode }
}
