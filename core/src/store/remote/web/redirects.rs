//! Where a server sends a request on to: what is followed, and what came of it.

use reqwest::{Method, Response, StatusCode, Url, redirect};

use super::failure;
use crate::error::Result;

const MOST: usize = 10;

/// Follows redirects, but never from https to http.
pub(super) fn policy() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let leaves_tls = attempt.url().scheme() == "http" && attempt.previous().iter().any(|url| url.scheme() == "https");
        if leaves_tls {
            attempt.error("the server redirects from https to http")
        } else if attempt.previous().len() > MOST {
            attempt.error("the server redirects too often")
        } else {
            attempt.follow()
        }
    })
}

/// Refuses the page that a redirect with 303, as to where people log in, leads a request to that was to change something.
pub(crate) fn carried_out(what: &str, method: &Method, asked: &Url, response: Response) -> Result<Response> {
    let reads = method.is_safe() || method.as_str() == "PROPFIND";
    if reads || response.status() != StatusCode::OK || response.url() == asked {
        return Ok(response);
    }
    Err(failure::redirected(what, StatusCode::SEE_OTHER.as_u16(), Some(response.url().as_str())))
}
