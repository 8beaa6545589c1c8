//! What a server tells of entries: lines of MLSD and MLST, lines of LIST, and times.

use std::time::UNIX_EPOCH;

use chrono::{DateTime, NaiveDateTime};
use suppaftp::list::ListParser;

use super::names;
use crate::error::Result;
use crate::path::RelativePath;
use crate::store::{Entry, EntryKind};

/// What a line says of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) kind: EntryKind,
    pub(super) size: u64,
    pub(super) modified_ns: Option<i64>,
    version: Option<u64>,
    /// Whether it is the listed directory itself or the one above.
    pub(super) own: bool,
}

impl Facts {
    pub(super) fn of(kind: EntryKind) -> Self {
        Self { kind, size: 0, modified_ns: None, version: None, own: false }
    }

    pub(super) fn entry(self, path: RelativePath) -> Entry {
        let size = if self.kind == EntryKind::File { self.size } else { 0 };
        let Self { kind, modified_ns, version, .. } = self;
        Entry { path, kind, size, modified_ns, mode: None, version, sparse: false }
    }
}

/// Reads `fact=value;fact=value; name` of RFC 3659.
pub(super) fn of_machine_line(line: &str) -> Option<(Facts, &str)> {
    let (told, name) = line.split_once(' ')?;
    let mut facts = Facts::of(EntryKind::Other);
    for (fact, value) in told.split(';').filter_map(|fact| fact.split_once('=')) {
        match fact.to_ascii_lowercase().as_str() {
            "type" => (facts.kind, facts.own) = kind_of(value),
            "size" => facts.size = value.parse().ok()?,
            "modify" => facts.modified_ns = time_of(value),
            "unique" => facts.version = Some(version_of(value)),
            _ => {}
        }
    }
    Some((facts, name))
}

fn kind_of(value: &str) -> (EntryKind, bool) {
    let lower = value.to_ascii_lowercase();
    match lower.as_str() {
        "file" => (EntryKind::File, false),
        "dir" => (EntryKind::Directory, false),
        "cdir" | "pdir" => (EntryKind::Directory, true),
        _ if lower.starts_with("os.unix=slink") || lower.starts_with("os.unix=symlink") => {
            let target = value.split_once(':').map_or("", |(_, target)| target);
            (EntryKind::Symlink(names::bytes(target).into()), false)
        }
        _ => (EntryKind::Other, false),
    }
}

fn version_of(unique: &str) -> u64 {
    let digest = blake3::hash(&names::bytes(unique));
    digest.as_bytes().iter().take(8).fold(0, |version, byte| (version << 8) | u64::from(*byte))
}

/// Reads a line of LIST, as far as the library knows the form; `None` for lines that are no entries.
pub(super) fn of_list_line(line: &str) -> Option<(Facts, String)> {
    let file = ListParser::parse_posix(line).or_else(|_| ListParser::parse_dos(line)).ok()?;
    let kind = match file.symlink() {
        _ if file.is_directory() => EntryKind::Directory,
        Some(target) => EntryKind::Symlink(names::bytes(&target.to_string_lossy()).into()),
        None => EntryKind::File,
    };
    let modified = file.modified().duration_since(UNIX_EPOCH).ok();
    let mut facts = Facts::of(kind);
    facts.size = file.size() as u64;
    facts.modified_ns = modified.and_then(|since| i64::try_from(since.as_nanos()).ok());
    facts.own = matches!(file.name(), "." | "..");
    Some((facts, file.name().to_owned()))
}

/// The path of a listed name; some servers tell it with the directories above.
pub(super) fn child(directory: &RelativePath, name: &str) -> Result<RelativePath> {
    directory.child(&names::bytes(name.rsplit('/').next().unwrap_or(name)))
}

/// Reads `YYYYMMDDHHMMSS`, perhaps with a fraction, in UTC.
fn time_of(text: &str) -> Option<i64> {
    NaiveDateTime::parse_from_str(text, "%Y%m%d%H%M%S%.f").ok()?.and_utc().timestamp_nanos_opt()
}

/// A time as commands have it; `None` for one that no calendar has.
pub(super) fn time_to_text(nanoseconds: i64) -> Option<String> {
    let time = DateTime::from_timestamp(nanoseconds.div_euclid(1_000_000_000), 0)?;
    Some(time.format("%Y%m%d%H%M%S").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_lines_are_read() {
        let line = "Type=file;Size=5;Modify=20090213233130.25;UNIX.mode=0644;unique=fd01U7; a; b =c";
        let (facts, name) = of_machine_line(line).unwrap();
        assert_eq!((name, &facts.kind, facts.size), ("a; b =c", &EntryKind::File, 5));
        assert_eq!(facts.modified_ns, Some(1_234_567_890_250_000_000));
        assert!(facts.version.is_some() && !facts.own);
        let (facts, name) = of_machine_line("type=cdir;sizd=4096; .").unwrap();
        assert_eq!((name, facts.kind.clone(), facts.own), (".", EntryKind::Directory, true));
        let (facts, _) = of_machine_line("type=OS.unix=slink:/to;size=2;  name").unwrap();
        assert_eq!(facts.kind, EntryKind::Symlink(b"/to".as_slice().into()));
        assert_eq!(facts.entry(RelativePath::root()).size, 0);
        assert_eq!(of_machine_line("nonsense"), None);
        assert_eq!(of_machine_line("type=file;size=-1; x"), None);
    }

    #[test]
    fn lists_of_unix_and_windows_are_read() {
        let (facts, name) = of_list_line("-rw-r--r--    1 0        0            1234 Nov 05  2018 two words").unwrap();
        assert_eq!((name.as_str(), facts.kind, facts.size), ("two words", EntryKind::File, 1234));
        let (facts, name) = of_list_line("lrwxrwxrwx 1 me me 3 Nov 05 2018 link -> to").unwrap();
        assert_eq!((name.as_str(), facts.kind), ("link", EntryKind::Symlink(b"to".as_slice().into())));
        assert!(of_list_line("drwxr-xr-x 2 me me 4096 Nov 05 2018 ..").unwrap().0.own);
        let (facts, name) = of_list_line("10-19-20  03:19PM <DIR> pub").unwrap();
        assert_eq!((name.as_str(), facts.kind), ("pub", EntryKind::Directory));
        assert_eq!(of_list_line("total 12"), None);
    }

    #[test]
    fn times_are_whole_seconds_of_the_calendar() {
        assert_eq!(time_to_text(1_234_567_890_999_999_999).unwrap(), "20090213233130");
        assert_eq!(time_to_text(-1).unwrap(), "19691231235959");
        assert_eq!(time_of("20090213233130"), Some(1_234_567_890_000_000_000));
        assert_eq!(time_of("yesterday"), None);
    }

    #[test]
    fn a_name_cannot_lead_out() {
        let directory = RelativePath::from_user("d").unwrap();
        assert_eq!(child(&directory, "/srv/d/x").unwrap().as_bytes(), b"d/x");
        for bad in ["..", ".", "", "a/"] {
            assert!(child(&directory, bad).is_err(), "{bad:?}");
        }
    }
}
