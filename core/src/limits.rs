//! Limits of the process that edt raises as far as the user may.

/// Raises the limit of open files to what this user may have: many streams and small files in flight need more than the usual 1,024.
pub(crate) fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_err() {
            tracing::debug!("the limit of open files could not be raised");
        }
    }
}
