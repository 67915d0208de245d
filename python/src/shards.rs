//! Shards: the part of a network or of episodes' counts that one machine computes, and how the parts are joined.

use betz::episode::count::{CountPart as RustCountPart, ShardEvents};
use betz::episode::{Alphabet, Interval, Pattern};
use betz::network::file::Part;
use betz::text;
use betz::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyType};

use crate::arguments::FilePath;
use crate::error::OrRaise;
use crate::mine::Episode;
use crate::network::Network;
use crate::parts::{self, NetworkPart, PickleParts};
use crate::work;

/// Default bytes of the chunk in memory.
const MEMORY: u64 = 1 << 30;

/// Counts of episodes in one shard of a recording's time; [`betz.join`] makes the whole counts. It pickles.
#[pyclass(frozen, module = "betz")]
pub(crate) struct CountPart {
    inner: RustCountPart,
}

#[pymethods]
impl CountPart {
    /// The part in the bytes of a file.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let inner = work::detach(py, || RustCountPart::from_bytes(bytes)).or_raise(py)?;
        Ok(Self { inner })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py>> {
        let make = slf.get_type().getattr("from_bytes")?;
        Ok((make, (PyBytes::new(slf.py(), &slf.get().inner.to_bytes()),)))
    }

    /// Writes the file that `betz join` takes.
    fn save(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        work::detach(py, || self.inner.save(&path)).or_raise(py)
    }

    /// (k, n): share k, from 1, of n.
    #[getter]
    fn shard(&self) -> (usize, usize) {
        let shard = self.inner.shard();
        (shard.number(), shard.of())
    }

    /// Number of events in the shard.
    #[getter]
    fn events(&self) -> u64 {
        self.inner.events()
    }

    /// Number of counted episodes.
    fn __len__(&self) -> usize {
        self.inner.episodes()
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.CountPart: shard {}, {} in {}>",
            self.inner.shard(),
            text::count(self.inner.episodes() as u128, "episode"),
            text::count(self.inner.events() as u128, "event")
        )
    }
}

/// An episode as it is asked for: one that was found, or a line of text.
#[derive(FromPyObject)]
pub(crate) enum EpisodeArgument<'py> {
    #[pyo3(transparent)]
    Found(PyRef<'py, Episode>),
    #[pyo3(transparent)]
    Text(String),
}

/// An episode, usable without the interpreter's lock.
pub(crate) enum EpisodeName {
    Found(Vec<String>, Vec<(f64, f64)>),
    Text(String),
}

impl EpisodeName {
    pub(crate) fn of_all(episodes: Vec<EpisodeArgument<'_>>) -> Vec<Self> {
        let named = episodes.into_iter().map(|asked| match asked {
            EpisodeArgument::Text(text) => Self::Text(text),
            EpisodeArgument::Found(episode) => {
                Self::Found(episode.channels.clone(), episode.delays.clone())
            }
        });
        named.collect()
    }

    pub(crate) fn pattern(&self, alphabet: &Alphabet) -> Result<Pattern> {
        let (channels, delays) = match self {
            Self::Text(text) => return Pattern::parse(text, alphabet, None),
            Self::Found(channels, delays) => (channels, delays),
        };
        let symbol = |name: &String| {
            alphabet.symbol(name).ok_or_else(|| {
                Error::argument(format!(
                    "an episode: expected a channel of the recording, got {name:?}"
                ))
            })
        };
        let interval =
            |&(low, high): &(f64, f64)| Interval::from_seconds(low, high, alphabet.clock());
        Pattern::new(
            channels.iter().map(symbol).collect::<Result<_>>()?,
            delays.iter().map(interval).collect::<Result<_>>()?,
        )
    }
}

/// Counts the non-overlapped occurrences of `episodes` in shard `(k, n)`, k from 1, of the time of the `.npz` recording at
/// `path`, which is read in chunks of about `memory` bytes. `betz.join` makes the counts of the whole recording from all n
/// parts, in any order, exactly.
///
/// `episodes`: those that `betz.mine` found, or lines like "left -(0.004,0.006]-> right" (seconds).
///
/// >>> import os, tempfile, betz
/// >>> culture, chains = betz.simulate.chains(seconds=10, seed=1)
/// >>> mined = betz.mine(culture, delays=[(0.004, 0.006)], threshold=60)
/// >>> with tempfile.TemporaryDirectory() as folder:
/// ...     path = os.path.join(folder, "culture.npz")
/// ...     culture.save(path)
/// ...     parts = [betz.count(path, mined.episodes, shard=(k, 3)) for k in (3, 1, 2)]
/// >>> [episode.count for episode in betz.join(parts)] == [episode.count for episode in mined.episodes]
/// True
#[pyfunction]
#[pyo3(signature = (path, episodes, *, shard=(1, 1), memory=MEMORY, progress=None))]
pub(crate) fn count(
    py: Python<'_>,
    path: FilePath,
    episodes: Vec<EpisodeArgument<'_>>,
    shard: (usize, usize),
    memory: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<CountPart> {
    let shard = parts::shard(shard).or_raise(py)?;
    let named = EpisodeName::of_all(episodes);
    let inner = work::run(py, progress, |progress| {
        let (events, recording) = ShardEvents::open(&path, shard, memory)?;
        let patterns = named.iter().map(|named| named.pattern(events.alphabet()));
        let patterns = patterns.collect::<Result<Vec<_>>>()?;
        if patterns.is_empty() {
            return Err(Error::argument("episodes: expected at least one, got none"));
        }
        RustCountPart::count(shard, recording, &events, patterns, progress)
    })?;
    Ok(CountPart { inner })
}

/// Joins all shards, in any order: `NetworkPart`s to the network, `CountPart`s to the episodes with their counts. A shard
/// that is missing, repeated or of something else is refused by name.
///
/// >>> import numpy as np, betz
/// >>> signal = np.random.default_rng(0).normal(size=(400, 6))
/// >>> asked = dict(window=100, step=20, top=3)
/// >>> parts = [betz.network(signal, shard=(k, 2), **asked) for k in (2, 1)]
/// >>> bool((betz.join(parts).r == betz.network(signal, **asked).r).all())
/// True
#[pyfunction]
pub(crate) fn join<'py>(
    py: Python<'py>,
    parts: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let networks = parts.iter().map(|part| part.cast::<NetworkPart>().ok());
    if let Some(networks) = networks.collect::<Option<Vec<_>>>()
        && !networks.is_empty()
    {
        let inner: Vec<Part> = networks.iter().map(|p| p.get().inner.clone()).collect();
        let file = work::detach(py, || Part::join(inner)).or_raise(py)?;
        return Ok(Bound::new(py, Network { file })?.into_any());
    }
    let counts = parts.iter().map(|part| part.cast::<CountPart>().ok());
    let Some(counts) = counts.collect::<Option<Vec<_>>>().filter(|c| !c.is_empty()) else {
        return Err(PyTypeError::new_err(
            "parts: expected at least one NetworkPart or CountPart, all of the same kind",
        ));
    };
    let inner: Vec<RustCountPart> = counts.iter().map(|p| p.get().inner.clone()).collect();
    let joined = work::detach(py, || RustCountPart::join(inner)).or_raise(py)?;
    let names = joined.alphabet.labels();
    let episodes = (joined.episodes.iter())
        .map(|found| Episode::of(py, found, &joined.alphabet, names))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, episodes)?.into_any())
}
