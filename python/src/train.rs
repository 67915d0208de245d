//! Training, as `betz train` does it.

use betz::device::{Device, DeviceSpec};
use betz::input_form;
use betz::model::LowPass;
use betz::psc::{Filter, FilterBank};
use betz::train::{
    Delay, Kind, KindOptions, MaskPolicy, PRESETS, Preset, RidgeChoice, TrainOptions, Training,
};
use betz::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset::Dataset;
use crate::error::OrRaise;
use crate::model::Model;
use crate::work;

/// A bank by name, or filter by filter.
#[derive(FromPyObject)]
pub(crate) enum Bank {
    #[pyo3(transparent)]
    Named(String),
    #[pyo3(transparent)]
    Filters(Vec<(f64, u32)>),
}

impl Bank {
    /// `None` where cross-validation is to choose.
    pub(crate) fn bank(&self) -> Result<Option<FilterBank>> {
        let filters = match self {
            Self::Named(name) if name == "auto" => return Ok(None),
            Self::Named(name) => {
                let preset = Preset::named(name).ok_or_else(|| {
                    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
                    Error::argument(format!(
                        "bank: expected \"auto\", one of {}, or a list of (tau_seconds, order), got '{name}'",
                        names.join(", ")
                    ))
                })?;
                return preset.bank().map(Some);
            }
            Self::Filters(filters) => filters,
        };
        let filter = |&(tau_seconds, order): &(f64, u32)| Filter { tau_seconds, order };
        FilterBank::new(filters.iter().map(filter).collect()).map(Some)
    }
}

/// Options of training.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    pub(crate) bank: Bank,
    pub(crate) ridge: Option<f64>,
    pub(crate) noise: Option<f64>,
    delay_steps: i64,
    low_pass: Option<(f64, u32)>,
    folds: usize,
    kind: String,
    latents: Option<usize>,
    units: Option<usize>,
    experts: Option<usize>,
    layers: Option<Vec<usize>>,
    members: Option<usize>,
    epochs: Option<usize>,
    seed: u64,
    device: String,
}

impl Options {
    /// The options in the dictionary `given`.
    ///
    /// # Errors
    /// TypeError that names the option and says why its value is refused.
    pub(crate) fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        given.extract::<Self>().map_err(|error: PyErr| {
            let (py, text) = (given.py(), error.to_string());
            let option = text.rsplit("Options.").next().unwrap_or("options");
            let reason = error
                .cause(py)
                .map_or_else(String::new, |cause| format!(", {}", cause.value(py)));
            let got = given.get_item(option);
            let got = got.map_or_else(|_| "nothing".to_owned(), |got| format!("{got:?}"));
            PyTypeError::new_err(format!("{option}: got {got}{reason}"))
        })
    }

    /// The training that is asked for, with `bank`.
    fn training(&self, bank: Option<FilterBank>) -> Result<Training> {
        Ok(Training {
            bank,
            low_pass: self.low_pass(),
            delay: Delay::Steps(self.delay_steps),
            ridge: self.ridge_choice(),
            folds: self.folds,
            kinds: self.kinds()?,
            ..Training::default()
        })
    }

    /// The options of the linear engine alone, with `bank`.
    pub(crate) fn linear(&self, bank: FilterBank) -> TrainOptions {
        let mut options = TrainOptions::new(bank);
        options.delay_steps = self.delay_steps;
        options.low_pass = self.low_pass();
        options.mask = MaskPolicy::Mask;
        options.ridge = self.ridge_choice().unwrap_or(options.ridge);
        options
    }

    fn low_pass(&self) -> Option<LowPass> {
        self.low_pass
            .map(|(cutoff_hz, order)| LowPass { order, cutoff_hz })
    }

    fn ridge_choice(&self) -> Option<RidgeChoice> {
        match (self.ridge, self.noise) {
            (Some(ridge), _) => Some(RidgeChoice::Fixed(ridge)),
            (None, noise) => noise.map(RidgeChoice::RelativeNoise),
        }
    }

    pub(crate) fn device(&self) -> Result<Device> {
        Device::open(self.device.parse::<DeviceSpec>()?)
    }

    /// The kinds to choose from.
    fn kinds(&self) -> Result<KindOptions> {
        let kinds = match self.kind.as_str() {
            "linear" => KindOptions::linear(),
            "lift" => KindOptions::among(&[Kind::Lift]),
            "experts" => KindOptions::among(&[Kind::Experts]),
            "kalman" => KindOptions::among(&[Kind::Kalman]),
            "refit" => KindOptions::among(&[Kind::Refit]),
            "place" => KindOptions::among(&[Kind::Place]),
            "recurrent" => KindOptions::among(&[Kind::Recurrent]),
            "auto" => KindOptions::auto(),
            other => {
                return Err(Error::argument(format!(
                    "kind: expected linear, lift, experts, kalman, refit, place, recurrent or auto, got '{other}'"
                )));
            }
        };
        Ok(KindOptions {
            latents: self.latents,
            units: self.units,
            experts: self.experts,
            layers: self.layers.clone(),
            members: self.members,
            epochs: self.epochs,
            seed: self.seed,
            ..kinds
        })
    }
}

/// The device that `spec` asks for.
pub(crate) fn device(py: Python<'_>, spec: &str) -> PyResult<Device> {
    spec.parse::<DeviceSpec>()
        .and_then(Device::open)
        .or_raise(py)
}

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
#[pyfunction]
pub(crate) fn train<'py>(
    py: Python<'py>,
    data: &Dataset,
    options: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Model, Bound<'py, PyDict>)> {
    let options = Options::of(options)?;
    let (inner, form) = (data.inner.clone(), data.form());
    let (decoder, report) = work::run(py, progress, |progress| {
        let bank = options.bank.bank()?;
        let training = options.training(bank)?;
        let trained = training.run(&inner, &options.device()?, progress)?;
        Ok((
            input_form::marked(trained.decoder, form)?,
            (trained.ran, trained.comparison),
        ))
    })?;
    let (ran, comparison) = report;
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
            Ok(row)
        });
        said.set_item("taken", comparison.taken.name())?;
        said.set_item("kinds", rows.collect::<PyResult<Vec<_>>>()?)?;
        said.set_item("artefacts", comparison.artefacts)?;
    }
    Ok((Model::of(decoder), said))
}
