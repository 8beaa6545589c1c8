//! Locks: while a directory is locked, nobody else puts anything into it.

use reqwest::Method;

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::remote::http::place::Form;
use crate::store::remote::http::server::Server;

/// How long the server keeps a lock whose owner is gone: shorter than others wait for it.
const TIMEOUT: &str = "Second-10";

const EXCLUSIVE: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>"#;

/// Locks a directory with all below it; answers with the lock's token, or `None` where the server has no locks.
pub(super) fn take(server: &Server, directory: &RelativePath) -> Result<Option<String>> {
    let request = server
        .request(method(b"LOCK"), directory, Form::Directory)?
        .header("depth", "infinity")
        .header("timeout", TIMEOUT)
        .header("content-type", "application/xml; charset=utf-8")
        .body(EXCLUSIVE);
    let answer = server.send("lock", directory, request, &[400, 403, 405, 409, 412, 501])?;
    let token = answer.header("lock-token").map(str::to_owned);
    match answer.status() {
        // The directory was gone, and a file was made in its place.
        201 => {
            let removed = remove(server, directory, token.as_deref());
            if let Some(token) = &token {
                let _ = release(server, directory, token);
            }
            removed.and_then(|()| Err(missing(server, directory)))
        }
        409 => Err(missing(server, directory)),
        // Something in it has a lock of its own.
        207 => {
            Err(Error::new(ErrorKind::AlreadyExists, server.what("remove", directory)).with_cause("the directory is not empty"))
        }
        200..300 => Ok(token),
        _ => Ok(None),
    }
}

/// Removes a directory with all that is in it, under its lock if there is one.
pub(super) fn remove(server: &Server, directory: &RelativePath, token: Option<&str>) -> Result<()> {
    let mut request = server.request(Method::DELETE, directory, Form::Directory)?;
    if let Some(token) = token {
        request = request.header("if", format!("({token})"));
    }
    let answer = server.send("remove", directory, request, &[])?;
    if answer.status() == 207 {
        return Err(Error::new(ErrorKind::PermissionDenied, server.what("remove", directory))
            .with_cause("the server removed only a part"));
    }
    Ok(())
}

/// Ends a lock.
pub(super) fn release(server: &Server, directory: &RelativePath, token: &str) -> Result<()> {
    let request = server.request(method(b"UNLOCK"), directory, Form::Directory)?.header("lock-token", token);
    server.send("unlock", directory, request, &[]).map(|_| ())
}

fn method(name: &[u8]) -> Method {
    Method::from_bytes(name).expect("a token is a method")
}

fn missing(server: &Server, directory: &RelativePath) -> Error {
    Error::new(ErrorKind::NotFound, server.what("remove", directory)).with_cause("the directory is gone")
}
