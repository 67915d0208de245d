//! Training, as `betz train` does it.

use betz::device::{Device, DeviceSpec};
use betz::input_form;
use betz::model::LowPass;
use betz::psc::{Filter, FilterBank};
use betz::train::{
    self as rust, Kind, KindOptions, MaskPolicy, PRESETS, Preset, RidgeChoice, Search, TrainOptions,
};
use betz::{Error, Result};
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
    seed: u64,
    device: String,
}

impl Options {
    /// Training options of the linear engine, with `bank`.
    pub(crate) fn training(&self, bank: FilterBank) -> TrainOptions {
        let mut options = TrainOptions::new(bank);
        options.delay_steps = self.delay_steps;
        options.low_pass = self
            .low_pass
            .map(|(cutoff_hz, order)| LowPass { order, cutoff_hz });
        options.mask = MaskPolicy::Mask;
        options.ridge = match (self.ridge, self.noise) {
            (Some(ridge), _) => RidgeChoice::Fixed(ridge),
            (None, Some(noise)) => RidgeChoice::RelativeNoise(noise),
            (None, None) => options.ridge,
        };
        options
    }

    pub(crate) fn device(&self) -> Result<Device> {
        Device::open(self.device.parse::<DeviceSpec>()?)
    }

    /// The kinds to choose from; `None`: the linear alone.
    fn kinds(&self) -> Result<Option<KindOptions>> {
        let kinds = match self.kind.as_str() {
            "linear" => return Ok(None),
            "lift" => KindOptions::among(&[Kind::Lift]),
            "experts" => KindOptions::among(&[Kind::Experts]),
            "kalman" => KindOptions::among(&[Kind::Kalman]),
            "refit" => KindOptions::among(&[Kind::Refit]),
            "place" => KindOptions::among(&[Kind::Place]),
            "auto" => KindOptions::auto(),
            other => {
                return Err(Error::argument(format!(
                    "kind: expected linear, lift, experts, kalman, refit, place or auto, got '{other}'"
                )));
            }
        };
        Ok(Some(KindOptions {
            latents: self.latents,
            units: self.units,
            experts: self.experts,
            seed: self.seed,
            ..kinds
        }))
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
    options: Options,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Model, Bound<'py, PyDict>)> {
    let (inner, form) = (data.inner.clone(), data.form());
    let (decoder, report) = work::run(py, progress, |progress| {
        let active = rust::active(&inner)?;
        let whole = &*inner;
        let dataset = active.as_ref().map_or(whole, |active| &active.data);
        let mut search = match options.bank.bank()? {
            Some(_) => Search::ridge(),
            None => Search::presets(dataset)?,
        };
        search.folds = options.folds;
        search.ridge = options.ridge.is_none() && options.noise.is_none();
        let bank = match (options.bank.bank()?, search.banks.first()) {
            (Some(bank), _) => bank,
            (None, Some(bank)) => bank.clone(),
            (None, None) => PRESETS[0].bank()?,
        };
        let training = options.training(bank);
        let device = options.device()?;
        let (trained, comparison) = match options.kinds()? {
            None if options.folds == 0 => {
                (rust::train_on(&device, dataset, &training, progress)?, None)
            }
            None => (
                rust::train_validated_on(&device, dataset, &training, &search, progress)?,
                None,
            ),
            Some(kinds) => {
                let both =
                    rust::train_kinds_on(&device, dataset, &training, &search, &kinds, progress)?;
                (both.0, Some(both.1))
            }
        };
        let firing = active.as_ref().map(|active| active.channels.as_slice());
        let decoder = Model::spread(trained.decoder, &whole.channel_names, firing)?;
        Ok((
            input_form::marked(decoder, form)?,
            (trained.ran, comparison),
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
