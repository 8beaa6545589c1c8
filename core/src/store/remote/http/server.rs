//! A server that is reached over HTTP: where it is, and who asks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::{Method, RequestBuilder};

use super::credentials::Credentials;
use super::place::{Form, Place};
use crate::endpoint::ServiceUrl;
use crate::error::Result;
use crate::path::RelativePath;
use crate::store::remote::web::{Answer, Web};

/// A server; threads share it.
pub(crate) struct Server {
    web: Web,
    place: Place,
    credentials: Credentials,
    ranges: AtomicBool,
}

impl Server {
    /// The server of a URL; does not connect.
    pub(crate) fn open(url: &ServiceUrl) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            web: Web::new()?,
            place: Place::new(url)?,
            credentials: Credentials::find(url),
            ranges: AtomicBool::new(false),
        }))
    }

    pub(crate) fn web(&self) -> &Web {
        &self.web
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Whether it has answered with a range of a file.
    pub(crate) fn does_ranges(&self) -> bool {
        self.ranges.load(Ordering::Relaxed)
    }

    /// Remembers that it answers with ranges of files.
    pub(crate) fn remember_ranges(&self) {
        self.ranges.store(true, Ordering::Relaxed);
    }

    /// The operation and place, for errors.
    pub(crate) fn what(&self, operation: &str, path: &RelativePath) -> String {
        format!("could not {operation} `{}`", self.place.show(path))
    }

    /// A request with credentials.
    pub(crate) fn request(&self, method: Method, path: &RelativePath, form: Form) -> Result<RequestBuilder> {
        Ok(self.credentials.sign(self.web.client().request(method, self.place.url(path, form)?)))
    }

    /// Makes one attempt, see [`Web::send`].
    pub(crate) fn send(&self, operation: &str, path: &RelativePath, request: RequestBuilder, accepted: &[u16]) -> Result<Answer> {
        self.web.send(&self.what(operation, path), request, accepted)
    }
}
