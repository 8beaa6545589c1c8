//! What is listed of a transfer, as it travels in the meters of a sender.

use crate::optimizer::{Listed, SizeClass};
use crate::protocol::message::ListedFiles;

/// Classes that there are: as many as bits of a size.
const CLASSES: usize = 64;

/// Most files, and most bytes, that a class is believed to have: those of all classes together are a number that is positive with a sign, too.
const MOST: u64 = i64::MAX as u64 / CLASSES as u64;

/// As a sender tells it.
pub(crate) fn told(listed: &Listed) -> ListedFiles {
    let classes = listed.classes.iter().map(|class| (class.exponent, class.files, class.bytes)).collect();
    ListedFiles { classes, complete: listed.complete }
}

/// As it is understood: of what a peer says only classes that there can be, in their order.
pub(super) fn understood(told: Option<&ListedFiles>) -> Listed {
    let Some(told) = told else { return Listed::default() };
    let mut classes: Vec<SizeClass> = Vec::new();
    for &(exponent, files, bytes) in told.classes.iter().take(CLASSES) {
        let follows = classes.last().is_none_or(|last| last.exponent < exponent);
        if follows && usize::from(exponent) < CLASSES && files > 0 {
            classes.push(SizeClass { exponent, files: files.min(MOST), bytes: bytes.min(MOST) });
        }
    }
    Listed { classes, complete: told.complete }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood_as_it_was() {
        let mut listed = Listed { complete: true, ..Listed::default() };
        for size in [0, 5, 1 << 20, (1 << 20) + 7, u64::from(u32::MAX)] {
            listed.add(size);
        }
        assert_eq!(understood(Some(&told(&listed))), listed);
        assert_eq!(understood(None), Listed::default());
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let classes = vec![(3, 1, 9), (3, 1, 9), (2, 1, 4), (7, 0, 0), (63, u64::MAX, u64::MAX), (64, 1, 1), (255, 1, 1)];
        let listed = understood(Some(&ListedFiles { classes, complete: false }));
        let exponents: Vec<u8> = listed.classes.iter().map(|class| class.exponent).collect();
        assert_eq!(exponents, [3, 63]);
        let full = ListedFiles { classes: (0..=255).map(|exponent| (exponent, u64::MAX, u64::MAX)).collect(), complete: false };
        let listed = understood(Some(&full));
        assert_eq!((listed.classes.len(), listed.files() > 0, listed.bytes() > 0), (CLASSES, true, true));
    }
}
