//! Files read and written as tables.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_flight::{FlightData, FlightInfo};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use edt_flight::contract::{Command, Form, PutProgress};
use futures_util::{TryStreamExt as _, stream};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tonic::Code;

use super::support::{World, authorized, descriptor, refused, tickets};

/// Rows `begin..end` of three columns: `x` counts, `name` tells it, `y` is a tenth of it.
fn batch(begin: i64, end: i64) -> RecordBatch {
    let columns: [(&str, ArrayRef); 3] = [
        ("x", Arc::new(Int64Array::from_iter_values(begin..end))),
        ("name", Arc::new(StringArray::from_iter_values((begin..end).map(|x| format!("row {x}"))))),
        ("y", Arc::new(Float64Array::from_iter_values((begin..end).map(|x| x as f64 / 10.0)))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn parquet(batch: &RecordBatch, group: usize, compression: Compression) -> Vec<u8> {
    let properties = WriterProperties::builder().set_compression(compression).set_max_row_group_row_count(Some(group)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow(batches: &[RecordBatch], options: IpcWriteOptions) -> Vec<u8> {
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn table(path: &str) -> Command {
    Command { form: Some(Form::Table), ..Command::of(path) }
}

/// The column `x` of batches, which must all have the columns of the first.
fn xs(batches: &[RecordBatch]) -> Vec<i64> {
    let values = |batch: &RecordBatch| batch.column_by_name("x").unwrap().as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(values).collect()
}

/// What all endpoints of an info hold, one after the other.
fn through(world: &World, info: &FlightInfo) -> Vec<RecordBatch> {
    let schema: SchemaRef = Arc::new(info.clone().try_decode_schema().unwrap());
    let batches: Vec<RecordBatch> = tickets(info).iter().flat_map(|ticket| world.get(ticket).unwrap()).collect();
    assert!(batches.iter().all(|batch| batch.schema() == schema));
    batches
}

#[test]
fn a_parquet_file_has_an_endpoint_for_each_row_group() {
    let world = World::new();
    world.write("t.parquet", parquet(&batch(0, 1000), 300, Compression::SNAPPY));
    let info = world.info(&Command::of("t.parquet")).unwrap();
    assert_eq!((info.endpoint.len(), info.total_records, info.ordered), (4, 1000, true));
    assert_eq!(xs(&through(&world, &info)), (0..1000).collect::<Vec<_>>());
    assert_eq!(arrow_select::concat::concat_batches(&batch(0, 0).schema(), &through(&world, &info)).unwrap(), batch(0, 1000));
    let groups: Vec<Option<u32>> = tickets(&info).iter().map(|ticket| ticket.row_group).collect();
    assert_eq!(groups, [Some(0), Some(1), Some(2), Some(3)]);
    let (code, message) = refused(world.get(&Command { row_group: Some(4), ..table("t.parquet") }));
    assert!(code == Code::InvalidArgument && message.contains("it has 4"), "{message}");
}

#[test]
fn every_usual_compression_is_read() {
    let world = World::new();
    let level = |level| parquet::basic::ZstdLevel::try_new(level).unwrap();
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(level(3)),
        Compression::LZ4_RAW,
        Compression::GZIP(parquet::basic::GzipLevel::default()),
        Compression::BROTLI(parquet::basic::BrotliLevel::default()),
    ] {
        world.write("t.parquet", parquet(&batch(0, 5000), 5000, compression));
        assert_eq!(xs(&world.get(&Command::of("t.parquet")).unwrap()).len(), 5000, "{compression:?}");
    }
    for compression in [arrow_ipc::CompressionType::LZ4_FRAME, arrow_ipc::CompressionType::ZSTD] {
        let options = IpcWriteOptions::default().try_with_compression(Some(compression)).unwrap();
        world.write("t.arrow", arrow(&[batch(0, 5000)], options));
        assert_eq!(xs(&world.get(&Command::of("t.arrow")).unwrap()).len(), 5000, "{compression:?}");
    }
}

#[test]
fn columns_come_in_the_order_in_which_they_were_asked_for() {
    let world = World::new();
    world.write("t.parquet", parquet(&batch(0, 10), 4, Compression::SNAPPY));
    world.write("t.arrow", arrow(&[batch(0, 10)], IpcWriteOptions::default()));
    world.write("t.csv", "x,name,y\n0,row 0,0.0\n1,row 1,0.1\n");
    let chosen = |path: &str, columns: &[&str]| Command {
        columns: Some(columns.iter().map(|name| (*name).to_owned()).collect()),
        ..table(path)
    };
    for path in ["t.parquet", "t.arrow", "t.csv"] {
        let info = world.info(&chosen(path, &["y", "x"])).unwrap();
        let batches = through(&world, &info);
        assert_eq!(xs(&batches)[..2], [0, 1], "{path}");
        assert_eq!(batches[0].schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["y", "x"]);
        assert!(world.get(&chosen(path, &[])).unwrap().iter().all(|batch| batch.num_columns() == 0));
        let (code, message) = refused(world.info(&chosen(path, &["z"])));
        assert!(code == Code::InvalidArgument && message.contains("its columns are `x`, `name`, `y`"), "{message}");
    }
}

#[test]
fn a_range_of_rows_is_cut_from_every_kind_of_table() {
    let world = World::new();
    world.write("t.parquet", parquet(&batch(0, 100), 30, Compression::SNAPPY));
    world.write("t.arrow", arrow(&[batch(0, 40), batch(40, 45), batch(45, 100)], IpcWriteOptions::default()));
    world.write("t.csv", (0..100).map(|x| format!("{x}\n")).fold("x\n".to_owned(), |all, line| all + &line));
    world.write("d/1.parquet", parquet(&batch(0, 30), 20, Compression::SNAPPY));
    world.write("d/2.parquet", parquet(&batch(30, 100), 20, Compression::SNAPPY));
    world.write("c/1.csv", "x\n0\n1\n2\n");
    world.write("c/2.csv", (3..100).map(|x| format!("{x}\n")).fold("x\n".to_owned(), |all, line| all + &line));
    for path in ["t.parquet", "t.arrow", "t.csv", "d", "c"] {
        for (first, count) in
            [(0, 100), (0, 1), (29, 3), (30, 30), (39, 7), (99, 1), (99, u64::MAX), (100, 5), (u64::MAX, u64::MAX)]
        {
            let command = Command { rows: Some([first, count]), ..table(path) };
            let at = |row: u64| usize::try_from(row).unwrap();
            let expected: Vec<i64> = (0..100).skip(at(first)).take(at(count)).collect();
            assert_eq!(xs(&world.get(&command).unwrap()), expected, "{path}: {first}, {count}");
            let info = world.info(&command).unwrap();
            assert_eq!(xs(&through(&world, &info)), expected, "{path} through endpoints: {first}, {count}");
            assert!(info.total_records == i64::try_from(expected.len()).unwrap() || path.ends_with('c') || path.ends_with("csv"));
        }
    }
    let within = Command { row_group: Some(1), rows: Some([5, 3]), ..table("t.parquet") };
    assert_eq!(xs(&world.get(&within).unwrap()), [35, 36, 37]);
}

#[test]
fn a_table_is_divided_into_as_many_endpoints_as_were_asked_for() {
    let world = World::new();
    world.write("d/1.parquet", parquet(&batch(0, 30), 20, Compression::SNAPPY));
    world.write("d/2.parquet", parquet(&batch(30, 100), 20, Compression::SNAPPY));
    for endpoints in [1, 3, 7] {
        let info = world.info(&Command { endpoints: Some(endpoints), ..table("d") }).unwrap();
        assert_eq!(info.endpoint.len(), endpoints as usize);
        assert_eq!(xs(&through(&world, &info)), (0..100).collect::<Vec<_>>());
    }
    let old = tickets(&world.info(&Command { endpoints: Some(2), ..table("d") }).unwrap()).remove(0);
    world.write("d/1.parquet", parquet(&batch(0, 31), 20, Compression::SNAPPY));
    assert_eq!(refused(world.get(&old)).0, Code::FailedPrecondition);
    world.write("t.csv", "x\n1\n");
    assert_eq!(refused(world.info(&Command { endpoints: Some(2), ..table("t.csv") })).0, Code::InvalidArgument);
}

#[test]
fn a_stream_in_a_file_is_read_like_a_file() {
    let world = World::new();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch(0, 1).schema()).unwrap();
    writer.write(&batch(0, 50)).unwrap();
    writer.write(&batch(50, 70)).unwrap();
    let whole = writer.into_inner().unwrap();
    world.write("t.arrow", &whole);
    let info = world.info(&Command::of("t.arrow")).unwrap();
    assert_eq!((info.total_records, info.endpoint.len()), (70, 1));
    assert_eq!(xs(&through(&world, &info)), (0..70).collect::<Vec<_>>());
    // A file without a name that tells is known by its beginning.
    world.write("t", &whole);
    assert_eq!(xs(&world.get(&table("t")).unwrap()).len(), 70);
    world.write("p", parquet(&batch(0, 5), 5, Compression::SNAPPY));
    assert_eq!(xs(&world.get(&table("p")).unwrap()).len(), 5);
}

#[test]
fn the_types_of_a_csv_file_are_those_of_its_first_rows() {
    let world = World::new();
    world.write("t.csv", "a,b,c\n1,1.5,x\n2,2.5,y\n");
    let info = world.info(&Command::of("t.csv")).unwrap();
    let schema = info.clone().try_decode_schema().unwrap();
    let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
    assert_eq!(types, [&DataType::Int64, &DataType::Float64, &DataType::Utf8]);
    assert_eq!((info.total_records, info.endpoint.len()), (-1, 1));
    let mut late = "a\n".to_owned() + &"1\n".repeat(1000);
    late.push_str("word\n");
    world.write("late.csv", late);
    let (code, message) = refused(world.get(&Command::of("late.csv")));
    assert!(code == Code::InvalidArgument && message.contains("`late.csv`"), "{message}");
}

#[test]
fn files_of_a_directory_must_have_the_same_columns() {
    let world = World::new();
    world.write("d/1.parquet", parquet(&batch(0, 3), 3, Compression::SNAPPY));
    world.write("d/_SUCCESS", "");
    world.write("d/2.parquet", parquet(&batch(0, 3).project(&[0, 1]).unwrap(), 3, Compression::SNAPPY));
    let (code, message) = refused(world.info(&Command::of("d")));
    assert!(code == Code::InvalidArgument && message.contains("`d/2.parquet`"), "{message}");
    refused(world.get(&Command::of("d")));
    world.write("e/1.parquet", parquet(&batch(0, 3), 3, Compression::SNAPPY));
    world.write("e/2.csv", "x\n");
    let (code, message) = refused(world.info(&Command::of("e")));
    assert!(code == Code::FailedPrecondition && message.contains("`e/2.csv`"), "{message}");
    std::fs::create_dir(world.path("empty")).unwrap();
    refused(world.info(&Command::of("empty")));
}

#[test]
fn no_batch_is_larger_than_every_client_takes() {
    let world = World::new();
    // One row of 3 MiB among short ones, and more rows than fit into one message.
    let long = StringArray::from_iter_values((0..4000).map(|row| "z".repeat(if row == 1234 { 3 << 20 } else { 1000 })));
    let x = Int64Array::from_iter_values(0..4000);
    let columns: [(&str, ArrayRef); 2] = [("x", Arc::new(x)), ("long", Arc::new(long))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    world.write("t.arrow", arrow(std::slice::from_ref(&batch), IpcWriteOptions::default()));
    world.write("t.parquet", parquet(&batch, 4000, Compression::SNAPPY));
    for path in ["t.arrow", "t.parquet"] {
        for batch_rows in [None, Some(4000)] {
            let command = Command { batch_rows, ..Command::of(path) };
            let large = world.messages(&command).unwrap().iter().filter(|message| message.data_body.len() > 2 << 20).count();
            assert_eq!(large, 1, "{path}: only the row that is longer by itself");
            assert_eq!(xs(&world.get(&command).unwrap()), (0..4000).collect::<Vec<_>>());
        }
        let rows = world.get(&Command { batch_rows: Some(7), ..Command::of(path) }).unwrap();
        assert!(rows.iter().all(|batch| batch.num_rows() <= 7));
        assert_eq!(refused(world.get(&Command { batch_rows: Some(0), ..Command::of(path) })).0, Code::InvalidArgument);
    }
}

#[test]
fn a_table_that_is_put_is_read_back_with_its_types() {
    let world = World::new();
    let keys: DictionaryArray<Int32Type> = ["a", "b", "a", "c"].into_iter().collect();
    let x = Int64Array::from(vec![Some(1), None, Some(3), Some(4)]);
    let schema = Schema::new(vec![Field::new("x", DataType::Int64, true), Field::new("k", keys.data_type().clone(), true)])
        .with_metadata(std::collections::HashMap::from([("origin".to_owned(), "test".to_owned())]));
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(x), Arc::new(keys)]).unwrap();
    for path in ["new/t.parquet", "t.arrow", "t.feather"] {
        let told = world.put(&table(path), vec![batch.clone()]).unwrap();
        let Some(PutProgress::Complete(digests)) = told.last() else { panic!("{told:?}") };
        assert_eq!(digests.size, world.read(path).len() as u64);
        assert_eq!(digests.blake3, blake3::hash(&world.read(path)).to_hex().to_string());
        assert_eq!(world.get(&Command::of(path)).unwrap(), std::slice::from_ref(&batch), "{path}");
    }
    for path in ["t.csv", "t", "t.bin"] {
        assert_eq!(refused(world.put(&table(path), vec![batch.clone()])).0, Code::InvalidArgument, "{path}");
    }
    assert_eq!(world.names(), ["new/t.parquet", "t.arrow", "t.feather"]);
}

#[test]
fn tables_with_the_same_columns_follow_one_another_on_one_stream() {
    let world = World::new();
    world.write("1.parquet", parquet(&batch(0, 3), 3, Compression::SNAPPY));
    world.write("2.arrow", arrow(&[batch(3, 5)], IpcWriteOptions::default()));
    world.write("3.csv", "other\n1\n");
    let ask = |paths: &[&str]| {
        let message =
            |path: &&str| FlightData { flight_descriptor: Some(descriptor(&Command::of(*path))), ..FlightData::default() };
        let messages: Vec<FlightData> = paths.iter().map(message).collect();
        world.run(async {
            let call = world.raw().await.do_exchange(authorized(stream::iter(messages))).await.unwrap();
            call.into_inner().try_collect::<Vec<FlightData>>().await
        })
    };
    let answers = ask(&["1.parquet", "2.arrow"]).unwrap();
    assert_eq!(answers.iter().filter(|answer| !answer.app_metadata.is_empty()).count(), 2);
    assert_eq!(xs(&arrow_flight::utils::flight_data_to_batches(&answers).unwrap()), [0, 1, 2, 3, 4]);
    assert_eq!(ask(&["1.parquet", "3.csv"]).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn row_groups_that_are_too_many_are_put_together() {
    let world = World::new();
    world.write("t.parquet", parquet(&batch(0, 3000), 2, Compression::UNCOMPRESSED));
    let info = world.info(&Command::of("t.parquet")).unwrap();
    assert_eq!((info.endpoint.len(), info.total_records), (1024, 3000));
    let some = tickets(&info).into_iter().step_by(100).collect::<Vec<_>>();
    assert!(some.iter().all(|ticket| (2..=3).contains(&xs(&world.get(ticket).unwrap()).len())));
}

#[test]
fn a_directory_whose_files_change_while_it_is_read_is_no_table() {
    let world = World::new();
    world.write("d/1.parquet", parquet(&batch(0, 200_000), 100_000, Compression::UNCOMPRESSED));
    world.write("d/2.parquet", parquet(&batch(0, 10), 10, Compression::UNCOMPRESSED));
    let whole = tickets(&world.info(&Command { endpoints: Some(1), ..table("d") }).unwrap()).remove(0);
    assert_eq!(xs(&world.get(&whole).unwrap()).len(), 200_010);
    let answer = world.run(async {
        let ticket = authorized(arrow_flight::Ticket { ticket: whole.to_json().into() });
        let mut stream = world.raw().await.do_get(ticket).await.unwrap().into_inner();
        stream.message().await.unwrap();
        world.write("d/2.parquet", parquet(&batch(0, 11), 10, Compression::UNCOMPRESSED));
        stream.try_collect::<Vec<FlightData>>().await
    });
    assert_eq!(answer.unwrap_err().code(), Code::FailedPrecondition);
}
