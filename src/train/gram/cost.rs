//! Which path is expected to be faster.

use super::GramPath;
use super::event::WIDEST_TILE;
use crate::psc::{FilterBank, LowPass};
use crate::recording::Dataset;

/// Seconds of one thread for a row addition of the event path: one a spike, feature and filter.
const EVENT_ADDITION: f64 = 0.075e-9;

/// Seconds of one thread for a tile of the event path to take up one step with spikes.
const EVENT_TILE_STEP: f64 = 30e-9;

/// Seconds of one thread for one step and filter of the event path's pass over the behaviour.
const EVENT_STEP: f64 = 10e-9;

/// Seconds of one thread for a multiply-add of the dense path: one a step and pair of features of
/// one triangle of Γ.
const DENSE_PRODUCT: f64 = 0.0086e-9;

/// Seconds of one thread to filter one step of one feature and multiply it with the behaviour.
const DENSE_RESPONSE: f64 = 4.7e-9;

/// [`GramPath::Event`] or [`GramPath::Dense`]: the one whose main loops cost less on this dataset.
/// A low-pass is only in the dense path.
///
/// The constants are fitted to measured runs (`benches/record/gram.md`); only their ratios matter.
pub fn cheaper(data: &Dataset, bank: &FilterBank, low_pass: Option<LowPass>) -> GramPath {
    let spikes: usize = (data.segments.iter())
        .map(|s| data.spikes.range(s.start, s.stop).len())
        .sum();
    let (filters, channels) = (bank.len() as f64, data.channels() as f64);
    let features = filters * channels;
    let (steps, spikes) = (data.steps_in_segments() as f64, spikes as f64);
    let tiles = filters * filters * (channels / WIDEST_TILE as f64).ceil();
    let event = spikes * filters * features * EVENT_ADDITION
        + spikes.min(steps) * tiles * EVENT_TILE_STEP
        + steps * filters * EVENT_STEP;
    let dense = steps * features * (features / 2.0 * DENSE_PRODUCT + DENSE_RESPONSE);
    if low_pass.is_none() && event < dense {
        GramPath::Event
    } else {
        GramPath::Dense
    }
}
