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
        run().map_err(|cause| {
            Error::new(ErrorKind::Optimizer, "the agent's model failed").with_cause(format!("{cause:#}"))
        })
    }
}

/// A model that makes the inference crate panic is an unusable file too.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(refused("its ONNX model cannot be used: reading it panicked")))
}

fn unusable(cause: &TractError) -> Error {
    refused("its ONNX model cannot be used").with_cause(format!("{cause:#}"))
}
