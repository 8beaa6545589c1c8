//! Listing: by MLSD, and where a server does not know that by LIST, whose lines are for people.

use super::facts::{self, Facts};
use super::{Ftp, failure, names};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::remote::{Served as _, in_parallel};
use crate::store::{Entry, EntryKind};

/// Characters of a line that are shown.
const MOST_SHOWN: usize = 300;

impl Ftp {
    pub(super) fn machine_children(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        let lines = self.call("list", path, |control, whole| control.mlsd(Some(whole)))?;
        self.entries(path, &lines, |line| facts::of_machine_line(line).map(|(facts, name)| (facts, name.to_owned())))
    }

    /// Lists with what people read; times are asked for one by one, for these lines have them without seconds and zone.
    pub(super) fn plain_children(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        let all = self.call("list", path, |control, whole| control.list(Some(&format!("-a {whole}"))));
        let lines = match all {
            Err(error) if failure::is_refusal(&error) => self.call("list", path, |control, whole| control.list(Some(whole)))?,
            lines => lines?,
        };
        let mut entries = self.entries(path, &lines, facts::of_list_line)?;
        if !self.pool.server()?.has("MDTM") {
            // Nor is a time told of a single file: listed with one, each would look as if it had changed since.
            for entry in &mut entries {
                entry.modified_ns = None;
            }
            return Ok(entries);
        }
        let dated = in_parallel(entries, |mut entry| {
            if entry.kind == EntryKind::File {
                entry.modified_ns = self.modified(&entry.path)?;
            }
            Ok(entry)
        });
        dated.into_iter().collect()
    }

    /// What the lines of a listing name. One that is not understood fails all: a mirror would take what it names for gone.
    pub(super) fn entries(
        &self,
        directory: &RelativePath,
        lines: &[String],
        read: impl Fn(&str) -> Option<(Facts, String)>,
    ) -> Result<Vec<Entry>> {
        let mut entries = Vec::with_capacity(lines.len());
        for line in lines.iter().filter(|line| !facts::names_nothing(line)) {
            let (facts, name) = read(line).ok_or_else(|| self.not_understood(directory, line))?;
            if !facts.own {
                entries.extend(self.child(directory, facts, &name));
            }
        }
        Ok(entries)
    }

    fn not_understood(&self, directory: &RelativePath, line: &str) -> Error {
        let line: String = String::from_utf8_lossy(&names::bytes(line)).chars().take(MOST_SHOWN).collect();
        Error::new(ErrorKind::Protocol, self.what("list", directory))
            .with_cause(format!("the server's list has a line of a form that edt does not read: `{}`", line.escape_debug()))
            .with_hint("use another protocol of the server, or let its owner turn on the commands MLST and MLSD of RFC 3659")
    }

    fn child(&self, directory: &RelativePath, facts: Facts, name: &str) -> Option<Entry> {
        match facts::child(directory, name) {
            Ok(path) => Some(facts.entry(path)),
            Err(error) => {
                tracing::warn!(%error, directory = %self.show(directory), "an entry is left out");
                None
            }
        }
    }
}
