//! From a list of layers and their tensors to a network whose shapes all fit.

use super::layers::{Dense, Gru, Layer, LayerNorm, Residual};
use super::spec::LayerSpec;
use super::tensors::{Tensor, Tensors, refused};
use crate::error::{Error, Result};

const MOST_WIDTH: usize = 65_536;

const MOST_LAYERS: usize = 1_000;

const MOST_NESTING: usize = 16;

/// Most numbers that the weights and buffers of all layers take together: one tensor may be named by many layers.
const MOST_NUMBERS: usize = 1 << 24;

/// Takes tensors, and keeps count of what they take.
pub(super) struct Builder<'a> {
    tensors: &'a Tensors<'a>,
    layers: usize,
    numbers: usize,
}

/// A layer as errors name it.
struct Place<'a> {
    /// The numbers of the layers around it, each with a dot behind it.
    within: &'a str,
    number: usize,
    kind: &'static str,
}

impl Place<'_> {
    fn refused(&self, what: impl std::fmt::Display) -> Error {
        refused(format!("layer {}{} ({}): {what}", self.within, self.number, self.kind))
    }
}

impl<'a> Builder<'a> {
    pub(super) fn new(tensors: &'a Tensors<'a>) -> Self {
        Self { tensors, layers: 0, numbers: 0 }
    }

    /// The layers for vectors of `inputs` values, and the width of what comes out.
    pub(super) fn network(&mut self, specs: &[LayerSpec], inputs: usize) -> Result<(Vec<Layer>, usize)> {
        if inputs == 0 || inputs > MOST_WIDTH {
            return Err(refused(format!("a network takes 1 to {MOST_WIDTH} values, not {inputs}")));
        }
        if specs.is_empty() {
            return Err(refused("the network has no layers"));
        }
        self.sequence(specs, inputs, "")
    }

    fn sequence(&mut self, specs: &[LayerSpec], mut width: usize, within: &str) -> Result<(Vec<Layer>, usize)> {
        let mut layers = Vec::new();
        for (spec, number) in specs.iter().zip(1..) {
            let place = Place { within, number, kind: spec.kind() };
            self.layers += 1;
            if self.layers > MOST_LAYERS {
                return Err(place.refused(format!("a network has at most {MOST_LAYERS} layers")));
            }
            let (layer, outputs) = self.layer(spec, width, &place)?;
            layers.push(layer);
            width = outputs;
        }
        Ok((layers, width))
    }

    fn layer(&mut self, spec: &LayerSpec, width: usize, place: &Place<'_>) -> Result<(Layer, usize)> {
        match spec {
            LayerSpec::Dense { weight, bias } => {
                let dense = self.dense([weight, bias], width, place)?;
                let outputs = dense.bias.len();
                Ok((Layer::Dense(dense), outputs))
            }
            LayerSpec::LayerNorm { weight, bias, eps } => {
                if !eps.is_finite() || *eps < 0.0 {
                    return Err(place.refused(format!("its eps is {eps}, not a number from 0")));
                }
                let (weight, bias) = (self.vector(weight, width, place)?, self.vector(bias, width, place)?);
                Ok((Layer::LayerNorm(LayerNorm { weight, bias, eps: *eps }), width))
            }
            LayerSpec::Tanh => Ok((Layer::Tanh, width)),
            LayerSpec::Relu => Ok((Layer::Relu, width)),
            LayerSpec::Residual { layers } => self.residual(layers, width, place),
            LayerSpec::Gru { weight_ih, weight_hh, bias_ih, bias_hh } => {
                self.gru([weight_ih, bias_ih], [weight_hh, bias_hh], width, place)
            }
        }
    }

    fn residual(&mut self, specs: &[LayerSpec], width: usize, place: &Place<'_>) -> Result<(Layer, usize)> {
        let within = format!("{}{}.", place.within, place.number);
        if within.matches('.').count() > MOST_NESTING {
            return Err(place.refused(format!("layers are nested at most {MOST_NESTING} deep")));
        }
        self.count(width, place)?;
        let (layers, outputs) = self.sequence(specs, width, &within)?;
        if outputs != width {
            return Err(place.refused(format!("its layers make {outputs} values of {width}, so that the two cannot be added")));
        }
        Ok((Layer::Residual(Residual { layers, input: Vec::new() }), width))
    }

    fn gru(&mut self, input: [&str; 2], hidden: [&str; 2], width: usize, place: &Place<'_>) -> Result<(Layer, usize)> {
        let of_input = self.dense(input, width, place)?;
        let gates = of_input.bias.len();
        let units = gates / 3;
        if gates != 3 * units {
            return Err(place.refused(format!("`{}` has {gates} rows, not three times as many as hidden values", input[0])));
        }
        let of_hidden = self.dense(hidden, units, place)?;
        if of_hidden.bias.len() != gates {
            let (rows, name) = (of_hidden.bias.len(), hidden[0]);
            return Err(place.refused(format!("`{name}` has {rows} rows, and `{}` has {gates}", input[0])));
        }
        self.count(units, place)?;
        Ok((Layer::Gru(Gru { of_input, of_hidden, hidden: vec![0.0; units] }), units))
    }

    /// A matrix and its bias, for `inputs` values.
    fn dense(&mut self, [weight, bias]: [&str; 2], inputs: usize, place: &Place<'_>) -> Result<Dense> {
        let matrix = self.take(weight, place)?;
        let &[rows, columns] = matrix.shape.as_slice() else {
            return Err(place.refused(format!("`{weight}` is {:?}, not a matrix", matrix.shape)));
        };
        if columns != inputs {
            return Err(place.refused(format!("`{weight}` is {:?}, but {inputs} values come in", matrix.shape)));
        }
        if rows == 0 || rows > MOST_WIDTH {
            return Err(place.refused(format!("`{weight}` is {:?}; a layer makes 1 to {MOST_WIDTH} values", matrix.shape)));
        }
        let bias = self.vector(bias, rows, place)?;
        self.count(rows, place)?;
        Ok(Dense::new(inputs, matrix.values, bias))
    }

    fn vector(&mut self, name: &str, length: usize, place: &Place<'_>) -> Result<Vec<f32>> {
        let tensor = self.take(name, place)?;
        if tensor.shape != [length] {
            return Err(place.refused(format!("`{name}` is {:?}, not [{length}]", tensor.shape)));
        }
        Ok(tensor.values)
    }

    fn take(&mut self, name: &str, place: &Place<'_>) -> Result<Tensor> {
        let shape = self.tensors.shape(name).map_err(|error| place.refused(error.what()))?;
        self.count(shape.iter().product(), place)?;
        self.tensors.tensor(name).map_err(|error| place.refused(error.what()))
    }

    fn count(&mut self, numbers: usize, place: &Place<'_>) -> Result<()> {
        self.numbers = self.numbers.saturating_add(numbers);
        if self.numbers > MOST_NUMBERS {
            return Err(place.refused(format!("the layers up to here take more than {MOST_NUMBERS} numbers")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::network::Network;
    use crate::optimizer::network::testing::file;

    fn built(layers: &str, inputs: usize) -> Result<Network> {
        let (ones, two) = ([1.0; 96], [2.0; 4]);
        let bytes = file(&[
            ("square", &[4, 4], &ones[..16]),
            ("tall", &[12, 4], &ones[..48]),
            ("odd", &[5, 4], &ones[..20]),
            ("empty", &[0, 4], &[]),
            ("v4", &[4], &two),
            ("v5", &[5], &ones[..5]),
            ("v12", &[12], &ones[..12]),
            ("none", &[0], &[]),
        ]);
        let specs: Vec<LayerSpec> = serde_json::from_str(layers).unwrap();
        Network::build(&specs, inputs, &Tensors::parse(&bytes).unwrap())
    }

    fn refusal(layers: &str) -> String {
        built(layers, 4).unwrap_err().what().to_owned()
    }

    #[test]
    fn a_network_of_every_layer_is_built_and_evaluated() {
        let layers = r#"[{"kind":"dense","weight":"square","bias":"v4"},{"kind":"tanh"},
            {"kind":"residual","layers":[{"kind":"layer_norm","weight":"v4","bias":"v4","eps":1e-5},{"kind":"relu"}]},
            {"kind":"gru","weight_ih":"tall","weight_hh":"tall","bias_ih":"v12","bias_hh":"v12"},
            {"kind":"dense","weight":"odd","bias":"v5"}]"#;
        let mut network = built(layers, 4).unwrap();
        assert_eq!((network.inputs(), network.outputs()), (4, 5));
        let first = network.evaluate(&[0.1, 0.2, 0.3, 0.4]).to_vec();
        assert!(first.len() == 5 && first.iter().all(|value| value.is_finite()));
        assert_ne!(network.evaluate(&[0.1, 0.2, 0.3, 0.4]), first, "the recurrent cell remembers");
    }

    #[test]
    fn an_error_names_the_layer_and_the_shapes() {
        let dense = r#"{"kind":"dense","weight":"odd","bias":"v5"}"#;
        assert_eq!(refusal(&format!("[{dense},{dense}]")), "layer 2 (dense): `odd` is [5, 4], but 5 values come in");
        assert_eq!(
            refusal(r#"[{"kind":"tanh"},{"kind":"residual","layers":[{"kind":"dense","weight":"square","bias":"v5"}]}]"#),
            "layer 2.1 (dense): `v5` is [5], not [4]"
        );
        assert_eq!(
            refusal(&format!(r#"[{{"kind":"residual","layers":[{dense}]}}]"#)),
            "layer 1 (residual): its layers make 5 values of 4, so that the two cannot be added"
        );
        assert_eq!(refusal(r#"[{"kind":"dense","weight":"gone","bias":"v5"}]"#), "layer 1 (dense): it has no tensor `gone`");
        assert!(refusal(r#"[{"kind":"dense","weight":"v4","bias":"v5"}]"#).contains("not a matrix"));
        assert!(refusal(r#"[{"kind":"dense","weight":"empty","bias":"none"}]"#).contains("1 to 65536"));
        let gru = r#"[{"kind":"gru","weight_ih":"odd","weight_hh":"tall","bias_ih":"v5","bias_hh":"v12"}]"#;
        assert!(refusal(gru).contains("three times"), "{}", refusal(gru));
        assert!(refusal("[]").contains("no layers"));
    }

    #[test]
    fn a_network_that_no_agent_needs_is_refused() {
        let deep = |levels: usize| {
            let (open, close) = (r#"{"kind":"residual","layers":["#.repeat(levels), "]}".repeat(levels));
            format!(r#"[{open}{{"kind":"tanh"}}{close}]"#)
        };
        assert!(built(&deep(16), 4).is_ok());
        assert!(refusal(&deep(17)).contains("nested"));
        let long = |layers: usize| format!("[{}]", vec![r#"{"kind":"tanh"}"#; layers].join(","));
        assert!(built(&long(1000), 4).is_ok());
        assert!(refusal(&long(1001)).contains("at most 1000 layers"));
        assert!(built(&long(1), 65_537).is_err());
        assert!(built(&long(1), 0).is_err());
    }

    #[test]
    fn one_tensor_in_many_layers_counts_each_time() {
        let side = 2048;
        let (values, zeros) = (vec![0.0; side * side], vec![0.0; side]);
        let bytes = file(&[("w", &[side, side], &values), ("b", &[side], &zeros)]);
        let dense = LayerSpec::Dense { weight: "w".to_owned(), bias: "b".to_owned() };
        let tensors = Tensors::parse(&bytes).unwrap();
        assert!(Network::build(&vec![dense.clone(); 3], side, &tensors).is_ok());
        let error = Network::build(&vec![dense; 5], side, &tensors).unwrap_err();
        assert!(error.what().contains("16777216 numbers"), "{error}");
    }
}
