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

/// Thins what several records hold, one after the other on one time line, to no more than one keeps: those go that
/// come soon after one that stays, but never the last.
pub(super) fn thin<T>(entries: &mut Vec<T>, at_s: impl Fn(&T) -> f64) {
    let (Some(first), Some(last)) = (entries.first().map(&at_s), entries.last().map(&at_s)) else { return };
    if entries.len() <= CAPACITY {
        return;
    }
    // One place stays free for the last entry, which may come soon.
    let apart_s = ((last - first) / (CAPACITY - 2) as f64).max(f64::MIN_POSITIVE);
    let (mut left, mut kept_s) = (entries.len(), f64::NEG_INFINITY);
    entries.retain(|entry| {
        left -= 1;
        let stays = at_s(entry) - kept_s >= apart_s;
        if stays {
            kept_s = at_s(entry);
        }
        stays || left == 0
    });
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

    #[test]
    fn the_records_of_many_sessions_are_thinned_evenly_together() {
        let mut all = Vec::new();
        for session in 0..20 {
            all.extend(session * CAPACITY..(session + 1) * CAPACITY);
            let end = (session + 1) * CAPACITY - 1;
            thin(&mut all, |entry| *entry as f64);
            assert!(all.len() <= CAPACITY && all.len() >= CAPACITY / 2, "{session}: {}", all.len());
            assert_eq!((all[0], all[all.len() - 1]), (0, end));
            assert!(all.windows(2).all(|pair| pair[0] < pair[1] && pair[1] - pair[0] <= 4 * end / (CAPACITY - 2)));
        }
    }

    #[test]
    fn few_entries_stay_as_they_are_and_many_of_one_moment_are_no_trouble() {
        let mut few: Vec<usize> = (0..CAPACITY).collect();
        thin(&mut few, |_| 5.0);
        assert_eq!(few.len(), CAPACITY);
        few.push(CAPACITY);
        thin(&mut few, |_| 5.0);
        assert_eq!(few, [0, CAPACITY]);
        thin(&mut Vec::<usize>::new(), |_| 5.0);
    }
}
