//! Which checksum a service compares, found out while it is used.

use std::sync::atomic::{AtomicU8, Ordering};

use aws_sdk_s3::types::ChecksumAlgorithm;
use base64::prelude::{BASE64_STANDARD, Engine};

use super::client::Signing;

/// What lets a service compare the content that it got with the content that was sent, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    /// edt's own, which also covers an upload in parts as a whole.
    Crc64Nvme,
    /// Of each request; services older than 2025.
    Crc32c,
    /// As part of the signature; any service that checks signatures can.
    Sha256,
    /// TLS and TCP alone.
    Nothing,
}

const SUMS: [Sum; 4] = [Sum::Crc64Nvme, Sum::Crc32c, Sum::Sha256, Sum::Nothing];

impl Sum {
    /// The header `x-amz-sdk-checksum-algorithm`, without which some services do not look at the checksum.
    pub(super) fn algorithm(self) -> Option<ChecksumAlgorithm> {
        match self {
            Self::Crc64Nvme => Some(ChecksumAlgorithm::Crc64Nvme),
            Self::Crc32c => Some(ChecksumAlgorithm::Crc32C),
            Self::Sha256 | Self::Nothing => None,
        }
    }
}

/// The checksum of one request.
pub(super) struct Sent {
    pub(super) sum: Sum,
    pub(super) crc64nvme: Option<String>,
    pub(super) crc32c: Option<String>,
}

impl Sent {
    pub(super) fn new(sum: Sum, content: &[u8], crc64nvme: impl FnOnce() -> u64) -> Self {
        Self {
            sum,
            crc64nvme: (sum == Sum::Crc64Nvme).then(|| crc64nvme_text(crc64nvme())),
            crc32c: (sum == Sum::Crc32c).then(|| crc32c_text(content)),
        }
    }

    /// Of the checksums in an answer, the one of the kind that was sent.
    pub(super) fn got<'a>(&self, crc64nvme: Option<&'a str>, crc32c: Option<&'a str>) -> Option<&'a str> {
        match self.sum {
            Sum::Crc64Nvme => crc64nvme,
            Sum::Crc32c => crc32c,
            Sum::Sha256 | Sum::Nothing => None,
        }
    }

    /// Compares what the service got with what was sent, where both are known; the error is the cause for people.
    pub(super) fn compare(&self, got: Option<&str>) -> Result<(), String> {
        match (self.crc64nvme.as_deref().or(self.crc32c.as_deref()), got) {
            (Some(sent), Some(got)) if sent != got => Err(format!("its checksum is {got} at the service and {sent} here")),
            _ => Ok(()),
        }
    }
}

/// The best checksum that a service is not known to refuse or to ignore.
#[derive(Debug)]
pub(super) struct Sums {
    present: AtomicU8,
    signing: Signing,
}

impl Sums {
    /// Without `wanted` (`AWS_REQUEST_CHECKSUM_CALCULATION=when_required`) none is sent.
    pub(super) fn new(wanted: bool, signing: Signing) -> Self {
        let first = if wanted { Sum::Crc64Nvme } else { Sum::Nothing };
        Self { present: AtomicU8::new(first as u8), signing }
    }

    pub(super) fn present(&self) -> Sum {
        SUMS[usize::from(self.present.load(Ordering::Relaxed))]
    }

    /// What to try if the service does not know `sum`.
    pub(super) fn below(&self, sum: Sum) -> Option<Sum> {
        match sum {
            Sum::Crc64Nvme => Some(Sum::Crc32c),
            Sum::Crc32c if self.signing == Signing::Signed => Some(Sum::Sha256),
            Sum::Crc32c => Some(Sum::Nothing),
            Sum::Sha256 | Sum::Nothing => None,
        }
    }

    /// Remembers that the service does not go beyond `sum`.
    pub(super) fn settle(&self, sum: Sum) {
        self.present.fetch_max(sum as u8, Ordering::Relaxed);
    }

    /// Takes what the service says of the checksum that it got: nothing at all if it does not know it.
    pub(super) fn note(&self, sum: Sum, answer: Option<&str>) {
        if let (None, Sum::Crc64Nvme | Sum::Crc32c, Some(lower)) = (answer, sum, self.below(sum)) {
            self.settle(lower);
        }
    }
}

/// A crc64nvme as S3 writes it.
pub(super) fn crc64nvme_text(value: u64) -> String {
    BASE64_STANDARD.encode(value.to_be_bytes())
}

/// A crc32c as S3 writes it.
pub(super) fn crc32c_text(content: &[u8]) -> String {
    BASE64_STANDARD.encode(crc_fast::crc32_iscsi(content).to_be_bytes())
}

/// What [`crc64nvme_text`] wrote; of a checksum of checksums it is none.
pub(super) fn parse_crc64nvme(text: &str) -> Option<u64> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_written_as_s3_writes_them() {
        assert_eq!(crc64nvme_text(0xae8b_1486_0a79_9888), "rosUhgp5mIg=");
        assert_eq!(crc32c_text(b"123456789"), "4waSgw==");
        assert_eq!(parse_crc64nvme("rosUhgp5mIg="), Some(0xae8b_1486_0a79_9888));
        assert_eq!(parse_crc64nvme("rosUhgp5mIg=-3"), None);
    }

    #[test]
    fn another_checksum_at_the_service_is_an_error() {
        let sent = Sent::new(Sum::Crc32c, b"123456789", || 0);
        assert_eq!((sent.crc64nvme.as_deref(), sent.crc32c.as_deref()), (None, Some("4waSgw==")));
        assert!(sent.compare(sent.got(Some("other"), Some("4waSgw=="))).is_ok());
        assert!(sent.compare(sent.got(None, None)).is_ok());
        assert!(sent.compare(sent.got(None, Some("AAAAAA=="))).is_err());
    }

    #[test]
    fn a_service_that_ignores_checksums_gets_signed_content() {
        let sums = Sums::new(true, Signing::Signed);
        sums.note(Sum::Crc64Nvme, Some("rosUhgp5mIg="));
        assert_eq!(sums.present(), Sum::Crc64Nvme);
        sums.note(Sum::Crc64Nvme, None);
        // Told by a request that was under way when the first answer came: nothing more is concluded from it.
        sums.note(Sum::Crc64Nvme, None);
        assert_eq!(sums.present(), Sum::Crc32c);
        sums.note(Sum::Crc32c, None);
        sums.note(Sum::Sha256, None);
        assert_eq!(sums.present(), Sum::Sha256);
    }

    #[test]
    fn without_signature_or_wish_nothing_is_left() {
        assert_eq!(Sums::new(true, Signing::NoCredentials).below(Sum::Crc32c), Some(Sum::Nothing));
        assert_eq!(Sums::new(false, Signing::Signed).present(), Sum::Nothing);
    }
}
