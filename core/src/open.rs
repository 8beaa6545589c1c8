//! Opens endpoints: which store serves one, and which path in it is meant.

pub(crate) mod overlap;
pub(crate) mod probe;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::endpoint::{Endpoint, Location, Remote, Scheme, ServiceUrl};
use crate::error::{Error, ErrorKind, Result};
use crate::link::client::Target;
use crate::options::{Symlinks, TransferOptions};
use crate::path::{RelativePath, name_bytes};
use crate::plan::Filter;
use crate::plan::walk::walk;
use crate::protocol::message::Root;
use crate::store::local::{LocalStore, STAGING};
use crate::store::null::{NullStore, ZeroStore};
use crate::store::remote::{self, Purpose};
use crate::store::throttled::{Rates, ThrottledStore};
use crate::store::{Copier, EntryKind, Store};

/// The characters that make a path a pattern.
const PATTERN: &[u8] = b"*?[{";

/// Sources of one transfer, all in one place.
pub(crate) enum Sources {
    /// In a store of this process.
    Here {
        store: Arc<dyn Store>,
        roots: Vec<Root>,
        /// The name of the file, if the source is one file.
        file_name: Option<Vec<u8>>,
    },
    /// On a server.
    ///
    /// A single one has no prefix, nor has one that is a pattern unless its name exists.
    There { target: Target, roots: Vec<Root> },
}

/// The destination of a transfer.
pub(crate) enum Destination {
    /// In a store of this process.
    Here { store: Arc<dyn Store>, base: RelativePath, into: bool },
    /// On a server.
    There { target: Target, base: RelativePath, into: bool },
}

/// Opens the sources; they must be all local or all on one server.
pub(crate) fn sources(endpoints: &[Endpoint], options: &TransferOptions) -> Result<Sources> {
    let locations = endpoints.iter().map(Endpoint::resolve).collect::<Result<Vec<_>>>()?;
    match locations.as_slice() {
        [] => Err(Error::new(ErrorKind::InvalidInput, "a transfer needs a source")),
        [Location::Local { .. } | Location::Remote(_) | Location::Service(_)] if !options.is_alone(1) => {
            several(&locations, options)
        }
        [Location::Zero { count: 0, .. }] => {
            Err(Error::new(ErrorKind::InvalidInput, "`zero:` holds no files").with_hint("write zero:SIZE or zero:COUNTxSIZE"))
        }
        [Location::Zero { count, size }] => {
            let store = Arc::new(ZeroStore::new(*count, *size));
            Ok(Sources::Here { store, roots: vec![Root::default()], file_name: None })
        }
        [Location::Null] => Err(Error::new(ErrorKind::InvalidInput, "`null:` cannot be a source").with_hint("use zero:SIZE")),
        [Location::Local { path, .. }] => local_source(path, options),
        [Location::Remote(remote)] => remote_sources(&[remote], options),
        [Location::Service(url)] => service_sources(&[url], options),
        many => several(many, options),
    }
}

fn several(locations: &[Location], options: &TransferOptions) -> Result<Sources> {
    let mut paths = Vec::new();
    let mut remotes = Vec::new();
    let services: Vec<_> = locations.iter().filter_map(Location::service).collect();
    // Without a port it is the configuration of ssh that names one.
    let same = |url: &&ServiceUrl| url.same_place(services[0]) && (url.scheme != Scheme::Sftp || url.port == services[0].port);
    if services.len() == locations.len() && services.iter().all(same) {
        return service_sources(&services, options);
    }
    for location in locations {
        match location {
            Location::Local { path, .. } => paths.push(absolute(path)?),
            Location::Remote(remote) => remotes.push(remote),
            _ => return Err(mixed()),
        }
    }
    if paths.is_empty() && remotes.iter().all(|remote| Target::from(*remote) == Target::from(remotes[0])) {
        return remote_sources(&remotes, options);
    }
    if !remotes.is_empty() {
        return Err(mixed());
    }
    let mut base = paths[0].parent().unwrap_or(Path::new("/")).to_path_buf();
    // A source that holds another keeps its own name too.
    while !paths.iter().all(|path| path.starts_with(&base) && *path != base) && base.pop() {}
    let mut roots = Vec::new();
    for path in &paths {
        let below = relative(path.strip_prefix(&base).unwrap_or(path))?;
        let prefix = below.name().unwrap_or_default().to_vec();
        let prefix = if is_local_pattern(path) { Vec::new() } else { prefix };
        roots.push(Root { path: below.as_bytes().to_vec(), prefix });
    }
    Ok(Sources::Here { store: Arc::new(LocalStore::open(&base, options.symlinks)), roots, file_name: None })
}

fn mixed() -> Error {
    Error::new(ErrorKind::InvalidInput, "several sources must all be local, or all on one server or service")
        .with_hint("copy from each place with a command of its own")
}

fn local_source(path: &Path, options: &TransferOptions) -> Result<Sources> {
    let symlinks = options.symlinks;
    if is_local_pattern(path) {
        let path = absolute(path)?;
        let mut base = path.clone();
        while is_local_pattern(&base) {
            base.pop();
        }
        let pattern = relative(path.strip_prefix(&base).unwrap_or(&path))?;
        let root = Root { path: pattern.as_bytes().to_vec(), prefix: Vec::new() };
        let store = Arc::new(LocalStore::open(&base, symlinks));
        overlap::unmirrored(options, || found(&*store, &root))?;
        return Ok(Sources::Here { store, roots: vec![root], file_name: None });
    }
    let described =
        std::fs::metadata(path).map_err(|cause| Error::io(format!("could not open the source `{}`", path.display()), &cause))?;
    if described.is_dir() {
        let store = Arc::new(LocalStore::open(path, symlinks));
        return Ok(Sources::Here { store, roots: vec![Root::default()], file_name: None });
    }
    let path = absolute(path)?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    let name = relative(path.strip_prefix(parent).unwrap_or(&path))?;
    // A link that is named as the source is followed, as cp does.
    let symlinks = if symlinks == Symlinks::Keep && path.is_symlink() { Symlinks::Follow } else { symlinks };
    Ok(Sources::Here {
        store: Arc::new(LocalStore::open(parent, symlinks)),
        roots: vec![Root { path: name.as_bytes().to_vec(), prefix: Vec::new() }],
        file_name: Some(name.as_bytes().to_vec()),
    })
}

/// Sources on one service; a name with the characters of a pattern that exists literally stands for itself.
fn service_sources(urls: &[&ServiceUrl], options: &TransferOptions) -> Result<Sources> {
    let alone = options.is_alone(urls.len());
    let mut roots = Vec::new();
    let mut file_name = None;
    let Some(first) = urls.first() else { return Err(Error::new(ErrorKind::InvalidInput, "a transfer needs a source")) };
    let first = if alone { (*first).clone() } else { first.named() };
    let store = remote::open(&first, Purpose::Read, options)?.store;
    if options.symlinks == Symlinks::Follow && store.capabilities().symlinks {
        return Err(Error::new(ErrorKind::Unsupported, format!("could not follow the links of `{}`", first.place()))
            .with_cause("edt follows symbolic links of local directories and of edt servers alone")
            .with_hint("keep them, or leave them out with --symlinks skip"));
    }
    if let ([url], Some(_)) = (urls, &options.files) {
        // Of what was chosen it is told which is there.
        let roots = vec![Root { path: remote::base(url)?.as_bytes().to_vec(), prefix: Vec::new() }];
        return Ok(Sources::Here { store, roots, file_name });
    }
    for url in urls {
        let path = remote::base(url)?;
        let name = path.name().unwrap_or_default().to_vec();
        let mut root = Root { path: path.as_bytes().to_vec(), prefix: Vec::new() };
        match store.stat(&path) {
            Ok(entry) if alone => file_name = (entry.kind != EntryKind::Directory).then_some(name),
            Ok(_) => root.prefix = name,
            Err(error) if error.kind() == ErrorKind::NotFound && is_pattern(path.as_bytes()) => {
                overlap::unmirrored(options, || found(&*store, &root))?;
            }
            Err(error) => return Err(remote::explained(url, error)),
        }
        roots.push(root);
    }
    Ok(Sources::Here { store, roots, file_name })
}

/// An error if what a root names is not in a store, or nothing there matches it.
fn found(store: &dyn Store, root: &Root) -> Result<()> {
    walk(store, std::slice::from_ref(root), &Filter::new(&[], &[])?).map(drop)
}

fn remote_sources(remotes: &[&Remote], options: &TransferOptions) -> Result<Sources> {
    let mut roots = Vec::new();
    for remote in remotes {
        let path = RelativePath::from_user(&remote.path)?;
        let alone = options.is_alone(remotes.len()) || is_pattern(path.as_bytes());
        let prefix = if alone { Vec::new() } else { path.name().unwrap_or_default().to_vec() };
        roots.push(Root { path: path.as_bytes().to_vec(), prefix });
    }
    Ok(Sources::There { target: Target::from(remotes[0]), roots })
}

/// Opens the destination.
pub(crate) fn destination(endpoint: &Endpoint, options: &TransferOptions) -> Result<Destination> {
    match endpoint.resolve()? {
        Location::Null => Ok(Destination::Here { store: Arc::new(NullStore::new()), base: RelativePath::root(), into: true }),
        Location::Zero { .. } => {
            Err(Error::new(ErrorKind::InvalidInput, "`zero:` cannot be a destination").with_hint("use null:"))
        }
        Location::Service(url) => {
            let opened = remote::open(&url, Purpose::Write, options)?;
            Ok(Destination::Here { store: opened.store, base: opened.base, into: url.directory })
        }
        Location::Remote(remote) => {
            let base = RelativePath::from_user(&remote.path)?;
            Ok(Destination::There { target: Target::from(&remote), base, into: remote.directory })
        }
        Location::Local { path, directory } => {
            let (root, base) = place(&path)?;
            Ok(Destination::Here { store: Arc::new(LocalStore::open(&root, Symlinks::Keep)), base, into: directory })
        }
    }
}

/// Chooses the root of a local destination: partial files live beside the destination, where cleaning it does not reach them, unless
/// that is another file system or not writable, or others stage there.
fn place(path: &Path) -> Result<(PathBuf, RelativePath)> {
    let path = if path.is_dir() {
        std::fs::canonicalize(path).map_err(|cause| Error::io(format!("could not open `{}`", path.display()), &cause))?
    } else {
        absolute(path)?
    };
    let mut root = path.parent().unwrap_or(&path).to_path_buf();
    while !root.is_dir() && root.pop() {}
    if path.is_dir() && !(same_writable_place(&root, &path) && may_stage(&root)) {
        root.clone_from(&path);
    }
    let base = relative(path.strip_prefix(&root).unwrap_or(Path::new("")))?;
    Ok((root, base))
}

/// Whether what is staged in a directory is not closed to this user, as that of another user is.
fn may_stage(root: &Path) -> bool {
    let staged = root.join(STAGING);
    staged.symlink_metadata().is_err() || is_writable(&staged)
}

#[cfg(unix)]
fn same_writable_place(parent: &Path, directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    is_writable(parent) && device(parent).is_some() && device(parent) == device(directory)
}

#[cfg(not(unix))]
fn same_writable_place(parent: &Path, _: &Path) -> bool {
    is_writable(parent)
}

/// Whether this user may put something into a directory.
#[cfg(unix)]
fn is_writable(directory: &Path) -> bool {
    use rustix::fs::{Access, access};
    directory.is_dir() && access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(directory: &Path) -> bool {
    directory.is_dir()
}

/// The path without `.` and `..`, from the root of the file system.
fn absolute(path: &Path) -> Result<PathBuf> {
    let failed = |cause: std::io::Error| Error::io(format!("could not find `{}`", path.display()), &cause);
    if path.components().any(|part| part == std::path::Component::ParentDir) {
        let parent = path.parent().unwrap_or(Path::new("."));
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let parent = std::fs::canonicalize(parent).map_err(failed)?;
        return match path.file_name() {
            Some(name) => Ok(parent.join(name)),
            None => std::fs::canonicalize(path).map_err(failed),
        };
    }
    let whole = std::path::absolute(path).map_err(failed)?;
    Ok(whole.components().collect())
}

fn relative(path: &Path) -> Result<RelativePath> {
    let mut relative = RelativePath::root();
    for part in path.components() {
        let name = name_bytes(part.as_os_str()).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, format!("could not use the path `{}`", path.display()))
                .with_cause("a name in it is not valid text")
        })?;
        relative = relative.child(name)?;
    }
    Ok(relative)
}

/// Whether a path has the characters of a pattern.
pub(crate) fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| PATTERN.contains(byte))
}

/// Whether a path is a pattern and not the name of something that exists.
fn is_local_pattern(path: &Path) -> bool {
    is_pattern(path.to_string_lossy().as_bytes()) && path.symlink_metadata().is_err()
}

/// The machine of an endpoint without any of its files: its server, or `here`, which names memory of this process.
pub(crate) fn memory(endpoint: &Endpoint, here: String) -> Result<Endpoint> {
    Ok(match endpoint.resolve()? {
        Location::Remote(remote) => {
            let scheme = if remote.tls { "edts" } else { "edt" };
            Endpoint::new(format!("{scheme}://{}/", Target::from(&remote).name()))
        }
        Location::Service(url) => {
            return Err(Error::new(ErrorKind::Unsupported, format!("could not measure the path to `{}`", url.place()))
                .with_cause("only an edt server throws away what arrives")
                .with_hint("copy files there, and look at the report"));
        }
        Location::Local { .. } | Location::Null | Location::Zero { .. } => Endpoint::new(here),
    })
}

/// An endpoint as this process understands it: a local path as an absolute one, and before the URL of an object store the address that
/// the environment gives its service.
pub(crate) fn place_of(endpoint: &Endpoint) -> Result<String> {
    let location = endpoint.resolve()?;
    if let Location::Local { path, .. } = &location {
        let path = std::path::absolute(path).unwrap_or_default();
        return Ok(Endpoint::from(path.components().collect::<PathBuf>()).as_str().to_owned());
    }
    let address = location.service().map(remote::address).transpose()?;
    Ok(address.unwrap_or_default() + endpoint.as_str())
}

/// What copies between the services of both sides without the bytes passing through here, if they can.
pub(crate) fn copier(sources: &[Endpoint], destination: &Endpoint) -> Result<Option<Arc<dyn Copier>>> {
    let locations = sources.iter().map(Endpoint::resolve).collect::<Result<Vec<_>>>()?;
    match (locations.iter().map(Location::service).collect::<Option<Vec<_>>>().as_deref(), destination.resolve()?.service()) {
        // Several sources are in one place.
        (Some([source, ..]), Some(destination)) => remote::copier(source, destination),
        _ => Ok(None),
    }
}

/// A store whose workers keep to a rate, if there is one.
pub(crate) fn throttled(store: Arc<dyn Store>, rate: Option<f64>) -> Arc<dyn Store> {
    match rate {
        Some(rate) => Arc::new(ThrottledStore::new(store, Rates::both(rate))),
        None => store,
    }
}

/// A store and the path in it, for looking at files.
pub(crate) fn local(path: &Path) -> Result<(LocalStore, RelativePath)> {
    let described =
        std::fs::symlink_metadata(path).map_err(|cause| Error::io(format!("could not open `{}`", path.display()), &cause))?;
    if described.is_dir() {
        return Ok((LocalStore::open(path, Symlinks::Keep), RelativePath::root()));
    }
    let path = absolute(path)?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    let name = relative(path.strip_prefix(parent).unwrap_or(&path))?;
    Ok((LocalStore::open(parent, Symlinks::Keep), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_the_root_itself_where_others_stage_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let above = std::fs::canonicalize(directory.path()).unwrap();
        let to = above.join("to");
        std::fs::create_dir(&to).unwrap();
        let beside = (above.clone(), RelativePath::from_user("to").unwrap());
        assert_eq!(place(&to).unwrap(), beside);
        std::fs::create_dir(above.join(STAGING)).unwrap();
        assert_eq!(place(&to).unwrap(), beside);
        // Stands for the directory of another user, which is closed to this one.
        std::fs::remove_dir(above.join(STAGING)).unwrap();
        std::fs::write(above.join(STAGING), "theirs").unwrap();
        assert_eq!(place(&to).unwrap(), (to, RelativePath::root()));
    }
}
