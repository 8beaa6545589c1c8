//! Answers of status 207, as far as edt needs them: names, sizes, times, tags, and what was refused.

use quick_xml::NsReader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};
use quick_xml::name::{LocalName, Namespace, ResolveResult};

/// What is asked for with PROPFIND; `lastmodified` and `fileid` are known to servers that set times.
pub(super) const PROPFIND: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/><getetag/><lastmodified/>
<fileid xmlns="http://owncloud.org/ns"/></prop></propfind>"#;

/// The body of a PROPPATCH that sets a modification time, in seconds since 1970.
pub(super) fn proppatch(seconds: i64) -> String {
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<propertyupdate xmlns="DAV:"><set><prop><lastmodified>{seconds}</lastmodified></prop></set></propertyupdate>"#
    )
}

/// What a server says of one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resource {
    /// Its URL or absolute path, encoded as the server does.
    pub(super) href: String,
    pub(super) directory: bool,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<String>,
    pub(super) tag: Option<String>,
    /// Whether the server has a time that clients set.
    pub(super) sets_times: bool,
    /// The status line of the resource, or of one of its properties, that is no success.
    pub(super) refused: Option<String>,
}

/// The resources of an answer; an error is the reason why it is none.
pub(super) fn parse(text: &str) -> Result<Vec<Resource>, String> {
    let mut reader = NsReader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut parser = Parser::default();
    loop {
        match reader.read_resolved_event() {
            Ok((space, Event::Start(element))) => parser.open(name_of(&space, element.local_name())),
            Ok((_, Event::End(_))) => parser.close(),
            Ok((_, Event::Text(text))) => parser.text.push_str(&text.xml10_content().map_err(|cause| cause.to_string())?),
            Ok((_, Event::CData(text))) => parser.text.push_str(&text.decode().map_err(|cause| cause.to_string())?),
            Ok((_, Event::GeneralRef(reference))) => parser.text.push_str(&resolved(&reference)),
            Ok((_, Event::Eof)) if parser.names.is_empty() && parser.complete => return Ok(parser.done),
            Ok((_, Event::Eof)) => return Err("the answer of the server is no complete `multistatus`".to_owned()),
            Ok(_) => {}
            Err(cause) => return Err(cause.to_string()),
        }
    }
}

/// The name of an element as it is matched: of WebDAV's namespace without a prefix.
fn name_of(space: &ResolveResult<'_>, name: LocalName<'_>) -> String {
    let prefix = match space {
        ResolveResult::Bound(Namespace(b"DAV:")) => "",
        ResolveResult::Bound(Namespace(b"http://owncloud.org/ns")) => "oc:",
        _ => "other:",
    };
    format!("{prefix}{}", String::from_utf8_lossy(name.as_ref()))
}

fn resolved(reference: &BytesRef<'_>) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    let name = reference.decode().unwrap_or_default();
    resolve_predefined_entity(&name).unwrap_or_default().to_owned()
}

#[derive(Default)]
struct Parser {
    names: Vec<String>,
    text: String,
    /// The properties of the present `propstat`, and its status.
    found: Resource,
    status: String,
    current: Resource,
    done: Vec<Resource>,
    complete: bool,
}

impl Parser {
    fn open(&mut self, name: String) {
        self.text.clear();
        match name.as_str() {
            "response" => self.current = Resource::default(),
            "propstat" => (self.found, self.status) = (Resource::default(), String::new()),
            "collection" if self.is_inside("resourcetype") => self.found.directory = true,
            _ => {}
        }
        self.names.push(name);
    }

    fn close(&mut self) {
        let name = self.names.pop().unwrap_or_default();
        let text = std::mem::take(&mut self.text).trim().to_owned();
        match name.as_str() {
            "href" if self.is_inside("response") => self.current.href = text,
            "getcontentlength" => self.found.size = text.parse().ok(),
            "getlastmodified" => self.found.modified = Some(text),
            "getetag" => self.found.tag = Some(text).filter(|tag| !tag.is_empty()),
            "lastmodified" | "oc:fileid" => self.found.sets_times = true,
            "status" if self.is_inside("propstat") => self.status = text,
            "status" if self.is_inside("response") && !is_success(&text) => self.current.refused = Some(text),
            "propstat" => self.take_found(),
            "response" => self.done.push(std::mem::take(&mut self.current)),
            "multistatus" => self.complete = true,
            _ => {}
        }
    }

    fn is_inside(&self, name: &str) -> bool {
        self.names.last().is_some_and(|last| last == name)
    }

    /// A `propstat` of success tells properties; another one only that the server does not have or set them.
    fn take_found(&mut self) {
        let (found, current) = (std::mem::take(&mut self.found), &mut self.current);
        if !is_success(&self.status) {
            current.refused.get_or_insert_with(|| self.status.clone());
            return;
        }
        current.directory |= found.directory;
        current.size = found.size.or(current.size);
        current.modified = found.modified.or(current.modified.take());
        current.tag = found.tag.or(current.tag.take());
        current.sets_times |= found.sets_times;
    }
}

/// `HTTP/1.1 200 OK`
fn is_success(status: &str) -> bool {
    status.split_whitespace().nth(1).is_some_and(|code| code.starts_with('2'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXTCLOUD: &str = r#"<?xml version="1.0"?>
<d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:response><d:href>/dav/a%20b/</d:href><d:propstat><d:prop>
<d:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</d:getlastmodified><d:resourcetype><d:collection/></d:resourcetype>
<oc:fileid>42</oc:fileid></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat><d:propstat><d:prop><d:getcontentlength/></d:prop>
<d:status>HTTP/1.1 404 Not Found</d:status></d:propstat></d:response><d:response><d:href>/dav/a%20b/c&amp;d</d:href><d:propstat>
<d:prop><d:resourcetype/><d:getcontentlength>12</d:getcontentlength><d:getetag>&quot;ab&quot;</d:getetag></d:prop>
<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"#;

    #[test]
    fn sizes_times_and_tags_are_found() {
        let found = parse(NEXTCLOUD).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].href, "/dav/a%20b/");
        assert!(found[0].directory && found[0].sets_times);
        assert_eq!(found[0].modified.as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!((found[1].href.as_str(), found[1].size), ("/dav/a%20b/c&d", Some(12)));
        assert_eq!(found[1].tag.as_deref(), Some("\"ab\""));
        assert!(!found[1].directory && !found[1].sets_times);
    }

    #[test]
    fn the_prefix_is_the_servers_choice_and_another_namespace_is_not_meant() {
        let text = r#"<multistatus xmlns="DAV:" xmlns:x="urn:x"><response><href>/f</href><propstat><prop>
            <x:getcontentlength>9</x:getcontentlength>
            <getcontentlength>7</getcontentlength></prop><status>HTTP/1.1 200 OK</status></propstat></response></multistatus>"#;
        assert_eq!(parse(text).unwrap()[0].size, Some(7));
    }

    #[test]
    fn what_was_refused_says_so() {
        let text = r#"<D:multistatus xmlns:D="DAV:"><D:response><D:href>/f</D:href><D:propstat><D:prop><D:lastmodified/></D:prop>
            <D:status>HTTP/1.1 403 Forbidden</D:status></D:propstat></D:response></D:multistatus>"#;
        assert_eq!(parse(text).unwrap()[0].refused.as_deref(), Some("HTTP/1.1 403 Forbidden"));
    }

    #[test]
    fn a_page_or_a_piece_is_no_answer() {
        assert!(parse("<html><body>Sign in</body></html>").is_err());
        assert!(parse(&NEXTCLOUD[..NEXTCLOUD.len() / 2]).is_err());
        assert!(parse("").is_err());
    }
}
