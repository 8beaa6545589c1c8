//! A streaming walk: depth first, with the directories that come next on their way while the present one is handed out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::host::Host;
use super::staging;
use crate::error::{ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::{Depth, Entry, EntryKind, Prune};

/// Directories that are asked for at once.
const AHEAD: usize = 8;

/// Directories that may have been asked for and not handed out: bounds their entries in memory.
const ASKED: usize = 4 * AHEAD;

/// Whether partial files are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    LeftOut,
    Shown,
}

type Children = Result<Vec<Entry>>;

/// A directory that a thread asks for.
struct Job {
    directory: RelativePath,
    answer: Sender<Children>,
}

/// A directory that is handed out later, and its entries if it was asked for.
struct Coming {
    directory: RelativePath,
    answer: Option<Receiver<Children>>,
}

/// Yields what is below a directory.
pub(super) struct Walk {
    host: Arc<Host>,
    depth: Depth,
    prune: Prune,
    hidden: Hidden,
    present: std::vec::IntoIter<Entry>,
    /// Directories of the present one, in its order.
    found: Vec<RelativePath>,
    /// The next one last.
    coming: Vec<Coming>,
    asked: usize,
    ahead: Ahead,
}

impl Walk {
    /// Asks for the directory itself; an error of that is the listing's.
    pub(super) fn new(
        host: &Arc<Host>,
        directory: &RelativePath,
        (depth, prune): (Depth, Prune),
        hidden: Hidden,
    ) -> Result<Self> {
        let entries = host.run(|service| service.children(directory))?;
        let mut walk = Self {
            host: Arc::clone(host),
            depth,
            prune,
            hidden,
            present: Vec::new().into_iter(),
            found: Vec::new(),
            coming: Vec::new(),
            asked: 0,
            ahead: Ahead::default(),
        };
        walk.present = walk.visible(entries).into_iter();
        Ok(walk)
    }

    fn visible(&self, mut entries: Vec<Entry>) -> Vec<Entry> {
        if self.hidden == Hidden::LeftOut {
            entries.retain(|entry| !entry.path.name().is_some_and(staging::is_directory));
        }
        entries
    }

    /// Asks for the directories that come next.
    fn look_ahead(&mut self) {
        for coming in self.coming.iter_mut().rev().take(AHEAD).filter(|coming| coming.answer.is_none()) {
            if self.asked >= ASKED {
                return;
            }
            let (answer, receiver) = bounded(1);
            if !self.ahead.ask(&self.host, Job { directory: coming.directory.clone(), answer }) {
                return;
            }
            coming.answer = Some(receiver);
            self.asked += 1;
        }
    }

    fn children(&mut self, coming: &Coming) -> Children {
        let Some(answer) = &coming.answer else {
            return self.host.run(|service| service.children(&coming.directory));
        };
        self.asked -= 1;
        answer.recv().unwrap_or_else(|_| {
            Err(self.host.failed("list", &coming.directory, ErrorKind::Io, "the thread that asked for it ended"))
        })
    }

    /// Asks whether an entry is left out, and remembers what is below it for later.
    fn takes(&mut self, entry: &Entry) -> bool {
        if entry.kind == EntryKind::Directory {
            if (self.prune)(&entry.path) {
                return false;
            }
            if self.depth == Depth::Tree {
                self.found.push(entry.path.clone());
            }
        }
        self.host.recent.add(entry);
        true
    }
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some(entry) = self.present.next() {
                if self.takes(&entry) {
                    return Some(Ok(entry));
                }
            }
            let found = std::mem::take(&mut self.found);
            self.coming.extend(found.into_iter().rev().map(|directory| Coming { directory, answer: None }));
            let next = self.coming.pop()?;
            self.look_ahead();
            match self.children(&next) {
                Ok(entries) => self.present = self.visible(entries).into_iter(),
                Err(error) => return Some(Err(error.about(&next.directory))),
            }
        }
    }
}

/// The threads that ask for directories, started as they are needed and joined with the walk.
#[derive(Default)]
struct Ahead {
    jobs: Option<(Sender<Job>, Receiver<Job>)>,
    threads: Vec<JoinHandle<()>>,
    over: Arc<AtomicBool>,
}

impl Ahead {
    /// Hands a job to a thread; false if there is none and none can be started.
    fn ask(&mut self, host: &Arc<Host>, job: Job) -> bool {
        let (sender, receiver) = self.jobs.get_or_insert_with(|| bounded(ASKED));
        if self.threads.len() < AHEAD {
            let (host, receiver, over) = (Arc::clone(host), receiver.clone(), Arc::clone(&self.over));
            let body = move || {
                for job in &receiver {
                    if !over.load(Ordering::Relaxed) {
                        let _ = job.answer.send(host.run(|service| service.children(&job.directory)));
                    }
                }
            };
            self.threads.extend(std::thread::Builder::new().name("edt-list".to_owned()).spawn(body));
        }
        !self.threads.is_empty() && sender.send(job).is_ok()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
