//! Listing a directory: several requests ahead, for a server tells about a hundred names in one reply.

use std::collections::VecDeque;

use super::connection::{Connection, Handle};
use super::pool::Want;
use super::reply::{Attributes, Name};
use super::request::Request;
use super::{Sftp, entry_of, kind_of, target};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::remote::Served;
use crate::store::{Entry, EntryKind};

/// Requests that are under way at most, of a directory that turns out to be long.
const AHEAD: usize = 32;

/// Names that are asked about at a time.
const GROUP: usize = 256;

impl Sftp {
    /// The direct children of a directory, with the targets of links.
    pub(super) fn list(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        let lease = self.pool.lease(Want::Brief)?;
        let connection = lease.connection();
        let what = || self.could_not("list", path);
        let opened = connection.send(Request::open_directory(&self.wire(path)))?;
        let handle = Handle::take(connection, opened, what).map_err(|error| self.no_directory(path, error))?;
        let mut entries = Vec::new();
        let (mut asked, mut ahead, mut ended) = (VecDeque::new(), 2, false);
        loop {
            while !ended && asked.len() < ahead {
                asked.push_back(connection.send(Request::read_directory(&handle.name))?);
            }
            let Some(ticket) = asked.pop_front() else { break };
            match ticket.wait()?.names(what)? {
                Some(names) => self.describe(connection, path, names, &mut entries)?,
                None => ended = true,
            }
            ahead = (ahead * 2).min(AHEAD);
        }
        Ok(entries)
    }

    /// Makes entries of names, and asks for what the listing left out of them.
    fn describe(&self, connection: &Connection, path: &RelativePath, names: Vec<Name>, entries: &mut Vec<Entry>) -> Result<()> {
        let below = names.into_iter().filter(|name| name.name != b"." && name.name != b"..");
        let below: Vec<(RelativePath, Attributes)> =
            below.map(|name| Ok((path.child(&name.name)?, name.attributes))).collect::<Result<_>>()?;
        for group in below.chunks(GROUP) {
            let mut links = Vec::new();
            for (path, attributes) in self.complete(connection, group)? {
                let kind = kind_of(&attributes);
                if matches!(kind, EntryKind::Symlink(_)) {
                    links.push((entries.len(), connection.send(Request::read_link(&self.wire(&path)))?));
                }
                entries.push(entry_of(path, &attributes, kind));
            }
            for (index, ticket) in links {
                let entry = &mut entries[index];
                let names = ticket.wait()?.names(|| self.could_not("read the link", &entry.path))?;
                entry.kind = EntryKind::Symlink(target(names).ok_or_else(|| self.no_target(&entry.path))?);
            }
        }
        Ok(())
    }

    /// Asks for the attributes of names that came without; one that is gone since is left out.
    fn complete(&self, connection: &Connection, group: &[(RelativePath, Attributes)]) -> Result<Vec<(RelativePath, Attributes)>> {
        let mut asked = Vec::with_capacity(group.len());
        for (path, attributes) in group {
            let known = attributes.mode.is_some() && attributes.size.is_some();
            let ticket = if known { None } else { Some(connection.send(Request::describe(&self.wire(path)))?) };
            asked.push((path, attributes, ticket));
        }
        let mut complete = Vec::with_capacity(group.len());
        for (path, attributes, ticket) in asked {
            let Some(ticket) = ticket else {
                complete.push((path.clone(), *attributes));
                continue;
            };
            match ticket.wait()?.attributes(|| self.could_not("look at", path)) {
                Ok(attributes) => complete.push((path.clone(), attributes)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(complete)
    }

    /// The error for what cannot be opened as a directory, which version 3 does not tell from other failures.
    fn no_directory(&self, path: &RelativePath, error: Error) -> Error {
        match self.stat(path) {
            Ok(entry) if error.kind() == ErrorKind::Io && entry.kind != EntryKind::Directory => {
                Error::new(ErrorKind::WrongType, error.what()).with_cause("it is no directory")
            }
            _ => error,
        }
    }

    /// The error for a link whose target the server does not tell.
    pub(super) fn no_target(&self, path: &RelativePath) -> Error {
        Error::new(ErrorKind::Protocol, self.could_not("read the link", path)).with_cause("the server names no target")
    }
}
