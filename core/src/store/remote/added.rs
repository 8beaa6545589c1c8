//! Services that crates beside this one bring: each adds its URL schemes, and what opens them, to the table here.

use super::{Opened, Purpose};
use crate::endpoint::{Endpoint, Scheme, ServiceUrl};
use crate::error::{Error, ErrorKind, Result};
use crate::options::TransferOptions;
use crate::sync::RwLock;
use crate::transfer::job::Job;

/// A kind of service that another crate brings.
pub trait Added: Send + Sync {
    /// The URL schemes that it answers to, without `://`; none of them is one of edt's own.
    fn schemes(&self) -> &'static [&'static str];

    /// Opens the service of a URL as a store; of the options, those of security count.
    fn open(&self, url: &ServiceUrl, purpose: Purpose, options: &TransferOptions) -> Result<Opened>;

    /// What carries out a transfer that moves something other than files; `None` if files are copied from store to store.
    fn job(&self, sources: &[Endpoint], destination: &Endpoint, options: &TransferOptions) -> Result<Option<Box<dyn Job>>>;
}

static ADDED: RwLock<Vec<&'static dyn Added>> = RwLock::new(Vec::new());

/// Adds a kind of service to the table of this process. One that is there already stays.
pub fn register(service: &'static dyn Added) {
    let mut added = ADDED.write();
    if added.iter().all(|known| known.schemes() != service.schemes()) {
        added.push(service);
    }
}

/// The scheme of this name, if a service that was added answers to it.
pub(crate) fn scheme(name: &str) -> Option<Scheme> {
    names().into_iter().find(|known| *known == name).map(Scheme::Added)
}

/// All schemes that were added.
pub(crate) fn names() -> Vec<&'static str> {
    ADDED.read().iter().flat_map(|service| service.schemes()).copied().collect()
}

/// What opens the URLs of a scheme that was added.
pub(super) fn find(scheme: &'static str) -> Result<&'static dyn Added> {
    ADDED.read().iter().find(|service| service.schemes().contains(&scheme)).copied().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, format!("could not open a URL of `{scheme}://`"))
            .with_cause("the part of edt that speaks it was not registered")
    })
}

/// What carries out a transfer between these endpoints in a service's own way, if one of them wants to.
pub(crate) fn job(sources: &[Endpoint], destination: &Endpoint, options: &TransferOptions) -> Result<Option<Box<dyn Job>>> {
    for endpoint in sources.iter().chain([destination]) {
        let location = endpoint.resolve()?;
        let Some(Scheme::Added(scheme)) = location.service().map(|url| url.scheme) else { continue };
        if let Some(job) = find(scheme)?.job(sources, destination, options)? {
            return Ok(Some(job));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Location;

    struct Nothing;

    impl Added for Nothing {
        fn schemes(&self) -> &'static [&'static str] {
            &["nothing", "nothing+tls"]
        }

        fn open(&self, url: &ServiceUrl, _: Purpose, _: &TransferOptions) -> Result<Opened> {
            Err(Error::new(ErrorKind::NotFound, url.place()))
        }

        fn job(&self, _: &[Endpoint], _: &Endpoint, _: &TransferOptions) -> Result<Option<Box<dyn Job>>> {
            Ok(None)
        }
    }

    #[test]
    fn a_scheme_that_was_added_resolves_to_a_service_with_path_and_query() {
        let endpoint = Endpoint::from("nothing+tls://me@h:7/a%20b?x=1");
        assert_eq!(endpoint.resolve().unwrap_err().kind(), ErrorKind::Unsupported);
        register(&Nothing);
        register(&Nothing);
        let Location::Service(url) = endpoint.resolve().unwrap() else { panic!("no service") };
        assert_eq!((url.path.as_str(), url.query.as_deref()), ("a b", Some("x=1")));
        assert_eq!(url.place(), "nothing+tls://me@h:7");
        let opened = super::super::open(&url, Purpose::Read, &TransferOptions::default());
        assert_eq!(opened.err().unwrap().what(), "nothing+tls://me@h:7");
        assert!(job(&[endpoint], &"here".into(), &TransferOptions::default()).unwrap().is_none());
        assert_eq!(names().iter().filter(|name| **name == "nothing").count(), 1);
    }
}
