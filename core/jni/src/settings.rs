//! Settings of the engine and of a transfer, as pairs of fields.

use std::num::NonZeroU16;
use std::path::PathBuf;

use edt::endpoint::parse_size;
use edt::options::{Digest, Fsync, Overwrite, Plain, SecretSource, Selection, Symlinks};
use edt::path::RelativePath;
use edt::{Endpoint, Result, Transfer, TransferOptions};

use crate::fields::{Fields, mistaken};

/// The options that all transfers and questions of an engine share.
pub(crate) fn engine(block: &[u8]) -> Result<TransferOptions> {
    let mut options = TransferOptions::default();
    let mut fields = Fields::of(block)?;
    while let Some(name) = fields.next() {
        let value = fields.field()?;
        let known = set(&mut options, name, value);
        known.ok_or_else(|| mistaken(&format!("the setting `{name}`")).with_cause(format!("`{value}` does not fit")))?;
    }
    options.validate()?;
    Ok(options)
}

fn set(options: &mut TransferOptions, name: &str, value: &str) -> Option<()> {
    match name {
        "tokenFile" => options.secret = SecretSource::File(PathBuf::from(value)),
        "knownHosts" => options.known_hosts = Some(PathBuf::from(value)),
        "plain" => options.plain = if value.parse().ok()? { Plain::Anywhere } else { Plain::LoopbackOnly },
        "maxStreams" => options.max_streams = value.parse::<NonZeroU16>().ok()?,
        "limitRate" => options.limit_rate = Some(parse_size(value).filter(|rate| *rate > 0)? as f64),
        _ => return None,
    }
    Some(())
}

/// A transfer: its source and destination, then pairs.
pub(crate) fn transfer(block: &[u8], shared: &TransferOptions) -> Result<Transfer> {
    let mut fields = Fields::of(block)?;
    let (source, destination) = (Endpoint::new(fields.field()?), Endpoint::new(fields.field()?));
    // `-resume` takes a staged file by its name and size: what was reported as done must outlive a crash of the machine.
    let mut options = TransferOptions { digest: Digest::None, fsync: Fsync::File, ..shared.clone() };
    let mut files: Vec<RelativePath> = Vec::new();
    while let Some(name) = fields.next() {
        let value = fields.field()?;
        match name {
            "file" => files.push(RelativePath::from_user(value)?),
            "name" => options.name = Some(value.to_owned()),
            "mirror" => options.selection = Selection::Mirror,
            "never" => options.overwrite = Overwrite::Never,
            "follow" => options.symlinks = Symlinks::Follow,
            _ => return Err(mistaken(&format!("the option `{name}`"))),
        }
    }
    options.files = (!files.is_empty()).then_some(files);
    Ok(Transfer::new(source, destination).with_options(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_does_not_fit_is_named() {
        let options = engine(b"maxStreams\x008\0limitRate\x0010MB\0").unwrap();
        assert_eq!((options.max_streams.get(), options.limit_rate), (8, Some(10e6)));
        for bad in [&b"maxStreams\x000\0"[..], b"limitRate\0fast\0", b"what\0x\0", b"plain\0yes\0"] {
            let error = engine(bad).unwrap_err().to_string();
            let name = std::str::from_utf8(bad).unwrap().split('\0').next().unwrap();
            assert!(error.contains(name), "{error}");
        }
    }
}
