//! Episodes of a recording, mined anew in window after window.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_episode::online::ReminingOptions;
use betz_episode::{
    Clock, Episode, Events, Interval, MineOptions, Pattern, Row, mine, occurrences,
};
use betz_recording::{Recording, Segment, SpikeForm, Spikes};
use serde_json::{Value, json};

use crate::explore::episodes::{MOST, told};
use crate::explore::recorded::DecodedRecording;

/// Largest number of episodes that a window's answer lists.
const MOST_LISTED: usize = 100;
/// Largest number of symbols of an episode.
const MOST_SYMBOLS: usize = 32;
/// Largest number of candidates of one size.
const MOST_CANDIDATES: u64 = 20_000_000;

/// Request to mine windows of a recording.
#[derive(Debug, Clone)]
pub(crate) struct WindowRequest {
    pub(crate) window_seconds: f64,
    /// Time from the start of a window to the start of the next.
    pub(crate) step_seconds: f64,
    /// Allowed delays between consecutive spikes, in seconds: low < delay <= high.
    pub(crate) intervals: Vec<[f64; 2]>,
    /// Count from which an episode is frequent in a window.
    pub(crate) threshold: u64,
    /// Size of the longest episodes.
    pub(crate) max_size: usize,
}

impl WindowRequest {
    /// Reads `low,high,low,high` in seconds.
    ///
    /// # Errors
    /// `InvalidArgument` unless there are pairs of numbers.
    pub(crate) fn read_intervals(text: &str) -> Result<Vec<[f64; 2]>> {
        let numbers: Vec<f64> = (text.split(','))
            .map(|n| n.trim().parse().map_err(|_| n))
            .collect::<std::result::Result<_, _>>()
            .map_err(|n| {
                Error::argument(format!(
                    "intervals: expected seconds, got {n:?} in {text:?}"
                ))
            })?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Error::argument(format!(
                "intervals: expected pairs LOW,HIGH, got {} numbers",
                numbers.len()
            )));
        }
        Ok(pairs.to_vec())
    }
}

/// Mines any window of a recording.
pub(crate) struct WindowMiner<'a> {
    recorded: &'a DecodedRecording,
    clock: Clock,
    /// Length of the recording in ticks of the clock.
    ticks: i64,
    remining: ReminingOptions,
}

/// The frequent episodes of a window.
pub(crate) struct MinedWindow {
    /// Events in the window; `None` without any.
    events: Option<Events>,
    /// Longer episodes first, then those with higher counts.
    pub(crate) episodes: Vec<Episode>,
}

/// Passes on requests to stop, and stops a search of too many candidates.
struct CandidateLimit<'a> {
    progress: &'a dyn Progress,
    most: AtomicU64,
}

impl Progress for CandidateLimit<'_> {
    fn update(&self, _stage: &str, _done: u64, total: u64) {
        self.most.fetch_max(total, Ordering::Relaxed);
    }

    fn cancelled(&self) -> bool {
        self.most.load(Ordering::Relaxed) > MOST_CANDIDATES || self.progress.cancelled()
    }
}

impl<'a> WindowMiner<'a> {
    /// # Errors
    /// `InvalidArgument` for lengths, intervals or limits that make no sense together, and for a recording of a signal.
    pub(crate) fn new(recorded: &'a DecodedRecording, request: &WindowRequest) -> Result<Self> {
        let dataset = &recorded.dataset;
        let tick_seconds =
            (recorded.times.as_ref()).map_or(dataset.step_seconds, |t| t.tick_seconds);
        let clock = Clock::from_tick_seconds(tick_seconds)?;
        let length = dataset.steps as f64 * dataset.step_seconds;
        for (name, seconds) in [
            ("window", request.window_seconds),
            ("step", request.step_seconds),
        ] {
            if !(seconds >= tick_seconds && seconds.is_finite()) {
                return Err(Error::argument(format!(
                    "{name}: expected at least one tick of {tick_seconds} s, got {seconds} s"
                )));
            }
        }
        if request.max_size > MOST_SYMBOLS {
            return Err(Error::argument(format!(
                "longest episode: expected at most {MOST_SYMBOLS} spikes, got {}",
                request.max_size
            )));
        }
        let ticks = clock.nearest(length).max(1);
        let intervals = (request.intervals.iter())
            .map(|[low, high]| Interval::from_seconds(*low, *high, clock))
            .collect::<Result<_>>()?;
        let remining = ReminingOptions {
            window_ticks: clock.nearest(request.window_seconds).min(ticks),
            window_events: usize::MAX,
            every_ticks: clock.nearest(request.step_seconds),
            intervals,
            threshold: request.threshold,
            min_size: 2,
            max_size: request.max_size,
            max_episodes: MOST_LISTED,
        };
        remining.check()?;
        Ok(Self {
            recorded,
            clock,
            ticks,
            remining,
        })
    }

    /// Number of windows.
    pub(crate) fn len(&self) -> i64 {
        let after = self.ticks - self.remining.window_ticks;
        after.div_euclid(self.remining.every_ticks)
            + i64::from(after % self.remining.every_ticks != 0)
            + 1
    }

    /// First tick of a window, and the tick after its last. The last window ends with the recording.
    ///
    /// # Errors
    /// `InvalidArgument` for a window that does not exist.
    fn bounds(&self, window: i64) -> Result<[i64; 2]> {
        if !(0..self.len()).contains(&window) {
            return Err(Error::argument(format!(
                "expected one of {} windows, got number {window}",
                self.len()
            )));
        }
        let last = self.ticks - self.remining.window_ticks;
        let from = window.saturating_mul(self.remining.every_ticks).min(last);
        Ok([from, from + self.remining.window_ticks])
    }

    /// The spikes between two ticks as a recording that begins at the first.
    fn cut(&self, [from, to]: [i64; 2]) -> Result<Recording> {
        let dataset = &self.recorded.dataset;
        let all = &dataset.spikes;
        let mut spikes = Spikes::default();
        let segments = match &self.recorded.times {
            Some(times) => {
                let per_step = dataset.step_seconds / times.tick_seconds;
                // One step more on both sides, because rounding may move a spike to the next tick.
                let first = (from as f64 / per_step).floor() as i64 - 1;
                let last = (to as f64 / per_step).ceil() as i64 + 1;
                let within = all.range(first, last);
                let mut pairs: Vec<(i64, u32)> = within
                    .map(|i| {
                        let steps = all.ticks[i] as f64 + f64::from(times.offsets[i]);
                        ((steps * per_step).round() as i64, all.channels[i])
                    })
                    .filter(|(tick, _)| (from..to).contains(tick))
                    .map(|(tick, channel)| (tick - from, channel))
                    .collect();
                pairs.sort_unstable();
                (spikes.ticks, spikes.channels) = pairs.into_iter().unzip();
                &times.segments
            }
            None => {
                spikes.extend_from(all, all.range(from, to));
                spikes.ticks.iter_mut().for_each(|tick| *tick -= from);
                &dataset.segments
            }
        };
        let odd = (spikes.weights.iter()).find(|w| !(**w >= 0.0 && w.fract() == 0.0));
        if let Some(odd) = odd {
            return Err(Error::argument(format!(
                "episodes are of spikes: expected spike times or counts, got a value of {odd}"
            )));
        }
        let clipped = segments.iter().map(|s| Segment {
            start: s.start.max(from) - from,
            stop: s.stop.min(to) - from,
        });
        Ok(Recording {
            tick_seconds: self.clock.tick_seconds(),
            ticks: to - from,
            form: match spikes.weights.is_empty() {
                true => SpikeForm::Events,
                false => SpikeForm::Counts,
            },
            spikes,
            channel_names: dataset.channel_names.clone(),
            behavior: None,
            segments: clipped.filter(|s| s.start < s.stop).collect(),
            electrode_um: None,
            meta: None,
        })
    }

    /// Events of a window; `None` if it has none in trials.
    fn events(&self, window: i64) -> Result<Option<Events>> {
        let cut = self.cut(self.bounds(window)?)?;
        let outside = cut.segments.is_empty() && !self.recorded.dataset.segments.is_empty();
        if outside || cut.spikes.is_empty() {
            return Ok(None);
        }
        match Events::from_recording(&cut) {
            Err(e) if e.kind() == ErrorKind::InsufficientData => Ok(None),
            events => events.map(Some),
        }
    }

    /// Mines a window; `None` if `progress` cancelled.
    ///
    /// # Errors
    /// The errors of [`mine`]; `InvalidArgument` for a window that does not exist, or if there are too many candidates.
    pub(crate) fn mine(&self, window: i64, progress: &dyn Progress) -> Result<Option<MinedWindow>> {
        let Some(events) = self.events(window)? else {
            return Ok(Some(MinedWindow {
                events: None,
                episodes: Vec::new(),
            }));
        };
        let mut options =
            MineOptions::new(self.remining.intervals.clone(), self.remining.threshold);
        options.max_size = Some(self.remining.max_size);
        let bounded = CandidateLimit {
            progress,
            most: AtomicU64::new(0),
        };
        let mined = mine(&events, &options, &bounded)?;
        let candidates = bounded.most.into_inner();
        if candidates > MOST_CANDIDATES {
            return Err(Error::argument(format!(
                "window {window}: expected at most {MOST_CANDIDATES} candidates of one size, got {candidates}: raise the least count"
            )));
        }
        if !mined.complete {
            return Ok(None);
        }
        let mut episodes = mined.episodes;
        episodes.retain(|e| e.pattern.size() >= self.remining.min_size);
        episodes.sort_by(|a, b| {
            let rank = |e: &Episode| (Reverse(e.pattern.size()), Reverse(e.count));
            (rank(a).cmp(&rank(b))).then_with(|| a.pattern.cmp(&b.pattern))
        });
        Ok(Some(MinedWindow {
            events: Some(events),
            episodes,
        }))
    }

    /// A mined window as JSON: its time in seconds of the recording, and its first episodes. `edges` has the number of
    /// the interval of each delay.
    pub(crate) fn json(&self, window: i64, mined: &MinedWindow) -> Result<Value> {
        let [from, to] = self.bounds(window)?;
        let Some(events) = &mined.events else {
            let nothing: [u8; 0] = [];
            return Ok(json!({
                "window": window, "of": self.len(), "from": self.clock.seconds(from), "to": self.clock.seconds(to),
                "spikes": 0, "frequent": 0, "episodes": nothing,
            }));
        };
        let listed: Vec<Value> = (mined.episodes.iter().take(MOST_LISTED))
            .map(|episode| {
                let number = |i: &Interval| self.remining.intervals.iter().position(|o| o == i);
                let edges: Vec<_> = episode.pattern.intervals().iter().map(number).collect();
                let row = Row {
                    episode: episode.clone(),
                    tested: None,
                };
                let mut row = told(&row, events.alphabet());
                row["edges"] = json!(edges);
                row
            })
            .collect();
        Ok(json!({
            "window": window, "of": self.len(), "from": self.clock.seconds(from), "to": self.clock.seconds(to),
            "spikes": events.len(), "frequent": mined.episodes.len(), "episodes": listed,
        }))
    }

    /// Times of the spikes of every occurrence of an episode in a window, in seconds of the recording. `edges` has the
    /// number of the interval of each delay.
    ///
    /// # Errors
    /// `InvalidArgument` for a window or an interval that does not exist; `Mismatch` for channels that the recording
    /// does not have.
    pub(crate) fn occurrences(
        &self,
        window: i64,
        symbols: &[u32],
        edges: &[usize],
    ) -> Result<Value> {
        let intervals = edges.iter().map(|e| {
            self.remining.intervals.get(*e).copied().ok_or_else(|| {
                Error::argument(format!(
                    "edges: expected one of {} intervals, got number {e}",
                    self.remining.intervals.len()
                ))
            })
        });
        let pattern = Pattern::new(symbols.to_vec(), intervals.collect::<Result<_>>()?)?;
        let [from, _] = self.bounds(window)?;
        let Some(events) = self.events(window)? else {
            let nothing: [u8; 0] = [];
            return Ok(json!({"total": 0, "times": nothing}));
        };
        let found = occurrences(&events, &pattern)?;
        let tick = self.clock.tick_seconds();
        let second =
            |t: &i64| ((events.recording_tick(*t) + from) as f64 * tick * 1e6).round() / 1e6;
        let times: Vec<Vec<f64>> = (found.iter().take(MOST))
            .map(|ticks| ticks.iter().map(second).collect())
            .collect();
        Ok(json!({"total": found.len(), "times": times}))
    }
}
