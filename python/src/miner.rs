//! Counts of episodes while spikes come.

use std::sync::{Mutex, MutexGuard, PoisonError};

use betz::episode::online::{OnlineMiner, ReminingOptions, WatchedEpisode};
use betz::episode::{Alphabet, Clock, Episode as RustEpisode};
use betz::text::count;
use betz::{Progress, Result};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arguments::{optional_seconds, seconds, texts, whole};
use crate::arrays::integers;
use crate::error::OrRaise;
use crate::mine::{Episode, delays_of, intervals};
use crate::shards::{EpisodeArgument, EpisodeName};
use crate::work;

/// Most episodes that are watched if the list is mined from a window.
const WATCHED: usize = 1000;
/// The window is mined so often per window, unless told otherwise.
const MINED_PER_WINDOW: i64 = 4;

/// Counts episodes spike by spike: given ones, or those that are frequent in a sliding window, which is mined again and again.
///
/// channels : number of channels, or their names. tick_seconds : seconds per tick.
/// episodes : those that `betz.mine` found, or lines such as "ch3 -(0.004,0.006]-> ch5".
/// delays, window_seconds, threshold, max_size : in place of them, the intervals (low, high] of delays, the length of the window,
/// and least count (None: 1) and longest size of the episodes in it. window_events : most events in the window, the newest.
/// every_seconds : time from one mining to the next; None: a quarter of the window.
///
/// >>> import betz
/// >>> recording, chains = betz.simulate.chains(seconds=10, seed=1)
/// >>> mined = betz.mine(recording, delays=[(0.004, 0.006)], threshold=60)
/// >>> miner = betz.Miner(recording.channel_names, recording.tick_seconds, episodes=mined.maximal)
/// >>> miner.push(recording.spike_ticks, recording.spike_channels) == len(recording.spike_ticks)
/// True
/// >>> [e.count for e in miner.episodes] == [e.count for e in mined.maximal]
/// True
#[pyclass(frozen, module = "betz")]
pub(crate) struct Miner {
    alphabet: Alphabet,
    state: Mutex<State>,
}

struct State {
    miner: OnlineMiner,
    remining: Option<ReminingOptions>,
    /// Tick at which the window is mined again.
    due: Option<i64>,
}

impl State {
    fn push(&mut self, ticks: &[i64], channels: &[i64], progress: &dyn Progress) -> Result<u64> {
        let mut taken = 0;
        for (&tick, &channel) in ticks.iter().zip(channels) {
            if let Some(remining) = &self.remining {
                let due = *(self.due).get_or_insert(tick.saturating_add(remining.every_ticks));
                if tick >= due {
                    self.miner.remine(remining, progress)?;
                    betz::progress::check(progress, "mining")?;
                    self.due = Some(tick.saturating_add(remining.every_ticks));
                }
            }
            // An unknown channel is counted as such.
            let symbol = u32::try_from(channel).unwrap_or(u32::MAX);
            taken += u64::from(self.miner.push(tick, symbol));
        }
        Ok(taken)
    }
}

#[pymethods]
impl Miner {
    #[new]
    #[pyo3(signature = (channels, tick_seconds, *, episodes=None, delays=None, window_seconds=None, threshold=None, max_size=6, window_events=1 << 20, every_seconds=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        channels: &Bound<'_, PyAny>,
        tick_seconds: &Bound<'_, PyAny>,
        episodes: Option<Vec<EpisodeArgument<'_>>>,
        delays: Option<&Bound<'_, PyAny>>,
        window_seconds: Option<&Bound<'_, PyAny>>,
        threshold: Option<&Bound<'_, PyAny>>,
        max_size: usize,
        window_events: usize,
        every_seconds: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let names = match channels.extract::<usize>() {
            Ok(number) => (0..number).map(|k| format!("ch{k}")).collect(),
            Err(_) => texts("channels", channels)?,
        };
        let tick_seconds = seconds("tick_seconds", tick_seconds)?;
        let clock = Clock::from_tick_seconds(tick_seconds).map_err(|e| e.at("tick_seconds"));
        let clock = clock.or_raise(py)?;
        let alphabet = Alphabet::new(names, clock).map_err(|e| e.at("channels"));
        let alphabet = alphabet.or_raise(py)?;
        let window = optional_seconds("window_seconds", window_seconds)?;
        let every = optional_seconds("every_seconds", every_seconds)?;
        let symbols = alphabet.labels().len();
        let state = match (episodes, delays) {
            (Some(episodes), None) => {
                let windowed = [
                    ("window_seconds", window.is_some()),
                    ("threshold", threshold.is_some()),
                    ("every_seconds", every.is_some()),
                ];
                if let Some((name, _)) = windowed.into_iter().find(|(_, given)| *given) {
                    return Err(PyTypeError::new_err(format!(
                        "{name}: expected delays= beside it, got episodes="
                    )));
                }
                let names = EpisodeName::of_all(episodes);
                let patterns = names.iter().map(|name| name.pattern(&alphabet));
                let patterns = patterns.collect::<Result<Vec<_>>>();
                let miner = patterns.and_then(|patterns| OnlineMiner::new(symbols, &patterns));
                State {
                    miner: miner.or_raise(py)?,
                    remining: None,
                    due: None,
                }
            }
            (None, Some(delays)) => {
                let delays = delays_of(delays)?;
                let threshold = threshold.map(|t| whole("threshold", t)).transpose()?;
                let window = window.ok_or_else(|| {
                    PyTypeError::new_err(
                        "window_seconds: expected seconds beside delays=, got none",
                    )
                })?;
                let opened = || -> Result<State> {
                    let ticks = |name: &str, seconds: f64| {
                        clock.ticks_floor(seconds).map_err(|e| e.at(name))
                    };
                    let window_ticks = ticks("window_seconds", window)?;
                    let remining = ReminingOptions {
                        window_ticks,
                        window_events,
                        every_ticks: match every {
                            Some(every) => ticks("every_seconds", every)?,
                            None => (window_ticks / MINED_PER_WINDOW).max(1),
                        },
                        intervals: intervals(&delays, clock)?,
                        threshold: threshold.unwrap_or(1) as u64,
                        min_size: 2,
                        max_size,
                        max_episodes: WATCHED,
                    };
                    remining.check()?;
                    let miner =
                        OnlineMiner::with_window(symbols, &[], window_ticks, window_events)?;
                    Ok(State {
                        miner,
                        remining: Some(remining),
                        due: None,
                    })
                };
                opened().or_raise(py)?
            }
            (given, _) => {
                let got = if given.is_some() { "both" } else { "neither" };
                return Err(PyTypeError::new_err(format!(
                    "expected episodes= to count, or delays= to mine a window, got {got}"
                )));
            }
        };
        Ok(Self {
            alphabet,
            state: Mutex::new(state),
        })
    }

    /// Counts spikes, in the order of time, as of a recording: `spike_ticks` and `spike_channels`. The number of those that were
    /// taken; late ones and unknown channels are refused, and counted by `late` and `invalid`.
    fn push(
        &self,
        py: Python<'_>,
        spike_ticks: &Bound<'_, PyAny>,
        spike_channels: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let ticks = integers("spike_ticks", spike_ticks)?;
        let channels = integers("spike_channels", spike_channels)?;
        if ticks.len() != channels.len() {
            return Err(PyValueError::new_err(format!(
                "spike_channels: expected one channel for each of {}, got {}",
                count(ticks.len() as u128, "spike"),
                channels.len()
            )));
        }
        work::run(py, None, |progress| {
            self.lock().push(&ticks, &channels, progress)
        })
    }

    /// The watched episodes with their counts until now, in the order given; of a window since it has begun to hold them.
    #[getter]
    fn episodes(&self, py: Python<'_>) -> PyResult<Vec<Py<Episode>>> {
        let watched = self.lock().miner.watched();
        self.listed(py, watched)
    }

    /// The `limit` watched episodes with the highest counts, highest first.
    #[pyo3(signature = (limit=10))]
    fn top(&self, py: Python<'_>, limit: usize) -> PyResult<Vec<Py<Episode>>> {
        let watched = self.lock().miner.top(limit);
        self.listed(py, watched)
    }

    /// Begins anew with the same list of episodes: counts are 0, and the window is empty.
    fn reset(&self) {
        let mut state = self.lock();
        state.miner.reset();
        state.due = None;
    }

    /// Number of spikes taken.
    #[getter]
    fn events(&self) -> u64 {
        self.lock().miner.stats().events
    }

    /// Number of spikes refused because an earlier one was later.
    #[getter]
    fn late(&self) -> u64 {
        self.lock().miner.stats().late
    }

    /// Number of spikes refused because their channel is unknown.
    #[getter]
    fn invalid(&self) -> u64 {
        self.lock().miner.stats().invalid
    }

    fn __repr__(&self) -> String {
        let state = self.lock();
        format!(
            "<betz.Miner: {} watched, {} of {}>",
            count(state.miner.patterns().len() as u128, "episode"),
            count(u128::from(state.miner.stats().events), "event"),
            count(self.alphabet.labels().len() as u128, "channel")
        )
    }
}

impl Miner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self, py: Python<'_>, watched: Vec<WatchedEpisode>) -> PyResult<Vec<Py<Episode>>> {
        let names = self.alphabet.labels();
        let episode = |watched: WatchedEpisode| {
            let found = RustEpisode {
                pattern: watched.pattern,
                count: watched.count,
            };
            Episode::of(py, &found, &self.alphabet, names)
        };
        watched.into_iter().map(episode).collect()
    }
}
