//! `edt doctor`: what on this host limits transfers, and the command that mends it.
//!
//! Each check is a pure function of text that the system shows, so that it can be tested with samples; gathering stands apart.

#[cfg(unix)]
mod disk;
mod processor;
#[cfg(target_os = "linux")]
mod resources;
#[cfg(target_os = "linux")]
mod tcp;

use std::fmt::Write as _;
use std::io::Write as _;

use serde::Serialize;

use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::terminal::Stdout;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    /// What was looked at, as the system calls it.
    name: &'static str,
    /// What was found.
    value: String,
    verdict: Verdict,
    /// What it means for transfers.
    meaning: String,
    /// The command or step that mends it.
    mend: Option<String>,
}

/// What a finding means for transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// It limits nothing.
    Good,
    /// It limits some transfers, or only slightly.
    Notice,
    /// It limits transfers clearly.
    Limits,
}

impl Finding {
    fn good(name: &'static str, value: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { name, value: value.into(), verdict: Verdict::Good, meaning: meaning.into(), mend: None }
    }

    fn notice(name: &'static str, value: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { verdict: Verdict::Notice, ..Self::good(name, value, meaning) }
    }

    fn limits(name: &'static str, value: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { verdict: Verdict::Limits, ..Self::good(name, value, meaning) }
    }

    fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let findings = examine();
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&serde_json::json!({ "findings": findings }))?)
    } else {
        render(&findings)
    };
    Stdout.write_all(text.as_bytes())?;
    Ok(Exit::Complete)
}

fn examine() -> Vec<Finding> {
    [
        processor::examine(),
        #[cfg(target_os = "linux")]
        resources::examine(),
        #[cfg(unix)]
        disk::examine(),
        #[cfg(target_os = "linux")]
        tcp::examine(),
    ]
    .concat()
}

fn render(findings: &[Finding]) -> String {
    let name_width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let value_width = findings.iter().map(|finding| finding.value.len().min(32)).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let verdict = match finding.verdict {
            Verdict::Good => "good",
            Verdict::Notice => "notice",
            Verdict::Limits => "limits",
        };
        let (name, value) = (finding.name, &finding.value);
        let _ = writeln!(text, "{verdict:6}  {name:name_width$}  {value:value_width$}  {}", finding.meaning);
        if let Some(mend) = &finding.mend {
            let _ = writeln!(text, "        mend: {mend}");
        }
    }
    let _ = writeln!(text, "{}", closing(findings));
    text
}

fn closing(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    match (count(Verdict::Limits), count(Verdict::Notice)) {
        (0, 0) => "nothing on this host limits transfers".to_owned(),
        (limits, notices) => format!(
            "{limits} limit transfers, {notices} worth a notice; `sysctl -w` lasts until the next start, a file in /etc/sysctl.d longer"
        ),
    }
}

/// The text of a small system file without its line end; `None` where there is none.
#[cfg(target_os = "linux")]
fn read(path: impl AsRef<std::path::Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_a_line_and_each_remedy_another() {
        let findings =
            [Finding::good("cpus", "8", "enough"), Finding::limits("open files", "64", "too few").mend("ulimit -n 65536")];
        let text = render(&findings);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "good    cpus        8   enough");
        assert_eq!(lines[1], "limits  open files  64  too few");
        assert_eq!(lines[2], "        mend: ulimit -n 65536");
        assert!(lines[3].starts_with("1 limit transfers, 0 worth a notice"));
    }

    #[test]
    fn a_good_host_is_told_so() {
        assert_eq!(closing(&[Finding::good("cpus", "8", "enough")]), "nothing on this host limits transfers");
    }

    #[test]
    fn this_host_can_be_examined() {
        let findings = examine();
        assert!(findings.iter().any(|finding| finding.name == "processors"));
        assert!(findings.iter().all(|finding| !finding.value.is_empty() && !finding.meaning.is_empty()));
    }
}
