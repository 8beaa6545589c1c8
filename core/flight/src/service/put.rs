//! Puts: files that clients write, as bytes or as tables. What is written has a temporary name until it is complete and verified.

mod messages;
mod table;
mod whole;

use std::sync::Arc;

use arrow_flight::{FlightData, PutResult};
use arrow_schema::{DataType, Schema, SchemaRef};
use edt::pipeline::ranges::Ranges;
use edt::{Error, ErrorKind, Result};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::blocking::blocking;
use super::gate::Cut;
use super::info;
use super::root::{Root, path};
use super::uploads::Upload;
use crate::contract::{Command, DATA, Form, Kind, OFFSET, PutProgress, PutWord, json, parse};
use crate::status::status;
use messages::Rows;
use table::Table;
use whole::Whole;

/// After so many bytes the client hears what was written of an upload.
const TELL_EVERY: u64 = 4 << 20;

/// Progress that a client has not read yet; more of it is put together.
const UNREAD: usize = 16;

/// What takes the messages of a put. Dropped before its end, it leaves nothing behind that was not told.
trait Taker: Send {
    /// Takes one message.
    fn take(&mut self, data: FlightData) -> Result<()>;

    /// What there is to tell now, if it is enough.
    fn progress(&mut self) -> Option<PutProgress>;

    /// Ends the put when everything was taken; answers with what to tell last.
    fn finish(self: Box<Self>) -> Result<PutProgress>;
}

/// Begins a put: its first message says what it is.
pub(super) async fn begin(
    root: Arc<Root>,
    mut messages: Streaming<FlightData>,
    cut: Cut,
) -> Result<BoxStream<'static, Result<PutResult, Status>>, Status> {
    root.writable().map_err(|error| status(&error))?;
    let first = messages.message().await?;
    let taker = blocking(move || opened(&root, first)).await?;
    let (tell, told) = mpsc::channel(UNREAD);
    tokio::spawn(async move {
        if let Err(failed) = receive(taker, messages, &cut, &tell).await {
            // Nobody hears of it if the client is gone.
            let _ = tell.send(Err(failed)).await;
        }
    });
    Ok(stream::unfold(told, |mut told| async move { told.recv().await.map(|result| (result, told)) }).boxed())
}

fn opened(root: &Arc<Root>, first: Option<FlightData>) -> Result<Box<dyn Taker>> {
    let wrong = |cause: &str| {
        Error::new(ErrorKind::InvalidInput, "could not begin the put")
            .with_cause(cause)
            .with_hint("send a descriptor and a schema first")
    };
    let first = first.ok_or_else(|| wrong("it has no messages"))?;
    let descriptor = first.flight_descriptor.as_ref().ok_or_else(|| wrong("its first message has no descriptor"))?;
    let command = info::command(descriptor)?;
    let schema = Arc::new(Schema::try_from(&first).map_err(|cause| wrong(&format!("its first message has no schema: {cause}")))?);
    match (has_bytes(&schema), command.form) {
        (true, None | Some(Form::Bytes)) => bytes(root, command, schema),
        (false, Some(Form::Bytes)) => Err(wrong(&format!(
            "its columns are {}, and those of bytes `{OFFSET}`: uint64 and `{DATA}`: binary or large binary",
            shown(&schema)
        ))),
        (_, None | Some(Form::Table)) => {
            info::refuse(&command, "write a table", &["path", "as", "overwrite", "modified_ns", "mode"])?;
            let kind = Kind::of_name(&command.path);
            Ok(Box::new(Table::create(root, &command, &schema, kind)?))
        }
    }
}

fn bytes(root: &Arc<Root>, command: Command, schema: SchemaRef) -> Result<Box<dyn Taker>> {
    if let Some(id) = &command.upload {
        info::refuse(&command, "write to an upload", &["path", "as", "upload"])?;
        let upload = root.uploads.find(root, id)?;
        if !command.path.is_empty() && path(&command.path)?.to_string() != upload.path() {
            return Err(Error::new(ErrorKind::InvalidInput, format!("could not write `{}` to this upload", command.path))
                .with_cause(format!("it is one of `{}`", upload.path()))
                .with_hint("leave `path` out, or take the upload that was begun for it"));
        }
        return Ok(Box::new(Ranged { rows: Rows::new(schema), upload, written: Ranges::new(), untold: 0 }));
    }
    info::refuse(&command, "write bytes", &["path", "as", "size", "overwrite", "modified_ns", "mode", "crc64nvme"])?;
    Ok(Box::new(Whole::create(root, command, Rows::new(schema))?))
}

/// Whether columns are those of bytes.
fn has_bytes(schema: &Schema) -> bool {
    matches!(schema.fields().iter().as_slice(), [offset, data]
        if offset.name() == OFFSET && *offset.data_type() == DataType::UInt64
        && data.name() == DATA && matches!(data.data_type(), DataType::Binary | DataType::LargeBinary))
}

fn shown(schema: &Schema) -> String {
    let fields: Vec<String> = schema.fields().iter().map(|field| format!("`{}`: {}", field.name(), field.data_type())).collect();
    if fields.is_empty() { "none".to_owned() } else { fields.join(", ") }
}

/// Takes message after message until the client has sent them all.
async fn receive(
    mut taker: Box<dyn Taker>,
    mut messages: Streaming<FlightData>,
    cut: &Cut,
    tell: &mpsc::Sender<Result<PutResult, Status>>,
) -> Result<(), Status> {
    while let Some(data) = messages.message().await? {
        if gives_up(&data) {
            return Err(given_up());
        }
        taker = blocking(move || taker.take(data).map(|()| taker)).await?;
        // A client that reads nothing is not waited for: what it misses is told later.
        if let Ok(place) = tell.try_reserve()
            && let Some(progress) = taker.progress()
        {
            place.send(Ok(result(&progress)));
        }
    }
    if cut.is_set() || tell.is_closed() {
        return Err(given_up());
    }
    let last = blocking(move || taker.finish()).await?;
    let _ = tell.send(Ok(result(&last))).await;
    Ok(())
}

fn gives_up(data: &FlightData) -> bool {
    data.data_header.is_empty() && parse::<PutWord>(&data.app_metadata, "a word about the put").is_ok_and(|word| word.abort)
}

fn given_up() -> Status {
    status(&Error::new(ErrorKind::Cancelled, "the client gave the put up"))
}

fn result(progress: &PutProgress) -> PutResult {
    PutResult { app_metadata: json(progress).into() }
}

/// Rows of an upload, of which this stream brings some.
struct Ranged {
    rows: Rows,
    upload: Arc<Upload>,
    /// What was written and not told.
    written: Ranges,
    untold: u64,
}

impl Taker for Ranged {
    fn take(&mut self, data: FlightData) -> Result<()> {
        let Self { rows, upload, written, untold } = self;
        rows.each(data, |offset, bytes| {
            upload.write(offset, bytes)?;
            written.insert(offset, offset + bytes.len() as u64);
            *untold += bytes.len() as u64;
            Ok(())
        })
    }

    fn progress(&mut self) -> Option<PutProgress> {
        // A row that ends the file may be the last for long: the client waits for it.
        let ends = self.written.iter().last().is_some_and(|(_, end)| end == self.upload.size());
        (self.untold >= TELL_EVERY || ends).then(|| self.told())
    }

    fn finish(mut self: Box<Self>) -> Result<PutProgress> {
        Ok(self.told())
    }
}

impl Ranged {
    fn told(&mut self) -> PutProgress {
        self.untold = 0;
        let written = std::mem::take(&mut self.written);
        PutProgress::Ranges { ranges: written.iter().map(|(begin, end)| [begin, end - begin]).collect() }
    }
}
