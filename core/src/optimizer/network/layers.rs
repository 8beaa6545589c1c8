//! The layers that the papers' networks are made of, in the arithmetic of PyTorch: 32-bit floats, with sums in 64 bits.
//!
//! A layer turns a vector into the next in place and keeps the buffers it needs, so that nothing is allocated once they have grown.

/// `y = W x + b`.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    pub(super) inputs: usize,
    /// Row by row, a row for each output.
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) output: Vec<f32>,
}

/// Normalises over the whole vector.
#[derive(Debug, Clone)]
pub(super) struct LayerNorm {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) eps: f32,
}

/// `y = x + f(x)`.
#[derive(Debug, Clone)]
pub(super) struct Residual {
    pub(super) layers: Vec<Layer>,
    pub(super) input: Vec<f32>,
}

/// One `GRUCell`.
#[derive(Debug, Clone)]
pub(super) struct Gru {
    /// Three times the hidden width: reset, update, new.
    pub(super) of_input: Dense,
    pub(super) of_hidden: Dense,
    pub(super) hidden: Vec<f32>,
}

/// Any of them.
#[derive(Debug, Clone)]
pub(super) enum Layer {
    Dense(Dense),
    LayerNorm(LayerNorm),
    Tanh,
    Relu,
    Residual(Residual),
    Gru(Gru),
}

impl Layer {
    /// Replaces `x`, whose width was checked when the network was built, by what the layer makes of it.
    pub(super) fn apply(&mut self, x: &mut Vec<f32>) {
        match self {
            Self::Dense(dense) => dense.apply(x),
            Self::LayerNorm(norm) => norm.apply(x),
            Self::Tanh => x.iter_mut().for_each(|value| *value = value.tanh()),
            Self::Relu => x.iter_mut().for_each(|value| *value = value.max(0.0)),
            Self::Residual(residual) => residual.apply(x),
            Self::Gru(gru) => gru.apply(x),
        }
    }
}

impl Dense {
    pub(super) fn new(inputs: usize, weight: Vec<f32>, bias: Vec<f32>) -> Self {
        Self { inputs, weight, bias, output: Vec::new() }
    }

    fn apply(&mut self, x: &mut Vec<f32>) {
        self.compute(x);
        std::mem::swap(x, &mut self.output);
    }

    /// Leaves the result in `output`.
    fn compute(&mut self, x: &[f32]) {
        self.output.clear();
        let rows = self.weight.chunks_exact(self.inputs);
        self.output.extend(rows.zip(&self.bias).map(|(row, bias)| {
            let sum: f64 = row.iter().zip(x).map(|(weight, value)| f64::from(*weight) * f64::from(*value)).sum();
            narrowed(sum + f64::from(*bias))
        }));
    }
}

impl LayerNorm {
    fn apply(&self, x: &mut [f32]) {
        let count = x.len() as f64;
        let mean = x.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
        let variance = x.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / count;
        let scale = 1.0 / (variance + f64::from(self.eps)).sqrt();
        for ((value, weight), bias) in x.iter_mut().zip(&self.weight).zip(&self.bias) {
            *value = narrowed((f64::from(*value) - mean) * scale * f64::from(*weight) + f64::from(*bias));
        }
    }
}

impl Residual {
    fn apply(&mut self, x: &mut Vec<f32>) {
        self.input.clone_from(x);
        self.layers.iter_mut().for_each(|layer| layer.apply(x));
        x.iter_mut().zip(&self.input).for_each(|(value, input)| *value += input);
    }
}

impl Gru {
    // r = s(W_ir x + b_ir + W_hr h + b_hr), z = s(W_iz x + b_iz + W_hz h + b_hz),
    // n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 - z) n + z h, as torch.nn.GRUCell has them.
    fn apply(&mut self, x: &mut Vec<f32>) {
        self.of_input.compute(x);
        self.of_hidden.compute(&self.hidden);
        let width = self.hidden.len();
        let (input, hidden) = (&self.of_input.output, &self.of_hidden.output);
        for (i, state) in self.hidden.iter_mut().enumerate() {
            let reset = sigmoid(input[i] + hidden[i]);
            let update = sigmoid(input[width + i] + hidden[width + i]);
            let new = (input[2 * width + i] + reset * hidden[2 * width + i]).tanh();
            *state = (1.0 - update) * new + update * *state;
        }
        x.clone_from(&self.hidden);
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// A sum as the 32-bit float that the next layer takes.
fn narrowed(sum: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation)]
    let value = sum as f32;
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(mut layer: Layer, x: &[f32]) -> Vec<f32> {
        let mut x = x.to_vec();
        layer.apply(&mut x);
        x
    }

    fn assert_near(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6);
        assert!(near, "{found:?} instead of {expected:?}");
    }

    #[test]
    fn a_dense_layer_multiplies_by_rows_and_adds_the_bias() {
        let dense = Dense::new(3, vec![1.0, 2.0, 3.0, -1.0, 0.0, 0.5], vec![10.0, 0.25]);
        assert_near(&applied(Layer::Dense(dense), &[1.0, 1.0, 2.0]), &[19.0, 0.25]);
    }

    #[test]
    fn a_layer_norm_divides_by_the_biased_deviation() {
        // Mean 2.5, biased variance 1.25, so that the first value is -1.5 / sqrt(1.25).
        let norm = LayerNorm { weight: vec![1.0, 1.0, 2.0, 1.0], bias: vec![0.0, 0.0, 0.0, 1.0], eps: 0.0 };
        let expected = [-1.341_640_8, -0.447_213_6, 0.894_427_2, 2.341_640_8];
        assert_near(&applied(Layer::LayerNorm(norm), &[1.0, 2.0, 3.0, 4.0]), &expected);
    }

    #[test]
    fn a_layer_norm_of_equal_values_is_its_bias() {
        let norm = LayerNorm { weight: vec![3.0; 2], bias: vec![0.5, -0.5], eps: 1e-5 };
        assert_near(&applied(Layer::LayerNorm(norm), &[7.0, 7.0]), &[0.5, -0.5]);
    }

    #[test]
    fn tanh_and_relu_act_on_each_value() {
        assert_near(&applied(Layer::Tanh, &[0.0, 1.0, -20.0]), &[0.0, 0.761_594_2, -1.0]);
        assert_near(&applied(Layer::Relu, &[-1.0, 0.0, 2.5]), &[0.0, 0.0, 2.5]);
    }

    #[test]
    fn a_residual_block_adds_its_input_and_may_hold_another() {
        let double = || Layer::Dense(Dense::new(2, vec![2.0, 0.0, 0.0, 2.0], vec![0.0, 1.0]));
        let inner = Layer::Residual(Residual { layers: vec![double()], input: Vec::new() });
        assert_near(&applied(inner.clone(), &[1.0, 2.0]), &[3.0, 7.0]);
        let outer = Layer::Residual(Residual { layers: vec![inner], input: Vec::new() });
        assert_near(&applied(outer, &[1.0, 2.0]), &[4.0, 9.0]);
    }

    #[test]
    fn a_recurrent_cell_computes_gates_by_hand_and_remembers() {
        // One input, one hidden unit; r = s(x), z = s(0) = 1/2, n = tanh(x + r h), h' = (n + h) / 2.
        let of_input = Dense::new(1, vec![1.0, 0.0, 1.0], vec![0.0; 3]);
        let of_hidden = Dense::new(1, vec![0.0, 0.0, 1.0], vec![0.0; 3]);
        let mut gru = Gru { of_input, of_hidden, hidden: vec![0.0] };
        let mut x = vec![1.0];
        gru.apply(&mut x);
        let first = 1f32.tanh() / 2.0;
        assert_near(&x, &[first]);
        let mut x = vec![1.0];
        gru.apply(&mut x);
        let second = f32::midpoint((1.0 + sigmoid(1.0) * first).tanh(), first);
        assert_near(&x, &[second]);
    }
}
