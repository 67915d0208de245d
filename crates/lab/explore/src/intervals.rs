//! Intervals between spikes, and how much counts vary.

use betz_base::{Error, Result};
use betz_recording::{Recording, SpikeForm};

use crate::check;
use crate::trains::{Trains, for_each_interval};

/// Longest bin of counts, in seconds, of which intervals between spikes can be told.
pub(crate) const LONGEST_BIN_SECONDS: f64 = 0.001;

/// Bins of a histogram of intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct IntervalOptions {
    /// Length of a bin in seconds.
    pub bin_seconds: f64,
    /// End of the last bin in seconds; longer intervals are counted apart.
    pub longest_seconds: f64,
}

/// Bins of 1 ms up to 0.1 s.
impl Default for IntervalOptions {
    fn default() -> Self {
        Self {
            bin_seconds: 0.001,
            longest_seconds: 0.1,
        }
    }
}

/// Intervals between consecutive spikes of each channel.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Intervals {
    /// The channels, as given.
    pub channels: Vec<usize>,
    /// Length of a bin in seconds; bin k covers `[k · bin, (k + 1) · bin)`.
    pub bin_seconds: f64,
    /// Number of bins.
    pub bins: usize,
    /// Number of intervals, row-major (channels, bins).
    pub counts: Vec<u64>,
    /// Number of intervals beyond the last bin, per channel.
    pub longer: Vec<u64>,
    /// Mean interval in seconds, per channel; NaN without intervals.
    pub mean_seconds: Vec<f64>,
    /// Coefficient of variation, per channel: standard deviation / mean. 1 for a Poisson process, 0 for a clock; NaN
    /// with fewer than two intervals.
    pub cv: Vec<f64>,
    /// Local variation, per channel: mean of 3 (a − b)² / (a + b)² over consecutive intervals a, b (Shinomoto 2003). Like
    /// the CV, but slow changes of the rate do not raise it. NaN with fewer than two intervals.
    pub lv: Vec<f64>,
}

/// Sums over the intervals of one channel, in ticks.
#[derive(Default)]
struct Sums {
    n: f64,
    sum: f64,
    square: f64,
}

/// Histograms of the intervals between spikes of `channels`, inside segments.
///
/// Allocates one count per channel and bin.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a signal, for counts in bins longer than
/// 1 ms (they have no spike times), for channels that are not there, and for a range that is not a whole number of bins.
///
/// ```
/// # use betz_recording::{Recording, Segment, SpikeForm, Spikes};
/// use betz_explore::{IntervalOptions, intervals};
///
/// # fn main() -> betz_base::Result<()> {
/// # let recording = Recording {
/// #     tick_seconds: 0.001, ticks: 2_000, spikes: Spikes::new(vec![100, 110, 120, 130], vec![0; 4]),
/// #     channel_names: vec!["a".into()], behavior: None, segments: vec![Segment { start: 0, stop: 2_000 }],
/// #     electrode_um: None, form: SpikeForm::Events, meta: None,
/// # };
/// let found = intervals(&recording, &[0], &IntervalOptions::default())?; // spikes at 100, 110, 120 and 130 ms
/// assert_eq!((found.counts[10], found.cv[0]), (3, 0.0));
/// # Ok(())
/// # }
/// ```
pub fn intervals(
    recording: &Recording,
    channels: &[usize],
    options: &IntervalOptions,
) -> Result<Intervals> {
    check::spikes_of(recording, channels)?;
    if !has_spike_times(recording) {
        return Err(Error::argument(format!(
            "intervals between spikes: expected spike times, or counts in bins of at most {LONGEST_BIN_SECONDS} s, got bins of {} s",
            recording.tick_seconds
        )));
    }
    let window = crate::Window {
        start_seconds: 0.0,
        stop_seconds: options.longest_seconds,
        bin_seconds: options.bin_seconds,
    };
    let edges = window.edges(recording)?;
    let bins = edges.len() - 1;
    let mut found = Intervals {
        channels: channels.to_vec(),
        bin_seconds: options.bin_seconds,
        bins,
        counts: vec![0; check::values("intervals", channels.len(), bins)?],
        longer: vec![0; channels.len()],
        mean_seconds: Vec::new(),
        cv: Vec::new(),
        lv: Vec::new(),
    };
    for (p, train) in Trains::new(recording, channels).0.iter().enumerate() {
        let mut sums = Sums::default();
        for_each_interval(train, |ticks, n| {
            let bin = edges.partition_point(|edge| *edge <= ticks) - 1;
            match bin < bins {
                true => found.counts[p * bins + bin] += n as u64,
                false => found.longer[p] += n as u64,
            }
            // In ticks: whole numbers add up without rounding.
            let ticks = ticks as f64;
            sums.n += n;
            sums.sum += n * ticks;
            sums.square += n * ticks * ticks;
        });
        let mean = sums.sum / sums.n;
        found.mean_seconds.push(mean * recording.tick_seconds);
        found.cv.push(match sums.n >= 2.0 {
            true => (sums.square / sums.n - mean * mean).max(0.0).sqrt() / mean,
            false => f64::NAN,
        });
        found.lv.push(local_variation(train));
    }
    Ok(found)
}

/// True if intervals between spikes can be told.
pub(crate) fn has_spike_times(recording: &Recording) -> bool {
    recording.form == SpikeForm::Events
        || recording.tick_seconds <= LONGEST_BIN_SECONDS * (1.0 + 1e-9)
}

/// Mean of 3 (a − b)² / (a + b)² over pairs of consecutive intervals of one segment.
fn local_variation(train: &[crate::trains::Entry]) -> f64 {
    let (mut sum, mut pairs) = (0.0, 0.0);
    for three in train.windows(3) {
        let [a, b] = [three[1].tick - three[0].tick, three[2].tick - three[1].tick];
        if three[0].segment == three[2].segment && a + b > 0 {
            sum += 3.0 * ((a - b) as f64 / (a + b) as f64).powi(2);
            pairs += 1.0;
        }
    }
    sum / pairs
}

/// Fano factor of each of `channels`: variance / mean of its spike counts in windows of `window_seconds` that follow each
/// other inside segments. 1 for a Poisson process; NaN without spikes or with fewer than two windows.
///
/// A window begins at the first tick of its segment or at the end of the window before; what is left of a segment after its
/// last whole window is not used.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a signal, for channels that are not there, and
/// for a window shorter than a tick.
///
/// ```
/// # use betz_recording::{Recording, Segment, SpikeForm, Spikes};
/// # fn main() -> betz_base::Result<()> {
/// # let recording = Recording {
/// #     tick_seconds: 0.001, ticks: 2_000, spikes: Spikes::new(vec![100, 600, 1_100, 1_600], vec![0; 4]),
/// #     channel_names: vec!["a".into()], behavior: None, segments: vec![Segment { start: 0, stop: 2_000 }],
/// #     electrode_um: None, form: SpikeForm::Events, meta: None,
/// # };
/// assert_eq!(betz_explore::fano(&recording, &[0], 0.5)?, [0.0]); // one spike in each window
/// # Ok(())
/// # }
/// ```
pub fn fano(recording: &Recording, channels: &[usize], window_seconds: f64) -> Result<Vec<f64>> {
    check::spikes_of(recording, channels)?;
    check::positive("window", window_seconds)?;
    let width = (window_seconds / recording.tick_seconds).round();
    if width < 1.0 {
        return Err(Error::argument(format!(
            "window of {window_seconds} s: expected at least the recording's tick of {} s",
            recording.tick_seconds
        )));
    }
    let width = width as i64;
    let windows: Vec<i64> = (recording.segments.iter())
        .map(|s| s.len() as i64 / width)
        .collect();
    let n = windows.iter().sum::<i64>() as f64;
    let trains = Trains::new(recording, channels);
    let of_channel = |train: &Vec<crate::trains::Entry>| {
        let (mut sum, mut square, mut count) = (0.0, 0.0, 0.0);
        let mut at = None;
        for entry in train {
            let window = (entry.tick - recording.segments[entry.segment].start) / width;
            if window >= windows[entry.segment] {
                continue;
            }
            if at != Some((entry.segment, window)) {
                square += count * count;
                count = 0.0;
                at = Some((entry.segment, window));
            }
            count += entry.spikes;
            sum += entry.spikes;
        }
        square += count * count;
        match n >= 2.0 {
            true => (square / n - (sum / n).powi(2)).max(0.0) / (sum / n),
            false => f64::NAN,
        }
    };
    Ok(trains.0.iter().map(of_channel).collect())
}
