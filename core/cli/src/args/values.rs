//! Values with units, read strictly: what is not understood is refused, never guessed.

use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use edt::Endpoint;

/// Longest time of an option.
const LONGEST: Duration = Duration::from_hours(24);

/// Takes a path or URL; a path that is not UTF-8 as a URL that is.
pub(super) fn endpoint() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|text| Endpoint::from_argument(&text).map(|endpoint| endpoint.as_str().to_owned()))
}

/// Reads a size in bytes: `16MiB`, `64M`, `1000000`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    edt::endpoint::parse_size(text)
        .ok_or_else(|| "write a number of bytes with an optional unit: 1000000, 64M, 64MB (10^6), 16MiB (2^20)".to_owned())
}

/// Reads a rate as bytes per second: `100MB` and `100M` are bytes, `800Mbit` is bits; a trailing `/s` changes nothing.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = edt::endpoint::parse_rate(text)
        .ok_or_else(|| "write bytes per second (100MB, 100M, 95MiB) or bits per second (800Mbit, 10Gbit)".to_owned())?;
    if rate < 1.0 { Err("the rate must be at least one byte per second".to_owned()) } else { Ok(rate) }
}

/// Reads a time in seconds: `1`, `0.5`.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| *time <= LONGEST)
        .ok_or_else(|| "write seconds, a day at most: 1 or 0.5".to_owned())
}

/// Reads an age: `90m`, `12h`, `7d`, or seconds.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let seconds = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => 1,
    };
    let amount: Option<u64> = number.parse().ok();
    amount
        .and_then(|amount| amount.checked_mul(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| "write a whole number with a unit: 30s, 90m, 12h, 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units() {
        assert_eq!(age("90m"), Ok(Duration::from_mins(90)));
        assert_eq!(age("7d"), Ok(Duration::from_hours(168)));
        assert_eq!(age("0"), Ok(Duration::ZERO));
        for bad in ["", "d", "-1h", "1.5h", "1w", "99999999999999999999d"] {
            assert!(age(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn bits_and_bytes_are_told_apart() {
        assert_eq!(rate("100MB"), Ok(1e8));
        assert_eq!(rate("100M"), Ok(1e8));
        assert_eq!(rate("100MB/s"), Ok(1e8));
        assert_eq!(rate("800Mbit"), Ok(1e8));
        assert_eq!(rate("1.6Gbit/s"), Ok(2e8));
        assert_eq!(rate("1MiB"), Ok(1_048_576.0));
    }

    #[test]
    fn what_is_not_a_rate_is_refused() {
        for bad in ["", "fast", "-1M", "0", "100mb", "100MBbit", "100 Mbits", "1e6M", "Mbit", "7bit"] {
            assert!(rate(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "1s", "-1", "nan", "inf"] {
            assert!(seconds(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn sizes_are_bytes() {
        assert_eq!(size("16MiB"), Ok(16 << 20));
        assert!(size("16 miles").is_err());
    }
}
