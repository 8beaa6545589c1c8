//! The tensors of an agent file, in the safetensors format.

use safetensors::{Dtype, SafeTensors};

use crate::error::{Error, ErrorKind, Result};

/// Most bytes of an agent file: the papers' networks take 2 MB, and a stranger's file is not to take more than this.
pub const MOST_BYTES: usize = 64 << 20;

/// The tensors and the texts of one file; the bytes stay where they are until a tensor is taken.
pub struct Tensors<'a> {
    tensors: SafeTensors<'a>,
    bytes: &'a [u8],
}

/// One tensor, in the order of C: the last axis runs fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// The finite values.
    pub values: Vec<f32>,
}

impl<'a> Tensors<'a> {
    /// Reads the header and checks that it fits the bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        if bytes.len() > MOST_BYTES {
            return Err(refused(format!("it has {} bytes, more than the {MOST_BYTES} of the largest agent", bytes.len())));
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|cause| unreadable(&cause))?;
        Ok(Self { tensors, bytes })
    }

    /// A text of the header's metadata, if it is there.
    pub fn text(&self, key: &str) -> Result<Option<String>> {
        let (_, header) = SafeTensors::read_metadata(self.bytes).map_err(|cause| unreadable(&cause))?;
        Ok(header.metadata().as_ref().and_then(|texts| texts.get(key).cloned()))
    }

    /// The shape of a tensor of 32-bit floats.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>> {
        let tensor = self.tensors.tensor(name).map_err(|_| refused(format!("it has no tensor `{name}`")))?;
        if tensor.dtype() != Dtype::F32 {
            return Err(refused(format!("the tensor `{name}` holds {:?}, not F32", tensor.dtype())));
        }
        Ok(tensor.shape().to_vec())
    }

    /// A tensor of finite 32-bit floats, copied.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let shape = self.shape(name)?;
        let view = self.tensors.tensor(name).map_err(|cause| unreadable(&cause))?;
        let values: Vec<f32> =
            view.data().chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])).collect();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(refused(format!("the tensor `{name}` holds values that are no finite numbers")));
        }
        Ok(Tensor { shape, values })
    }
}

/// The error for a file that cannot be an agent, with what is wrong in it.
pub(crate) fn refused(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, what)
}

fn unreadable(cause: &safetensors::SafeTensorError) -> Error {
    refused("it is no readable safetensors file").with_cause(cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::network::testing::{file, file_with};

    #[test]
    fn tensors_and_texts_come_back_as_they_were_written() {
        let bytes = file_with(&[("edt.agent", "{}")], &[("a", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]);
        let tensors = Tensors::parse(&bytes).unwrap();
        assert_eq!(tensors.text("edt.agent").unwrap().as_deref(), Some("{}"));
        assert_eq!(tensors.text("other").unwrap(), None);
        let tensor = tensors.tensor("a").unwrap();
        assert_eq!((tensor.shape, tensor.values), (vec![2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    }

    #[test]
    fn a_tensor_that_is_missing_or_holds_no_numbers_is_named() {
        let bytes = file(&[("nan", &[1], &[f32::NAN])]);
        let tensors = Tensors::parse(&bytes).unwrap();
        assert!(tensors.tensor("nan").unwrap_err().what().contains("`nan`"));
        assert!(tensors.tensor("none").unwrap_err().what().contains("no tensor `none`"));
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_refused() {
        let bytes = file(&[("a", &[2], &[1.0, 2.0])]);
        for length in [0, 7, 9, bytes.len() - 1] {
            assert!(Tensors::parse(&bytes[..length]).is_err(), "{length} bytes passed");
        }
        let mut huge = bytes.clone();
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Tensors::parse(&huge).is_err());
    }
}
