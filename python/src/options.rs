//! Options of training, as `betz.Decoder` hands them over in a dictionary.

use betz::device::{Device, DeviceSpec};
use betz::model::{LowPass, WeightPrecision};
use betz::psc::{Filter, FilterBank, SampledFilter};
use betz::train::{
    Delay, Kind, KindOptions, MaskPolicy, PRESETS, Preset, RidgeChoice, Solver, TrainOptions,
    Training, filters,
};
use betz::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::arguments::described;
use crate::error::OrRaise;

/// A bank by name, or filter by filter.
#[derive(FromPyObject)]
pub(crate) enum Bank {
    #[pyo3(transparent)]
    Named(String),
    #[pyo3(transparent)]
    Filters(Vec<FilterArgument>),
}

/// One filter of a bank.
#[derive(FromPyObject)]
pub(crate) enum FilterArgument {
    /// (τ in seconds, order).
    Recursive(f64, u32),
    /// (samples on the model's steps, first step after a spike).
    Sampled(Vec<f64>, i64),
    /// A `betz.Filter`.
    Described {
        samples: Vec<f64>,
        step_seconds: Option<f64>,
        start: i64,
        times: Option<Vec<f64>>,
        name: Option<String>,
        keep_gain: bool,
    },
    /// A text that `betz train --filter` takes.
    #[pyo3(transparent)]
    Text(String),
}

impl Bank {
    /// `None` where cross-validation is to choose.
    pub(crate) fn bank(&self, step_seconds: f64) -> Result<Option<FilterBank>> {
        let list = match self {
            Self::Named(name) if name == "auto" => return Ok(None),
            Self::Named(name) => {
                let preset = Preset::named(name).ok_or_else(|| {
                    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
                    Error::argument(format!(
                        "bank: expected \"auto\", one of {}, or a list of (tau_seconds, order), betz.Filter, (samples, first step) or texts such as \"boxcar:50ms\", got '{name}'",
                        names.join(", ")
                    ))
                })?;
                return preset.bank().map(Some);
            }
            Self::Filters(list) => list,
        };
        let (mut recursive, mut sampled) = (Vec::new(), Vec::new());
        for (i, filter) in list.iter().enumerate() {
            match filter {
                &FilterArgument::Recursive(tau_seconds, order) => {
                    recursive.push(Filter { tau_seconds, order });
                }
                FilterArgument::Sampled(samples, start) => {
                    let name = format!("bank[{i}]");
                    let samples = samples.clone();
                    sampled.push(SampledFilter::new(name, samples, step_seconds, *start)?);
                }
                FilterArgument::Described {
                    samples,
                    step_seconds: own_step,
                    start,
                    times,
                    name,
                    keep_gain,
                } => {
                    let name = name.clone().unwrap_or_else(|| format!("bank[{i}]"));
                    let filter = match times {
                        Some(times) => {
                            let points = times.iter().copied().zip(samples.iter().copied());
                            let points: Vec<(f64, f64)> = points.collect();
                            SampledFilter::through(name, &points, step_seconds)?
                        }
                        None => {
                            let own = own_step.unwrap_or(step_seconds);
                            SampledFilter::new(name, samples.clone(), own, *start)?
                        }
                    };
                    filter.check_step(step_seconds)?;
                    sampled.push(match keep_gain {
                        true => filter,
                        false => filter.with_unit_sum()?,
                    });
                }
                FilterArgument::Text(text) => {
                    let made = filters::bank(std::slice::from_ref(text), step_seconds, false)?;
                    recursive.extend_from_slice(made.filters());
                    sampled.extend_from_slice(made.sampled());
                }
            }
        }
        FilterBank::with_sampled(recursive, sampled).map(Some)
    }
}

/// Each option, and the values that it takes.
const EXPECTED: [(&str, &str); 20] = [
    (
        "bank",
        "\"auto\", a name from betz.presets(), or a list of (tau_seconds, order) with whole orders, betz.Filter, (samples, first step) and texts such as \"boxcar:50ms\"",
    ),
    ("ridge", "\"auto\" or a number of at least 0"),
    ("noise", "a number of at least 0, or None"),
    ("solver", "\"cholesky\" or \"inverse\""),
    ("delay_steps", "a whole number"),
    ("low_pass", "(hertz, order) with a whole order, or None"),
    ("folds", "a whole number of at least 0"),
    ("kind", "the name of a kind"),
    ("latents", "a whole number of at least 1, or None"),
    ("units", "a whole number of at least 1, or None"),
    ("experts", "a whole number of at least 1, or None"),
    (
        "layers",
        "a list of whole numbers, such as (64, 64), or None",
    ),
    ("members", "a whole number of at least 1, or None"),
    ("mixed", "a whole number of at least 0, or None"),
    ("epochs", "a whole number of at least 1, or None"),
    ("weights", "\"f32\", \"bf16\", \"int8\" or None"),
    ("seed", "a whole number of at least 0"),
    ("keep_artefacts", "True or False"),
    ("retain_bytes", "a whole number of at least 0, or None"),
    (
        "device",
        "\"cpu\", \"auto\", \"cuda\", \"cuda:1\" or \"cuda:all\"",
    ),
];

/// Options of training.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    pub(crate) bank: Bank,
    pub(crate) ridge: Option<f64>,
    pub(crate) noise: Option<f64>,
    solver: String,
    pub(crate) delay_steps: i64,
    low_pass: Option<(f64, u32)>,
    pub(crate) folds: usize,
    pub(crate) kind: String,
    latents: Option<usize>,
    units: Option<usize>,
    experts: Option<usize>,
    layers: Option<Vec<usize>>,
    members: Option<usize>,
    mixed: Option<usize>,
    epochs: Option<usize>,
    weights: Option<String>,
    seed: u64,
    keep_artefacts: bool,
    retain_bytes: Option<usize>,
    device: String,
}

impl Options {
    /// The options in the dictionary `given`.
    ///
    /// # Errors
    /// TypeError that names the option, and says what is expected of it.
    pub(crate) fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        given.extract::<Self>().map_err(|error: PyErr| {
            for (option, expected) in EXPECTED {
                let Ok(value) = given.get_item(option) else {
                    let message =
                        format!("options: expected a dictionary with {option:?}: {expected}");
                    return PyTypeError::new_err(message);
                };
                if error.to_string().contains(&format!("Options.{option}")) {
                    let got = match value.repr() {
                        Ok(value) if value.to_string().len() <= 60 => value.to_string(),
                        _ => described(&value),
                    };
                    return PyTypeError::new_err(format!(
                        "{option}: expected {expected}, got {got}"
                    ));
                }
            }
            error
        })
    }

    /// The training that is asked for, with `bank`.
    pub(crate) fn training(&self, bank: Option<FilterBank>) -> Result<Training> {
        Ok(Training {
            bank,
            low_pass: self.low_pass(),
            delay: Delay::Steps(self.delay_steps),
            ridge: self.ridge_choice(),
            solver: self.solver()?,
            folds: self.folds,
            kinds: self.kinds()?,
            keep_artefacts: self.keep_artefacts,
            retain: self.retain_bytes,
            ..Training::default()
        })
    }

    /// The options of the linear engine alone, with `bank`.
    pub(crate) fn linear(&self, bank: FilterBank) -> TrainOptions {
        let mut options = TrainOptions::new(bank);
        options.delay_steps = self.delay_steps;
        options.low_pass = self.low_pass();
        options.mask = MaskPolicy::Mask;
        options.keep_artefacts = self.keep_artefacts;
        options.ridge = self.ridge_choice().unwrap_or(options.ridge);
        options
    }

    pub(crate) fn low_pass(&self) -> Option<LowPass> {
        self.low_pass
            .map(|(cutoff_hz, order)| LowPass { order, cutoff_hz })
    }

    pub(crate) fn ridge_choice(&self) -> Option<RidgeChoice> {
        match (self.ridge, self.noise) {
            (Some(ridge), _) => Some(RidgeChoice::Fixed(ridge)),
            (None, noise) => noise.map(RidgeChoice::RelativeNoise),
        }
    }

    /// The method that solves the linear system.
    pub(crate) fn solver(&self) -> Result<Solver> {
        solver(&self.solver)
    }

    pub(crate) fn device(&self) -> Result<Device> {
        Device::open(self.device.parse::<DeviceSpec>()?)
    }

    /// The numbers of a network's matrices.
    fn weights(&self) -> Result<Option<WeightPrecision>> {
        match self.weights.as_deref() {
            None => Ok(None),
            Some("f32") => Ok(Some(WeightPrecision::F32)),
            Some("bf16") => Ok(Some(WeightPrecision::Bf16)),
            Some("int8") => Ok(Some(WeightPrecision::Int8)),
            Some(other) => Err(Error::argument(format!(
                "weights: expected f32, bf16, int8 or None, got '{other}'"
            ))),
        }
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
            "best" => KindOptions::best(),
            other => {
                return Err(Error::argument(format!(
                    "kind: expected linear, lift, experts, kalman, refit, place, recurrent, auto or best, got '{other}'"
                )));
            }
        };
        Ok(KindOptions {
            latents: self.latents,
            units: self.units,
            experts: self.experts,
            layers: self.layers.clone(),
            members: self.members,
            mixed: self.mixed,
            epochs: self.epochs,
            weights: self.weights()?,
            seed: self.seed,
            ..kinds
        })
    }
}

/// The solver of this name.
pub(crate) fn solver(name: &str) -> Result<Solver> {
    match name {
        "cholesky" => Ok(Solver::Cholesky),
        "inverse" => Ok(Solver::Inverse),
        other => Err(Error::argument(format!(
            "solver: expected cholesky or inverse, got '{other}'"
        ))),
    }
}

/// The device that `spec` asks for.
pub(crate) fn device(py: Python<'_>, spec: &str) -> PyResult<Device> {
    spec.parse::<DeviceSpec>()
        .and_then(Device::open)
        .or_raise(py)
}
