//! Moments to align to, and the window around each.

use std::ops::Range;

use betz_base::{Error, Result};
use betz_recording::{Recording, Segment, SpikeForm};

use crate::check;

/// A deviation from a whole tick, in ticks, that is rounding and no fraction.
const ROUNDING: f64 = 1e-6;

/// Moments in ticks of a recording, such as the starts of its trials.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Events {
    /// Name, such as `starts`.
    pub name: String,
    /// The ticks, in any order; those outside the recording are counted and left out by what uses them.
    pub ticks: Vec<i64>,
}

impl Events {
    /// The first tick of each segment (trial).
    pub fn segment_starts(recording: &Recording) -> Self {
        Self {
            name: "starts".into(),
            ticks: recording.segments.iter().map(|s| s.start).collect(),
        }
    }

    /// The end of each segment (trial): the first tick after it.
    pub fn segment_stops(recording: &Recording) -> Self {
        Self {
            name: "stops".into(),
            ticks: recording.segments.iter().map(|s| s.stop).collect(),
        }
    }

    /// Moments in seconds from the recording's start, each rounded to the nearest tick.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a time that is not finite.
    ///
    /// ```
    /// # use betz_recording::{Recording, Segment, SpikeForm, Spikes};
    /// # fn main() -> betz_base::Result<()> {
    /// # let recording = Recording {
    /// #     tick_seconds: 0.001, ticks: 2_000, spikes: Spikes::default(), channel_names: vec!["a".into()],
    /// #     behavior: None, segments: vec![Segment { start: 0, stop: 2_000 }], electrode_um: None,
    /// #     form: SpikeForm::Events, meta: None,
    /// # };
    /// let cues = betz_explore::Events::from_seconds(&recording, "cue", &[0.25, 1.5])?;
    /// assert_eq!(cues.ticks, [250, 1_500]); // a tick of this recording is 1 ms
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_seconds(recording: &Recording, name: &str, seconds: &[f64]) -> Result<Self> {
        let tick = |(i, seconds): (usize, &f64)| match seconds.is_finite() {
            true => Ok((seconds / recording.tick_seconds).round() as i64),
            false => Err(Error::argument(format!(
                "events `{name}`: expected finite times in seconds, got {seconds} as number {i}"
            ))
            .with_position(i)),
        };
        Ok(Self {
            name: name.to_owned(),
            ticks: seconds
                .iter()
                .enumerate()
                .map(tick)
                .collect::<Result<_>>()?,
        })
    }
}

impl Events {
    /// Ticks of the events whose window lies inside the recording, in the order given. [`psth`](crate::psth) and
    /// [`raster`](crate::raster) use these events.
    ///
    /// # Errors
    /// [`psth`](crate::psth) lists them for events and windows.
    ///
    /// ```
    /// # use betz_recording::{Recording, Segment, SpikeForm, Spikes};
    /// use betz_explore::{Events, Window};
    ///
    /// # fn main() -> betz_base::Result<()> {
    /// # let recording = Recording {
    /// #     tick_seconds: 0.001, ticks: 2_000, spikes: Spikes::default(), channel_names: vec!["a".into()],
    /// #     behavior: None, segments: vec![Segment { start: 0, stop: 2_000 }], electrode_um: None,
    /// #     form: SpikeForm::Events, meta: None,
    /// # };
    /// let cues = Events::from_seconds(&recording, "cue", &[0.1, 0.6])?;
    /// let used = cues.ticks_inside(&recording, &Window::default())?; // from 0.5 s before each cue
    /// assert_eq!(used, [600]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ticks_inside(&self, recording: &Recording, window: &Window) -> Result<Vec<i64>> {
        EventWindows::new(recording, self, window).map(|windows| windows.ticks)
    }

    /// Places among all events of those that [`Self::ticks_inside`] gives.
    ///
    /// # Errors
    /// The errors of [`Self::ticks_inside`].
    pub fn places_inside(&self, recording: &Recording, window: &Window) -> Result<Vec<usize>> {
        EventWindows::new(recording, self, window).map(|windows| windows.places)
    }
}

/// The time around each event, half-open, in bins: bin k covers
/// `[start + k · bin, start + (k + 1) · bin)` seconds after the event.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Window {
    /// Start in seconds after the event; negative: before it.
    pub start_seconds: f64,
    /// End in seconds after the event.
    pub stop_seconds: f64,
    /// Length of a bin in seconds. The window is a whole number of bins.
    pub bin_seconds: f64,
}

/// Half a second before the event to a second after it, in bins of 10 ms.
impl Default for Window {
    fn default() -> Self {
        Self {
            start_seconds: -0.5,
            stop_seconds: 1.0,
            bin_seconds: 0.01,
        }
    }
}

impl Window {
    /// Number of bins.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) unless start < stop, and the window is a
    /// whole number of bins of a positive length.
    ///
    /// ```
    /// # fn main() -> betz_base::Result<()> {
    /// assert_eq!(betz_explore::Window::default().bins()?, 150);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bins(&self) -> Result<usize> {
        let (start, stop) = (self.start_seconds, self.stop_seconds);
        check::positive("bin", self.bin_seconds)?;
        if !(start.is_finite() && stop.is_finite() && start < stop) {
            return Err(Error::argument(format!(
                "window: expected finite times, the start before the end, got {start} s to {stop} s"
            )));
        }
        let bins = (stop - start) / self.bin_seconds;
        let whole = bins.round();
        if whole < 1.0 || (bins - whole).abs() > ROUNDING * whole.max(1.0) {
            return Err(Error::argument(format!(
                "window of {start} s to {stop} s: expected a whole number of bins of {} s, got {bins}; change the bin or the window",
                self.bin_seconds
            )));
        }
        check::values("window", 1, whole as usize)
    }

    /// Start of each bin and the end of the last, in ticks after the event: a tick belongs to the bin that holds its
    /// time.
    pub(crate) fn edges(&self, recording: &Recording) -> Result<Vec<i64>> {
        let (bins, tick) = (self.bins()?, recording.tick_seconds);
        if recording.form == SpikeForm::Counts {
            for (name, seconds) in [("bin", self.bin_seconds), ("window", self.start_seconds)] {
                let ticks = seconds / tick;
                if (ticks - ticks.round()).abs() > ROUNDING * ticks.abs().max(1.0) {
                    return Err(Error::argument(format!(
                        "{name} of {seconds} s: expected a multiple of the recording's bin of {tick} s"
                    )));
                }
            }
        } else if self.bin_seconds < tick * (1.0 - ROUNDING) {
            return Err(Error::argument(format!(
                "bin of {} s: expected at least the recording's tick of {tick} s",
                self.bin_seconds
            )));
        }
        let edge = |k: usize| {
            let ticks = (self.start_seconds + k as f64 * self.bin_seconds) / tick;
            (ticks - ROUNDING).ceil() as i64
        };
        Ok((0..=bins).map(edge).collect())
    }
}

/// Events whose window lies inside the recording.
pub(crate) struct EventWindows {
    /// Ticks of these events, in the order given.
    pub(crate) ticks: Vec<i64>,
    /// Place of each of them among all events.
    pub(crate) places: Vec<usize>,
    /// Bins as ticks after the event.
    pub(crate) edges: Vec<i64>,
    /// Events whose window reaches beyond the recording.
    pub(crate) left_out: usize,
    /// Events whose window reaches into time that no segment covers.
    pub(crate) outside_segments: usize,
}

impl EventWindows {
    pub(crate) fn new(recording: &Recording, events: &Events, window: &Window) -> Result<Self> {
        let edges = window.edges(recording)?;
        let (first, last) = (edges[0], edges[edges.len() - 1]);
        let inside = |tick: &i64| {
            tick.checked_add(first).is_some_and(|start| start >= 0)
                && tick
                    .checked_add(last)
                    .is_some_and(|stop| stop <= recording.ticks)
        };
        let used = events.ticks.iter().copied().enumerate();
        let (places, ticks): (Vec<usize>, Vec<i64>) = used.filter(|(_, tick)| inside(tick)).unzip();
        if ticks.is_empty() {
            return Err(Error::new(
                betz_base::ErrorKind::InsufficientData,
                format!(
                    "events `{}`: expected at least one with its window of {} s to {} s inside the recording of {} s, got none of {}",
                    events.name,
                    window.start_seconds,
                    window.stop_seconds,
                    recording.seconds(),
                    events.ticks.len()
                ),
            ));
        }
        let outside = |tick: &&i64| !covered(recording, **tick + first, **tick + last);
        Ok(Self {
            left_out: events.ticks.len() - ticks.len(),
            outside_segments: ticks.iter().filter(outside).count(),
            ticks,
            places,
            edges,
        })
    }

    /// Bins of the event at `tick` that lie wholly inside `own`, in ticks of the recording.
    pub(crate) fn bins_inside(&self, tick: i64, own: &Segment) -> Range<usize> {
        let first = self.edges.partition_point(|edge| tick + edge < own.start);
        let end = self.edges.partition_point(|edge| tick + edge <= own.stop);
        first..end.saturating_sub(1).max(first)
    }
}

/// True if segments cover every tick of `start..stop`.
fn covered(recording: &Recording, start: i64, stop: i64) -> bool {
    let segments = &recording.segments;
    let mut at = start;
    let mut next = segments.partition_point(|s| s.stop <= start);
    while at < stop {
        match segments.get(next) {
            Some(segment) if segment.start <= at => at = segment.stop,
            _ => return false,
        }
        next += 1;
    }
    true
}
