//! Ranges of a file on a server that is reached over HTTP: each answer is checked to be of the state that was described.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use reqwest::Method;

use super::facts::Facts;
use super::place::Form;
use super::server::Server;
use super::whole::Whole;
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::Entry;
use crate::store::remote::web::Answer;
use crate::store::remote::{Body, Ranges};
use crate::sync::Mutex;

/// Asks the server what a file is now.
pub(crate) type Describe = Box<dyn Fn() -> Result<Entry> + Send + Sync>;

/// A file to read. A server that ignores ranges is read once, from the beginning, and its bytes are handed to who waits for them.
pub(crate) struct FileRanges {
    server: Arc<Server>,
    path: RelativePath,
    entry: Entry,
    describe: Describe,
    /// What stands for the state in `If-Range`, once an answer told it.
    validator: OnceLock<String>,
    /// Whether the server takes its own validator for a weak one, so that only the check of its answers is left.
    unconditional: AtomicBool,
    whole: Whole,
    /// Held by who asks for the first range, until it is known whether the server does ranges.
    learning: Mutex<()>,
}

impl FileRanges {
    pub(crate) fn new(server: Arc<Server>, entry: &Entry, describe: Describe) -> Self {
        Self {
            server,
            path: entry.path.clone(),
            entry: entry.clone(),
            describe,
            validator: OnceLock::new(),
            unconditional: AtomicBool::new(false),
            whole: Whole::default(),
            learning: Mutex::default(),
        }
    }

    /// Asks for a range, or for all; an answer of another state is an error.
    fn ask(&self, range: Option<&Range<u64>>) -> Result<Answer> {
        let mut request = self.server.request(Method::GET, &self.path, Form::File)?.header("accept-encoding", "identity");
        if let Some(range) = range {
            request = request.header("range", format!("bytes={}-{}", range.start, range.end - 1));
            if let Some(validator) = self.condition() {
                request = request.header("if-range", validator);
            }
        }
        let answer = self.server.send("read", &self.path, request, &[])?;
        let facts = Facts::of(&answer);
        if facts.differ(&self.entry) {
            return Err(Error::new(ErrorKind::SourceChanged, self.server.what("read", &self.path))
                .with_cause("the server has another state of it than before")
                .with_hint("run the same command again when nothing writes to the file any more"));
        }
        if let Some(validator) = facts.validator {
            self.validator.get_or_init(|| validator);
        }
        Ok(answer)
    }

    fn condition(&self) -> Option<&String> {
        self.validator.get().filter(|_| !self.unconditional.load(Ordering::Relaxed))
    }

    fn all(&self) -> Result<Box<dyn Body>> {
        Ok(self.ask(None)?.into_body(self.entry.size))
    }

    /// The answer to a range; `None` if the server does not do ranges, and its answer then goes to `whole`.
    fn part(&self, range: &Range<u64>) -> Result<Option<Answer>> {
        let asked_if = self.condition().is_some();
        let mut answer = self.ask(Some(range))?;
        if answer.status() == 200 && asked_if && answer.header("accept-ranges") == Some("bytes") {
            self.unconditional.store(true, Ordering::Relaxed);
            answer = self.ask(Some(range))?;
        }
        if answer.status() == 206 {
            self.server.remember_ranges();
            return Ok(Some(answer));
        }
        self.whole.offer(answer.into_body(self.entry.size));
        Ok(None)
    }
}

impl Ranges for FileRanges {
    fn open(&self, range: Range<u64>) -> Result<Box<dyn Body>> {
        if range == (0..self.entry.size) && !self.whole.is_needed() {
            return self.all();
        }
        let learning = (!self.server.does_ranges()).then(|| self.learning.lock());
        // Who waited for another's answer knows by now.
        let learning = learning.filter(|_| !self.server.does_ranges());
        let answer = if self.whole.is_needed() { None } else { self.part(&range)? };
        drop(learning);
        if let Some(answer) = answer {
            let begun = answer.header("content-range").and_then(begin_of);
            if begun != Some(range.start) {
                let cause = format!("the server sent another range than the one from byte {}", range.start);
                return Err(Error::new(ErrorKind::Protocol, self.server.what("read", &self.path)).with_cause(cause));
            }
            return Ok(answer.into_body(range.end - range.start));
        }
        self.whole.open(range, &|| self.all())
    }

    fn stat(&self) -> Result<Entry> {
        (self.describe)()
    }
}

/// The first byte of `bytes 5-9/100`.
fn begin_of(content_range: &str) -> Option<u64> {
    content_range.trim().strip_prefix("bytes")?.trim_start().split_once('-')?.0.parse().ok()
}

/// A file that is in memory, because the server does not say how long it is.
pub(crate) struct Held {
    pub(crate) content: Arc<[u8]>,
    pub(crate) describe: Describe,
}

impl Ranges for Held {
    fn open(&self, range: Range<u64>) -> Result<Box<dyn Body>> {
        Ok(Box::new(HeldBody { content: Arc::clone(&self.content), range }))
    }

    fn stat(&self) -> Result<Entry> {
        (self.describe)()
    }
}

struct HeldBody {
    content: Arc<[u8]>,
    range: Range<u64>,
}

impl Body for HeldBody {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(self.content.len());
        let rest = &self.content[place(self.range.start)..place(self.range.end)];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.range.start += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_where_it_begins() {
        assert_eq!(begin_of("bytes 5-9/100"), Some(5));
        assert_eq!(begin_of("bytes */100"), None);
        assert_eq!(begin_of("items 1-2/3"), None);
    }

    #[test]
    fn what_is_held_is_read_in_ranges() {
        let describe: Describe = Box::new(|| Err(Error::new(ErrorKind::NotFound, "gone")));
        let held = Held { content: Arc::from(*b"0123456789"), describe };
        let mut body = held.open(3..7).unwrap();
        let mut buffer = [0; 3];
        assert_eq!((body.read(&mut buffer).unwrap(), &buffer), (3, b"345"));
        assert_eq!((body.read(&mut buffer).unwrap(), buffer[0]), (1, b'6'));
        assert_eq!(body.read(&mut buffer).unwrap(), 0);
    }
}
