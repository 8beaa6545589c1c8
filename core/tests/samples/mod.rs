//! One of everything that goes over the wire, the same for golden bytes and for round trips.

use edt::protocol::TransferId;
use edt::protocol::frame::{FLAG_ZERO, FrameHeader, FrameKind, crc32c};
use edt::protocol::message::{
    Ack, Answer, Complete, Direction, DoneItem, DoneKey, Failed, FileHeader, FileState, Have, ItemFailed, ItemKind, Key, Listed,
    ListedFiles, MadeUp, Message, Meters, PartialFile, RateMeters, ReceiveOptions, Request, Root, SendOptions, Skipped,
    StageMeters, Start, TcpMeters, Tune, WireEntry,
};

pub(crate) fn file_header() -> FileHeader {
    FileHeader {
        file: 7,
        path: b"dir/\xffname".to_vec(),
        kind: ItemKind::File,
        size: 5,
        modified_ns: Some(-1_000_000_007),
        mode: Some(0o640),
        identity: Key([0x1d; 16]),
        target: None,
        crc64nvme: 0x0123_4567_89ab_cdef,
        blake3: Some([0xb3; 32]),
        sparse: false,
        copy_from: None,
    }
}

pub(crate) fn symlink() -> FileHeader {
    FileHeader {
        file: 8,
        kind: ItemKind::Symlink,
        size: 0,
        target: Some(b"../there".to_vec()),
        blake3: None,
        mode: None,
        ..file_header()
    }
}

/// Headers with the payloads that belong to them.
pub(crate) fn frames() -> Vec<(&'static str, FrameHeader, Vec<u8>)> {
    let data = FrameHeader {
        length: 9,
        file: 7,
        sequence: 3,
        offset: 2 << 18,
        crc64nvme: 0xae8b_1486_0a79_9888,
        blake3: [0xcc; 32],
        payload_crc32c: crc32c(b"123456789"),
        ..FrameHeader::empty(FrameKind::Data)
    };
    let open = minicbor::to_vec(file_header()).unwrap();
    let open_header = FrameHeader {
        length: u32::try_from(open.len()).unwrap(),
        file: 7,
        payload_crc32c: crc32c(&open),
        ..FrameHeader::empty(FrameKind::Open)
    };
    let zero = FrameHeader { flags: FLAG_ZERO, length: 1 << 18, sequence: 4, payload_crc32c: 0, ..data };
    vec![
        ("open", open_header, open),
        ("data", data, b"123456789".to_vec()),
        ("zero", zero, Vec::new()),
        ("finish", FrameHeader { sequence: u32::MAX, ..FrameHeader::empty(FrameKind::Finish) }, Vec::new()),
        ("ping", FrameHeader::empty(FrameKind::Ping), Vec::new()),
    ]
}

/// Every kind of message, each field set somewhere.
pub(crate) fn messages() -> Vec<(&'static str, Message)> {
    let mut all = session_messages();
    all.extend(meter_messages());
    all.extend(file_messages());
    all.extend(content_messages());
    all
}

fn session_messages() -> Vec<(&'static str, Message)> {
    vec![
        ("start-upload", Message::Start(start(Direction::Upload))),
        ("start-download", Message::Start(start(Direction::Download))),
        ("have", Message::Have(have())),
        ("listed", Message::Listed(Listed { items: 1_000_000, bytes: 1 << 40, complete: true })),
        ("close", Message::Close(vec![1, 2, 70_000], None)),
        ("abandon", Message::Abandon(9)),
        ("keep", Message::Keep(vec![Key([1; 16]), Key([2; 16])])),
        ("finish", Message::Finish(true)),
        ("ack", Message::Ack(ack())),
        ("complete", Message::Complete(Complete { removed: 3, failed: vec![item_failed()] })),
        ("fail", Message::Fail(failed())),
        ("item-failed", Message::ItemFailed(item_failed())),
        ("ping", Message::Ping),
        ("retried", Message::Retried(item_failed())),
        ("skipped", Message::Skipped(skipped())),
        ("goodbye", Message::Goodbye),
        ("close-kept", Message::Close(vec![5], Some(0x0123_4567_89ab_cdef))),
        ("start-congestion", Message::Start(start_with_congestion())),
        ("start-memory", Message::Start(start_from_memory_to_memory())),
        ("choose", Message::Choose(vec![b"a/b".to_vec().into(), b"c\xff".to_vec().into()])),
    ]
}

fn start(direction: Direction) -> Start {
    let receive = ReceiveOptions {
        file_name: Some(b"name".to_vec()),
        into: true,
        selection: 2,
        overwrite: 1,
        fsync: 1,
        digest: 1,
        include: vec!["*.h5".to_owned()],
        exclude: vec!["tmp/".to_owned()],
        dry_run: false,
        discard: false,
        forget: false,
    };
    let root = Root { path: b"data/run*".to_vec(), prefix: b"run".to_vec() };
    let send = SendOptions {
        roots: vec![root],
        symlinks: 1,
        chunk_size: Some(16 << 20),
        limit_rate: Some(1.25e8),
        ..SendOptions::default()
    };
    Start {
        direction,
        transfer: TransferId([0x77; 16]),
        destination: b"to".to_vec(),
        receive,
        send,
        tune: tune(),
        buffer: 64 << 20,
        run: Key([0x66; 16]),
    }
}

fn start_with_congestion() -> Start {
    let mut start = start(Direction::Download);
    start.send.congestion = Some("bbr".to_owned());
    start
}

fn start_from_memory_to_memory() -> Start {
    let mut start = start(Direction::Upload);
    start.receive.discard = true;
    start.receive.forget = true;
    start.send.made_up = Some(MadeUp { count: 300, size: 1 << 40 });
    start
}

fn tune() -> Tune {
    Tune { read: Some(1), network: Some(2), write: Some(300), parallelism: None, pipelining: Some(5), ..Tune::default() }
}

fn skipped() -> Vec<Skipped> {
    let known = Skipped {
        path: b"there.bin".to_vec(),
        size: 5,
        wanted: false,
        modified_ns: Some(-1),
        mode: Some(0o640),
        crc64nvme: Some(u64::MAX),
        blake3: Some([0xb3; 32]),
    };
    vec![known, Skipped { path: b"new.bin".to_vec(), size: 5, wanted: true, ..Skipped::default() }]
}

fn have() -> Have {
    let done = DoneKey { key: Key([1; 16]), crc64nvme: u64::MAX, blake3: Some([0xb3; 32]) };
    let partial = PartialFile { path: Key([3; 16]), identity: Key([4; 16]), ranges: vec![(0, 1 << 18), (1 << 20, 1 << 33)] };
    Have {
        done: vec![done, DoneKey { blake3: None, ..done }],
        present: vec![Key([2; 16])],
        partial: vec![partial],
        last: true,
        resolved: Some("to/name".to_owned()),
        written: None,
        hands_back: None,
        inside: None,
        taken: None,
    }
}

fn ack() -> Ack {
    let done = DoneItem { file: 7, crc64nvme: u64::MAX, blake3: Some([0xb3; 32]) };
    Ack {
        streams: vec![(1, 17), (2, 70_000)],
        done: vec![done, DoneItem { blake3: None, ..done }],
        failed: vec![item_failed()],
        lost: vec![3],
    }
}

fn failed() -> Failed {
    let hint = Some("free some space".to_owned());
    Failed { kind: 5, what: "could not write `a`".to_owned(), cause: Some("no space left on device".to_owned()), hint }
}

fn item_failed() -> ItemFailed {
    ItemFailed { file: 7, path: b"dir/a".to_vec(), failed: Failed { cause: None, hint: None, ..failed() } }
}

fn meter_messages() -> Vec<(&'static str, Message)> {
    let stage = StageMeters { bytes: 1 << 30, busy_us: 5_000_000, workers_us: 8_000_000, workers: 4 };
    let meters = Meters {
        at_us: 1_000_000,
        read: stage,
        network: stage,
        write: StageMeters::default(),
        buffer_free: 1 << 20,
        buffer_capacity: 96 << 20,
        tcp: Some(TcpMeters {
            segments: 1000,
            retransmitted: 2,
            rtt_us: 50_000,
            delivery_rate: 125_000_000,
            received: None,
            fills_queues: None,
        }),
        bytes_left: Some(10),
        files_left: None,
        bytes_sent: 1 << 31,
        listed: None,
        host_rate: None,
        delivered: None,
    };
    let tcp = meters.tcp.map(|tcp| TcpMeters { received: Some(1 << 30), fills_queues: Some(true), ..tcp });
    let host_rate = Some(RateMeters { rate: 125_000_000, waited_us: 3_000_000, lapsed_us: 20_000 });
    let listed = ListedFiles { classes: vec![(0, 3, 1), (20, 1_000_000, 1 << 40), (63, 1, 1 << 63)], complete: true };
    vec![
        ("meters", Message::Meters(meters.clone())),
        ("tune", Message::Tune(tune())),
        ("tune-pacing", Message::Tune(Tune { pacing: Some(1_250_000), ..Tune::default() })),
        ("tune-shares", Message::Tune(Tune { shares: Some(vec![(0, 1, u16::MAX), (20, 300, 4)]), ..Tune::default() })),
        ("meters-listed", Message::Meters(Meters { listed: Some(listed), ..meters.clone() })),
        ("meters-host-rate", Message::Meters(Meters { host_rate, ..meters.clone() })),
        ("meters-received", Message::Meters(Meters { tcp, ..meters.clone() })),
        ("meters-delivered", Message::Meters(Meters { delivered: Some(vec![(1, 1000), (u16::MAX, 1 << 40)]), ..meters })),
    ]
}

fn file_messages() -> Vec<(&'static str, Message)> {
    let path = b"dir".to_vec();
    let entry = WireEntry {
        path: b"dir/link".to_vec(),
        kind: 2,
        size: 0,
        modified_ns: Some(1),
        mode: Some(0o777),
        target: Some(b"there".to_vec()),
    };
    vec![
        ("request-list", Message::Request(Request::List { path: path.clone(), tree: true })),
        ("request-stat", Message::Request(Request::Stat(path.clone()))),
        ("request-remove", Message::Request(Request::Remove { path: path.clone(), tree: false })),
        ("request-create-directory", Message::Request(Request::CreateDirectory(path.clone()))),
        ("request-digest", Message::Request(Request::Digest(path))),
        ("answer-entries", Message::Answer(Answer::Entries { entries: vec![entry], failed: vec![item_failed()], last: true })),
        ("answer-done", Message::Answer(Answer::Done)),
        ("answer-failed", Message::Answer(Answer::Failed(failed()))),
        ("answer-digests", Message::Answer(Answer::Digests { size: 9, crc64nvme: 1, blake3: [0xb3; 32] })),
    ]
}

fn content_messages() -> Vec<(&'static str, Message)> {
    let (from, to, overwrite) = (b"from".to_vec(), b"dir/to".to_vec(), 1);
    let (content, crc32c) = (b"123456789".to_vec(), crc32c(b"123456789"));
    let state = FileState { size: 1 << 33, modified_ns: Some(-1), version: Some(u64::MAX) };
    let plain = FileState { size: 0, modified_ns: None, version: None };
    vec![
        ("request-read", Message::Request(Request::Read { path: from.clone(), offset: 1 << 32, length: 4 << 20 })),
        ("request-rename", Message::Request(Request::Rename { from: from.clone(), to: to.clone(), overwrite })),
        ("request-write", Message::Request(Request::Write { path: to.clone(), content: content.clone(), crc32c, overwrite: 0 })),
        ("request-copy", Message::Request(Request::Copy { from, to, overwrite })),
        ("answer-bytes", Message::Answer(Answer::Bytes { state, bytes: content, crc32c, last: false })),
        ("answer-no-bytes", Message::Answer(Answer::Bytes { state: plain, bytes: Vec::new(), crc32c: 0, last: true })),
    ]
}
