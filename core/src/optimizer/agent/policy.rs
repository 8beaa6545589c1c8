//! The policy of an agent file, whichever of the two formats it is in.

use super::metadata::{KEY, Kind, Metadata};
use crate::error::Result;
use crate::optimizer::network::{MOST_BYTES, Network, Tensors, refused};

/// Turns the vector of an observation into means or logits.
pub(super) trait PolicyNetwork: Send {
    /// Replaces `outputs` by what the network makes of `inputs`.
    fn evaluate(&mut self, inputs: &[f32], outputs: &mut Vec<f32>) -> Result<()>;
}

impl PolicyNetwork for Network {
    fn evaluate(&mut self, inputs: &[f32], outputs: &mut Vec<f32>) -> Result<()> {
        outputs.clear();
        outputs.extend_from_slice(Self::evaluate(self, inputs));
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Safetensors,
    Onnx,
}

/// Reads an agent of a kind from the bytes of its file.
pub(super) fn read(bytes: &[u8], kind: Kind) -> Result<(Metadata, Box<dyn PolicyNetwork>)> {
    if bytes.len() > MOST_BYTES {
        return Err(refused(format!("it has {} bytes, more than the {MOST_BYTES} of the largest agent", bytes.len())));
    }
    match format_of(bytes) {
        Some(Format::Safetensors) => read_safetensors(bytes, kind),
        Some(Format::Onnx) => read_onnx(bytes, kind),
        None => Err(refused("it is neither a safetensors nor an ONNX file").with_hint("`edt train` makes agents")),
    }
}

/// A safetensors file begins with the length of its header, an ONNX file with the tag of its version.
fn format_of(bytes: &[u8]) -> Option<Format> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    if u64::from_le_bytes(*length) <= rest.len() as u64 {
        return Some(Format::Safetensors);
    }
    (length[0] == 0x08).then_some(Format::Onnx)
}

fn read_safetensors(bytes: &[u8], kind: Kind) -> Result<(Metadata, Box<dyn PolicyNetwork>)> {
    let tensors = Tensors::parse(bytes)?;
    let text = tensors.text(KEY)?.ok_or_else(|| undescribed("`edt train` makes agents"))?;
    let metadata = Metadata::parse(&text)?;
    metadata.check(kind)?;
    let layers = metadata.network.as_ref().ok_or_else(|| refused(format!("its description `{KEY}` names no layers")))?;
    let network = Network::build(layers, metadata.observation.len(), &tensors)?;
    check_outputs(network.outputs(), &metadata)?;
    Ok((metadata, Box::new(network)))
}

#[cfg(feature = "onnx")]
fn read_onnx(bytes: &[u8], kind: Kind) -> Result<(Metadata, Box<dyn PolicyNetwork>)> {
    super::onnx::read(bytes, kind)
}

#[cfg(not(feature = "onnx"))]
fn read_onnx(_: &[u8], _: Kind) -> Result<(Metadata, Box<dyn PolicyNetwork>)> {
    Err(crate::Error::new(crate::ErrorKind::Unsupported, "it is an ONNX file, and this edt was built without the feature `onnx`")
        .with_hint("build edt with it: cargo build --release -p edt-cli --features onnx"))
}

pub(super) fn undescribed(hint: &str) -> crate::Error {
    refused(format!("its metadata has no description `{KEY}`")).with_hint(hint)
}

pub(super) fn check_outputs(outputs: usize, metadata: &Metadata) -> Result<()> {
    if outputs != metadata.outputs() {
        return Err(refused(format!("its network gives {outputs} values, and its action takes {}", metadata.outputs())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::agent::testing::{agent_file, constant};

    #[test]
    fn the_first_bytes_tell_the_format() {
        assert_eq!(format_of(&constant("edt", 1, &[0.0])), Some(Format::Safetensors));
        assert_eq!(format_of(b"\x08\x08\x12\x07pytorch"), Some(Format::Onnx));
        assert_eq!(format_of(b"{\"json\": 1}"), None);
        assert_eq!(format_of(b"short"), None);
    }

    #[test]
    fn what_is_no_agent_is_refused_with_what_makes_one() {
        let refusal = |bytes: &[u8]| read(bytes, Kind::Edt).err().unwrap();
        assert_eq!(refusal(b"PK\x03\x04 a zip of weights").hint(), Some("`edt train` makes agents"));
        let bare = crate::optimizer::network::testing::file(&[("w", &[1], &[1.0])]);
        assert!(refusal(&bare).what().contains("no description"), "{}", refusal(&bare));
        assert!(refusal(&vec![0; MOST_BYTES + 1]).what().contains("bytes"));
    }

    #[test]
    fn a_network_must_give_a_value_for_each_action() {
        let error = read(&agent_file("automdt", 3, "\"continuous\"", &[0.0, 0.0]), Kind::Automdt).err().unwrap();
        assert_eq!(error.what(), "its network gives 2 values, and its action takes 3");
    }

    #[cfg(not(feature = "onnx"))]
    #[test]
    fn without_the_feature_an_onnx_file_is_refused_with_how_to_build() {
        let error = read(b"\x08\x08\x12\x07pytorch", Kind::Edt).err().unwrap();
        assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
        assert!(error.hint().unwrap().contains("--features onnx"));
    }
}
