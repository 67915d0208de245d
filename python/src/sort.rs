//! Spike sorting from raw voltage.

use std::sync::Arc;

use betz::recording::{self, Segment, SpikeForm, Spikes};
use betz::sort::synthetic::{Synthetic, make};
use betz::sort::{self as rust, InMemory, Settings, Sorting, TrainOptions};
use betz::text::count;
use betz::{Error, ErrorKind};
use numpy::{IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};

use crate::arguments::{FilePath, refused};
use crate::arrays::refuse_masked;
use crate::error::OrRaise;
use crate::parts::PickleParts;
use crate::recording::Recording;
use crate::work;

/// Rows that are sorted between two looks at whether to stop.
const ROWS: usize = 30_000;

/// Single units and how to tell their spikes: made by `betz.sort.train`, saved as one checked file.
#[pyclass(frozen, module = "betz.sort")]
struct Sorter {
    inner: rust::Sorter,
}

#[pymethods]
impl Sorter {
    /// The sorter in the file `path`.
    #[classmethod]
    fn load(_class: &Bound<'_, PyType>, py: Python<'_>, path: FilePath) -> PyResult<Self> {
        let inner = work::detach(py, || rust::Sorter::load(&path)).or_raise(py)?;
        Ok(Self { inner })
    }

    /// The sorter in the bytes of a file.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let inner = work::detach(py, || rust::Sorter::from_bytes(bytes)).or_raise(py)?;
        Ok(Self { inner })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py>> {
        let make = slf.get_type().getattr("from_bytes")?;
        Ok((make, (PyBytes::new(slf.py(), &slf.get().inner.to_bytes()),)))
    }

    /// Writes the file that `betz sort run` takes.
    fn save(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        work::detach(py, || self.inner.save(&path)).or_raise(py)
    }

    /// One dictionary per unit: `id`, `channel` (its largest), `rate_hz`, `microvolts` (its mean minimum).
    #[getter]
    fn units<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |unit: &rust::Unit| {
            let dict = PyDict::new(py);
            dict.set_item("id", unit.id)?;
            dict.set_item("channel", unit.channel)?;
            dict.set_item("rate_hz", unit.rate_hz)?;
            dict.set_item("microvolts", unit.microvolts)?;
            Ok(dict)
        };
        self.inner.units().iter().map(dict).collect()
    }

    /// The spikes of `samples`, int16 (time, channels), as a recording whose channels are units and whose ticks are
    /// samples. Spikes that no unit has are left out; `meta` counts them.
    #[pyo3(signature = (samples, *, progress=None))]
    fn sort(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyAny>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Recording> {
        let samples = voltage(samples)?;
        let (rows, channels) = (samples.shape()[0], samples.shape()[1]);
        let slice = whole(&samples)?;
        let recording = work::run(py, progress, |progress| {
            let mut sorting = Sorting::open(&self.inner)?;
            if channels != sorting.channels() {
                return Err(Error::mismatch(format!(
                    "samples: expected (time, {}), got (time, {channels})",
                    sorting.channels()
                )));
            }
            let (mut ticks, mut units) = (Vec::new(), Vec::new());
            for (block, rows_of) in slice.chunks(ROWS * channels).enumerate() {
                betz::progress::check(progress, "sorting")?;
                progress.update("sorting", (block * ROWS) as u64, rows as u64);
                sorting.push(rows_of, &mut |spike| {
                    if let Some(unit) = spike.unit {
                        ticks.push(spike.sample);
                        units.push(unit);
                    }
                })?;
            }
            let names = self.inner.units().iter().map(|u| format!("unit{}", u.id));
            let recording = recording::Recording {
                tick_seconds: 1.0 / self.inner.settings().rate_hz,
                ticks: rows as i64,
                spikes: Spikes::new(ticks, units),
                channel_names: names.collect(),
                behavior: None,
                segments: vec![Segment {
                    start: 0,
                    stop: rows as i64,
                }],
                electrode_um: None,
                form: SpikeForm::Events,
                meta: Some(format!(
                    "{{\"source\": \"betz sort\", \"unlabelled\": {}}}",
                    sorting.unlabelled()
                )),
            };
            if recording.channel_names.is_empty() {
                let message = "sorter: expected units, got none";
                return Err(Error::new(ErrorKind::InsufficientData, message));
            }
            recording.check()?;
            Ok(recording)
        })?;
        Ok(Recording {
            inner: Arc::new(recording),
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.sort.Sorter: {}, {}>",
            count(self.inner.layout().row_channels as u128, "channel"),
            count(self.inner.units().len() as u128, "unit")
        )
    }
}

/// Voltage as an argument: it is large, so that no copy is made of another type or order.
fn voltage<'py>(samples: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray2<'py, i16>> {
    refuse_masked("samples", samples)?;
    let array = samples.cast::<PyArray2<i16>>().ok();
    array
        .and_then(|array| array.try_readonly().ok())
        .filter(|array| array.as_slice().is_ok())
        .ok_or_else(|| {
            let expected = "a contiguous int16 array (time, channels); numpy.ascontiguousarray(samples, numpy.int16) makes one \
                            of whole numbers";
            refused("samples", expected, samples)
        })
}

fn whole<'a>(samples: &'a PyReadonlyArray2<'_, i16>) -> PyResult<&'a [i16]> {
    samples
        .as_slice()
        .map_err(|_| PyValueError::new_err("samples: expected a contiguous array (time, channels)"))
}

/// Trains a sorter on `samples`, int16 (time, channels), such as `numpy.memmap` of a raw file.
///
/// `places`: (x, y) of each channel in micrometres, None for a channel that is not used.
///
/// >>> import betz
/// >>> samples, places = betz.sort.synthetic(seconds=6, seed=1)
/// >>> sorter = betz.sort.train(samples, 30000, 0.195, places)
/// >>> units = sorter.sort(samples)
/// >>> units.channels == len(sorter.units) > 0
/// True
#[pyfunction]
#[pyo3(signature = (samples, rate_hz, microvolts, places, *, threshold=4.5, progress=None))]
fn train(
    py: Python<'_>,
    samples: &Bound<'_, PyAny>,
    rate_hz: f64,
    microvolts: f64,
    places: &Bound<'_, PyAny>,
    threshold: f64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Sorter> {
    let samples = voltage(samples)?;
    let places: Vec<Option<[f32; 2]>> = places.extract().map_err(|_| {
        let expected = "one (x, y) in micrometres per channel, None for a channel that is not used";
        refused("places", expected, places)
    })?;
    let channels = samples.shape()[1];
    let slice = whole(&samples)?;
    let inner = work::run(py, progress, |progress| {
        let settings = Settings {
            threshold,
            ..Settings::new(rate_hz, microvolts)
        };
        let mut voltage = InMemory::new(slice, channels)?;
        Ok(rust::train(&mut voltage, &TrainOptions::new(settings, places), progress)?.sorter)
    })?;
    Ok(Sorter { inner })
}

/// (time, channels), and the places of the channels.
type Voltage<'py> = (Bound<'py, PyArray2<i16>>, Vec<[f32; 2]>);

/// A tetrode's voltage at 30 kHz and 0.195 µV a bit with six units in it: int16 (time, channels), and the places of its
/// channels.
#[pyfunction]
#[pyo3(signature = (*, seconds=60.0, seed=0))]
fn synthetic<'py>(py: Python<'py>, seconds: f64, seed: u64) -> PyResult<Voltage<'py>> {
    let of = Synthetic {
        seconds,
        gain: 0.195,
        ..Synthetic::tetrode(seed)
    };
    let made = work::run(py, None, |_| make(&of))?;
    let channels = of.places.len();
    let rows = made.samples.len() / channels;
    Ok((
        made.samples.into_pyarray(py).reshape([rows, channels])?,
        of.places,
    ))
}

/// `betz.sort`.
pub(crate) fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let module = PyModule::new(py, "sort")?;
    module.add_class::<Sorter>()?;
    module.add_function(wrap_pyfunction!(train, &module)?)?;
    module.add_function(wrap_pyfunction!(synthetic, &module)?)?;
    Ok(module)
}
