//! What only a server knows of the sources of a transfer.

use crate::error::{ErrorKind, Result};
use crate::files;
use crate::link::client::Session;
use crate::open::is_pattern;
use crate::open::overlap::unmirrored;
use crate::options::TransferOptions;
use crate::path::RelativePath;
use crate::plan::find_match;
use crate::protocol::message::Root;
use crate::store::EntryKind;

/// Asks the server for what only it knows of its sources, and answers with name and size of a single file: a name with the characters of
/// a pattern that exists literally stands for itself.
pub(super) fn name_roots(session: &Session, roots: &mut [Root], options: &TransferOptions) -> Result<Option<(Vec<u8>, u64)>> {
    let alone = options.is_alone(roots.len());
    for root in roots.iter_mut().filter(|root| root.prefix.is_empty()) {
        let path = RelativePath::from_bytes(&root.path)?;
        match files::stat(&session.control, &path) {
            Ok(entry) if alone => {
                let size = match entry.kind {
                    EntryKind::Directory => None,
                    EntryKind::Symlink(_) => files::linked_size(&session.control, &path)?,
                    EntryKind::File | EntryKind::Other => Some(entry.size),
                };
                return Ok(size.map(|size| (path.name().unwrap_or_default().to_vec(), size)));
            }
            Ok(_) => root.prefix = path.name().unwrap_or_default().to_vec(),
            Err(error) if error.kind() == ErrorKind::NotFound && is_pattern(&root.path) => {
                unmirrored(options, || find_match(&path, |base, depth| files::list(&session.control, base, depth)))?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
