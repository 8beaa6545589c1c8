//! What an agent file says of itself: the JSON text `edt.agent` in its metadata.

use std::fmt;

use serde::Deserialize;

use super::features::Feature;
use crate::error::Result;
use crate::optimizer::network::{LayerSpec, refused};

/// The key of the text in the metadata of both file formats.
pub(super) const KEY: &str = "edt.agent";

/// The only version of the text so far.
const FORMAT: u32 = 1;

/// Most bytes of the text: the longest of ours has a few thousand.
const MOST_TEXT: usize = 1 << 20;

/// Bound of the logarithm of a standard deviation, either way.
const MOST_LOG_STD: f64 = 20.0;

/// Which agent a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// One concurrency, as a real number [EDT §IV-D].
    Edt,
    /// Three concurrencies, as real numbers [AutoMDT §IV-D].
    Automdt,
    /// One concurrency, by steps [EDT §V-H].
    Drl,
}

/// How the outputs of the network become a decision.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "form", rename_all = "lowercase")]
pub(super) enum Action {
    /// Each output `a` is a concurrency of `(0.5 + 0.5 a) maximum`.
    Continuous { maximum: u16 },
    /// The outputs are logits of what is added to the concurrency.
    Discrete { moves: Vec<i32>, maximum: u16, first: u16 },
}

/// What this crate needs of the text; the rest is for people and for training.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Metadata {
    pub(super) kind: Kind,
    pub(super) stages: u8,
    pub(super) observation: Vec<Feature>,
    pub(super) action: Action,
    /// The layers; a file of another format brings its own.
    #[serde(default)]
    pub(super) network: Option<Vec<LayerSpec>>,
    /// Logarithms of the standard deviations that actions are sampled with; `None`: no noise.
    #[serde(default)]
    pub(super) log_std: Option<Vec<f64>>,
    /// The K that it was trained with.
    #[serde(default)]
    pub(super) k: Option<f64>,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Kind {
    /// The name of the optimizer that it belongs to.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Edt => "edt",
            Self::Automdt => "automdt",
            Self::Drl => "drl",
        }
    }

    fn stages(self) -> u8 {
        if self == Self::Automdt { 3 } else { 1 }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Metadata {
    /// Reads the text.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if text.len() > MOST_TEXT {
            return Err(refused(format!("its description `{KEY}` has {} bytes, more than {MOST_TEXT}", text.len())));
        }
        let unreadable = |cause: serde_json::Error| refused(format!("its description `{KEY}` cannot be read")).with_cause(cause);
        let Version { format } = serde_json::from_str(text).map_err(unreadable)?;
        if format != FORMAT {
            return Err(refused(format!("it is of format {format}, and this edt knows format {FORMAT}"))
                .with_hint("train it again with the edt that is to use it, or update edt"));
        }
        serde_json::from_str(text).map_err(unreadable)
    }

    /// Checks that this is a whole agent of a kind.
    pub(super) fn check(&self, kind: Kind) -> Result<()> {
        if self.kind != kind {
            return Err(refused(format!("it holds an agent of the kind `{}`, not `{kind}`", self.kind))
                .with_hint(format!("use it with --optimizer {}", self.kind)));
        }
        if self.stages != kind.stages() {
            return Err(refused(format!("an agent of the kind `{kind}` has {} stages, not {}", kind.stages(), self.stages)));
        }
        if self.observation.is_empty() {
            return Err(refused("its observation is empty"));
        }
        self.observation.iter().try_for_each(Feature::check)?;
        self.check_action()?;
        self.check_deviations()
    }

    fn check_action(&self) -> Result<()> {
        let maximum = match &self.action {
            Action::Continuous { .. } if self.kind == Kind::Drl => {
                return Err(refused("an agent of the kind `drl` has a discrete action, and this one a continuous"));
            }
            Action::Discrete { .. } if self.kind != Kind::Drl => {
                return Err(refused(format!(
                    "an agent of the kind `{}` has a continuous action, and this one a discrete",
                    self.kind
                )));
            }
            Action::Discrete { moves, .. } if moves.is_empty() => return Err(refused("it has no moves to choose from")),
            Action::Continuous { maximum } | Action::Discrete { maximum, .. } => *maximum,
        };
        if maximum == 0 { Err(refused("its maximum of 0 streams moves nothing")) } else { Ok(()) }
    }

    fn check_deviations(&self) -> Result<()> {
        let Some(deviations) = &self.log_std else { return Ok(()) };
        if matches!(self.action, Action::Continuous { .. }) && deviations.len() != self.outputs() {
            return Err(refused(format!("it has {} deviations for {} actions", deviations.len(), self.outputs())));
        }
        match deviations.iter().find(|deviation| !(-MOST_LOG_STD..=MOST_LOG_STD).contains(*deviation)) {
            Some(deviation) => Err(refused(format!("its log_std of {deviation} is not between -20 and 20"))),
            None => Ok(()),
        }
    }

    /// Values that the network has to give.
    pub(super) fn outputs(&self) -> usize {
        match &self.action {
            Action::Continuous { .. } => usize::from(self.stages),
            Action::Discrete { moves, .. } => moves.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDT: &str = r#"{"format":1,"kind":"edt","stages":1,"observation":[{"name":"throughput","offset":0,"scale":1e8}],
        "action":{"form":"continuous","maximum":64},"network":[{"kind":"tanh"}],"log_std":[-1.2],"k":1.02,"loss_weight":10.0,
        "path":{"source":"a"},"training":{"episodes":7}}"#;

    fn refusal(from: &str, to: &str) -> String {
        assert!(EDT.contains(from), "{from}");
        let text = EDT.replace(from, to);
        let error = Metadata::parse(&text).and_then(|metadata| metadata.check(Kind::Edt)).unwrap_err();
        error.to_string()
    }

    #[test]
    fn the_text_of_an_agent_is_read_and_what_is_for_people_is_left_out() {
        let metadata = Metadata::parse(EDT).unwrap();
        metadata.check(Kind::Edt).unwrap();
        assert_eq!((metadata.kind, metadata.outputs(), metadata.k), (Kind::Edt, 1, Some(1.02)));
        assert_eq!(metadata.action, Action::Continuous { maximum: 64 });
        assert_eq!(metadata.network, Some(vec![LayerSpec::Tanh]));
    }

    #[test]
    fn another_kind_is_refused_with_the_optimizer_to_use() {
        let error = Metadata::parse(EDT).unwrap().check(Kind::Automdt).unwrap_err();
        assert_eq!(error.what(), "it holds an agent of the kind `edt`, not `automdt`");
        assert_eq!(error.hint(), Some("use it with --optimizer edt"));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        assert!(refusal("\"format\":1", "\"format\":2").contains("format 2"));
        assert!(refusal("\"stages\":1", "\"stages\":3").contains("1 stages, not 3"));
        assert!(refusal("1e8", "0").contains("scale"));
        assert!(refusal("throughput", "weather").contains("unknown variant `weather`"));
        assert!(refusal("64", "0").contains("0 streams"));
        assert!(refusal("[-1.2]", "[0, 0]").contains("2 deviations for 1 actions"));
        assert!(refusal("-1.2", "50").contains("log_std of 50"));
        assert!(
            refusal("\"continuous\",\"maximum\":64", "\"discrete\",\"moves\":[1],\"maximum\":9,\"first\":4").contains("discrete")
        );
        assert!(refusal("\"kind\":\"edt\"", "\"kind\":\"sac\"").contains("sac"));
        assert!(refusal("\"tanh\"", "\"lstm\"").contains("lstm"));
    }

    #[test]
    fn a_text_without_end_is_not_even_parsed() {
        let text = format!("{}{EDT}", " ".repeat(MOST_TEXT));
        assert!(Metadata::parse(&text).unwrap_err().what().contains("bytes"));
    }
}
