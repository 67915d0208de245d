//! `Model`: a trained decoder and its file.

use std::sync::Arc;

use betz::model::{Decoder, OutputScore, blanking_warning, decode_on};
use betz::recording::{DatasetView, SpikeForm};
use betz::text::count;
use betz::train::overlap_warning;
use betz::train::score::{mean_r2, score_estimates};
use betz::{Error, input_form};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyType};

use crate::arguments::FilePath;
use crate::arrays::floats;
use crate::dataset::Dataset;
use crate::error::{OrRaise, warn};
use crate::{options, work};

/// A model as an argument, for messages.
pub(crate) const MODEL: &str =
    "a betz.Model; Model.load reads one, and a fitted Decoder has one in model_";

/// A trained decoder: immutable, saved and loaded as one checked file, shared by any number of sessions.
///
/// The file is that of the command line and the C library: what one trains the others run.
#[pyclass(frozen, module = "betz")]
pub(crate) struct Model {
    pub(crate) inner: Arc<Decoder>,
}

impl Model {
    pub(crate) fn of(decoder: Decoder) -> Self {
        Self {
            inner: Arc::new(decoder),
        }
    }
}

/// `error`, which says what reads a file of a clusterless place decoder if it refuses one.
fn name_clusterless(error: Error) -> Error {
    match error.message().contains("got \"BETZCLUS\"") {
        true => Error::new(
            error.kind(),
            format!("{}; betz.ClusterlessModel.load reads it", error.message()),
        ),
        false => error,
    }
}

/// Scores as a list of dictionaries, one per output.
pub(crate) fn score_list<'py>(
    py: Python<'py>,
    scores: &[OutputScore],
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let dict = |score: &OutputScore| {
        let dict = PyDict::new(py);
        dict.set_item("name", &score.name)?;
        dict.set_item("unit", &score.unit)?;
        dict.set_item("r2", score.r2)?;
        dict.set_item("rmse", score.rmse)?;
        dict.set_item("nrmse_range", score.nrmse_range)?;
        dict.set_item("nrmse_std", score.nrmse_std)?;
        Ok(dict)
    };
    scores.iter().map(dict).collect()
}

#[pymethods]
impl Model {
    /// The model in the file `path`.
    #[classmethod]
    fn load(_class: &Bound<'_, PyType>, py: Python<'_>, path: FilePath) -> PyResult<Self> {
        let load = || Decoder::load(&path).map_err(name_clusterless);
        work::detach(py, load).or_raise(py).map(Self::of)
    }

    /// The model in the bytes of a file.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let read = Decoder::from_bytes(bytes).map_err(name_clusterless);
        read.or_raise(py).map(Self::of)
    }

    /// Writes the model file `path`: whole, or not at all.
    fn save(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        work::detach(py, || self.inner.save(&path)).or_raise(py)
    }

    /// Writes one step of the model as ONNX (opset 17) to `path`: counts and states in, estimates and states out. For
    /// linear decoders, lifts, Kalman filters, recurrent decoders, classes and gated decoders.
    fn to_onnx(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        work::detach(py, || betz::formats::onnx::write(&self.inner, &path)).or_raise(py)
    }

    /// The bytes of the model's file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.inner.to_bytes().or_raise(py)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = slf.get_type().getattr("from_bytes")?;
        Ok((make, (slf.get().to_bytes(slf.py())?,)))
    }

    /// Estimates of `data`, a Dataset or a Recording: float32 (steps, outputs): row t estimates the behaviour of t − `delay_steps`. NaN in
    /// steps outside segments. Channels are matched by name. Warns if steps count as artefacts.
    #[pyo3(signature = (data, *, device="cpu", progress=None))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        device: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let device = options::device(py, device)?;
        let data = Dataset::of_argument(data, self.inner.step_seconds())?;
        let data = data.get();
        let (decoder, dataset, form) = (&self.inner, &data.inner, data.form());
        let (estimates, warning) = work::run(py, progress, |_| {
            input_form::check(decoder, form)?;
            let decoded = decode_on(&device, decoder, &**dataset)?;
            Ok((decoded.estimates, blanking_warning(decoder, &**dataset)))
        })?;
        if let Some(warning) = warning {
            warn(py, warning)?;
        }
        let outputs = self.inner.outputs().len();
        estimates.into_pyarray(py).reshape([dataset.steps, outputs])
    }

    /// Scores of estimates of `data` (as `decode` gives them): a list of dictionaries, one per output, and the mean R²
    /// over outputs that change. Warns if the model was trained on `data`, and if steps of it count as artefacts.
    fn score<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<Bound<'py, PyDict>>, f64)> {
        let data = Dataset::of_argument(data, self.inner.step_seconds())?;
        let data = data.get();
        let (decoder, dataset, form) = (&self.inner, &data.inner, data.form());
        let (scores, warnings) = work::run(py, None, |_| {
            input_form::check(decoder, form)?;
            let matched = (**dataset).clone().with_outputs(decoder.outputs())?;
            let estimates = betz::model::decode(decoder, &matched)?;
            let scores = score_estimates(&matched, &estimates, decoder.delay_steps())?.outputs;
            let warnings = [
                overlap_warning(decoder, &matched)?,
                blanking_warning(decoder, &matched),
            ];
            Ok((scores, warnings))
        })?;
        for warning in warnings.into_iter().flatten() {
            warn(py, warning)?;
        }
        Ok((score_list(py, &scores)?, mean_r2(&scores)))
    }

    /// The warning that `score` gives if the model was trained on `data`, or on steps of it whose weight is above 0; else None.
    /// `weights`: one per step, or None.
    #[pyo3(signature = (data, weights=None))]
    fn overlap_warning(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<String>> {
        let data = Dataset::of_argument(data, self.inner.step_seconds())?;
        let data = data.get();
        let weights = weights.map(|w| floats("weights", w)).transpose()?;
        if let Some(weights) = &weights
            && weights.len() != data.inner.steps
        {
            return Err(PyValueError::new_err(format!(
                "weights: expected {}, one per step, got {}",
                data.inner.steps,
                weights.len()
            )));
        }
        let weighted = weights.map(|w| data.segments_with_weight(&w));
        let view = DatasetView {
            segments: weighted.as_deref().unwrap_or(&data.inner.segments),
            ..data.inner.view()
        };
        work::detach(py, || overlap_warning(&self.inner, view)).or_raise(py)
    }

    /// "linear", "lift", "experts", "kalman", "place", "recurrent", "layers", "classes", "gated" or "blend".
    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    /// Length of one step in seconds.
    #[getter]
    fn step_seconds(&self) -> f64 {
        self.inner.step_seconds()
    }

    /// Row t of estimates is of the behaviour at t − delay_steps.
    #[getter]
    fn delay_steps(&self) -> i64 {
        self.inner.delay_steps()
    }

    /// Number of channels.
    #[getter]
    fn channels(&self) -> usize {
        self.inner.channels()
    }

    /// One name per channel.
    #[getter]
    fn channel_names(&self) -> Vec<String> {
        self.inner.channel_names().to_vec()
    }

    /// False for a channel that takes no part, bool (channels,).
    #[getter]
    fn channel_mask<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        self.inner.channel_mask().to_vec().into_pyarray(py)
    }

    /// Names of the outputs.
    #[getter]
    fn output_names(&self) -> Vec<String> {
        self.inner
            .outputs()
            .iter()
            .map(|o| o.name.clone())
            .collect()
    }

    /// Units of the outputs; empty where unknown.
    #[getter]
    fn output_units(&self) -> Vec<String> {
        self.inner
            .outputs()
            .iter()
            .map(|o| o.unit.clone())
            .collect()
    }

    /// The bank: (τ in seconds, order) of each filter h(t) = t^order e^(−t/τ), then (samples, first step) of each
    /// sampled one.
    #[getter]
    fn bank<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for f in self.inner.bank().filters() {
            list.append((f.tau_seconds, f.order))?;
        }
        for f in self.inner.bank().sampled() {
            list.append((f.samples().to_vec(), f.start()))?;
        }
        Ok(list)
    }

    /// Weights of the linear engine, float64 (channels × filters, latents), channel by channel.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let weights = self.inner.weights().to_vec().into_pyarray(py);
        weights.reshape([self.inner.features(), self.inner.latents()])
    }

    /// One intercept per latent, float64.
    #[getter]
    fn intercept<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.intercept().to_vec().into_pyarray(py)
    }

    /// The ridge λ it was trained with.
    #[getter]
    fn ridge(&self) -> f64 {
        self.inner.training().ridge
    }

    /// Paired steps it was trained on.
    #[getter]
    fn training_steps(&self) -> u64 {
        self.inner.training().steps
    }

    /// Cross-validated scores, one dictionary per output; empty if there are none.
    #[getter]
    fn scores<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        score_list(py, &self.inner.training().scores)
    }

    /// True if the model takes values of any sign instead of spikes.
    #[getter]
    fn takes_signal(&self) -> bool {
        input_form::is_of_signal(&self.inner)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.inner == other.inner
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.Model: {}, {}, {}, {}, a step every {} s>",
            self.inner.kind(),
            count(self.inner.channels() as u128, "channel"),
            count(self.inner.bank().len() as u128, "filter"),
            count(self.inner.outputs().len() as u128, "output"),
            self.inner.step_seconds()
        )
    }
}

impl Dataset {
    /// The form of its channels.
    pub(crate) const fn form(&self) -> SpikeForm {
        if self.signal {
            SpikeForm::Signal
        } else {
            SpikeForm::Counts
        }
    }
}
