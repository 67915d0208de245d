//! Episode mining.

use betz::episode::{self as rust, Alphabet, Events, Interval, MineOptions};
use betz::text::count;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::arguments::{instance, refused, whole};
use crate::recording::{RECORDING, Recording};
use crate::work;

/// A frequent episode: who fires after whom, at which delay, and how often.
#[pyclass(frozen, module = "betz", get_all)]
pub(crate) struct Episode {
    /// Names of the channels, in the order in which they fire.
    pub(crate) channels: Vec<String>,
    /// Their numbers in the recording.
    numbers: Vec<usize>,
    /// The delay between neighbours in seconds, (low, high] of each.
    pub(crate) delays: Vec<(f64, f64)>,
    /// Non-overlapped occurrences.
    count: u64,
}

impl Episode {
    /// `found`, of symbols of `alphabet`, which are called as the channels `names` of a recording.
    pub(crate) fn of(
        py: Python<'_>,
        found: &rust::Episode,
        alphabet: &Alphabet,
        names: &[String],
    ) -> PyResult<Py<Self>> {
        let symbols = found.pattern.symbols().iter();
        let channels: Vec<String> = symbols.map(|&s| alphabet.label(s).to_owned()).collect();
        let number = |name: &String| names.iter().position(|n| n == name);
        let seconds = |ticks| alphabet.clock().seconds(ticks);
        let delays = found.pattern.intervals().iter();
        Py::new(
            py,
            Self {
                numbers: channels.iter().filter_map(number).collect(),
                delays: delays
                    .map(|delay| (seconds(delay.low), seconds(delay.high)))
                    .collect(),
                channels,
                count: found.count,
            },
        )
    }
}

/// A function that pickle calls, and an episode's own values.
type EpisodeParts<'py> = (
    Bound<'py, PyAny>,
    (Vec<String>, Vec<usize>, Vec<(f64, f64)>, u64),
);

/// A function that pickle calls, and what `Mined` holds.
type MinedParts<'py> = (
    Bound<'py, PyAny>,
    (Vec<Py<Episode>>, Vec<Py<Episode>>, String),
);

#[pymethods]
impl Episode {
    /// The episode of its values, for pickle.
    #[classmethod]
    fn _of(
        _class: &Bound<'_, PyType>,
        channels: Vec<String>,
        numbers: Vec<usize>,
        delays: Vec<(f64, f64)>,
        count: u64,
    ) -> Self {
        Self {
            channels,
            numbers,
            delays,
            count,
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<EpisodeParts<'py>> {
        let (make, own) = (slf.get_type().getattr("_of")?, slf.get());
        let (channels, numbers) = (own.channels.clone(), own.numbers.clone());
        Ok((make, (channels, numbers, own.delays.clone(), own.count)))
    }

    fn __len__(&self) -> usize {
        self.channels.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.Episode: {} × {}>",
            self.count,
            self.channels.join(" → ")
        )
    }
}

/// Result of mining: `episodes`, by size.
#[pyclass(frozen, module = "betz", get_all)]
pub(crate) struct Mined {
    /// Every frequent episode.
    episodes: Vec<Py<Episode>>,
    /// Episodes that are no contiguous part of a longer one.
    maximal: Vec<Py<Episode>>,
    /// Device of the counting.
    device: String,
}

#[pymethods]
impl Mined {
    /// The result of its values, for pickle.
    #[classmethod]
    fn _of(
        _class: &Bound<'_, PyType>,
        episodes: Vec<Py<Episode>>,
        maximal: Vec<Py<Episode>>,
        device: String,
    ) -> Self {
        Self {
            episodes,
            maximal,
            device,
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<MinedParts<'py>> {
        let (make, own) = (slf.get_type().getattr("_of")?, slf.get());
        let shared = |list: &[Py<Episode>]| -> Vec<Py<Episode>> {
            list.iter().map(|e| e.clone_ref(slf.py())).collect()
        };
        let lists = (shared(&own.episodes), shared(&own.maximal));
        Ok((make, (lists.0, lists.1, own.device.clone())))
    }

    fn __len__(&self) -> usize {
        self.episodes.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.Mined: {}, {} of them maximal>",
            count(self.episodes.len() as u128, "episode"),
            self.maximal.len()
        )
    }
}

/// Every episode whose count of non-overlapped occurrences reaches `threshold`: exactly those.
///
/// `delays`: the set of intervals (low, high] in seconds from which each delay between neighbours is taken;
/// `max_size`: longest episode. Spikes must be events (or counts, whose bins are then the clock).
///
/// >>> import betz
/// >>> recording, chains = betz.simulate.chains(seconds=10, seed=1)
/// >>> mined = betz.mine(recording, delays=[(0.004, 0.006)], threshold=60)
/// >>> all(any(episode.numbers == chain for episode in mined.episodes) for chain in chains)
/// True
#[pyfunction]
#[pyo3(signature = (recording, *, delays, threshold, max_size=None, progress=None))]
pub(crate) fn mine(
    py: Python<'_>,
    recording: &Bound<'_, PyAny>,
    delays: &Bound<'_, PyAny>,
    threshold: &Bound<'_, PyAny>,
    max_size: Option<&Bound<'_, PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Mined> {
    let recording = instance::<Recording>("recording", RECORDING, recording)?;
    let delays: Vec<(f64, f64)> = delays.extract().map_err(|_| {
        let expected = "a list of intervals (low, high) in seconds, such as [(0.004, 0.006)]";
        refused("delays", expected, delays)
    })?;
    if delays.is_empty() {
        return Err(PyValueError::new_err(
            "delays: expected at least one interval (low, high) in seconds, got none",
        ));
    }
    let threshold = whole("threshold", threshold)? as u64;
    let max_size = max_size.map(|size| whole("max_size", size)).transpose()?;
    let inner = recording.get().inner.clone();
    let (events, mined) = work::run(py, progress, |progress| {
        let events = Events::from_recording(&inner)?;
        let intervals: betz::Result<Vec<Interval>> = (delays.iter())
            .map(|&(low, high)| Interval::from_seconds(low, high, events.clock()))
            .collect();
        let options = MineOptions {
            max_size,
            ..MineOptions::new(intervals?, threshold)
        };
        let mined = rust::mine(&events, &options, progress)?;
        betz::progress::check(progress, "mining")?;
        Ok((events, mined))
    })?;
    let names = &inner.channel_names;
    let episode = |found: &rust::Episode| Episode::of(py, found, events.alphabet(), names);
    let maximal = mined.maximal().into_iter().map(episode);
    Ok(Mined {
        maximal: maximal.collect::<PyResult<_>>()?,
        episodes: mined
            .episodes
            .iter()
            .map(episode)
            .collect::<PyResult<_>>()?,
        device: mined.ran.device.clone(),
    })
}
