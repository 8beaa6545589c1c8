//! Requests about files: list, describe, remove, make, digest.

use crate::error::{Error, Result};
use crate::files::digest_file;
use crate::link::Control;
use crate::path::RelativePath;
use crate::protocol::message::{Answer, ItemFailed, Message, Request, WireEntry, parts};
use crate::server::Shared;
use crate::store::{Depth, Store};

/// Entries of one part of a listing.
const ENTRIES: usize = 128;

impl Shared {
    /// Answers one request; only a broken connection is an error here.
    pub(super) fn answer(&self, control: &Control, request: Request) -> Result<()> {
        let answer = match self.respond(control, request) {
            Ok(answer) => answer,
            Err(error) => Some(Answer::Failed((&error).into())),
        };
        answer.map_or(Ok(()), |answer| control.sender.send(&Message::Answer(answer)))
    }

    fn respond(&self, control: &Control, request: Request) -> Result<Option<Answer>> {
        match request {
            Request::List { path, tree } => {
                let depth = if tree { Depth::Tree } else { Depth::One };
                self.list(control, &RelativePath::from_bytes(&path)?, depth).map(|()| None)
            }
            Request::Stat(path) => {
                let entry = self.store.stat(&RelativePath::from_bytes(&path)?)?;
                Ok(Some(Answer::Entries { entries: vec![entry.into()], failed: Vec::new(), last: true }))
            }
            Request::Remove { path, tree } => {
                self.writable()?;
                let depth = if tree { Depth::Tree } else { Depth::One };
                self.store.remove(&RelativePath::from_bytes(&path)?, depth).map(|()| Some(Answer::Done))
            }
            Request::CreateDirectory(path) => {
                self.writable()?;
                self.store.create_directory(&RelativePath::from_bytes(&path)?).map(|()| Some(Answer::Done))
            }
            Request::Digest(path) => self.digest(&RelativePath::from_bytes(&path)?).map(Some),
        }
    }

    fn list(&self, control: &Control, path: &RelativePath, depth: Depth) -> Result<()> {
        let (mut entries, mut failed) = (Vec::new(), Vec::new());
        let nothing: crate::store::Prune = std::sync::Arc::new(|_: &RelativePath| false);
        for entry in self.store.list(path, depth, nothing)? {
            match entry {
                Ok(entry) => entries.push(entry.into()),
                Err(error) => failed.push(ItemFailed { file: 0, path: Vec::new(), failed: (&error).into() }),
            }
            if entries.len() + failed.len() >= ENTRIES {
                tell(control, &std::mem::take(&mut entries), &std::mem::take(&mut failed))?;
            }
        }
        tell(control, &entries, &failed)?;
        control.sender.send(&Message::Answer(Answer::Entries { entries: Vec::new(), failed: Vec::new(), last: true }))
    }

    fn digest(&self, path: &RelativePath) -> Result<Answer> {
        let digests = digest_file(self.store.as_ref(), path, &|| self.ending.is_set())?;
        let broken = || Error::new(crate::ErrorKind::Io, format!("could not digest `{path}`"));
        let crc64nvme = u64::from_str_radix(&digests.crc64nvme, 16).map_err(|_| broken())?;
        let blake3 = blake3::Hash::from_hex(&digests.blake3).map_err(|_| broken())?;
        Ok(Answer::Digests { size: digests.size, crc64nvme, blake3: *blake3.as_bytes() })
    }
}

/// Tells entries in as many messages as their names and causes take.
fn tell(control: &Control, entries: &[WireEntry], failed: &[ItemFailed]) -> Result<()> {
    for entries in parts(entries, ENTRIES) {
        let entries = Answer::Entries { entries: entries.to_vec(), failed: Vec::new(), last: false };
        control.sender.send(&Message::Answer(entries))?;
    }
    for failed in parts(failed, ENTRIES) {
        let failed = Answer::Entries { entries: Vec::new(), failed: failed.to_vec(), last: false };
        control.sender.send(&Message::Answer(failed))?;
    }
    Ok(())
}
