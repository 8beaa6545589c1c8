//! Where the copies of an exploration of three stages go: a directory of its own below the destination, gone afterwards.

use std::path::PathBuf;

use crate::auth::secret;
use crate::endpoint::{Endpoint, Location};
use crate::error::{Error, ErrorKind, Result};
use crate::files::Files;
use crate::options::TransferOptions;
use crate::path::RelativePath;
use crate::protocol::hex;
use crate::store::{Depth, EntryKind};
use crate::transfer::Transfer;

/// A directory to copy to.
pub(super) struct Scratch {
    place: Place,
    target: Endpoint,
}

enum Place {
    /// A directory of this machine.
    Here(PathBuf),
    /// A directory of a server, by its URL.
    There(Endpoint),
    /// `null:` keeps nothing.
    Nowhere,
}

impl Scratch {
    /// Takes a name below an existing directory.
    pub(super) fn below(destination: &Endpoint, options: &TransferOptions) -> Result<Self> {
        let name = format!(".edt-explore-{}", hex(&secret::random::<4>()?));
        match destination.resolve()? {
            Location::Local { path, .. } => Self::here(path.join(name)),
            Location::Remote(_) => {
                let entry = Files::open(destination, options)?.stat(&RelativePath::root())?;
                if matches!(entry.kind, EntryKind::File | EntryKind::Other) {
                    return Err(Error::new(ErrorKind::WrongType, format!("could not copy below `{destination}`"))
                        .with_cause("it is no directory")
                        .with_hint("name a directory of the server as the destination"));
                }
                let url = format!("{}/{name}", destination.as_str().trim_end_matches('/'));
                let target = Endpoint::new(format!("{url}/data/"));
                Ok(Self { place: Place::There(Endpoint::new(url)), target })
            }
            Location::Service(_) => {
                Err(Error::new(ErrorKind::Unsupported, format!("could not explore the path to `{destination}`"))
                    .with_cause("a service bills requests, and keeps what exploring would leave there")
                    .with_hint("explore the path to an edt server"))
            }
            Location::Null => Ok(Self { place: Place::Nowhere, target: destination.clone() }),
            Location::Zero { .. } => Err(Error::new(ErrorKind::InvalidInput, "`zero:` cannot be a destination")),
        }
    }

    fn here(path: PathBuf) -> Result<Self> {
        std::fs::create_dir(&path).map_err(|cause| {
            Error::io(format!("could not create the scratch directory `{}`", path.display()), &cause)
                .with_hint("name an existing directory that can be written as the destination")
        })?;
        // What is partial lies beside the target, and so inside the scratch directory too.
        let target = Endpoint::from(path.join("data").join(""));
        Ok(Self { place: Place::Here(path), target })
    }

    /// Where to copy to.
    pub(super) fn target(&self) -> &Endpoint {
        &self.target
    }

    /// Removes what the copies of `source` left; a failure is told in the log, for what was measured is as good.
    pub(super) fn remove(self, source: &Endpoint, options: &TransferOptions) {
        let (removed, place) = match &self.place {
            Place::Nowhere => return,
            Place::Here(path) => {
                let removed = std::fs::remove_dir_all(path);
                (removed.map_err(|cause| Error::io("could not remove it", &cause)), path.display().to_string())
            }
            Place::There(url) => (self.remove_there(url, source, options), url.to_string()),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "the scratch directory is still there: remove it with `edt rm -r '{place}'`");
        }
    }

    fn remove_there(&self, url: &Endpoint, source: &Endpoint, options: &TransferOptions) -> Result<()> {
        // The same transfer once more, of nothing: the server ends the one that was cancelled before it begins another, and so
        // publishes nothing more behind our back.
        let nothing = TransferOptions { exclude: vec!["*".to_owned()], ..options.clone() };
        let ending = || Transfer::new(source.clone(), self.target.clone()).with_options(nothing.clone()).without_resuming().run();
        // The server gives a session whose connection is gone some seconds before it lets another one take over. Any other failure, such
        // as a source that is gone, leaves nothing that could still publish.
        if ending().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
            let _ = ending();
        }
        let (files, root) = (Files::open(url, options)?, RelativePath::root());
        match files.stat(&root) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => files.remove(&root, Depth::Tree),
        }
    }
}
