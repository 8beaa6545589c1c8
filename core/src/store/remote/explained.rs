//! What is likely meant by a path that is not there.

use super::{Purpose, open};
use crate::endpoint::{Scheme, ServiceUrl};
use crate::error::{Error, ErrorKind};
use crate::options::TransferOptions;

/// For a path that is not there: says so if the same path is there from the server's root, as for `sftp://host/data` in place of
/// `sftp://host//data`.
pub(crate) fn explained(url: &ServiceUrl, error: Error) -> Error {
    let has_home = matches!(url.scheme, Scheme::Sftp | Scheme::Ftp | Scheme::Ftps);
    if error.kind() != ErrorKind::NotFound || !has_home || url.path.starts_with('/') {
        return error;
    }
    let whole = ServiceUrl { path: format!("/{}", url.path), ..url.clone() };
    match open(&whole, Purpose::Read, &TransferOptions::default()).and_then(|opened| opened.store.stat(&opened.base)) {
        Ok(_) => error.with_hint(format!(
            "one slash behind the host leads below the user's own directory, two to the root: `{}//{}` is there",
            url.place(),
            url.path
        )),
        Err(_) => error,
    }
}
