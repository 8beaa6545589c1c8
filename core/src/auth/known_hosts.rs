//! The identities that a client has pinned, as ssh does: the first one seen of a server is kept, another one later is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::auth::{config_dir, create_private_dir};
use crate::error::{Error, ErrorKind, Result};

/// A file of lines `host:port SHA256:<hexadecimal digits>`; empty lines and lines that begin with `#` do not count.
#[derive(Debug, Clone)]
pub struct KnownHosts {
    path: PathBuf,
}

/// A pinned identity and the line that holds it, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// As [`crate::auth::identity::fingerprint`] makes it.
    pub fingerprint: String,
    /// The line's number.
    pub line: usize,
}

impl KnownHosts {
    /// The file of this path, default `known_hosts` in the configuration directory; it need not exist.
    pub fn new(path: Option<&Path>) -> Result<Self> {
        Ok(Self {
            path: path.map_or_else(|| config_dir().map(|directory| directory.join("known_hosts")), |path| Ok(path.to_owned()))?,
        })
    }

    /// The identity that is pinned for `server`, written as `host:port`.
    pub fn find(&self, server: &str) -> Result<Option<Pin>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(find_in(&text, server)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(self.failed("read", &cause)),
        }
    }

    /// The identities that `server` may show: the one that is pinned for it, or else those that are pinned for other ports of its host.
    pub fn trusted(&self, server: &str) -> Result<Vec<String>> {
        if let Some(pin) = self.find(server)? {
            return Ok(vec![pin.fingerprint]);
        }
        let text = match fs::read_to_string(&self.path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(|cause| self.failed("read", &cause))?,
        };
        let host = |name: &str| name.rsplit_once(':').map(|(host, _)| host.to_owned());
        let pinned = text.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
        Ok(pinned.filter(|(name, _)| host(name) == host(server)).map(|(_, found)| found.trim().to_owned()).collect())
    }

    /// The error for a server of which nothing is known, with what to do to trust it.
    pub fn unknown(&self, server: &str, fingerprint: &str) -> Error {
        Error::new(ErrorKind::Refused, format!("could not trust the server `{server}`"))
            .with_cause(format!("nobody vouches for its certificate, and its identity `{fingerprint}` is not pinned"))
            .with_hint(format!(
                "compare it with the fingerprint that the server shows when it starts, and add the line `{server} {fingerprint}` to `{}`; \
                 a host whose native port (edt://) was used once is known",
                self.path.display()
            ))
    }

    /// Pins the identity of a server that is not pinned yet; processes that do so at once agree on the first.
    pub fn pin(&self, server: &str, fingerprint: &str) -> Result<()> {
        let mut file = self.open().map_err(|cause| self.failed("write", &cause))?;
        file.lock().map_err(|cause| self.failed("lock", &cause))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|cause| self.failed("read", &cause))?;
        match find_in(&text, server) {
            Some(pin) if pin.fingerprint == fingerprint => Ok(()),
            Some(pin) => Err(self.changed(server, fingerprint, &pin)),
            None => {
                let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                let line = format!("{separator}{server} {fingerprint}\n");
                file.write_all(line.as_bytes()).map_err(|cause| self.failed("write", &cause))
            }
        }
    }

    /// The error for a server whose identity is not the pinned one.
    pub fn changed(&self, server: &str, fingerprint: &str, pin: &Pin) -> Error {
        let path = self.path.display();
        Error::new(ErrorKind::Refused, format!("could not trust the server `{server}`"))
            .with_cause(format!("its identity is `{fingerprint}`, pinned is `{}`; someone may be in the middle", pin.fingerprint))
            .with_hint(format!("if its operator says that the identity was changed, remove line {} of `{path}`", pin.line))
    }

    fn open(&self) -> io::Result<File> {
        if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            create_private_dir(parent)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.path)
    }

    fn failed(&self, operation: &str, cause: &io::Error) -> Error {
        Error::io(format!("could not {operation} the known hosts in `{}`", self.path.display()), cause)
    }
}

fn find_in(text: &str, server: &str) -> Option<Pin> {
    text.lines().zip(1..).find_map(|(content, line)| {
        let (name, fingerprint) = content.trim().split_once(char::is_whitespace)?;
        (name == server).then(|| Pin { fingerprint: fingerprint.trim().to_owned(), line })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(directory: &tempfile::TempDir) -> KnownHosts {
        KnownHosts::new(Some(&directory.path().join("edt/known_hosts"))).unwrap()
    }

    #[test]
    fn a_pinned_identity_is_found_again_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let known = known(&directory);
        assert_eq!(known.find("a:1").unwrap(), None);
        known.pin("a:1", "SHA256:aa").unwrap();
        known.pin("[::1]:2", "SHA256:bb").unwrap();
        known.pin("a:1", "SHA256:aa").unwrap();
        assert_eq!(known.find("[::1]:2").unwrap(), Some(Pin { fingerprint: "SHA256:bb".to_owned(), line: 2 }));
        assert_eq!(fs::read_to_string(&known.path).unwrap(), "a:1 SHA256:aa\n[::1]:2 SHA256:bb\n");
    }

    #[test]
    fn a_host_is_known_by_its_other_ports_unless_this_one_is_pinned() {
        let directory = tempfile::tempdir().unwrap();
        let known = known(&directory);
        assert_eq!(known.trusted("a:1").unwrap(), Vec::<String>::new());
        known.pin("a:1", "SHA256:aa").unwrap();
        known.pin("a:2", "SHA256:bb").unwrap();
        known.pin("aa:1", "SHA256:cc").unwrap();
        assert_eq!(known.trusted("a:3").unwrap(), ["SHA256:aa", "SHA256:bb"]);
        assert_eq!(known.trusted("a:2").unwrap(), ["SHA256:bb"]);
        assert_eq!(known.trusted("b:1").unwrap(), Vec::<String>::new());
        let error = known.unknown("b:1", "SHA256:dd");
        assert!(error.hint().unwrap().contains("`b:1 SHA256:dd`"), "{error}");
    }

    #[test]
    fn another_identity_is_refused_with_the_line_to_remove() {
        let directory = tempfile::tempdir().unwrap();
        let known = known(&directory);
        known.pin("a:1", "SHA256:aa").unwrap();
        let error = known.pin("a:1", "SHA256:cc").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.hint().unwrap().contains("remove line 1 of"));
    }

    #[test]
    fn a_file_edited_by_hand_is_understood() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known_hosts");
        fs::write(&path, "# mine\n\n  a:1\tSHA256:aa  \nb:1 SHA256:bb").unwrap();
        let known = KnownHosts::new(Some(&path)).unwrap();
        assert_eq!(known.find("a:1").unwrap(), Some(Pin { fingerprint: "SHA256:aa".to_owned(), line: 3 }));
        known.pin("c:1", "SHA256:cc").unwrap();
        assert_eq!(known.find("b:1").unwrap().unwrap().fingerprint, "SHA256:bb");
        assert_eq!(known.find("c:1").unwrap().unwrap().line, 5);
    }

    #[test]
    fn processes_that_pin_at_once_agree_on_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let known = known(&directory);
        let pinned: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    scope.spawn({
                        let known = &known;
                        move || known.pin("a:1", &format!("SHA256:{n}")).is_ok()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(pinned.iter().filter(|pinned| **pinned).count(), 1);
        assert_eq!(fs::read_to_string(&known.path).unwrap().lines().count(), 1);
    }
}
