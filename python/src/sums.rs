//! `Sums`: what training needs of a recording, without the recording.

use betz::input_form;
use betz::recording::SpikeForm;
use betz::train::RidgeChoice;
use betz::train::sums as rust;
use betz::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::arguments::{FilePath, instance, number};
use crate::dataset::{DATASET, Dataset};
use crate::error::OrRaise;
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
            let bank = options.bank.bank()?.ok_or_else(|| {
                Error::argument(
                    "bank: expected one by name or by its filters, since parts are summed before anything could \
                     be chosen; got \"auto\"",
                )
            })?;
            let training = options.linear(bank);
            rust::Sums::over(&options.device()?, &*data.inner, &training, progress)
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
        let inner = py.detach(|| rust::Sums::from_bytes(bytes)).or_raise(py)?;
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
        py.detach(|| self.inner.save(&path)).or_raise(py)
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
            inner: py.detach(both).or_raise(py)?,
            form,
        })
    }

    /// True if both contain the sums of the same recording.
    fn shares(&self, other: &Self) -> bool {
        self.inner.shares(&other.inner)
    }

    /// The linear decoder of these sums at `ridge`, or at that of `noise` in parts of the largest response (None: 0.1).
    #[pyo3(signature = (*, ridge=None, noise=None))]
    fn solve(
        &self,
        py: Python<'_>,
        ridge: Option<&Bound<'_, PyAny>>,
        noise: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Model> {
        let ridge = ridge.map(|ridge| number("ridge", ridge)).transpose()?;
        let noise = noise.map_or(Ok(0.1), |noise| number("noise", noise))?;
        let ridge = ridge.map_or(RidgeChoice::RelativeNoise(noise), RidgeChoice::Fixed);
        let options = rust::SolveOptions::with(ridge);
        let decoder = work::run(py, None, |_| {
            input_form::marked(self.inner.solve(&options)?, self.form)
        })?;
        Ok(Model::of(decoder))
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
            "<betz.Sums: {} steps of {} parts>",
            self.inner.steps(),
            self.inner.parts()
        )
    }
}
