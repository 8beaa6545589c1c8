//! `edt clean`: removes unfinished uploads and partial files that no transfer will go on with.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use edt::endpoint::Location;
use edt::store::remote::{AbandonedItem, abandoned};
use edt::{Error, ErrorKind};
use serde_json::json;

use crate::args::CleanArgs;
use crate::exit::Exit;
use crate::files::utc;
use crate::sources::endpoint;
use crate::terminal::{Stdout, complain, printable, unless_closed};

pub(crate) fn run(args: &CleanArgs) -> anyhow::Result<Exit> {
    let Location::Service(url) = endpoint(&args.url)?.resolve()? else {
        return Err(Error::new(ErrorKind::Unsupported, format!("could not clean `{}`", args.url))
            .with_cause(
                "local directories and edt servers keep what is partial in `.edt`, where the next transfer clears it away",
            )
            .with_hint("name an object store, or a directory of a file server")
            .into());
    };
    let mut service = abandoned(&url)?;
    let found = service.list()?;
    clean(args, found, |item| service.remove(item), &mut BufWriter::new(Stdout))
}

/// Removes what is old enough of what was found, and tells of it.
fn clean(
    args: &CleanArgs,
    found: Vec<edt::Result<AbandonedItem>>,
    remove: impl Fn(&AbandonedItem) -> edt::Result<()>,
    out: &mut impl Write,
) -> anyhow::Result<Exit> {
    let (mut exit, mut told) = (Exit::Complete, Ok(()));
    for item in found {
        let removed = match item {
            Ok(item) if !is_older(&item, args.older_than) => continue,
            Ok(item) if args.dry_run => Ok(item),
            Ok(item) => remove(&item).map(|()| item),
            Err(error) => Err(error),
        };
        match removed {
            // Whoever read may have gone away: what is left is removed all the same.
            Ok(item) => told = told.and_then(|()| tell(out, args, &item)),
            Err(error) => {
                complain(&error.into());
                exit = Exit::Incomplete;
            }
        }
    }
    unless_closed(told.and_then(|()| out.flush()))?;
    Ok(exit)
}

/// Whether it was begun longer ago than `age`; what has no time may be of this moment.
fn is_older(item: &AbandonedItem, age: Duration) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begun = item.begun_ns.map(|begun| Duration::from_nanos(u64::try_from(begun).unwrap_or(0)));
    now.saturating_sub(begun.unwrap_or(now)) >= age
}

fn tell(out: &mut impl Write, args: &CleanArgs, item: &AbandonedItem) -> io::Result<()> {
    if args.json {
        let item = json!({"name": item.name, "begun_ns": item.begun_ns, "bytes": item.bytes, "removed": !args.dry_run});
        return writeln!(out, "{item}");
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    let begun = item.begun_ns.map_or_else(String::new, |begun| format!(", begun {} UTC", utc(begun)));
    let bytes = item.bytes.map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
    writeln!(out, "{verb} {}{begun}{bytes}", printable(&item.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Closed;
    use std::cell::RefCell;

    #[test]
    fn all_is_removed_whoever_reads_of_it() {
        let args = CleanArgs { older_than: Duration::ZERO, dry_run: false, json: false, url: "s3://bucket/".to_owned() };
        let item = |name: &str| Ok(AbandonedItem { name: name.to_owned(), begun_ns: None, bytes: None });
        let unlisted = || Err(Error::new(ErrorKind::PermissionDenied, "could not list `c`"));
        let whole = vec![item("a"), item("b")];
        let part = vec![item("a"), unlisted(), item("b")];
        for (found, exit) in [(whole, Exit::Complete), (part, Exit::Incomplete)] {
            let removed = RefCell::new(Vec::new());
            let remove = |item: &AbandonedItem| {
                removed.borrow_mut().push(item.name.clone());
                Ok(())
            };
            assert_eq!(clean(&args, found, remove, &mut Closed).unwrap(), exit);
            assert_eq!(removed.into_inner(), ["a", "b"]);
        }
    }

    #[test]
    fn what_is_young_is_left_alone() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let begun = |ago: u64| i64::try_from(now.checked_sub(Duration::from_secs(ago)).unwrap().as_nanos()).ok();
        let item = |begun_ns| AbandonedItem { name: String::new(), begun_ns, bytes: None };
        assert!(is_older(&item(begun(100)), Duration::from_mins(1)));
        assert!(!is_older(&item(begun(10)), Duration::from_mins(1)));
        assert!(!is_older(&item(None), Duration::from_mins(1)));
        assert!(is_older(&item(None), Duration::ZERO));
    }
}
