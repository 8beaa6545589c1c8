//! The table of transfers: a file of slots, a lock for each slot that its owner holds while it lives, and one for whoever reads and writes.
//!
//! No file is ever removed by edt. Should somebody else do it, as those who clean directories for temporary files do, then whoever has one
//! open that is no longer at its place finds out at its next turn, and begins anew.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::broker::folder::Folder;
use crate::broker::record::{Record, SLOT};

/// The number in the names of files changes with what is in them.
const SLOTS: &str = "transfers-1";
const GATE: &str = "transfers-1.lock";

/// Most transfers that can take part.
const MOST: u16 = 1024;

/// How often, and after which pauses, one tries to be the only one at the table: others need a tenth of a millisecond.
pub(super) const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_micros(250);

/// How often who begins tries it, who has nothing to go by yet.
pub(super) const PATIENTLY: u32 = 4000;

/// The table, as one transfer has it open.
#[derive(Debug)]
pub(super) struct Table {
    folder: Folder,
    slots: File,
    gate: File,
}

/// A slot that is this transfer's until it is given back or the process ends.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) number: u16,
    lock: File,
}

impl Table {
    /// Opens the table in a directory, and makes it if there is none.
    pub(super) fn open(folder: Folder) -> io::Result<Self> {
        let (slots, gate) = (folder.file(SLOTS)?, folder.file(GATE)?);
        Ok(Self { folder, slots, gate })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Carries out work while nobody else is at the table; `None` where somebody stays there, as one whose process was stopped does.
    pub(super) fn alone<T>(&mut self, work: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<Option<T>> {
        self.alone_within(ATTEMPTS, work)
    }

    /// The same with another number of attempts.
    pub(super) fn alone_within<T>(
        &mut self,
        attempts: u32,
        work: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        for _ in 0..attempts {
            match self.gate.try_lock() {
                Ok(()) => {
                    let there = self.folder.has(GATE, &self.gate) && self.folder.has(SLOTS, &self.slots);
                    let done = if there { work(self) } else { Err(removed()) };
                    self.gate.unlock()?;
                    return done.map(Some);
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(cause)) => return Err(cause),
            }
        }
        Ok(None)
    }

    /// Takes the first slot that is free; `None` if there is none. A lock that is there and cannot be opened, as another user's may be,
    /// counts as held.
    pub(super) fn claim(&mut self) -> io::Result<Option<Slot>> {
        for number in 0..MOST {
            let name = lock_name(number);
            let lock = match self.folder.file(&name) {
                Ok(lock) => lock,
                Err(_) if self.folder.has_any(&name) => continue,
                Err(cause) => return Err(cause),
            };
            match lock.try_lock() {
                Ok(()) => return Ok(Some(Slot { number, lock })),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(cause)) => return Err(cause),
            }
        }
        Ok(None)
    }

    /// What the owners of slots have written whose processes live.
    pub(super) fn records(&mut self) -> io::Result<Vec<Record>> {
        let mut bytes = Vec::new();
        self.slots.seek(SeekFrom::Start(0))?;
        (&mut self.slots).take(u64::from(MOST) * SLOT as u64).read_to_end(&mut bytes)?;
        let mut present = Vec::new();
        for (number, slot) in (0..MOST).zip(bytes.chunks_exact(SLOT)) {
            if let Some(record) = Record::decode(slot).filter(|record| record.slot == number)
                && self.is_held(number)
            {
                present.push(record);
            }
        }
        Ok(present)
    }

    /// Writes what a transfer says into its slot.
    pub(super) fn write(&mut self, slot: &Slot, record: &Record) -> io::Result<()> {
        if !self.has(slot) {
            return Err(removed());
        }
        let bytes = record.encode().ok_or(io::ErrorKind::InvalidData)?;
        self.put(slot, &bytes)
    }

    /// Empties a slot and gives it back. Closing its lock would not do: a process that was forked off has it open too.
    pub(super) fn leave(&mut self, slot: &Slot) -> io::Result<()> {
        let emptied = if self.has(slot) { self.put(slot, &[0; SLOT]) } else { Ok(()) };
        slot.lock.unlock()?;
        emptied
    }

    /// Whether a slot is still that of who has its lock.
    fn has(&self, slot: &Slot) -> bool {
        self.folder.has(&lock_name(slot.number), &slot.lock)
    }

    fn put(&mut self, slot: &Slot, bytes: &[u8; SLOT]) -> io::Result<()> {
        self.slots.seek(SeekFrom::Start(u64::from(slot.number) * SLOT as u64))?;
        self.slots.write_all(bytes)
    }

    /// Whether a slot has an owner. Its lock can be had if it has none.
    fn is_held(&self, number: u16) -> bool {
        match self.folder.open(&lock_name(number)) {
            Ok(lock) => match lock.try_lock_shared() {
                Ok(()) => {
                    let _ = lock.unlock();
                    false
                }
                Err(_) => true,
            },
            // Nobody is taken for gone because this process has too many files open.
            Err(cause) => cause.kind() != io::ErrorKind::NotFound,
        }
    }
}

fn removed() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "somebody has removed the table of transfers")
}

fn lock_name(number: u16) -> String {
    format!("transfer-{number}.lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(place: &tempfile::TempDir) -> Table {
        Table::open(Folder::find(Some(&place.path().join("edt"))).unwrap()).unwrap()
    }

    fn join(table: &mut Table, process: u32) -> Slot {
        let slot = table.claim().unwrap().unwrap();
        table.write(&slot, &Record { slot: slot.number, process, ..Record::default() }).unwrap();
        slot
    }

    fn processes(table: &mut Table) -> Vec<u32> {
        table.alone(Table::records).unwrap().unwrap().iter().map(|record| record.process).collect()
    }

    #[test]
    fn everybody_sees_all_who_are_there_and_nobody_who_has_left() {
        let place = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (open(&place), open(&place));
        let (first, second) = (join(&mut one, 11), join(&mut two, 22));
        assert_eq!((first.number, second.number), (0, 1));
        assert_eq!((processes(&mut one), processes(&mut two)), (vec![11, 22], vec![11, 22]));
        one.leave(&first).unwrap();
        assert_eq!(processes(&mut two), [22]);
        assert_eq!(join(&mut one, 33).number, 0);
    }

    #[test]
    fn a_slot_whose_owner_was_killed_is_free_at_once() {
        let place = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (open(&place), open(&place));
        let (first, second) = (join(&mut one, 11), join(&mut two, 22));
        // What a kill leaves: the record, and no lock.
        drop(first);
        assert_eq!(processes(&mut two), [22]);
        assert_eq!(join(&mut two, 33).number, 0);
        drop(second);
    }

    #[test]
    fn who_stays_at_the_table_is_not_waited_for_long() {
        let place = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (open(&place), open(&place));
        let nested = one.alone(|_| two.alone(|_| Ok(()))).unwrap();
        assert_eq!(nested, Some(None));
        assert_eq!(two.alone(|_| Ok(5)).unwrap(), Some(5));
    }

    #[test]
    fn the_gate_is_open_again_after_a_failure() {
        let place = tempfile::tempdir().unwrap();
        let mut table = open(&place);
        assert!(table.alone(|_| Err::<(), _>(io::Error::other("a failure"))).is_err());
        assert_eq!(table.alone(|_| Ok(1)).unwrap(), Some(1));
    }

    #[test]
    #[cfg(unix)]
    fn who_has_a_file_open_that_was_removed_is_told_so() {
        for name in [SLOTS, GATE] {
            let place = tempfile::tempdir().unwrap();
            let mut one = open(&place);
            std::fs::remove_file(one.folder().join(name)).unwrap();
            assert_eq!(one.alone(|_| Ok(())).unwrap_err().kind(), io::ErrorKind::NotFound, "{name}");
            // Nor may it be locked while another one is there.
            let _two = open(&place);
            assert!(one.alone(|_| Ok(())).is_err());
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_slot_whose_lock_was_removed_is_left_to_who_takes_it_next() {
        let place = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (open(&place), open(&place));
        let first = join(&mut one, 11);
        std::fs::remove_file(one.folder().join(lock_name(0))).unwrap();
        let second = join(&mut two, 22);
        assert_eq!((second.number, processes(&mut one)), (0, vec![22]));
        assert!(one.write(&first, &Record { process: 11, ..Record::default() }).is_err());
        one.leave(&first).unwrap();
        assert_eq!(processes(&mut one), [22]);
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_in_place_of_a_lock_keeps_nobody_waiting() {
        let place = tempfile::tempdir().unwrap();
        let mut table = open(&place);
        let slot = join(&mut table, 11);
        let pipe = table.folder().join(lock_name(slot.number));
        std::fs::remove_file(&pipe).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // What cannot be told from a lock that is held counts as held.
        assert_eq!(processes(&mut table), [11]);
    }

    #[test]
    fn a_lock_that_cannot_be_opened_counts_as_a_place_that_is_taken() {
        let place = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (open(&place), open(&place));
        std::fs::create_dir(one.folder().join(lock_name(0))).unwrap();
        let (first, second) = (join(&mut one, 11), join(&mut two, 22));
        assert_eq!((first.number, second.number), (1, 2));
        assert_eq!((processes(&mut one), processes(&mut two)), (vec![11, 22], vec![11, 22]));
    }

    #[test]
    fn slots_that_make_no_sense_are_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let mut table = open(&place);
        let slot = join(&mut table, 11);
        table.put(&Slot { number: 3, lock: table.folder.file("x").unwrap() }, &[7; SLOT]).unwrap();
        assert_eq!(processes(&mut table), [11]);
        table.put(&slot, &[9; SLOT]).unwrap();
        assert!(processes(&mut table).is_empty());
    }
}
