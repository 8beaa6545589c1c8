//! What nobody with good intentions sends.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, LargeBinaryArray, RecordBatch, UInt64Array};
use arrow_flight::FlightData;
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use edt_flight::contract::{
    BeginBody, Begun, Command, Entry, Form, Item, ListBody, MkdirBody, PathBody, RenameBody, Rule, action,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;
use tonic::Code;

use super::support::{World, chunked, descriptor, refused, rows};

/// Paths that must not lead out of the root, nor into what is staged.
const ESCAPES: [&str; 9] =
    ["..", "../secret", "a/../../secret", "/../secret", "a\0b", "a/..", ".edt", ".edt/tmp/x", "./../secret"];

/// A root beside a file that nobody may see.
fn beside_a_secret() -> (World, tempfile::TempDir) {
    let above = tempfile::tempdir().unwrap();
    std::fs::write(above.path().join("secret"), "secret").unwrap();
    let root = tempfile::tempdir_in(above.path()).unwrap();
    let world = World::over(root, |_| {});
    world.write("a/f", "x");
    (world, above)
}

#[test]
fn no_path_leads_out_of_the_root() {
    let (world, above) = beside_a_secret();
    for path in ESCAPES {
        let allowed = [Code::InvalidArgument, Code::NotFound];
        let check = |code: Code| assert!(allowed.contains(&code), "{path:?}: {code:?}");
        for form in [None, Some(Form::Bytes), Some(Form::Table)] {
            let command = Command { form, ..Command::of(path) };
            check(refused(world.info(&command)).0);
            check(refused(world.get(&command)).0);
            check(refused(world.put(&command, chunked(b"x", 0, 1))).0);
        }
        let body = PathBody { path: path.to_owned() };
        for name in [action::STAT, action::MKDIR, action::CHECKSUM] {
            check(refused(world.action::<Value>(name, &body)).0);
        }
        check(refused(world.action::<Value>(action::REMOVE, &ListBody { path: path.to_owned(), tree: true })).0);
        check(refused(world.action::<Value>(action::LIST, &ListBody { path: path.to_owned(), tree: true })).0);
        for (from, to) in [(path, "b"), ("a/f", path)] {
            let body = RenameBody { from: from.to_owned(), to: to.to_owned(), overwrite: Rule::Replace };
            check(refused(world.action::<Value>(action::RENAME, &body)).0);
        }
        let begin = BeginBody { path: path.to_owned(), size: 1, modified_ns: None, mode: None, key: None };
        check(refused(world.action::<Begun>(action::BEGIN, &begin)).0);
    }
    assert_eq!(std::fs::read(above.path().join("secret")).unwrap(), b"secret");
    assert_eq!(world.names(), ["a/f"]);
    // A slash at the beginning is the root that is served.
    assert_eq!(world.action::<Entry>(action::STAT, &PathBody { path: "/a/f".to_owned() }).unwrap()[0].path, "a/f");
}

#[test]
fn nobody_shuts_others_out_by_the_mode_of_the_root() {
    let world = World::new();
    world.write("f", "x");
    for path in ["", "/", "./"] {
        let body = MkdirBody { path: path.to_owned(), modified_ns: None, mode: Some(0) };
        assert_eq!(refused(world.action::<Value>(action::MKDIR, &body)).0, Code::PermissionDenied, "{path:?}");
    }
    assert_eq!(world.action::<Value>(action::MKDIR, &MkdirBody::default()).unwrap(), Vec::<Value>::new());
    assert_eq!(world.bytes(&Command::of("f")).unwrap(), b"x");
}

#[test]
fn what_is_staged_is_not_listed() {
    let world = World::new();
    let begin = BeginBody { path: "f".to_owned(), size: 9, modified_ns: None, mode: None, key: None };
    world.action::<Begun>(action::BEGIN, &begin).unwrap();
    assert!(!world.names().is_empty());
    assert_eq!(world.action::<Item>(action::LIST, &ListBody { path: String::new(), tree: true }).unwrap(), []);
}

#[test]
fn tickets_that_are_no_commands_are_refused() {
    let world = World::new();
    world.write("f", "12345");
    for ticket in [
        "",
        "f",
        "{",
        "[]",
        "{}",
        r#"{"path":5}"#,
        r#"{"path":"f","as":"picture"}"#,
        r#"{"path":"f","range":[0]}"#,
        r#"{"path":"f","range":[-1,5]}"#,
        r#"{"path":"f","range":[6,1]}"#,
        r#"{"path":"f","range":[18446744073709551615,18446744073709551615]}"#,
        r#"{"path":"f","range":[0,18446744073709551616]}"#,
        r#"{"path":"f","colour":"red"}"#,
        r#"{"path":"f","columns":["x"]}"#,
        r#"{"path":"f","upload":"x"}"#,
        r#"{"path":"f","as":"table"}"#,
        r#"{"path":"f","as":"table","range":[0,1]}"#,
    ] {
        let (code, message) = refused(world.get_ticket(ticket.as_bytes().to_vec()));
        assert!(matches!(code, Code::InvalidArgument | Code::FailedPrecondition), "{ticket}: {code:?} {message}");
    }
    let all = r#"{"path":"f","range":[0,18446744073709551615],"endpoints":3}"#;
    assert_eq!(world.get_ticket(all.as_bytes().to_vec()).unwrap()[0].num_rows(), 1);
    for (name, content) in tables() {
        world.write(name, content);
    }
    for (name, endpoints) in [("f", 0), ("f", 5000), ("t.parquet", 0), ("t.parquet", u32::MAX)] {
        let command = Command { endpoints: Some(endpoints), ..Command::of(name) };
        assert_eq!(refused(world.info(&command)).0, Code::InvalidArgument, "{name}, {endpoints}");
        assert_eq!(refused(world.schema(&command)).0, Code::InvalidArgument, "{name}, {endpoints}");
    }
}

#[test]
fn random_tickets_are_answered_and_the_server_goes_on() {
    let world = World::new();
    world.write("f", "12345");
    for (name, content) in tables() {
        world.write(name, content);
    }
    let keys = prop::sample::select(vec!["path", "as", "range", "rows", "row_group", "batch_rows", "columns", "version", "x"]);
    let values = prop::sample::select(vec![
        "\"f\"",
        "\"t.csv\"",
        "\"t.parquet\"",
        "\"t.arrow\"",
        "[\"x\"]",
        "0",
        "\"\"",
        "\"table\"",
        "\"bytes\"",
        "[0,1]",
        "[1e30,1]",
        "-1",
        "null",
        "4294967295",
        "[]",
    ]);
    let command = prop::collection::vec((keys, values), 0..5).prop_map(|fields| {
        let fields: Vec<String> = fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", fields.join(",")).into_bytes()
    });
    let ticket = prop_oneof![command, prop::collection::vec(any::<u8>(), 0..40)];
    let mut runner = TestRunner::new(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() });
    runner
        .run(&ticket, |ticket| {
            if let Err(status) = world.get_ticket(ticket) {
                prop_assert!(!matches!(status.code(), Code::Unknown | Code::Unavailable), "{status:?}");
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(world.bytes(&Command::of("f")).unwrap(), b"12345");
}

/// The same small table as a file of each kind; the Arrow file is compressed.
fn tables() -> [(&'static str, Vec<u8>); 3] {
    let x: ArrayRef = Arc::new(Int64Array::from(vec![7; 10_000]));
    let batch = RecordBatch::try_from_iter([("x", x)]).unwrap();
    let mut parquet = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    let options = arrow_ipc::writer::IpcWriteOptions::default();
    let options = options.try_with_compression(Some(arrow_ipc::CompressionType::LZ4_FRAME)).unwrap();
    let mut arrow = arrow_ipc::writer::FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    arrow.write(&batch).unwrap();
    [
        ("t.csv", b"x\n".iter().chain(b"7\n".repeat(10_000).iter()).copied().collect()),
        ("t.parquet", parquet.into_inner().unwrap()),
        ("t.arrow", arrow.into_inner().unwrap()),
    ]
}

#[test]
fn a_number_of_rows_takes_no_memory_before_there_are_rows() {
    let world = World::new();
    for (name, content) in tables() {
        world.write(name, content);
        let batches = world.get(&Command { batch_rows: Some(u32::MAX), ..Command::of(name) }).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 10_000, "{name}");
    }
}

#[test]
fn a_compressed_column_that_claims_to_be_huge_is_refused() {
    let world = World::new();
    let [.., (name, mut content)] = tables();
    let claimed = 80_000i64.to_le_bytes();
    let places: Vec<usize> = content.windows(8).enumerate().filter(|(_, bytes)| *bytes == claimed).map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for at in places {
        content[at..at + 8].copy_from_slice(&(1i64 << 46).to_le_bytes());
    }
    world.write(name, &content);
    let (code, message) = refused(world.get(&Command::of(name)));
    assert!(code == Code::InvalidArgument && message.contains("not compressed"), "{message}");
}

#[test]
fn rows_without_bytes_cannot_be_any_number() {
    let world = World::new();
    let nothing: ArrayRef = Arc::new(arrow_array::NullArray::new(1 << 40));
    let batch = RecordBatch::try_from_iter([("nothing", nothing)]).unwrap();
    let messages = arrow_flight::utils::batches_to_flight_data(&batch.schema(), [&batch]).unwrap();
    let mut messages: Vec<FlightData> = messages;
    messages[0].flight_descriptor = Some(descriptor(&Command::of("t.parquet")));
    let (code, message) = refused(world.run(world.put_messages(messages)));
    assert!(code == Code::InvalidArgument && message.contains("rows"), "{message}");
    assert_eq!(world.names(), Vec::<String>::new());
}

#[test]
fn rows_that_are_no_rows_of_bytes_are_refused() {
    let world = World::new();
    let nulls = |offset: Option<u64>, data: Option<&[u8]>| {
        let schema = Schema::new(vec![Field::new("offset", DataType::UInt64, true), Field::new("data", DataType::Binary, true)]);
        let columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(vec![offset])), Arc::new(BinaryArray::from(vec![data]))];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    };
    let other: [(&str, ArrayRef); 2] =
        [("offset", Arc::new(Int64Array::from(vec![0]))), ("data", Arc::new(BinaryArray::from_vec(vec![b"x"])))];
    let bytes = Command { form: Some(Form::Bytes), ..Command::of("f") };
    for batch in [nulls(None, Some(b"x")), nulls(Some(0), None), RecordBatch::try_from_iter(other).unwrap()] {
        let (code, message) = refused(world.put(&bytes, vec![batch]));
        assert!(code == Code::InvalidArgument, "{message}");
    }
    assert_eq!(world.names(), Vec::<String>::new());
    let large: [(&str, ArrayRef); 2] =
        [("offset", Arc::new(UInt64Array::from(vec![0]))), ("data", Arc::new(LargeBinaryArray::from_vec(vec![b"large"])))];
    world.put(&bytes, vec![RecordBatch::try_from_iter(large).unwrap()]).unwrap();
    assert_eq!(world.read("f"), b"large");
}

#[test]
fn messages_that_are_damaged_end_the_put_and_nothing_else() {
    let world = World::new();
    let whole = world.run(async {
        use futures_util::TryStreamExt as _;
        let batches = futures_util::stream::iter([Ok(rows([(0, &[7; 1000][..])]))]);
        let encoder =
            arrow_flight::encode::FlightDataEncoderBuilder::new().with_flight_descriptor(Some(descriptor(&Command::of("f"))));
        encoder.build(batches).try_collect::<Vec<FlightData>>().await.unwrap()
    });
    let last = whole.len() - 1;
    let put = |change: &dyn Fn(&mut FlightData), at: usize| {
        let mut damaged = whole.clone();
        change(&mut damaged[at]);
        world.run(world.put_messages(damaged))
    };
    let length = whole[last].data_header.len();
    let mut survived = 0;
    for at in 0..length {
        let flipped = put(&|data| data.data_header = changed(&data.data_header, at), last);
        survived += usize::from(flipped.is_ok());
    }
    assert!(survived < length, "some headers must be refused");
    let _ = std::fs::remove_file(world.path("f"));
    for change in [
        &(|data: &mut FlightData| data.data_body = Bytes::new()) as &dyn Fn(&mut FlightData),
        &|data| data.data_body = data.data_body.slice(..100),
        &|data| data.data_header = data.data_header.slice(..20),
    ] {
        refused(put(change, last));
    }
    refused(put(&|data| data.flight_descriptor = None, 0));
    refused(put(&|data| data.data_header = Bytes::new(), 0));
    refused(world.run(world.put_messages(Vec::new())));
    assert_eq!(world.names(), Vec::<String>::new());
    put(&|_| {}, 0).unwrap();
    assert_eq!(world.read("f"), [7; 1000]);
}

fn changed(bytes: &Bytes, at: usize) -> Bytes {
    let mut changed = bytes.to_vec();
    changed[at] ^= 0xff;
    changed.into()
}

#[test]
fn tables_that_are_damaged_are_named() {
    let world = World::new();
    for (name, content) in [
        ("a.parquet", &b"PAR1"[..]),
        ("b.parquet", b"PAR1\xff\xff\xff\x7fPAR1"),
        ("c.arrow", b"ARROW1\0\0\xff\xff\xff\x7fARROW1"),
        ("d.arrow", b"\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ("e.parquet", b""),
        ("f.arrow", b""),
        ("g.csv", b"a,b\n1\n"),
    ] {
        world.write(name, content);
        let (code, message) = refused(world.get(&Command::of(name)));
        assert!(code == Code::InvalidArgument && message.contains(name), "{name}: {code:?} {message}");
    }
}
