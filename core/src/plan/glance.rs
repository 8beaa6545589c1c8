//! A first look at the sources of a transfer: enough to tell little work from much, and too short to delay either.

use std::time::{Duration, Instant};

use crate::optimizer::Extent;
use crate::plan::Filter;
use crate::plan::pattern::is_pattern;
use crate::plan::walk::walk;
use crate::protocol::message::Root;
use crate::store::{EntryKind, Store};

/// Most items that are looked at, and about how long.
const MOST: (u64, Duration) = (16_384, Duration::from_millis(10));

/// How much there is below the roots, as far as a short look tells; `None` where they cannot be listed, or where it may take long to find
/// the first that is wanted.
pub(crate) fn glance(store: &dyn Store, roots: &[Root], filter: &Filter) -> Option<Extent> {
    if filter.includes_few() || roots.iter().any(|root| is_pattern(&root.path)) {
        return None;
    }
    let begun = Instant::now();
    let mut extent = Extent { items: 0, bytes: 0, complete: true };
    for found in walk(store, roots, filter).ok()? {
        if extent.items >= MOST.0 || extent.bytes > Extent::SHORT || begun.elapsed() > MOST.1 {
            extent.complete = false;
            break;
        }
        extent.items += 1;
        if let Ok(item) = found
            && item.entry.kind == EntryKind::File
        {
            extent.bytes = extent.bytes.saturating_add(item.entry.size);
        }
    }
    Some(extent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Symlinks;
    use crate::store::local::LocalStore;
    use crate::store::null::ZeroStore;

    fn of(store: &dyn Store, exclude: &[String]) -> Option<Extent> {
        glance(store, &[Root::default()], &Filter::new(&[], exclude).unwrap())
    }

    #[test]
    fn a_tree_is_looked_at_as_it_will_be_sent() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("below")).unwrap();
        for (name, size) in [("a", 10), ("below/b", 20), ("below/c.log", 40)] {
            std::fs::write(place.path().join(name), vec![0; size]).unwrap();
        }
        let store = LocalStore::open(place.path(), Symlinks::Keep);
        // The directory itself and the one below it are items too.
        assert_eq!(of(&store, &[]), Some(Extent { items: 5, bytes: 70, complete: true }));
        assert_eq!(of(&store, &["*.log".to_owned()]), Some(Extent { items: 4, bytes: 30, complete: true }));
        let file = Root { path: b"below/b".to_vec(), prefix: Vec::new() };
        assert_eq!(glance(&store, &[file], &Filter::new(&[], &[]).unwrap()), Some(Extent::of_file(20)));
        let missing = Root { path: b"none".to_vec(), prefix: Vec::new() };
        assert_eq!(glance(&store, &[missing], &Filter::new(&[], &[]).unwrap()), None);
    }

    #[test]
    fn nobody_looks_for_the_first_of_few() {
        let store = ZeroStore::new(1_000_000, 1);
        let wanted = Filter::new(&["none".to_owned()], &[]).unwrap();
        assert_eq!(glance(&store, &[Root::default()], &wanted), None);
        let pattern = Root { path: b"*.none".to_vec(), prefix: Vec::new() };
        assert_eq!(glance(&store, &[pattern], &Filter::new(&[], &[]).unwrap()), None);
    }

    #[test]
    fn of_much_work_only_a_part_is_looked_at() {
        let many = of(&ZeroStore::new(1_000_000, 1), &[]).unwrap();
        assert!(!many.complete && many.items <= MOST.0, "{many:?}");
        let large = of(&ZeroStore::new(1_000_000, 1 << 30), &[]).unwrap();
        assert!(!large.complete && large.bytes <= Extent::SHORT + (1 << 30), "{large:?}");
        assert_eq!(of(&ZeroStore::new(1, 7), &[]), Some(Extent { items: 2, bytes: 7, complete: true }));
    }
}
