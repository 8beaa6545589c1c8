//! `edt ls`, `edt stat` and `edt rm`: looking at and removing files of any endpoint.

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use edt::files::Files;
use edt::path::RelativePath;
use edt::store::{Depth, Entry, EntryKind};
use serde_json::{Value, json};

use crate::args::{ListArgs, RemoveArgs, StatArgs};
use crate::exit::{Exit, FailedKinds};
use crate::sources::{endpoint, unexpanded};
use crate::terminal::{Stdout, complain, printable, unless_closed};

pub(crate) fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let told = |error| unexpanded(error, &args.url);
    let files = Files::open(&endpoint(&args.url)?, &args.connect.options()).map_err(told)?;
    // The first answer tells whether the directory is there at all, and its server has room for one more caller.
    let mut entries = files.list(&RelativePath::root(), depth(args.recursive)).map_err(told)?.peekable();
    let whole = |error: &edt::Error| Exit::of_kind(error.kind()) == Exit::Unreachable;
    if let Some(Err(error)) = entries.next_if(|first| first.as_ref().is_err_and(whole)) {
        return Err(told(error).into());
    }
    list_all(args, entries, &mut BufWriter::new(Stdout))
}

/// Shows entries, and what could not be listed. Where the server was lost, more may be missing than is told.
fn list_all(args: &ListArgs, entries: impl Iterator<Item = edt::Result<Entry>>, out: &mut impl Write) -> anyhow::Result<Exit> {
    let (mut nothing, mut failed, mut told) = (true, FailedKinds::default(), Ok(()));
    for entry in entries {
        nothing &= entry.is_err();
        told = match entry {
            Ok(entry) if args.json => writeln!(out, "{}", as_json(&entry)),
            Ok(entry) if args.long => line(out, &args.url, &long(&entry), &entry),
            Ok(entry) => line(out, &args.url, "", &entry),
            Err(error) => {
                failed.add(error.kind());
                complain(&error.into());
                Ok(())
            }
        };
        if told.is_err() {
            break;
        }
    }
    // Whoever read may have gone away: what failed until then did so all the same.
    unless_closed(told.and_then(|()| out.flush()))?;
    Ok(failed.exit(nothing))
}

pub(crate) fn stat(args: &StatArgs) -> anyhow::Result<Exit> {
    let entry = Files::open(&endpoint(&args.url)?, &args.connect.options())
        .and_then(|files| files.stat(&RelativePath::root()))
        .map_err(|error| unexpanded(error, &args.url))?;
    if args.json {
        writeln!(Stdout, "{}", as_json(&entry))?;
    } else {
        write!(Stdout, "{}", described(&args.url, &entry))?;
    }
    Ok(Exit::Complete)
}

pub(crate) fn remove(args: &RemoveArgs) -> anyhow::Result<Exit> {
    let endpoints = args.urls.iter().map(|url| endpoint(url)).collect::<edt::Result<Vec<_>>>()?;
    // All are checked before the first is removed.
    endpoints.iter().try_for_each(Files::check_removable)?;
    let mut failed = Vec::new();
    for endpoint in endpoints {
        let removed = Files::open(&endpoint, &args.connect.options())
            .and_then(|files| files.remove(&RelativePath::root(), depth(args.recursive)));
        failed.extend(removed.err().map(|error| unexpanded(error, endpoint.as_str())));
    }
    match failed.pop() {
        Some(only) if args.urls.len() == 1 => Err(only.into()),
        last => Ok(complain_of_all(failed.into_iter().chain(last), args.urls.len())),
    }
}

/// Shows why some of so many items could not be removed.
fn complain_of_all(errors: impl Iterator<Item = edt::Error>, items: usize) -> Exit {
    let (mut kinds, mut failed) = (FailedKinds::default(), 0);
    for error in errors {
        kinds.add(error.kind());
        failed += 1;
        complain(&error.into());
    }
    kinds.exit(failed == items)
}

fn depth(recursive: bool) -> Depth {
    if recursive { Depth::Tree } else { Depth::One }
}

/// Writes the name behind `before`, the URL where it names the file itself: its own bytes into a pipe or file, without control characters on a terminal.
fn line(out: &mut impl Write, url: &str, before: &str, entry: &Entry) -> io::Result<()> {
    out.write_all(before.as_bytes())?;
    let name: &[u8] = if entry.path.is_root() { url.as_bytes() } else { entry.path.as_bytes() };
    if io::stdout().is_terminal() {
        out.write_all(printable(&String::from_utf8_lossy(name)).as_bytes())?;
    } else {
        out.write_all(name)?;
    }
    if entry.kind == EntryKind::Directory {
        out.write_all(b"/")?;
    }
    if let (EntryKind::Symlink(target), false) = (&entry.kind, before.is_empty()) {
        write!(out, " -> {}", printable(&String::from_utf8_lossy(target)))?;
    }
    out.write_all(b"\n")
}

fn long(entry: &Entry) -> String {
    let mode = entry.mode.map_or_else(|| "?????????".to_owned(), permissions);
    let time = entry.modified_ns.map_or_else(|| "-".to_owned(), utc);
    format!("{}{mode} {:>14} {time:20} ", letter(&entry.kind), entry.size)
}

fn described(url: &str, entry: &Entry) -> String {
    let mut text = format!("url       {}\nkind      {}\nsize      {} bytes\n", printable(url), kind(&entry.kind), entry.size);
    if let Some(time) = entry.modified_ns {
        let _ = writeln!(text, "modified  {} UTC", utc(time));
    }
    if let Some(mode) = entry.mode {
        let _ = writeln!(text, "mode      {:04o} {}", mode & 0o7777, permissions(mode));
    }
    if let EntryKind::Symlink(target) = &entry.kind {
        let _ = writeln!(text, "target    {}", printable(&String::from_utf8_lossy(target)));
    }
    text
}

fn as_json(entry: &Entry) -> Value {
    let target = match &entry.kind {
        EntryKind::Symlink(target) => Some(String::from_utf8_lossy(target)),
        _ => None,
    };
    json!({
        "path": entry.path.to_string(), "kind": kind(&entry.kind), "size": entry.size,
        "modified_ns": entry.modified_ns, "mode": entry.mode, "target": target,
    })
}

fn kind(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink(_) => "symlink",
        EntryKind::Other => "other",
    }
}

fn letter(kind: &EntryKind) -> char {
    match kind {
        EntryKind::File => '-',
        EntryKind::Directory => 'd',
        EntryKind::Symlink(_) => 'l',
        EntryKind::Other => '?',
    }
}

fn permissions(mode: u32) -> String {
    (0..9).map(|bit| if mode & (0o400 >> bit) == 0 { '-' } else { ['r', 'w', 'x'][bit % 3] }).collect()
}

/// Nanoseconds since 1970 as date and time of day in UTC.
pub(crate) fn utc(nanoseconds: i64) -> String {
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", time / 3600, time / 60 % 60, time % 60)
}

/// Year, month and day of a day counted from 1970-01-01 [Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ConnectArgs;
    use crate::terminal::Closed;

    fn recursive() -> ListArgs {
        let (url, connect) = ("edt://h/".to_owned(), ConnectArgs::default());
        ListArgs { recursive: true, long: false, json: false, connect, url }
    }

    fn entry(kind: EntryKind) -> Entry {
        Entry {
            path: RelativePath::from_user("a/b").unwrap(),
            kind,
            size: 7,
            modified_ns: Some(951_782_400_000_000_000),
            mode: Some(0o100_640),
            version: None,
            sparse: false,
        }
    }

    fn written(before: &str, entry: &Entry) -> String {
        let mut out = Vec::new();
        line(&mut out, "edt://h/f", before, entry).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_listing_that_lost_its_server_is_not_one_with_a_few_failures() {
        use edt::ErrorKind::{self, ConnectionLost, NotFound, PermissionDenied};

        let cases: [(&[ErrorKind], usize, Exit); 5] = [
            (&[], 1, Exit::Complete),
            (&[ConnectionLost], 1, Exit::Unreachable),
            (&[PermissionDenied], 1, Exit::Incomplete),
            (&[PermissionDenied], 0, Exit::Refused),
            (&[NotFound, ConnectionLost], 1, Exit::Incomplete),
        ];
        for (kinds, listed, exit) in cases {
            let there = std::iter::repeat_with(|| Ok(entry(EntryKind::File))).take(listed);
            let failed = kinds.iter().map(|kind| Err(edt::Error::new(*kind, "could not list `a`")));
            let mut out = Vec::new();
            assert_eq!(list_all(&recursive(), there.chain(failed), &mut out).unwrap(), exit, "{kinds:?}");
            assert_eq!(out, b"a/b\n".repeat(listed));
        }
    }

    #[test]
    fn what_could_not_be_listed_counts_whoever_reads() {
        let unlisted = Err(edt::Error::new(edt::ErrorKind::PermissionDenied, "could not list `a`"));
        let entries = [unlisted, Ok(entry(EntryKind::File))];
        assert_eq!(list_all(&recursive(), entries.into_iter(), &mut Closed).unwrap(), Exit::Incomplete);
        let entries = [Ok(entry(EntryKind::File))];
        assert_eq!(list_all(&recursive(), entries.into_iter(), &mut Closed).unwrap(), Exit::Complete);
    }

    #[test]
    fn several_that_are_not_removed_are_judged_as_those_of_a_copy() {
        use edt::ErrorKind::{self, NotFound, PermissionDenied, Unreachable};

        let cases: [(&[ErrorKind], Exit); 5] = [
            (&[], Exit::Complete),
            (&[PermissionDenied], Exit::Incomplete),
            (&[PermissionDenied; 2], Exit::Refused),
            (&[Unreachable; 2], Exit::Unreachable),
            (&[NotFound; 2], Exit::Incomplete),
        ];
        for (kinds, exit) in cases {
            let errors = kinds.iter().map(|kind| edt::Error::new(*kind, "could not remove `a`"));
            assert_eq!(complain_of_all(errors, 2), exit, "{kinds:?}");
        }
    }

    #[test]
    fn days_become_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00");
        assert_eq!(utc(1_700_000_000_999_999_999), "2023-11-14 22:13:20");
        assert_eq!(utc(-1), "1969-12-31 23:59:59");
    }

    #[test]
    fn a_long_line_tells_mode_size_and_time() {
        let file = entry(EntryKind::File);
        assert_eq!(written(&long(&file), &file), "-rw-r-----              7 2000-02-29 00:00:00  a/b\n");
    }

    #[test]
    fn directories_end_in_a_slash_and_links_name_their_target() {
        assert_eq!(written("", &entry(EntryKind::Directory)), "a/b/\n");
        let link = entry(EntryKind::Symlink(b"t".as_slice().into()));
        assert!(written(&long(&link), &link).ends_with(" a/b -> t\n"));
        assert_eq!(as_json(&link)["target"], "t");
    }

    #[test]
    fn a_file_that_is_listed_itself_has_the_name_it_was_given() {
        assert_eq!(written("", &Entry { path: RelativePath::root(), ..entry(EntryKind::File) }), "edt://h/f\n");
    }
}
