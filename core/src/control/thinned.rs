//! A record of bounded length of something that may go on for days.

/// Most entries kept.
pub(super) const CAPACITY: usize = 2000;

/// Keeps every entry while there are few, then every second, every fourth and so on, and always the last.
#[derive(Debug)]
pub(super) struct Thinned<T> {
    kept: Vec<T>,
    stride: usize,
    skipped: usize,
    last: Option<T>,
}

impl<T> Thinned<T> {
    pub(super) fn new() -> Self {
        Self { kept: Vec::new(), stride: 1, skipped: 0, last: None }
    }

    pub(super) fn push(&mut self, entry: T) {
        self.skipped += 1;
        if self.skipped < self.stride {
            self.last = Some(entry);
            return;
        }
        (self.skipped, self.last) = (0, None);
        self.kept.push(entry);
        // One place stays free for the last entry.
        if self.kept.len() == CAPACITY - 1 {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub(super) fn into_vec(mut self) -> Vec<T> {
        self.kept.extend(self.last);
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_record_is_thinned_evenly_and_keeps_its_first_and_last_entry() {
        for count in [1usize, 1999, 2000, 10_000, 123_457] {
            let mut record = Thinned::new();
            (0..count).for_each(|entry| record.push(entry));
            let kept = record.into_vec();
            assert!(kept.len() <= CAPACITY && kept.len() >= count.min(CAPACITY / 2 - 1), "{count}: {}", kept.len());
            assert_eq!((kept[0], kept[kept.len() - 1]), (0, count - 1));
            assert!(kept.is_sorted());
        }
    }
}
