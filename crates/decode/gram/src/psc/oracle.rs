//! The plain truth: direct convolution in f64, segment by segment.
//!
//! Slow (steps² a segment); every other path is tested against it.

use betz_base::error::Result;
use betz_recording::DatasetView;
use betz_runtime::psc::{FilterBank, LowPass, LowPassFilter};

/// Responses of every channel to every filter, row-major (features, steps in segments): the columns
/// are the steps of the first segment, then those of the second, and so on. A low-pass runs on the spike trains, with
/// which it commutes but for filters that look ahead, across a segment's start.
///
/// # Errors
/// As [`LowPass::check`], and [`FilterBank::check_step`].
pub fn responses<'d>(
    dataset: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
) -> Result<Vec<f64>> {
    let dataset = &dataset.into();
    bank.check_step(dataset.step_seconds)?;
    let columns = dataset.steps_in_segments();
    let mut values = vec![0.0; dataset.channels() * bank.len() * columns];
    for channel in 0..dataset.channels() {
        let mut column = 0;
        for segment in dataset.segments {
            let mut train = vec![0.0; segment.len()];
            for i in dataset.spikes.range(segment.start, segment.stop) {
                if dataset.spikes.channels[i] as usize == channel {
                    let at = (dataset.spikes.ticks[i] - segment.start) as usize;
                    train[at] += f64::from(dataset.spikes.weight(i));
                }
            }
            if let Some(low_pass) = low_pass {
                let mut filter = LowPassFilter::new(low_pass, dataset.step_seconds, 1)?;
                for value in &mut train {
                    filter.step(std::slice::from_mut(value));
                }
            }
            for filter in 0..bank.len() {
                let row = (channel * bank.len() + filter) * columns + column;
                let response = &mut values[row..row + segment.len()];
                let (start, impulse) = impulse(bank, filter, dataset.step_seconds, segment.len());
                for (at, x) in train.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                    for (t, h) in (at as i64 + start..).zip(&impulse) {
                        let value = usize::try_from(t).ok().and_then(|t| response.get_mut(t));
                        if let Some(value) = value {
                            *value += x * h;
                        }
                    }
                }
            }
            column += segment.len();
        }
    }
    Ok(values)
}

/// First step after a spike, and the samples from there on, of filter `filter` of `bank`; of a recursive one, `len`.
pub fn impulse(bank: &FilterBank, filter: usize, step_seconds: f64, len: usize) -> (i64, Vec<f64>) {
    match bank.filters().get(filter) {
        Some(recursive) => (0, recursive.impulse(step_seconds, len)),
        None => {
            let sampled = &bank.sampled()[filter - bank.filters().len()];
            (sampled.start(), sampled.samples().to_vec())
        }
    }
}
