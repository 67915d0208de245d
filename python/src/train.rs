//! Training, as `betz train` does it.

use betz::input_form;
use betz::recording::DatasetView;
use betz::train::{PRESETS, TrainingData};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::instance;
use crate::arrays::floats;
use crate::dataset::{DATASET, Dataset};
use crate::model::Model;
use crate::options::Options;
use crate::{weighted, work};

/// The names of the presets and what each is good for.
#[pyfunction]
pub(crate) fn presets(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    PRESETS
        .iter()
        .try_for_each(|p| dict.set_item(p.name, p.about))?;
    Ok(dict)
}

/// A decoder of `data`, and what there is to say of its training. `betz.Decoder` is the way to call it.
/// `weights`: one per step, for weighted least squares; None: all 1.
#[pyfunction]
#[pyo3(signature = (data, options, progress=None, weights=None))]
pub(crate) fn train<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    options: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
    weights: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Model, Bound<'py, PyDict>)> {
    let data = instance::<Dataset>("data", DATASET, data)?.get();
    let options = Options::of(options)?;
    if let Some(weights) = weights {
        return train_weighted(py, data, &options, progress, weights);
    }
    let (inner, form) = (data.inner.clone(), data.form());
    let (decoder, report) = work::run(py, progress, |progress| {
        let bank = options.bank.bank(inner.step_seconds)?;
        let training = options.training(bank)?;
        let trained = training.run(&inner, &options.device()?, progress)?;
        Ok((
            input_form::marked(trained.decoder, form)?,
            (
                trained.ran,
                trained.comparison,
                trained.artefacts,
                trained.warnings,
            ),
        ))
    })?;
    let (ran, comparison, artefacts, warnings) = report;
    let said = PyDict::new(py);
    said.set_item("device", ran.device)?;
    said.set_item("path", ran.path)?;
    said.set_item("fallback", ran.fallback)?;
    if let Some(comparison) = comparison {
        let rows = comparison.kinds.iter().map(|kind| {
            let row = PyDict::new(py);
            row.set_item("kind", kind.kind.name())?;
            row.set_item("configuration", &kind.configuration)?;
            row.set_item("r2", kind.r2)?;
            row.set_item("gain", kind.gain)?;
            row.set_item("gain_error", kind.gain_error)?;
            row.set_item("weight", kind.weight)?;
            Ok(row)
        });
        said.set_item("taken", comparison.taken.name())?;
        said.set_item("kinds", rows.collect::<PyResult<Vec<_>>>()?)?;
    }
    said.set_item("artefacts", artefacts.steps)?;
    said.set_item("artefact_spikes", artefacts.spikes)?;
    said.set_item("spikes", artefacts.all_spikes)?;
    said.set_item("warnings", warnings)?;
    Ok((Model::of(decoder), said))
}

fn train_weighted<'py>(
    py: Python<'py>,
    data: &Dataset,
    options: &Options,
    progress: Option<&Bound<'py, PyAny>>,
    weights: &Bound<'py, PyAny>,
) -> PyResult<(Model, Bound<'py, PyDict>)> {
    let weights = floats("sample_weight", weights)?;
    let (inner, form) = (data.inner.clone(), data.form());
    let decoder = work::run(py, progress, |progress| {
        let decoder = weighted::train(&inner, &weights, options, progress)?;
        let trained = DatasetView {
            segments: &data.segments_with_weight(&weights),
            ..inner.view()
        };
        let decoder = TrainingData::new(trained).attach(decoder)?;
        input_form::marked(decoder, form)
    })?;
    let said = PyDict::new(py);
    said.set_item("device", "cpu")?;
    said.set_item("path", "weighted")?;
    said.set_item("fallback", py.None())?;
    Ok((Model::of(decoder), said))
}
