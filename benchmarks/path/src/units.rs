//! Values with units, read strictly. Rates are bits per second, as for any network; what is not understood is refused.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// A rate, or no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(Option<f64>);

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self(None);

    /// So many bits per second.
    pub const fn bits(bits_per_second: f64) -> Self {
        Self(Some(bits_per_second / 8.0))
    }

    /// So many bytes per second.
    pub const fn bytes(bytes_per_second: f64) -> Self {
        Self(Some(bytes_per_second))
    }

    /// Bytes per second; `None` is no limit.
    pub fn bytes_per_second(self) -> Option<f64> {
        self.0
    }

    /// Time that bytes take; none where there is no limit.
    pub fn time_for(self, bytes: u32) -> Duration {
        self.0.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(f64::from(bytes) / rate))
    }

    /// The rate after a change, unless there is no limit to change.
    #[must_use]
    pub fn map(self, change: impl FnOnce(f64) -> f64) -> Self {
        Self(self.0.map(change))
    }
}

/// A number of bits per second, or null.
impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.map(|rate| rate * 8.0).serialize(serializer)
    }
}

/// Reads a rate in bits per second: `1G`, `150M`, `2.33Gbit`; `none` is no limit.
pub fn rate(text: &str) -> Result<Rate, String> {
    if text == "none" {
        return Ok(Rate::UNLIMITED);
    }
    let amount = text.strip_suffix("/s").unwrap_or(text);
    let amount = amount.strip_suffix("bit").unwrap_or(amount);
    match scaled(amount, &[("k", 1e3), ("M", 1e6), ("G", 1e9)]) {
        Some(bits) if bits >= 8.0 => Ok(Rate::bits(bits)),
        _ => Err(format!("`{text}` is not a rate: write bits per second (150M, 1G, 2.33Gbit) or `none`")),
    }
}

/// Reads a time: `67ms`, `0.5s`, `150us`, or seconds without a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    scaled(text, &[("ms", 1e-3), ("us", 1e-6), ("s", 1.0)])
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| *time <= Duration::from_mins(1))
        .ok_or_else(|| format!("`{text}` is not a time of at most 60 s: write 67ms, 0.067s or 0"))
}

/// Reads a share of one: `0.1%`, `0.001`.
pub fn share(text: &str) -> Result<f64, String> {
    scaled(text, &[("%", 1e-2)])
        .filter(|share| *share <= 1.0)
        .ok_or_else(|| format!("`{text}` is not a share: write 0.1% or 0.001"))
}

/// Reads a size in bytes: `65536`, `64KiB`, `2MiB`, `8.4MB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let units = [("KiB", 1024.0), ("MiB", 1_048_576.0), ("kB", 1e3), ("MB", 1e6), ("B", 1.0)];
    match scaled(text, &units) {
        // Below 2^53 every whole number is exact.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(bytes) if bytes < 9e15 => Ok(bytes.round() as u64),
        _ => Err(format!("`{text}` is not a size: write bytes with an optional unit (65536, 64KiB, 8.4MB)")),
    }
}

/// A number of zero or more, times the factor of the unit that follows it, if one does.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| text.strip_suffix(unit).map(|number| (number, *factor))).unwrap_or((text, 1.0));
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain { number.parse::<f64>().ok().map(|value| value * factor) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_per_second() {
        assert_eq!(rate("1G"), Ok(Rate::bytes(1.25e8)));
        assert_eq!(rate("150Mbit/s"), Ok(Rate::bytes(1.875e7)));
        assert_eq!(rate("none"), Ok(Rate::UNLIMITED));
        for bad in ["", "fast", "-1M", "0", "100MB", "1e6", "nan", "inf", "Mbit"] {
            assert!(rate(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn times_have_a_unit_or_are_seconds() {
        assert_eq!(duration("67ms"), Ok(Duration::from_millis(67)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bad in ["", "ms", "-1", "61", "1h"] {
            assert!(duration(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn shares_are_at_most_one() {
        assert!((share("0.1%").unwrap() - 0.001).abs() < 1e-12);
        assert_eq!(share("1"), Ok(1.0));
        assert!(share("101%").is_err() && share("-0.1").is_err());
    }

    #[test]
    fn sizes_are_bytes() {
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("8.4MB"), Ok(8_400_000));
        assert!(bytes("8 MB").is_err() && bytes("1e9").is_err());
    }
}
