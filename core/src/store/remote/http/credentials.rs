//! What a server is told of who asks: a bearer token, or user and password.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use reqwest::RequestBuilder;

use super::place::is_encrypted;
use crate::endpoint::ServiceUrl;
use crate::store::remote::netrc;

/// Marks of a query that is a signature or a token itself; most servers refuse a second one beside it.
const SIGNED: [&str; 6] = ["x-amz-signature=", "x-goog-signature=", "signature=", "sig=", "authz=", "access_token="];

/// Credentials for one server.
pub(crate) enum Credentials {
    None,
    Basic {
        user: String,
        password: String,
    },
    Token(String),
    /// Read for every request, because others renew it; of a directory for everybody only while it is a file of this user.
    TokenFile(PathBuf, Option<u32>),
}

impl Credentials {
    /// Looks for credentials: `EDT_HTTP_TOKEN`, then `.netrc`, then where the WLCG says that bearer tokens are. Tokens are used only
    /// over TLS or within this machine, and nothing beside a URL that is signed.
    pub(crate) fn find(url: &ServiceUrl) -> Self {
        let variable = |name: &str| std::env::var(name).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        if url.query.as_deref().is_some_and(is_signed) {
            return Self::None;
        }
        let private = is_encrypted(url.scheme) || is_loopback(&url.host);
        if let Some(token) = variable("EDT_HTTP_TOKEN").filter(|_| private) {
            return Self::Token(token);
        }
        if let Some((user, password)) = netrc::credentials(&url.host, url.user.as_deref()) {
            return Self::Basic { user, password };
        }
        if private { discovered(&variable, user_id()) } else { Self::None }
    }

    /// Adds them to a request.
    pub(crate) fn sign(&self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::Basic { user, password } => request.basic_auth(user, Some(password)),
            _ => match self.token() {
                Some(token) => request.bearer_auth(token),
                None => request,
            },
        }
    }

    /// The bearer token, if it is one.
    pub(crate) fn token(&self) -> Option<String> {
        match self {
            Self::Token(token) => Some(token.clone()),
            Self::TokenFile(path, owner) if owner.is_none_or(|user_id| is_own(path, user_id)) => {
                let text = std::fs::read_to_string(path).ok()?;
                Some(text.trim().to_owned()).filter(|token| !token.is_empty())
            }
            Self::None | Self::Basic { .. } | Self::TokenFile(..) => None,
        }
    }
}

/// WLCG Bearer Token Discovery 1.0: `BEARER_TOKEN`, `BEARER_TOKEN_FILE`, then `bt_u<id>` in `XDG_RUNTIME_DIR` and in `/tmp`.
fn discovered(variable: &dyn Fn(&str) -> Option<String>, user_id: Option<u32>) -> Credentials {
    if let Some(token) = variable("BEARER_TOKEN") {
        return Credentials::Token(token);
    }
    if let Some(path) = variable("BEARER_TOKEN_FILE") {
        return Credentials::TokenFile(PathBuf::from(path), None);
    }
    let Some(user_id) = user_id else { return Credentials::None };
    let below = |place: &str| PathBuf::from(place).join(format!("bt_u{user_id}"));
    if let Some(path) = variable("XDG_RUNTIME_DIR").map(|place| below(&place)).filter(|path| path.is_file()) {
        return Credentials::TokenFile(path, None);
    }
    let path = below("/tmp");
    if is_own(&path, user_id) { Credentials::TokenFile(path, Some(user_id)) } else { Credentials::None }
}

/// Whether this is a file of the user, and no link: in a directory for everybody others may have put a token of theirs under its name,
/// or a link to what is no token at all.
#[cfg(unix)]
fn is_own(path: &Path, user_id: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    path.symlink_metadata().is_ok_and(|found| found.is_file() && found.uid() == user_id)
}

#[cfg(not(unix))]
fn is_own(path: &Path, _: u32) -> bool {
    path.is_file()
}

fn is_signed(query: &str) -> bool {
    query.to_ascii_lowercase().split('&').any(|pair| SIGNED.iter().any(|mark| pair.starts_with(mark)))
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have no such number")]
fn user_id() -> Option<u32> {
    Some(rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn user_id() -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_in_the_order_of_their_discovery() {
        let place = tempfile::tempdir().unwrap();
        let runtime = place.path().to_str().unwrap().to_owned();
        std::fs::write(place.path().join("bt_u4294967294"), "from-runtime\n").unwrap();
        let found = |set: &[(&str, &str)]| {
            let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            discovered(&variable, Some(4_294_967_294)).token()
        };
        assert_eq!(found(&[("BEARER_TOKEN", "a"), ("XDG_RUNTIME_DIR", &runtime)]).as_deref(), Some("a"));
        assert_eq!(found(&[("XDG_RUNTIME_DIR", &runtime)]).as_deref(), Some("from-runtime"));
        assert_eq!(found(&[("BEARER_TOKEN_FILE", "/nowhere/token"), ("XDG_RUNTIME_DIR", &runtime)]), None);
        assert_eq!(found(&[]), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_token_that_another_user_has_put_there_and_a_link_are_not_taken() {
        let place = tempfile::tempdir().unwrap();
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        std::fs::write(&file, "token").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let user = user_id().unwrap();
        assert!(!is_own(&place.path().join("none"), user));
        // It is looked at for each request: what was a file of the user may be another one by then.
        let token = |path: &Path, owner| Credentials::TokenFile(path.to_owned(), owner).token();
        assert_eq!(token(&file, Some(user)).as_deref(), Some("token"));
        assert_eq!([token(&file, Some(user + 1)), token(&link, Some(user))], [None, None]);
        assert_eq!(token(&link, None).as_deref(), Some("token"));
    }

    #[test]
    fn a_signed_url_needs_nothing_else() {
        assert!(is_signed("X-Amz-Expires=1&X-Amz-Signature=ab"));
        assert!(is_signed("sv=1&sig=ab"));
        assert!(!is_signed("page=1&design=2"));
    }

    #[test]
    fn only_this_machine_is_loopback() {
        assert!(is_loopback("127.0.0.9") && is_loopback("::1") && is_loopback("LocalHost"));
        assert!(!is_loopback("127.example.org"));
    }
}
