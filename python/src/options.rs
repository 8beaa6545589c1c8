//! Keyword arguments as the options structs of the core, field by field under the same names.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use edt::endpoint::parse_size;
use edt::optimizer::PolicyName;
use edt::options::{Access, Digest, Fsync, Overwrite, Plain, Remember, RunMode, SecretSource, Selection, Sharing, Symlinks};
use edt::path::RelativePath;
use edt::{ServeOptions, TransferOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Fills the options of a transfer; a name that is none of them is a `TypeError`.
pub(crate) fn transfer_options(given: &Bound<'_, PyDict>) -> PyResult<TransferOptions> {
    let (py, mut options) = (given.py(), TransferOptions::default());
    for (name, value) in given {
        let name: String = name.extract()?;
        let known = set_tuning(&mut options, &name, &value)
            .and_then(|known| if known { Ok(true) } else { set_files(&mut options, &name, &value) })
            .map_err(|error| named(py, &name, &error))?;
        if !known {
            return Err(unexpected(&name));
        }
    }
    Ok(options)
}

fn set_tuning(options: &mut TransferOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match name {
        "optimizer" => options.optimizer = value.extract()?,
        "agent" => options.agent = value.extract()?,
        "knowledge" => options.knowledge = value.extract()?,
        "history" => options.history = remember(value)?,
        "deterministic" => options.deterministic = value.extract()?,
        "seed" => options.seed = value.extract()?,
        "concurrency" => options.concurrency = value.extract()?,
        "policy" => {
            let names =
                [("fair", PolicyName::Fair), ("high", PolicyName::High), ("low", PolicyName::Low), ("fixed", PolicyName::Fixed)];
            options.policy = choice(value, &names)?;
        }
        "limit_rate" => options.limit_rate = optional(value, rate)?,
        "worker_rate" => options.worker_rate = optional(value, rate)?,
        "max_streams" => options.max_streams = streams(value)?,
        "parallelism" => options.parallelism = optional(value, streams)?,
        "pipelining" => options.pipelining = value.extract()?,
        "congestion" => options.congestion = value.extract()?,
        "chunk_size" => options.chunk_size = optional(value, size)?,
        "interval" => options.interval = optional(value, duration)?,
        "host_streams" => options.host.streams = optional(value, streams)?,
        "server_streams" => options.host.server_streams = optional(value, streams)?,
        "host_memory" => options.host.memory = optional(value, size)?,
        "host_rate" => options.host.rate = optional(value, rate)?,
        "broker" => options.host.sharing = sharing(value)?,
        "retries" => options.retries = value.extract()?,
        "buffer" => options.buffer = size(value)?,
        "token_file" => options.secret = secret(value)?,
        "plain" => options.plain = plain(value)?,
        "known_hosts" => options.known_hosts = value.extract()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_files(options: &mut TransferOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match name {
        "files" => options.files = optional(value, files)?,
        "name" => options.name = value.extract()?,
        "include" => options.include = value.extract()?,
        "exclude" => options.exclude = value.extract()?,
        "selection" => {
            let names = [("all", Selection::All), ("changed", Selection::Changed), ("mirror", Selection::Mirror)];
            options.selection = choice(value, &names)?;
        }
        "overwrite" => {
            options.overwrite = choice(value, &[("replace", Overwrite::Replace), ("never", Overwrite::Never)])?;
        }
        "symlinks" => {
            let names = [("keep", Symlinks::Keep), ("follow", Symlinks::Follow), ("skip", Symlinks::Skip)];
            options.symlinks = choice(value, &names)?;
        }
        "fsync" => {
            options.fsync = choice(value, &[("none", Fsync::None), ("file", Fsync::File), ("full", Fsync::Full)])?;
        }
        "digest" => options.digest = choice(value, &[("blake3", Digest::Blake3), ("none", Digest::None)])?,
        "dry_run" => options.run = if value.extract()? { RunMode::DryRun } else { RunMode::Copy },
        "manifest" => options.manifest = value.extract()?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Fills the options of a server.
pub(crate) fn serve_options(root: PathBuf, given: &Bound<'_, PyDict>) -> PyResult<ServeOptions> {
    let (py, mut options) = (given.py(), ServeOptions::new(root));
    for (name, value) in given {
        let name: String = name.extract()?;
        let known = set_serve(&mut options, &name, &value).map_err(|error| named(py, &name, &error))?;
        if !known {
            return Err(unexpected(&name));
        }
    }
    Ok(options)
}

fn set_serve(options: &mut ServeOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match name {
        "listen" => options.listen = value.extract()?,
        "token_file" => options.secret = secret(value)?,
        "read_only" => options.access = if value.extract()? { Access::ReadOnly } else { Access::ReadWrite },
        "certificate" => options.certificate = value.extract()?,
        "identity" => options.identity = value.extract()?,
        "plain" => options.plain = plain(value)?,
        "max_sessions" => options.max_sessions = value.extract()?,
        "max_streams" => options.max_streams = streams(value)?,
        "worker_rate" => options.worker_rate = optional(value, rate)?,
        "buffer" => options.buffer = size(value)?,
        "grace" => options.grace = duration(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Takes `None` or a bool.
fn sharing(value: &Bound<'_, PyAny>) -> PyResult<Sharing> {
    let shares: Option<bool> = value.extract()?;
    Ok(shares.map_or(Sharing::Environment, |shares| if shares { Sharing::Shared } else { Sharing::Apart }))
}

/// Takes `None`, a bool, or the word `names`.
fn remember(value: &Bound<'_, PyAny>) -> PyResult<Remember> {
    if let Ok(keep) = value.extract::<bool>() {
        return Ok(if keep { Remember::Machines } else { Remember::Nothing });
    }
    optional(value, |value| choice(value, &[("names", Remember::Names)])).map(Option::unwrap_or_default)
}

fn optional<T>(value: &Bound<'_, PyAny>, convert: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Option<T>> {
    if value.is_none() { Ok(None) } else { convert(value).map(Some) }
}

/// Takes relative paths; one text alone would be taken for its letters.
fn files(value: &Bound<'_, PyAny>) -> PyResult<Vec<RelativePath>> {
    let paths: Vec<PathBuf> = value.extract()?;
    let relative = |path: &PathBuf| {
        let name =
            edt::path::name_bytes(path.as_os_str()).ok_or_else(|| PyValueError::new_err("a name in it is not valid text"))?;
        RelativePath::from_user_bytes(name).map_err(|error| PyValueError::new_err(error.to_string()))
    };
    paths.iter().map(relative).collect()
}

fn choice<T: Copy>(value: &Bound<'_, PyAny>, names: &[(&str, T)]) -> PyResult<T> {
    let given: String = value.extract()?;
    names.iter().find(|(name, _)| *name == given).map(|(_, found)| *found).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("`{given}` is none of {}", names.join(", ")))
    })
}

/// Takes a number of bytes, or a text with a unit.
pub(crate) fn size(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    let Ok(text) = value.extract::<String>() else { return value.extract() };
    parse_size(&text).ok_or_else(|| PyValueError::new_err(format!("`{text}` is no size; write for example 16MiB")))
}

fn rate(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if value.extract::<String>().is_ok() { size(value).map(|rate| rate as f64) } else { value.extract() }
}

/// Takes a `timedelta`, or a number of seconds.
fn duration(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    if let Ok(duration) = value.extract() {
        return Ok(duration);
    }
    Duration::try_from_secs_f64(value.extract()?).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn streams(value: &Bound<'_, PyAny>) -> PyResult<NonZeroU16> {
    NonZeroU16::new(value.extract()?).ok_or_else(|| PyValueError::new_err("it must be at least 1"))
}

fn secret(value: &Bound<'_, PyAny>) -> PyResult<SecretSource> {
    Ok(value.extract::<Option<PathBuf>>()?.map_or(SecretSource::Environment, SecretSource::File))
}

fn plain(value: &Bound<'_, PyAny>) -> PyResult<Plain> {
    Ok(if value.extract()? { Plain::Anywhere } else { Plain::LoopbackOnly })
}

/// Says which option a value does not fit: a wrong type stays a `TypeError`, all else becomes the error for input.
fn named(py: Python<'_>, name: &str, error: &PyErr) -> PyErr {
    let cause = error.value(py).to_string();
    if error.is_instance_of::<PyTypeError>(py) {
        return PyTypeError::new_err(format!("could not use the option `{name}`: {cause}"));
    }
    let refused = edt::Error::new(edt::ErrorKind::InvalidInput, format!("could not use the option `{name}`"));
    crate::error::raised(py, &refused.with_cause(cause))
}

fn unexpected(name: &str) -> PyErr {
    PyTypeError::new_err(format!("got an unexpected keyword argument '{name}'"))
}
