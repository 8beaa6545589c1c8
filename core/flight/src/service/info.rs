//! What is told of files before they are read: descriptors, endpoints and tickets.

use std::sync::Arc;

use ::bytes::Bytes;
use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::{FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket};
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::{Schema, SchemaRef};
use edt::path::RelativePath;
use edt::store::{Depth, EntryKind, Store};
use edt::{Error, ErrorKind, Result};

use super::blocking::{Feed, Gone};
use super::root::{Root, Walk, path};
use super::{bytes, tables};
use crate::contract::{Command, Criteria, Form, json, text};

/// Bytes of a file that one endpoint holds, if the client does not say how many endpoints there are to be.
const ENDPOINT_BYTES: u64 = 64 << 20;

/// Endpoints of a file, if the client does not say.
const ENDPOINTS: u64 = 64;

/// The most endpoints that a client may ask for.
pub(super) const MOST_ENDPOINTS: u32 = 1024;

/// Endpoints with at least this many bytes begin at multiples of 1 MiB.
const ALIGN_FROM: u64 = 4 << 20;

/// What was opened to be read.
pub(super) struct Reading {
    /// The columns.
    pub(super) schema: SchemaRef,
    /// The message that tells the columns.
    pub(super) first: FlightData,
    /// What follows it.
    pub(super) feed: Feed<FlightData>,
    /// What tells the end where others follow on the same stream, unless the feed does.
    pub(super) end: Option<FlightData>,
}

/// Opens what a command names.
pub(super) fn read(root: &Root, command: &Command) -> Result<Reading> {
    match form(root, command)? {
        Form::Bytes => {
            refuse(command, "read bytes", &["path", "as", "range", "version", "endpoints"])?;
            bytes::read(root, command)
        }
        Form::Table => {
            refuse(command, "read a table", TABLE_FIELDS)?;
            tables::read(root, command)
        }
    }
}

/// What a command may say that reads a table.
const TABLE_FIELDS: &[&str] = &["path", "as", "version", "columns", "rows", "row_group", "batch_rows", "endpoints"];

/// The form in which a file is read; a directory can only be a table.
fn form(root: &Root, command: &Command) -> Result<Form> {
    if let Some(form) = command.form {
        return Ok(form);
    }
    let path = path(&command.path)?;
    Ok(if root.is_directory(&path)? { Form::Table } else { Form::of_name(&command.path) })
}

/// A field that does nothing here was meant to do something.
pub(super) fn refuse(command: &Command, action: &str, known: &[&str]) -> Result<()> {
    let fields = serde_json::to_value(command).ok();
    let unknown = fields.as_ref().and_then(|fields| fields.as_object()?.keys().find(|key| !known.contains(&key.as_str())));
    unknown.map_or(Ok(()), |unknown| {
        Err(Error::new(ErrorKind::InvalidInput, format!("could not {action}: `{unknown}` has no meaning there"))
            .with_hint(format!("what has one: {}", known.join(", "))))
    })
}

/// The command that a descriptor is.
pub(super) fn command(descriptor: &FlightDescriptor) -> Result<Command> {
    match descriptor.r#type() {
        DescriptorType::Path => Ok(Command::of(descriptor.path.join("/"))),
        DescriptorType::Cmd => Command::from_json(&descriptor.cmd),
        DescriptorType::Unknown => {
            Err(Error::new(ErrorKind::InvalidInput, "could not use the descriptor")
                .with_cause("it is neither a path nor a command"))
        }
    }
}

/// The columns of what a command names, as `GetSchema` tells them.
pub(super) fn schema(root: &Root, command: &Command) -> Result<Bytes> {
    check_endpoints(command)?;
    let schema = match form(root, command)? {
        Form::Bytes => {
            let path = path(&command.path)?;
            bytes::schema(&path, &root.open_file(&path, command.version.as_deref())?)?
        }
        Form::Table => tables::describe(root, command)?.schema,
    };
    ipc(&schema)
}

/// Everything about what a command names, with the tickets to read it.
pub(super) fn describe(root: &Root, command: &Command, descriptor: FlightDescriptor) -> Result<FlightInfo> {
    check_endpoints(command)?;
    match form(root, command)? {
        Form::Bytes => {
            refuse(command, "read bytes", &["path", "as", "range", "version", "endpoints"])?;
            describe_bytes(root, command, descriptor)
        }
        Form::Table => {
            refuse(command, "read a table", TABLE_FIELDS)?;
            let table = tables::describe(root, command)?;
            Ok(FlightInfo {
                schema: ipc(&table.schema)?,
                flight_descriptor: Some(descriptor),
                endpoint: table.tickets.iter().map(endpoint).collect(),
                total_records: table.rows.map_or(-1, signed),
                total_bytes: signed(table.bytes),
                ordered: true,
                app_metadata: table.facts.map(|facts| json(&facts).into()).unwrap_or_default(),
            })
        }
    }
}

/// Refuses more endpoints than are told: each takes memory, and a table could be cut into as many as it has rows.
fn check_endpoints(command: &Command) -> Result<()> {
    if command.endpoints.is_none_or(|count| (1..=MOST_ENDPOINTS).contains(&count)) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, format!("could not divide `{}` so", command.path))
        .with_hint(format!("ask for 1 to {MOST_ENDPOINTS} endpoints")))
}

fn describe_bytes(root: &Root, command: &Command, descriptor: FlightDescriptor) -> Result<FlightInfo> {
    let path = path(&command.path)?;
    let opened = root.open_file(&path, command.version.as_deref())?;
    let (begin, end) = bytes::window(&path, opened.entry.size, command.range)?;
    let ticket = |range: [u64; 2]| Command {
        form: Some(Form::Bytes),
        range: Some(range),
        version: Some(opened.version.clone()),
        ..Command::of(path.to_string())
    };
    Ok(FlightInfo {
        schema: ipc(bytes::schema(&path, &opened)?.as_ref())?,
        flight_descriptor: Some(descriptor),
        endpoint: ranges(begin, end, command.endpoints).into_iter().map(|range| endpoint(&ticket(range))).collect(),
        total_records: -1,
        total_bytes: signed(end - begin),
        ordered: true,
        app_metadata: json(&bytes::facts(&opened)).into(),
    })
}

/// The ranges of the endpoints of `begin..end`, in order: offset and length.
fn ranges(begin: u64, end: u64, endpoints: Option<u32>) -> Vec<[u64; 2]> {
    let length = end - begin;
    let count = endpoints.map_or_else(|| length.div_ceil(ENDPOINT_BYTES).clamp(1, ENDPOINTS), u64::from).clamp(1, length.max(1));
    let unit = if length / count >= ALIGN_FROM { 1 << 20 } else { 1 };
    // Below 2^64 only if the parts are counted first.
    let cut = |part: u64| length / count * part + (length % count * part) / count;
    let bound = |part: u64| if part == count { end } else { begin + cut(part) / unit * unit };
    (0..count).map(|part| [bound(part), bound(part + 1) - bound(part)]).collect()
}

fn endpoint(ticket: &Command) -> FlightEndpoint {
    FlightEndpoint { ticket: Some(Ticket { ticket: ticket.to_json().into() }), ..FlightEndpoint::default() }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A schema as infos carry it.
fn ipc(schema: &Schema) -> Result<Bytes> {
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &IpcWriteOptions::default()));
    message.map(|message| message.0).map_err(|cause| Error::new(ErrorKind::Io, "could not tell the columns").with_cause(cause))
}

/// The files that `ListFlights` tells; what looks for them ends once its caller has gone.
pub(super) fn list(root: Arc<Root>, criteria: &Criteria, gone: Gone) -> Result<Feed<FlightInfo>> {
    let prefix = root.listed(&criteria.prefix)?;
    let limit = criteria.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let begins = match root.local.stat(&prefix) {
        Err(error) if error.kind() == ErrorKind::NotFound => prefix.parent().ok_or(error)?,
        found => found.map(|_| prefix.clone())?,
    };
    let wanted = prefix.as_bytes().to_vec();
    let entries = Walk::new(Arc::clone(&root), &begins, Depth::Tree, &wanted)?.take_while(move |_| !gone());
    let entries = entries.filter_map(|entry| entry.inspect_err(|error| tracing::debug!(%error, "left out of a listing")).ok());
    let files = entries.filter(move |entry| entry.kind != EntryKind::Directory && entry.path.as_bytes().starts_with(&wanted));
    Ok(Box::new(files.filter_map(move |entry| one(&root, &entry.path).map(Ok)).take(limit)))
}

/// The info of one file of a listing; one that vanished, cannot be opened or has a name that is not text is left out.
fn one(root: &Root, path: &RelativePath) -> Option<FlightInfo> {
    let name = text(path).ok()?;
    let descriptor = FlightDescriptor::new_path(name.split('/').map(str::to_owned).collect());
    let described = describe(root, &Command::of(&name), descriptor.clone()).or_else(|_| {
        // A file that is no table though its name says so is still a file.
        describe(root, &Command { form: Some(Form::Bytes), ..Command::of(&name) }, descriptor)
    });
    match described {
        Ok(info) => Some(info),
        Err(error) => {
            tracing::debug!(%path, %error, "a file is left out of a listing");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use edt::ServeOptions;
    use edt::auth::secret::Secret;

    use super::super::blocking::Caller;
    use super::*;

    #[test]
    fn endpoints_cover_a_range_without_gap() {
        for (begin, end, wanted, count) in [
            (0, 0, None, 1),
            (0, 0, Some(8), 1),
            (0, 3, Some(8), 3),
            (0, 64 << 20, None, 1),
            (0, (64 << 20) + 1, None, 2),
            (7, 1 << 40, None, 64),
            (0, 100 << 20, Some(7), 7),
            (1, u64::MAX, Some(1024), 1024),
        ] {
            let ranges = ranges(begin, end, wanted);
            assert_eq!(ranges.len(), count, "{begin}..{end}");
            let mut at = begin;
            for [offset, length] in ranges {
                assert_eq!(offset, at);
                assert!(length > 0 || begin == end);
                at += length;
            }
            assert_eq!(at, end);
        }
    }

    #[test]
    fn a_listing_ends_once_its_caller_has_gone() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(directory.path().join(name), name).unwrap();
        }
        let secret = Secret::new("0123456789abcdef", "a test").unwrap();
        let root = Arc::new(Root::open(&ServeOptions::new(directory.path()), &secret).unwrap());
        let caller = Caller::default();
        let mut infos = list(root, &Criteria::default(), caller.gone()).unwrap();
        assert!(infos.next().is_some());
        drop(caller);
        assert!(infos.next().is_none());
    }

    #[test]
    fn a_path_is_the_same_in_one_piece_and_in_several() {
        let whole = FlightDescriptor::new_path(vec!["a/b.bin".to_owned()]);
        let parts = FlightDescriptor::new_path(vec!["a".to_owned(), "b.bin".to_owned()]);
        assert_eq!(command(&whole).unwrap(), command(&parts).unwrap());
        assert!(command(&FlightDescriptor::default()).is_err());
    }

    #[test]
    fn a_field_without_meaning_is_named() {
        let command = Command { columns: Some(vec!["x".to_owned()]), ..Command::of("a") };
        let error = refuse(&command, "read bytes", &["path"]).unwrap_err();
        assert!(error.what().contains("`columns`"), "{error}");
    }
}
