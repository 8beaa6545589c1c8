//! What the system grants this process on Linux: open files, memory, processor time, and what the kernel can do.

use edt::report::human_bytes;

use super::{Finding, read};

/// Open files that the default limits of edt need with room to spare: streams and workers at both ends.
const OPEN_FILES: u64 = 4096;

/// Memory that one transfer needs with its buffers.
const MEMORY: u64 = 512 << 20;

/// A limit of 2^60 bytes or more is how version 1 of control groups says "none".
const NO_LIMIT: u64 = 1 << 60;

pub(super) fn examine() -> Vec<Finding> {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let smallest = |controller, file, parse: fn(&str) -> Option<f64>| {
        places(&groups, controller).iter().filter_map(|place| parse(&read(format!("{place}/{file}"))?)).reduce(f64::min)
    };
    let memory =
        smallest("memory", "memory.max", memory_limit).or_else(|| smallest("memory", "memory.limit_in_bytes", memory_limit));
    let processors = smallest("cpu", "cpu.max", processor_limit);
    [
        read("/proc/self/limits").and_then(|text| open_files(&text)),
        Some(memory_finding(memory)),
        Some(processor_finding(processors)),
        read("/proc/sys/kernel/osrelease").and_then(|text| kernel(&text)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn open_files(limits: &str) -> Option<Finding> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut columns = line.split_whitespace();
    let (soft, hard) = (columns.next()?, columns.next()?);
    let (name, meaning) = ("open files", "each stream and each file in flight takes one");
    let number = |text: &str| if text == "unlimited" { Some(u64::MAX) } else { text.parse().ok() };
    if number(soft)? >= OPEN_FILES {
        return Some(Finding::good(name, soft, meaning));
    }
    let mend = if number(hard)? >= OPEN_FILES {
        format!("ulimit -n {}", number(hard)?.min(65_536))
    } else {
        "raise `nofile` in /etc/security/limits.conf, or LimitNOFILE= of the service".to_owned()
    };
    let finding = if number(soft)? < 1024 { Finding::limits } else { Finding::notice };
    Some(finding(name, soft, meaning).mend(mend))
}

/// The directories of a controller's groups, from this process's own up to the root, whichever version is mounted.
fn places(groups: &str, controller: &str) -> Vec<String> {
    let mut places = Vec::new();
    for line in groups.lines() {
        let mut columns = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (columns.next(), columns.next(), columns.next()) else { continue };
        let mount = match controllers {
            "" => "/sys/fs/cgroup".to_owned(),
            _ if controllers.split(',').any(|name| name == controller) => format!("/sys/fs/cgroup/{controller}"),
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            places.push(format!("{mount}{path}"));
            let Some(cut) = path.rfind('/') else { break };
            path = &path[..cut];
        }
    }
    places
}

fn memory_limit(text: &str) -> Option<f64> {
    text.parse().ok().filter(|limit| *limit < NO_LIMIT).map(|limit: u64| limit as f64)
}

/// `cpu.max`: microseconds granted and the period that they are granted for.
fn processor_limit(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

fn memory_finding(limit: Option<f64>) -> Finding {
    let name = "memory of the control group";
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    match limit.map(|limit| limit as u64) {
        None => Finding::good(name, "no limit", "buffers have all the memory they need"),
        Some(limit) if limit >= MEMORY => Finding::good(name, human_bytes(limit), "enough for the buffers of a transfer"),
        Some(limit) => Finding::limits(name, human_bytes(limit), "too little for full buffers and the page cache of large files")
            .mend("give the container or service 512 MiB or more"),
    }
}

fn processor_finding(limit: Option<f64>) -> Finding {
    let name = "processors of the control group";
    match limit {
        None => Finding::good(name, "no limit", "all processors can be used"),
        Some(limit) if limit >= 2.0 => Finding::good(name, format!("{limit:.1}"), "enough for the stages to run side by side"),
        Some(limit) => Finding::limits(name, format!("{limit:.1}"), "the process is stopped for a part of every period")
            .mend("give the container or service two processors or more"),
    }
}

fn kernel(release: &str) -> Option<Finding> {
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    let version = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let name = "kernel";
    if version >= (5, 6) {
        return Some(Finding::good(name, release, "resolves paths below a root in one call (openat2)"));
    }
    Some(
        Finding::notice(name, release, "paths below a root are resolved one directory at a time, slower with many small files")
            .mend("use Linux 5.6 or newer"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn open_files_are_mended_up_to_the_hard_limit() {
        let limits =
            |soft, hard| format!("Limit  Soft Limit  Hard Limit  Units\nMax open files            {soft}  {hard}  files\n");
        let low = open_files(&limits("1024", "1048576")).unwrap();
        assert_eq!((low.verdict, low.mend.as_deref()), (Verdict::Notice, Some("ulimit -n 65536")));
        assert_eq!(open_files(&limits("256", "256")).unwrap().verdict, Verdict::Limits);
        assert_eq!(open_files(&limits("unlimited", "unlimited")).unwrap().verdict, Verdict::Good);
        assert_eq!(open_files("Max processes 1 1"), None);
    }

    #[test]
    fn limits_are_looked_for_from_the_own_group_to_the_root() {
        assert_eq!(
            places("0::/user.slice/x.service", "memory"),
            ["/sys/fs/cgroup/user.slice/x.service", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]
        );
        assert_eq!(places("4:memory:/a\n1:cpu,cpuacct:/", "memory"), ["/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"]);
        assert_eq!(places("1:cpu,cpuacct:/", "cpu"), ["/sys/fs/cgroup/cpu"]);
    }

    #[test]
    fn limits_of_both_versions_are_understood() {
        assert_eq!((memory_limit("max"), memory_limit("9223372036854771712")), (None, None));
        assert_eq!(memory_limit("268435456"), Some(268_435_456.0));
        assert_eq!((processor_limit("max 100000"), processor_limit("150000 100000")), (None, Some(1.5)));
    }

    #[test]
    fn a_small_group_limits() {
        assert_eq!(memory_finding(Some(268_435_456.0)).verdict, Verdict::Limits);
        assert_eq!(memory_finding(None).verdict, Verdict::Good);
        assert_eq!(processor_finding(Some(0.5)).verdict, Verdict::Limits);
        assert_eq!(processor_finding(Some(4.0)).verdict, Verdict::Good);
    }

    #[test]
    fn an_old_kernel_is_noticed() {
        assert_eq!(kernel("4.18.0-553.el8").unwrap().verdict, Verdict::Notice);
        assert_eq!(kernel("6.8.0-45-generic").unwrap().verdict, Verdict::Good);
        assert_eq!(kernel("5.6").unwrap().verdict, Verdict::Good);
        assert_eq!(kernel("odd"), None);
    }
}
