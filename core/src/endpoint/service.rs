//! URLs of services that are not edt's.

/// The protocol of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `s3://bucket/key`
    S3,
    /// `gs://bucket/key`
    Google,
    /// `az://container/blob`
    Azure,
    /// `http://host/path`
    Http,
    /// `https://host/path`
    Https,
    /// `webdav://host/path`
    WebDav,
    /// `webdavs://host/path`: over TLS
    WebDavs,
    /// `sftp://host/path`: below the home directory; `sftp://host//path` from the root
    Sftp,
    /// `ftp://host/path`
    Ftp,
    /// `ftps://host/path`: with TLS, asked for on the control connection
    Ftps,
    /// The scheme of a service that another crate brings, see [`crate::store::remote::register`]
    Added(&'static str),
}

const SCHEMES: [(&str, Scheme); 14] = [
    ("s3", Scheme::S3),
    ("gs", Scheme::Google),
    ("az", Scheme::Azure),
    ("http", Scheme::Http),
    ("https", Scheme::Https),
    ("webdav", Scheme::WebDav),
    ("webdavs", Scheme::WebDavs),
    ("sftp", Scheme::Sftp),
    ("ftp", Scheme::Ftp),
    ("ftps", Scheme::Ftps),
    // Names that others use for the same.
    ("gcs", Scheme::Google),
    ("azure", Scheme::Azure),
    ("dav", Scheme::WebDav),
    ("davs", Scheme::WebDavs),
];

/// Characters that RFC 3986 lets a path have as they are, with a meaning that is the server's.
const RESERVED: &[char] = &['!', '$', '&', '\'', '(', ')', '*', '+', ',', ';', '=', ':', '@'];

/// A path on a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceUrl {
    /// The protocol.
    pub scheme: Scheme,
    /// The user that the URL names.
    pub user: Option<String>,
    /// Host name or address without brackets; bucket or container of an object store.
    pub host: String,
    /// Port, if the URL names one.
    pub port: Option<u16>,
    /// The path without the slash behind the host: of an object store the key as written, else percent-decoded.
    pub path: String,
    /// The path of a web address as written, where servers may tell it from its names: it has empty names, a slash inside of a name
    /// (`%2F`), or a reserved character that is not encoded, of which S3 takes `+` for a space.
    pub written: Option<String>,
    /// What follows a question mark in a URL whose scheme has queries, as written.
    pub query: Option<String>,
    /// Whether it ended in a slash or is empty.
    pub directory: bool,
}

impl Scheme {
    /// The protocol that a URL's scheme names.
    pub(super) fn named(scheme: &str) -> Option<Self> {
        let own = SCHEMES.iter().find(|(name, _)| *name == scheme).map(|(_, scheme)| *scheme);
        own.or_else(|| crate::store::remote::added::scheme(scheme))
    }

    /// The scheme as it is written in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added(name) => name,
            own => SCHEMES.iter().find(|(_, scheme)| *scheme == own).map_or("", |(name, _)| name),
        }
    }

    /// Whether a question mark in its URLs begins a query.
    pub fn has_queries(self) -> bool {
        matches!(self, Self::Http | Self::Https | Self::Added(_))
    }

    /// Whether its URLs are web addresses.
    fn is_web(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }

    /// A path as written, if it is one of a web address that says more than its names, see [`ServiceUrl::written`].
    pub(super) fn written(self, path: &str) -> Option<String> {
        let says_more = has_odd_slashes(path) || path.contains(RESERVED);
        (self.is_web() && says_more).then(|| path.to_owned())
    }

    /// The port of a URL that names none.
    fn port(self) -> Option<u16> {
        match self {
            Self::Http | Self::WebDav => Some(80),
            Self::Https | Self::WebDavs => Some(443),
            Self::Sftp => Some(22),
            Self::Ftp | Self::Ftps => Some(21),
            Self::S3 | Self::Google | Self::Azure | Self::Added(_) => None,
        }
    }

    /// Whether it is an object store's.
    pub fn is_object_store(self) -> bool {
        matches!(self, Self::S3 | Self::Google | Self::Azure)
    }
}

impl ServiceUrl {
    /// Whether both are paths on one server, for one user, and counted from the same directory. A path that a query signs is a place of
    /// its own, and so is one whose names do not tell its slashes.
    pub fn same_place(&self, other: &Self) -> bool {
        let place = |url: &Self| (url.scheme, url.user.clone(), url.begins_at_root());
        let port = |url: &Self| url.port.or(url.scheme.port());
        let same_host =
            if self.scheme.is_object_store() { self.host == other.host } else { self.host.eq_ignore_ascii_case(&other.host) };
        let told = |url: &Self| url.query.is_none() && !url.has_odd_slashes();
        place(self) == place(other) && port(self) == port(other) && same_host && ((told(self) && told(other)) || self == other)
    }

    /// The same as one of several sources in one place, which are asked for by their names if these tell them.
    pub(crate) fn named(&self) -> Self {
        Self { written: self.written.clone().filter(|_| self.has_odd_slashes()), ..self.clone() }
    }

    /// Whether the names do not tell where the slashes of the path are.
    fn has_odd_slashes(&self) -> bool {
        self.written.as_deref().is_some_and(has_odd_slashes)
    }

    /// Whether the path begins at the server's root and not at the user's own directory, where there is a difference.
    fn begins_at_root(&self) -> bool {
        matches!(self.scheme, Scheme::Sftp | Scheme::Ftp | Scheme::Ftps) && self.path.starts_with('/')
    }

    /// The URL of the server alone, for people.
    pub fn place(&self) -> String {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let port = self.port.map_or_else(String::new, |port| format!(":{port}"));
        format!("{}://{user}{host}{port}", self.scheme.name())
    }
}

/// Whether a path, as written, has empty names, or slashes inside of names.
fn has_odd_slashes(path: &str) -> bool {
    path.starts_with('/') || path.contains("//") || path.to_ascii_lowercase().contains("%2f")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Endpoint, Location};

    fn url(text: &str) -> ServiceUrl {
        let Location::Service(url) = Endpoint::from(text).resolve().unwrap() else { panic!() };
        url
    }

    #[test]
    fn a_port_that_is_the_schemes_own_makes_no_other_place() {
        for (one, other) in [
            ("sftp://h/a", "sftp://h:22/b"),
            ("http://h/a", "http://H:80/b"),
            ("https://h/a", "https://h:443/b"),
            ("webdav://h/a", "webdav://h:80/b"),
            ("webdavs://h/a", "webdavs://h:443/b"),
            ("ftp://h/a", "ftp://h:21/b"),
            ("ftps://h/a", "ftps://h:21/b"),
            ("sftp://h//a", "sftp://h//b"),
            ("https://h/a?sig=1", "https://h/a?sig=1"),
            ("https://h/a+b", "https://h/(c)"),
            ("https://h/a//b", "https://h/a//b"),
        ] {
            assert!(url(one).same_place(&url(other)), "{one} and {other}");
        }
    }

    #[test]
    fn another_server_user_root_or_signature_is_another_place() {
        for (one, other) in [
            ("sftp://h/a", "sftp://h:2222/a"),
            ("sftp://h/a", "sftp://me@h/a"),
            ("sftp://h/a", "sftp://h//a"),
            ("http://h/a", "https://h:80/a"),
            ("https://h/a?sig=1", "https://h/b?sig=1"),
            ("https://h/a?sig=1", "https://h/b"),
            ("https://h/a//b", "https://h/b"),
            ("https://h/a%2fb", "https://h/a/b"),
            ("s3://bucket/a", "s3://Bucket/a"),
        ] {
            assert!(!url(one).same_place(&url(other)), "{one} and {other}");
        }
    }

    #[test]
    fn a_web_address_that_says_more_than_its_names_is_kept_as_written() {
        for path in ["a//b", "/a", "a%2Fb", "a%2fb/", "a+b", "a;v=1", "x(1)"] {
            assert_eq!(url(&format!("https://h/{path}")).written.as_deref(), Some(path));
            assert_eq!(url(&format!("webdavs://h/{path}")).written, None);
        }
        for path in ["", "a/", "a/b%20c%2Bd", "a-b_c.d~e"] {
            assert_eq!(url(&format!("https://h/{path}")).written, None, "{path}");
        }
        assert_eq!(url("https://h/a+b").named().written, None);
        assert_eq!(url("https://h/a//b+c").named().written.as_deref(), Some("a//b+c"));
    }
}
