//! `Sums`: what training needs of a recording, without the recording.

use betz::input_form;
use betz::psc::FilterBank;
use betz::recording::SpikeForm;
use betz::text::count;
use betz::train::RidgeChoice;
use betz::train::sums as rust;
use betz::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};

use crate::arguments::{FilePath, instance, number};
use crate::classes::{ClassChoices, labels_of, report_dict};
use crate::dataset::{DATASET, Dataset};
use crate::error::{OrRaise, warn};
use crate::model::Model;
use crate::options::Options;
use crate::work;

/// Γ, Υ and what goes with them of one recording or several: added without an error of rounding, so that the order of
/// adding makes no difference. What `Decoder.partial_fit` and `merge` are made of, and `betz sums` writes.
#[pyclass(frozen, module = "betz")]
pub(crate) struct Sums {
    inner: rust::Sums,
    /// The form of the channels.
    form: SpikeForm,
}

/// A function that pickle calls, and its arguments.
type PickleParts<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, bool));

#[pymethods]
impl Sums {
    /// The sums over every segment of `data`.
    #[staticmethod]
    #[pyo3(signature = (data, options, progress=None))]
    fn over(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        options: &Bound<'_, PyAny>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let data = instance::<Dataset>("data", DATASET, data)?.get();
        let options = Options::of(options)?;
        let inner = work::run(py, progress, |progress| {
            let training = options.linear(given_bank(&options, data.inner.step_seconds)?);
            rust::Sums::over(&options.device()?, &*data.inner, &training, progress)
        })?;
        Ok(Self {
            inner,
            form: data.form(),
        })
    }

    /// The sums over the steps of `data` that have a class: `classes` has the number of each step's class among `names`, −1 for none.
    /// The sums behind `ClassDecoder.partial_fit` and `merge`, which `betz sums --labels` writes, too.
    #[staticmethod]
    #[pyo3(signature = (data, options, names, classes, progress=None))]
    fn over_labels(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        options: &Bound<'_, PyAny>,
        names: Vec<String>,
        classes: &Bound<'_, PyAny>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let data = instance::<Dataset>("data", DATASET, data)?.get();
        let options = Options::of(options)?;
        let labels = labels_of(data, names, classes)?;
        let inner = work::run(py, progress, |progress| {
            let training = options.linear(given_bank(&options, data.inner.step_seconds)?);
            let device = options.device()?;
            rust::Sums::over_labels(&device, &data.inner, &labels, &training, progress)
        })?;
        Ok(Self {
            inner,
            form: data.form(),
        })
    }

    /// The sums in the bytes of a file.
    #[classmethod]
    fn from_bytes(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        bytes: &[u8],
        signal: bool,
    ) -> PyResult<Self> {
        let inner = work::detach(py, || rust::Sums::from_bytes(bytes)).or_raise(py)?;
        Ok(Self {
            inner,
            form: if signal {
                SpikeForm::Signal
            } else {
                SpikeForm::Counts
            },
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py>> {
        let make = slf.get_type().getattr("from_bytes")?;
        let this = slf.get();
        let bytes = PyBytes::new(slf.py(), &this.inner.to_bytes());
        Ok((make, (bytes, this.form == SpikeForm::Signal)))
    }

    /// Writes the file that `betz solve` takes.
    fn save(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        work::detach(py, || self.inner.save(&path)).or_raise(py)
    }

    /// These and `other`'s together. The same sums a second time are refused.
    fn merged(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let both = || -> Result<rust::Sums> {
            let mut both = self.inner.clone();
            both.merge(&other.inner)?;
            Ok(both)
        };
        let form = match (self.form, other.form) {
            (SpikeForm::Signal, _) | (_, SpikeForm::Signal) => SpikeForm::Signal,
            (form, _) => form,
        };
        Ok(Self {
            inner: work::detach(py, both).or_raise(py)?,
            form,
        })
    }

    /// True if both contain the sums of the same recording.
    fn shares(&self, other: &Self) -> bool {
        self.inner.shares(&other.inner)
    }

    /// The linear decoder of these sums at `ridge`, or at that of `noise` in parts of the largest response (None: 0.1).
    /// `solver`: "cholesky" or "inverse".
    #[pyo3(signature = (*, ridge=None, noise=None, solver="cholesky"))]
    fn solve(
        &self,
        py: Python<'_>,
        ridge: Option<&Bound<'_, PyAny>>,
        noise: Option<&Bound<'_, PyAny>>,
        solver: &str,
    ) -> PyResult<Model> {
        let ridge = ridge.map(|ridge| number("ridge", ridge)).transpose()?;
        let noise = noise.map_or(Ok(0.1), |noise| number("noise", noise))?;
        let ridge = ridge.map_or(RidgeChoice::RelativeNoise(noise), RidgeChoice::Fixed);
        let options = rust::SolveOptions {
            solver: crate::options::solver(solver).or_raise(py)?,
            ..rust::SolveOptions::with(ridge)
        };
        let (decoder, warning) = work::run(py, None, |_| {
            let decoder = self.inner.solve(&options)?;
            let warning = self.inner.masked_warning(&decoder);
            Ok((input_form::marked(decoder, self.form)?, warning))
        })?;
        warning.map_or(Ok(()), |warning| warn(py, warning))?;
        Ok(Model::of(decoder))
    }

    /// The decoder of the classes of these sums over labels, by linear discriminant analysis, and a report: calibrated on `data`,
    /// which is in none of the sums, with the class of each of its steps among `names`. `ClassDecoder.calibrate` is the way to
    /// call it.
    fn solve_classes<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        names: Vec<String>,
        classes: &Bound<'py, PyAny>,
        choices: &Bound<'py, PyAny>,
    ) -> PyResult<(Model, Bound<'py, PyDict>)> {
        let data = instance::<Dataset>("data", DATASET, data)?.get();
        let labels = labels_of(data, names, classes)?;
        let options = choices.extract::<ClassChoices>()?.options();
        let (decoder, report) = work::run(py, None, |_| {
            let (decoder, report) = self
                .inner
                .solve_classes((&*data.inner, &labels), &options)?;
            Ok((input_form::marked(decoder, self.form)?, report))
        })?;
        let said = report_dict(py, &report)?;
        let warnings: Vec<String> = report.scores.event_warning().into_iter().collect();
        said.set_item("warnings", warnings)?;
        Ok((Model::of(decoder), said))
    }

    /// Length of a step in seconds.
    #[getter]
    fn step_seconds(&self) -> f64 {
        self.inner.form().step_seconds
    }

    /// True if the sums are of features of any sign, False if they are of counts.
    #[getter]
    fn takes_signal(&self) -> bool {
        self.form == SpikeForm::Signal
    }

    /// Names of the outputs; of sums over labels, the classes.
    #[getter]
    fn output_names(&self) -> Vec<String> {
        let outputs = self.inner.form().outputs.iter();
        outputs.map(|output| output.name.clone()).collect()
    }

    /// Paired steps in the sums.
    #[getter]
    fn steps(&self) -> u64 {
        self.inner.steps()
    }

    /// Number of recordings' sums in them.
    #[getter]
    fn parts(&self) -> usize {
        self.inner.parts()
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.Sums: {} of {}>",
            count(self.inner.steps() as u128, "step"),
            count(self.inner.parts() as u128, "part")
        )
    }
}

/// The bank of `options`, which is given: parts are summed before anything could be chosen.
fn given_bank(options: &Options, step_seconds: f64) -> Result<FilterBank> {
    options.bank.bank(step_seconds)?.ok_or_else(|| {
        Error::argument(
            "bank: expected one by name or by its filters, since parts are summed before anything could \
             be chosen; got \"auto\"",
        )
    })
}
