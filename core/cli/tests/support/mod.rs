//! Runs the binary in an environment of its own: an empty configuration directory and a known secret.

// Each test program uses a part of this, and a test that cannot be set up fails.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The secret that servers and clients of the tests share.
pub(crate) const SECRET: &str = "a-secret-for-tests";

/// A directory that is gone after the test, and the program to run in it.
pub(crate) struct World {
    directory: tempfile::TempDir,
}

/// What a finished command left.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn make_directory(&self, name: &str) {
        std::fs::create_dir(self.path(name)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))).unwrap()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// The program with arguments, ready to start in the directory.
    pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edt"));
        let configuration = self.path(".configuration");
        command.args(arguments).current_dir(self.directory.path()).stdin(Stdio::null());
        for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "APPDATA"] {
            command.env(variable, &configuration);
        }
        command.env("EDT_DATA_DIR", configuration.join("data")).env("EDT_BROKER_DIR", configuration.join("broker"));
        command.env("EDT_TOKEN", SECRET).env_remove("EDT_LOG");
        command
    }

    /// Runs the program to its end; arguments are separated by white space.
    pub(crate) fn edt(&self, arguments: &str) -> Ended {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        self.command(&arguments).output().unwrap().into()
    }

    /// Starts a server on a free port of this host.
    pub(crate) fn serve(&self, arguments: &str) -> Server {
        let arguments: Vec<&str> = ["serve", "--listen", "127.0.0.1:0"].into_iter().chain(arguments.split_whitespace()).collect();
        let mut child = self.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("no server: {line:?}"));
        Server { url: format!("edt://{address}"), child }
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// Fails the test, with all that the command said, unless it ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }
}

/// A running server; dropping it ends it.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names of the files below a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(directory).unwrap().to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found.sort();
    found
}
