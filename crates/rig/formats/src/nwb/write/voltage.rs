//! Recordings of voltage as NWB files.

use std::collections::HashSet;
use std::path::Path;

use betz_base::error::{Error, Result};
use betz_base::file::create_atomically;
use betz_base::hash::Fnv1a;
use betz_base::progress::{self, Progress};
use betz_sort::Voltage;

use super::lines::{LineUse, Lines};
use super::live;
use super::series::rated;
use super::tables::{self, ELECTRODES, Electrode};
use super::{WriteOptions, begins_before_it_is_made, root};
use crate::nwb::hdf5_write::{COMMON, CORE, NewFile, Value};
use crate::voltage::{StreamKind, VoltageStream};

/// Samples that are read at once.
const BLOCK: usize = 1 << 20;

/// Result of [`write_voltage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenVoltage {
    /// Names of the series.
    pub series: Vec<String>,
    /// Number of trials, as digital lines tell them.
    pub trials: usize,
    /// Number of marks, likewise.
    pub marks: usize,
    /// Number of changes of the lines.
    pub changes: usize,
}

/// One series of the file: some channels of a stream, between two gaps.
#[derive(Debug)]
struct Piece {
    name: String,
    /// Columns of the stream's rows.
    columns: Vec<usize>,
    /// Microvolts per bit of each column; empty for digital words.
    microvolts: Vec<f64>,
    /// Row of the table of the first electrode; `None` for a stream without electrodes.
    electrode: Option<usize>,
    rows: std::ops::Range<u64>,
    start_seconds: f64,
    rate_hz: f64,
}

/// A stream with its samples open, and the series it becomes.
struct OpenStream {
    voltage: Box<dyn Voltage>,
    pieces: Vec<Piece>,
}

/// Writes every sample of `streams` to `path` as an NWB 2 file, which appears whole or not at all: one series per stream,
/// and one per piece of a stream that has gaps. Electrodes have an `ElectricalSeries` and a row each in the table of
/// electrodes; analogue inputs and digital words have a `TimeSeries`. The changes of the digital `lines` are annotations, and
/// what they mean are trials and marks. `truncate` reads whole rows of a file that ends within one; `progress` hears how many of
/// all samples are written.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for no stream, or one twice, for a line that is not there, for decoded outputs in `options`, and
/// for a session that begins after the file is made. [`ErrorKind::InvalidRecording`] for an electrode or an analogue input whose gain is unknown. Those of
/// reading the samples; `Interrupted`; [`ErrorKind::Io`] if the file cannot be written.
///
/// [`ErrorKind::InvalidArgument`]: betz_base::ErrorKind::InvalidArgument
/// [`ErrorKind::InvalidRecording`]: betz_base::ErrorKind::InvalidRecording
/// [`ErrorKind::Io`]: betz_base::ErrorKind::Io
pub fn write_voltage(
    streams: &[&VoltageStream],
    path: &Path,
    options: &WriteOptions,
    truncate: bool,
    lines: &[LineUse],
    progress: &dyn Progress,
) -> Result<WrittenVoltage> {
    if streams.is_empty() || options.decoded.is_some() {
        return Err(Error::argument(
            "streams: expected one at least, without decoded outputs",
        ));
    }
    begins_before_it_is_made(options)?;
    let mut lines = Lines::new(lines, streams)?;
    let mut electrodes = Vec::new();
    let mut open = Vec::new();
    let mut hash = Fnv1a::new();
    for stream in streams {
        let mut voltage = stream.open(truncate)?;
        let pieces = pieces(stream, voltage.rows(), &mut electrodes)?;
        take_facts(stream, voltage.as_mut(), &mut hash)?;
        open.push(OpenStream { voltage, pieces });
    }
    let all = open.iter().flat_map(|of| &of.pieces);
    let total: u64 = all.map(Piece::samples).sum();
    let names: Vec<String> = (open.iter())
        .flat_map(|of| of.pieces.iter().map(|piece| piece.name.clone()))
        .collect();
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(Error::argument(format!(
            "streams: expected each once, got {name} twice"
        )));
    }
    let seed = hash.finish();
    let mut written = WrittenVoltage {
        series: names,
        trials: 0,
        marks: 0,
        changes: 0,
    };
    let fill = |file: &NewFile| {
        root(file, &options.session, &options.created, seed)?;
        if !electrodes.is_empty() {
            tables::electrodes(file, &electrodes)?;
        }
        let mut done = 0;
        for (number, of) in open.iter_mut().enumerate() {
            for piece in &of.pieces {
                piece.write(file, of.voltage.as_mut(), &mut |row, samples| {
                    let seconds = |at: usize| piece.seconds(row + at as u64);
                    lines.take(number, piece.columns.len(), samples, seconds);
                    done += samples.len() as u64;
                    progress.update("writing voltage", done, total);
                    progress::check(progress, "writing voltage")
                })?;
            }
        }
        let mut parts = lines.into_parts();
        written.trials = parts.trials.len();
        written.marks = parts.marks.len();
        written.changes = parts.lines.len();
        live::write(file, &mut parts, electrodes.len())
    };
    create_atomically(path, |name| {
        NewFile::create(name, seed, fill).map_err(|e| e.at(path.display()))
    })?;
    Ok(written)
}

/// The series that `stream` becomes; its electrodes are added to `electrodes`.
fn pieces(
    stream: &VoltageStream,
    rows: u64,
    electrodes: &mut Vec<Electrode>,
) -> Result<Vec<Piece>> {
    let is_electrode = !matches!(stream.kind, StreamKind::Sync | StreamKind::Analog);
    let electrode = is_electrode.then_some(electrodes.len());
    let mut microvolts = Vec::new();
    for channel in &stream.channels {
        if stream.kind != StreamKind::Sync {
            microvolts.push(channel.microvolts.ok_or_else(|| {
                Error::recording(format!(
                    "{}: {}: expected µV per bit of every channel, got none for {}",
                    stream.path().display(),
                    stream.name,
                    channel.name
                ))
            })?);
        }
        if is_electrode {
            electrodes.push(Electrode {
                name: format!("{}/{}", stream.name, channel.name),
                place: channel.place,
                shank: channel.shank,
            });
        }
    }
    let name = stream.name.replace(['/', ':', '\\'], "_");
    let parts = match rows {
        0 => Vec::new(),
        _ => stream.pieces(0..rows),
    };
    let several = parts.len() > 1;
    let piece = |(i, rows): (usize, std::ops::Range<u64>)| Piece {
        name: match several {
            true => format!("{name}_{i}"),
            false => name.clone(),
        },
        columns: stream.channels.iter().map(|c| c.column).collect(),
        microvolts: microvolts.clone(),
        electrode,
        start_seconds: stream.clock(rows.start) as f64 / stream.rate_hz,
        rate_hz: stream.rate_hz,
        rows,
    };
    Ok(parts.into_iter().enumerate().map(piece).collect())
}

/// Hashes the facts of a stream and its first samples.
fn take_facts(stream: &VoltageStream, voltage: &mut dyn Voltage, hash: &mut Fnv1a) -> Result<()> {
    hash.bytes(stream.name.as_bytes());
    hash.number(stream.rate_hz);
    hash.word(voltage.rows());
    for channel in &stream.channels {
        hash.bytes(channel.name.as_bytes());
        hash.number(channel.microvolts.unwrap_or(f64::NAN));
    }
    let rows = (BLOCK / voltage.channels()).max(1);
    let mut first = vec![0_i16; rows * voltage.channels()];
    let there = voltage.read(0, &mut first)? * voltage.channels();
    first[..there]
        .iter()
        .for_each(|sample| hash.word(*sample as u16 as u64));
    Ok(())
}

impl Piece {
    /// Time of a row of the stream's file.
    fn seconds(&self, row: u64) -> f64 {
        self.start_seconds + (row - self.rows.start) as f64 / self.rate_hz
    }

    fn samples(&self) -> u64 {
        (self.rows.end - self.rows.start) * self.columns.len() as u64
    }

    fn write(
        &self,
        file: &NewFile,
        voltage: &mut dyn Voltage,
        written: &mut dyn FnMut(u64, &[i16]) -> Result<()>,
    ) -> Result<()> {
        let path = format!("/acquisition/{}", self.name);
        let (kind, about) = match (self.electrode, self.microvolts.is_empty()) {
            (Some(_), _) => ("ElectricalSeries", "voltage as the device sent it"),
            (None, false) => ("TimeSeries", "analogue inputs as the device sent them"),
            (None, true) => ("TimeSeries", "digital words as the device sent them"),
        };
        file.object(&path, CORE, kind)?;
        file.said(&path, "description", about)?;
        file.said(&path, "comments", "no comments")?;
        self.write_data(file, &path, voltage, written)?;
        if let Some(first) = self.electrode {
            let rows: Vec<i64> = (first as i64..).take(self.columns.len()).collect();
            file.numbers(&format!("{path}/electrodes"), &rows)?
                .of(COMMON, "DynamicTableRegion")?
                .with("description", Value::Text("the electrode of each channel"))?
                .with("table", Value::Object(ELECTRODES))?;
        }
        let start = file.number(&format!("{path}/starting_time"), self.start_seconds)?;
        rated(start, self.rate_hz)
    }

    fn write_data(
        &self,
        file: &NewFile,
        path: &str,
        voltage: &mut dyn Voltage,
        written: &mut dyn FnMut(u64, &[i16]) -> Result<()>,
    ) -> Result<()> {
        let (width, row) = (self.columns.len(), voltage.channels());
        let count = self.rows.end - self.rows.start;
        let mut data = file.growing::<i16>(&format!("{path}/data"), Some(width), count)?;
        let mut block = vec![0_i16; (BLOCK / row).max(1) * row];
        let mut at = self.rows.start;
        let mut chosen = Vec::new();
        while at < self.rows.end {
            let wanted = (self.rows.end - at).min((block.len() / row) as u64) as usize;
            let there = voltage.read(at, &mut block[..wanted * row])?;
            if there == 0 {
                return Err(Error::recording(format!(
                    "{path}: expected {} rows, got {at}: the file has become shorter",
                    self.rows.end
                )));
            }
            chosen.clear();
            for samples in block[..there * row].chunks_exact(row) {
                chosen.extend(self.columns.iter().map(|column| samples[*column]));
            }
            data.push(&chosen)?;
            written(at, &chosen)?;
            at += there as u64;
        }
        let first = self.microvolts.first().copied();
        let one_gain = self.microvolts.iter().all(|gain| Some(*gain) == first);
        let (unit, conversion) = match first {
            None => ("n.a.", 1.0),
            Some(gain) if one_gain => ("volts", gain * 1e-6),
            Some(_) => ("volts", 1e-6),
        };
        data.whole()
            .with("unit", Value::Text(unit))?
            .with("conversion", Value::F64(conversion))?
            .with("offset", Value::F32(0.0))?
            .with("resolution", Value::F32(-1.0))?;
        if !one_gain {
            let gains = file.numbers(&format!("{path}/channel_conversion"), &self.microvolts)?;
            gains.with("axis", Value::I32(1))?;
        }
        Ok(())
    }
}
