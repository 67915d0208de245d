//! `Dataset`: spikes and behaviour on a model's clock.

use std::sync::Arc;

use betz::recording::{self as rust, AlignOptions, OutputInfo, Segment, SpikeForm};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{self, Numbers};
use crate::error::OrRaise;

/// Step for spikes as events where none is asked for.
const USUAL_STEP_SECONDS: f64 = 0.005;

/// A recording on a model's clock: what training and decoding take. Made by `Recording.align`, or of arrays.
#[pyclass(frozen, module = "betz")]
pub(crate) struct Dataset {
    pub(crate) inner: Arc<rust::Dataset>,
    /// True if channels carry values of any sign instead of spikes.
    pub(crate) signal: bool,
    /// Names and counts of what aligning left out.
    left_out: Vec<(&'static str, usize)>,
}

impl Dataset {
    pub(crate) fn of_recording(
        py: Python<'_>,
        recording: &rust::Recording,
        step_seconds: Option<f64>,
        max_gap_seconds: Option<f64>,
    ) -> PyResult<Self> {
        let usual = match recording.form {
            SpikeForm::Events => USUAL_STEP_SECONDS.max(recording.tick_seconds),
            _ => recording.tick_seconds,
        };
        let options = AlignOptions {
            step_seconds: step_seconds.unwrap_or(usual),
            max_gap_seconds,
        };
        let (dataset, report) = py.detach(|| recording.align_with(&options)).or_raise(py)?;
        Ok(Self {
            inner: Arc::new(dataset),
            signal: recording.form == SpikeForm::Signal,
            left_out: vec![
                ("segments_dropped", report.segments_dropped),
                ("steps_without_behavior", report.steps_without_behavior),
                ("steps_in_gaps", report.steps_in_gaps),
                ("spikes_outside", report.spikes_outside),
            ],
        })
    }
}

#[pymethods]
impl Dataset {
    /// Rows (time, channels), each a step of `step_seconds`, with labels (time, outputs) where there are any.
    #[staticmethod]
    #[pyo3(signature = (x, y, step_seconds, segments=None, channel_names=None, output_names=None))]
    fn of_rows(
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        y: Option<&Bound<'_, PyAny>>,
        step_seconds: f64,
        segments: Option<&Bound<'_, PyAny>>,
        channel_names: Option<Vec<String>>,
        output_names: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let numbers = Numbers::of("X", x)?;
        let (steps, channels) = (numbers.shape()[0], numbers.shape()[1]);
        let (spikes, counts) = arrays::entries(py, "X", &numbers)?;
        let (outputs, behavior) = match y {
            None => (0, Vec::new()),
            Some(y) => {
                let labels = Numbers::of("y", y)?;
                (labels.shape()[1], arrays::to_f32(py, "y", &labels)?)
            }
        };
        let invented = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect();
        let names = output_names.unwrap_or_else(|| invented("output", outputs));
        let dataset = rust::Dataset {
            step_seconds,
            steps,
            channel_names: channel_names.unwrap_or_else(|| invented("ch", channels)),
            spikes,
            segments: match segments {
                None => vec![Segment {
                    start: 0,
                    stop: steps as i64,
                }],
                some => arrays::segments(some, steps as i64)?,
            },
            outputs: names.iter().map(|n| OutputInfo::from(n.as_str())).collect(),
            behavior,
        };
        py.detach(|| dataset.check()).or_raise(py)?;
        Ok(Self {
            inner: Arc::new(dataset),
            signal: !counts,
            left_out: Vec::new(),
        })
    }

    /// Length of one step in seconds.
    #[getter]
    fn step_seconds(&self) -> f64 {
        self.inner.step_seconds
    }

    /// Number of steps.
    #[getter]
    fn steps(&self) -> usize {
        self.inner.steps
    }

    /// One name per channel.
    #[getter]
    fn channel_names(&self) -> Vec<String> {
        self.inner.channel_names.clone()
    }

    /// Names of the outputs.
    #[getter]
    fn output_names(&self) -> Vec<String> {
        self.inner.outputs.iter().map(|o| o.name.clone()).collect()
    }

    /// Behaviour at every step, float32 (steps, outputs). A read-only view.
    #[getter]
    fn behavior<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let inner = &slf.get().inner;
        arrays::shown(slf, &inner.behavior, Some(inner.outputs.len().max(1)))
    }

    /// Segments as a list of (start, stop), half-open in steps.
    #[getter]
    fn segments(&self) -> Vec<(i64, i64)> {
        self.inner
            .segments
            .iter()
            .map(|s| (s.start, s.stop))
            .collect()
    }

    /// Counts of what aligning left out, by name.
    #[getter]
    fn left_out<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, count) in &self.left_out {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    /// The dataset with only these of its segments, by number.
    fn select(&self, py: Python<'_>, segments: Vec<usize>) -> PyResult<Self> {
        let there = self.inner.segments.len();
        if let Some(bad) = segments.iter().find(|s| **s >= there) {
            let message = format!("segments: expected numbers below {there}, got {bad}");
            return Err(pyo3::exceptions::PyIndexError::new_err(message));
        }
        Ok(Self {
            inner: Arc::new(py.detach(|| self.inner.select(&segments))),
            signal: self.signal,
            left_out: Vec::new(),
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.Dataset: {} channels, {} steps of {} s in {} segments, {} outputs>",
            self.inner.channels(),
            self.inner.steps,
            self.inner.step_seconds,
            self.inner.segments.len(),
            self.inner.outputs.len()
        )
    }
}
