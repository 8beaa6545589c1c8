//! A small evaluator of the networks that agents are: dense layers, layer norms, residual blocks and a recurrent cell, without PyTorch.
//!
//! Every shape is checked when a network is built, so that evaluating cannot fail.

mod build;
mod layers;
mod spec;
mod tensors;

pub use spec::LayerSpec;
pub use tensors::{MOST_BYTES, Tensor, Tensors};

pub(crate) use tensors::refused;

use crate::error::Result;
use build::Builder;
use layers::Layer;

/// A network that turns one vector into another; a recurrent one remembers what it saw.
#[derive(Debug, Clone)]
pub struct Network {
    layers: Vec<Layer>,
    inputs: usize,
    outputs: usize,
    values: Vec<f32>,
}

impl Network {
    /// Builds the network of a list of layers for vectors of `inputs` values.
    ///
    /// Fails on tensors that are missing or of another shape, and on networks no agent needs: wider than 65,536, of more than 1,000
    /// layers, nested deeper than 16, or of more than 16,777,216 weights.
    pub fn build(specs: &[LayerSpec], inputs: usize, tensors: &Tensors<'_>) -> Result<Self> {
        let (layers, outputs) = Builder::new(tensors).network(specs, inputs)?;
        Ok(Self { layers, inputs, outputs, values: Vec::new() })
    }

    /// Values that go in.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Values that come out.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Evaluates the layers in order. Missing values of `input` count as zero, further ones do not count.
    pub fn evaluate(&mut self, input: &[f32]) -> &[f32] {
        self.values.clear();
        self.values.extend(input.iter().take(self.inputs));
        self.values.resize(self.inputs, 0.0);
        for layer in &mut self.layers {
            layer.apply(&mut self.values);
        }
        &self.values
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Agent files made by hand.

    use serde_json::{Map, Value, json};

    /// A name, a shape and values.
    pub(crate) type Part<'a> = (&'a str, &'a [usize], &'a [f32]);

    /// A safetensors file of these tensors.
    pub(crate) fn file(tensors: &[Part<'_>]) -> Vec<u8> {
        file_with(&[], tensors)
    }

    /// The same, with texts in its metadata.
    pub(crate) fn file_with(texts: &[(&str, &str)], tensors: &[Part<'_>]) -> Vec<u8> {
        let texts: Map<String, Value> = texts.iter().map(|(key, text)| ((*key).to_owned(), (*text).into())).collect();
        let mut header = Map::from_iter([("__metadata__".to_owned(), Value::from(texts))]);
        let mut data = Vec::new();
        for (name, shape, values) in tensors {
            let start = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let place = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
            header.insert((*name).to_owned(), place);
        }
        let header = Value::from(header).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
    }
}
