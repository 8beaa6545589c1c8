//! Bringing a file to its name at edt's own service, in one call that the service answers when the file is there.

use std::sync::Arc;

use arrow_flight::{FlightData, FlightDescriptor};
use edt::error::Retry;
use edt::pipeline::digest::crc64nvme;
use edt::store::{EntryKind, Publication};
use edt::{Error, ErrorKind, Result};
use futures_util::stream;

use super::files::described;
use super::host::Host;
use super::rows::RowWriter;
use super::writer::FlightWriter;
use crate::contract::{Command, CommitBody, Digests, Form, Rule, action, hex64};

/// Publishes a file. If that fails, an upload stays for another attempt unless its bytes are not what they should be.
pub(super) fn publish(publication: Publication) -> Result<()> {
    let Publication { writer, metadata, overwrite, crc64nvme: crc } = publication;
    let writer = writer.into_any().downcast::<FlightWriter>().map_err(|_| {
        Error::new(ErrorKind::InvalidInput, "could not publish a file").with_cause("its writer belongs to another store")
    })?;
    let rule = Rule::from(overwrite);
    let published = match writer.take_held() {
        Some(bytes) => {
            let command = Command {
                form: Some(Form::Bytes),
                size: Some(bytes.len() as u64),
                overwrite: Some(rule),
                modified_ns: metadata.modified_ns,
                mode: metadata.mode,
                crc64nvme: Some(hex64(crc.unwrap_or_else(|| crc64nvme(&bytes)))),
                ..Command::of(writer.path.clone())
            };
            settled(&writer, &metadata, || put(&writer.host, &command, &bytes, &|| writer.what("write")))
        }
        None => writer.finish().and_then(|upload| {
            let (modified_ns, mode) = (metadata.modified_ns, metadata.mode);
            let body = CommitBody { upload, crc64nvme: crc.map(hex64), overwrite: rule, modified_ns, mode };
            settled(&writer, &metadata, || {
                writer.host.act::<Digests>(action::COMMIT, &body, &|| writer.what("publish")).map(drop)
            })
        }),
    };
    match &published {
        Ok(()) => writer.settle(),
        Err(error) if error.kind() == ErrorKind::Corrupted => writer.discard(),
        Err(_) => {}
    }
    published
}

/// Puts a whole file in one call.
fn put(host: &Arc<Host>, command: &Command, bytes: &[u8], what: &dyn Fn() -> String) -> Result<()> {
    let descriptor = FlightDescriptor::new_cmd(command.to_json());
    let mut messages = vec![FlightData { flight_descriptor: Some(descriptor), ..RowWriter::schema()? }];
    if !bytes.is_empty() {
        messages.push(RowWriter::default().message(0, bytes)?);
    }
    let mut lease = host.lease()?;
    let request = host.request(stream::iter(messages));
    host.wait_for_message(what, async {
        let mut results = lease.client.do_put(request).await?.into_inner();
        while results.message().await?.is_some() {}
        Ok(())
    })?;
    lease.keep();
    Ok(())
}

/// Makes attempts while a further one may help. After one whose answer was lost, an upload that is gone or a name that is taken may be
/// its success.
fn settled(writer: &FlightWriter, metadata: &edt::store::Metadata, attempt: impl Fn() -> Result<()>) -> Result<()> {
    let mut unclear = false;
    writer.host.patience.run(|| {
        let made = attempt();
        if let Err(error) = &made {
            let gone = matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound);
            if unclear && gone && is_there(writer, metadata) {
                return Ok(());
            }
            unclear |= error.retry() == Retry::Temporary && error.kind() != ErrorKind::Corrupted;
        }
        made
    })
}

/// Whether the file of this name is what was written, as far as its size and time can tell.
fn is_there(writer: &FlightWriter, metadata: &edt::store::Metadata) -> bool {
    let Ok(known) = described(&writer.host, &writer.file.path) else { return false };
    let entry = known.entry;
    entry.kind == EntryKind::File
        && entry.size == writer.file.size
        && metadata.modified_ns.is_some()
        && entry.modified_ns == metadata.modified_ns
}
