//! The file system of the working directory: how much room it has, and on Linux what kind it is.

use edt::report::human_bytes;

use super::Finding;

/// Less than this is worth a notice.
const LITTLE: u64 = 10_000_000_000;

pub(super) fn examine() -> Vec<Finding> {
    [
        free().map(space),
        #[cfg(target_os = "linux")]
        mount::examine(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn free() -> Option<u64> {
    let status = rustix::fs::statvfs(".").ok()?;
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}

fn space(free: u64) -> Finding {
    let (name, value) = ("free space here", human_bytes(free));
    if free >= LITTLE {
        return Finding::good(name, value, "room for what is copied to this file system");
    }
    Finding::notice(name, value, "little room: copied files stand beside the old ones until they are complete")
        .mend("free space, or copy to another file system")
}

#[cfg(target_os = "linux")]
mod mount {
    use super::Finding;

    pub(super) fn examine() -> Option<Finding> {
        let mounts = crate::doctor::read("/proc/self/mountinfo")?;
        let path = std::env::current_dir().ok()?;
        kind(&mounts, &path.to_string_lossy()).map(finding)
    }

    /// The type of the file system that holds a path: that of the mount point with the longest common beginning, the last of equals.
    fn kind<'a>(mounts: &'a str, path: &str) -> Option<&'a str> {
        let mut best: Option<(usize, &str)> = None;
        for line in mounts.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let (Some(point), Some(kind)) = (before.split(' ').nth(4), after.split(' ').next()) else { continue };
            let holds =
                path.strip_prefix(point.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if holds && best.is_none_or(|(length, _)| point.len() >= length) {
                best = Some((point.len(), kind));
            }
        }
        best.map(|(_, kind)| kind)
    }

    fn finding(kind: &str) -> Finding {
        let name = "file system here";
        match kind {
            "tmpfs" | "ramfs" => Finding::notice(name, kind, "files take memory, and are gone after a restart")
                .mend("copy to a disk what must last"),
            "overlay" | "aufs" => {
                Finding::notice(name, kind, "a container's layer: slower than a disk, and gone with the container")
                    .mend("mount a volume for the data")
            }
            "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "afs" => {
                Finding::notice(name, kind, "every file costs round trips to its server, so many small files are slow")
                    .mend("run edt on the host that holds the disks")
            }
            kind if kind.starts_with("fuse") => Finding::notice(name, kind, "each read and write passes through another process")
                .mend("copy to the storage behind it, if edt can reach it"),
            _ => Finding::good(name, kind, "limits nothing by its kind"),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::doctor::Verdict;

        #[test]
        fn the_innermost_mount_holds_a_path() {
            let mounts = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /data rw - nfs4 server:/x rw
31 22 0:31 / /data/scratch rw master:2 - lustre mgs:/s rw
32 22 0:32 / /tmp rw - tmpfs tmpfs rw";
            let kind = |path| kind(mounts, path);
            assert_eq!(kind("/home/x"), Some("ext4"));
            assert_eq!(kind("/data"), Some("nfs4"));
            assert_eq!(kind("/database"), Some("ext4"));
            assert_eq!(kind("/data/scratch/y"), Some("lustre"));
            assert_eq!(super::kind("", "/"), None);
        }

        #[test]
        fn slow_kinds_are_noticed() {
            for kind in ["tmpfs", "nfs4", "fuse.sshfs", "overlay"] {
                assert_eq!(finding(kind).verdict, Verdict::Notice, "{kind}");
            }
            assert_eq!(finding("lustre").verdict, Verdict::Good);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn little_room_is_noticed() {
        assert_eq!([space(1_000).verdict, space(LITTLE).verdict], [Verdict::Notice, Verdict::Good]);
    }
}
