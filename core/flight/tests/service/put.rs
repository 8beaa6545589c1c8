//! Files that clients write.

use std::time::{Duration, Instant};

use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use edt::options::Access;
use edt_flight::contract::{Command, Digests, PutProgress, ROW_BYTES, Rule, hex64};
use futures_util::{TryStreamExt as _, stream};
use prost::Message as _;
use tonic::Code;

use super::support::{SECRET, World, authorized, chunked, content, descriptor, held, refused, rows};

fn digests(content: &[u8]) -> Digests {
    Digests {
        size: content.len() as u64,
        crc64nvme: hex64(edt::pipeline::digest::crc64nvme(content)),
        blake3: blake3::hash(content).to_hex().to_string(),
    }
}

#[test]
fn a_file_is_written_whole_and_its_digests_are_told() {
    let world = World::new();
    let file = content(20 * ROW_BYTES + 3);
    let command = Command {
        size: Some(file.len() as u64),
        crc64nvme: Some(digests(&file).crc64nvme),
        modified_ns: Some(1_000_000_007),
        mode: Some(0o640),
        ..Command::of("new/dir/f.bin")
    };
    let told = world.put(&command, chunked(&file, 0, ROW_BYTES)).unwrap();
    assert_eq!(told.last(), Some(&PutProgress::Complete(digests(&file))));
    assert!(told.contains(&PutProgress::Written { written: 16 << 20 }), "{told:?}");
    assert!(world.read("new/dir/f.bin") == file);
    let facts = std::fs::metadata(world.path("new/dir/f.bin")).unwrap();
    assert_eq!(facts.modified().unwrap(), std::time::UNIX_EPOCH + Duration::from_nanos(1_000_000_007));
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&facts) & 0o777, 0o640);
    assert_eq!(world.names(), ["new/dir/f.bin"]);
}

#[test]
fn an_empty_file_and_rows_of_any_length_are_written() {
    let world = World::new();
    assert_eq!(world.put(&Command::of("empty"), vec![]).unwrap(), [PutProgress::Complete(digests(b""))]);
    let file = content(100_000);
    world.put(&Command::of("f"), vec![rows([(0, &file[..7]), (7, &file[7..7]), (7, &file[7..])])]).unwrap();
    assert!(world.read("f") == file && world.read("empty").is_empty());
}

#[test]
fn what_is_not_as_it_was_announced_leaves_nothing_behind() {
    let world = World::new();
    world.write("there", "old");
    let ab = |at: u64| vec![rows([(0, &b"aaaa"[..])]), rows([(at, &b"bbbb"[..])])];
    let sized = |size| Command { size: Some(size), ..Command::of("there") };
    let cases = [
        (Command::of("there"), ab(5), Code::InvalidArgument),
        (Command::of("there"), ab(3), Code::InvalidArgument),
        (Command::of("there"), ab(u64::MAX), Code::InvalidArgument),
        (sized(9), ab(4), Code::DataLoss),
        (sized(7), ab(4), Code::InvalidArgument),
        (Command { crc64nvme: Some(hex64(1)), ..Command::of("there") }, ab(4), Code::DataLoss),
        (Command { crc64nvme: Some("x".to_owned()), ..Command::of("there") }, ab(4), Code::InvalidArgument),
        (Command { overwrite: Some(Rule::Never), ..Command::of("there") }, ab(4), Code::AlreadyExists),
        (Command { range: Some([0, 8]), ..Command::of("there") }, ab(4), Code::InvalidArgument),
        (Command::of(""), ab(4), Code::FailedPrecondition),
    ];
    for (command, batches, code) in cases {
        let (found, message) = refused(world.put(&command, batches));
        assert_eq!(found, code, "{command:?}: {message}");
        assert_eq!(world.read("there"), b"old");
        assert_eq!(world.names(), ["there"], "{command:?}");
    }
}

/// The messages of a put, without its end.
fn begun(world: &World, command: &Command) -> Vec<FlightData> {
    let batches = chunked(&content(4 * ROW_BYTES), 0, ROW_BYTES);
    let encoder = FlightDataEncoderBuilder::new().with_flight_descriptor(Some(descriptor(command)));
    world.run(async { encoder.build(stream::iter(batches.into_iter().map(Ok))).try_collect().await.unwrap() })
}

/// Sends messages over HTTP/2 by hand, and resets the stream as a client does that cancels its call.
async fn sent_and_cancelled(world: &World, messages: &[FlightData]) {
    let address = world.url.trim_start_matches("http://");
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::post(format!("{}/arrow.flight.protocol.FlightService/DoPut", world.url))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {SECRET}"))
        .body(())
        .unwrap();
    let (answer, mut stream) = client.ready().await.unwrap().send_request(request, false).unwrap();
    for message in messages {
        let encoded = message.encode_to_vec();
        let framed = [&[0][..], &u32::try_from(encoded.len()).unwrap().to_be_bytes(), &encoded].concat();
        stream.send_data(framed.into(), false).unwrap();
    }
    assert_eq!(answer.await.unwrap().status(), 200);
    let written = || world.names().iter().any(|name| std::fs::metadata(world.path(name)).is_ok_and(|file| file.len() >= 4 << 20));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !written() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stream.send_reset(h2::Reason::CANCEL);
    // The connection lives on meanwhile: it is not its end that the server notices.
    settled(world);
    connection.abort();
}

#[test]
fn a_put_that_is_cancelled_leaves_nothing_behind() {
    let world = World::new();
    let data = begun(&world, &Command::of("f.bin"));
    world.run(sent_and_cancelled(&world, &data));
    assert_eq!(world.names(), Vec::<String>::new());
}

#[test]
fn a_client_that_cannot_cancel_says_that_it_gives_up() {
    let world = World::new();
    let mut data = begun(&world, &Command::of("f.bin"));
    data.push(FlightData { app_metadata: r#"{"abort": true}"#.into(), ..FlightData::default() });
    assert_eq!(refused(world.run(world.put_messages(data.clone()))).0, Code::Cancelled);
    assert_eq!(world.names(), Vec::<String>::new());
    data.last_mut().unwrap().app_metadata = r#"{"note": "the last one"}"#.into();
    world.run(world.put_messages(data)).unwrap();
    assert_eq!(world.names(), ["f.bin"]);
}

#[test]
fn a_put_whose_connection_breaks_leaves_nothing_behind() {
    let world = World::new();
    let data = begun(&world, &Command::of("f.bin"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (send, receive) = tokio::sync::mpsc::channel(16);
    runtime.block_on(async {
        let mut client = world.raw().await;
        for message in data {
            send.send(message).await.unwrap();
        }
        let told = client.do_put(authorized(held(receive))).await.unwrap();
        std::mem::forget(told);
    });
    // The tasks of the connection die with their runtime, as with their process.
    runtime.shutdown_background();
    settled(&world);
    assert_eq!(world.names(), Vec::<String>::new());
}

/// Waits until no temporary file is left, as the server notices by itself that a client is gone.
fn settled(world: &World) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !world.names().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nothing_is_written_to_a_server_that_is_read_only() {
    let world = World::with(|options| options.access = Access::ReadOnly);
    let (code, message) = refused(world.put(&Command::of("f"), chunked(b"x", 0, 1)));
    assert!(code == Code::PermissionDenied && message.contains("hint: "), "{message}");
    assert_eq!(world.names(), Vec::<String>::new());
}
