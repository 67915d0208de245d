//! Tensors by their names in a file.

use std::collections::BTreeMap;

use betz_base::Result;

use super::refuse;

/// Name of the largest counts of channels that are told from larger ones.
pub(crate) const CAPS: &str = "count_caps";

/// A tensor, row-major.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    pub(super) shape: Vec<usize>,
    pub(super) values: Vec<f64>,
}

/// Name → tensor.
pub(super) type Tensors = BTreeMap<String, Tensor>;

/// Takes `name` from `tensors` if it is there.
///
/// # Errors
/// [`InvalidModel`](betz_base::ErrorKind::InvalidModel) for another shape.
pub(super) fn take(tensors: &mut Tensors, name: &str, shape: &[usize]) -> Result<Option<Vec<f64>>> {
    match tensors.remove(name) {
        Some(tensor) if tensor.shape == shape => Ok(Some(tensor.values)),
        Some(tensor) => refuse(format!(
            "tensor {name}: expected the shape {shape:?}, got {:?}",
            tensor.shape
        )),
        None => Ok(None),
    }
}
