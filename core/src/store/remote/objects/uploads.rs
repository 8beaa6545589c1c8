//! Uploads in parts: the note on one that may be continued, and those that were never completed.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::super::{Abandoned, AbandonedItem, Objects, Patience, Upload};
use super::{base, below};
use crate::endpoint::ServiceUrl;
use crate::error::Result;

/// What a transfer remembers of an upload under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The URL of the object, for people who look at the file.
    pub(super) url: String,
    pub(super) key: String,
    pub(super) id: String,
    pub(super) size: u64,
    pub(super) part: u64,
}

impl Note {
    pub(super) fn upload(&self) -> Upload {
        Upload { key: self.key.clone(), id: self.id.clone(), begun_ns: None }
    }
}

/// The uploads below a URL.
struct Uploads<S> {
    service: S,
    patience: Patience,
    base: String,
    /// What was listed, by the name that it was given.
    listed: HashMap<String, Vec<Upload>>,
}

/// Opens the bucket of a URL to look for uploads that were not completed.
pub(in crate::store::remote) fn open(service: impl Objects, url: &ServiceUrl) -> Result<Box<dyn Abandoned>> {
    let base = base(url)?.to_string();
    Ok(Box::new(Uploads { service, patience: Patience::new(), base, listed: HashMap::new() }))
}

impl<S: Objects> Uploads<S> {
    fn name(&self, upload: &Upload) -> String {
        format!("{}#{}", self.service.show(&upload.key), upload.id)
    }

    fn is_below(&self, key: &str) -> bool {
        key == self.base || key.starts_with(&below(&self.base))
    }
}

impl<S: Objects> Abandoned for Uploads<S> {
    fn list(&mut self) -> Result<Vec<Result<AbandonedItem>>> {
        let mut found = self.patience.run(|| self.service.uploads(&self.base))?;
        found.retain(|upload| self.is_below(&upload.key));
        self.listed.clear();
        let mut items = Vec::with_capacity(found.len());
        for upload in found {
            let name = self.name(&upload);
            items.push(Ok(AbandonedItem { name: name.clone(), begun_ns: upload.begun_ns, bytes: None }));
            self.listed.entry(name).or_default().push(upload);
        }
        Ok(items)
    }

    fn remove(&self, item: &AbandonedItem) -> Result<()> {
        let mut named = self.listed.get(&item.name).into_iter().flatten();
        named.try_for_each(|upload| self.patience.run(|| self.service.abort(upload)))
    }
}
