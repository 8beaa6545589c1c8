//! The names in a page that lists a directory, as nginx, Apache and many others make it.

use std::collections::BTreeSet;

use html5gum::{Token, Tokenizer};
use percent_encoding::percent_decode_str;
use reqwest::Url;

/// A name that a page links to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    pub(super) name: Vec<u8>,
    pub(super) directory: bool,
}

/// The names directly below a page's own URL that it links to, each once, in order.
pub(super) fn links(html: &str, page: &Url) -> Vec<Link> {
    let mut found = BTreeSet::new();
    for Ok(token) in Tokenizer::new(html) {
        if let Token::StartTag(tag) = token
            && tag.name.as_slice() == b"a"
            && let Some(target) = tag.attributes.get(b"href".as_slice())
            && let Ok(target) = page.join(String::from_utf8_lossy(&target.value).trim())
        {
            found.extend(below(&target, page));
        }
    }
    found.into_iter().collect()
}

fn below(target: &Url, page: &Url) -> Option<Link> {
    let here = target.origin() == page.origin() && target.query().is_none();
    let (path, directory) = target.path().strip_suffix('/').map_or((target.path(), false), |path| (path, true));
    let (above, name) = path.rsplit_once('/')?;
    let direct = !name.is_empty() && names(above).eq(names(page.path().rsplit_once('/')?.0));
    (here && direct).then(|| Link { name: percent_decode_str(name).collect(), directory })
}

/// The names of a path, decoded: which characters a link encodes is the server's choice.
fn names(path: &str) -> impl Iterator<Item = Vec<u8>> {
    path.split('/').map(|name| percent_decode_str(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(html: &str, page: &str) -> Vec<String> {
        let shown = |link: Link| format!("{}{}", String::from_utf8_lossy(&link.name), if link.directory { "/" } else { "" });
        links(html, &Url::parse(page).unwrap()).into_iter().map(shown).collect()
    }

    #[test]
    fn the_page_of_nginx() {
        let html = "<html><head><title>Index of /d/</title></head><body><h1>Index of /d/</h1><hr><pre><a href=\"../\">../</a>\n\
            <a href=\"sub/\">sub/</a>  22-Nov-2026 03:50  -\n<a href=\"a%20b%26c.txt\">a b&amp;c.txt</a>  22-Nov-2026 03:50  12\n</pre>";
        assert_eq!(listed(html, "http://host/d/"), ["a b&c.txt", "sub/"]);
    }

    #[test]
    fn the_page_of_apache() {
        let html = "<a href='?C=N;O=D'>Name</a> <a href='/'>Parent Directory</a> <A HREF=\"/d/x.bin\">x.bin</A>\
            <a href='x.bin'>again</a><a href='deep/below.txt'>no</a><a href='https://elsewhere/d/y'>no</a><a href='a&amp;b'>a&amp;b</a>";
        assert_eq!(listed(html, "https://host/d/"), ["a&b", "x.bin"]);
    }

    #[test]
    fn links_from_the_root_may_be_encoded_otherwise_than_the_page_was_asked_for() {
        let html = "<a href='/a b/(1)/x+y.bin'>x</a><a href='/a%20b/%281%29/%C3%BC/'>y</a><a href='/a%20b%2F(1)/no'>no</a>\
            <a href='/a%20b/(1)/'>here</a><a href='/a%20b/'>up</a><a href='/a%20b/(1)/deep/no'>no</a>";
        assert_eq!(listed(html, "http://host/a%20b/%281%29/"), ["x+y.bin", "ü/"]);
    }

    #[test]
    fn a_page_without_links_is_empty() {
        assert!(listed("<a name='x'>x</a> plain text < a", "http://host/").is_empty());
    }
}
