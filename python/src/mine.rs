//! Episode mining.

use std::collections::HashSet;

use betz::device::Device;
use betz::episode::count::{Counter, InMemory, LatestStart, Strategy};
use betz::episode::significance::ChainTest;
use betz::episode::{
    self as rust, Alphabet, Clock, Events, Frequency, Interval, MineOptions, Pattern,
};
use betz::text::count;
use betz::{Progress, Result};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::arguments::{FilePath, instance, optional_seconds, refused, whole};
use crate::chance::{Chance, ChanceArguments};
use crate::error::{OrRaise, warn};
use crate::mined_files::MinedFiles;
use crate::recording::{RECORDING, Recording};
use crate::shards::{EpisodeArgument, EpisodeName};
use crate::{options, work};

/// A frequent episode: who fires after whom, at which delay, and how often.
#[pyclass(frozen, module = "betz", get_all)]
pub(crate) struct Episode {
    /// Names of the channels, in the order in which they fire.
    pub(crate) channels: Vec<String>,
    /// Their numbers in the recording.
    numbers: Vec<usize>,
    /// The delay between neighbours in seconds, (low, high] of each.
    pub(crate) delays: Vec<(f64, f64)>,
    /// Number of occurrences: non-overlapped ones, unless `betz.mine` was asked for another `count`.
    count: u64,
    /// Mean count in surrogates; `None` if it was not tested.
    expected: Option<f64>,
    /// Share of surrogates with at least this count, at least 1 / (surrogates + 1); `None` if it was not tested.
    p: Option<f64>,
    /// False discovery rate of the list that ends with this episode; `None` if it was not tested.
    q: Option<f64>,
    /// The same of its weakest part; `None` if its parts were not tested.
    part_q: Option<f64>,
}

impl Episode {
    /// `found`, of symbols of `alphabet`, which are called as the channels `names` of a recording.
    pub(crate) fn of(
        py: Python<'_>,
        found: &rust::Episode,
        alphabet: &Alphabet,
        names: &[String],
    ) -> PyResult<Py<Self>> {
        Self::tested(py, found, None, alphabet, names)
    }

    /// [`Episode::of`] with the result of a test.
    fn tested(
        py: Python<'_>,
        found: &rust::Episode,
        test: Option<&ChainTest>,
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
                expected: test.map(|test| test.surrogates.expected),
                p: test.map(|test| test.surrogates.p),
                q: test.map(|test| test.surrogates.q),
                part_q: test
                    .and_then(|test| test.parts.as_ref())
                    .map(|parts| parts.q),
            },
        )
    }
}

/// Result of an episode's test: expected count, p, q, and q of the weakest part.
type EpisodeTest = [Option<f64>; 4];

/// A function that pickle calls, and an episode's own values.
type EpisodeParts<'py> = (
    Bound<'py, PyAny>,
    (Vec<String>, Vec<usize>, Vec<(f64, f64)>, u64, EpisodeTest),
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
        test: EpisodeTest,
    ) -> Self {
        let [expected, p, q, part_q] = test;
        Self {
            channels,
            numbers,
            delays,
            count,
            expected,
            p,
            q,
            part_q,
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<EpisodeParts<'py>> {
        let (make, own) = (slf.get_type().getattr("_of")?, slf.get());
        let (channels, numbers) = (own.channels.clone(), own.numbers.clone());
        let test = [own.expected, own.p, own.q, own.part_q];
        Ok((
            make,
            (channels, numbers, own.delays.clone(), own.count, test),
        ))
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
#[pyclass(frozen, module = "betz")]
pub(crate) struct Mined {
    /// Every frequent episode.
    #[pyo3(get)]
    episodes: Vec<Py<Episode>>,
    /// Episodes that are no contiguous part of a longer one.
    #[pyo3(get)]
    maximal: Vec<Py<Episode>>,
    /// Device of the counting.
    #[pyo3(get)]
    device: String,
    /// `None` after pickling.
    files: Option<MinedFiles>,
}

impl Mined {
    fn files(&self) -> PyResult<&MinedFiles> {
        self.files.as_ref().ok_or_else(|| {
            PyValueError::new_err(
                "files of mined episodes: expected the result that betz.mine returned, got a pickled copy; write before pickling",
            )
        })
    }
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
            files: None,
        }
    }

    /// Write all episodes to a table (.csv), as `betz mine --csv` does; `betz serve` shows it beside the recording.
    fn write_csv(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        self.files()?.write_csv(&path).or_raise(py)
    }

    /// Write the connectivity that the episodes imply (.dot or .graphml), as `betz mine --graph` does.
    fn write_graph(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        self.files()?.write_graph(&path).or_raise(py)
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

/// Intervals on a clock, from (low, high] in seconds.
pub(crate) fn intervals(delays: &[(f64, f64)], clock: Clock) -> Result<Vec<Interval>> {
    let intervals = delays.iter();
    intervals
        .map(|&(low, high)| Interval::from_seconds(low, high, clock).map_err(|e| e.at("delays")))
        .collect()
}

/// Delays as they are asked for: at least one (low, high].
pub(crate) fn delays_of(delays: &Bound<'_, PyAny>) -> PyResult<Vec<(f64, f64)>> {
    let found: Vec<(f64, f64)> = delays.extract().map_err(|_| {
        let expected = "a list of intervals (low, high) in seconds, such as [(0.004, 0.006)]";
        refused("delays", expected, delays)
    })?;
    if found.is_empty() {
        return Err(PyValueError::new_err(
            "delays: expected at least one interval (low, high) in seconds, got none",
        ));
    }
    Ok(found)
}

/// The episodes to count.
enum Targets {
    /// All that are frequent, over these delays.
    Frequent(Vec<(f64, f64)>, u64, Option<usize>),
    /// These.
    Given(Vec<EpisodeName>),
}

impl Targets {
    fn of(
        delays: Option<&Bound<'_, PyAny>>,
        threshold: Option<&Bound<'_, PyAny>>,
        max_size: Option<&Bound<'_, PyAny>>,
        episodes: Option<Vec<EpisodeArgument<'_>>>,
    ) -> PyResult<Self> {
        let Some(episodes) = episodes else {
            let missing = |name: &str, what: &str| {
                PyTypeError::new_err(format!("{name}: expected {what}, or episodes=, got none"))
            };
            let intervals = "intervals (low, high) in seconds";
            let delays = delays.ok_or_else(|| missing("delays", intervals))?;
            let threshold = threshold.ok_or_else(|| missing("threshold", "a count"))?;
            let max_size = max_size.map(|size| whole("max_size", size)).transpose()?;
            let threshold = whole("threshold", threshold)? as u64;
            return Ok(Self::Frequent(delays_of(delays)?, threshold, max_size));
        };
        let beside = [
            ("delays", delays),
            ("threshold", threshold),
            ("max_size", max_size),
        ];
        if let Some((name, _)) = beside.into_iter().find(|(_, given)| given.is_some()) {
            return Err(PyTypeError::new_err(format!(
                "{name}: expected none beside episodes=, which are counted whatever their counts are, got one"
            )));
        }
        if episodes.is_empty() {
            return Err(PyValueError::new_err(
                "episodes: expected at least one, got none",
            ));
        }
        Ok(Self::Given(EpisodeName::of_all(episodes)))
    }

    /// Checks that a search by `frequency` finds all.
    fn check(&self, frequency: Frequency) -> Result<()> {
        match self {
            Self::Frequent(..) => {
                let searched = frequency.check_search();
                searched.map_err(|e| e.at("count without episodes="))
            }
            Self::Given(_) => Ok(()),
        }
    }

    /// The longest delay in ticks, and the task.
    fn on(self, alphabet: &Alphabet) -> Result<(i64, CountTask)> {
        Ok(match self {
            Self::Frequent(delays, threshold, max_size) => {
                let intervals = intervals(&delays, alphabet.clock())?;
                let longest = intervals.iter().map(|i| i.high).max();
                let options = MineOptions {
                    max_size,
                    ..MineOptions::new(intervals, threshold)
                };
                (longest.unwrap_or(1), CountTask::Frequent(options))
            }
            Self::Given(names) => {
                let patterns = names.iter().map(|name| name.pattern(alphabet));
                let patterns = patterns.collect::<Result<Vec<_>>>()?;
                let edges = patterns.iter().flat_map(Pattern::intervals);
                let longest = edges.map(|i| i.high).max();
                (longest.unwrap_or(1), CountTask::Given(patterns))
            }
        })
    }
}

/// The frequency called `count`, with its span in ticks.
fn frequency(count: &str, span: Option<i64>) -> Result<Frequency> {
    Frequency::from_name(count, span).map_err(|e| e.at("count"))
}

/// A search or a list of episodes, on the clock of the events.
enum CountTask {
    Frequent(MineOptions),
    Given(Vec<Pattern>),
}

impl CountTask {
    fn count(self, counter: &dyn Counter, progress: &dyn Progress) -> Result<rust::MiningResult> {
        let patterns = match self {
            Self::Frequent(options) => return rust::mine_by(counter, &options, progress),
            Self::Given(patterns) => patterns,
        };
        let counts = counter.count(&patterns, None, progress)?;
        let episodes = patterns.into_iter().zip(counts);
        Ok(rust::MiningResult {
            episodes: episodes
                .map(|(pattern, count)| rust::Episode { pattern, count })
                .collect(),
            levels: Vec::new(),
            complete: true,
            ran: counter.ran(),
        })
    }
}

/// Every episode whose count of occurrences reaches `threshold`: exactly those. Or the counts of `episodes`.
///
/// delays : the set of intervals (low, high] in seconds from which each delay between neighbours is taken.
/// threshold : least count. max_size : length of the longest episode, or None.
/// episodes : in place of these three, the episodes to count: of an earlier result, or lines such as
/// "left -(0.004,0.006]-> right".
/// device : "cpu", "auto", "cuda", "cuda:1" or "cuda:all".
/// strategy : "latest-start", or a published one: "serial", "two-pass", "hybrid", "map-concat", "local-tracking",
/// "local-tracking-atomic", "local-tracking-flags". All give the same counts.
/// count : "non-overlapped" occurrences, "minimal" ones, "windows" that hold one, all "distinct" ones (of given episodes only),
/// or "total" frequency. All but the first run on the CPU. span_seconds : longest time from the first to the last event of an
/// occurrence, for "minimal" and "total"; the width of a window for "windows".
/// surrogates : number of surrogates in which the episodes are counted, too: each has `expected`, `p` and `q` then. None: no test.
/// dither_seconds : events of a surrogate are moved by up to so much; None: four times the longest delay.
/// shuffle : shuffle each channel's intervals between spikes instead. seed : seed of the surrogates.
/// fdr : keep only episodes whose q is at most this. parts : keep only those of which every part is significant, too.
/// progress : called as progress(stage, done, total), or None.
///
/// Spikes must be events (or counts, whose bins are then the clock). For shards of a recording's time, see `count`.
///
/// >>> import betz
/// >>> recording, chains = betz.simulate.chains(seconds=10, seed=1)
/// >>> mined = betz.mine(recording, delays=[(0.004, 0.006)], threshold=60)
/// >>> all(any(episode.numbers == chain for episode in mined.episodes) for chain in chains)
/// True
/// >>> tested = betz.mine(recording, delays=[(0.004, 0.006)], threshold=60, surrogates=99, fdr=0.05)
/// >>> max(episode.q for episode in tested.episodes) <= 0.05
/// True
#[pyfunction]
#[pyo3(signature = (recording, *, delays=None, threshold=None, max_size=None, episodes=None, device="cpu", strategy="latest-start", count="non-overlapped", span_seconds=None, surrogates=None, dither_seconds=None, shuffle=false, seed=1, fdr=None, parts=false, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn mine(
    py: Python<'_>,
    recording: &Bound<'_, PyAny>,
    delays: Option<&Bound<'_, PyAny>>,
    threshold: Option<&Bound<'_, PyAny>>,
    max_size: Option<&Bound<'_, PyAny>>,
    episodes: Option<Vec<EpisodeArgument<'_>>>,
    device: &str,
    strategy: &str,
    count: &str,
    span_seconds: Option<&Bound<'_, PyAny>>,
    surrogates: Option<&Bound<'_, PyAny>>,
    dither_seconds: Option<&Bound<'_, PyAny>>,
    shuffle: bool,
    seed: i64,
    fdr: Option<&Bound<'_, PyAny>>,
    parts: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Mined> {
    let recording = instance::<Recording>("recording", RECORDING, recording)?;
    let targets = Targets::of(delays, threshold, max_size, episodes)?;
    let span_seconds = optional_seconds("span_seconds", span_seconds)?;
    // Its span is not on a clock yet.
    let asked = frequency(count, span_seconds.map(|_| 1)).or_raise(py)?;
    let chance = ChanceArguments {
        surrogates,
        dither_seconds,
        shuffle,
        seed,
        fdr,
        parts,
    };
    let chance = Chance::of(py, &chance, asked)?;
    targets.check(asked).or_raise(py)?;
    let auto = device == "auto";
    let mut device = options::device(py, device)?;
    let published = betz_episode_published::strategy_on(strategy, &device)
        .map_err(|e| e.at("strategy"))
        .or_raise(py)?;
    if asked != Frequency::NonOverlapped {
        if strategy != LatestStart.name() {
            return Err(PyValueError::new_err(format!(
                "strategy: expected none beside count={count:?}, which has a method of its own, got {strategy:?}"
            )));
        }
        if !device.is_cpu() {
            if !auto {
                let message = format!(
                    "count={count:?} runs on the CPU; {} is there but not used",
                    device.name()
                );
                warn(py, message)?;
            }
            device = Device::cpu();
        }
    }
    let inner = recording.get().inner.clone();
    let (events, mined, tests, none_passed) = work::run(py, progress, |progress| {
        let events = Events::from_recording(&inner)?;
        let (longest, wanted) = targets.on(events.alphabet())?;
        let ticks = span_seconds.map(|seconds| events.clock().ticks_floor(seconds));
        let ticks = ticks.transpose().map_err(|e| e.at("span_seconds"))?;
        let frequency = frequency(count, ticks)?;
        frequency.check(&events).map_err(|e| e.at("span_seconds"))?;
        let chance = chance.as_ref();
        let chance = chance.map(|chance| chance.on(&events, frequency, longest));
        let chance = chance.transpose()?;
        let counter = InMemory {
            events: &events,
            strategy: match &frequency {
                Frequency::NonOverlapped => &*published,
                other => other,
            },
        };
        let mut mined = wanted.count(&counter, progress)?;
        betz::progress::check(progress, "mining")?;
        let (tests, none_passed) = match &chance {
            Some(chance) => chance.run(&events, &device, &mut mined, progress)?,
            None => (vec![None; mined.episodes.len()], None),
        };
        Ok((events, mined, tests, none_passed))
    })?;
    if let Some(message) = none_passed {
        warn(py, message)?;
    }
    let columns = match (parts, surrogates.is_some()) {
        (true, _) => rust::TableColumns::Parts,
        (false, true) => rust::TableColumns::Surrogates,
        (false, false) => rust::TableColumns::Counts,
    };
    let names = &inner.channel_names;
    let all = mined.episodes.iter().zip(&tests);
    let all = all.map(|(e, test)| Episode::tested(py, e, test.as_ref(), events.alphabet(), names));
    let all = all.collect::<PyResult<Vec<_>>>()?;
    let maximal: HashSet<*const rust::Episode> = mined
        .maximal()
        .into_iter()
        .map(std::ptr::from_ref)
        .collect();
    let is_maximal = |e: &rust::Episode| maximal.contains(&std::ptr::from_ref(e));
    let pairs = mined.episodes.iter().zip(&all);
    Ok(Mined {
        maximal: (pairs.filter(|(e, _)| is_maximal(e)))
            .map(|(_, episode)| episode.clone_ref(py))
            .collect(),
        episodes: all,
        device: mined.ran.device.clone(),
        files: Some(MinedFiles {
            alphabet: events.alphabet().clone(),
            episodes: mined.episodes,
            tests,
            columns,
        }),
    })
}
