//! Clusterless place decoders: spikes with features, from training to a session.

use std::sync::{Arc, Mutex};

use betz::recording::{self as rust, AlignOptions, SpikeFeatures};
use betz::text::count;
use betz::train::place::{ClusterlessOptions, ClusterlessPlace, ClusterlessSession as RustSession};
use betz::train::score::{mean_r2, place_error, score_estimates};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};

use crate::arguments::{FilePath, instance, optional_seconds, refused, whole};
use crate::arrays::{Numbers, integers, to_f32};
use crate::error::OrRaise;
use crate::model::score_list;
use crate::parts::PickleParts;
use crate::recording::Recording;
use crate::work;

/// Step in seconds, if none is asked for.
const STEP_SECONDS: f64 = 0.02;

/// A recording as an argument, for messages.
const RECORDING: &str =
    "a betz.Recording of spike times; Recording.from_spikes makes one of arrays";

/// A model as an argument, for messages.
const MODEL: &str = "a betz.ClusterlessModel; ClusterlessModel.load reads one, and a fitted ClusterlessDecoder has one in model_";

/// The features of the spikes of the `.npz` recording `path`, float32 (spikes, features): its array `spike_features`.
#[pyfunction]
pub(crate) fn spike_features<'py>(
    py: Python<'py>,
    path: FilePath,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let features = work::detach(py, || SpikeFeatures::read_npz(&path)).or_raise(py)?;
    let shape = [features.rows(), features.columns];
    features.values.into_pyarray(py).reshape(shape)
}

/// Features (spikes, features) as an argument.
pub(crate) fn features_of(py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<SpikeFeatures> {
    let numbers = Numbers::of("spike_features", given)?;
    Ok(SpikeFeatures {
        columns: numbers.shape()[1],
        values: to_f32(py, "spike_features", &numbers)?,
    })
}

/// A recording on a decoder's clock, with the features of its spikes.
struct Input {
    recording: Arc<rust::Recording>,
    features: SpikeFeatures,
    seconds: Option<(f64, f64)>,
}

impl Input {
    fn new(
        py: Python<'_>,
        recording: &Bound<'_, PyAny>,
        features: &Bound<'_, PyAny>,
        seconds: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let recording = instance::<Recording>("recording", RECORDING, recording)?;
        let seconds = seconds.filter(|s| !s.is_none()).map(|given| {
            let pair: PyResult<(f64, f64)> = given.extract();
            pair.map_err(|_| refused("seconds", "(from, until) in seconds, or None", given))
        });
        let input = Self {
            recording: recording.get().inner.clone(),
            features: features_of(py, features)?,
            seconds: seconds.transpose()?,
        };
        let spikes = input.recording.spikes.view();
        input.features.check_exactly(spikes).or_raise(py)?;
        Ok(input)
    }

    /// The recording in steps of `step_seconds`. Spikes stay, so that each has its row of features; those outside
    /// segments are ignored.
    fn dataset(&self, step_seconds: f64) -> betz::Result<rust::Dataset> {
        let options = AlignOptions {
            step_seconds,
            max_gap_seconds: None,
        };
        let (mut dataset, _) = self.recording.align_with(&options)?;
        if let Some((from, until)) = self.seconds {
            dataset.segments = dataset.between(from, until)?.segments;
        }
        Ok(dataset)
    }
}

/// Trains a decoder of `recording`; gives it and what training found.
#[pyfunction]
#[pyo3(signature = (recording, spike_features, *, seconds=None, step_seconds=None, cells=None, components=None, seed=1, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn train_clusterless<'py>(
    py: Python<'py>,
    recording: &Bound<'py, PyAny>,
    spike_features: &Bound<'py, PyAny>,
    seconds: Option<&Bound<'py, PyAny>>,
    step_seconds: Option<&Bound<'py, PyAny>>,
    cells: Option<&Bound<'py, PyAny>>,
    components: Option<&Bound<'py, PyAny>>,
    seed: u64,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(ClusterlessModel, Bound<'py, PyDict>)> {
    let input = Input::new(py, recording, spike_features, seconds)?;
    let step = optional_seconds("step_seconds", step_seconds)?
        .unwrap_or_else(|| STEP_SECONDS.max(input.recording.tick_seconds));
    let usual = ClusterlessOptions::default();
    let number = |name, given: Option<&Bound<'py, PyAny>>, usual| match given {
        Some(given) if !given.is_none() => whole(name, given),
        _ => Ok(usual),
    };
    let options = ClusterlessOptions {
        cells: number("cells", cells, usual.cells)?,
        components: number("components", components, usual.components)?,
        seed,
        ..usual
    };
    let (model, score) = work::run(py, progress, |progress| {
        ClusterlessPlace::fit(&input.dataset(step)?, &input.features, &options, progress)
    })?;
    let training = PyDict::new(py);
    if let Some(score) = score {
        training.set_item("held_out_median_error", score.median_error)?;
        training.set_item("held_out_steps", score.steps)?;
        training.set_item("unit", score.unit)?;
    }
    Ok((ClusterlessModel::of(model), training))
}

/// A trained clusterless place decoder: immutable, saved and loaded as one checked file.
///
/// The file is that of `betz train --decoder place --marks`.
#[pyclass(frozen, module = "betz")]
pub(crate) struct ClusterlessModel {
    inner: Arc<ClusterlessPlace>,
}

impl ClusterlessModel {
    fn of(model: ClusterlessPlace) -> Self {
        Self {
            inner: Arc::new(model),
        }
    }
}

#[pymethods]
impl ClusterlessModel {
    /// The model in the file `path`.
    #[classmethod]
    fn load(_class: &Bound<'_, PyType>, py: Python<'_>, path: FilePath) -> PyResult<Self> {
        work::detach(py, || ClusterlessPlace::load(&path))
            .or_raise(py)
            .map(Self::of)
    }

    /// The model in the bytes of a file.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        work::detach(py, || ClusterlessPlace::from_bytes(bytes))
            .or_raise(py)
            .map(Self::of)
    }

    /// Writes the model file `path`: whole, or not at all.
    fn save(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        work::detach(py, || self.inner.save(&path)).or_raise(py)
    }

    /// The bytes of the model's file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &work::detach(py, || self.inner.to_bytes()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py>> {
        let make = slf.get_type().getattr("from_bytes")?;
        Ok((make, (slf.get().to_bytes(slf.py()),)))
    }

    /// Estimates of every step, float32 (steps, outputs) with NaN in steps outside segments, and the number of spikes
    /// that were left out because a feature is not finite or their channel had no spikes in training.
    /// `seconds`: (from, until); None: all.
    #[pyo3(signature = (recording, spike_features, *, seconds=None))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        recording: &Bound<'py, PyAny>,
        spike_features: &Bound<'py, PyAny>,
        seconds: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyArray2<f32>>, u64)> {
        let input = Input::new(py, recording, spike_features, seconds)?;
        let (estimates, left_out) = work::run(py, None, |_| {
            // Steps without behaviour are decoded, too.
            let bare = rust::Recording {
                behavior: None,
                ..(*input.recording).clone()
            };
            let input = Input {
                recording: Arc::new(bare),
                ..input
            };
            let dataset = input.dataset(self.inner.step_seconds())?;
            self.inner.decode(&dataset, &input.features)
        })?;
        let outputs = self.inner.outputs().len();
        let steps = estimates.len() / outputs.max(1);
        let estimates = estimates.into_pyarray(py).reshape([steps, outputs])?;
        Ok((estimates, left_out))
    }

    /// Scores against the behaviour of `recording`: a list of dictionaries, one per output, the mean R² over outputs
    /// that change, and the median distance in the outputs' unit.
    #[pyo3(signature = (recording, spike_features, *, seconds=None))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        recording: &Bound<'py, PyAny>,
        spike_features: &Bound<'py, PyAny>,
        seconds: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Vec<Bound<'py, PyDict>>, f64, Option<f64>)> {
        let input = Input::new(py, recording, spike_features, seconds)?;
        if input.recording.behavior.is_none() {
            return Err(PyValueError::new_err(
                "recording: expected behaviour to score against, got none",
            ));
        }
        let (scores, place) = work::run(py, None, |_| {
            let dataset = input.dataset(self.inner.step_seconds())?;
            let dataset = dataset.with_outputs(self.inner.outputs())?;
            let (estimates, _) = self.inner.decode(&dataset, &input.features)?;
            let place = place_error(&dataset, &estimates, 0)?;
            Ok((score_estimates(&dataset, &estimates, 0)?.outputs, place))
        })?;
        let median = place.map(|place| place.median);
        Ok((score_list(py, &scores)?, mean_r2(&scores), median))
    }

    /// Length of one step in seconds.
    #[getter]
    fn step_seconds(&self) -> f64 {
        self.inner.step_seconds()
    }

    /// Number of channels (electrode groups).
    #[getter]
    fn channels(&self) -> usize {
        self.inner.channel_names().len()
    }

    /// One name per channel.
    #[getter]
    fn channel_names(&self) -> Vec<String> {
        self.inner.channel_names().to_vec()
    }

    /// Number of features per spike.
    #[getter]
    fn features(&self) -> usize {
        self.inner.features()
    }

    /// Number of components of all channels.
    #[getter]
    fn components(&self) -> usize {
        self.inner.components()
    }

    /// Names of the outputs.
    #[getter]
    fn output_names(&self) -> Vec<String> {
        (self.inner.outputs().iter().map(|o| o.name.clone())).collect()
    }

    /// Units of the outputs; empty where unknown.
    #[getter]
    fn output_units(&self) -> Vec<String> {
        (self.inner.outputs().iter().map(|o| o.unit.clone())).collect()
    }

    /// The outputs in each cell of the posterior, float64 (cells, outputs).
    #[getter]
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let place = self.inner.place();
        let values = place.values.clone().into_pyarray(py);
        values.reshape([place.cells.len(), self.inner.outputs().len()])
    }

    /// Parameters that training chose: `bandwidth` in standard deviations of each feature, `smoothing` in cells, `walk`
    /// relative to the movement per step, and `trust`, the weight of the log-likelihood.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (dict, shape) = (PyDict::new(py), self.inner.shape());
        dict.set_item("bandwidth", shape.bandwidth)?;
        dict.set_item("smoothing", shape.smoothing)?;
        dict.set_item("walk", shape.pace)?;
        dict.set_item("trust", shape.trust)?;
        Ok(dict)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.inner == other.inner
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.ClusterlessModel: {}, {}, {}, {}, a step every {} s>",
            count(self.channels() as u128, "channel"),
            count(self.features() as u128, "feature"),
            count(self.inner.place().cells.len() as u128, "cell"),
            count(self.inner.outputs().len() as u128, "output"),
            self.inner.step_seconds()
        )
    }
}

/// A real-time session of a `ClusterlessModel`: one call per step, with the spikes of the step and their features.
#[pyclass(module = "betz")]
pub(crate) struct ClusterlessSession {
    /// Reached through `&mut` alone: the lock is never taken.
    inner: Mutex<RustSession<Arc<ClusterlessPlace>>>,
    model: Py<ClusterlessModel>,
}

impl ClusterlessSession {
    fn session(&mut self) -> PyResult<&mut RustSession<Arc<ClusterlessPlace>>> {
        (self.inner.get_mut())
            .map_err(|_| PyRuntimeError::new_err("the session was left by a panic: open another"))
    }
}

#[pymethods]
impl ClusterlessSession {
    #[new]
    fn new(py: Python<'_>, model: &Bound<'_, PyAny>) -> PyResult<Self> {
        let model = instance::<ClusterlessModel>("model", MODEL, model)?;
        let session = RustSession::open(model.get().inner.clone()).or_raise(py)?;
        Ok(Self {
            inner: Mutex::new(session),
            model: model.clone().unbind(),
        })
    }

    /// Runs one step with the channel of each spike and its features (spikes, features), and gives the mean of the
    /// outputs, float32. Empty arrays are a step without spikes.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        channels: &Bound<'py, PyAny>,
        spike_features: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let spikes = integers("channels", channels)?;
        let known = self.session()?.model().channel_names().len();
        let mut numbers = Vec::with_capacity(spikes.len());
        for (i, &channel) in spikes.iter().enumerate() {
            if !(0..known as i64).contains(&channel) {
                return Err(PyValueError::new_err(format!(
                    "channels: [{i}] = {channel}: expected a channel from 0 to {}",
                    known - 1
                )));
            }
            numbers.push(channel as u32);
        }
        let features = match spikes.is_empty() {
            true => Vec::new(),
            false => {
                let given = features_of(py, spike_features)?;
                let expected = self.session()?.model().features();
                if (given.rows(), given.columns) != (spikes.len(), expected) {
                    return Err(PyValueError::new_err(format!(
                        "spike_features: expected ({}, {expected}), a row per spike, got ({}, {})",
                        spikes.len(),
                        given.rows(),
                        given.columns
                    )));
                }
                given.values
            }
        };
        let (mean, _) = self.session()?.step(&numbers, &features);
        let mean: Vec<f32> = mean.iter().map(|m| *m as f32).collect();
        Ok(mean.into_pyarray(py))
    }

    /// The probability of every cell after the last step, float64 (cells,); all 0 at rest. `model.cells` has the outputs
    /// of each.
    fn posterior<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(self.session()?.posterior().to_vec().into_pyarray(py))
    }

    /// Returns to rest, as at a trial's start.
    fn reset(&mut self) -> PyResult<()> {
        self.session()?.reset();
        Ok(())
    }

    /// Number of spikes that were left out: a feature is not finite, or their channel had no spikes in training.
    #[getter]
    fn spikes_left_out(&mut self) -> PyResult<u64> {
        Ok(self.session()?.spikes_left_out())
    }

    /// The model.
    #[getter]
    fn model(&self, py: Python<'_>) -> Py<ClusterlessModel> {
        self.model.clone_ref(py)
    }
}
