//! Recordings from arrays and from parts of others, checked.

use std::path::Path;
use std::sync::Arc;

use betz::formats::Report;
use betz::recording::{self as rust, Segment, SpikeForm, Spikes};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Recording;
use crate::arrays::{self, Numbers};
use crate::error::{OrRaise, warn};
use crate::keywords::RecordingKeywords;
use crate::work;

impl Recording {
    pub(super) fn of_matrix(
        py: Python<'_>,
        matrix: &Bound<'_, PyAny>,
        tick_seconds: f64,
        form: SpikeForm,
        beside: RecordingKeywords<'_>,
    ) -> PyResult<Self> {
        let name = if form == SpikeForm::Signal {
            "signal"
        } else {
            "counts"
        };
        let numbers = Numbers::of(name, matrix)?;
        let (ticks, channels) = (numbers.shape()[0] as i64, numbers.shape()[1]);
        let named = beside.channel_names.as_ref().map_or(channels, Vec::len);
        if named != channels {
            return Err(PyValueError::new_err(format!(
                "channel_names: expected {channels}, one per column, got {named}"
            )));
        }
        let (spikes, counts) = arrays::entries(py, name, &numbers)?;
        if form == SpikeForm::Counts && !counts {
            let odd = spikes.weights.iter().position(|value| {
                !(0.0..=f32::from(u16::MAX)).contains(value) || value.fract() != 0.0
            });
            let found = odd.map_or_else(String::new, |i| {
                let (tick, channel) = (spikes.ticks[i], spikes.channels[i]);
                format!(", got {} at [{tick}, {channel}]", spikes.weights[i])
            });
            return Err(PyValueError::new_err(format!(
                "counts: expected whole numbers from 0 to 65535{found}; Recording.from_signal takes other values"
            )));
        }
        let recording = beside.recording(py, tick_seconds, ticks, channels, spikes, form)?;
        Self::checked(py, recording)
    }

    /// The recording with these segments, and no spikes outside them.
    pub(super) fn with_segments(&self, py: Python<'_>, segments: Vec<Segment>) -> PyResult<Self> {
        let inner = &self.inner;
        let recording = work::detach(py, || {
            let mut spikes = Spikes::default();
            for segment in &segments {
                let inside = inner.spikes.range(segment.start, segment.stop);
                spikes.extend_from(&inner.spikes, inside);
            }
            rust::Recording {
                tick_seconds: inner.tick_seconds,
                ticks: inner.ticks,
                spikes,
                channel_names: inner.channel_names.clone(),
                behavior: inner.behavior.clone(),
                segments,
                electrode_um: inner.electrode_um.clone(),
                form: inner.form,
                meta: inner.meta.clone(),
            }
        });
        if recording.segments.is_empty() {
            return Err(PyValueError::new_err(
                "trials: expected at least one, got none",
            ));
        }
        Self::checked(py, recording)
    }

    /// A recording that was read from `path`, with a warning per note of its reader.
    pub(super) fn noted(
        py: Python<'_>,
        path: &Path,
        (recording, report): (rust::Recording, Report),
    ) -> PyResult<Self> {
        for note in report.notes {
            warn(py, format!("{}: {note}", path.display()))?;
        }
        if !report.other_series.is_empty() {
            let others = report.other_series.join(", ");
            let message = "not taken as behaviour (behavior=[NAME] does)";
            warn(py, format!("{}: {message}: {others}", path.display()))?;
        }
        Ok(Self {
            inner: Arc::new(recording),
        })
    }

    pub(super) fn checked(py: Python<'_>, recording: rust::Recording) -> PyResult<Self> {
        work::detach(py, || recording.check().map(|()| recording))
            .or_raise(py)
            .map(|recording| Self {
                inner: Arc::new(recording),
            })
    }
}
