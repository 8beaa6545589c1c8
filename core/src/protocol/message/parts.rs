//! Cutting lists, so that each message stays below its limit whatever the names and texts in them are.

use std::convert::Infallible;

use minicbor::Encode;

use super::MAX_MESSAGE;

/// The most bytes of the items of one part, unless one alone has more; the other half is for what travels beside them.
const MOST_BYTES: usize = MAX_MESSAGE / 2;

/// Cuts a list into parts of at most `most` items and half of [`MAX_MESSAGE`] encoded; an empty list has none.
pub fn parts<T: Encode<()>>(items: &[T], most: usize) -> impl Iterator<Item = &[T]> {
    let mut rest = items;
    std::iter::from_fn(move || {
        let (part, after) = rest.split_at(fitting(rest, most));
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// How many of the first items fit into one part: at least one, if there is any.
fn fitting<T: Encode<()>>(items: &[T], most: usize) -> usize {
    let mut bytes = 0;
    let fits = items.iter().take(most).take_while(|item| {
        bytes += encoded_length(*item);
        bytes <= MOST_BYTES
    });
    fits.count().max(1).min(items.len())
}

fn encoded_length(item: &impl Encode<()>) -> usize {
    let mut length = Length(0);
    minicbor::encode(item, &mut length).expect("counting bytes cannot fail");
    length.0
}

/// Counts what is written to it.
struct Length(usize);

impl minicbor::encode::Write for Length {
    type Error = Infallible;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0 += bytes.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ack, Failed, ItemFailed, Message, Skipped};
    use super::*;

    #[test]
    fn a_list_is_cut_by_number_and_by_size_and_loses_nothing() {
        let lengths = |most| parts(&[7u8; 10], most).map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(4), [4, 4, 2]);
        assert_eq!(parts(&[] as &[u8], 4).count(), 0);
        let long: Vec<Skipped> = (0..1000).map(|size| Skipped { path: vec![b'x'; 4096], size, ..Skipped::default() }).collect();
        let cut: Vec<&[Skipped]> = parts(&long, usize::MAX).collect();
        assert!(cut.len() > 7 && cut.len() < 12, "{} parts", cut.len());
        assert_eq!(cut.concat(), long);
        assert!(cut.iter().all(|part| Message::Skipped(part.to_vec()).encode().len() < MAX_MESSAGE));
    }

    #[test]
    fn an_item_beyond_the_limit_is_a_part_of_its_own() {
        let failed = |length| Failed { kind: 1, what: "x".repeat(length), cause: None, hint: None };
        let item = |length| ItemFailed { file: 1, path: Vec::new(), failed: failed(length) };
        let items = [item(10), item(MOST_BYTES + 1), item(10)];
        let ack = |part: &[ItemFailed]| Message::Ack(Ack { failed: part.to_vec(), ..Ack::default() });
        assert_eq!(parts(&items, 100).map(|part| ack(part).encode().len()).filter(|length| *length < MAX_MESSAGE).count(), 3);
    }
}
