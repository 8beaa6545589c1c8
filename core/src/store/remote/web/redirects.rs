//! Where a server sends a request on to: what is followed, and what came of it.

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Method, Request, Response, StatusCode, Url, redirect};

use super::failure;
use crate::error::Result;

const MOST: usize = 10;

/// What servers answer to who may not see something, or is not to know of it.
const HIDDEN: [StatusCode; 3] = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND];

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

/// A copy of a request that loses its credentials if it is sent on to TLS: the client leaves them out wherever scheme or port change. `None`
/// if it has none, or a content that is sent only once.
pub(super) fn kept(request: &Request) -> Option<Request> {
    let loses = request.url().scheme() == "http" && request.headers().contains_key(AUTHORIZATION);
    if loses { request.try_clone() } else { None }
}

/// The request to be made again, with its credentials, where it was refused without them by its own host over TLS.
pub(super) fn secured(mut request: Request, response: &Response) -> Option<Request> {
    if !HIDDEN.contains(&response.status()) || !is_same_over_tls(request.url(), response.url()) {
        return None;
    }
    // WebDAV names where to in full.
    let to = request
        .headers()
        .get("destination")
        .and_then(|to| to.to_str().ok()?.strip_prefix("http://").map(|to| format!("https://{to}")));
    if let Some(to) = to.and_then(|to| HeaderValue::from_str(&to).ok()) {
        request.headers_mut().insert("destination", to);
    }
    *request.url_mut() = response.url().clone();
    Some(request)
}

/// Whether an address of http was answered by the same host over https, each on its usual port: on another one may be somebody else.
fn is_same_over_tls(asked: &Url, answered: &Url) -> bool {
    let usual = |url: &Url, scheme: &str| url.scheme() == scheme && url.port().is_none();
    usual(asked, "http") && usual(answered, "https") && asked.host_str() == answered.host_str()
}

/// Refuses the page that a redirect with 303, as to where people log in, leads a request to that was to change something.
pub(crate) fn carried_out(what: &str, method: &Method, asked: &Url, response: Response) -> Result<Response> {
    let reads = method.is_safe() || method.as_str() == "PROPFIND";
    if reads || response.status() != StatusCode::OK || response.url() == asked {
        return Ok(response);
    }
    Err(failure::redirected(what, StatusCode::SEE_OTHER.as_u16(), Some(response.url().as_str())))
}

#[cfg(test)]
mod tests {
    use reqwest::ResponseBuilderExt as _;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn asked(text: &str) -> Request {
        let mut request = Request::new(Method::GET, url(text));
        request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Basic bTpw"));
        request
    }

    fn answered(status: u16, text: &str) -> Response {
        http::Response::builder().status(status).url(url(text)).body("").unwrap().into()
    }

    #[test]
    fn credentials_go_along_to_the_same_host_over_tls_and_nowhere_else() {
        let again = |from: &str, status, to: &str| secured(kept(&asked(from))?, &answered(status, to));
        for status in [401, 403, 404] {
            let request = again("http://h/a", status, "https://h/b").unwrap();
            assert_eq!((request.url().as_str(), request.headers().len()), ("https://h/b", 1));
        }
        assert!(again("http://h:80/a", 401, "https://H:443/a").is_some());
        let mut moving = asked("http://h/a");
        moving.headers_mut().insert("destination", HeaderValue::from_static("http://h/b"));
        let moving = secured(kept(&moving).unwrap(), &answered(401, "https://h/a")).unwrap();
        assert_eq!(moving.headers()["destination"], "https://h/b");
        for (from, status, to) in [
            ("http://h/a", 200, "https://h/a"),
            ("http://h/a", 401, "http://h/b"),
            ("http://h/a", 401, "https://other/a"),
            ("http://h/a", 401, "https://h.other/a"),
            ("http://h/a", 401, "https://h:8443/a"),
            ("http://h:8080/a", 401, "https://h/a"),
            ("https://h/a", 401, "http://h/a"),
            ("https://h/a", 401, "https://h/b"),
        ] {
            assert!(again(from, status, to).is_none(), "{from} to {to}, {status}");
        }
        assert!(kept(&Request::new(Method::GET, url("http://h/a"))).is_none());
    }
}
