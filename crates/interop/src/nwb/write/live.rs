//! Voltage, trials, marks and lost times of a session, beside its recording.

use betz_base::error::{Error, Result};

use super::series::rated;
use super::tables::{ELECTRODES, ids};
use crate::nwb::hdf5_write::{COMMON, CORE, NewFile, Value};

/// Takes whole rows of voltage.
pub type TakeRows<'a> = &'a mut dyn FnMut(&[i16]) -> Result<()>;

/// Voltage of all electrodes, in the device's bits.
pub struct SessionVoltage<'a> {
    /// Channels of a row: rows of the table of electrodes.
    pub channels: usize,
    /// Rows per second.
    pub rate: f64,
    /// Microvolts per bit.
    pub microvolts: f64,
    /// Time of the first row in seconds.
    pub start_seconds: f64,
    /// About how many rows there are.
    pub rows: u64,
    /// Gives the rows in order, without a gap.
    pub read: &'a mut dyn FnMut(TakeRows<'_>) -> Result<()>,
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
    /// Voltage.
    pub voltage: Option<SessionVoltage<'a>>,
    /// Trials, as the session was told of them.
    pub trials: Vec<SessionTrial>,
    /// Times and texts of marks, ascending.
    pub marks: Vec<(f64, String)>,
    /// Begins and ends of times whose rows were lost.
    pub lost: Vec<[f64; 2]>,
}

pub(super) fn write(file: &NewFile, parts: &mut SessionParts<'_>, electrodes: usize) -> Result<()> {
    if let Some(voltage) = &mut parts.voltage {
        write_voltage(file, voltage, electrodes)?;
    }
    if !parts.marks.is_empty() {
        write_marks(file, &parts.marks)?;
    }
    if !(parts.trials.is_empty() && parts.lost.is_empty()) {
        // The recording's own trials may have made it.
        file.group_if_missing("/intervals")?;
    }
    if !parts.trials.is_empty() {
        let table = "/intervals/session_trials";
        let bounds: Vec<[f64; 2]> = parts.trials.iter().map(|t| [t.start, t.stop]).collect();
        intervals(file, table, "trials that the session was told of", &bounds)?;
        let learn: Vec<u8> = parts.trials.iter().map(|t| u8::from(t.learn)).collect();
        file.numbers(&format!("{table}/learn"), &learn)?
            .column("1 for a trial to learn from, else 0")?;
        file.columns(table, &["start_time", "stop_time", "learn"])?;
    }
    if !parts.lost.is_empty() {
        let table = "/intervals/invalid_times";
        let about = "times whose rows were lost; voltage is 0 there";
        intervals(file, table, about, &parts.lost)?;
        file.columns(table, &["start_time", "stop_time"])?;
    }
    Ok(())
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

fn write_voltage(
    file: &NewFile,
    voltage: &mut SessionVoltage<'_>,
    electrodes: usize,
) -> Result<()> {
    if voltage.channels != electrodes {
        return Err(Error::mismatch(format!(
            "voltage: expected a channel per row of the table of electrodes ({electrodes}), got {}",
            voltage.channels
        )));
    }
    let path = "/acquisition/voltage";
    file.object(path, CORE, "ElectricalSeries")?;
    file.said(path, "description", "voltage as the device sent it")?;
    file.said(path, "comments", "rows that were lost are 0")?;
    let width = voltage.channels;
    let mut rows = file.growing::<i16>(&format!("{path}/data"), Some(width), voltage.rows)?;
    (voltage.read)(&mut |values| rows.push(values))?;
    rows.whole()
        .with("unit", Value::Text("volts"))?
        .with("conversion", Value::F64(voltage.microvolts * 1e-6))?
        .with("offset", Value::F32(0.0))?
        .with("resolution", Value::F32(-1.0))?;
    let start = file.number(&format!("{path}/starting_time"), voltage.start_seconds)?;
    rated(start, voltage.rate)?;
    let all: Vec<i64> = (0..width as i64).collect();
    file.numbers(&format!("{path}/electrodes"), &all)?
        .of(COMMON, "DynamicTableRegion")?
        .with("description", Value::Text("the electrode of each channel"))?
        .with("table", Value::Object(ELECTRODES))
        .map(drop)
}

fn write_marks(file: &NewFile, marks: &[(f64, String)]) -> Result<()> {
    let path = "/acquisition/marks";
    file.object(path, CORE, "AnnotationSeries")?;
    file.said(path, "description", "marks of the session")?;
    file.said(path, "comments", "no comments")?;
    let texts: Vec<String> = marks.iter().map(|m| m.1.replace('\0', "")).collect();
    file.texts(&format!("{path}/data"), &texts)?
        .with("unit", Value::Text("n/a"))?
        .with("conversion", Value::F32(1.0))?
        .with("offset", Value::F32(0.0))?
        .with("resolution", Value::F32(-1.0))?;
    let times: Vec<f64> = marks.iter().map(|m| m.0).collect();
    file.numbers(&format!("{path}/timestamps"), &times)?
        .with("unit", Value::Text("seconds"))?
        .with("interval", Value::I32(1))
        .map(drop)
}
