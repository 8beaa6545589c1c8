//! One state of an object, read by ranges.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::Bucket;
use crate::error::Result;
use crate::path::RelativePath;
use crate::store::Entry;
use crate::store::remote::{Body, Kept, Object, Purpose, Ranges};

/// An object in the state that its tag names.
pub(super) struct ObjectRanges {
    bucket: Arc<Bucket>,
    path: RelativePath,
    object: Object,
    /// What the answer to a request for the whole object said of its crc64nvme.
    told: OnceLock<Option<u64>>,
}

impl ObjectRanges {
    pub(super) fn new(bucket: Arc<Bucket>, path: RelativePath, object: Object) -> Self {
        Self { bucket, path, object, told: OnceLock::new() }
    }
}

impl Ranges for ObjectRanges {
    fn open(&self, range: Range<u64>) -> Result<Box<dyn Body>> {
        let whole = range == (0..self.object.size);
        let content = self.bucket.service.get(&self.object, range)?;
        if whole {
            self.told.get_or_init(|| content.crc64nvme);
        }
        Ok(content.body)
    }

    /// Asks nothing where the service gave the object a tag: every range is then asked for on the condition of that tag, so that all
    /// that was read is of this state, whatever has become of the object since.
    fn stat(&self) -> Result<Entry> {
        if self.object.tag.is_some() {
            return Ok(self.bucket.entry(self.path.clone(), &self.object));
        }
        let now = self.bucket.service.head(&self.object.key, Purpose::Read)?;
        Ok(self.bucket.entry(self.path.clone(), &now))
    }

    /// Asks only where the object came in several pieces and its description did not tell it.
    fn crc64nvme(&self) -> Result<Option<u64>> {
        match (self.object.kept, self.told.get()) {
            (Some(Kept::Crc64Nvme(described)), _) => Ok(Some(described)),
            (Some(Kept::Crc32c(_)), _) => Ok(None),
            (None, Some(told)) => Ok(*told),
            (None, None) if self.object.size == 0 => Ok(None),
            (None, None) => self.bucket.service.crc64nvme(&self.object),
        }
    }

    fn crc32c(&self) -> Option<u32> {
        match self.object.kept {
            Some(Kept::Crc32c(described)) => Some(described),
            _ => None,
        }
    }
}
