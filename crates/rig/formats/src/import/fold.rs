//! Constants that operators make of constants: exporters compute paddings and initial states in this way.

use super::graph::{Constants, Node};
use super::tensor::Tensor;

/// Most numbers of a constant that is computed here.
const MOST_NUMBERS: usize = 1 << 20;

/// ONNX' numbers of the types whose values a cast keeps: float32, int32, int64, booleans, float64.
const KEPT_BY_CAST: [i64; 5] = [1, 6, 7, 9, 11];

/// The constant that `node` makes; `None` if an input is no constant, or the operator is not one that moves numbers.
pub(super) fn fold(node: &Node, constants: &Constants) -> Option<Tensor> {
    let input = |i: usize| constants.get(node.inputs.get(i)?);
    let list = |i: usize, name: &str| integers(node, constants, i, name);
    let first = input(0)?;
    match node.operator.as_str() {
        "Identity" => Some(first.clone()),
        "Cast" => cast(first, node.attributes.get("to")?.int?),
        "Shape" => Some(Tensor {
            shape: vec![first.shape.len()],
            values: first.shape.iter().map(|&n| n as f64).collect(),
        }),
        "ConstantOfShape" => {
            let value = match node.attributes.get("value") {
                Some(attribute) => *attribute.tensor.as_ref()?.values.first()?,
                None => 0.0,
            };
            let sizes = first.values.iter().map(|&n| usize::try_from(n as i64).ok());
            build(sizes.collect::<Option<_>>()?, |_| Some(value))
        }
        "Reshape" => reshape(first, &list(1, "shape")?),
        "Squeeze" => {
            let axes = match node.inputs.len() > 1 || node.attributes.contains_key("axes") {
                true => positions(&list(1, "axes")?, first.shape.len())?,
                false => (0..first.shape.len())
                    .filter(|&axis| first.shape[axis] == 1)
                    .collect(),
            };
            let kept = (first.shape.iter().enumerate()).filter(|(axis, _)| !axes.contains(axis));
            with_shape(first, kept.map(|(_, &n)| n).collect())
        }
        "Unsqueeze" => {
            let new = list(1, "axes")?;
            let axes = positions(&new, first.shape.len() + new.len())?;
            let mut old = first.shape.iter().copied();
            let sizes = (0..first.shape.len() + new.len()).map(|axis| {
                if axes.contains(&axis) {
                    Some(1)
                } else {
                    old.next()
                }
            });
            with_shape(first, sizes.collect::<Option<_>>()?)
        }
        "Transpose" => transpose(first, &node.attributes.get("perm").map(|a| a.ints.clone())),
        "Slice" => slice(first, &Ranges::read(node, constants)?),
        "Gather" => {
            let axis = node.attributes.get("axis").and_then(|a| a.int);
            gather(first, input(1)?, axis.unwrap_or(0))
        }
        "Concat" => {
            let parts: Option<Vec<&Tensor>> = (0..node.inputs.len()).map(input).collect();
            concat(&parts?, node.attributes.get("axis")?.int?)
        }
        "Expand" => expand(first, &list(1, "shape")?),
        _ => None,
    }
}

/// True if `node` makes zeros alone, of whatever shape. `is_zero` says so of its inputs.
pub(super) fn makes_zeros(node: &Node, is_zero: impl Fn(&str) -> bool) -> bool {
    match node.operator.as_str() {
        "ConstantOfShape" => node.attributes.get("value").is_none_or(|value| {
            let tensor = value.tensor.as_ref();
            tensor.is_some_and(|tensor| tensor.values.iter().all(|&v| v == 0.0))
        }),
        "Identity" | "Cast" | "Expand" | "Slice" | "Gather" | "Reshape" | "Transpose"
        | "Squeeze" | "Unsqueeze" => node.inputs.first().is_some_and(|name| is_zero(name)),
        "Concat" => !node.inputs.is_empty() && node.inputs.iter().all(|name| is_zero(name)),
        _ => false,
    }
}

/// The whole numbers of input `i`, or of attribute `name`, as older operators have them.
pub(super) fn integers(
    node: &Node,
    constants: &Constants,
    i: usize,
    name: &str,
) -> Option<Vec<i64>> {
    match node.inputs.get(i).filter(|name| !name.is_empty()) {
        // f64 holds what shapes need; the ends of i64 come back as such.
        Some(input) => Some(
            constants
                .get(input)?
                .values
                .iter()
                .map(|&v| v as i64)
                .collect(),
        ),
        None => Some(node.attributes.get(name)?.ints.clone()),
    }
}

/// An axis counted from 0, of one that may be counted from the end.
pub(super) fn position(axis: i64, rank: usize) -> Option<usize> {
    let own = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(own).ok().filter(|&axis| axis < rank)
}

pub(super) fn positions(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    axes.iter().map(|&axis| position(axis, rank)).collect()
}

/// Bounds of a Slice, one of each list per axis.
pub(super) struct Ranges {
    pub(super) axes: Vec<i64>,
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) steps: Vec<i64>,
}

impl Ranges {
    /// `None` if they are no constants, or not one of each per axis.
    pub(super) fn read(node: &Node, constants: &Constants) -> Option<Self> {
        let list = |i: usize, name: &str| integers(node, constants, i, name);
        let (starts, ends) = (list(1, "starts")?, list(2, "ends")?);
        let is_given = |i: usize, name: &str| {
            node.inputs.get(i).is_some_and(|name| !name.is_empty())
                || node.attributes.contains_key(name)
        };
        let axes = match is_given(3, "axes") {
            true => list(3, "axes")?,
            false => (0..starts.len() as i64).collect(),
        };
        let steps = match is_given(4, "steps") {
            true => list(4, "steps")?,
            false => vec![1; starts.len()],
        };
        let lengths = [ends.len(), axes.len(), steps.len()];
        (lengths == [starts.len(); 3]).then_some(Self {
            axes,
            starts,
            ends,
            steps,
        })
    }
}

/// The tensor of `shape` whose number at each place is `value` of that place.
fn build(shape: Vec<usize>, value: impl Fn(&[usize]) -> Option<f64>) -> Option<Tensor> {
    let count = shape
        .iter()
        .try_fold(1usize, |all, &n| all.checked_mul(n))
        .filter(|&count| count <= MOST_NUMBERS)?;
    let mut place = vec![0; shape.len()];
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(value(&place)?);
        for (at, &size) in place.iter_mut().zip(&shape).rev() {
            *at += 1;
            if *at < size {
                break;
            }
            *at = 0;
        }
    }
    Some(Tensor { shape, values })
}

/// The number of `tensor` at `place`.
fn at(tensor: &Tensor, place: impl IntoIterator<Item = usize>) -> Option<f64> {
    let mut index = 0;
    for (at, &size) in place.into_iter().zip(&tensor.shape) {
        if at >= size {
            return None;
        }
        index = index * size + at;
    }
    tensor.values.get(index).copied()
}

fn cast(tensor: &Tensor, to: i64) -> Option<Tensor> {
    let value = |v: f64| match to {
        6 | 7 => v.trunc(),
        9 => f64::from(v != 0.0),
        _ => v,
    };
    KEPT_BY_CAST.contains(&to).then(|| Tensor {
        shape: tensor.shape.clone(),
        values: tensor.values.iter().map(|&v| value(v)).collect(),
    })
}

fn with_shape(tensor: &Tensor, shape: Vec<usize>) -> Option<Tensor> {
    let count = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    (count == Some(tensor.values.len())).then(|| Tensor {
        shape,
        values: tensor.values.clone(),
    })
}

fn reshape(tensor: &Tensor, sizes: &[i64]) -> Option<Tensor> {
    let mut shape = Vec::new();
    for (axis, &size) in sizes.iter().enumerate() {
        shape.push(match size {
            -1 => 1,
            0 => *tensor.shape.get(axis)?,
            size => usize::try_from(size).ok()?,
        });
    }
    if let Some(open) = sizes.iter().position(|&size| size == -1) {
        let others = shape
            .iter()
            .try_fold(1usize, |all, &n| all.checked_mul(n))?;
        shape[open] = tensor.values.len().checked_div(others)?;
    }
    with_shape(tensor, shape)
}

fn transpose(tensor: &Tensor, perm: &Option<Vec<i64>>) -> Option<Tensor> {
    let rank = tensor.shape.len();
    let from = match perm {
        Some(perm) => positions(perm, rank)?,
        None => (0..rank).rev().collect(),
    };
    let mut sorted = from.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..rank) {
        return None;
    }
    let shape = from.iter().map(|&axis| tensor.shape[axis]).collect();
    build(shape, |place| {
        let mut own = vec![0; rank];
        from.iter().zip(place).for_each(|(&axis, &i)| own[axis] = i);
        at(tensor, own)
    })
}

fn slice(tensor: &Tensor, ranges: &Ranges) -> Option<Tensor> {
    let mut shape = tensor.shape.clone();
    let mut taken: Vec<(i64, i64)> = vec![(0, 1); shape.len()];
    for i in 0..ranges.axes.len() {
        let axis = position(ranges.axes[i], shape.len())?;
        let size = shape[axis] as i64;
        let (step, least, most) = match ranges.steps[i] {
            0 => return None,
            step @ 1.. => (step, 0, size),
            step => (step, -1, size - 1),
        };
        let bound = |end: i64| {
            let own = if end < 0 {
                end.saturating_add(size)
            } else {
                end
            };
            own.clamp(least, most)
        };
        let (start, end) = (bound(ranges.starts[i]), bound(ranges.ends[i]));
        let way = if step > 0 { end - start } else { start - end };
        shape[axis] = (way.max(0).unsigned_abs().div_ceil(step.unsigned_abs())) as usize;
        taken[axis] = (start, step);
    }
    build(shape, |place| {
        let own = place.iter().zip(&taken);
        at(
            tensor,
            own.map(|(&i, &(start, step))| {
                usize::try_from(start + i as i64 * step).unwrap_or(usize::MAX)
            }),
        )
    })
}

fn gather(tensor: &Tensor, indices: &Tensor, axis: i64) -> Option<Tensor> {
    let axis = position(axis, tensor.shape.len())?;
    let (before, size, after) = (
        &tensor.shape[..axis],
        tensor.shape[axis],
        &tensor.shape[axis + 1..],
    );
    let shape = [before, &indices.shape, after].concat();
    let end = axis + indices.shape.len();
    build(shape, |place| {
        let index = at(indices, place[axis..end].iter().copied())?;
        let index = position(index as i64, size)?;
        let (before, after) = (place[..axis].iter(), place[end..].iter());
        at(tensor, before.copied().chain([index]).chain(after.copied()))
    })
}

fn concat(parts: &[&Tensor], axis: i64) -> Option<Tensor> {
    let first = parts.first()?;
    let axis = position(axis, first.shape.len())?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for part in parts {
        let others = |tensor: &Tensor| {
            let sizes = tensor.shape.iter().enumerate();
            sizes
                .filter(|(i, _)| *i != axis)
                .map(|(_, &n)| n)
                .collect::<Vec<_>>()
        };
        if part.shape.len() != shape.len() || others(part) != others(first) {
            return None;
        }
        shape[axis] += part.shape[axis];
    }
    build(shape, |place| {
        let mut own = place.to_vec();
        for part in parts {
            if own[axis] < part.shape[axis] {
                return at(part, own);
            }
            own[axis] -= part.shape[axis];
        }
        None
    })
}

fn expand(tensor: &Tensor, sizes: &[i64]) -> Option<Tensor> {
    let rank = sizes.len().max(tensor.shape.len());
    let mut shape = vec![1; rank];
    for (to, &size) in shape.iter_mut().rev().zip(tensor.shape.iter().rev()) {
        *to = size;
    }
    for (to, &size) in shape.iter_mut().rev().zip(sizes.iter().rev()) {
        let size = usize::try_from(size).ok()?;
        match (*to, size) {
            (_, 1) => {}
            (1, size) => *to = size,
            (own, size) if own == size => {}
            _ => return None,
        }
    }
    let before = rank - tensor.shape.len();
    build(shape, |place| {
        let own = place[before..].iter().zip(&tensor.shape);
        at(tensor, own.map(|(&i, &size)| if size == 1 { 0 } else { i }))
    })
}
