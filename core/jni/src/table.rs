//! Things that Java holds by a number: a wrong or old one is an error, and never a pointer into nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use edt::Result;
use edt::sync::Mutex;

use crate::fields::mistaken;

/// A table of things by their numbers, from 1.
pub(crate) struct Table<T> {
    things: Mutex<(i64, BTreeMap<i64, Arc<T>>)>,
}

impl<T> Table<T> {
    /// An empty table.
    pub(crate) const fn new() -> Self {
        Self { things: Mutex::new((0, BTreeMap::new())) }
    }

    /// Adds a thing and returns its number.
    pub(crate) fn add(&self, thing: T) -> i64 {
        let mut things = self.things.lock();
        things.0 += 1;
        let number = things.0;
        things.1.insert(number, Arc::new(thing));
        number
    }

    /// The thing of a number.
    pub(crate) fn find(&self, number: i64) -> Result<Arc<T>> {
        let found = self.things.lock().1.get(&number).cloned();
        found.ok_or_else(|| mistaken("a handle").with_cause(format!("there is no {number}, or it was closed")))
    }

    /// Takes a thing out of the table; none if it is not there.
    pub(crate) fn remove(&self, number: i64) -> Option<Arc<T>> {
        self.things.lock().1.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_closed_is_an_error() {
        let table = Table::new();
        let number = table.add("thing");
        assert_eq!(*table.find(number).unwrap(), "thing");
        table.remove(number);
        assert!(table.find(number).is_err() && table.remove(number).is_none());
    }
}
