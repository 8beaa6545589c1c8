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
        let read = |line: &str| facts::of_machine_line(line).map(|(facts, name)| (facts, name.to_owned()));
        let told = self.told(path, &lines, read)?;
        let (lacking, whole): (Vec<_>, Vec<_>) = told.into_iter().partition(|(_, facts)| facts.lacks_size());
        let mut entries: Vec<Entry> = whole.into_iter().map(|(path, facts)| facts.entry(path)).collect();
        for entry in in_parallel(lacking, |(path, facts)| self.described(path, facts)) {
            entries.push(entry?);
        }
        Ok(entries)
    }

    /// The entry of facts, with the size of a file that lacks it. A file whose size the server does not tell is there and cannot be read,
    /// and keeps no others from being listed.
    pub(super) fn described(&self, path: RelativePath, facts: Facts) -> Result<Entry> {
        match self.sized(&path, facts) {
            Err(error) if failure::is_refusal(&error) => {
                self.unsized_files.lock().insert(path.clone(), error);
                Ok(Facts::of(EntryKind::Other).entry(path))
            }
            Err(error) => Err(error),
            Ok(facts) => Ok(facts.entry(path)),
        }
    }

    /// Facts with the size of a file, which is asked for if they lack it.
    fn sized(&self, path: &RelativePath, mut facts: Facts) -> Result<Facts> {
        if facts.lacks_size() {
            let size = self.call("find out the size of", path, |control, whole| control.size(whole)).map_err(|error| {
                let hint = "use another protocol of the server, or let its owner have MLSD tell the fact `size`";
                if failure::is_refusal(&error) { error.with_hint(hint) } else { error }
            })?;
            facts.size = Some(size as u64);
        }
        Ok(facts)
    }

    /// Lists with what people read; times are asked for one by one, for these lines have them without seconds and zone.
    pub(super) fn plain_children(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        let all = self.call("list", path, |control, whole| control.list(Some(&format!("-a {whole}"))));
        let lines = match all {
            Err(error) if failure::is_refusal(&error) => self.call("list", path, |control, whole| control.list(Some(whole)))?,
            lines => lines?,
        };
        let told = self.told(path, &lines, facts::of_list_line)?;
        let mut entries: Vec<Entry> = told.into_iter().map(|(path, facts)| facts.entry(path)).collect();
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
    pub(super) fn told(
        &self,
        directory: &RelativePath,
        lines: &[String],
        read: impl Fn(&str) -> Option<(Facts, String)>,
    ) -> Result<Vec<(RelativePath, Facts)>> {
        let mut told = Vec::with_capacity(lines.len());
        for line in lines.iter().filter(|line| !facts::names_nothing(line)) {
            let (facts, name) = read(line).ok_or_else(|| self.not_understood(directory, line))?;
            if !facts.own {
                told.extend(self.child(directory, &name).map(|path| (path, facts)));
            }
        }
        Ok(told)
    }

    fn not_understood(&self, directory: &RelativePath, line: &str) -> Error {
        let line: String = String::from_utf8_lossy(&names::bytes(line)).chars().take(MOST_SHOWN).collect();
        Error::new(ErrorKind::Protocol, self.what("list", directory))
            .with_cause(format!("the server's list has a line of a form that edt does not read: `{}`", line.escape_debug()))
            .with_hint(if self.pool.known().is_some_and(|server| server.has("MLST")) {
                "use another protocol of the server: what it answers to MLSD is not what RFC 3659 says"
            } else {
                "use another protocol of the server, or let its owner turn on the commands MLST and MLSD of RFC 3659"
            })
    }

    fn child(&self, directory: &RelativePath, name: &str) -> Option<RelativePath> {
        match facts::child(directory, name) {
            Ok(path) => Some(path),
            Err(error) => {
                tracing::warn!(%error, directory = %self.show(directory), "an entry is left out");
                None
            }
        }
    }
}
