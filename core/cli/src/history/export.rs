//! `edt history export`: a table as Parquet, CSV or JSON lines.

use std::fs::{Metadata, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use edt::history::{Cell, History, Table};
use edt::{Error, ErrorKind};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::list::object;
use crate::args::{FormatArg, HistoryExportArgs};
use crate::exit::Exit;

pub(crate) fn run(args: &HistoryExportArgs) -> anyhow::Result<Exit> {
    if args.format == FormatArg::Parquet && args.output.is_none() && io::stdout().is_terminal() {
        let refused = Error::new(ErrorKind::InvalidInput, "Parquet is nothing to be shown in a terminal");
        return Err(refused.with_hint("name a file with --output FILE").into());
    }
    let rows = Rows { history: History::open_to_read()?, table: args.table.into(), id: args.id };
    match &args.output {
        Some(path) => to_file(path, |out| write(out, &rows, args.format))?,
        None => write(&mut BufWriter::new(io::stdout()), &rows, args.format)?,
    }
    Ok(Exit::Complete)
}

/// Links that lead from one to the next, at most.
const MOST_LINKS: usize = 40;

/// Writes a file that appears under its name when it is whole. A pipe or a device is written to as it is, and so is a file where none may
/// be made beside it.
fn to_file(path: &Path, write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let refused = |cause: io::Error| {
        Error::new(ErrorKind::InvalidInput, format!("could not create `{}`", path.display()))
            .with_cause(cause)
            .with_hint("name a file that can be written, in a directory that exists")
    };
    let there = |truncate| OpenOptions::new().write(true).truncate(truncate).open(path).map_err(refused);
    let found = there_is(path.metadata()).map_err(refused)?;
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return write(&mut BufWriter::new(there(false)?));
    }
    // Of a link what it leads to is replaced, and not the link.
    let place = target(path).map_err(refused)?;
    let file = match beside(&place, found.as_ref()) {
        Ok(file) => file,
        Err(cause) if found.is_some() && is_forbidden(cause.kind()) => return write(&mut BufWriter::new(there(true)?)),
        // A disk that is full would take neither, and what is there would be gone.
        Err(cause) => return Err(refused(cause).into()),
    };
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.persist(&place).map_err(|unplaced| refused(unplaced.error))?;
    Ok(())
}

/// What was found, or that nothing is there; what could not be found out is an error.
fn there_is(found: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Whether no file may be made in a directory, whatever room there is. In that of a process nothing is found under a new name.
fn is_forbidden(why: io::ErrorKind) -> bool {
    matches!(why, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotFound)
}

/// Where a path leads, whether there is anything or not. What the system would not follow is not followed.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Some(link) = there_is(place.symlink_metadata())?.filter(Metadata::is_symlink) else { return Ok(place) };
        check_owner(&link, directory_of(&place))?;
        // From the directory that the link lies in.
        place = directory_of(&place).join(place.read_link()?);
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

/// The directory that a path lies in.
fn directory_of(place: &Path) -> &Path {
    place.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// An error for a link that somebody else has put into a directory for everybody.
#[cfg(unix)]
fn check_owner(link: &Metadata, directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let (directory, user) = (directory.metadata()?, rustix::process::geteuid().as_raw());
    if may_follow(link.uid(), (directory.uid(), directory.mode()), user) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user's link in a directory for everybody is not followed"))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it may be refused")]
fn check_owner(_: &Metadata, _: &Path) -> io::Result<()> {
    Ok(())
}

/// The rule of Linux for links in directories that everybody writes to, by the owner of the link, the owner and the mode of the directory,
/// and the user that follows [`protected_symlinks` in proc(5)].
#[cfg(unix)]
fn may_follow(link_owner: u32, (owner, mode): (u32, u32), user: u32) -> bool {
    const STICKY_FOR_ALL: u32 = 0o1002;
    mode & STICKY_FOR_ALL != STICKY_FOR_ALL || link_owner == user || link_owner == owner
}

/// A file without a name of its own in the directory of another, which it replaces later, and whose permissions it has.
fn beside(place: &Path, found: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".edt-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = if found.is_some() { 0o600 } else { 0o666 };
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    let file = builder.tempfile_in(directory_of(place))?;
    // The mask of the user is for files that are new.
    #[cfg(unix)]
    if let Some(found) = found {
        file.as_file().set_permissions(found.permissions())?;
    }
    #[cfg(not(unix))]
    let _ = found;
    Ok(file)
}

fn write(out: &mut (dyn Write + Send), rows: &Rows, format: FormatArg) -> anyhow::Result<()> {
    match format {
        FormatArg::Json => write_json(out, rows)?,
        FormatArg::Csv => write_csv(out, rows)?,
        FormatArg::Parquet => write_parquet(out, rows)?,
    }
    Ok(out.flush()?)
}

/// What is exported.
struct Rows {
    history: Option<History>,
    table: Table,
    /// Only those of this transfer.
    id: Option<i64>,
}

impl Rows {
    /// Hands over rows as long as they can be written; the first failure of writing is the error.
    fn each(&self, each: &mut dyn FnMut(Vec<Cell>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let Some(history) = &self.history else { return Ok(()) };
        let mut unwritten = Ok(());
        let read = history.rows(self.table, self.id, |cells| {
            each(cells).map_err(|error| {
                unwritten = Err(error);
                Error::new(ErrorKind::Io, "could not write a row")
            })
        });
        unwritten?;
        Ok(read?)
    }
}

/// One object per row and line.
fn write_json(out: &mut (dyn Write + Send), rows: &Rows) -> anyhow::Result<()> {
    rows.each(&mut |cells| Ok(writeln!(out, "{}", Value::Object(object(rows.table, cells)))?))
}

/// A CSV file with a header; what is not known is empty.
fn write_csv(out: &mut (dyn Write + Send), rows: &Rows) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(rows.table.columns().iter().map(|column| column.name)).map_err(io_error)?;
    rows.each(&mut |cells| writer.write_record(cells.iter().map(text)).map_err(io_error))?;
    Ok(writer.flush()?)
}

/// The cause of a failure to write, so that a reader that went away is seen as such.
fn io_error(error: csv::Error) -> anyhow::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => cause.into(),
        other => anyhow::anyhow!("could not write a row: {other:?}"),
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => number.to_string(),
        Cell::Boolean(is) => is.to_string(),
        Cell::Text(text) => text.clone(),
    }
}

#[cfg(feature = "parquet")]
fn write_parquet(out: &mut (dyn Write + Send), rows: &Rows) -> anyhow::Result<()> {
    let mut writer = super::parquet::Writer::new(out, rows.table)?;
    rows.each(&mut |cells| writer.add(cells))?;
    writer.finish()
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &mut (dyn Write + Send), _: &Rows) -> anyhow::Result<()> {
    Err(Error::new(ErrorKind::Unsupported, "this build of edt writes no Parquet")
        .with_hint("build it with `--features parquet`, or export CSV, or use `edt.history` in Python")
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "start_s,source,files,bytes,concurrency,throughput_bytes_per_s\n1.5,\"a, \"\"b\"\"\",2,300,4,5e8\n";

    fn rows(directory: &tempfile::TempDir) -> Rows {
        let (file, log) = (directory.path().join("history.db"), directory.path().join("log.csv"));
        std::fs::write(&log, LOG).unwrap();
        let mut history = History::open_at(&file).unwrap();
        history.import(&log, "log").unwrap();
        Rows { history: Some(history), table: Table::Imported, id: None }
    }

    #[test]
    fn a_csv_file_has_a_header_and_nothing_where_nothing_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        write_csv(&mut out, &rows(&directory)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("import,label,number,began_s,") && lines[0].ends_with(",throughput"));
        assert_eq!(lines[1..], ["1,log,0,1.5,\"a, \"\"b\"\"\",,,,,2,300,4,1,1,500000000"]);
    }

    #[test]
    fn a_json_line_has_every_column() {
        let directory = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        write_json(&mut out, &rows(&directory)).unwrap();
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(line.as_object().unwrap().len(), Table::Imported.columns().len());
        assert_eq!((&line["source"], &line["rtt_s"]), (&Value::from("a, \"b\""), &Value::Null));
    }

    #[test]
    fn what_cannot_be_written_ends_the_export_with_its_cause() {
        let directory = tempfile::tempdir().unwrap();
        let error = rows(&directory).each(&mut |_| Err(io::Error::from(io::ErrorKind::BrokenPipe).into())).unwrap_err();
        assert!(crate::exit::is_closed_pipe(&error), "{error:?}");
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_when_it_is_whole_and_one_that_was_there_stays_until_then() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        let failing = |out: &mut (dyn Write + Send)| -> anyhow::Result<()> {
            out.write_all(&vec![b'x'; 100_000])?;
            anyhow::bail!("no more")
        };
        assert_eq!(to_file(&path, failing).unwrap_err().to_string(), "no more");
        assert!(names(directory.path()).is_empty());
        to_file(&path, |out| Ok(out.write_all(b"first")?)).unwrap();
        assert!(to_file(&path, failing).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        to_file(&path, |out| Ok(out.write_all(b"second")?)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(names(directory.path()), ["out.csv"]);
        let error = to_file(&directory.path().join("none/out.csv"), |_| Ok(())).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Usage);
        assert_eq!(Exit::of(&to_file(directory.path(), |_| Ok(())).unwrap_err()), Exit::Usage);
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_the_file_permissions_stay_and_devices_are_written_to() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("out.csv"), directory.path().join("link"));
        std::fs::write(&path, "first").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        // One that every mask leaves as it is, and one that every mask but none cuts.
        for mode in [0o600, 0o666] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            to_file(&link, |out| Ok(out.write_all(b"second")?)).unwrap();
            assert!(link.is_symlink());
            assert_eq!(std::fs::read(&path).unwrap(), b"second");
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
        }
        to_file(Path::new("/dev/null"), |out| Ok(out.write_all(b"third")?)).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_followed_and_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("first"), directory.path().join("second"));
        std::os::unix::fs::symlink("second", &first).unwrap();
        std::os::unix::fs::symlink(directory.path().join("out.csv"), &second).unwrap();
        to_file(&first, |out| Ok(out.write_all(b"rows")?)).unwrap();
        assert!(first.is_symlink() && second.is_symlink());
        assert_eq!(std::fs::read(directory.path().join("out.csv")).unwrap(), b"rows");
        let circle = directory.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert_eq!(Exit::of(&to_file(&circle, |_| Ok(())).unwrap_err()), Exit::Usage);
        assert!(circle.is_symlink());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_of_another_user_in_a_directory_for_everybody_is_not_followed() {
        let (user, other, root) = (1000, 1001, 0);
        assert!(!may_follow(other, (root, 0o41777), user));
        assert!(may_follow(user, (root, 0o41777), user) && may_follow(root, (root, 0o41777), user));
        assert!(may_follow(other, (root, 0o40777), user) && may_follow(other, (root, 0o41775), user));
    }

    #[cfg(unix)]
    #[test]
    fn what_cannot_be_looked_at_is_an_error_and_not_a_place_for_a_new_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "first").unwrap();
        // Below a file there is nothing to be found, nor is it known that there is nothing.
        let error = to_file(&file.join("out.csv"), |_| Ok(())).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Usage);
        let kind = |found: io::Result<Metadata>| there_is(found).unwrap_err().kind();
        assert_eq!(kind(Err(io::ErrorKind::PermissionDenied.into())), io::ErrorKind::PermissionDenied);
        assert_eq!(kind(file.join("out.csv").metadata()), io::ErrorKind::NotADirectory);
        assert!(there_is(directory.path().join("none").metadata()).unwrap().is_none());
    }

    #[test]
    fn a_file_that_is_there_is_cut_off_only_where_none_may_be_made_beside_it() {
        assert!(is_forbidden(io::ErrorKind::PermissionDenied) && is_forbidden(io::ErrorKind::ReadOnlyFilesystem));
        for why in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::OutOfMemory, io::ErrorKind::Other] {
            assert!(!is_forbidden(why), "{why}");
        }
    }

    /// Nobody can make a file beside those of a process, not even the superuser.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_is_written_in_its_place_where_none_can_be_made_beside_it() {
        let name = Path::new("/proc/self/comm");
        to_file(name, |out| Ok(out.write_all(b"edt-export")?)).unwrap();
        assert_eq!(std::fs::read(name).unwrap(), b"edt-export\n");
    }
}
