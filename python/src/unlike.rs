//! `Unlike`: how far a session is from training, and recalibration without labels.

use std::sync::Mutex;

use betz::stream::Swapper;
use betz::train::unlike::{
    ModelChange, Recalibration, UnlikeConfig, UnlikeWatch, UnlikeWorker, recalibrate,
};
use numpy::IntoPyArray;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::instance;
use crate::dataset::{DATASET, Dataset};
use crate::error::OrRaise;
use crate::model::{MODEL, Model};
use crate::work;

/// A comparison of a session with the training of its model, on a thread of its own; `Session.unlike` opens it. It says
/// that a window is *unlike training*, and does not say that quality is lost: behaviour moves it, too.
#[pyclass(frozen, module = "betz")]
pub(crate) struct Unlike {
    watch: UnlikeWatch,
    swapper: Mutex<Swapper>,
}

impl Unlike {
    /// Opens the comparison of `session`, which runs `model`.
    pub(crate) fn open(
        py: Python<'_>,
        model: &Model,
        session: &mut betz::stream::Session,
        (window_seconds, suggest): (f64, bool),
    ) -> PyResult<Self> {
        let open = || -> betz::Result<Self> {
            let config = UnlikeConfig {
                window_seconds,
                ..UnlikeConfig::default()
            };
            let (tap, worker) = UnlikeWorker::open(&model.inner, &config)?;
            let worker = match suggest {
                true => worker.with_suggestions()?,
                false => worker,
            };
            let swapper = session.swapper()?;
            session.attach(Box::new(tap), 0)?;
            Ok(Self {
                watch: UnlikeWatch::start(worker)?,
                swapper: Mutex::new(swapper),
            })
        };
        work::detach(py, open).or_raise(py)
    }

    fn change<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Swapper) -> betz::Result<T> + Send,
    ) -> PyResult<T> {
        work::detach(py, || {
            let mut swapper = self.swapper.lock().map_err(|_| {
                PyRuntimeError::new_err("the comparison was left by a panic: open another")
            })?;
            Ok::<_, PyErr>(change(&mut swapper))
        })?
        .or_raise(py)
    }
}

/// `found` as a dictionary.
fn report<'py>(py: Python<'py>, found: &Recalibration) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("seconds", found.seconds)?;
    dict.set_item("explained", found.explained)?;
    dict.set_item("unexplained", found.unexplained)?;
    dict.set_item("coverage", found.coverage)?;
    dict.set_item("gains", found.gains.clone().into_pyarray(py))?;
    dict.set_item("odd", &found.odd)?;
    dict.set_item("refusal", &found.refusal)?;
    Ok(dict)
}

#[pymethods]
impl Unlike {
    /// The newest comparison: `tick`, `seconds`, `latents` (KL divergence from training in nats) and `rates` (mean
    /// |ln(rate / rate in training)|). None before the first window is full.
    #[getter]
    fn newest<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(newest) = self.watch.newest() else {
            return Ok(None);
        };
        let dict = PyDict::new(py);
        dict.set_item("tick", newest.tick)?;
        dict.set_item("seconds", newest.seconds)?;
        dict.set_item("latents", newest.latents)?;
        dict.set_item("rates", newest.rates)?;
        Ok(Some(dict))
    }

    /// The recalibration of the newest whole window: `tick`, `suggested`, `applied`, `roll_back` (a reason, or None),
    /// `seconds`, `explained`, `unexplained`, `coverage`, `gains`, `odd` and `refusal` (the reason why nothing is
    /// suggested, or None). None before the first window is full. It changes nothing until `apply` is called.
    #[getter]
    fn suggestion<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(suggestion) = self.watch.suggestion() else {
            return Ok(None);
        };
        let dict = report(py, &suggestion.found)?;
        dict.set_item("tick", suggestion.tick)?;
        dict.set_item("suggested", suggestion.suggested)?;
        dict.set_item("applied", suggestion.applied)?;
        dict.set_item("roll_back", &suggestion.roll_back)?;
        Ok(Some(dict))
    }

    /// Gives the session the suggested model at one of its next steps; goes back to the model as it was trained if the
    /// newest window does not suggest a recalibration any more. "recalibrated", "rolled back", or None for no change.
    fn apply(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(
            match self.change(py, |swapper| self.watch.apply(swapper))? {
                ModelChange::Recalibrated => Some("recalibrated"),
                ModelChange::RolledBack => Some("rolled back"),
                _ => None,
            },
        )
    }

    /// Goes back to the model as it was trained. False if no recalibrated model runs.
    fn roll_back(&self, py: Python<'_>) -> PyResult<bool> {
        self.change(py, |swapper| self.watch.roll_back(swapper))
    }

    /// Waits until every step made before this call has been compared.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        work::detach(py, || self.watch.flush()).or_raise(py)
    }

    /// The suggested model, or None.
    #[getter]
    fn suggested_model(&self, py: Python<'_>) -> Option<Model> {
        work::detach(py, || self.watch.suggested_model()).map(Model::of)
    }

    /// The model that the session runs: the recalibrated one, or the model as it was trained.
    #[getter]
    fn running_model(&self, py: Python<'_>) -> Model {
        Model::of(work::detach(py, || self.watch.running_model()))
    }

    /// Number of steps that were lost because the thread was late.
    #[getter]
    fn lost_steps(&self) -> u64 {
        self.watch.lost_steps()
    }
}

/// Compares `data`, which needs no behaviour, with the training of `model`: the report (as `Unlike.suggestion` has it) and
/// the recalibrated model, or None if nothing is suggested.
#[pyfunction(name = "recalibrate")]
pub(crate) fn recalibrate_model<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyAny>,
    data: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Option<Model>)> {
    let model = instance::<Model>("model", MODEL, model)?.get();
    let data = instance::<Dataset>("data", DATASET, data)?.get();
    let (decoder, dataset, form) = (&model.inner, &data.inner, data.form());
    let (found, solved) = work::run(py, None, |progress| {
        betz::input_form::check(decoder, form)?;
        recalibrate(decoder, dataset, progress)
    })?;
    Ok((report(py, &found)?, solved.map(Model::of)))
}
