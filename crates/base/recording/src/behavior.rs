//! Behaviour: movement, or any other signal to decode, recorded with the spikes.

use std::ops::Range;

pub use betz_base::output::OutputInfo;

/// Behaviour samples, (samples, outputs) row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Behavior {
    /// One entry per output.
    pub outputs: Vec<OutputInfo>,
    /// Values, row-major (samples, outputs). A sample with a NaN is missing, with all its outputs: alignment treats it
    /// as a gap between its neighbours.
    pub values: Vec<f32>,
    /// Sample times in seconds, ascending, possibly irregular; `None`: one sample per tick (or bin),
    /// taken at the bin's own index.
    pub times: Option<Vec<f64>>,
}

impl Behavior {
    /// Number of samples.
    pub fn samples(&self) -> usize {
        if self.outputs.is_empty() {
            0
        } else {
            self.values.len() / self.outputs.len()
        }
    }

    /// Number of samples that are missing, because one of their values is NaN.
    pub fn missing_samples(&self) -> usize {
        let ranges = missing_ranges(&self.values, self.outputs.len());
        ranges.iter().map(ExactSizeIterator::len).sum()
    }
}

/// Values that are looked at together for NaN.
pub(crate) const AT_ONCE: usize = 64;

/// Samples with a NaN in `values`, (samples, outputs) row-major, as ascending ranges that do not touch.
pub(crate) fn missing_ranges(values: &[f32], outputs: usize) -> Vec<Range<usize>> {
    // Most recordings have none: without branches, a block takes a few instructions.
    let any_nan = |block: &[f32]| block.iter().fold(false, |any, v| any | v.is_nan());
    let mut missing: Vec<Range<usize>> = Vec::new();
    if outputs == 0 || !values.chunks(AT_ONCE).any(any_nan) {
        return missing;
    }
    for (sample, row) in values.chunks_exact(outputs).enumerate() {
        if any_nan(row) {
            extend(&mut missing, sample..sample + 1);
        }
    }
    missing
}

/// Appends `range` to ascending `ranges`: to the last one if they touch.
pub(crate) fn extend<T: PartialEq>(ranges: &mut Vec<Range<T>>, range: Range<T>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
