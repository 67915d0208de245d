//! `Recording`: spikes, behaviour and trials on the recording's clock.

mod build;

use std::sync::Arc;

use betz::formats::{ReadOptions, nwb};
use betz::recording::{self as rust, Behavior, SpikeForm, Spikes, invented_channel_names};
use betz::text::count;
use numpy::PyArray2;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::arguments::{FilePath, optional_seconds, optional_texts, seconds, whole};
use crate::arrays;
use crate::clusterless::features_of;
use crate::dataset::{Dataset, usual_step};
use crate::error::OrRaise;
use crate::keywords::{self, RecordingKeywords, session};
use crate::work;

/// A recording: spikes on channels (or sorted units), behaviour and trials. Immutable; arrays are views of it.
///
/// Time is in whole ticks of `tick_seconds` from the start. A tick of binned counts is a bin, a tick of a signal is a
/// sample.
/// Segments (trials) are half-open, [start, stop).
///
/// >>> import numpy as np, betz
/// >>> counts = np.array([[0, 2], [1, 0], [0, 0]], np.uint8)          # (bins, channels)
/// >>> recording = betz.Recording.from_counts(counts, 0.02, channel_names=["left", "right"])
/// >>> recording.channels, recording.seconds, recording.spike_channels.tolist()
/// (2, 0.06, [1, 0])
#[pyclass(frozen, module = "betz")]
pub(crate) struct Recording {
    pub(crate) inner: Arc<rust::Recording>,
}

/// A recording as an argument, for messages.
pub(crate) const RECORDING: &str =
    "a betz.Recording, such as Recording.from_npz or Recording.from_spikes makes";

/// A name, or a list of them.
#[derive(FromPyObject)]
enum OneOrMany {
    #[pyo3(transparent)]
    One(String),
    #[pyo3(transparent)]
    Many(Vec<String>),
}

impl OneOrMany {
    /// All names; none of None.
    fn list(names: Option<Self>) -> Vec<String> {
        match names {
            None => Vec::new(),
            Some(Self::One(name)) => vec![name],
            Some(Self::Many(names)) => names,
        }
    }
}

/// A function that pickle calls, and its argument.
type PickleParts<'py> = (Bound<'py, PyAny>, (Bound<'py, PyDict>,));

/// Most channels that spikes without names may claim.
const MOST_CHANNELS: u32 = 1 << 24;

#[pymethods]
impl Recording {
    /// The recording in an `.npz` archive of the schema in docs/recordings.md.
    ///
    /// Raises OSError (FileNotFoundError for a missing file) when it cannot be read, BetzError naming array and position when it breaks the schema.
    /// `angles`: outputs of behaviour that are angles in radians or degrees, by name: their cosine and sine take their place.
    #[classmethod]
    #[pyo3(signature = (path, *, angles=None))]
    fn from_npz(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: FilePath,
        angles: Option<OneOrMany>,
    ) -> PyResult<Self> {
        let options = ReadOptions {
            angles: OneOrMany::list(angles),
            ..ReadOptions::default()
        };
        let read = work::run(py, None, |_| betz::formats::read_recording(&path, &options))?;
        Self::noted(py, &path, read)
    }

    /// The recording in an NWB file: units, trials, behaviour, electrode positions.
    ///
    /// `behavior`: series, by name or path; None: the first that holds velocities, else the first. `units`: units to
    /// read, by name (`unit` and its id); None: all. `seconds`: (from, until) on the file's clock; None: all. Whatever
    /// is not requested takes no memory, and times do not change.
    ///
    /// `trials`, `within`, `mask`: tables of intervals by name or path, each with a condition on a column if wanted
    /// (`trials:side=left`), one or several. Rows of `trials` are the segments; None: the table `trials`. Nothing outside
    /// `within`, and nothing inside `mask`, is used. `mask`: None: `invalid_times`, if the file has it; "none": nothing.
    ///
    /// `angles`: outputs of behaviour that are angles in radians or degrees, by name: their cosine and sine take their place.
    ///
    /// Choices, repairs and omissions are raised as warnings and stored in `meta`. docs/connect.md lists what is read.
    #[classmethod]
    #[pyo3(signature = (path, *, behavior=None, tick_seconds=1e-5, units=None, seconds=None, trials=None, within=None, mask=None, angles=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn from_nwb(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: FilePath,
        behavior: Option<OneOrMany>,
        tick_seconds: f64,
        units: Option<&Bound<'_, PyAny>>,
        seconds: Option<(f64, f64)>,
        trials: Option<OneOrMany>,
        within: Option<OneOrMany>,
        mask: Option<OneOrMany>,
        angles: Option<OneOrMany>,
    ) -> PyResult<Self> {
        let units = optional_texts("units", units)?;
        let options = ReadOptions {
            behavior: OneOrMany::list(behavior),
            trials: OneOrMany::list(trials),
            within: OneOrMany::list(within),
            mask: OneOrMany::list(mask),
            tick_seconds,
            angles: OneOrMany::list(angles),
            units: units.unwrap_or_default(),
            seconds: seconds.map(|(from, until)| [from, until]),
        };
        let read = work::run(py, None, |_| nwb::read(&path, &options))?;
        Self::noted(py, &path, read)
    }

    /// A recording of binned spike counts (bins, channels): whole numbers from 0 to 65,535 of any dtype.
    ///
    /// behavior: (samples, outputs) or (samples,), one sample per bin unless `behavior_times` (seconds) is given, where a sample
    /// with a NaN is missing; behavior_names, behavior_units: one per column; segments: trials (n, 2), half-open in bins;
    /// channel_names; electrode_um: (channels, 2); meta: free text.
    #[staticmethod]
    #[pyo3(signature = (counts, step_seconds, **more), text_signature = "(counts, step_seconds, *, behavior=None, behavior_times=None, behavior_names=None, behavior_units=None, segments=None, channel_names=None, electrode_um=None, meta=None)")]
    fn from_counts(
        py: Python<'_>,
        counts: &Bound<'_, PyAny>,
        step_seconds: &Bound<'_, PyAny>,
        more: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Self::of_matrix(
            py,
            counts,
            seconds("step_seconds", step_seconds)?,
            SpikeForm::Counts,
            RecordingKeywords::of(more)?,
        )
    }

    /// A recording of a signal (samples, channels) of any sign, such as band power. Keywords as for `from_counts`.
    #[staticmethod]
    #[pyo3(signature = (signal, sample_seconds, **more), text_signature = "(signal, sample_seconds, *, behavior=None, behavior_times=None, behavior_names=None, behavior_units=None, segments=None, channel_names=None, electrode_um=None, meta=None)")]
    fn from_signal(
        py: Python<'_>,
        signal: &Bound<'_, PyAny>,
        sample_seconds: &Bound<'_, PyAny>,
        more: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Self::of_matrix(
            py,
            signal,
            seconds("sample_seconds", sample_seconds)?,
            SpikeForm::Signal,
            RecordingKeywords::of(more)?,
        )
    }

    /// A recording of spike events: ascending `spike_ticks`, and the channel (or unit) of each. Keywords as for
    /// `from_counts`. `duration_ticks`: None: until the last spike or segment. `channels`: number of channels; None: as
    /// many as are named, or as fire.
    #[staticmethod]
    #[pyo3(signature = (spike_ticks, spike_channels, tick_seconds, *, duration_ticks=None, channels=None, **more), text_signature = "(spike_ticks, spike_channels, tick_seconds, *, duration_ticks=None, channels=None, behavior=None, behavior_times=None, behavior_names=None, behavior_units=None, segments=None, channel_names=None, electrode_um=None, meta=None)")]
    fn from_spikes(
        py: Python<'_>,
        spike_ticks: &Bound<'_, PyAny>,
        spike_channels: &Bound<'_, PyAny>,
        tick_seconds: &Bound<'_, PyAny>,
        duration_ticks: Option<&Bound<'_, PyAny>>,
        channels: Option<&Bound<'_, PyAny>>,
        more: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let beside = RecordingKeywords::of(more)?;
        let tick_seconds = seconds("tick_seconds", tick_seconds)?;
        let duration_ticks = duration_ticks
            .map(|n| whole("duration_ticks", n))
            .transpose()?;
        let channels = channels.map(|n| whole("channels", n)).transpose()?;
        let ticks = arrays::integers("spike_ticks", spike_ticks)?;
        let numbers = arrays::integers("spike_channels", spike_channels)?;
        let narrow = |(i, c): (usize, i64)| match u32::try_from(c) {
            // A channel's number is a claim: names of as many follow from it.
            Ok(c) if c < MOST_CHANNELS => Ok(c),
            _ => Err(PyValueError::new_err(format!(
                "spike_channels: [{i}] = {c}: expected a channel from 0 to {}",
                MOST_CHANNELS - 1
            ))),
        };
        let numbers = numbers.into_iter().enumerate().map(narrow);
        let spikes = Spikes::new(ticks, numbers.collect::<PyResult<_>>()?);
        let firing = spikes.channels.iter().max().map_or(0, |c| *c as usize + 1);
        let named = beside.channel_names.as_ref().map(Vec::len);
        let segments = arrays::segments(beside.segments.as_ref(), 0)?;
        let last = spikes.ticks.last().map_or(0, |t| t.saturating_add(1));
        let last = segments.iter().map(|s| s.stop).chain([last]).max();
        let (ticks, channels) = (
            duration_ticks.map(|n| n as i64).or(last).unwrap_or(0),
            channels.or(named).unwrap_or(firing),
        );
        let form = SpikeForm::Events;
        let recording = beside.recording(py, tick_seconds, ticks, channels, spikes, form)?;
        Self::checked(py, recording)
    }

    /// A recording of a `neo.Block` or `neo.Segment`: one channel per spike train, behaviour from the (irregularly
    /// sampled or analog) signals named in `behavior`.
    ///
    /// The segments of a block become segments of the recording, one after the other. `trials`: the name of an `Epoch`, or
    /// several, whose intervals are the trials instead; `meta` keeps their labels as JSON, {"conditions": […]}.
    #[staticmethod]
    #[pyo3(signature = (neo, *, behavior=None, trials=None, tick_seconds=1e-4))]
    fn from_neo<'py>(
        neo: &Bound<'py, PyAny>,
        behavior: Option<&Bound<'py, PyAny>>,
        trials: Option<&Bound<'py, PyAny>>,
        tick_seconds: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let readers = neo.py().import("betz._readers")?;
        readers.call_method1("from_neo", (neo, behavior, trials, tick_seconds))
    }

    /// A recording of a `pynapple.TsGroup`, one channel per member; behaviour from a `Tsd` or `TsdFrame`.
    ///
    /// `trials`: an `IntervalSet`, a list of them, or a dictionary from a condition's name to one; `meta` keeps the
    /// condition of each trial as JSON, {"conditions": […]}. `mask`: an `IntervalSet` of times to leave out, such as
    /// missing data; it cuts trials.
    #[staticmethod]
    #[pyo3(signature = (units, *, behavior=None, trials=None, mask=None, tick_seconds=1e-4))]
    fn from_pynapple<'py>(
        units: &Bound<'py, PyAny>,
        behavior: Option<&Bound<'py, PyAny>>,
        trials: Option<&Bound<'py, PyAny>>,
        mask: Option<&Bound<'py, PyAny>>,
        tick_seconds: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let readers = units.py().import("betz._readers")?;
        readers.call_method1(
            "from_pynapple",
            (units, behavior, trials, mask, tick_seconds),
        )
    }

    /// A recording of pandas' DataFrames: `counts` with a row per bin of `step_seconds` and a column per channel,
    /// `behavior` with the same rows. An index level named "trial" marks trials; `behavior.attrs["units"]`: units.
    ///
    /// >>> import pandas, betz                                                 # doctest: +SKIP
    /// >>> counts = pandas.DataFrame({"left": [0, 2, 1], "right": [1, 0, 0]})  # doctest: +SKIP
    /// >>> betz.Recording.from_pandas(counts, 0.02).channel_names              # doctest: +SKIP
    /// ['left', 'right']
    #[staticmethod]
    #[pyo3(signature = (counts, step_seconds, *, behavior=None))]
    fn from_pandas<'py>(
        counts: &Bound<'py, PyAny>,
        step_seconds: &Bound<'py, PyAny>,
        behavior: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let readers = counts.py().import("betz._readers")?;
        readers.call_method1("from_labelled", (counts, step_seconds, behavior))
    }

    /// A recording of xarray's DataArrays: `counts` (time, channel), `behavior` (time, output). A coordinate named "trial"
    /// along time marks trials; coordinates name channels and outputs. `step_seconds`: None: from evenly spaced times.
    #[staticmethod]
    #[pyo3(signature = (counts, step_seconds=None, *, behavior=None))]
    fn from_xarray<'py>(
        counts: &Bound<'py, PyAny>,
        step_seconds: Option<&Bound<'py, PyAny>>,
        behavior: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let readers = counts.py().import("betz._readers")?;
        readers.call_method1("from_labelled", (counts, step_seconds, behavior))
    }

    /// The recording without the times in `intervals`: (start, stop) in seconds, (n, 2), or a pynapple `IntervalSet`.
    /// Trials are cut there: filters start from rest behind each interval.
    ///
    /// >>> import numpy as np, betz
    /// >>> recording = betz.Recording.from_counts(np.ones((10, 1), np.uint8), 0.1)
    /// >>> recording.mask([(0.3, 0.5)]).segments.tolist()
    /// [[0, 3], [5, 10]]
    fn mask<'py>(
        slf: &Bound<'py, Self>,
        intervals: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let readers = slf.py().import("betz._readers")?;
        readers.call_method1("masked", (slf, intervals))
    }

    /// The recording with only the times in `intervals`, as for `mask`. Trials are cut to them.
    fn restrict<'py>(
        slf: &Bound<'py, Self>,
        intervals: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let readers = slf.py().import("betz._readers")?;
        readers.call_method1("restricted", (slf, intervals))
    }

    /// Writes the recording to `path` (.npz). The file is complete, or is not written at all. `spike_features`:
    /// (spikes, features), a row per spike, written beside them.
    #[pyo3(signature = (path, *, spike_features=None))]
    fn save(
        &self,
        py: Python<'_>,
        path: FilePath,
        spike_features: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let given = spike_features.filter(|f| !f.is_none());
        let features = given.map(|f| features_of(py, f)).transpose()?;
        work::detach(py, || self.inner.write_npz_with(&path, features.as_ref())).or_raise(py)
    }

    /// Writes the recording to `path` as an NWB 2 file. The file is complete, or is not written at all. `from_nwb`
    /// reads the same recording back.
    ///
    /// `start`: start of the session, a `datetime` with a time zone or its ISO text; None: taken from `meta`, which
    /// `from_nwb` fills. `subject` and the other keywords describe the session; None: unknown.
    ///
    /// >>> import betz, os, tempfile
    /// >>> recording = betz.Recording.from_spikes([3, 70, 99], [0, 1, 0], 1e-3)
    /// >>> path = os.path.join(tempfile.mkdtemp(), "session.nwb")
    /// >>> recording.to_nwb(path, start="2020-10-19T13:00:00-05:00", subject="J", species="Macaca mulatta")
    /// >>> betz.Recording.from_nwb(path).spike_ticks.tolist()
    /// [3, 70, 99]
    #[pyo3(signature = (path, *, start=None, description=None, subject=None, species=None, sex=None, age=None))]
    #[allow(clippy::too_many_arguments)] // keywords
    fn to_nwb(
        &self,
        py: Python<'_>,
        path: FilePath,
        start: Option<&Bound<'_, PyAny>>,
        description: Option<String>,
        subject: Option<String>,
        species: Option<String>,
        sex: Option<String>,
        age: Option<String>,
    ) -> PyResult<()> {
        let mut session = session(py, &self.inner, start)?;
        // Another file has another name.
        session.identifier = String::new();
        for (given, field) in [
            (description, &mut session.description),
            (subject, &mut session.subject.id),
            (species, &mut session.subject.species),
            (sex, &mut session.subject.sex),
            (age, &mut session.subject.age),
        ] {
            if let Some(given) = given {
                *field = given;
            }
        }
        let options = nwb::WriteOptions::new(session);
        work::detach(py, || nwb::write(&self.inner, &path, &options)).or_raise(py)
    }

    /// Step, in seconds, of a decoder of `kind` if none is asked for: the recording's bins, or 5 ms for spike events; for
    /// "place" at least 0.1 s, and the interval between samples of behaviour if that is longer.
    #[pyo3(signature = (kind="linear"))]
    fn default_step_seconds(&self, kind: &str) -> f64 {
        match kind {
            "place" => betz::train::place::default_step(&self.inner),
            _ => usual_step(&self.inner),
        }
    }

    /// The recording on a clock of `step_seconds`, with behaviour at every step, for training and decoding.
    /// `step_seconds`: None: the recording's bins, or 5 ms for spike events. `max_gap_seconds`: the longest gap between
    /// samples of behaviour that is interpolated; a longer one ends its segment. None: five sample intervals, at least
    /// 0.15 s; `math.inf`: no limit. `left_out` of the dataset has the counts.
    #[pyo3(signature = (step_seconds=None, *, max_gap_seconds=None))]
    fn align(
        &self,
        py: Python<'_>,
        step_seconds: Option<&Bound<'_, PyAny>>,
        max_gap_seconds: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Dataset> {
        let step_seconds = optional_seconds("step_seconds", step_seconds)?;
        let max_gap_seconds = optional_seconds("max_gap_seconds", max_gap_seconds)?;
        Dataset::of_recording(py, &self.inner, step_seconds, max_gap_seconds)
    }

    /// Number of trials (segments), so that `cross_val_score` and `GridSearchCV` split a recording by trials.
    fn __len__(&self) -> usize {
        self.inner.segments.len()
    }

    /// (number of trials,): see `len`.
    #[getter]
    fn shape(&self) -> (usize,) {
        (self.inner.segments.len(),)
    }

    /// The recording with only these of its trials, on the same clock and in the order of time: by number, slice, mask or list
    /// of numbers. Each trial is taken at most once.
    fn __getitem__(&self, py: Python<'_>, trials: &Bound<'_, PyAny>) -> PyResult<Self> {
        let numpy = py.import("numpy")?;
        let all = numpy.call_method1("arange", (self.inner.segments.len(),))?;
        // A single number is an array of no dimension.
        let chosen = numpy.call_method1("atleast_1d", (all.get_item(trials)?,))?;
        let mut numbers = arrays::integers("trials", &chosen)?;
        numbers.sort_unstable();
        if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(PyValueError::new_err(format!(
                "trials: expected each trial at most once, got trial {} twice; draw trials without replacement, or fit arrays with \
                 the number of draws as sample_weight",
                twice[0]
            )));
        }
        let segments = numbers.iter().map(|&n| self.inner.segments[n as usize]);
        self.with_segments(py, segments.collect())
    }

    /// The recording with other segments (trials), (n, 2), half-open in ticks. Spikes outside them are left out.
    fn with_trials(&self, py: Python<'_>, segments: &Bound<'_, PyAny>) -> PyResult<Self> {
        let segments = arrays::segments(Some(segments), self.inner.ticks)?;
        self.with_segments(py, segments)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py>> {
        let (py, inner) = (slf.py(), &slf.get().inner);
        let parts = PyDict::new(py);
        for name in [
            "form",
            "ticks",
            "tick_seconds",
            "spike_ticks",
            "spike_channels",
            "spike_weights",
            "behavior",
            "behavior_times",
            "behavior_names",
            "behavior_units",
            "segments",
            "channel_names",
            "electrode_um",
            "meta",
        ] {
            let value = slf.getattr(name)?;
            // A view keeps its recording alive; a pickle takes the numbers.
            parts.set_item(name, value)?;
        }
        if inner.behavior.is_none() {
            parts.del_item("behavior_names")?;
            parts.del_item("behavior_units")?;
        }
        Ok((slf.get_type().getattr("from_parts")?, (parts,)))
    }

    /// The recording of the dictionary that its pickle holds.
    #[staticmethod]
    fn from_parts(py: Python<'_>, parts: &Bound<'_, PyDict>) -> PyResult<Self> {
        Self::checked(py, keywords::of_parts(py, parts)?)
    }

    /// Length of one tick in seconds.
    #[getter]
    fn tick_seconds(&self) -> f64 {
        self.inner.tick_seconds
    }

    /// Length of the recording in ticks.
    #[getter]
    fn ticks(&self) -> i64 {
        self.inner.ticks
    }

    /// Length of the recording in seconds.
    #[getter]
    fn seconds(&self) -> f64 {
        self.inner.seconds()
    }

    /// Number of channels.
    #[getter]
    fn channels(&self) -> usize {
        self.inner.channels()
    }

    /// "counts", "events" or "signal".
    #[getter]
    fn form(&self) -> &'static str {
        match self.inner.form {
            SpikeForm::Counts => "counts",
            SpikeForm::Events => "events",
            SpikeForm::Signal => "signal",
        }
    }

    /// One name per channel.
    #[getter]
    fn channel_names(&self) -> Vec<String> {
        self.inner.channel_names.clone()
    }

    /// True if the file has no channel names, so that they are `ch0`, `ch1` …
    #[getter]
    fn channel_names_are_invented(&self) -> bool {
        invented_channel_names(&self.inner.channel_names)
    }

    /// Tick of each spike (or bin with spikes), int64, ascending. A read-only view.
    #[getter]
    fn spike_ticks<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays::shown(slf, &slf.get().inner.spikes.ticks, None)
    }

    /// Channel of each spike, uint32. A read-only view.
    #[getter]
    fn spike_channels<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays::shown(slf, &slf.get().inner.spikes.channels, None)
    }

    /// Number of spikes (or value) of each entry, float32; None if each is one spike. A read-only view.
    #[getter]
    fn spike_weights<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let weights = &slf.get().inner.spikes.weights;
        (!weights.is_empty())
            .then(|| arrays::shown(slf, weights, None))
            .transpose()
    }

    /// Behaviour, float32 (samples, outputs); None where there is none. A read-only view.
    #[getter]
    fn behavior<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let behavior = slf.get().inner.behavior.as_ref();
        let shown = |b: &Behavior| arrays::shown(slf, &b.values, Some(b.outputs.len()));
        behavior.map(shown).transpose()
    }

    /// Times of behaviour samples in seconds, float64; None if there is one per tick. A read-only view.
    #[getter]
    fn behavior_times<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let times = slf
            .get()
            .inner
            .behavior
            .as_ref()
            .and_then(|b| b.times.as_ref());
        times.map(|t| arrays::shown(slf, t, None)).transpose()
    }

    /// One name per column of behaviour.
    #[getter]
    fn behavior_names(&self) -> Vec<String> {
        let outputs = self.inner.behavior.iter().flat_map(|b| &b.outputs);
        outputs.map(|o| o.name.clone()).collect()
    }

    /// One unit per column of behaviour; empty where unknown.
    #[getter]
    fn behavior_units(&self) -> Vec<String> {
        let outputs = self.inner.behavior.iter().flat_map(|b| &b.outputs);
        outputs.map(|o| o.unit.clone()).collect()
    }

    /// Segments (trials), int64 (n, 2), half-open in ticks.
    #[getter]
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let rows: Vec<Vec<i64>> = (self.inner.segments.iter())
            .map(|s| vec![s.start, s.stop])
            .collect();
        PyArray2::from_vec2(py, &rows).map_err(|e| PyTypeError::new_err(e.to_string()))
    }

    /// Electrode positions, float32 (channels, 2) in micrometres; None where unknown.
    #[getter]
    fn electrode_um<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        let rows = self.inner.electrode_um.as_ref();
        let rows = rows.map(|um| um.iter().map(|p| p.to_vec()).collect::<Vec<_>>());
        rows.map(|rows| PyArray2::from_vec2(py, &rows))
            .transpose()
            .map_err(|e| PyTypeError::new_err(e.to_string()))
    }

    /// Free text kept with the recording, JSON by convention.
    #[getter]
    fn meta(&self) -> Option<String> {
        self.inner.meta.clone()
    }

    fn __repr__(&self) -> String {
        let outputs = self.inner.behavior.as_ref().map_or(0, |b| b.outputs.len());
        format!(
            "<betz.Recording: {}, {}, {:.1} s in {}, {}>",
            count(self.channels() as u128, "channel"),
            match self.inner.spikes.len() {
                1 => "1 entry".to_owned(),
                entries => format!("{entries} entries"),
            },
            self.seconds(),
            count(self.inner.segments.len() as u128, "segment"),
            count(outputs as u128, "output"),
        )
    }
}
