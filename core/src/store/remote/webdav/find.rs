//! What is there, by PROPFIND.

use percent_encoding::percent_decode_str;
use reqwest::{Method, Url};

use super::multistatus::{PROPFIND, Resource, parse};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::Entry;
use crate::store::remote::http::facts::{self, Facts};
use crate::store::remote::http::place::Form;
use crate::store::remote::http::server::Server;

/// Bytes of an answer: a directory of some 100,000 files.
const MOST: usize = 128 << 20;

/// Describes an entry.
pub(super) fn stat(server: &Server, path: &RelativePath) -> Result<Entry> {
    let (resources, page) = propfind(server, path, "0")?;
    let resource = resources.iter().find(|resource| segments(&page, resource) == segments_of(&page)).or(resources.first());
    let resource = resource.ok_or_else(|| broken(server, path, "it says nothing of it"))?;
    entry(server, path, resource)
}

/// The direct children of a directory.
pub(super) fn children(server: &Server, path: &RelativePath) -> Result<Vec<Entry>> {
    let (resources, page) = propfind(server, path, "1")?;
    let itself = resources
        .iter()
        .position(|resource| segments(&page, resource) == segments_of(&page))
        // Behind a proxy the names may begin with others than those of the request.
        .or_else(|| (0..resources.len()).min_by_key(|index| segments(&page, &resources[*index]).len()))
        .ok_or_else(|| broken(server, path, "it says nothing of it"))?;
    if !resources[itself].directory {
        return Err(Error::new(ErrorKind::WrongType, server.what("list", path)).with_cause("it is a file"));
    }
    let above = segments(&page, &resources[itself]);
    let mut found = Vec::with_capacity(resources.len());
    for (index, resource) in resources.iter().enumerate() {
        let names = segments(&page, resource);
        if let Some((name, rest)) = names.split_last()
            && index != itself
            && *rest == above
        {
            found.push(entry(server, &path.child(name)?, resource)?);
        }
    }
    Ok(found)
}

/// Whether the server sets times as it is told; asked of the deepest directory at or above a path that is there.
pub(super) fn sets_times(server: &Server, path: &RelativePath) -> Result<bool> {
    match propfind(server, path, "0") {
        Ok((resources, _)) => Ok(resources.iter().any(|resource| resource.sets_times)),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.parent() {
            Some(parent) => sets_times(server, &parent),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// The resources of an answer, and the URL that it came from.
fn propfind(server: &Server, path: &RelativePath, depth: &str) -> Result<(Vec<Resource>, Url)> {
    let operation = if depth == "0" { "find" } else { "list" };
    let form = if depth == "0" && !server.place().is_named_directory(path) { Form::File } else { Form::Directory };
    let method = Method::from_bytes(b"PROPFIND").expect("a token is a method");
    let request = server
        .request(method, path, form)?
        .header("depth", depth)
        .header("content-type", "application/xml; charset=utf-8")
        .body(PROPFIND);
    let answer = server.send(operation, path, request, &[405])?;
    if answer.status() != 207 {
        return Err(Error::new(ErrorKind::Unsupported, server.what(operation, path))
            .with_cause(format!("the server does not speak WebDAV there (status {})", answer.status()))
            .with_hint("check the path; use https:// to read from a plain web server"));
    }
    let page = answer.url().clone();
    let text = answer.bytes(MOST)?;
    let resources = parse(&String::from_utf8_lossy(&text)).map_err(|cause| broken(server, path, &cause))?;
    Ok((resources, page))
}

fn entry(server: &Server, path: &RelativePath, resource: &Resource) -> Result<Entry> {
    let modified_ns = resource.modified.as_deref().and_then(facts::modified_ns);
    if resource.directory {
        return Ok(facts::directory(path, modified_ns));
    }
    let size = match resource.size {
        Some(size) => size,
        None => sized(server, path)?,
    };
    Ok(facts::file(path, size, modified_ns, resource.tag.as_deref().map(facts::version)))
}

/// The size of a file whose properties do not tell it.
fn sized(server: &Server, path: &RelativePath) -> Result<u64> {
    let answer = server.send("find", path, server.request(Method::HEAD, path, Form::File)?, &[])?;
    Facts::of(&answer).size.ok_or_else(|| broken(server, path, "it does not say how long it is"))
}

/// The decoded names of a resource's URL.
fn segments(page: &Url, resource: &Resource) -> Vec<Vec<u8>> {
    page.join(&resource.href).map_or_else(|_| Vec::new(), |url| segments_of(&url))
}

fn segments_of(url: &Url) -> Vec<Vec<u8>> {
    url.path().split('/').filter(|name| !name.is_empty()).map(|name| percent_decode_str(name).collect()).collect()
}

fn broken(server: &Server, path: &RelativePath, cause: &str) -> Error {
    Error::new(ErrorKind::Protocol, server.what("find", path)).with_cause(format!("the answer of the server: {cause}"))
}
