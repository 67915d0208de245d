//! Which path is expected to be faster.

use super::GramPath;
use crate::psc::{FilterBank, LowPass};
use crate::recording::Dataset;

/// Seconds of one thread for one spike and pair of (feature, filter): a row addition of the event
/// path.
const EVENT_ADDITION: f64 = 0.03e-9;

/// Seconds of one thread for one step and pair of features of one triangle of Γ: a multiply-add of
/// the dense path.
const DENSE_PRODUCT: f64 = 0.012e-9;

/// Seconds of one thread to filter one step of one feature.
const DENSE_RESPONSE: f64 = 1.0e-9;

/// [`GramPath::Event`] or [`GramPath::Dense`]: the one whose main loops cost less on this dataset.
/// A low-pass is only in the dense path.
pub fn cheaper(data: &Dataset, bank: &FilterBank, low_pass: Option<LowPass>) -> GramPath {
    let spikes: usize = (data.segments.iter())
        .map(|s| data.spikes.range(s.start, s.stop).len())
        .sum();
    let (filters, channels) = (bank.len() as f64, data.channels() as f64);
    let features = filters * channels;
    let steps = data.steps_in_segments() as f64;
    let event = spikes as f64 * filters * features * EVENT_ADDITION;
    let dense = steps * features * (features / 2.0 * DENSE_PRODUCT + DENSE_RESPONSE);
    if low_pass.is_none() && event < dense {
        GramPath::Event
    } else {
        GramPath::Dense
    }
}
