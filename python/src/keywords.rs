//! Keyword arguments of recordings, the session that their NWB file is of, and the dictionary that a recording pickles as.

use betz::formats::nwb;
use betz::recording::{self as rust, Behavior, OutputInfo, SpikeForm, Spikes};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{refused, seconds, texts, whole};
use crate::arrays::{self, Numbers, floats};
use crate::error::OrRaise;

/// Keyword arguments that accompany spikes of any form.
pub(crate) const KEYWORDS: [&str; 8] = [
    "behavior",
    "behavior_times",
    "behavior_names",
    "behavior_units",
    "segments",
    "channel_names",
    "electrode_um",
    "meta",
];

/// Names of behaviour's columns and their units, each as given or invented.
fn outputs(
    names: Option<Vec<String>>,
    units: Option<Vec<String>>,
    columns: usize,
) -> PyResult<Vec<OutputInfo>> {
    let names = names.unwrap_or_else(|| (0..columns).map(|i| format!("output{i}")).collect());
    let units = units.unwrap_or_else(|| vec![String::new(); columns]);
    if (names.len(), units.len()) != (columns, columns) {
        return Err(PyValueError::new_err(format!(
            "behavior: expected {columns} names and units, one per column, got {} and {}",
            names.len(),
            units.len()
        )));
    }
    let both = names.into_iter().zip(units);
    Ok(both.map(|(name, unit)| OutputInfo { name, unit }).collect())
}

/// Keyword arguments that accompany spikes of any form.
#[derive(Default)]
pub(crate) struct RecordingKeywords<'py> {
    behavior: Option<Bound<'py, PyAny>>,
    behavior_times: Option<Vec<f64>>,
    behavior_names: Option<Vec<String>>,
    behavior_units: Option<Vec<String>>,
    pub(crate) segments: Option<Bound<'py, PyAny>>,
    pub(crate) channel_names: Option<Vec<String>>,
    electrode_um: Option<Vec<[f32; 2]>>,
    meta: Option<String>,
}

impl<'py> RecordingKeywords<'py> {
    pub(crate) fn of(keywords: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        let mut beside = Self::default();
        for (name, value) in keywords.into_iter().flat_map(|k| k.iter()) {
            let name: String = name.extract()?;
            if value.is_none() {
                continue;
            }
            match name.as_str() {
                "behavior" => beside.behavior = Some(value),
                "behavior_times" => beside.behavior_times = Some(floats(&name, &value)?),
                "behavior_names" => beside.behavior_names = Some(texts(&name, &value)?),
                "behavior_units" => beside.behavior_units = Some(texts(&name, &value)?),
                "segments" => beside.segments = Some(value),
                "channel_names" => beside.channel_names = Some(texts(&name, &value)?),
                "electrode_um" => {
                    let places = value.extract().map_err(|_| {
                        refused(&name, "one (x, y) in micrometres per channel", &value)
                    })?;
                    beside.electrode_um = Some(places);
                }
                "meta" => {
                    let text = value.extract();
                    beside.meta = Some(text.map_err(|_| refused(&name, "a text", &value))?);
                }
                _ => {
                    return Err(PyTypeError::new_err(format!(
                        "unexpected keyword argument '{name}'; expected one of {}",
                        KEYWORDS.join(", ")
                    )));
                }
            }
        }
        Ok(beside)
    }
}

impl RecordingKeywords<'_> {
    pub(crate) fn recording(
        self,
        py: Python<'_>,
        tick_seconds: f64,
        ticks: i64,
        channels: usize,
        spikes: Spikes,
        form: SpikeForm,
    ) -> PyResult<rust::Recording> {
        let behavior = match &self.behavior {
            None => None,
            Some(object) => {
                let object = match object.getattr("ndim").and_then(|n| n.extract::<usize>()) {
                    Ok(1) => object.call_method1("reshape", (-1, 1))?,
                    _ => object.clone(),
                };
                let numbers = Numbers::of("behavior", &object)?;
                let outputs =
                    outputs(self.behavior_names, self.behavior_units, numbers.shape()[1])?;
                Some(Behavior {
                    outputs,
                    values: arrays::to_f32(py, "behavior", &numbers)?,
                    times: self.behavior_times,
                })
            }
        };
        let names = self.channel_names;
        Ok(rust::Recording {
            tick_seconds,
            ticks,
            spikes,
            channel_names: names
                .unwrap_or_else(|| (0..channels).map(|i| format!("ch{i}")).collect()),
            behavior,
            segments: arrays::segments(self.segments.as_ref(), ticks)?,
            electrode_um: self.electrode_um,
            form,
            meta: self.meta,
        })
    }
}

/// The recording whose attributes `parts` holds by name.
pub(crate) fn of_parts(py: Python<'_>, parts: &Bound<'_, PyDict>) -> PyResult<rust::Recording> {
    let item = |name: &str| {
        let missing = || PyValueError::new_err(format!("parts: expected {name:?}, got none"));
        parts.get_item(name)?.ok_or_else(missing)
    };
    let beside = PyDict::new(py);
    for name in KEYWORDS {
        if let Some(value) = parts.get_item(name)? {
            beside.set_item(name, value)?;
        }
    }
    let ticks = arrays::integers("spike_ticks", &item("spike_ticks")?)?;
    let channels = arrays::integers("spike_channels", &item("spike_channels")?)?;
    let channels = channels.into_iter().map(|c| c as u32).collect();
    let mut spikes = Spikes::new(ticks, channels);
    let weights = item("spike_weights")?;
    if !weights.is_none() {
        let weights = floats("spike_weights", &weights)?;
        spikes.weights = weights.into_iter().map(|weight| weight as f32).collect();
    }
    let form = item("form")?.extract::<String>()?;
    let form = match form.as_str() {
        "counts" => SpikeForm::Counts,
        "events" => SpikeForm::Events,
        "signal" => SpikeForm::Signal,
        other => {
            return Err(PyValueError::new_err(format!(
                "form: expected counts, events or signal, got {other:?}"
            )));
        }
    };
    let channels = item("channel_names")?.len()?;
    let (tick_seconds, ticks) = (item("tick_seconds")?, item("ticks")?);
    RecordingKeywords::of(Some(&beside))?.recording(
        py,
        seconds("tick_seconds", &tick_seconds)?,
        whole("ticks", &ticks)? as i64,
        channels,
        spikes,
        form,
    )
}

/// The session of `recording`: as its `meta` has it, and from `start` on.
pub(crate) fn session(
    py: Python<'_>,
    recording: &rust::Recording,
    start: Option<&Bound<'_, PyAny>>,
) -> PyResult<nwb::Session> {
    let said = (recording.meta.as_deref()).and_then(nwb::session_of_meta);
    match (start, said) {
        (None, Some(said)) => Ok(said),
        (None, None) => Err(PyValueError::new_err(
            "start: expected the start of the session, because meta does not give it; got None",
        )),
        (Some(start), said) => {
            let text: String = match start.call_method0("isoformat") {
                Ok(text) => text.extract()?,
                Err(_) => start.extract().map_err(|_| {
                    refused(
                        "start",
                        "a datetime with its time zone, or its ISO text",
                        start,
                    )
                })?,
            };
            let start = nwb::Moment::parse(&text).or_raise(py)?;
            let begun = nwb::Session::begun(start);
            Ok(nwb::Session {
                description: said.map_or(begun.description, |said| said.description),
                ..begun
            })
        }
    }
}
