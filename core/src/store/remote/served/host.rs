//! What all calls on one file server share: the service, patience with it, and what is known of its directories.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::recent::Recent;
use super::staging::{self, Staging};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::remote::{Patience, Served};
use crate::store::{Entry, EntryKind};
use crate::sync::Mutex;

/// A service, and what is remembered of it while the store is open.
pub(super) struct Host {
    pub(super) service: Box<dyn Served>,
    pub(super) patience: Patience,
    pub(super) recent: Recent,
    pub(super) staging: Staging,
    /// Directories that are certainly there.
    pub(super) known: Mutex<HashSet<RelativePath>>,
    /// How often a file has been lost since one was published.
    losses: AtomicU32,
    interrupted: AtomicBool,
}

impl Host {
    pub(super) fn new(service: impl Served, base: RelativePath, directory: bool) -> Self {
        Self {
            service: Box::new(service),
            patience: Patience::new(),
            recent: Recent::default(),
            staging: Staging::new(base, directory),
            known: Mutex::default(),
            losses: AtomicU32::new(0),
            interrupted: AtomicBool::new(false),
        }
    }

    /// What the URL named.
    pub(super) fn base(&self) -> &RelativePath {
        self.staging.base()
    }

    /// Makes attempts as long as a further one may help.
    pub(super) fn run<T>(&self, mut attempt: impl FnMut(&dyn Served) -> Result<T>) -> Result<T> {
        self.patience.run(|| attempt(self.service.as_ref()))
    }

    /// Describes an entry. Of the URL's own name, a link that leads to a directory is described as one.
    pub(super) fn stat(&self, path: &RelativePath) -> Result<Entry> {
        self.check_name(path)?;
        let mut entry = self.run(|service| service.stat(path))?;
        if matches!(entry.kind, EntryKind::Symlink(_)) && path == self.base() && self.leads_to_a_directory(path) {
            entry.kind = EntryKind::Directory;
        }
        Ok(entry)
    }

    /// Whether a link can be listed.
    pub(super) fn leads_to_a_directory(&self, link: &RelativePath) -> bool {
        self.run(|service| service.children(link)).is_ok()
    }

    /// Partial files do not exist for callers.
    pub(super) fn check_name(&self, path: &RelativePath) -> Result<()> {
        if !staging::holds(path) {
            return Ok(());
        }
        let refused = self.failed("find", path, ErrorKind::NotFound, "its name is reserved for directories of partial files");
        Err(refused.with_hint("use another name"))
    }

    /// The same for a name under which something is to stand.
    pub(super) fn check_new_name(&self, path: &RelativePath) -> Result<()> {
        self.check_name(path)?;
        self.service.check_name(path)
    }

    /// An error about an entry.
    pub(super) fn failed(&self, operation: &str, path: &RelativePath, kind: ErrorKind, cause: &str) -> Error {
        Error::new(kind, format!("could not {operation} `{}`", self.service.show(path))).with_cause(cause)
    }

    /// A file was lost on the way, and will begin again: what disturbed it is given the time to pass.
    pub(super) fn rest_after_loss(&self) {
        self.patience.rest(self.losses.fetch_add(1, Ordering::Relaxed));
    }

    /// A file has come to its name.
    pub(super) fn published(&self) {
        self.losses.store(0, Ordering::Relaxed);
    }

    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.patience.interrupt();
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}
