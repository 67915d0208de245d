//! Numbers that tell a good unit from a doubtful one.

use betz_base::Result;
use betz_recording::Recording;

use crate::intervals::{IntervalOptions, fano, has_spike_times, intervals};
use crate::trains::{Trains, for_each_interval, seconds_in_segments};
use crate::{check, trains::Entry};

/// Limits of [`quality`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct QualityOptions {
    /// Refractory period in seconds: one neuron does not fire twice within it.
    pub refractory_seconds: f64,
    /// Number of equal parts of the recorded time, for the presence ratio.
    pub presence_parts: usize,
    /// Length of the windows of the Fano factor in seconds.
    pub fano_seconds: f64,
}

/// A refractory period of 1.5 ms, 100 parts, Fano windows of 0.1 s.
impl Default for QualityOptions {
    fn default() -> Self {
        Self {
            refractory_seconds: 0.0015,
            presence_parts: 100,
            fano_seconds: 0.1,
        }
    }
}

/// Quality of one unit (or channel), from its spikes inside segments.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UnitQuality {
    /// The channel.
    pub channel: usize,
    /// Its name.
    pub name: String,
    /// Number of spikes.
    pub spikes: f64,
    /// Mean rate in hertz.
    pub rate_hz: f64,
    /// Share of equal parts of the recorded time in which the unit fired.
    pub presence: f64,
    /// Number of intervals shorter than the refractory period; `None` if there are no spike times (binned counts).
    pub refractory_violations: Option<u64>,
    /// Their share of all intervals; NaN without intervals.
    pub violation_share: f64,
    /// Rate of violations relative to that of independent spikes at the unit's rate (Hill, Mehta & Kleinfeld 2011):
    /// violations · T / (2 · refractory · spikes²). About 0 for one neuron, 1 for spikes at random; NaN without spikes.
    pub contamination: f64,
    /// Coefficient of variation of the intervals; see [`Intervals::cv`](crate::Intervals::cv).
    pub cv: f64,
    /// Local variation of the intervals; see [`Intervals::lv`](crate::Intervals::lv).
    pub lv: f64,
    /// Fano factor of the counts; see [`fano`](crate::fano).
    pub fano: f64,
}

/// Quality of each of `channels`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a signal, for channels that are not there, and
/// for options that are not positive.
///
/// ```
/// # use betz_recording::{Recording, Segment, SpikeForm, Spikes};
/// use betz_explore::{QualityOptions, quality};
///
/// # fn main() -> betz_base::Result<()> {
/// # let recording = Recording {
/// #     tick_seconds: 0.001, ticks: 2_000, spikes: Spikes::new(vec![100, 101, 900, 1_700], vec![0; 4]),
/// #     channel_names: vec!["a".into()], behavior: None, segments: vec![Segment { start: 0, stop: 2_000 }],
/// #     electrode_um: None, form: SpikeForm::Events, meta: None,
/// # };
/// let unit = &quality(&recording, &[0], &QualityOptions::default())?[0]; // spikes at 100, 101, 900 and 1700 ms
/// assert_eq!((unit.rate_hz, unit.refractory_violations), (2.0, Some(1)));
/// # Ok(())
/// # }
/// ```
pub fn quality(
    recording: &Recording,
    channels: &[usize],
    options: &QualityOptions,
) -> Result<Vec<UnitQuality>> {
    check::spikes_of(recording, channels)?;
    check::positive("refractory period", options.refractory_seconds)?;
    if options.presence_parts == 0 {
        return Err(betz_base::Error::argument(
            "presence: expected at least one part, got 0",
        ));
    }
    let fano = fano(recording, channels, options.fano_seconds)?;
    let timed = has_spike_times(recording);
    let variation = match timed {
        true => {
            let one_bin = recording.tick_seconds.max(0.001);
            let bins = IntervalOptions {
                bin_seconds: one_bin,
                longest_seconds: one_bin,
            };
            let found = intervals(recording, channels, &bins.whole(recording))?;
            found.cv.into_iter().zip(found.lv).collect()
        }
        false => vec![(f64::NAN, f64::NAN); channels.len()],
    };
    let seconds = seconds_in_segments(recording);
    let trains = Trains::new(recording, channels);
    let rows = channels.iter().zip(&trains.0).zip(variation).zip(fano);
    Ok(rows
        .map(|(((&channel, train), (cv, lv)), fano)| {
            let spikes: f64 = train.iter().map(|entry| entry.spikes).sum();
            let violations = timed.then(|| violations(recording, train, options));
            let (short, of) = violations.unwrap_or((f64::NAN, f64::NAN));
            let independent = 2.0 * options.refractory_seconds * spikes * spikes / seconds;
            UnitQuality {
                channel,
                name: recording.channel_names[channel].clone(),
                spikes,
                rate_hz: spikes / seconds,
                presence: presence(recording, train, options.presence_parts),
                refractory_violations: violations.map(|(short, _)| short as u64),
                violation_share: short / of,
                contamination: short / independent,
                cv,
                lv,
                fano,
            }
        })
        .collect())
}

impl IntervalOptions {
    /// These bins as a multiple of the recording's.
    fn whole(self, recording: &Recording) -> Self {
        let ticks = (self.bin_seconds / recording.tick_seconds).round().max(1.0);
        let bin_seconds = ticks * recording.tick_seconds;
        Self {
            bin_seconds,
            longest_seconds: bin_seconds,
        }
    }
}

/// Intervals shorter than the refractory period, and all intervals.
fn violations(recording: &Recording, train: &[Entry], options: &QualityOptions) -> (f64, f64) {
    // Without the rounding of a time that is a whole number of ticks.
    let shortest = options.refractory_seconds / recording.tick_seconds - 1e-6;
    let (mut short, mut all) = (0.0, 0.0);
    for_each_interval(train, |ticks, n| {
        all += n;
        if (ticks as f64) < shortest {
            short += n;
        }
    });
    (short, all)
}

/// Share of `parts` equal parts of the time inside segments that hold a spike.
fn presence(recording: &Recording, train: &[Entry], parts: usize) -> f64 {
    let total: i64 = recording.segments.iter().map(|s| s.len() as i64).sum();
    let mut before = Vec::with_capacity(recording.segments.len());
    let mut sum = 0;
    for segment in &recording.segments {
        before.push(sum);
        sum += segment.len() as i64;
    }
    // No more parts than ticks: a tick cannot hold two of them.
    let parts = (parts as i64).min(total);
    let (mut last, mut with) = (-1, 0);
    for entry in train {
        let at = before[entry.segment] + entry.tick - recording.segments[entry.segment].start;
        let part = (i128::from(at) * i128::from(parts) / i128::from(total)) as i64;
        if part != last {
            with += 1;
            last = part;
        }
    }
    with as f64 / parts as f64
}
