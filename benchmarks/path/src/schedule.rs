//! What changes on a path while it runs.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::{Error, Rate, units};

/// Steps in the order of their times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Schedule {
    steps: Vec<Step>,
}

impl Schedule {
    /// Puts steps in order.
    pub fn new(mut steps: Vec<Step>) -> Self {
        steps.sort_by_key(|step| step.at);
        Self { steps }
    }

    /// Reads a JSON list: `[{"at": 20, "rate": "500M", "background": {"flows": 2, "rate": "100M"}}, ...]`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let written: Vec<Written> =
            serde_json::from_str(text).map_err(|error| Error::Options(format!("the schedule cannot be read: {error}")))?;
        written.into_iter().map(Written::read).collect::<Result<_, _>>().map(Self::new)
    }

    /// The steps, first one first.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// What changes at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Time since the path was ready.
    #[serde(rename = "at", serialize_with = "as_seconds")]
    pub at: Duration,
    /// What is different from then on.
    #[serde(flatten)]
    pub change: Change,
}

/// New values of some parameters; `None` leaves the one there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// Rate of the bottleneck.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_bits")]
    pub rate: Option<Rate>,
    /// Round trip time.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_ms")]
    pub rtt: Option<Duration>,
    /// Rate of each flow.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_bits")]
    pub stream_rate: Option<Rate>,
    /// Share of packets lost at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Limit of the bottleneck's queue in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<u64>,
    /// Traffic of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<Background>,
}

/// Flows of others that do not yield: they take their rate of the bottleneck whatever the rest does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Background {
    /// Number of flows.
    pub flows: u32,
    /// Rate of each, in bytes per second.
    #[serde(serialize_with = "bits")]
    pub rate: f64,
}

impl Background {
    /// What they take together, in bytes per second.
    pub fn total(&self) -> f64 {
        f64::from(self.flows) * self.rate
    }
}

/// A step as a file has it: values with units, or numbers in bits per second, seconds, shares and bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    at: f64,
    rate: Option<Value>,
    rtt: Option<Value>,
    stream_rate: Option<Value>,
    loss: Option<Value>,
    queue: Option<Value>,
    background: Option<WrittenBackground>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBackground {
    flows: u32,
    rate: Value,
}

impl Written {
    fn read(self) -> Result<Step, Error> {
        let at = Duration::try_from_secs_f64(self.at)
            .map_err(|_| Error::Options(format!("`at` of a step must be seconds, not {}", self.at)))?;
        let change = Change {
            rate: value(self.rate.as_ref(), units::rate)?,
            rtt: value(self.rtt.as_ref(), units::duration)?,
            stream_rate: value(self.stream_rate.as_ref(), units::rate)?,
            loss: value(self.loss.as_ref(), units::share)?,
            queue: value(self.queue.as_ref(), units::bytes)?,
            background: self.background.map(WrittenBackground::read).transpose()?,
        };
        if change == Change::default() {
            return Err(Error::Options(format!("the step at {} s changes nothing", self.at)));
        }
        Ok(Step { at, change })
    }
}

impl WrittenBackground {
    fn read(self) -> Result<Background, Error> {
        match value(Some(&self.rate), units::rate)?.and_then(Rate::bytes_per_second) {
            Some(rate) => Ok(Background { flows: self.flows, rate }),
            None => Err(Error::Options("the flows of a background need a rate".to_owned())),
        }
    }
}

/// Reads a value that is text with a unit or a plain number.
fn value<T>(written: Option<&Value>, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Error> {
    let text = match written {
        None => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    read(&text).map(Some).map_err(Error::Options)
}

fn as_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[allow(clippy::ref_option)] // serde passes the field by reference
fn as_ms<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| format!("{}ms", time.as_secs_f64() * 1e3)).serialize(serializer)
}

#[allow(clippy::ref_option)] // serde passes the field by reference
fn as_bits<S: Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
    match rate.and_then(Rate::bytes_per_second) {
        Some(rate) => serializer.serialize_f64(rate * 8.0),
        None => serializer.serialize_str("none"),
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes the field by reference
fn bits<S: Serializer>(rate: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rate * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_put_in_order_and_units_are_read() {
        let text = r#"[{"at": 40, "rate": 1e9}, {"at": 20.5, "rate": "500M", "rtt": "20ms", "loss": "1%", "queue": 4096}]"#;
        let schedule = Schedule::parse(text).unwrap();
        let first = &schedule.steps()[0];
        assert_eq!(first.at, Duration::from_millis(20_500));
        assert_eq!(first.change.rate, Some(Rate::bytes(6.25e7)));
        assert_eq!(first.change.rtt, Some(Duration::from_millis(20)));
        assert_eq!(first.change.queue, Some(4096));
        assert_eq!(schedule.steps()[1].change.rate, Some(Rate::bytes(1.25e8)));
    }

    #[test]
    fn a_schedule_reads_what_it_wrote() {
        let text = r#"[{"at": 1, "rate": "none", "stream_rate": "10M", "background": {"flows": 3, "rate": "50M"}}]"#;
        let schedule = Schedule::parse(text).unwrap();
        assert_eq!(Schedule::parse(&serde_json::to_string(&schedule).unwrap()).unwrap(), schedule);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "{}",
            r#"[{"at": -1, "loss": 0}]"#,
            r#"[{"at": 1}]"#,
            r#"[{"at": 1, "speed": 2}]"#,
            r#"[{"at": 1, "rate": "9 beers"}]"#,
            r#"[{"at": 1, "background": {"flows": 2, "rate": "none"}}]"#,
        ] {
            assert!(Schedule::parse(bad).is_err(), "{bad} passed");
        }
    }
}
