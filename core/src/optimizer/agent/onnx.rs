//! Policies in ONNX, for networks of users' own: one input `observation` `[1, n]`, one output `action` `[1, outputs]`, the description of
//! the agent in the model's metadata.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;

use super::metadata::{KEY, Kind, Metadata};
use super::policy::{PolicyNetwork, check_outputs, undescribed};
use crate::error::{Error, ErrorKind, Result};
use crate::optimizer::network::refused;

struct Model {
    plan: Arc<TypedSimplePlan>,
}

/// Reads an agent of a kind, and asks it once, so that a model that does not work is known before a transfer relies on it.
pub(super) fn read(mut bytes: &[u8], kind: Kind) -> Result<(Metadata, Box<dyn PolicyNetwork>)> {
    guarded(|| {
        let proto = onnx().proto_model_for_read(&mut bytes).map_err(|cause| unusable(&cause))?;
        let text = proto.metadata_props.iter().find(|entry| entry.key == KEY).map(|entry| entry.value.as_str());
        let metadata = Metadata::parse(text.ok_or_else(|| undescribed("add it to the `metadata_props` of the model"))?)?;
        metadata.check(kind)?;
        let inputs = metadata.observation.len();
        let mut model = Model { plan: planned(&proto, inputs).map_err(|cause| unusable(&cause))? };
        let mut outputs = Vec::new();
        model.evaluate(&vec![0.0; inputs], &mut outputs)?;
        check_outputs(outputs.len(), &metadata)?;
        let network: Box<dyn PolicyNetwork> = Box::new(model);
        Ok((metadata, network))
    })
}

fn planned(proto: &ModelProto, inputs: usize) -> TractResult<Arc<TypedSimplePlan>> {
    onnx().model_for_proto_model(proto)?.with_input_fact(0, f32::fact([1, inputs]).into())?.into_optimized()?.into_runnable()
}

impl PolicyNetwork for Model {
    fn evaluate(&mut self, inputs: &[f32], outputs: &mut Vec<f32>) -> Result<()> {
        let mut run = || -> TractResult<()> {
            let vector = Tensor::from_shape(&[1, inputs.len()], inputs)?;
            let results = self.plan.run(tvec!(vector.into()))?;
            outputs.clear();
            if let Some(result) = results.first() {
                outputs.extend(result.to_plain_array_view::<f32>()?.iter());
            }
            Ok(())
        };
        run().map_err(|cause| Error::new(ErrorKind::Optimizer, "the agent's model failed").with_cause(format!("{cause:#}")))
    }
}

/// A model that makes the inference crate panic is an unusable file too.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(refused("its ONNX model cannot be used: reading it panicked")))
}

fn unusable(cause: &TractError) -> Error {
    refused("its ONNX model cannot be used").with_cause(format!("{cause:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::network::Tensors;

    /// What `torch.onnx.export` makes of the network in `edt.safetensors`.
    const MODEL: &[u8] = include_bytes!("../../../tests/agents/edt.onnx");
    const GOLDEN: &[u8] = include_bytes!("../../../tests/agents/edt.safetensors");

    #[test]
    fn an_exported_model_gives_what_pytorch_gave() {
        let (metadata, mut model) = read(MODEL, Kind::Edt).unwrap();
        let tensors = Tensors::parse(GOLDEN).unwrap();
        let (input, output) = (tensors.tensor("golden.input").unwrap(), tensors.tensor("golden.output").unwrap());
        assert_eq!((metadata.observation.len(), metadata.outputs()), (input.shape[1], output.shape[1]));
        let mut found = Vec::new();
        for (row, expected) in input.values.chunks_exact(input.shape[1]).zip(output.values.chunks_exact(output.shape[1])) {
            model.evaluate(row, &mut found).unwrap();
            assert_eq!(found.len(), expected.len());
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} instead of {expected:?}");
        }
    }

    #[test]
    fn a_model_for_another_optimizer_or_cut_off_is_refused() {
        assert!(read(MODEL, Kind::Automdt).err().unwrap().hint().unwrap().contains("--optimizer edt"));
        for length in [9, 100, MODEL.len() / 2, MODEL.len() - 1] {
            assert!(read(&MODEL[..length], Kind::Edt).is_err(), "{length} bytes passed");
        }
    }

    #[test]
    fn a_model_without_a_description_is_refused_with_what_to_add() {
        let at = MODEL.windows(KEY.len()).position(|part| part == KEY.as_bytes()).unwrap();
        let mut bytes = MODEL.to_vec();
        bytes[at] = b'x';
        assert!(read(&bytes, Kind::Edt).err().unwrap().hint().unwrap().contains("metadata_props"));
    }
}
