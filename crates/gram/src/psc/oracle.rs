//! The plain truth: direct convolution in f64, segment by segment.
//!
//! Slow (steps² a segment); every other path is tested against it.

use betz_base::error::Result;
use betz_recording::DatasetView;
use betz_runtime::psc::{FilterBank, LowPass, LowPassFilter};

/// Responses of every channel to every filter, row-major (features, steps in segments): the columns
/// are the steps of the first segment, then those of the second, and so on.
///
/// # Errors
/// As [`LowPass::check`].
pub fn responses<'d>(
    dataset: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
) -> Result<Vec<f64>> {
    let dataset = &dataset.into();
    let columns = dataset.steps_in_segments();
    let mut values = vec![0.0; dataset.channels() * bank.len() * columns];
    for channel in 0..dataset.channels() {
        for (f, filter) in bank.filters().iter().enumerate() {
            let row = (channel * bank.len() + f) * columns;
            let mut column = row;
            for segment in dataset.segments {
                let impulse = filter.impulse(dataset.step_seconds, segment.len());
                let response = &mut values[column..column + segment.len()];
                for i in dataset.spikes.range(segment.start, segment.stop) {
                    if dataset.spikes.channels[i] as usize == channel {
                        let from = (dataset.spikes.ticks[i] - segment.start) as usize;
                        let count = f64::from(dataset.spikes.weight(i));
                        for (value, h) in response[from..].iter_mut().zip(&impulse) {
                            *value += count * h;
                        }
                    }
                }
                if let Some(low_pass) = low_pass {
                    let mut filter = LowPassFilter::new(low_pass, dataset.step_seconds, 1)?;
                    for value in response.iter_mut() {
                        filter.step(std::slice::from_mut(value));
                    }
                }
                column += segment.len();
            }
        }
    }
    Ok(values)
}
