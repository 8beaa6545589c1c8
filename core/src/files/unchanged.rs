//! A file of this machine that is read as one state: bytes that may be of another one are not handed out.

use std::ops::Range;

use super::remote::changed;
use crate::error::Result;
use crate::path::RelativePath;
use crate::protocol::message::FileState;
use crate::store::{Entry, Reader, Store};

/// Opens a file of a store. One that lies at a service is held to its state there.
pub(super) fn open(store: &dyn Store, path: &RelativePath) -> Result<Box<dyn Reader>> {
    let reader = store.open(path)?;
    if !store.capabilities().flushes {
        return Ok(reader);
    }
    let entry = reader.stat()?;
    Ok(Box::new(Unchanged { reader, entry }))
}

/// An open file, and what it was when it was opened.
struct Unchanged {
    reader: Box<dyn Reader>,
    entry: Entry,
}

impl Reader for Unchanged {
    /// What is the same after the read as when the file was opened was so between.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let count = self.reader.read_at(offset, buffer)?;
        if FileState::from(&self.reader.stat()?) == FileState::from(&self.entry) {
            Ok(count)
        } else {
            Err(changed(&self.entry.path))
        }
    }

    fn stat(&self) -> Result<Entry> {
        Ok(self.entry.clone())
    }

    fn hole(&self, offset: u64) -> Option<u64> {
        self.reader.hole(offset)
    }

    fn crc64nvme(&self) -> Result<Option<u64>> {
        self.reader.crc64nvme()
    }

    fn expect(&self, range: Range<u64>) {
        self.reader.expect(range);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::error::ErrorKind;
    use crate::store::local::LocalStore;

    #[test]
    fn bytes_of_a_file_that_changed_are_not_handed_out() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a");
        let store = LocalStore::open(directory.path(), crate::options::Symlinks::Keep);
        let changes: [&dyn Fn(); 3] =
            [&|| fs::write(&file, "longer than before").unwrap(), &|| fs::write(&file, "short").unwrap(), &|| {
                let written = fs::File::options().write(true).open(&file).unwrap();
                written.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(5)).unwrap();
            }];
        for change in changes {
            fs::write(&file, "0123456789").unwrap();
            let reader = open(&store, &RelativePath::from_user("a").unwrap()).unwrap();
            assert_eq!(reader.read_at(2, &mut [0; 3]).unwrap(), 3);
            change();
            assert_eq!(reader.read_at(2, &mut [0; 3]).unwrap_err().kind(), ErrorKind::SourceChanged);
        }
    }
}
