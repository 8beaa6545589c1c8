//! Copies between buckets of one service, made by the service.

use std::sync::Arc;

use super::Bucket;
use super::publish::{Target, make};
use crate::endpoint::ServiceUrl;
use crate::error::Result;
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::store::remote::state::State;
use crate::store::remote::{About, CopySource, Objects, Purpose};
use crate::store::{Copier, NewFile, RetryWatcher};

/// What copies objects of the source's bucket into the bucket of `service`, which can.
pub(in crate::store::remote) fn copier(service: impl Objects, source: &ServiceUrl) -> Arc<dyn Copier> {
    let bucket = Bucket::new(Box::new(service), Purpose::Write, State::open());
    Arc::new(ObjectCopier { bucket, from: source.host.clone() })
}

struct ObjectCopier {
    /// Where the copies go.
    bucket: Bucket,
    /// The name of the bucket where the sources are.
    from: String,
}

impl Copier for ObjectCopier {
    fn copy(&self, from: &RelativePath, file: &NewFile, overwrite: Overwrite) -> Result<Option<u64>> {
        let (from, key) = (self.bucket.key(from)?, self.bucket.key(&file.path)?);
        let about = About { metadata: file.metadata.clone(), crc64nvme: None, overwrite };
        let source = CopySource { bucket: &self.from, key: &from, size: file.size };
        let target = Target { bucket: &self.bucket, key: &key, size: file.size };
        make(&target, &about, || self.bucket.service.copy(&source, &key, &about, &self.bucket.patience))
    }

    fn interrupt(&self) {
        self.bucket.patience.interrupt();
    }

    fn watch(&self, watcher: &RetryWatcher) {
        self.bucket.patience.watch(watcher);
    }
}
