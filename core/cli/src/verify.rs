//! `edt verify`: compares files, where they are, with the manifest of a transfer.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use edt::ErrorKind;
use edt::files::{Digests, Files};
use edt::pipeline::manifest::{Expected, Manifest};
use edt::protocol::hex;
use serde::Serialize;

use crate::args::VerifyArgs;
use crate::exit::{Exit, FailedKinds, is_closed_pipe};
use crate::sources::endpoint;
use crate::terminal::{Stdout, printable, say};

/// What became of a file since the manifest was written.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "lowercase")]
enum Outcome {
    /// Its content is the same.
    Ok,
    /// Its content is another.
    Differs { why: String },
    /// It is not there.
    Missing,
    /// It could not be read.
    Failed {
        why: String,
        #[serde(skip)]
        kind: ErrorKind,
    },
}

/// How many files had each outcome.
#[derive(Debug, Default, Serialize)]
struct Counts {
    ok: u64,
    differs: u64,
    missing: u64,
    failed: u64,
    #[serde(skip)]
    kinds: FailedKinds,
}

pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<Exit> {
    let manifest = BufReader::new(open(&args.manifest)?);
    let files = Files::open(&endpoint(&args.url)?, &args.connect.options())?;
    let mut out = BufWriter::new(Stdout);
    let (mut counts, mut told) = (Counts::default(), Ok(()));
    let mut listing = Manifest::read(manifest);
    for expected in listing.by_ref() {
        let expected = expected?;
        let outcome = match files.digests(&expected.path) {
            // Without its connection no further file can be told from a missing one.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionLost | ErrorKind::Unreachable) => return Err(error.into()),
            answer => judge(&expected, answer),
        };
        counts.add(&outcome);
        // Whoever read may have gone away: what is left is compared all the same, and the exit code tells.
        told = told.and_then(|()| tell(&mut out, args.json, &expected.path.to_string(), &outcome));
    }
    match told.and_then(|()| conclude(&mut out, args.json, &counts)) {
        Err(error) if !is_closed_pipe(&error) => return Err(error),
        _ => {}
    }
    if listing.may_be_cut() {
        say("warning: the manifest does not tell how many files it lists: an early edt wrote it, or it was cut");
    }
    Ok(counts.exit())
}

fn open(path: &Path) -> edt::Result<File> {
    File::open(path).map_err(|cause| {
        edt::Error::new(ErrorKind::InvalidInput, format!("could not open the manifest `{}`", path.display()))
            .with_cause(cause)
            .with_hint("name a file that `edt cp --manifest FILE` or `b3sum` wrote")
    })
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        let (count, kind) = match outcome {
            Outcome::Ok => (&mut self.ok, None),
            Outcome::Differs { .. } => (&mut self.differs, Some(ErrorKind::Corrupted)),
            Outcome::Missing => (&mut self.missing, Some(ErrorKind::NotFound)),
            Outcome::Failed { kind, .. } => (&mut self.failed, Some(*kind)),
        };
        *count += 1;
        if let Some(kind) = kind {
            self.kinds.add(kind);
        }
    }

    fn exit(&self) -> Exit {
        self.kinds.exit(self.ok == 0)
    }
}

/// Compares BLAKE3 where the manifest has it, which a list made by `b3sum` has alone, else size and crc64nvme.
fn judge(expected: &Expected, answer: edt::Result<Digests>) -> Outcome {
    let found = match answer {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Outcome::Missing,
        Err(error) => return Outcome::Failed { why: error.to_string(), kind: error.kind() },
    };
    let differs =
        |what: &str, now: &str, listed: &str| Outcome::Differs { why: format!("{what} is {now}, the manifest says {listed}") };
    if let Some(blake3) = expected.blake3.map(|digest| hex(&digest)) {
        return if blake3 == found.blake3 { Outcome::Ok } else { differs("BLAKE3", &found.blake3, &blake3) };
    }
    let crc64nvme = expected.crc64nvme.map(|digest| format!("{digest:016x}"));
    match (expected.size, crc64nvme) {
        (Some(size), _) if size != found.size => differs("size", &found.size.to_string(), &size.to_string()),
        (_, Some(crc64nvme)) if crc64nvme != found.crc64nvme => differs("crc64nvme", &found.crc64nvme, &crc64nvme),
        (_, Some(_)) => Outcome::Ok,
        (_, None) => Outcome::Failed { why: "the manifest has no digest of it".to_owned(), kind: ErrorKind::InvalidInput },
    }
}

fn tell(out: &mut impl Write, json: bool, path: &str, outcome: &Outcome) -> anyhow::Result<()> {
    /// One line of `--json`.
    #[derive(Serialize)]
    struct Line<'a> {
        path: &'a str,
        #[serde(flatten)]
        outcome: &'a Outcome,
    }
    if json {
        writeln!(out, "{}", serde_json::to_string(&Line { path, outcome })?)?;
        return Ok(());
    }
    let path = printable(path);
    match outcome {
        Outcome::Ok => {}
        Outcome::Differs { why } => writeln!(out, "differs: {path}: {}", printable(why))?,
        Outcome::Missing => writeln!(out, "missing: {path}")?,
        Outcome::Failed { why, .. } => writeln!(out, "failed: {path}: {}", printable(why))?,
    }
    Ok(())
}

fn conclude(out: &mut impl Write, json: bool, counts: &Counts) -> anyhow::Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(counts)?)?;
    } else {
        let Counts { ok, differs, missing, failed, .. } = counts;
        writeln!(out, "{ok} ok, {differs} differ, {missing} missing, {failed} failed")?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edt::path::RelativePath;

    fn expected(blake3: Option<[u8; 32]>) -> Expected {
        Expected { path: RelativePath::from_user("a").unwrap(), size: Some(3), crc64nvme: Some(0xab), blake3 }
    }

    fn digests(size: u64, crc64nvme: u64, blake3: [u8; 32]) -> Digests {
        Digests { size, crc64nvme: format!("{crc64nvme:016x}"), blake3: hex(&blake3) }
    }

    #[test]
    fn the_same_content_is_ok() {
        assert_eq!(judge(&expected(Some([1; 32])), Ok(digests(3, 0xab, [1; 32]))), Outcome::Ok);
        assert_eq!(judge(&expected(None), Ok(digests(3, 0xab, [9; 32]))), Outcome::Ok);
    }

    #[test]
    fn another_content_differs_by_the_strongest_digest_there_is() {
        for (expected, found, what) in [
            (expected(Some([1; 32])), digests(3, 0xab, [2; 32]), "BLAKE3"),
            (expected(None), digests(4, 0xab, [2; 32]), "size is 4, the manifest says 3"),
            (expected(None), digests(3, 0xac, [2; 32]), "crc64nvme is 00000000000000ac"),
        ] {
            let Outcome::Differs { why } = judge(&expected, Ok(found)) else { panic!("{what} passed") };
            assert!(why.starts_with(what), "{why}");
        }
    }

    #[test]
    fn a_file_that_is_gone_is_missing_and_one_that_cannot_be_read_failed() {
        let error = |kind| Err(edt::Error::new(kind, "x"));
        assert_eq!(judge(&expected(None), error(ErrorKind::NotFound)), Outcome::Missing);
        let kind = ErrorKind::PermissionDenied;
        assert_eq!(judge(&expected(None), error(kind)), Outcome::Failed { why: "x".into(), kind });
    }

    #[test]
    fn a_service_that_refuses_every_file_has_refused_as_a_whole() {
        use edt::ErrorKind::{InvalidInput, PermissionDenied, Throttled};

        let failed = |kind| Outcome::Failed { why: String::new(), kind };
        let differs = Outcome::Differs { why: String::new() };
        let cases: [(&[Outcome], Exit); 7] = [
            (&[Outcome::Ok], Exit::Complete),
            (&[failed(PermissionDenied), failed(PermissionDenied)], Exit::Refused),
            (&[failed(PermissionDenied), Outcome::Ok], Exit::Incomplete),
            (&[failed(PermissionDenied), differs], Exit::Incomplete),
            (&[failed(PermissionDenied), Outcome::Missing], Exit::Incomplete),
            (&[failed(Throttled), Outcome::Ok], Exit::Unreachable),
            (&[failed(InvalidInput)], Exit::Incomplete),
        ];
        for (outcomes, exit) in cases {
            let mut counts = Counts::default();
            for outcome in outcomes {
                counts.add(outcome);
            }
            assert_eq!(counts.exit(), exit, "{outcomes:?}");
        }
    }

    #[test]
    fn lines_of_json_hold_path_and_result_and_lines_of_text_no_control_characters() {
        let mut out = Vec::new();
        tell(&mut out, true, "a", &Outcome::Differs { why: "w".into() }).unwrap();
        tell(&mut out, false, "a", &Outcome::Ok).unwrap();
        tell(&mut out, true, "a", &Outcome::Failed { why: "w".into(), kind: ErrorKind::Io }).unwrap();
        tell(&mut out, false, "\x1b", &Outcome::Failed { why: "\x1b[2J".into(), kind: ErrorKind::Io }).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"path\":\"a\",\"result\":\"differs\",\"why\":\"w\"}\n{\"path\":\"a\",\"result\":\"failed\",\"why\":\"w\"}\n\
             failed: \\u{1b}: \\u{1b}[2J\n"
        );
    }
}
