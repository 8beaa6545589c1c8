//! TCP settings of Linux, judged by a path of 10 Gbit/s with a round trip of 100 ms.

use edt::report::{human_bytes, human_rate};

use super::{Finding, read};

/// Bandwidth-delay product of the path that settings are judged by, in bytes.
const BDP: u64 = 125_000_000;

/// What a buffer should be able to grow to: about half of it holds data, the kernel's own accounts the rest.
const ENOUGH: u64 = 2 * BDP;

/// Round trip time of the path that settings are judged by, in seconds.
const RTT_S: f64 = 0.1;

pub(super) fn examine() -> Vec<Finding> {
    let setting = |name: &str| read(format!("/proc/sys/net/{name}"));
    let available = setting("ipv4/tcp_available_congestion_control").unwrap_or_default();
    [
        setting("ipv4/tcp_rmem").and_then(|text| buffers("tcp_rmem", &text)),
        setting("ipv4/tcp_wmem").and_then(|text| buffers("tcp_wmem", &text)),
        setting("core/rmem_max").and_then(|text| fixed_buffers("rmem_max", &text)),
        setting("core/wmem_max").and_then(|text| fixed_buffers("wmem_max", &text)),
        setting("ipv4/tcp_congestion_control").map(|text| congestion_control(&text, &available)),
        setting("ipv4/tcp_slow_start_after_idle").map(|text| slow_start_after_idle(&text)),
        setting("core/default_qdisc").map(|text| qdisc(&text)),
        setting("ipv4/tcp_window_scaling").map(|text| switch(&SWITCHES[0], &text)),
        setting("ipv4/tcp_sack").map(|text| switch(&SWITCHES[1], &text)),
        setting("ipv4/tcp_moderate_rcvbuf").map(|text| switch(&SWITCHES[2], &text)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `tcp_rmem` or `tcp_wmem`: least, initial and largest size in bytes.
fn buffers(name: &'static str, text: &str) -> Option<Finding> {
    let sizes: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [least, initial, largest] = sizes[..] else { return None };
    let value = format!("{least} {initial} {largest}");
    let rate = human_rate(largest as f64 / 2.0 / RTT_S);
    let meaning = format!("one stream moves at most about {rate} at 100 ms round trip");
    if largest >= ENOUGH {
        return Some(Finding::good(name, value, meaning));
    }
    let mend = format!("sudo sysctl -w net.ipv4.{name}=\"{least} {initial} {}\"", 256 << 20);
    // Eight streams at 100 ms still fill 10 Gbit/s.
    let finding = if largest >= ENOUGH / 8 {
        Finding::notice(name, value, format!("{meaning}; edt opens more streams instead"))
    } else {
        Finding::limits(name, value, meaning)
    };
    Some(finding.mend(mend))
}

/// `rmem_max` or `wmem_max`: the most that a program may ask for; edt leaves its buffers to the kernel.
fn fixed_buffers(name: &'static str, text: &str) -> Option<Finding> {
    let largest: u64 = text.parse().ok()?;
    let meaning = "edt leaves buffers to the kernel, so this limits only programs that set their own";
    Some(Finding::good(name, human_bytes(largest), meaning))
}

fn congestion_control(present: &str, available: &str) -> Finding {
    let name = "congestion control";
    if present == "bbr" {
        return Finding::good(name, present, "keeps its rate where a little loss does not mean congestion");
    }
    let load = if available.split_whitespace().any(|other| other == "bbr") { "" } else { "sudo modprobe tcp_bbr && " };
    Finding::notice(
        name,
        present,
        "slows down at every loss; on long or lossy paths bbr is faster, edt opens more streams instead",
    )
    .mend(format!("{load}sudo sysctl -w net.ipv4.tcp_congestion_control=bbr"))
}

fn slow_start_after_idle(text: &str) -> Finding {
    let name = "slow start after idle";
    if text == "0" {
        return Finding::good(name, "off", "a stream that paused goes on at its rate");
    }
    Finding::notice(name, "on", "a stream that paused for a moment starts from its smallest window")
        .mend("sudo sysctl -w net.ipv4.tcp_slow_start_after_idle=0")
}

fn qdisc(text: &str) -> Finding {
    let name = "default qdisc";
    if text.starts_with("fq") {
        return Finding::good(name, text, "streams share the link evenly");
    }
    Finding::notice(name, text, "streams queue behind each other; fq, set before an interface comes up, shares the link evenly")
        .mend("sudo sysctl -w net.core.default_qdisc=fq")
}

/// A feature of TCP that is on unless someone turned it off.
struct Switch {
    name: &'static str,
    without: &'static str,
    key: &'static str,
}

const SWITCHES: [Switch; 3] = [
    Switch { name: "window scaling", without: "a stream has at most 64 KiB in flight", key: "tcp_window_scaling" },
    Switch { name: "selective ack", without: "every loss makes a stream send again what had arrived", key: "tcp_sack" },
    Switch { name: "receive autotuning", without: "receive buffers stay at their initial size", key: "tcp_moderate_rcvbuf" },
];

fn switch(switch: &Switch, text: &str) -> Finding {
    if text == "0" {
        return Finding::limits(switch.name, "off", switch.without).mend(format!("sudo sysctl -w net.ipv4.{}=1", switch.key));
    }
    Finding::good(switch.name, "on", "as it should be")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn buffers_are_judged_by_their_largest_size() {
        let verdict = |text| buffers("tcp_rmem", text).unwrap().verdict;
        assert_eq!(verdict("4096\t131072\t6291456"), Verdict::Limits);
        assert_eq!(verdict("4096\t131072\t33554432"), Verdict::Notice);
        assert_eq!(verdict("4096 131072 268435456"), Verdict::Good);
        assert_eq!(buffers("tcp_rmem", "4096"), None);
        assert_eq!(buffers("tcp_rmem", "a b c"), None);
    }

    #[test]
    fn the_remedy_for_buffers_is_itself_judged_good() {
        let mend = buffers("tcp_wmem", "4096 16384 4194304").unwrap().mend.unwrap();
        let sizes = mend.split('"').nth(1).unwrap();
        assert_eq!(buffers("tcp_wmem", sizes).unwrap().verdict, Verdict::Good);
        assert!(mend.starts_with("sudo sysctl -w net.ipv4.tcp_wmem=\"4096 16384 "));
    }

    #[test]
    fn the_rate_of_one_stream_is_half_its_buffer_per_round_trip() {
        let meaning = buffers("tcp_rmem", "4096 131072 6250000").unwrap().meaning;
        assert!(meaning.contains("250 Mbit/s"), "{meaning}");
    }

    #[test]
    fn bbr_is_loaded_only_where_it_is_not_available() {
        assert_eq!(congestion_control("bbr", "").verdict, Verdict::Good);
        assert!(congestion_control("cubic", "reno cubic").mend.unwrap().contains("modprobe"));
        assert!(!congestion_control("cubic", "reno cubic bbr").mend.unwrap().contains("modprobe"));
    }

    #[test]
    fn what_is_switched_off_limits() {
        for known in &SWITCHES {
            assert_eq!(switch(known, "0").verdict, Verdict::Limits);
            assert_eq!(switch(known, "1").verdict, Verdict::Good);
        }
        assert_eq!(slow_start_after_idle("1").verdict, Verdict::Notice);
        assert_eq!([qdisc("fq_codel").verdict, qdisc("pfifo_fast").verdict], [Verdict::Good, Verdict::Notice]);
    }
}
