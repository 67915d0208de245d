//! `Dataset`: spikes and behaviour on a model's clock.

use std::sync::Arc;

use betz::recording::{self as rust, AlignOptions, OutputInfo, Segment, SpikeForm};
use betz::text::count;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::arguments::{instance, optional_texts, refused, seconds};
use crate::arrays::{self, Numbers, integers};
use crate::error::OrRaise;
use crate::work;

/// A dataset as an argument, for messages.
pub(crate) const DATASET: &str =
    "a betz.Dataset; Recording.align makes one, and Dataset.of_rows of arrays";

/// Step for spikes as events where none is asked for.
const USUAL_STEP_SECONDS: f64 = 0.005;

/// A recording on a model's clock: what training and decoding take. Made by `Recording.align`, or of arrays.
#[pyclass(frozen, module = "betz")]
pub(crate) struct Dataset {
    pub(crate) inner: Arc<rust::Dataset>,
    /// True if channels carry values of any sign instead of spikes.
    pub(crate) signal: bool,
    /// Names and counts of what aligning left out.
    left_out: Vec<(&'static str, usize)>,
}

/// Step of a recording, in seconds, if none is asked for.
pub(crate) fn usual_step(recording: &rust::Recording) -> f64 {
    match recording.form {
        SpikeForm::Events => USUAL_STEP_SECONDS.max(recording.tick_seconds),
        _ => recording.tick_seconds,
    }
}

impl Dataset {
    /// A Dataset, or a Recording that is put on a clock of `step_seconds`, as an argument.
    pub(crate) fn of_argument<'py>(
        data: &Bound<'py, PyAny>,
        step_seconds: f64,
    ) -> PyResult<Bound<'py, Self>> {
        match data.cast::<Self>() {
            Ok(dataset) => Ok(dataset.clone()),
            Err(_) if data.hasattr("align")? => {
                let aligned = data.call_method1("align", (step_seconds,))?;
                Ok(instance::<Self>("data", DATASET, &aligned)?.clone())
            }
            Err(_) => Err(refused("data", DATASET, data)),
        }
    }

    /// The parts of segments whose steps have a weight above 0. `weights`: one per step.
    pub(crate) fn segments_with_weight(&self, weights: &[f64]) -> Vec<Segment> {
        let mut parts: Vec<Segment> = Vec::new();
        for segment in &self.inner.segments {
            let mut inside = false;
            for step in segment.start..segment.stop {
                let counts = weights
                    .get(step as usize)
                    .is_some_and(|&weight| weight > 0.0);
                match parts.last_mut() {
                    Some(part) if counts && inside => part.stop = step + 1,
                    _ if counts => parts.push(Segment {
                        start: step,
                        stop: step + 1,
                    }),
                    _ => {}
                }
                inside = counts;
            }
        }
        parts
    }

    pub(crate) fn of_recording(
        py: Python<'_>,
        recording: &rust::Recording,
        step_seconds: Option<f64>,
        max_gap_seconds: Option<f64>,
    ) -> PyResult<Self> {
        let options = AlignOptions {
            step_seconds: step_seconds.unwrap_or_else(|| usual_step(recording)),
            max_gap_seconds,
        };
        let (dataset, report) = work::detach(py, || recording.align_with(&options)).or_raise(py)?;
        Ok(Self {
            inner: Arc::new(dataset),
            signal: recording.form == SpikeForm::Signal,
            left_out: LEFT_OUT
                .into_iter()
                .zip([
                    report.segments_dropped,
                    report.steps_without_behavior,
                    report.steps_in_gaps,
                    report.steps_interpolated,
                    report.spikes_outside,
                ])
                .collect(),
        })
    }
}

/// A dataset's steps as pickle takes them: step in seconds, number of steps, names of channels, names and units of outputs,
/// segments, and whether channels carry a signal.
type Clock = (
    f64,
    usize,
    Vec<String>,
    Vec<(String, String)>,
    Vec<(i64, i64)>,
    bool,
);

/// A function that pickle calls; the clock; ticks, channels, weights and behaviour; counts of what was left out.
type DatasetParts<'py> = (
    Bound<'py, PyAny>,
    (
        Clock,
        Bound<'py, PyArray1<i64>>,
        Bound<'py, PyArray1<u32>>,
        Bound<'py, PyArray1<f32>>,
        Bound<'py, PyArray1<f32>>,
        Vec<(String, usize)>,
    ),
);

/// Names of what aligning leaves out.
const LEFT_OUT: [&str; 5] = [
    "segments_dropped",
    "steps_without_behavior",
    "steps_in_gaps",
    "steps_interpolated",
    "spikes_outside",
];

#[pymethods]
impl Dataset {
    /// The dataset of its values, for pickle.
    #[classmethod]
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python function")]
    fn _of(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        clock: Clock,
        ticks: PyReadonlyArray1<'_, i64>,
        channels: PyReadonlyArray1<'_, u32>,
        weights: PyReadonlyArray1<'_, f32>,
        behavior: PyReadonlyArray1<'_, f32>,
        left_out: Vec<(String, usize)>,
    ) -> PyResult<Self> {
        let (step_seconds, steps, channel_names, outputs, segments, signal) = clock;
        let outputs = outputs.into_iter();
        let segments = segments.into_iter();
        let dataset = rust::Dataset {
            step_seconds,
            steps,
            channel_names,
            spikes: rust::Spikes {
                ticks: ticks.as_slice()?.to_vec(),
                channels: channels.as_slice()?.to_vec(),
                weights: weights.as_slice()?.to_vec(),
            },
            segments: segments
                .map(|(start, stop)| Segment { start, stop })
                .collect(),
            outputs: outputs
                .map(|(name, unit)| OutputInfo { name, unit })
                .collect(),
            behavior: behavior.as_slice()?.to_vec(),
        };
        work::detach(py, || dataset.check()).or_raise(py)?;
        let known = |(name, count): (String, usize)| {
            let own = LEFT_OUT.iter().find(|own| **own == name)?;
            Some((*own, count))
        };
        Ok(Self {
            inner: Arc::new(dataset),
            signal,
            left_out: left_out.into_iter().filter_map(known).collect(),
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<DatasetParts<'py>> {
        let (py, own) = (slf.py(), slf.get());
        let data = &own.inner;
        let outputs = data.outputs.iter();
        let clock = (
            data.step_seconds,
            data.steps,
            data.channel_names.clone(),
            outputs.map(|o| (o.name.clone(), o.unit.clone())).collect(),
            data.segments.iter().map(|s| (s.start, s.stop)).collect(),
            own.signal,
        );
        let left_out = own.left_out.iter();
        Ok((
            slf.get_type().getattr("_of")?,
            (
                clock,
                PyArray1::from_slice(py, &data.spikes.ticks),
                PyArray1::from_slice(py, &data.spikes.channels),
                PyArray1::from_slice(py, &data.spikes.weights),
                PyArray1::from_slice(py, &data.behavior),
                left_out.map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            ),
        ))
    }

    /// Rows (time, channels), each a step of `step_seconds`, with labels (time, outputs) where there are any. `signal`: rows are
    /// values of any sign even if they are whole numbers.
    #[staticmethod]
    #[pyo3(signature = (x, y, step_seconds, segments=None, channel_names=None, output_names=None, output_units=None, signal=false))]
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python function")]
    fn of_rows(
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        y: Option<&Bound<'_, PyAny>>,
        step_seconds: &Bound<'_, PyAny>,
        segments: Option<&Bound<'_, PyAny>>,
        channel_names: Option<&Bound<'_, PyAny>>,
        output_names: Option<&Bound<'_, PyAny>>,
        output_units: Option<&Bound<'_, PyAny>>,
        signal: bool,
    ) -> PyResult<Self> {
        let step_seconds = seconds("step_seconds", step_seconds)?;
        let channel_names = optional_texts("channel_names", channel_names)?;
        let numbers = Numbers::of("X", x)?;
        let (steps, channels) = (numbers.shape()[0], numbers.shape()[1]);
        let (spikes, counts) = arrays::entries(py, "X", &numbers)?;
        let (outputs, behavior) = match y {
            None => (0, Vec::new()),
            Some(y) => {
                let labels = Numbers::of("y", y)?;
                (labels.shape()[1], arrays::to_f32(py, "y", &labels)?)
            }
        };
        let invented = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect();
        let names = optional_texts("outputs", output_names)?;
        let units = optional_texts("units", output_units)?;
        for (argument, given) in [("outputs", &names), ("units", &units)] {
            if let Some(given) = given.as_ref().filter(|given| given.len() != outputs) {
                return Err(PyValueError::new_err(format!(
                    "{argument}: expected {outputs}, one per column of y, got {}",
                    given.len()
                )));
            }
        }
        let names = names.unwrap_or_else(|| invented("output", outputs));
        let units = units.unwrap_or_else(|| vec![String::new(); outputs]);
        let dataset = rust::Dataset {
            step_seconds,
            steps,
            channel_names: channel_names.unwrap_or_else(|| invented("ch", channels)),
            spikes,
            segments: match segments {
                None => vec![Segment {
                    start: 0,
                    stop: steps as i64,
                }],
                some => arrays::segments(some, steps as i64)?,
            },
            outputs: (names.into_iter().zip(units))
                .map(|(name, unit)| OutputInfo { name, unit })
                .collect(),
            behavior,
        };
        work::detach(py, || dataset.check()).or_raise(py)?;
        Ok(Self {
            inner: Arc::new(dataset),
            signal: signal || !counts,
            left_out: Vec::new(),
        })
    }

    /// Length of one step in seconds.
    #[getter]
    fn step_seconds(&self) -> f64 {
        self.inner.step_seconds
    }

    /// Number of steps.
    #[getter]
    fn steps(&self) -> usize {
        self.inner.steps
    }

    /// One name per channel.
    #[getter]
    fn channel_names(&self) -> Vec<String> {
        self.inner.channel_names.clone()
    }

    /// Names of the outputs.
    #[getter]
    fn output_names(&self) -> Vec<String> {
        self.inner.outputs.iter().map(|o| o.name.clone()).collect()
    }

    /// Behaviour at every step, float32 (steps, outputs). A read-only view.
    #[getter]
    fn behavior<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let inner = &slf.get().inner;
        arrays::shown(slf, &inner.behavior, Some(inner.outputs.len().max(1)))
    }

    /// Units of the outputs; empty where unknown.
    #[getter]
    fn output_units(&self) -> Vec<String> {
        self.inner.outputs.iter().map(|o| o.unit.clone()).collect()
    }

    /// Spikes (or the signal) of every step, a new float32 array (steps, channels).
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (steps, channels) = (self.inner.steps, self.inner.channels());
        let dense = || {
            let mut dense: Vec<f32> = betz::memory::room("counts", steps * channels)?;
            dense.resize(steps * channels, 0.0);
            let spikes = &self.inner.spikes;
            for (i, (tick, channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
                dense[*tick as usize * channels + *channel as usize] += spikes.weight(i);
            }
            Ok(dense)
        };
        let dense = work::detach(py, dense).or_raise(py)?;
        dense.into_pyarray(py).reshape([steps, channels])
    }

    /// Two pandas' DataFrames, of counts and of behaviour, with the index (trial, time in seconds); steps outside
    /// segments are left out.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let readers = slf.py().import("betz._readers")?;
        readers.call_method1("to_pandas", (slf,))
    }

    /// An xarray Dataset of `counts` (time, channel) and `behavior` (time, output), with times in seconds and the
    /// coordinate "trial"; steps outside segments are left out.
    fn to_xarray<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let readers = slf.py().import("betz._readers")?;
        readers.call_method1("to_xarray", (slf,))
    }

    /// True if channels carry values of any sign instead of spikes.
    #[getter]
    fn is_signal(&self) -> bool {
        self.signal
    }

    /// Segments as a list of (start, stop), half-open in steps.
    #[getter]
    fn segments(&self) -> Vec<(i64, i64)> {
        self.inner
            .segments
            .iter()
            .map(|s| (s.start, s.stop))
            .collect()
    }

    /// Counts of what aligning left out, by name.
    #[getter]
    fn left_out<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, count) in &self.left_out {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    /// The dataset with only these of its segments, by number.
    fn select(&self, py: Python<'_>, segments: &Bound<'_, PyAny>) -> PyResult<Self> {
        let there = self.inner.segments.len();
        let numbers = integers("segments", segments)?;
        if let Some(bad) = numbers.iter().find(|n| !(0..there as i64).contains(n)) {
            let last = there.saturating_sub(1);
            let message = format!("segments: expected numbers from 0 to {last}, got {bad}");
            return Err(pyo3::exceptions::PyIndexError::new_err(message));
        }
        let segments: Vec<usize> = numbers.into_iter().map(|n| n as usize).collect();
        Ok(Self {
            inner: Arc::new(work::detach(py, || self.inner.select(&segments))),
            signal: self.signal,
            left_out: Vec::new(),
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.Dataset: {}, {} of {} s in {}, {}>",
            count(self.inner.channels() as u128, "channel"),
            count(self.inner.steps as u128, "step"),
            self.inner.step_seconds,
            count(self.inner.segments.len() as u128, "segment"),
            count(self.inner.outputs.len() as u128, "output")
        )
    }
}
