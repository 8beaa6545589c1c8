//! What a URL says: the server, how it is spoken to, and which table of it is meant.

use edt::endpoint::ServiceUrl;
use edt::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;

use crate::contract::{Command, Form};

/// The port where a URL names none, as the examples of Arrow have it.
const DEFAULT_PORT: u16 = 8815;

/// The scheme that encrypts on loopback as well.
pub(super) const TLS: &str = "flight+tls";

/// The scheme that encrypts beyond loopback.
pub(super) const AUTOMATIC: &str = "flight";

/// One server, and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Host name or address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) encryption: Encryption,
    /// The user that the URL names.
    pub(super) user: Option<String>,
}

/// Whether connections are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Encryption {
    /// They are, wherever the server is.
    Always,
    /// Beyond loopback, unless the options allow plain connections.
    BeyondLoopback,
    /// They are not: a location that a service named.
    Never,
}

impl Place {
    pub(super) fn of(url: &ServiceUrl) -> Self {
        let encryption = if url.scheme.name() == TLS { Encryption::Always } else { Encryption::BeyondLoopback };
        let (host, port) = (url.host.clone(), url.port.unwrap_or(DEFAULT_PORT));
        Self { host, port, encryption, user: url.user.clone() }
    }

    /// The place of a location that a service named for an endpoint; `None` if it is spoken to in a way that edt does not know.
    pub(super) fn of_location(uri: &str) -> Option<Self> {
        let (scheme, rest) = uri.split_once("://")?;
        let encryption = match scheme {
            "grpc" | "grpc+tcp" => Encryption::Never,
            "grpc+tls" => Encryption::Always,
            _ => return None,
        };
        let authority = rest.split(['/', '?']).next()?;
        let (host, port) = authority.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Self { host, port: port.parse().ok()?, encryption, user: None })
    }

    /// `host:port`, an IPv6 address in brackets.
    pub(super) fn name(&self) -> String {
        if self.host.contains(':') { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }
}

/// The command that the path and the query of a URL make.
pub(super) fn command(url: &ServiceUrl) -> Result<Command> {
    let mut command = Command::of(url.path.trim_matches('/'));
    for (name, value) in query(url)? {
        let refused = |cause: &str| {
            Error::new(ErrorKind::InvalidInput, format!("could not use `{name}={value}` in the URL `{}/...`", url.place()))
                .with_cause(cause.to_owned())
                .with_hint("the query takes as=table or as=bytes, columns=a,b and rows=FIRST,COUNT")
        };
        match name.as_str() {
            "as" if value == "table" => command.form = Some(Form::Table),
            "as" if value == "bytes" => command.form = Some(Form::Bytes),
            "columns" => command.columns = Some(value.split(',').map(str::to_owned).collect()),
            "rows" => {
                let numbers = value.split_once(',').and_then(|(first, count)| Some([first.parse().ok()?, count.parse().ok()?]));
                command.rows = Some(numbers.ok_or_else(|| refused("it is not two numbers"))?);
            }
            _ => return Err(refused("there is no such option of a Flight URL")),
        }
    }
    if command.form != Some(Form::Table) && (command.columns.is_some() || command.rows.is_some()) {
        return Err(Error::new(ErrorKind::InvalidInput, format!("could not use the query of the URL `{}/...`", url.place()))
            .with_cause("columns and rows are of tables only")
            .with_hint("add as=table"));
    }
    Ok(command)
}

fn query(url: &ServiceUrl) -> Result<Vec<(String, String)>> {
    let decoded = |text: &str| {
        percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned).map_err(|cause| {
            Error::new(ErrorKind::InvalidInput, format!("could not use the query of the URL `{}/...`", url.place()))
                .with_cause(cause)
        })
    };
    let parts = url.query.as_deref().unwrap_or_default().split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decoded(name)?, decoded(value)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use edt::endpoint::Location;

    use super::*;

    fn url(text: &str) -> ServiceUrl {
        crate::register();
        let Location::Service(url) = edt::Endpoint::from(text).resolve().unwrap() else { panic!("no service") };
        url
    }

    #[test]
    fn a_url_names_server_and_table() {
        let url = url("flight+tls://[::1]/a/b%20c.parquet?as=table&columns=x,y%26z&rows=5,10");
        let place = Place::of(&url);
        assert_eq!((place.name().as_str(), place.encryption), ("[::1]:8815", Encryption::Always));
        let command = command(&url).unwrap();
        assert_eq!((command.path.as_str(), command.form, command.rows), ("a/b c.parquet", Some(Form::Table), Some([5, 10])));
        assert_eq!(command.columns.unwrap(), ["x", "y&z"]);
    }

    #[test]
    fn what_a_query_cannot_say_is_refused() {
        for text in ["flight://h/a?colums=x", "flight://h/a?as=table&rows=5", "flight://h/a?columns=x", "flight://h/a?as=tree"] {
            assert_eq!(command(&url(text)).unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
        }
    }

    #[test]
    fn locations_of_endpoints_are_grpc_with_and_without_tls() {
        let plain = Place::of_location("grpc+tcp://10.0.0.1:31337").unwrap();
        assert_eq!((plain.name().as_str(), plain.encryption), ("10.0.0.1:31337", Encryption::Never));
        let tls = Place::of_location("grpc+tls://[fe80::1]:5").unwrap();
        assert_eq!((tls.name().as_str(), tls.encryption), ("[fe80::1]:5", Encryption::Always));
        for other in ["https://h/x", "grpc+unix:///tmp/s", "nonsense", "grpc://h"] {
            assert_eq!(Place::of_location(other), None, "{other}");
        }
    }
}
