//! Texts in one block of bytes, each ended by a NUL, which no name and no URL can hold.

use std::fmt::{Display, Write as _};

use edt::path::RelativePath;
use edt::store::{Entry, EntryKind};
use edt::{Error, ErrorKind, Result};

/// Fields that are read one after another.
pub(crate) struct Fields<'a> {
    rest: std::str::Split<'a, char>,
}

impl<'a> Fields<'a> {
    /// Takes a block apart.
    pub(crate) fn of(block: &'a [u8]) -> Result<Self> {
        let text = std::str::from_utf8(block).map_err(|cause| mistaken("a block of fields").with_cause(cause))?;
        let mut rest = text.split('\0');
        // Each field is ended, so that nothing stands behind the last one.
        rest.next_back();
        Ok(Self { rest })
    }

    /// The next field, which must be there.
    pub(crate) fn field(&mut self) -> Result<&'a str> {
        self.rest.next().ok_or_else(|| mistaken("a block of fields").with_cause("it has too few"))
    }

    /// The next field as a path below a root.
    pub(crate) fn path(&mut self) -> Result<RelativePath> {
        RelativePath::from_user(self.field()?)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.rest.next()
    }
}

/// A block that is written.
#[derive(Default)]
pub(crate) struct Block(String);

impl Block {
    /// Adds a field.
    pub(crate) fn add(&mut self, field: impl Display) -> &mut Self {
        let begin = self.0.len();
        write!(self.0, "{field}").expect("a text takes all that is written to it");
        if self.0[begin..].contains('\0') {
            let without = self.0[begin..].replace('\0', " ");
            self.0.replace_range(begin.., &without);
        }
        self.0.push('\0');
        self
    }

    /// Adds a field that may be missing, which is written as nothing.
    pub(crate) fn add_any(&mut self, field: Option<impl Display>) -> &mut Self {
        match field {
            Some(field) => self.add(field),
            None => self.add(""),
        }
    }

    /// Adds the fields of an entry: kind, size, time in nanoseconds, permission bits, path. What a link leads to has its kind in capitals.
    pub(crate) fn add_entry(&mut self, entry: &Entry, linked: bool) -> &mut Self {
        let kind = match entry.kind {
            EntryKind::File if linked => 'F',
            EntryKind::Directory if linked => 'D',
            EntryKind::File => 'f',
            EntryKind::Directory => 'd',
            EntryKind::Symlink(_) => 'l',
            EntryKind::Other => 'o',
        };
        self.add(kind).add(entry.size).add_any(entry.modified_ns).add_any(entry.mode).add(&entry.path)
    }

    /// The bytes of all fields.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// What the Java side has written wrongly.
pub(crate) fn mistaken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not use {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_written() {
        let mut block = Block::default();
        block.add("a b").add("").add(7).add_any(None::<u8>).add("ü\0x");
        let bytes = block.into_bytes();
        let fields: Vec<&str> = Fields::of(&bytes).unwrap().collect();
        assert_eq!(fields, ["a b", "", "7", "", "ü x"]);
    }

    #[test]
    fn a_field_that_is_missing_is_an_error() {
        let mut fields = Fields::of(b"one\0").unwrap();
        assert_eq!(fields.field().unwrap(), "one");
        assert!(fields.field().is_err());
        assert!(Fields::of(b"").unwrap().field().is_err());
    }
}
