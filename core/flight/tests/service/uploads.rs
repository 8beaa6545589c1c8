//! Files that come in pieces, on several streams, and after interruptions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use edt_flight::contract::{
    BeginBody, Begun, Command, CommitBody, Digests, PutProgress, ROW_BYTES, Rule, UploadBody, action, hex64,
};
use serde_json::Value;
use tonic::Code;

use super::support::{World, chunked, content, refused, rows};

fn begin(world: &World, path: &str, size: usize, key: Option<&str>) -> Begun {
    let body = BeginBody { path: path.to_owned(), size: size as u64, modified_ns: None, mode: None, key: key.map(str::to_owned) };
    world.action::<Begun>(action::BEGIN, &body).unwrap().remove(0)
}

fn to(upload: &str) -> Command {
    Command { upload: Some(upload.to_owned()), ..Command::default() }
}

fn commit(world: &World, upload: &str, crc64nvme: Option<u64>) -> Result<Digests, tonic::Status> {
    let body = CommitBody {
        upload: upload.to_owned(),
        crc64nvme: crc64nvme.map(hex64),
        overwrite: Rule::Replace,
        modified_ns: None,
        mode: None,
    };
    world.action::<Digests>(action::COMMIT, &body).map(|mut digests| digests.remove(0))
}

/// All ranges that were told, in the order in which they were.
fn ranges(told: &[PutProgress]) -> Vec<[u64; 2]> {
    let range = |progress: &PutProgress| match progress {
        PutProgress::Ranges { ranges } => ranges.clone(),
        other => panic!("not of an upload: {other:?}"),
    };
    told.iter().flat_map(range).collect()
}

fn check(world: &World, path: &str, file: &[u8], digests: &Digests) {
    assert!(world.read(path) == file);
    assert_eq!(digests.crc64nvme, hex64(edt::pipeline::digest::crc64nvme(file)));
    assert_eq!(digests.blake3, blake3::hash(file).to_hex().to_string());
    assert_eq!(world.names(), [path]);
}

#[test]
fn rows_come_in_any_order_on_several_streams() {
    let world = World::new();
    let file = content(12 * ROW_BYTES + 77);
    let upload = begin(&world, "d/f", file.len(), None).upload;
    let mut batches = chunked(&file, 0, ROW_BYTES);
    batches.reverse();
    let second = batches.split_off(5);
    let told = [world.put(&to(&upload), second).unwrap(), world.put(&to(&upload), batches).unwrap()].concat();
    let told = ranges(&told);
    assert_eq!(told.iter().map(|[_, length]| length).sum::<u64>(), file.len() as u64);
    let digests = commit(&world, &upload, Some(edt::pipeline::digest::crc64nvme(&file))).unwrap();
    check(&world, "d/f", &file, &digests);
    let (code, _) = refused(commit(&world, &upload, None));
    assert_eq!(code, Code::NotFound);
}

#[test]
fn an_upload_goes_on_where_it_was_when_the_server_died() {
    let world = World::new();
    let file = content(5 * ROW_BYTES);
    let begun = begin(&world, "f", file.len(), Some("k"));
    world.put(&to(&begun.upload), chunked(&file[..2 * ROW_BYTES], 0, ROW_BYTES)).unwrap();
    world.put(&to(&begun.upload), chunked(&file[4 * ROW_BYTES..], 4 * ROW_BYTES as u64, ROW_BYTES)).unwrap();
    let world = world.restarted();
    let again = begin(&world, "f", file.len(), Some("k"));
    let mib = ROW_BYTES as u64;
    assert_eq!(again, Begun { upload: begun.upload, ranges: vec![[0, 2 * mib], [4 * mib, mib]] });
    assert_eq!(begin(&world, "f", file.len(), Some("other")).ranges, Vec::<[u64; 2]>::new());
    world.put(&to(&again.upload), chunked(&file[2 * ROW_BYTES..4 * ROW_BYTES], 2 * mib, ROW_BYTES)).unwrap();
    commit(&world, &again.upload, None).unwrap();
    assert!(world.read("f") == file);
}

#[test]
fn bytes_that_are_not_as_they_were_written_are_written_again() {
    let world = World::new();
    let file = content(3 * ROW_BYTES);
    let begun = begin(&world, "f", file.len(), Some("k"));
    world.put(&to(&begun.upload), chunked(&file[..2 * ROW_BYTES], 0, ROW_BYTES)).unwrap();
    let (name, _) = begun.upload.rsplit_once('-').unwrap();
    let partial = world.path(&format!(".edt/{name}/0"));
    let mut bytes = std::fs::read(&partial).unwrap();
    bytes[5] ^= 1;
    std::fs::write(&partial, bytes).unwrap();
    let world = world.restarted();
    let again = begin(&world, "f", file.len(), Some("k"));
    assert_eq!(again.ranges, [[ROW_BYTES as u64, ROW_BYTES as u64]]);
    world.put(&to(&again.upload), chunked(&file, 0, ROW_BYTES)).unwrap();
    check(&world, "f", &file, &commit(&world, &again.upload, None).unwrap());
}

#[test]
fn rows_that_are_no_blocks_and_rows_that_come_twice_make_the_same_file() {
    let world = World::new();
    let file = content(700_001);
    let upload = begin(&world, "f", file.len(), None).upload;
    world.put(&to(&upload), chunked(&file[..500_000], 0, 99_999)).unwrap();
    world.put(&to(&upload), vec![rows([(300_000, &file[300_000..]), (0, &file[..5])])]).unwrap();
    // What is there already is not written a second time, whatever it is now.
    world.put(&to(&upload), vec![rows([(0, &[0xee; 1000][..])])]).unwrap();
    check(&world, "f", &file, &commit(&world, &upload, None).unwrap());
}

#[test]
fn what_is_incomplete_or_wrong_is_not_published() {
    let world = World::new();
    world.write("f", "old");
    let upload = begin(&world, "f", 10, None).upload;
    world.put(&to(&upload), vec![rows([(0, &b"aaaa"[..])])]).unwrap();
    let (code, message) = refused(commit(&world, &upload, None));
    assert!(code == Code::InvalidArgument && message.contains("6 of its 10 bytes"), "{message}");
    let (code, _) = refused(world.put(&to(&upload), vec![rows([(8, &b"bbbb"[..])])]));
    assert_eq!(code, Code::InvalidArgument);
    world.put(&to(&upload), vec![rows([(4, &b"bbbbbb"[..])])]).unwrap();
    let (code, _) = refused(commit(&world, &upload, Some(1)));
    assert_eq!(code, Code::DataLoss);
    assert_eq!(world.read("f"), b"old");
    commit(&world, &upload, None).unwrap();
    assert_eq!(world.read("f"), b"aaaabbbbbb");
}

#[test]
fn an_upload_that_is_given_up_leaves_nothing() {
    let world = World::new();
    let upload = begin(&world, "f", 4, Some("k")).upload;
    world.put(&to(&upload), vec![rows([(0, &b"aaaa"[..])])]).unwrap();
    world.action::<Value>(action::ABORT, &UploadBody { upload: upload.clone() }).unwrap();
    assert_eq!(world.names(), Vec::<String>::new());
    assert_eq!(refused(world.put(&to(&upload), vec![rows([(0, &b"a"[..])])])).0, Code::NotFound);
    let zeros = "0".repeat(40);
    let wrong = [
        "z".repeat(40),
        zeros.clone(),
        format!("{zeros}-"),
        format!("{zeros}-0"),
        format!("{zeros}0"),
        format!("{zeros}-{zeros}"),
    ];
    for name in ["", "..", "flight-", "../../x"].map(str::to_owned).into_iter().chain(wrong.map(|one| format!("flight-{one}"))) {
        assert_eq!(refused(world.put(&to(&name), vec![rows([(0, &b"a"[..])])])).0, Code::NotFound, "{name}");
    }
    assert_eq!(world.names(), Vec::<String>::new());
}

fn give_up(world: &World, upload: &str) {
    world.action::<Value>(action::ABORT, &UploadBody { upload: upload.to_owned() }).unwrap();
}

#[test]
fn an_upload_that_is_given_up_again_and_again_harms_none_that_follows() {
    let world = World::new();
    let earlier = begin(&world, "f", 4, Some("k")).upload;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..10_000).take_while(|_| !done.load(Ordering::Relaxed)).for_each(|_| give_up(&world, &earlier));
        });
        give_up(&world, &earlier);
        for _ in 0..100 {
            let upload = begin(&world, "f", 4, Some("k")).upload;
            world.put(&to(&upload), vec![rows([(0, &b"abcd"[..])])]).unwrap();
            commit(&world, &upload, None).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(world.read("f") == b"abcd" && world.names() == ["f"]);
}

#[test]
fn an_upload_that_is_begun_anew_takes_nothing_of_an_earlier_one_of_its_key() {
    let world = World::new();
    let earlier = begin(&world, "f", 4, Some("k")).upload;
    give_up(&world, &earlier);
    let begun = begin(&world, "f", 4, Some("k"));
    assert!(begun.upload != earlier && begun.ranges.is_empty(), "{begun:?}");
    let late = || vec![rows([(0, &b"late"[..])])];
    assert_eq!(refused(world.put(&to(&earlier), late())).0, Code::NotFound);
    assert_eq!(refused(commit(&world, &earlier, None)).0, Code::NotFound);
    world.put(&to(&begun.upload), vec![rows([(0, &b"ab"[..])])]).unwrap();
    give_up(&world, &earlier);
    let world = world.restarted();
    give_up(&world, &earlier);
    assert_eq!(begin(&world, "f", 4, Some("k")), Begun { ranges: vec![[0, 2]], ..begun.clone() });
    world.put(&to(&begun.upload), vec![rows([(2, &b"cd"[..])])]).unwrap();
    let digests = commit(&world, &begun.upload, None).unwrap();
    check(&world, "f", b"abcd", &digests);
}

#[test]
fn an_empty_upload_is_an_empty_file() {
    let world = World::new();
    let upload = begin(&world, "f", 0, None).upload;
    check(&world, "f", b"", &commit(&world, &upload, Some(0)).unwrap());
}

#[test]
fn more_uploads_than_are_kept_open_all_end() {
    let world = World::new();
    let file = content(3 * ROW_BYTES);
    let parts = chunked(&file, 0, ROW_BYTES);
    let uploads: Vec<String> = (0..200).map(|number| begin(&world, &format!("f{number}"), file.len(), None).upload).collect();
    world.put(&to(&uploads[0]), parts[..2].to_vec()).unwrap();
    for upload in &uploads[1..] {
        assert_eq!(world.action::<Value>(action::ABORT, &UploadBody { upload: upload.clone() }).unwrap(), Vec::<Value>::new());
    }
    world.put(&to(&uploads[0]), parts[2..].to_vec()).unwrap();
    let digests = commit(&world, &uploads[0], None).unwrap();
    check(&world, "f0", &file, &digests);
}

#[test]
fn bytes_of_another_file_are_refused() {
    let world = World::new();
    let upload = begin(&world, "d/a", 5, None).upload;
    let put = |path: &str| world.put(&Command { path: path.to_owned(), ..to(&upload) }, chunked(b"12345", 0, 5));
    let (code, message) = refused(put("d/b"));
    assert!(code == Code::InvalidArgument && message.contains("`d/a`"), "{message}");
    put("d/a").unwrap();
    commit(&world, &upload, None).unwrap();
    assert_eq!(world.read("d/a"), b"12345");
}
