//! Pieces of a made-up file, some of which cannot be read.

use std::thread;

use super::*;
use crate::store::EntryKind;

const MIB: u64 = 1 << 20;

/// A file whose bytes follow from their offsets; some reads of it fail.
struct Source {
    size: u64,
    fails: fn(u64) -> Result<()>,
    begins: Arc<Mutex<Vec<u64>>>,
}

fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

impl Reader for Source {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.begins.lock().push(offset);
        (self.fails)(offset)?;
        buffer.iter_mut().zip(offset..).for_each(|(out, at)| *out = byte(at));
        Ok(buffer.len())
    }

    fn stat(&self) -> Result<Entry> {
        let (path, kind) = (RelativePath::from_user("a")?, EntryKind::File);
        Ok(Entry { path, kind, size: self.size, modified_ns: None, mode: None, version: None, sparse: false })
    }

    fn hole(&self, _: u64) -> Option<u64> {
        None
    }

    fn crc64nvme(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

fn reader(crew: &Arc<Crew>, fails: fn(u64) -> Result<()>) -> (FileReader, Arc<Mutex<Vec<u64>>>) {
    let begins = Arc::default();
    let source = Source { size: 256 * MIB, fails, begins: Arc::clone(&begins) };
    (FileReader::new(Box::new(source), crew, 64 * MIB, (0, Vec::new())).unwrap(), begins)
}

fn read(reader: &FileReader, range: &Range<u64>) -> Result<()> {
    let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap()];
    let count = reader.read_at(range.start, &mut buffer, &|| Ok(()))?;
    assert!(count == buffer.len() && buffer.iter().zip(range.clone()).all(|(is, at)| *is == byte(at)), "{range:?}");
    Ok(())
}

#[test]
fn a_read_that_panics_is_an_error_and_the_next_one_is_done() {
    let (reader, _) = reader(&Arc::new(Crew::new(1)), |at| if at < MIB { panic!("as a test") } else { Ok(()) });
    assert_eq!(read(&reader, &(0..10)).unwrap_err().kind(), ErrorKind::Io);
    read(&reader, &(2 * MIB..2 * MIB + 10)).unwrap();
}

#[test]
fn reads_for_which_no_thread_starts_are_errors() {
    let (reader, begins) = reader(&Arc::new(Crew::without_threads()), |_| Ok(()));
    for _ in 0..2 {
        assert!(read(&reader, &(0..10)).is_err());
    }
    assert!(begins.lock().is_empty());
}

#[test]
fn what_was_announced_is_brought_once_in_whatever_order_it_is_read() {
    let (reader, begins) = reader(&Arc::new(Crew::new(2)), |_| Ok(()));
    let ranges: Vec<_> = (0..15).map(|number| number * 16 * MIB..number * 16 * MIB + 4 * MIB).collect();
    reader.expect(&ranges).unwrap();
    for range in ranges.iter().rev() {
        read(&reader, range).unwrap();
    }
    let mut begins = begins.lock().clone();
    begins.sort_unstable();
    assert_eq!(begins, ranges.iter().map(|range| range.start).collect::<Vec<_>>());
}

#[test]
fn announcements_are_brought_no_further_than_there_is_room_for() {
    let (reader, _) = reader(&Arc::new(Crew::new(2)), |_| Ok(()));
    let tiny: Vec<_> = (0..4096).map(|number| number * 64 * 1024..number * 64 * 1024 + 1).collect();
    for _ in 0..2 {
        reader.expect(&tiny).unwrap();
    }
    let left = reader.shared.state.lock().pieces.room(u64::MAX);
    assert!(u64::MAX - left <= 65 * MIB, "{} bytes", u64::MAX - left);
}

#[test]
fn a_read_ahead_that_failed_is_done_again_for_who_needs_it() {
    static FAILED: Mutex<bool> = Mutex::new(false);
    let (reader, _) = reader(&Arc::new(Crew::new(1)), |at| {
        let lost = at > 2 * MIB && !std::mem::replace(&mut *FAILED.lock(), true);
        if lost { Err(Error::new(ErrorKind::ConnectionLost, "as a test")) } else { Ok(()) }
    });
    let announced = 4 * MIB..5 * MIB;
    reader.expect(std::slice::from_ref(&announced)).unwrap();
    let mut state = reader.shared.state.lock();
    while state.pieces.around(4 * MIB).is_some() {
        assert!(!reader.shared.changed.wait_for(&mut state, Duration::from_mins(1)).timed_out());
    }
    drop(state);
    read(&reader, &announced).unwrap();
}

#[test]
fn who_reads_much_is_asked_whether_to_go_on_although_it_never_waits_long() {
    let (reader, _) = reader(&Arc::new(Crew::new(1)), |_| {
        thread::sleep(Duration::from_millis(20));
        Ok(())
    });
    let stop = || Err(Error::new(ErrorKind::Cancelled, "no more"));
    let read = reader.read_at(0, &mut vec![0; 128 << 20], &stop);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn threads_that_read_at_once_get_their_bytes_and_little_is_kept() {
    let crew = Arc::new(Crew::new(4));
    let (reader, _) = reader(&crew, |at| {
        if (at / MIB).is_multiple_of(13) { Err(Error::new(ErrorKind::ConnectionLost, "as a test")) } else { Ok(()) }
    });
    thread::scope(|scope| {
        for number in 0..4u64 {
            let reader = &reader;
            scope.spawn(move || {
                for turn in 0..60 {
                    let at = (turn * 37 + number * 11) % 200 * MIB + turn * 1001;
                    let length = [100, 70_000, 3 * MIB][usize::try_from(turn % 3).unwrap()];
                    if let Err(error) = read(reader, &(at..at + length)) {
                        assert_eq!(error.kind(), ErrorKind::ConnectionLost);
                    }
                }
            });
        }
    });
    read(&reader, &(250 * MIB..250 * MIB + 10)).unwrap();
    let unused = u64::MAX - reader.shared.state.lock().pieces.room(u64::MAX);
    assert!(unused <= 64 * MIB, "{unused}");
}
