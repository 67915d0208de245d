//! Axes of values on the way through a graph, and the operators that move numbers along them.
//!
//! A network is stepped as one sequence. So an operator that moves numbers is passed over only if it provably leaves the
//! numbers of each step as they are, in their order: it permutes axes, adds or drops axes of one, takes the whole of an
//! axis, or the last step.

use betz_base::Result;

use super::fold::{Ranges, integers, position, positions};
use super::graph::{Constants, Node};
use super::refuse;

/// An end of a Slice from here on is the end of the axis: exporters write the ends of i32 or i64.
const END: i64 = i32::MAX as i64;

/// The content of one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    /// Axis of the input that no layer has told yet, counted from 0.
    Untold(usize),
    Time,
    /// Sequences side by side, of which a session has one.
    Batch,
    /// An axis of one.
    One,
    /// The values of a step.
    Feature,
}

/// Axes of a value on the way from the counts to the estimates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    /// `None` for an input of unknown rank.
    pub(super) axes: Option<Vec<Axis>>,
    /// Steps behind the last one of the input, which a convolution made.
    pub(super) behind: usize,
    /// Zeros that a Pad put before the first step and behind the last one.
    pub(super) padding: (usize, usize),
}

impl Layout {
    pub(super) fn input(rank: Option<usize>) -> Self {
        Self {
            axes: rank.map(|rank| (0..rank).map(Axis::Untold).collect()),
            behind: 0,
            padding: (0, 0),
        }
    }

    pub(super) fn new(axes: &[Axis], behind: usize) -> Self {
        Self {
            axes: Some(axes.to_vec()),
            behind,
            padding: (0, 0),
        }
    }

    /// The axes as an operator takes them that needs `expected`; those untold become so.
    pub(super) fn bind(&self, node: &Node, expected: &[Axis]) -> Result<()> {
        let fits = |(own, expected): (&Axis, &Axis)| match (own, expected) {
            (Axis::Untold(_), _) | (Axis::One, Axis::Batch) | (Axis::Batch, Axis::One) => true,
            (own, expected) => own == expected,
        };
        let Some(axes) = &self.axes else {
            return Ok(());
        };
        if axes.len() == expected.len() && axes.iter().zip(expected).all(fits) {
            return Ok(());
        }
        refuse(format!(
            "{node}: expected a value with the axes {expected:?}, got {axes:?}"
        ))
    }

    /// The layout of an operator that works on the last axis; that of an unknown rank becomes (step, values).
    pub(super) fn with_last_feature(&self, node: &Node) -> Result<Self> {
        let mut axes = match &self.axes {
            Some(axes) => axes.clone(),
            None => vec![Axis::Time, Axis::Feature],
        };
        match axes.last_mut() {
            Some(last @ (Axis::Untold(_) | Axis::Feature)) => *last = Axis::Feature,
            _ => {
                return refuse(format!(
                    "{node}: expected the values of a step in the last axis, got the axes {axes:?}"
                ));
            }
        }
        Ok(Self::new(&axes, self.behind))
    }

    /// The layout after `node`, which moves numbers of steps of `width` values.
    ///
    /// # Errors
    /// [`InvalidModel`](betz_base::ErrorKind::InvalidModel) for a move that is not proven to keep each step.
    pub(super) fn moved(
        &self,
        node: &Node,
        width: Option<usize>,
        constants: &Constants,
    ) -> Result<Self> {
        let moves = Moves {
            node,
            width,
            constants,
        };
        let axes = self.axes.as_deref();
        let (axes, behind) = match node.operator.as_str() {
            "Identity" => return Ok(self.clone()),
            "Cast" => match node.attributes.get("to").and_then(|to| to.int) {
                Some(1 | 11) => return Ok(self.clone()),
                to => moves.refuse(&format!("float32 (1) or float64 (11), got type {to:?}")),
            },
            "Dropout" => match node.inputs.get(2).filter(|name| !name.is_empty()) {
                None => return Ok(self.clone()),
                Some(mode) => match constants.get(mode).map(|mode| mode.values.as_slice()) {
                    Some([0.0]) => return Ok(self.clone()),
                    _ => moves.refuse("training_mode off"),
                },
            },
            "Concat" if node.inputs.len() == 1 => return Ok(self.clone()),
            "Transpose" => moves.transpose(axes).map(|axes| (axes, self.behind)),
            "Squeeze" => moves.squeeze(axes).map(|axes| (axes, self.behind)),
            "Unsqueeze" => moves.unsqueeze(axes).map(|axes| (axes, self.behind)),
            "Slice" => moves.slice(axes, self.behind),
            "Gather" => moves.gather(axes, self.behind),
            "Reshape" => moves.reshape(axes).map(|axes| (axes, self.behind)),
            operator => refuse(format!(
                "operator {operator} ({node}): this one is not supported on the way from the inputs to the outputs"
            )),
        }?;
        Ok(Self::new(&axes, behind))
    }
}

/// A node that moves numbers, and what its check needs.
struct Moves<'a> {
    node: &'a Node,
    width: Option<usize>,
    constants: &'a Constants,
}

impl Moves<'_> {
    fn refuse<T>(&self, expected: &str) -> Result<T> {
        refuse(format!(
            "{}: expected a move that leaves the values of each step as they are: {expected}",
            self.node
        ))
    }

    fn axes<'a>(&self, axes: Option<&'a [Axis]>) -> Result<&'a [Axis]> {
        match axes {
            Some(axes) => Ok(axes),
            None => self.refuse("an input whose shape the file declares"),
        }
    }

    /// The numbers of an input or attribute.
    fn list(&self, input: usize, name: &str) -> Result<Vec<i64>> {
        match integers(self.node, self.constants, input, name) {
            Some(list) => Ok(list),
            None => self.refuse(&format!("constant {name}")),
        }
    }

    fn transpose(&self, axes: Option<&[Axis]>) -> Result<Vec<Axis>> {
        let perm = self.node.attributes.get("perm").map(|a| a.ints.as_slice());
        let own: Vec<Axis> = match (axes, perm) {
            (Some(axes), _) => axes.to_vec(),
            (None, Some(perm)) => (0..perm.len()).map(Axis::Untold).collect(),
            (None, None) => self.axes(None)?.to_vec(),
        };
        let perm = match perm {
            Some(perm) => positions(perm, own.len()).unwrap_or_default(),
            None => (0..own.len()).rev().collect(),
        };
        let mut sorted = perm.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..own.len()) {
            return self.refuse(&format!("a perm of all axes of {own:?}, got {perm:?}"));
        }
        Ok(perm.into_iter().map(|axis| own[axis]).collect())
    }

    fn squeeze(&self, axes: Option<&[Axis]>) -> Result<Vec<Axis>> {
        let own = self.axes(axes)?;
        let is_one = |axis: &Axis| matches!(axis, Axis::One | Axis::Batch);
        let is_told = self.node.inputs.get(1).is_some_and(|name| !name.is_empty())
            || self.node.attributes.contains_key("axes");
        if !is_told {
            let is_open = |axis: &Axis| matches!(axis, Axis::Untold(_));
            if own.iter().any(is_open) || self.width == Some(1) {
                return self.refuse("axes that are told");
            }
            return Ok(own.iter().copied().filter(|axis| !is_one(axis)).collect());
        }
        let list = self.list(1, "axes")?;
        let dropped = positions(&list, own.len()).unwrap_or_default();
        if dropped.len() != list.len() || !dropped.iter().all(|&axis| is_one(&own[axis])) {
            return self.refuse(&format!("axes of one of {own:?}, got {list:?}"));
        }
        let kept = own.iter().enumerate();
        Ok(kept
            .filter(|(axis, _)| !dropped.contains(axis))
            .map(|(_, own)| *own)
            .collect())
    }

    fn unsqueeze(&self, axes: Option<&[Axis]>) -> Result<Vec<Axis>> {
        let own = self.axes(axes)?;
        let list = self.list(1, "axes")?;
        let rank = own.len().saturating_add(list.len());
        let mut new = positions(&list, rank).unwrap_or_default();
        new.sort_unstable();
        new.dedup();
        if new.len() != list.len() {
            return self.refuse(&format!("axes of {rank}, got {list:?}"));
        }
        let mut old = own.iter().copied();
        let axes = (0..rank).map(|axis| match new.contains(&axis) {
            true => Some(Axis::One),
            false => old.next(),
        });
        Ok(axes.map(|axis| axis.unwrap_or(Axis::One)).collect())
    }

    fn slice(&self, axes: Option<&[Axis]>, behind: usize) -> Result<(Vec<Axis>, usize)> {
        let (mut own, mut behind) = (self.axes(axes)?.to_vec(), behind);
        let Some(ranges) = Ranges::read(self.node, self.constants) else {
            return self.refuse("constant starts, ends, axes and steps");
        };
        for (i, &axis) in ranges.axes.iter().enumerate() {
            let (start, end, step) = (ranges.starts[i], ranges.ends[i], ranges.steps[i]);
            let Some(axis) = position(axis, own.len()) else {
                return self.refuse(&format!("an axis of {own:?}, got {axis}"));
            };
            let most = match own[axis] {
                Axis::Feature => self.width.unwrap_or(END as usize) as i64,
                Axis::One | Axis::Batch => 1,
                _ => END,
            };
            match (own[axis], start, end, step) {
                (_, 0, end, 1) if end >= most => {}
                (Axis::One | Axis::Batch, -1, end, 1) if end >= most => {}
                (Axis::Time, 0, end, 1)
                    if behind > 0 && end < 0 && end.unsigned_abs() == behind as u64 =>
                {
                    behind = 0;
                }
                (Axis::Time, -1, end, 1) if end >= most && behind == 0 => own[axis] = Axis::One,
                (own, ..) => {
                    return self.refuse(&format!(
                        "the whole of the axis {own:?} or the last step, got {start} to {end} in steps of {step}"
                    ));
                }
            }
        }
        Ok((own, behind))
    }

    fn gather(&self, axes: Option<&[Axis]>, behind: usize) -> Result<(Vec<Axis>, usize)> {
        let mut own = self.axes(axes)?.to_vec();
        let axis = self.node.attributes.get("axis").and_then(|a| a.int);
        let axis = axis.unwrap_or(0);
        let indices = (self.node.inputs.get(1)).and_then(|name| self.constants.get(name));
        let (Some(axis), Some(indices)) = (position(axis, own.len()), indices) else {
            return self.refuse("an axis that it has, and a constant index");
        };
        let is_kept = match (own[axis], indices.values.as_slice()) {
            (Axis::Time, [-1.0]) => behind == 0,
            (Axis::One | Axis::Batch, [0.0 | -1.0]) => true,
            _ => false,
        };
        if !is_kept || indices.shape.len() > 1 {
            return self.refuse(&format!(
                "the last step, or an axis of one, got {:?} of the axis {:?}",
                indices.values, own[axis]
            ));
        }
        if indices.shape.is_empty() {
            own.remove(axis);
        } else {
            own[axis] = Axis::One;
        }
        Ok((own, behind))
    }

    /// Equal sizes of all axes but one make that one equal, too.
    fn reshape(&self, axes: Option<&[Axis]>) -> Result<Vec<Axis>> {
        let own = self.axes(axes)?;
        let sizes = self.list(1, "shape")?;
        let copies = self.node.attributes.get("allowzero").and_then(|a| a.int) != Some(1);
        let is_equal = |(axis, &size): (&Axis, &i64)| match axis {
            _ if size == 0 => copies,
            Axis::One | Axis::Batch => size == 1,
            Axis::Feature => self.width.is_some_and(|width| size == width as i64),
            _ => false,
        };
        let equal = own
            .iter()
            .zip(&sizes)
            .filter(|pair| is_equal(*pair))
            .count();
        if sizes.len() != own.len() || equal + 1 < own.len() {
            return self.refuse(&format!("the shape of {own:?}, got {sizes:?}"));
        }
        Ok(own.to_vec())
    }
}
