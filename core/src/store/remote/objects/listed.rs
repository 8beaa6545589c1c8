//! Objects that a listing described, so that opening one of them asks nothing again.

use std::collections::{HashMap, VecDeque};

use crate::store::remote::Object;
use crate::sync::Mutex;

/// Objects that are remembered: more than a transfer lists ahead of what it reads.
const MOST: usize = 32 << 10;

/// The last objects that were described and not opened yet.
#[derive(Default)]
pub(super) struct Listed {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    objects: HashMap<String, Object>,
    /// Keys as they came, those of objects that were taken since too.
    order: VecDeque<String>,
}

impl Listed {
    pub(super) fn insert(&self, object: Object) {
        let mut known = self.known.lock();
        known.order.push_back(object.key.clone());
        known.objects.insert(object.key.clone(), object);
        if known.order.len() > MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.objects.remove(&oldest);
        }
    }

    /// What is known of an object, which is then forgotten: its state may be another by the next time.
    pub(super) fn take(&self, key: &str) -> Option<Object> {
        self.known.lock().objects.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Metadata;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let listed = Listed::default();
        for number in 0..=MOST {
            let key = number.to_string();
            let metadata = Metadata::default();
            listed.insert(Object { key, size: 0, uploaded_ns: None, metadata, tag: None, kept: None });
        }
        assert_eq!(listed.take("0"), None);
        assert!(listed.take("1").is_some() && listed.take("1").is_none());
        assert!(listed.take(&MOST.to_string()).is_some());
    }
}
