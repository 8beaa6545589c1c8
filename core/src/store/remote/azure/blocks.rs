//! The blocks of an upload: their names, and the lists that the service keeps of them.

use std::fmt::Write;

use base64::prelude::{BASE64_STANDARD, Engine};
use reqwest::Method;
use serde::Deserialize;

use super::Azure;
use crate::error::{ErrorKind, Result};
use crate::store::remote::cloud::{self, LONGEST_ANSWER};
use crate::store::remote::{Part, Upload};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Lists {
    #[serde(default)]
    committed_blocks: Blocks,
    #[serde(default)]
    uncommitted_blocks: Blocks,
}

#[derive(Default, Deserialize)]
struct Blocks {
    #[serde(rename = "Block", default)]
    blocks: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Block {
    name: String,
    size: u64,
}

/// A new identifier of an upload; `None` if the system gives no randomness.
pub(super) fn identifier() -> Option<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok()?;
    Some(format!("{:016x}", u64::from_be_bytes(bytes)))
}

/// The name of a block; all of one blob must have the same length.
pub(super) fn name(upload: &str, number: u32) -> String {
    BASE64_STANDARD.encode(format!("{upload}{number:08}"))
}

/// The number of a block of this upload, from its name.
fn number(upload: &str, name: &str) -> Option<u32> {
    let name = String::from_utf8(BASE64_STANDARD.decode(name).ok()?).ok()?;
    name.strip_prefix(upload)?.parse().ok()
}

/// The blocks of an upload that wait to be completed.
pub(super) fn waiting(azure: &Azure, what: &str, upload: &Upload) -> Result<Vec<Part>> {
    match lists(azure, what, upload, "uncommitted") {
        Ok(lists) => Ok(of_upload(lists, upload)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether the blob that stands there consists of exactly these parts.
pub(super) fn stand(azure: &Azure, what: &str, upload: &Upload, parts: &[Part]) -> bool {
    lists(azure, what, upload, "committed").is_ok_and(|lists| {
        let names = lists.committed_blocks.blocks.iter().map(|block| &block.name);
        names.eq(parts.iter().map(|part| &part.tag))
    })
}

/// The request that makes a blob of blocks. A block that became part of the blob is found there too, so that an attempt whose answer
/// was lost can be made again.
pub(super) fn list(parts: &[Part]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
    for part in parts {
        let _ = write!(text, "<Latest>{}</Latest>", part.tag);
    }
    text + "</BlockList>"
}

fn lists(azure: &Azure, what: &str, upload: &Upload, kind: &str) -> Result<Lists> {
    let request = azure.request(Method::GET, &upload.key, &[("comp", "blocklist"), ("blocklisttype", kind)]);
    cloud::from_xml(what, &azure.send(what, request, Vec::new())?.bytes(LONGEST_ANSWER)?)
}

fn of_upload(lists: Lists, upload: &Upload) -> Vec<Part> {
    let parts = lists.uncommitted_blocks.blocks.into_iter().filter_map(|block| {
        let number = number(&upload.id, &block.name)?;
        Some(Part { number, size: block.size, tag: block.name, crc64nvme: None })
    });
    let mut parts: Vec<Part> = parts.collect();
    parts.sort_by_key(|part| part.number);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_blocks_have_one_length_and_tell_their_number() {
        let id = identifier().unwrap();
        assert_eq!(name(&id, 1).len(), name(&id, 50_000).len());
        assert_eq!(number(&id, &name(&id, 50_000)), Some(50_000));
        assert_eq!(number("0123456789abcdef", &name("fedcba9876543210", 7)), None);
        assert_eq!(number(&id, "not base64!"), None);
    }

    #[test]
    fn blocks_of_other_uploads_are_left_out() {
        let upload = Upload { key: "k".to_owned(), id: "0123456789abcdef".to_owned(), begun_ns: None };
        let block = |name: &str, size| format!("<Block><Name>{name}</Name><Size>{size}</Size></Block>");
        let blocks =
            [block(&name(&upload.id, 2), 20), block(&name("ffffffffffffffff", 1), 9), block(&name(&upload.id, 1), 10)].concat();
        let text =
            format!("\u{feff}<?xml version=\"1.0\"?><BlockList><UncommittedBlocks>{blocks}</UncommittedBlocks></BlockList>");
        let parts = of_upload(cloud::from_xml("x", text.as_bytes()).unwrap(), &upload);
        assert_eq!(parts.iter().map(|part| (part.number, part.size)).collect::<Vec<_>>(), [(1, 10), (2, 20)]);
    }

    #[test]
    fn an_empty_list_is_read() {
        for text in ["<BlockList/>", "<BlockList><CommittedBlocks /><UncommittedBlocks></UncommittedBlocks></BlockList>"] {
            let lists: Lists = cloud::from_xml("x", text.as_bytes()).unwrap();
            assert!(lists.committed_blocks.blocks.is_empty() && lists.uncommitted_blocks.blocks.is_empty());
        }
    }

    #[test]
    fn a_list_names_the_blocks_in_order() {
        let part = |tag: &str| Part { number: 1, size: 1, tag: tag.to_owned(), crc64nvme: None };
        let text = list(&[part("YQ=="), part("Yg==")]);
        assert!(text.ends_with("<BlockList><Latest>YQ==</Latest><Latest>Yg==</Latest></BlockList>"));
    }
}
