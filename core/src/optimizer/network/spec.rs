//! The list of layers as an agent file writes it.

use serde::Deserialize;

/// A layer and the names of its tensors, stored as PyTorch stores them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LayerSpec {
    /// `y = W x + b`; weight `[outputs, inputs]`, bias `[outputs]`.
    Dense {
        /// Name of `W`.
        weight: String,
        /// Name of `b`.
        bias: String,
    },
    /// `y = (x - mean) / sqrt(variance + eps) * weight + bias`; both tensors `[width]`.
    LayerNorm {
        /// Name of the factors.
        weight: String,
        /// Name of the summands.
        bias: String,
        /// Added to the variance.
        eps: f32,
    },
    /// `y = tanh x`.
    Tanh,
    /// `y = max(0, x)`.
    Relu,
    /// `y = x + f(x)`, where `f` is a list of layers that keeps the width.
    Residual {
        /// `f`.
        layers: Vec<LayerSpec>,
    },
    /// One gated recurrent cell; the hidden state starts at zero and lives as long as the network.
    Gru {
        /// Name of the input's weights, `[3 hidden, inputs]`: reset, update, new.
        weight_ih: String,
        /// Name of the hidden state's weights, `[3 hidden, hidden]`.
        weight_hh: String,
        /// Name of the input's bias, `[3 hidden]`.
        bias_ih: String,
        /// Name of the hidden state's bias, `[3 hidden]`.
        bias_hh: String,
    },
}

impl LayerSpec {
    /// The word for it in agent files and in errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dense { .. } => "dense",
            Self::LayerNorm { .. } => "layer_norm",
            Self::Tanh => "tanh",
            Self::Relu => "relu",
            Self::Residual { .. } => "residual",
            Self::Gru { .. } => "gru",
        }
    }
}
