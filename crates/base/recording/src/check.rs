//! The invariants of a [`Recording`], checked in one place.

use std::collections::HashMap;
use std::fmt::Display;
use std::ops::Range;

use super::behavior::{AT_ONCE, OutputInfo, missing_ranges};
use super::{Behavior, Dataset, DatasetView, Recording, Spikes, SpikesView, check_segments};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::text::count;

/// Longest recording in ticks; above it, a tick is not exact as a floating-point number.
pub(crate) const MAX_TICKS: i64 = 1 << 53;
/// Largest value of a signal; above it, the sums of squares for training exceed the range of f32.
const LARGEST_WEIGHT: f32 = 1e15;
/// Largest number of spike entries of a recording (12 GiB in memory); an entry may stand for several spikes.
pub(crate) const MAX_SPIKES: usize = 1 << 30;

impl Recording {
    /// Checks every invariant of the type; errors use the names of the `.npz` schema.
    ///
    /// A recording without spikes is valid; training reports its absence of spikes.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] without channels or ticks; [`ErrorKind::InvalidRecording`] for any other
    /// violation, with the array and the first position at fault.
    pub fn check(&self) -> Result<()> {
        if !(self.tick_seconds.is_finite() && self.tick_seconds > 0.0) {
            return Err(Error::recording(format!(
                "array `{}`: expected a finite length > 0 s, got {}",
                match self.form {
                    super::SpikeForm::Counts => "step_seconds",
                    super::SpikeForm::Events => "tick_seconds",
                    super::SpikeForm::Signal => "sample_seconds",
                },
                self.tick_seconds
            )));
        }
        if self.channel_names.is_empty() || self.ticks == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "empty recording: expected at least one channel and one tick, got {} channels and {} ticks",
                    self.channels(),
                    self.ticks
                ),
            ));
        }
        if !(0..=MAX_TICKS).contains(&self.ticks) {
            return Err(Error::recording(format!(
                "expected a length of 1 to {MAX_TICKS} ticks, got {}",
                self.ticks
            )));
        }
        check_unique("array `channel_names`", self.channel_names.iter())?;
        self.spikes.check(self.ticks, self.channels())?;
        self.check_weights()?;
        if let Some(b) = &self.behavior {
            b.check(self.ticks)?;
        }
        if self.segments.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "array `segments`: expected at least one segment, got none",
            ));
        }
        check_segments(&self.segments, self.ticks).map_err(|e| e.at("array `segments`"))?;
        if let Some(places) = &self.electrode_um {
            if places.len() != self.channels() {
                return Err(Error::recording(format!(
                    "array `electrode_um`: expected {} positions, one per channel, got {}",
                    self.channels(),
                    places.len()
                )));
            }
            if let Some(i) = places
                .iter()
                .position(|p| p.iter().any(|v| v.is_infinite()))
            {
                return Err(
                    Error::recording(format!("array `electrode_um`: [{i}] is infinite"))
                        .with_position(i)
                        .with_channel(i),
                );
            }
        }
        Ok(())
    }
}

impl Recording {
    /// Checks that counts are whole numbers, and that spike times have no weights.
    fn check_weights(&self) -> Result<()> {
        let weights = &self.spikes.weights;
        let at_fault = match self.form {
            super::SpikeForm::Signal => None,
            super::SpikeForm::Events if weights.is_empty() => None,
            super::SpikeForm::Events => {
                return Err(Error::recording(format!(
                    "spike times: expected no weights, because every spike counts once, got {}; use the form of counts or of a signal",
                    count(weights.len() as u128, "weight")
                )));
            }
            super::SpikeForm::Counts => {
                (weights.iter()).position(|&w| !(w >= 1.0 && w.fract() == 0.0))
            }
        };
        match at_fault {
            Some(i) => Err(Error::recording(format!(
                "array `counts`: [{}, {}]: expected a whole number of spikes, got {}; values of any sign belong in `signal`",
                self.spikes.ticks[i], self.spikes.channels[i], weights[i]
            ))
            .with_position(i)
            .with_channel(self.spikes.channels[i] as usize)),
            None => Ok(()),
        }
    }
}

impl Spikes {
    /// Checks the spikes as [`SpikesView::check`] does.
    ///
    /// # Errors
    /// The errors of [`SpikesView::check`].
    pub fn check(&self, ticks: i64, channels: usize) -> Result<()> {
        self.view().check(ticks, channels)
    }
}

impl SpikesView<'_> {
    /// Checks that the lists have the same length (weights may be absent), ticks ascend inside `0..ticks`, channels are
    /// inside `0..channels`, and weights are finite and within ±10¹⁵, so that their squares can be summed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`] with the first entry at fault.
    pub fn check(&self, ticks: i64, channels: usize) -> Result<()> {
        if self.ticks.len() != self.channels.len() {
            return Err(Error::recording(format!(
                "arrays `spike_ticks` and `spike_channels`: expected one length, got {} and {}",
                self.ticks.len(),
                self.channels.len()
            )));
        }
        if self.is_weighted() && self.weights.len() != self.len() {
            return Err(Error::recording(format!(
                "spikes: expected a weight each ({}) or none, got {}",
                self.len(),
                self.weights.len()
            )));
        }
        if self.len() > MAX_SPIKES {
            return Err(Error::recording(format!(
                "array `spike_ticks`: expected at most {MAX_SPIKES} spikes, got {}",
                self.len()
            )));
        }
        // Full passes, which the compiler vectorises. The first entry at fault is searched only for the message.
        if !self.ticks.is_sorted()
            && let Some(i) = self.ticks.windows(2).position(|w| w[1] < w[0])
        {
            return Err(Error::recording(format!(
                "array `spike_ticks`: [{}] = {} goes back behind [{i}] = {}: expected ascending ticks",
                i + 1,
                self.ticks[i + 1],
                self.ticks[i]
            ))
            .with_position(i + 1));
        }
        // Ticks ascend, so checking both ends is enough.
        let outside = |t: i64| !(0..ticks).contains(&t);
        if (self.ticks.first().is_some_and(|&t| outside(t))
            || self.ticks.last().is_some_and(|&t| outside(t)))
            && let Some(i) = self.ticks.iter().position(|&t| outside(t))
        {
            return Err(Error::recording(format!(
                "array `spike_ticks`: [{i}] = {}: expected a tick inside [0, {ticks})",
                self.ticks[i]
            ))
            .with_position(i));
        }
        if self.channels.iter().fold(0, |most, &c| c.max(most)) as usize >= channels
            && let Some(i) = self.channels.iter().position(|&c| c as usize >= channels)
        {
            return Err(Error::recording(format!(
                "array `spike_channels`: [{i}] = {}: expected a channel below {channels}",
                self.channels[i]
            ))
            .with_position(i)
            .with_channel(self.channels[i] as usize));
        }
        let believed = |w: &f32| w.abs() <= LARGEST_WEIGHT;
        if let Some(i) = self.weights.iter().position(|w| !believed(w)) {
            return Err(Error::recording(format!(
                "channel {} at tick {}: expected a finite value of at most {LARGEST_WEIGHT:e}, got {}",
                self.channels[i], self.ticks[i], self.weights[i]
            ))
            .with_position(i)
            .with_channel(self.channels[i] as usize));
        }
        Ok(())
    }
}

impl Behavior {
    /// Checks shape, names, values and times. Without times, there must be one sample per tick of `ticks`.
    pub(crate) fn check(&self, ticks: i64) -> Result<()> {
        let outputs = self.outputs.len();
        if outputs == 0 || self.values.is_empty() || !self.values.len().is_multiple_of(outputs) {
            return Err(Error::recording(format!(
                "array `behavior`: expected whole samples of at least one output, got {} values of {outputs} outputs",
                self.values.len()
            )));
        }
        check_unique(
            "array `behavior_names`",
            self.outputs.iter().map(|o| &o.name),
        )?;
        check_values(&self.values, &self.outputs, 0)?;
        let missing = missing_ranges(&self.values, outputs);
        check_some_value(&missing, self.samples())?;
        match &self.times {
            None if self.samples() as i64 != ticks => Err(Error::recording(format!(
                "array `behavior`: expected {ticks} samples, one per bin (there is no `behavior_times`), got {}",
                self.samples()
            ))),
            None => Ok(()),
            Some(times) => check_times(times, self.samples()),
        }
    }
}

/// Refuses infinite values of behaviour, (samples, outputs) row-major; `first` is the number of the first sample.
pub(crate) fn check_values(values: &[f32], outputs: &[OutputInfo], first: usize) -> Result<()> {
    let any_infinite = |block: &[f32]| block.iter().fold(false, |any, v| any | v.is_infinite());
    let Some(block) = values.chunks(AT_ONCE).position(any_infinite) else {
        return Ok(());
    };
    let within = values[block * AT_ONCE..]
        .iter()
        .position(|v| v.is_infinite());
    let i = block * AT_ONCE + within.unwrap_or(0);
    let (row, column) = (first + i / outputs.len(), i % outputs.len());
    Err(Error::recording(format!(
        "array `behavior`: [{row}, {column}] (`{}`) = {}: expected a finite value, or NaN where a sample is missing",
        outputs[column].name, values[i]
    ))
    .with_position(first * outputs.len() + i))
}

/// Refuses behaviour whose samples are all in the ranges `missing`.
pub(crate) fn check_some_value<T>(missing: &[Range<T>], samples: T) -> Result<()>
where
    T: Copy + Default + PartialEq + Display,
{
    match missing {
        [all] if all.start == T::default() && all.end == samples => Err(Error::recording(format!(
            "array `behavior`: expected a sample without NaN, got NaN in each of {samples}; leave out outputs that are never known"
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn check_times(times: &[f64], samples: usize) -> Result<()> {
    if times.len() != samples {
        return Err(Error::recording(format!(
            "array `behavior_times`: expected {samples} times, one per row of `behavior`, got {}",
            times.len()
        )));
    }
    if let Some(i) = times.iter().position(|t| !t.is_finite()) {
        return Err(Error::recording(format!(
            "array `behavior_times`: [{i}] = {}: expected a finite time",
            times[i]
        ))
        .with_position(i));
    }
    if let Some(i) = times.windows(2).position(|w| w[1] < w[0]) {
        return Err(Error::recording(format!(
            "array `behavior_times`: [{}] = {} s goes back behind [{i}] = {} s: expected ascending times",
            i + 1,
            times[i + 1],
            times[i]
        ))
        .with_position(i + 1));
    }
    Ok(())
}

impl Dataset {
    /// Checks the names as [`DatasetView::check_names`] does.
    ///
    /// # Errors
    /// The errors of [`DatasetView::check_names`].
    pub fn check_names(&self) -> Result<()> {
        self.view().check_names()
    }
}

impl DatasetView<'_> {
    /// Checks that channel names are unique and output names are unique, because models match them by name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`] with the first repeated name.
    pub fn check_names(&self) -> Result<()> {
        check_unique("names of the channels", self.channel_names.iter())?;
        check_unique("names of the outputs", self.outputs.iter().map(|o| &o.name))
    }
}

/// Error for counts that exceed the limit on spikes at `[bin, channel]`.
pub(crate) fn too_many_spikes(bin: usize, channel: usize) -> Error {
    Error::recording(format!(
        "expected at most {MAX_SPIKES} spikes, got more at [{bin}, {channel}]"
    ))
    .with_channel(channel)
}

fn check_unique<'a>(list: &str, names: impl Iterator<Item = &'a String> + Clone) -> Result<()> {
    // Ascending names, such as numbered ones, are unique; no table is needed to check them.
    let length_first = |name: &'a String| (name.len(), name);
    let mut next = names.clone().map(length_first).skip(1);
    if (names.clone().map(length_first)).all(|name| next.next().is_none_or(|next| name < next)) {
        return Ok(());
    }
    let mut seen = HashMap::new();
    let count = names.size_hint().0;
    seen.try_reserve(count)
        .map_err(|_| Error::no_memory(list, count.saturating_mul(32)))?;
    for (i, name) in names.enumerate() {
        if let Some(first) = seen.insert(name, i) {
            return Err(Error::recording(format!(
                "{list}: [{i}] = `{name}` is there already at [{first}]: expected each name once"
            ))
            .with_position(i));
        }
    }
    Ok(())
}
