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
use crate::terminal::{Stdout, complain, printable};

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
    let mut out = BufWriter::new(Stdout);
    let mut exit = Exit::Complete;
    for item in service.list()? {
        let removed = match item {
            Ok(item) if !is_older(&item, args.older_than) => continue,
            Ok(item) if args.dry_run => Ok(item),
            Ok(item) => service.remove(&item).map(|()| item),
            Err(error) => Err(error),
        };
        match removed {
            Ok(item) => tell(&mut out, args, &item)?,
            Err(error) => {
                complain(&error.into());
                exit = Exit::Incomplete;
            }
        }
    }
    out.flush()?;
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
