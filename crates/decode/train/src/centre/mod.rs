//! Filters of a signal start at its mean, not at 0.
//!
//! A filter from rest takes the signal for 0 before a segment. A channel whose mean is several standard deviations from 0
//! then begins every segment with a step that is larger than all that follows. So training takes each channel's mean off
//! its values, and the decoder keeps the means ([`DecoderParts::channel_means`](betz_runtime::model::DecoderParts)) and
//! takes them off as well. A constant comes out of a filter as that constant times the filter's sum, so this is the same
//! as filters that have heard the mean forever.
//!
//! Spikes have no means: before a segment there are few, and a mean would make every step of a silent channel an event.

use betz_base::error::Result;
use betz_base::memory;
use betz_gram::gram::{GramPath, NormalEquations};
use betz_recording::{Dataset, DatasetView, Segment, Spikes};
use betz_runtime::model::Decoder;
use betz_runtime::psc::FilterBank;

use crate::limits::with_members;
use crate::options::TrainOptions;
use crate::step_totals::is_signal;

/// A signal that has values in at least this part of its steps has means: otherwise its zeros are rests.
const DENSE: f64 = 0.5;

/// A filter shorter than this many steps remembers next to nothing.
const SHORTEST: f64 = 0.5;

/// A signal with the mean of each channel taken off.
#[derive(Debug, Clone, PartialEq)]
pub struct CentredSignal {
    /// The signal, with an entry of every channel at every step inside segments.
    pub data: Dataset,
    /// Mean of each channel, which was taken off.
    pub means: Vec<f64>,
}

impl CentredSignal {
    /// `data` without its means; `None` for spikes, for a signal most of whose values are 0, and if responses by
    /// `options` do not depend on where 0 is: none of its filters remembers a step.
    ///
    /// Allocates 16 bytes per channel and step, and the behaviour.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub fn new<'d>(
        data: impl Into<DatasetView<'d>>,
        options: &TrainOptions,
    ) -> Result<Option<Self>> {
        let data = &data.into();
        let entries = data.events_in_segments() as u64;
        let steps = data.steps_in_segments() as u64;
        if !depends_on_zero(options, data.step_seconds)
            || !has_means(entries, steps, data.channels())
            || !is_signal(data)
        {
            return Ok(None);
        }
        let sums = channel_sums(data);
        let means: Vec<f64> = sums.iter().map(|sum| sum / steps.max(1) as f64).collect();
        Ok(Some(Self {
            data: without_means(data, &means)?,
            means,
        }))
    }

    /// `decoder`, trained on [`data`](Self::data), for the signal as it was.
    ///
    /// # Errors
    /// The errors of [`Decoder::new`].
    pub fn decoder(&self, decoder: Decoder) -> Result<Decoder> {
        with_means(decoder, &self.means)
    }
}

/// True if responses by `options` depend on where 0 is: filters remember more than the newest step, or Γ is of events,
/// whose sums are about 0.
pub(crate) fn depends_on_zero(options: &TrainOptions, step_seconds: f64) -> bool {
    options.low_pass.is_some()
        || options.gram == GramPath::Event
        || remembers(&options.bank, step_seconds)
}

fn remembers(bank: &FilterBank, step_seconds: f64) -> bool {
    let long = |tau: f64| tau > SHORTEST * step_seconds;
    bank.filters().iter().any(|f| long(f.tau_seconds))
        || bank.sampled().iter().any(|f| f.samples().len() > 1)
}

/// True if a signal with so many entries in so many steps has means.
pub(crate) fn has_means(entries: u64, steps: u64, channels: usize) -> bool {
    entries as f64 >= DENSE * steps as f64 * channels as f64
}

/// Sum of each channel's values inside segments.
pub(crate) fn channel_sums(data: &DatasetView<'_>) -> Vec<f64> {
    let mut sums = vec![0.0; data.channels()];
    for segment in data.segments {
        for i in data.spikes.range(segment.start, segment.stop) {
            if let Some(sum) = sums.get_mut(data.spikes.channels[i] as usize) {
                *sum += f64::from(data.spikes.weight(i));
            }
        }
    }
    sums
}

/// `data` with `means`, one per channel, taken off its values inside segments. Values outside are left out.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
pub(crate) fn without_means(data: &DatasetView<'_>, means: &[f64]) -> Result<Dataset> {
    Ok(Dataset {
        step_seconds: data.step_seconds,
        steps: data.steps,
        channel_names: data.channel_names.to_vec(),
        spikes: values_without_means(data, data.segments, means)?,
        segments: data.segments.to_vec(),
        outputs: data.outputs.to_vec(),
        behavior: data.behavior.to_vec(),
    })
}

/// The values of `data` inside `segments`, `means` taken off: an entry of every channel at every step.
pub(crate) fn values_without_means(
    data: &DatasetView<'_>,
    segments: &[Segment],
    means: &[f64],
) -> Result<Spikes> {
    let channels = data.channels();
    let steps: u128 = segments.iter().map(|s| s.len() as u128).sum();
    let entries = steps * channels as u128;
    memory::plan("the signal without its means", entries * 16)?;
    let entries = usize::try_from(entries).unwrap_or(usize::MAX);
    let mut spikes = Spikes {
        ticks: memory::room("the signal without its means", entries)?,
        channels: memory::room("the signal without its means", entries)?,
        weights: memory::room("the signal without its means", entries)?,
    };
    let mut row = vec![0.0; channels];
    for segment in segments {
        let mut now = data.spikes.range(segment.start, segment.stop).peekable();
        for step in segment.start..segment.stop {
            row.fill(0.0);
            while let Some(i) = now.next_if(|&i| data.spikes.ticks[i] == step) {
                if let Some(value) = row.get_mut(data.spikes.channels[i] as usize) {
                    *value += f64::from(data.spikes.weight(i));
                }
            }
            spikes.ticks.resize(spikes.ticks.len() + channels, step);
            spikes.channels.extend(0..channels as u32);
            let values = row.iter().zip(means);
            spikes
                .weights
                .extend(values.map(|(value, mean)| (value - mean) as f32));
        }
    }
    Ok(spikes)
}

/// The values of `data` that `decoder` filters: without its means, if it has such, at every step of the dataset.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
pub(crate) fn values_for(decoder: &Decoder, data: &DatasetView<'_>) -> Result<Option<Spikes>> {
    if decoder.channel_means().is_empty() {
        return Ok(None);
    }
    let whole = [Segment {
        start: 0,
        stop: data.steps as i64,
    }];
    values_without_means(data, &whole, decoder.channel_means()).map(Some)
}

/// `decoder`, trained on values without `means`, for values with them: on top of means that it has already.
///
/// # Errors
/// The errors of [`Decoder::new`].
pub(crate) fn with_means(decoder: Decoder, means: &[f64]) -> Result<Decoder> {
    let mut parts = decoder.into_parts();
    let own = parts.channel_means.iter().copied();
    let own = own.chain(std::iter::repeat(0.0));
    parts.channel_means = means
        .iter()
        .zip(own)
        .map(|(mean, own)| mean + own)
        .collect();
    parts.head = with_members(parts.head, |member| with_means(member, means))?;
    Decoder::new(parts)
}

/// Adds to the features of `sums` what `means` become behind the filters of `bank`, `sign` times: the sums are then of
/// filters that have heard the means forever (1), or of values without them (−1).
pub(crate) fn shift(sums: &mut NormalEquations, bank: &FilterBank, means: &[f64], sign: f64) {
    let gains = bank.filters().iter().map(|_| 1.0);
    let gains = gains.chain(bank.sampled().iter().map(|f| f.samples().iter().sum()));
    let gains: Vec<f64> = gains.collect();
    let by: Vec<f64> = (means.iter())
        .flat_map(|mean| gains.iter().map(move |gain| sign * mean * gain))
        .collect();
    let (n, m, steps) = (sums.features, sums.outputs, sums.steps as f64);
    for (i, a) in by.iter().enumerate() {
        let of_i = sums.feature_sum[i];
        for (j, b) in by.iter().enumerate() {
            sums.gram[i * n + j] += a * sums.feature_sum[j] + b * of_i + steps * a * b;
        }
        for (upsilon, sum) in sums.upsilon[i * m..][..m].iter_mut().zip(&sums.output_sum) {
            *upsilon += a * sum;
        }
    }
    for (sum, a) in sums.feature_sum.iter_mut().zip(&by) {
        *sum += steps * a;
    }
}

#[cfg(test)]
mod tests;
