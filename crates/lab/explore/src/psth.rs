//! Responses to events: mean rates and rasters.

use std::ops::Range;

use betz_base::{Error, Result};
use betz_recording::{Recording, Segment};

use crate::check;
use crate::events::{EventWindows, Events, Window};

/// Mean firing rates around events (a peri-event time histogram).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Psth {
    /// Name of the events.
    pub name: String,
    /// Number of events that were used.
    pub events: usize,
    /// Number of events whose window reaches beyond the recording; they are not used.
    pub left_out: usize,
    /// Number of events used whose window reaches into time that no segment covers.
    pub outside_segments: usize,
    /// The channels, as given.
    pub channels: Vec<usize>,
    /// The window around each event.
    pub window: Window,
    /// Number of bins.
    pub bins: usize,
    /// Mean rate over events in hertz, row-major (channels, bins): spikes / (events · bin).
    pub mean_hz: Vec<f64>,
    /// Standard error of that mean in hertz, of the same shape: s / √events, s² with events − 1. NaN for one event.
    pub error_hz: Vec<f64>,
    /// Fano factor of each channel over events: variance / mean of the spike counts of the whole window. NaN without
    /// spikes.
    pub fano: Vec<f64>,
}

impl Psth {
    /// Start of each bin in seconds after the event.
    pub fn times(&self) -> Vec<f64> {
        let start = |k: usize| self.window.start_seconds + k as f64 * self.window.bin_seconds;
        (0..self.bins).map(start).collect()
    }

    /// Mean rates of the channel at `position` of [`Psth::channels`].
    ///
    /// # Panics
    /// If `position` is out of range.
    pub fn mean_of(&self, position: usize) -> &[f64] {
        &self.mean_hz[position * self.bins..(position + 1) * self.bins]
    }
}

/// Mean firing rates of `channels` around `events`.
///
/// A tick belongs to the bin that holds its time; a spike that lies in the windows of two events counts for both.
/// Allocates two values per channel and bin.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a signal, for channels that are not there,
/// and for a window that is not a whole number of bins (of binned counts: bins that are no multiple of the recording's);
/// [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) if no event has its window inside the
/// recording. The first page of the crate has an example.
pub fn psth(
    recording: &Recording,
    channels: &[usize],
    events: &Events,
    window: &Window,
) -> Result<Psth> {
    check::spikes_of(recording, channels)?;
    let aligned = EventWindows::new(recording, events, window)?;
    let covered = vec![0..aligned.edges.len() - 1; aligned.ticks.len()];
    Ok(response(recording, channels, events, (window, &aligned), &covered)?.psth)
}

/// Mean firing rates around events, each from its own trial alone: see [`psth_within`].
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TrialPsth {
    /// Rates and errors, NaN in bins without events; the Fano factor is that of [`Self::fano_bins`].
    pub psth: Psth,
    /// Number of events behind each bin.
    pub bin_events: Vec<usize>,
    /// Bins that every event has; empty if there are none.
    pub fano_bins: Range<usize>,
}

/// Like [`psth`], but a bin counts only for the events whose own trial covers all of it: a window that reaches into other
/// trials, or into time that no trial covers, adds nothing there.
///
/// `own` has the trial of each event in ticks of the recording; an empty one has no bins.
///
/// # Errors
/// The errors of [`psth`]; [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) unless there is one trial per event.
///
/// ```
/// # use betz_recording::{Recording, Segment, SpikeForm, Spikes};
/// use betz_explore::{Events, Window, psth_within};
///
/// # fn main() -> betz_base::Result<()> {
/// # let segments = vec![Segment { start: 0, stop: 1_000 }, Segment { start: 1_000, stop: 2_000 }];
/// # let recording = Recording {
/// #     tick_seconds: 0.001, ticks: 2_000, spikes: Spikes::new(vec![950, 1_050], vec![0, 0]),
/// #     channel_names: vec!["a".into()], behavior: None, segments, electrode_um: None, form: SpikeForm::Events, meta: None,
/// # };
/// let window = Window { start_seconds: -0.1, stop_seconds: 0.1, bin_seconds: 0.1 };
/// let second = Events { name: "second trial".into(), ticks: vec![1_000] };
/// let found = psth_within(&recording, &[0], &second, &recording.segments[1..], &window)?;
/// assert_eq!((found.bin_events, found.psth.mean_hz[1]), (vec![0, 1], 10.0)); // the spike before is another trial's
/// # Ok(())
/// # }
/// ```
pub fn psth_within(
    recording: &Recording,
    channels: &[usize],
    events: &Events,
    own: &[Segment],
    window: &Window,
) -> Result<TrialPsth> {
    check::spikes_of(recording, channels)?;
    if own.len() != events.ticks.len() {
        return Err(Error::mismatch(format!(
            "events `{}`: expected one trial for each of {} events, got {}",
            events.name,
            events.ticks.len(),
            own.len()
        )));
    }
    let aligned = EventWindows::new(recording, events, window)?;
    let used = aligned.ticks.iter().zip(&aligned.places);
    let covered: Vec<Range<usize>> = used
        .map(|(tick, place)| aligned.bins_inside(*tick, &own[*place]))
        .collect();
    response(recording, channels, events, (window, &aligned), &covered)
}

/// Rates over the bins that `covered` lists for each event used.
fn response(
    recording: &Recording,
    channels: &[usize],
    events: &Events,
    (window, aligned): (&Window, &EventWindows),
    covered: &[Range<usize>],
) -> Result<TrialPsth> {
    let bins = aligned.edges.len() - 1;
    let size = check::values("PSTH", channels.len(), bins)?;
    let positions = check::positions(channels, recording.channels());
    let common = covered.iter().fold(0..bins, |all, one| {
        all.start.max(one.start)..all.end.min(one.end)
    });
    let common = common.start..common.end.max(common.start);
    let (mut sum, mut square) = (vec![0.0; size], vec![0.0; size]);
    let mut bin_events = vec![0; bins];
    let mut in_window = vec![(0.0, 0.0); channels.len()];
    let mut counts = vec![0.0; channels.len()];
    let mut windows = vec![0.0; channels.len()];
    for (&event, covered) in aligned.ticks.iter().zip(covered) {
        for bin in covered.clone() {
            bin_events[bin] += 1;
            let [start, stop] = [bin, bin + 1].map(|k| event + aligned.edges[k]);
            for i in recording.spikes.range(start, stop) {
                for &p in &positions[recording.spikes.channels[i] as usize] {
                    counts[p] += f64::from(recording.spikes.weight(i));
                }
            }
            for (p, count) in counts.iter_mut().enumerate() {
                sum[p * bins + bin] += *count;
                square[p * bins + bin] += *count * *count;
                let count = std::mem::take(count);
                windows[p] += if common.contains(&bin) { count } else { 0.0 };
            }
        }
        for (total, count) in in_window.iter_mut().zip(&mut windows) {
            total.0 += *count;
            total.1 += *count * *count;
            *count = 0.0;
        }
    }
    let events_of = |i: usize| bin_events[i % bins] as f64;
    let error = |(i, (sum, square)): (usize, (&f64, &f64))| {
        let n = events_of(i);
        let variance = (square - sum * sum / n).max(0.0) / (n - 1.0);
        (variance / n).sqrt() / window.bin_seconds
    };
    let n = aligned.ticks.len() as f64;
    let psth = Psth {
        name: events.name.clone(),
        events: aligned.ticks.len(),
        left_out: aligned.left_out,
        outside_segments: aligned.outside_segments,
        channels: channels.to_vec(),
        window: *window,
        bins,
        error_hz: (sum.iter().zip(&square).enumerate()).map(error).collect(),
        fano: (in_window.iter())
            .map(|&(sum, square)| (square / n - (sum / n).powi(2)).max(0.0) / (sum / n))
            .collect(),
        mean_hz: (sum.iter().enumerate())
            .map(|(i, sum)| sum / (events_of(i) * window.bin_seconds))
            .collect(),
    };
    Ok(TrialPsth {
        psth,
        bin_events,
        fano_bins: common,
    })
}

/// Spikes of one channel around events (a peri-event raster).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Raster {
    /// Name of the events.
    pub name: String,
    /// The channel.
    pub channel: usize,
    /// Number of events that were used: the rows of the raster.
    pub events: usize,
    /// Number of events whose window reaches beyond the recording; they are not used.
    pub left_out: usize,
    /// Row of each spike, ascending: the event's place among those used.
    pub rows: Vec<u32>,
    /// Time of each spike in seconds after its event; ascending in each row.
    pub seconds: Vec<f64>,
}

/// The spikes of `channel` around each of `events`. A bin of several spikes is one entry.
///
/// Allocates 12 bytes per spike in the windows.
///
/// # Errors
/// The errors of [`psth`].
///
/// ```
/// # use betz_recording::{Recording, Segment, SpikeForm, Spikes};
/// use betz_explore::{Events, Window, raster};
///
/// # fn main() -> betz_base::Result<()> {
/// # let recording = Recording {
/// #     tick_seconds: 0.001, ticks: 2_000, spikes: Spikes::new(vec![200, 1_200], vec![0, 0]),
/// #     channel_names: vec!["a".into()], behavior: None,
/// #     segments: vec![Segment { start: 0, stop: 1_000 }, Segment { start: 1_000, stop: 2_000 }],
/// #     electrode_um: None, form: SpikeForm::Events, meta: None,
/// # };
/// let window = Window { start_seconds: 0.0, stop_seconds: 0.5, bin_seconds: 0.1 };
/// let spikes = raster(&recording, 0, &Events::segment_starts(&recording), &window)?;
/// assert_eq!((spikes.rows, spikes.seconds), (vec![0, 1], vec![0.2, 0.2]));
/// # Ok(())
/// # }
/// ```
pub fn raster(
    recording: &Recording,
    channel: usize,
    events: &Events,
    window: &Window,
) -> Result<Raster> {
    check::spikes_of(recording, &[channel])?;
    let aligned = EventWindows::new(recording, events, window)?;
    let (first, last) = (aligned.edges[0], aligned.edges[aligned.edges.len() - 1]);
    let (mut rows, mut seconds) = (Vec::new(), Vec::new());
    for (row, event) in aligned.ticks.iter().enumerate() {
        for i in recording.spikes.range(event + first, event + last) {
            if recording.spikes.channels[i] as usize == channel {
                rows.push(row as u32);
                seconds.push((recording.spikes.ticks[i] - event) as f64 * recording.tick_seconds);
            }
        }
    }
    Ok(Raster {
        name: events.name.clone(),
        channel,
        events: aligned.ticks.len(),
        left_out: aligned.left_out,
        rows,
        seconds,
    })
}
