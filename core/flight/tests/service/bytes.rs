//! Files read as bytes.

use edt::pipeline::digest::crc64nvme;
use edt_flight::contract::{self, Command, FileFacts, Form, ROW_BYTES};
use futures_util::TryStreamExt as _;
use futures_util::stream;
use tonic::Code;

use super::support::{World, authorized, content, descriptor, joined, refused, tickets};
use arrow_flight::{Criteria, FlightData, FlightDescriptor, Ticket};

#[test]
fn all_endpoints_together_are_the_file() {
    let world = World::new();
    let file = content(9 * ROW_BYTES + 5);
    world.write("a/b.bin", &file);
    for endpoints in [None, Some(1), Some(4), Some(7)] {
        let info = world.info(&Command { endpoints, ..Command::of("a/b.bin") }).unwrap();
        let tickets = tickets(&info);
        assert_eq!(tickets.len(), endpoints.unwrap_or(1) as usize);
        let parts: Vec<u8> = tickets.iter().flat_map(|ticket| world.bytes(ticket).unwrap()).collect();
        assert!(parts == file);
        assert_eq!((info.total_bytes, info.total_records, info.ordered), (i64::try_from(file.len()).unwrap(), -1, true));
        let facts: FileFacts = contract::parse(&info.app_metadata, "facts").unwrap();
        assert_eq!(facts.size, file.len() as u64);
        let schema = info.try_decode_schema().unwrap();
        assert_eq!(schema.metadata()[contract::PATH_KEY], "a/b.bin");
        assert_eq!(schema.metadata()[contract::VERSION_KEY], facts.version);
        assert_eq!(schema.fields(), contract::bytes_schema().fields());
    }
}

#[test]
fn sizes_around_a_row_are_read_whole() {
    let world = World::new();
    for size in [0, 1, 64, ROW_BYTES - 1, ROW_BYTES, ROW_BYTES + 1] {
        world.write("f", content(size));
        assert!(world.bytes(&Command::of("f")).unwrap() == content(size), "{size} bytes");
    }
}

#[test]
fn a_range_is_cut_from_the_file_and_ends_with_it() {
    let world = World::new();
    let file = content(2 * ROW_BYTES);
    world.write("f", &file);
    let range = |range| Command { range: Some(range), ..Command::of("f") };
    assert!(world.bytes(&range([5, ROW_BYTES as u64 + 1])).unwrap() == file[5..ROW_BYTES + 6]);
    assert!(world.bytes(&range([100, u64::MAX])).unwrap() == file[100..]);
    assert_eq!(world.bytes(&range([file.len() as u64, 5])).unwrap(), b"");
    let (code, message) = refused(world.get(&range([file.len() as u64 + 1, 1])));
    assert!(code == Code::InvalidArgument && message.contains("2097152 bytes"), "{message}");
}

#[test]
fn a_path_may_come_whole_or_in_parts() {
    let world = World::new();
    world.write("a/b.bin", "x");
    for path in [vec!["a/b.bin"], vec!["a", "b.bin"]] {
        let path = FlightDescriptor::new_path(path.into_iter().map(str::to_owned).collect());
        let info = world.run(async { world.client().await.get_flight_info(path).await.unwrap() });
        assert_eq!(info.total_bytes, 1);
    }
}

#[test]
fn a_file_that_changed_since_its_info_is_not_read() {
    let world = World::new();
    world.write("f", "one");
    let ticket = tickets(&world.info(&Command::of("f")).unwrap()).remove(0);
    world.write("f", "other");
    let (code, message) = refused(world.get(&ticket));
    assert!(code == Code::FailedPrecondition && message.contains("the file changed"), "{message}");
}

#[test]
fn a_file_with_the_name_of_a_table_is_read_as_bytes_if_it_is_asked_for() {
    let world = World::new();
    world.write("t.csv", "a\n1\n");
    assert_eq!(world.bytes(&Command { form: Some(Form::Bytes), ..Command::of("t.csv") }).unwrap(), b"a\n1\n");
}

#[cfg(unix)]
#[test]
fn links_are_read_below_the_root_and_not_beyond() {
    let world = World::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    world.write("a/f", "inside");
    std::os::unix::fs::symlink("a/f", world.path("in")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), world.path("out")).unwrap();
    assert_eq!(world.bytes(&Command::of("in")).unwrap(), b"inside");
    refused(world.get(&Command::of("out")));
    refused(world.info(&Command::of("out")));
}

#[test]
fn several_commands_are_answered_on_one_stream() {
    let world = World::new();
    let (first, second) = (content(ROW_BYTES + 1), content(7));
    world.write("one", &first);
    world.write("two", &second);
    let messages = [
        FlightData { flight_descriptor: Some(descriptor(&Command::of("one"))), ..FlightData::default() },
        FlightData { app_metadata: Command::of("two").to_json().into(), ..FlightData::default() },
    ];
    let answers: Vec<FlightData> = world.run(async {
        let call = world.raw().await.do_exchange(authorized(stream::iter(messages))).await.unwrap();
        call.into_inner().try_collect().await.unwrap()
    });
    let sums: Vec<contract::ReadSum> = answers
        .iter()
        .filter(|answer| !answer.app_metadata.is_empty())
        .map(|answer| contract::parse(&answer.app_metadata, "a digest").unwrap())
        .collect();
    let (one, two) = (first.len() as u64, second.len() as u64);
    assert_eq!(sums.iter().map(|sum| sum.bytes).collect::<Vec<_>>(), [ROW_BYTES as u64, 1, one, two, two]);
    assert_eq!(sums[2], contract::ReadSum::of(one, crc64nvme(&first)));
    let batches = arrow_flight::utils::flight_data_to_batches(&answers).unwrap();
    let (one, two) = batches.split_at(batches.iter().position(|batch| batch.num_rows() == 0).unwrap() + 1);
    assert!(joined(one, 0) == first && joined(two, 0) == second);
}

#[test]
fn a_client_that_leaves_in_the_middle_disturbs_nobody() {
    let world = World::with(|options| options.max_sessions = 4);
    world.write("f", content(64 * ROW_BYTES));
    for _ in 0..16 {
        world.run(async {
            let ticket = authorized(Ticket { ticket: Command::of("f").to_json().into() });
            match world.raw().await.do_get(ticket).await {
                Ok(stream) => drop(stream.into_inner().message().await.unwrap().unwrap()),
                Err(busy) => assert_eq!(busy.code(), Code::ResourceExhausted),
            }
        });
    }
    // Its place among the calls is free again once the server has noticed.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        match world.messages(&Command::of("f")) {
            Ok(messages) => return assert_eq!(messages.len(), 66),
            Err(busy) => assert!(busy.code() == Code::ResourceExhausted && std::time::Instant::now() < deadline, "{busy}"),
        }
    }
}

#[test]
fn flights_are_listed_by_prefix_and_no_more_than_asked_for() {
    let world = World::new();
    world.write("a/1", "1");
    world.write("a/2", "22");
    world.write("ab", "333");
    world.write("t.csv", "x,y\n1,2\n");
    world.write("broken.parquet", "not parquet");
    let list = |criteria: &str| -> Vec<String> {
        let criteria = criteria.to_owned();
        world.run(async {
            let criteria = Criteria { expression: criteria.into() };
            let flights = world.raw().await.list_flights(authorized(criteria)).await.unwrap().into_inner();
            let infos: Vec<_> = flights.try_collect().await.unwrap();
            infos.into_iter().map(|info: arrow_flight::FlightInfo| info.flight_descriptor.unwrap().path.join("/")).collect()
        })
    };
    assert_eq!(list(""), ["ab", "broken.parquet", "t.csv", "a/1", "a/2"].map(str::to_owned));
    assert_eq!(list(r#"{"prefix":"a"}"#), ["a/1", "a/2"]);
    assert_eq!(list(r#"{"prefix":"a/2"}"#), ["a/2"]);
    assert_eq!(list(r#"{"prefix":"t"}"#), ["t.csv"]);
    assert_eq!(list(r#"{"prefix":"a/"}"#), ["a/1", "a/2"]);
    assert_eq!(list(r#"{"limit":2}"#).len(), 2);
    // What ends in a slash is a directory: neither a file nor the beginning of other names.
    for (prefix, code) in [(r#"{"prefix":"t/"}"#, Code::NotFound), (r#"{"prefix":"t.csv/"}"#, Code::FailedPrecondition)] {
        let criteria = Criteria { expression: prefix.into() };
        let listed = world.run(async { world.raw().await.list_flights(authorized(criteria)).await.map(drop) });
        assert_eq!(listed.unwrap_err().code(), code, "{prefix}");
    }
}

#[test]
fn an_info_that_is_polled_is_complete_and_a_schema_can_be_had_alone() {
    let world = World::new();
    world.write("f", "x");
    let path = || FlightDescriptor::new_path(vec!["f".to_owned()]);
    let polled = world.run(async { world.raw().await.poll_flight_info(authorized(path())).await.unwrap().into_inner() });
    assert_eq!((polled.progress, polled.flight_descriptor), (Some(1.0), None));
    let schema = world.run(async { world.client().await.get_schema(path()).await.unwrap() });
    assert_eq!(schema, polled.info.unwrap().try_decode_schema().unwrap());
}
