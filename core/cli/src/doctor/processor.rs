//! Processors: how many, and whether they compute digests and encryption in hardware.

use super::Finding;

pub(super) fn examine() -> Vec<Finding> {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut findings = vec![processors(count)];
    findings.extend(features().iter().map(feature));
    findings
}

fn processors(count: usize) -> Finding {
    let value = count.to_string();
    match count {
        1 => Finding::limits("processors", value, "reading, digests, encryption and writing take turns on one")
            .mend("give the process two processors or more"),
        2 | 3 => Finding::notice("processors", value, "encrypted transfers beyond about 5 Gbit/s need more"),
        _ => Finding::good("processors", value, "enough for the stages to run side by side"),
    }
}

/// An instruction set and what is slow without it.
struct Feature {
    name: &'static str,
    present: bool,
    work: &'static str,
}

fn feature(feature: &Feature) -> Finding {
    if feature.present {
        Finding::good(feature.name, "present", format!("{} runs in hardware", feature.work))
    } else {
        Finding::limits(feature.name, "absent", format!("{} runs in software, several times slower", feature.work))
            .mend("in a virtual machine, choose the host's processor model (`-cpu host`)")
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
fn features() -> Vec<Feature> {
    use std::arch::is_x86_feature_detected as has;
    vec![
        Feature { name: "cpu sse4.2", present: has!("sse4.2"), work: "crc32c of frames" },
        Feature { name: "cpu pclmulqdq", present: has!("pclmulqdq"), work: "crc64nvme of files" },
        Feature { name: "cpu aes", present: has!("aes"), work: "encryption" },
        Feature { name: "cpu avx2", present: has!("avx2"), work: "BLAKE3 of files" },
        Feature { name: "cpu sha", present: has!("sha"), work: "SHA-256 of handshakes and certificates" },
    ]
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<Feature> {
    use std::arch::is_aarch64_feature_detected as has;
    vec![
        Feature { name: "cpu crc", present: has!("crc"), work: "crc32c of frames" },
        Feature { name: "cpu pmull", present: has!("pmull"), work: "crc64nvme of files" },
        Feature { name: "cpu aes", present: has!("aes"), work: "encryption" },
        Feature { name: "cpu neon", present: has!("neon"), work: "BLAKE3 of files" },
        Feature { name: "cpu sha2", present: has!("sha2"), work: "SHA-256 of handshakes and certificates" },
    ]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
fn features() -> Vec<Feature> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn few_processors_limit() {
        assert_eq!([1, 2, 8].map(|count| processors(count).verdict), [Verdict::Limits, Verdict::Notice, Verdict::Good]);
    }

    #[test]
    fn a_missing_instruction_set_says_what_is_slow() {
        let finding = feature(&Feature { name: "cpu aes", present: false, work: "encryption" });
        assert_eq!(finding.verdict, Verdict::Limits);
        assert!(finding.meaning.starts_with("encryption runs in software") && finding.mend.is_some());
    }
}
