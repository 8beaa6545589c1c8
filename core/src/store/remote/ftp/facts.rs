//! What a server tells of entries: lines of MLSD and MLST, lines of LIST, and times.

use std::time::UNIX_EPOCH;

use chrono::{DateTime, NaiveDateTime};
use suppaftp::list::ListParser;

use super::names;
use crate::error::Result;
use crate::path::RelativePath;
use crate::store::{Entry, EntryKind};

/// What lines of `ls -l` for devices, pipes and sockets begin with.
const DEVICES: [char; 4] = ['b', 'c', 'p', 's'];

/// What a line says of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) kind: EntryKind,
    /// `None` if the line does not say.
    pub(super) size: Option<u64>,
    pub(super) modified_ns: Option<i64>,
    version: Option<u64>,
    /// Whether it is the listed directory itself or the one above.
    pub(super) own: bool,
}

impl Facts {
    pub(super) fn of(kind: EntryKind) -> Self {
        Self { kind, size: None, modified_ns: None, version: None, own: false }
    }

    /// Whether this is of a file whose size is still to be asked for: without it the file would be copied as an empty one.
    pub(super) fn lacks_size(&self) -> bool {
        self.kind == EntryKind::File && self.size.is_none()
    }

    pub(super) fn entry(self, path: RelativePath) -> Entry {
        let size = self.size.filter(|_| self.kind == EntryKind::File).unwrap_or(0);
        let Self { kind, modified_ns, version, .. } = self;
        Entry { path, kind, size, modified_ns, mode: None, version, sparse: false }
    }
}

/// Reads `fact=value;fact=value; name` of RFC 3659.
pub(super) fn of_machine_line(line: &str) -> Option<(Facts, &str)> {
    let (told, name) = line.split_once(' ')?;
    if !told.is_empty() && !told.contains('=') {
        return None;
    }
    let mut facts = Facts::of(EntryKind::Other);
    for (fact, value) in told.split(';').filter_map(|fact| fact.split_once('=')) {
        match fact.to_ascii_lowercase().as_str() {
            "type" => (facts.kind, facts.own) = kind_of(value),
            "size" => facts.size = Some(value.parse().ok()?),
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

/// Whether a line of a listing names nothing: an empty one, and the sum that `ls` writes above the others.
pub(super) fn names_nothing(line: &str) -> bool {
    let is_sum = |sum: &str| sum.trim().bytes().all(|byte| byte.is_ascii_digit());
    line.trim().is_empty() || line.strip_prefix("total ").is_some_and(is_sum)
}

/// Reads a line of LIST; `None` if neither Unix nor Windows lists so.
pub(super) fn of_list_line(line: &str) -> Option<(Facts, String)> {
    let file = match posix_form(line) {
        Some(form) => ListParser::parse_posix(&form),
        None => ListParser::parse_dos(&dos_form(line)?),
    };
    let file = file.ok()?;
    let kind = match file.symlink() {
        _ if line.starts_with(DEVICES) => EntryKind::Other,
        _ if file.is_directory() => EntryKind::Directory,
        Some(target) => EntryKind::Symlink(names::bytes(&target.to_string_lossy()).into()),
        None => EntryKind::File,
    };
    let modified = file.modified().duration_since(UNIX_EPOCH).ok();
    let mut facts = Facts::of(kind);
    facts.size = Some(file.size() as u64);
    facts.modified_ns = modified.and_then(|since| i64::try_from(since.as_nanos()).ok());
    facts.own = matches!(file.name(), "." | "..");
    Some((facts, file.name().to_owned()))
}

/// A line of `ls -l` as the library knows it: no mark behind the mode, one word each for owner and group, and devices as files.
fn posix_form(line: &str) -> Option<String> {
    let words = words(line);
    let (mode, links) = (words.first()?.1, words.get(1)?.1);
    let (kind, rights) = mode.split_at_checked(1)?;
    let kind = if mode.starts_with(DEVICES) { "-" } else { kind };
    if !["-", "d", "l"].contains(&kind) {
        return None;
    }
    let rights = rights.strip_suffix(['+', '.', '@']).unwrap_or(rights);
    // Behind at least an owner; names of owner and group may have spaces, and before the size may be a device's number.
    let size = words.windows(4).skip(3).find(|window| begin_with_size_and_date(window))?.first()?.0;
    Some(format!("{kind}{rights} {links} owner group {}", line.get(size..)?))
}

/// The words of a line, and where they begin.
fn words(line: &str) -> Vec<(usize, &str)> {
    let mut next = 0;
    let placed = line.split(' ').map(|word| {
        let begin = next;
        next += word.len() + 1;
        (begin, word)
    });
    placed.filter(|(_, word)| !word.is_empty()).collect()
}

fn begin_with_size_and_date(words: &[(usize, &str)]) -> bool {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_month = |word: &str| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let [(_, size), (_, month), (_, day), (_, time)] = words else { return false };
    is_number(size) && is_month(month) && is_number(day) && (time.contains(':') || is_number(time))
}

/// A line of Windows as the library knows it: with two digits for the year, which mean 1970 to 2069.
fn dos_form(line: &str) -> Option<String> {
    let (month, rest) = line.split_once('-')?;
    let (day, rest) = rest.split_once('-')?;
    let (year, rest) = rest.split_once(' ')?;
    let short = match year.parse::<u16>().ok()? {
        1970..=2069 => year.get(2..)?,
        _ => year,
    };
    Some(format!("{month}-{day}-{short} {rest}"))
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
        assert_eq!((name, &facts.kind, facts.size), ("a; b =c", &EntryKind::File, Some(5)));
        assert_eq!(facts.modified_ns, Some(1_234_567_890_250_000_000));
        assert!(facts.version.is_some() && !facts.own);
        let (facts, name) = of_machine_line("type=cdir;sizd=4096; .").unwrap();
        assert_eq!((name, facts.kind.clone(), facts.own), (".", EntryKind::Directory, true));
        let (facts, _) = of_machine_line("type=OS.unix=slink:/to;size=2;  name").unwrap();
        assert_eq!(facts.kind, EntryKind::Symlink(b"/to".as_slice().into()));
        assert_eq!(facts.entry(RelativePath::root()).size, 0);
        assert_eq!(of_machine_line("nonsense"), None);
        assert_eq!(of_machine_line("type=file;size=-1; x"), None);
        for (line, lacks) in [("type=file; x", true), ("type=file;size=0; x", false), ("type=dir; x", false)] {
            assert_eq!(of_machine_line(line).map(|(facts, _)| facts.lacks_size()), Some(lacks), "{line}");
        }
        assert_eq!(of_machine_line("-rw-r--r-- 1 me me 12 Nov 5 2018 a"), None);
    }

    #[test]
    fn lists_of_unix_and_windows_are_read() {
        let (facts, name) = of_list_line("-rw-r--r--    1 0        0            1234 Nov 05  2018 two words").unwrap();
        assert_eq!((name.as_str(), facts.kind, facts.size), ("two words", EntryKind::File, Some(1234)));
        let (facts, name) = of_list_line("lrwxrwxrwx 1 me me 3 Nov 05 2018 link -> to").unwrap();
        assert_eq!((name.as_str(), facts.kind), ("link", EntryKind::Symlink(b"to".as_slice().into())));
        assert!(of_list_line("drwxr-xr-x 2 me me 4096 Nov 05 2018 ..").unwrap().0.own);
        let (facts, name) = of_list_line("10-19-20  03:19PM <DIR> pub").unwrap();
        assert_eq!((name.as_str(), facts.kind), ("pub", EntryKind::Directory));
        assert_eq!(of_list_line("total 12"), None);
    }

    #[test]
    fn marks_behind_modes_names_with_spaces_and_long_years_are_read() {
        for line in [
            "-rw-r--r-- 1 jdoe domain users 12 Nov 5 13:46 a  b",
            "-rw-r--r-- 1 J. Doe domain users 12 Nov  5 2018 a  b",
            "-rw-r--r--+ 1 jdoe users 12 Nov 5 13:46 a  b",
            "-rw-r--r--. 1 jdoe 1001     12 Nov 05 13:46 a  b",
            "-rw-r--r-- 1 jdoe 12 Nov 5 13:46 a  b",
            "10-19-2020  03:19PM  12 a  b",
        ] {
            let (facts, name) = of_list_line(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((name.as_str(), facts.kind, facts.size), ("a  b", EntryKind::File, Some(12)), "{line}");
        }
        assert_eq!(of_list_line("10-19-2020  03:19PM  12 a").unwrap().0.modified_ns, time_of("20201019151900"));
        let (facts, name) = of_list_line("brw-rw---- 1 root disk 8, 0 Nov 5 2018 sda").unwrap();
        assert_eq!((name.as_str(), facts.kind), ("sda", EntryKind::Other));
    }

    #[test]
    fn only_empty_lines_and_sums_name_nothing() {
        assert!(["", "  ", "total 12", "total 0 "].into_iter().all(names_nothing));
        for line in ["-rw-r--r-- 1 me me 12 5. Nov 13:46 a", "01-01-1601  12:00AM  12 a", "+i1.2,m3,r,s4,\ta", "total loss 12"] {
            assert!(!names_nothing(line) && of_list_line(line).is_none(), "{line}");
        }
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
