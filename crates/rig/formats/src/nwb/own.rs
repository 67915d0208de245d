//! Facts that NWB cannot store, in the files that Betz writes, so that a recording is read back unchanged.
//!
//! JSON in `scratch/betz`: the form of the spikes, the length of a tick (its shortest decimal, as text), how many there
//! are, whether there are positions, `meta` (then in `general/notes`), times of behaviour, and where which output is.

use betz_base::error::{Error, Result};
use betz_base::memory;
use betz_recording::{Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes};
use serde_json::{Value, json};

use super::hdf5::File;
use super::intervals::{self, INVALID};
use super::ticked::SpikeKeys;
use super::{series, trials, units};
use crate::Report;

/// Column of the electrodes' table with the channels' names.
pub(super) const CHANNEL_NAME: &str = "channel_name";
/// Path of these facts in the file.
pub(super) const PATH: &str = "scratch/betz";
/// Description in the file.
pub(super) const NOTES: &str =
    "JSON by which Betz reads the recording back as it was; nothing else needs it";
/// Values of a matrix that are read at once.
const BLOCK: usize = 1 << 20;

/// A series of behaviour and its outputs, as they are called.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OwnSeries {
    pub(super) path: String,
    pub(super) outputs: Vec<OutputInfo>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Own {
    pub(super) form: SpikeForm,
    pub(super) tick_seconds: f64,
    pub(super) ticks: i64,
    /// True if there are positions of electrodes.
    pub(super) places: bool,
    /// True if there is a `meta`.
    pub(super) meta: bool,
    /// True if behaviour has times of its own.
    pub(super) timed: bool,
    /// Table of intervals that has the segments.
    pub(super) segments: String,
    /// Series of behaviour, in the order of their outputs.
    pub(super) series: Vec<OwnSeries>,
}

const FORMS: [(SpikeForm, &str); 3] = [
    (SpikeForm::Events, "events"),
    (SpikeForm::Counts, "counts"),
    (SpikeForm::Signal, "signal"),
];

impl Own {
    pub(super) fn text(&self) -> String {
        let form = FORMS.iter().find(|f| f.0 == self.form).map(|f| f.1);
        let series = self.series.iter().map(|series| {
            let outputs = series.outputs.iter().map(|o| json!([o.name, o.unit]));
            json!({"path": series.path, "outputs": outputs.collect::<Vec<_>>()})
        });
        json!({
            "betz": 1,
            "form": form,
            "tick_seconds": format!("{:?}", self.tick_seconds),
            "ticks": self.ticks,
            "places": self.places,
            "meta": self.meta,
            "timed": self.timed,
            "segments": self.segments,
            "series": series.collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// The description in a text; `None` if the text is another.
    fn of(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let flag = |name: &str| value.get(name)?.as_bool();
        let form = value.get("form")?.as_str()?;
        let output = |value: &Value| {
            let [name, unit] = &value.as_array()?[..] else {
                return None;
            };
            Some(OutputInfo {
                name: name.as_str()?.to_owned(),
                unit: unit.as_str()?.to_owned(),
            })
        };
        let series = |value: &Value| {
            let outputs = value.get("outputs")?.as_array()?.iter().map(output);
            Some(OwnSeries {
                path: value.get("path")?.as_str()?.to_owned(),
                outputs: outputs.collect::<Option<_>>()?,
            })
        };
        let own = Self {
            form: FORMS.iter().find(|f| f.1 == form)?.0,
            tick_seconds: value.get("tick_seconds")?.as_str()?.parse().ok()?,
            ticks: value.get("ticks")?.as_i64()?,
            places: flag("places")?,
            meta: flag("meta")?,
            timed: flag("timed")?,
            segments: match value.get("segments") {
                Some(name) => name.as_str()?.to_owned(),
                None => "trials".to_owned(),
            },
            series: (value.get("series")?.as_array()?.iter().map(series)).collect::<Option<_>>()?,
        };
        let sound = own.tick_seconds > 0.0 && own.tick_seconds.is_finite() && own.ticks > 0;
        (value.get("betz")?.as_i64()? == 1 && sound).then_some(own)
    }

    /// The description in `file`; `None` if Betz did not write it.
    pub(super) fn read(file: &File) -> Option<Self> {
        Self::of(&super::session::said(file, PATH)?)
    }

    /// Reads the original recording.
    ///
    /// # Errors
    /// An error if the file has been changed since it was written.
    pub(super) fn recording(&self, file: &File, notes: &mut Vec<String>) -> Result<Recording> {
        let names = match self.form {
            SpikeForm::Events => "units/unit_name".to_owned(),
            _ => format!("general/extracellular_ephys/electrodes/{CHANNEL_NAME}"),
        };
        let mut channel_names = file.strings(&names)?.ok_or_else(|| missing(&names))?;
        if self.form != SpikeForm::Events {
            // Behind the channels are the electrodes of a session's sources.
            channel_names.truncate(self.columns(file)?);
        }
        let table = format!("intervals/{}", self.segments);
        let segments = match file.has(&format!("{table}/start_time")) {
            true => trials::read(file, &[table], &mut Report::default())?,
            false => Vec::new(),
        };
        let mut spans = match segments.is_empty() {
            true => vec![(0.0, self.ticks as f64 * self.tick_seconds)],
            false => segments,
        };
        // Betz writes no such table: somebody has marked times since.
        if file.has(&format!("{INVALID}/start_time")) {
            spans = intervals::select(file, spans, &[], &[], notes)?;
        }
        let tick = |seconds: &f64| (seconds / self.tick_seconds).round() as i64;
        let segments = spans.iter().map(|(start, stop)| Segment {
            start: tick(start),
            stop: tick(stop).min(self.ticks),
        });
        let segments: Vec<Segment> = segments.filter(|s| !s.is_empty()).collect();
        let recording = Recording {
            tick_seconds: self.tick_seconds,
            ticks: self.ticks,
            spikes: match self.form {
                SpikeForm::Events => self.events(file, channel_names.len())?,
                SpikeForm::Counts => self.entries(file, "spike_counts", channel_names.len())?,
                SpikeForm::Signal => self.entries(file, "signal", channel_names.len())?,
            },
            electrode_um: match self.places {
                true => Some(places(file)?),
                false => None,
            },
            channel_names,
            behavior: self.behavior(file)?,
            segments,
            form: self.form,
            meta: self
                .meta
                .then(|| super::session::said(file, "general/notes").unwrap_or_default()),
        };
        recording.check()?;
        Ok(recording)
    }

    fn events(&self, file: &File, names: usize) -> Result<Spikes> {
        let units = units::table(file, &[])?.ok_or_else(|| missing("units/spike_times"))?;
        if units.names.len() != names {
            return Err(Error::recording(format!(
                "units: expected {names}, one per name, got {}",
                units.names.len()
            )));
        }
        let mut sorted = SpikeKeys::room(units.spikes(), names)?;
        units.each(file, &mut |unit, times| {
            (times.iter())
                .try_for_each(|time| sorted.push((time / self.tick_seconds).round() as i64, unit))
        })?;
        sorted.spikes()
    }

    /// Columns of the matrix.
    fn columns(&self, file: &File) -> Result<usize> {
        let name = match self.form {
            SpikeForm::Signal => "signal",
            _ => "spike_counts",
        };
        let path = format!("processing/ecephys/{name}/data");
        let shape = file.shape(&path)?.ok_or_else(|| missing(&path))?;
        Ok(shape.get(1).copied().unwrap_or(0))
    }

    /// The entries of a matrix that are not 0.
    fn entries(&self, file: &File, name: &str, channels: usize) -> Result<Spikes> {
        let path = format!("processing/ecephys/{name}/data");
        let shape = file.shape(&path)?.ok_or_else(|| missing(&path))?;
        if shape
            .iter()
            .map(|n| *n as i64)
            .ne([self.ticks, channels as i64])
        {
            return Err(Error::recording(format!(
                "{path}: expected shape [{}, {channels}], got {shape:?}",
                self.ticks
            )));
        }
        let mut spikes = Spikes::default();
        let mut several = false;
        let height = (BLOCK / channels.max(1)).max(1);
        for first in (0..shape[0]).step_by(height) {
            let rows = height.min(shape[0] - first);
            let values = file.block(&path, &[first, 0], &[rows, channels])?;
            for (row, values) in (first..).zip(values.chunks(channels.max(1))) {
                for (channel, &value) in values.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                    let len = spikes.len();
                    if spikes.ticks.capacity() == len {
                        // It doubles: what there is no memory for is refused, not the end of the process.
                        memory::plan(&path, len.max(1 << 12) as u128 * 2 * 16)?;
                    }
                    spikes.ticks.push(row as i64);
                    spikes.channels.push(channel as u32);
                    spikes.weights.push(value as f32);
                    several |= value != 1.0;
                }
            }
        }
        if !several {
            spikes.weights = Vec::new();
        }
        Ok(spikes)
    }

    fn behavior(&self, file: &File) -> Result<Option<Behavior>> {
        let mut outputs = Vec::new();
        let mut read = Vec::new();
        for own in &self.series {
            let series = series::read(file, &own.path, &mut Report::default())?;
            if series.columns.len() != own.outputs.len() {
                return Err(Error::recording(format!(
                    "{}: expected {} columns, got {}",
                    own.path,
                    own.outputs.len(),
                    series.columns.len()
                )));
            }
            outputs.extend(own.outputs.iter().cloned());
            read.push(series);
        }
        let Some(samples) = read.first().map(|series| series.times.len()) else {
            return Ok(None);
        };
        if let Some(other) = read.iter().find(|series| series.times.len() != samples) {
            return Err(Error::recording(format!(
                "{}: expected {samples} samples, got {}",
                other.path,
                other.times.len()
            )));
        }
        let mut values = memory::room("behaviour", samples * outputs.len())?;
        for row in 0..samples {
            for series in &read {
                let width = series.columns.len();
                let of_row = &series.values[row * width..(row + 1) * width];
                values.extend(of_row.iter().map(|v| *v as f32));
            }
        }
        let times = read.swap_remove(0).times;
        Ok(Some(Behavior {
            outputs,
            values,
            times: self.timed.then_some(times),
        }))
    }
}

fn missing(path: &str) -> Error {
    Error::recording(format!(
        "{path}: expected it, as in every file of Betz, got none"
    ))
}

/// The places in the table of electrodes, row by row.
fn places(file: &File) -> Result<Vec<[f32; 2]>> {
    let axis = |name: &str| {
        let path = format!("general/extracellular_ephys/electrodes/{name}");
        let column = file.numbers(&path)?.ok_or_else(|| missing(&path))?;
        Ok(column.values)
    };
    let (x, y) = (axis("x")?, axis("y")?);
    let places = x.iter().zip(&y).map(|(x, y)| [*x as f32, *y as f32]);
    Ok(places.collect())
}
