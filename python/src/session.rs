//! `Session`: one step per tick.

use std::sync::Mutex;

use betz::input_form;
use betz::stream::{self as rust, Clamp, SessionConfig, UnknownChannels};
use numpy::npyffi::flags::NPY_ARRAY_WRITEABLE;
use numpy::{Element, IntoPyArray, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{described, instance, list, whole};
use crate::arrays::{floats, integers, refuse_masked};
use crate::error::OrRaise;
use crate::model::{MODEL, Model};
use crate::unlike::Unlike;
use crate::work;

/// A real-time session of a model: one step per tick. Filters start at rest; `reset` returns them to rest.
///
/// A step writes to `out` (float32, one element per output), or returns a new array. Steps hold the interpreter's lock,
/// because releasing it takes longer than a step. With `out` and an array of `uint32` (`step_spikes`) or
/// `uint8`/`uint16` (`step`), the library allocates nothing.
///
/// >>> import numpy as np, betz
/// >>> X = np.random.default_rng(0).poisson(1.0, (500, 4)).astype(np.uint8)
/// >>> session = betz.Decoder(step_seconds=0.02, bank=[(0.05, 1)]).fit(X, X[:, :2] * 1.0).session()
/// >>> out = np.empty(session.outputs, np.float32)
/// >>> session.step_spikes(np.array([0, 2, 2], np.uint32), out) is out
/// True
/// >>> session.step(X[0]).shape, session.stats()["ticks"]
/// ((2,), 2)
#[pyclass(module = "betz")]
pub(crate) struct Session {
    /// Reached through `&mut` alone: the lock is never taken.
    inner: Mutex<rust::Session>,
    signal: bool,
    model: Py<Model>,
    /// Spikes or counts that came in another form than the library takes.
    spikes: Vec<u32>,
    counts: Vec<f32>,
}

impl Session {
    fn session(&mut self) -> PyResult<&mut rust::Session> {
        self.inner
            .get_mut()
            .map_err(|_| PyRuntimeError::new_err("the session was left by a panic: open another"))
    }

    /// Runs `step` on `input`; its outputs go to the caller's array, or to a new one.
    fn step_on<'py, T>(
        &mut self,
        py: Python<'py>,
        input: &[T],
        out: Option<Bound<'py, PyAny>>,
        step: impl FnOnce(&mut rust::Session, &[T], &mut [f32]) -> betz::Result<()>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let float32 = |out: Bound<'py, PyAny>| match out.cast::<PyArray1<f32>>() {
            Ok(array) => Ok(array.clone()),
            Err(_) => Err(PyTypeError::new_err(format!(
                "out: expected a float32 array of one dimension, got {}",
                described(&out)
            ))),
        };
        let out = out.filter(|out| !out.is_none()).map(float32).transpose()?;
        let session = self.session()?;
        let outputs = session.outputs();
        into_out(py, input, out, outputs, |input, out| {
            step(session, input, out)
        })
    }
}

/// The elements of `array` where they lie; `None` where they lie apart. Without NumPy's table of borrows, which takes as
/// long as the step itself.
#[allow(unsafe_code)]
fn elements<'a, T: Element>(array: &'a Bound<'_, PyArray1<T>>) -> Option<&'a [T]> {
    // SAFETY: the interpreter's lock is held and nothing of Python runs until the step is done, so nobody else writes
    // here but the step itself, to an `out` that `into_out` has found to lie elsewhere.
    unsafe { array.as_slice() }.ok()
}

/// Runs `step`, which reads `input`, on the caller's array, or on a new one.
#[allow(unsafe_code)]
fn into_out<'py, T>(
    py: Python<'py>,
    input: &[T],
    out: Option<Bound<'py, PyArray1<f32>>>,
    outputs: usize,
    step: impl FnOnce(&[T], &mut [f32]) -> betz::Result<()>,
) -> PyResult<Bound<'py, PyArray1<f32>>> {
    let Some(array) = out else {
        let mut values = vec![0.0; outputs];
        step(input, &mut values).or_raise(py)?;
        return Ok(values.into_pyarray(py));
    };
    let refused = |what: &str| {
        Err(PyValueError::new_err(format!(
            "out: expected a contiguous array that can be written, got one {what}"
        )))
    };
    // SAFETY: only flags are read.
    let flags = unsafe { (*array.as_array_ptr()).fields.flags };
    if flags & NPY_ARRAY_WRITEABLE == 0 {
        return refused("that is read-only");
    }
    // SAFETY: as in `elements`; that nothing else is read from here is checked below, before it is written to.
    let Ok(places) = (unsafe { array.as_slice_mut() }) else {
        return refused("with gaps");
    };
    let (read, written) = (input.as_ptr_range(), places.as_ptr_range());
    let (from, to) = (read.start as usize, read.end as usize);
    if from < written.end as usize && (written.start as usize) < to {
        return refused("in which the input lies");
    }
    step(input, places).or_raise(py)?;
    Ok(array)
}

#[pymethods]
impl Session {
    /// `clamp`: (low, high) for each output. `channel_mask`: False for each channel to ignore. `slew`: largest change
    /// of each output per step. `refuse_unknown`: raise on spikes of unknown channels instead of counting them.
    /// `statistics`: time the steps.
    #[new]
    #[pyo3(signature = (model, *, clamp=None, channel_mask=None, slew=None, refuse_unknown=true, statistics=true))]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        clamp: Option<&Bound<'_, PyAny>>,
        channel_mask: Option<&Bound<'_, PyAny>>,
        slew: Option<&Bound<'_, PyAny>>,
        refuse_unknown: bool,
        statistics: bool,
    ) -> PyResult<Self> {
        let model = instance::<Model>("model", MODEL, model)?.clone().unbind();
        let clamp: Option<Vec<(f32, f32)>> = list(
            "clamp",
            "(low, high) for each output, such as [(-10, 10)]",
            clamp,
        )?;
        let channel_mask = list(
            "channel_mask",
            "True or False for each channel",
            channel_mask,
        )?;
        let slew = list("slew", "a largest change for each output", slew)?;
        let clamp = clamp.map(|all| {
            all.into_iter()
                .map(|(low, high)| Clamp { low, high })
                .collect()
        });
        let config = SessionConfig {
            clamp,
            channel_mask,
            slew,
            unknown_channels: match refuse_unknown {
                true => UnknownChannels::Refuse,
                false => UnknownChannels::Ignore,
            },
            statistics,
            ..SessionConfig::default()
        };
        let decoder = model.get().inner.clone();
        let session = work::detach(py, || rust::Session::open(&decoder, config)).or_raise(py)?;
        Ok(Self {
            inner: Mutex::new(session),
            signal: input_form::is_of_signal(&decoder),
            model,
            spikes: Vec::new(),
            counts: Vec::new(),
        })
    }

    /// Runs one tick on the channels that fired: one entry per spike, in any order.
    #[pyo3(signature = (channels, out=None))]
    fn step_spikes<'py>(
        &mut self,
        py: Python<'py>,
        channels: &Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        refuse_masked("channels", channels)?;
        if let Ok(array) = channels.cast::<PyArray1<u32>>()
            && let Some(spikes) = elements(array)
        {
            return self.step_on(py, spikes, out, rust::Session::step_spikes);
        }
        let mut spikes = std::mem::take(&mut self.spikes);
        spikes.clear();
        for (i, channel) in integers("channels", channels)?.into_iter().enumerate() {
            spikes.push(u32::try_from(channel).map_err(|_| {
                PyValueError::new_err(format!(
                    "channels: [{i}] = {channel}: expected the number of a channel, from 0 on; best a uint32 array"
                ))
            })?);
        }
        let stepped = self.step_on(py, &spikes, out, rust::Session::step_spikes);
        self.spikes = spikes;
        stepped
    }

    /// Runs one tick on binned counts, or on values if the model takes a signal: one per channel.
    #[pyo3(signature = (counts, out=None))]
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        counts: &Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        refuse_masked("counts", counts)?;
        let signal = self.signal;
        if !signal
            && let Ok(array) = counts.cast::<PyArray1<u8>>()
            && let Some(counts) = elements(array)
        {
            return self.step_on(py, counts, out, rust::Session::step_counts_u8);
        }
        if !signal
            && let Ok(array) = counts.cast::<PyArray1<u16>>()
            && let Some(counts) = elements(array)
        {
            return self.step_on(py, counts, out, rust::Session::step_counts);
        }
        let mut values = std::mem::take(&mut self.counts);
        values.clear();
        if let Ok(array) = counts.cast::<PyArray1<f32>>() {
            values.extend(array.try_readonly()?.as_array());
        } else {
            values.extend(floats("counts", counts)?.into_iter().map(|v| v as f32));
        }
        let stepped = match signal {
            true => self.step_on(py, &values, out, rust::Session::step_values),
            false => self.step_on(py, &values, out, rust::Session::step_counts_f32),
        };
        self.counts = values;
        stepped
    }

    /// Runs one tick whose data did not arrive.
    #[pyo3(signature = (out=None))]
    fn step_stale<'py>(
        &mut self,
        py: Python<'py>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        self.step_on(py, &[0_u8; 0], out, |session, _, out| {
            session.step_stale(out)
        })
    }

    /// Advances `ticks` ticks without a spike.
    fn skip(&mut self, ticks: &Bound<'_, PyAny>) -> PyResult<()> {
        let ticks = whole("ticks", ticks)? as u64;
        self.session()?.skip(ticks);
        Ok(())
    }

    /// Returns the filters to rest, as at the start of a segment.
    fn reset(&mut self) -> PyResult<()> {
        self.session()?.reset();
        Ok(())
    }

    /// Flags of the last step's estimates, such as "stale, held"; "" if there are none.
    #[getter]
    fn status(&mut self) -> PyResult<String> {
        let status = self.session()?.status();
        Ok(if status.is_ok() {
            String::new()
        } else {
            status.to_string()
        })
    }

    /// The tick of the next step.
    #[getter]
    fn tick(&mut self) -> PyResult<i64> {
        Ok(self.session()?.tick())
    }

    /// Number of channels.
    #[getter]
    fn channels(&mut self) -> PyResult<usize> {
        Ok(self.session()?.channels())
    }

    /// Number of outputs.
    #[getter]
    fn outputs(&mut self) -> PyResult<usize> {
        Ok(self.session()?.outputs())
    }

    /// The model.
    #[getter]
    fn model(&self, py: Python<'_>) -> Py<Model> {
        self.model.clone_ref(py)
    }

    /// The probability of each class in the last step, float32; 0 before the first. For models of kind `classes`, and gated
    /// ones.
    fn classes<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let session = self.session()?;
        let mut out = vec![0.0; session.model().classes()];
        session.classes(&mut out).or_raise(py)?;
        Ok(out.into_pyarray(py))
    }

    /// Events of the classes that nobody has read yet, the oldest first: (tick, class, True for an onset, probability).
    /// A session keeps 256 of them; then the oldest are lost (`stats()["events_lost"]`).
    fn events(&mut self) -> PyResult<Vec<(i64, u32, bool, f32)>> {
        let mut room = vec![rust::ClassEvent::default(); rust::EVENT_ROOM];
        let count = self.session()?.events(&mut room);
        let event = |e: &rust::ClassEvent| (e.tick, e.class, e.on, e.probability);
        Ok(room[..count].iter().map(event).collect())
    }

    /// Compares this session with the training of its model, from the next step on, over moving windows of
    /// `window_seconds`. The model must store its sums (`betz train --retain`, `Decoder(retain_bytes=...)`). With `suggest`, the
    /// comparison also suggests recalibrations, which change nothing until they are applied. Once per session.
    #[pyo3(signature = (window_seconds=100.0, *, suggest=false))]
    fn unlike(&mut self, py: Python<'_>, window_seconds: f64, suggest: bool) -> PyResult<Unlike> {
        let model = self.model.clone_ref(py);
        Unlike::open(py, model.get(), self.session()?, (window_seconds, suggest))
    }

    /// Counters, and latencies of steps inside the library in microseconds.
    fn stats<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.session()?.stats();
        let dict = PyDict::new(py);
        for (name, count) in [
            ("ticks", stats.ticks),
            ("spikes", stats.spikes),
            ("unknown_channel_spikes", stats.unknown_channel_spikes),
            ("skipped", stats.skipped),
            ("events_lost", stats.events_lost),
        ] {
            dict.set_item(name, count)?;
        }
        for (name, latency) in [
            ("p50_us", stats.latency.p50_us),
            ("p99_us", stats.latency.p99_us),
            ("max_us", stats.latency.max_us),
        ] {
            dict.set_item(name, latency)?;
        }
        Ok(dict)
    }
}
