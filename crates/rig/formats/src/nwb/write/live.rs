//! Rows of the sources of a session, sorted units, trials, marks, events and lost times, beside its recording.

use betz_base::error::{Error, Result};

use super::series::{measured, rated};
use super::tables::{ELECTRODES, ids, index};
use crate::nwb::hdf5_write::{COMMON, CORE, H5Type, NewDataset, NewFile, Value};

/// Takes whole rows.
pub type TakeRows<'a, T> = &'a mut dyn FnMut(&[T]) -> Result<()>;
/// Gives the rows of a series in order, without a gap.
pub type ReadRows<'a, T> = &'a mut dyn FnMut(TakeRows<'_, T>) -> Result<()>;

/// Rows of one source, in one epoch of its clock.
pub struct SessionSeries<'a> {
    /// Name in the file.
    pub name: String,
    /// Channels of a row.
    pub channels: usize,
    /// Rows per second.
    pub rate: f64,
    /// Time of the first row in seconds.
    pub start_seconds: f64,
    /// About how many rows there are.
    pub rows: u64,
    /// Contents of the rows.
    pub kind: SeriesKind<'a>,
}

/// Contents of a [`SessionSeries`].
pub enum SeriesKind<'a> {
    /// Voltage in the device's bits.
    Voltage {
        /// The first of its electrodes among the rows of the table.
        electrode: usize,
        /// Microvolts per bit.
        microvolts: f64,
        /// The rows.
        read: ReadRows<'a, i16>,
    },
    /// Voltage as a plain `TimeSeries` of float32 in microvolts, without electrodes: for readers that take no
    /// `ElectricalSeries`, or units with a prefix alone.
    Microvolts {
        /// Microvolts per bit.
        microvolts: f64,
        /// The rows, in the device's bits.
        read: ReadRows<'a, i16>,
    },
    /// Features.
    Features {
        /// The rows.
        read: ReadRows<'a, f32>,
    },
}

/// Electrodes that the table has behind those of the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionElectrodes {
    /// Name of the source.
    pub source: String,
    /// Number of its electrodes.
    pub channels: usize,
}

/// Spikes of a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionUnit {
    /// Its name.
    pub name: String,
    /// Times in seconds, ascending.
    pub times: Vec<f64>,
    /// Begins and ends of the times in which it was listened to, ascending and apart.
    pub observed: Vec<[f64; 2]>,
}

/// A trial of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionTrial {
    /// Begin in seconds.
    pub start: f64,
    /// End in seconds.
    pub stop: f64,
    /// False if it is not to be learned from.
    pub learn: bool,
}

/// Parts that a session adds to its recording. Times are in seconds of the file.
#[derive(Default)]
pub struct SessionParts<'a> {
    /// Rows of the sources.
    pub series: Vec<SessionSeries<'a>>,
    /// Electrodes of those, if they are not the recording's channels.
    pub electrodes: Vec<SessionElectrodes>,
    /// Sorted units, and channels of sources that send spikes.
    pub units: Vec<SessionUnit>,
    /// Trials, as the session was told of them. They are the file's `trials`; the recording's segments then are a table of
    /// that name.
    pub trials: Vec<SessionTrial>,
    /// Times and texts of marks, ascending.
    pub marks: Vec<(f64, String)>,
    /// Times and texts of changes of digital lines, ascending.
    pub lines: Vec<(f64, String)>,
    /// Times of events and their JSON, ascending.
    pub events: Vec<(f64, String)>,
    /// Time and status of each step.
    pub status: Vec<(f64, u32)>,
    /// Begins and ends of times whose rows were lost.
    pub lost: Vec<[f64; 2]>,
}

pub(super) fn write(file: &NewFile, parts: &mut SessionParts<'_>, electrodes: usize) -> Result<()> {
    for series in &mut parts.series {
        write_series(file, series, electrodes)?;
    }
    write_units(file, &parts.units)?;
    let texts = [
        ("marks", "marks of the session", &parts.marks),
        (
            "lines",
            "changes of digital lines: SOURCE/LINE, up or down",
            &parts.lines,
        ),
        ("events", "events of the session, as JSON", &parts.events),
    ];
    for (name, about, texts) in texts {
        if !texts.is_empty() {
            write_texts(file, &format!("/acquisition/{name}"), about, texts)?;
        }
    }
    if !(parts.trials.is_empty() && parts.lost.is_empty()) {
        // The recording's own segments may have made it.
        file.group_if_missing("/intervals")?;
    }
    if !parts.trials.is_empty() {
        let table = "/intervals/trials";
        let bounds: Vec<[f64; 2]> = parts.trials.iter().map(|t| [t.start, t.stop]).collect();
        intervals(file, table, "trials that the session was told of", &bounds)?;
        let learn: Vec<u8> = parts.trials.iter().map(|t| u8::from(t.learn)).collect();
        file.numbers(&format!("{table}/learn"), &learn)?
            .column("1 for a trial to learn from, else 0")?;
        file.columns(table, &["start_time", "stop_time", "learn"])?;
    }
    if !parts.lost.is_empty() {
        file.group_if_missing("/intervals")?;
        let table = "/intervals/invalid_times";
        let about = "times whose rows were lost; voltage is 0 there";
        intervals(file, table, about, &parts.lost)?;
        file.columns(table, &["start_time", "stop_time"])?;
    }
    Ok(())
}

/// Writes the status of each step, beside what was decoded.
pub(super) fn write_status(file: &NewFile, status: &[(f64, u32)]) -> Result<()> {
    if status.is_empty() {
        return Ok(());
    }
    let path = "/processing/decoding/step_status";
    file.object(path, CORE, "TimeSeries")?;
    let about = "status of each step: bits as of StepStatus; 0 for a step of whole data";
    file.said(path, "description", about)?;
    file.said(path, "comments", "no comments")?;
    let bits: Vec<u32> = status.iter().map(|(_, bits)| *bits).collect();
    measured(file.numbers(&format!("{path}/data"), &bits)?, "n.a.")?;
    let times: Vec<f64> = status.iter().map(|(time, _)| *time).collect();
    timestamps(file.numbers(&format!("{path}/timestamps"), &times)?)
}

/// A table of intervals, without the names of its columns.
fn intervals(file: &NewFile, table: &str, about: &str, bounds: &[[f64; 2]]) -> Result<()> {
    file.object(table, CORE, "TimeIntervals")?;
    file.said(table, "description", about)?;
    ids(file, table, bounds.len())?;
    for (i, (name, about)) in [
        ("start_time", "start in seconds"),
        ("stop_time", "end in seconds, not in it"),
    ]
    .into_iter()
    .enumerate()
    {
        let times: Vec<f64> = bounds.iter().map(|b| b[i]).collect();
        file.numbers(&format!("{table}/{name}"), &times)?
            .column(about)?;
    }
    Ok(())
}

fn write_series(file: &NewFile, series: &mut SessionSeries<'_>, electrodes: usize) -> Result<()> {
    let path = format!("/acquisition/{}", series.name);
    let (width, rows) = (series.channels, series.rows);
    let (kind, about) = match series.kind {
        SeriesKind::Voltage { .. } => ("ElectricalSeries", "voltage as the device sent it"),
        SeriesKind::Microvolts { .. } => ("TimeSeries", "voltage in microvolts"),
        SeriesKind::Features { .. } => ("TimeSeries", "features as the source sent them"),
    };
    file.object(&path, CORE, kind)?;
    file.said(&path, "description", about)?;
    file.said(&path, "comments", "rows that were lost are 0")?;
    match &mut series.kind {
        SeriesKind::Voltage {
            electrode,
            microvolts,
            read,
        } => {
            let all: Vec<i64> = (*electrode as i64..(*electrode + width) as i64).collect();
            if *electrode + width > electrodes {
                return Err(Error::mismatch(format!(
                    "{path}: expected a channel per row of the table of electrodes, of which there are {electrodes}, got rows {electrode} to {}",
                    *electrode + width
                )));
            }
            let data = write_rows::<i16>(file, &path, width, rows, read)?;
            in_volts(data, *microvolts * 1e-6, -1.0)?;
            file.numbers(&format!("{path}/electrodes"), &all)?
                .of(COMMON, "DynamicTableRegion")?
                .with("description", Value::Text("the electrode of each channel"))?
                .with("table", Value::Object(ELECTRODES))?;
        }
        SeriesKind::Microvolts { microvolts, read } => {
            let gain = *microvolts;
            let mut in_microvolts = |take: TakeRows<'_, f32>| {
                let mut values = Vec::new();
                read(&mut |bits| {
                    values.clear();
                    values.extend(bits.iter().map(|bit| (f64::from(*bit) * gain) as f32));
                    take(&values)
                })
            };
            let mut read: ReadRows<'_, f32> = &mut in_microvolts;
            let data = write_rows::<f32>(file, &path, width, rows, &mut read)?;
            in_volts(data, 1e-6, gain * 1e-6)?;
        }
        SeriesKind::Features { read } => {
            measured(write_rows::<f32>(file, &path, width, rows, read)?, "n.a.")?;
        }
    }
    let start = file.number(&format!("{path}/starting_time"), series.start_seconds)?;
    rated(start, series.rate)
}

/// Says how data become volts, and the least difference of two of them in volts, -1 if it is that of a bit.
fn in_volts(data: NewDataset<'_>, conversion: f64, resolution: f64) -> Result<()> {
    data.with("unit", Value::Text("volts"))?
        .with("conversion", Value::F64(conversion))?
        .with("offset", Value::F32(0.0))?
        .with("resolution", Value::F32(resolution as f32))
        .map(drop)
}

fn write_rows<'f, T: H5Type>(
    file: &'f NewFile,
    path: &str,
    width: usize,
    rows: u64,
    read: &mut ReadRows<'_, T>,
) -> Result<NewDataset<'f>> {
    let mut data = file.growing::<T>(&format!("{path}/data"), Some(width), rows)?;
    read(&mut |values| data.push(values))?;
    Ok(data.whole())
}

fn write_units(file: &NewFile, units: &[SessionUnit]) -> Result<()> {
    if units.is_empty() {
        return Ok(());
    }
    file.object("/units", CORE, "Units")?;
    file.said(
        "/units",
        "description",
        "sorted units, and channels of sources that send spikes",
    )?;
    ids(file, "/units", units.len())?;
    let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
    file.texts("/units/unit_name", &names)?
        .column("the unit's name")?;
    let spans: Vec<[f64; 2]> = units
        .iter()
        .flat_map(|unit| &unit.observed)
        .copied()
        .collect();
    file.rows(
        "/units/obs_intervals",
        &[spans.len(), 2],
        spans.as_flattened(),
    )?
    .column("when the unit was listened to: while rows came")?;
    let observed = ends(units.iter().map(|unit| unit.observed.len()));
    index(file, "/units/obs_intervals", &observed)?;
    let times: Vec<f64> = units.iter().flat_map(|unit| &unit.times).copied().collect();
    file.numbers("/units/spike_times", &times)?
        .column("spike times of each unit in seconds")?;
    let spikes = ends(units.iter().map(|unit| unit.times.len()));
    index(file, "/units/spike_times", &spikes)?;
    file.columns("/units", &["unit_name", "obs_intervals", "spike_times"])
}

/// Ends of rows of these lengths, one behind the other.
fn ends(lengths: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut end = 0;
    lengths
        .map(|length| {
            end += length as u64;
            end
        })
        .collect()
}

fn write_texts(file: &NewFile, path: &str, about: &str, texts: &[(f64, String)]) -> Result<()> {
    file.object(path, CORE, "AnnotationSeries")?;
    file.said(path, "description", about)?;
    file.said(path, "comments", "no comments")?;
    let all: Vec<String> = texts.iter().map(|text| text.1.replace('\0', "")).collect();
    measured(file.texts(&format!("{path}/data"), &all)?, "n/a")?;
    let times: Vec<f64> = texts.iter().map(|text| text.0).collect();
    timestamps(file.numbers(&format!("{path}/timestamps"), &times)?)
}

fn timestamps(times: NewDataset<'_>) -> Result<()> {
    times
        .with("unit", Value::Text("seconds"))?
        .with("interval", Value::I32(1))
        .map(drop)
}
