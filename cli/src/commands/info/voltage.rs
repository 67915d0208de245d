//! `betz info RAW`: the streams of a recording of voltage.

use std::path::Path;

use betz::{Error, Result};
use betz_formats::voltage::{VoltageChannel, VoltageRecording, VoltageStream};
use serde::Serialize;

use crate::report::{self, Outcome, Table, count, number};

#[derive(Serialize)]
struct VoltageFacts {
    kind: &'static str,
    file: String,
    streams: Vec<StreamFacts>,
}

#[derive(Serialize)]
pub(super) struct StreamFacts {
    name: String,
    kind: &'static str,
    rate_hz: f64,
    samples: u64,
    /// Samples that the header promises; null if it says nothing.
    expected_samples: Option<u64>,
    /// First sample and length of each gap, on the device's clock.
    gaps: Vec<[u64; 2]>,
    channels: Vec<ChannelFacts>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ChannelFacts {
    name: String,
    /// Position in a row of the file.
    column: usize,
    gain_uv: Option<f64>,
    x_um: Option<f32>,
    y_um: Option<f32>,
    shank: Option<u32>,
    used: bool,
}

pub(super) fn run(path: &Path, json: bool) -> Result<()> {
    let recording = VoltageRecording::read(path)?;
    let streams = recording.map(|r| r.streams).unwrap_or_default();
    if streams.is_empty() {
        return Err(Error::argument(format!(
            "{}: expected streams of voltage, got none",
            path.display()
        )));
    }
    let facts = VoltageFacts {
        kind: "voltage",
        file: path.display().to_string(),
        streams: streams.iter().map(facts).collect(),
    };
    report::tell(&facts, json)
}

fn facts(stream: &VoltageStream) -> StreamFacts {
    let channel = |c: &VoltageChannel| ChannelFacts {
        name: c.name.clone(),
        column: c.column,
        gain_uv: c.microvolts,
        x_um: c.place.map(|p| p[0]),
        y_um: c.place.map(|p| p[1]),
        shank: c.shank,
        used: c.used,
    };
    StreamFacts {
        name: stream.name.clone(),
        kind: stream.kind.name(),
        rate_hz: stream.rate_hz,
        samples: stream.samples,
        expected_samples: stream.expected_samples,
        gaps: stream.gaps.iter().map(|g| [g.start, g.length]).collect(),
        channels: stream.channels.iter().map(channel).collect(),
        notes: stream.notes.clone(),
    }
}

/// Streams of voltage in a file that holds a recording as well; empty if there are none.
pub(super) fn beside_units(path: &Path) -> Result<Vec<StreamFacts>> {
    if !betz_formats::is_hdf5(path) {
        return Ok(Vec::new());
    }
    let recording = VoltageRecording::read(path)?.unwrap_or_default();
    Ok(recording.streams.iter().map(facts).collect())
}

impl StreamFacts {
    /// Row of the table of streams.
    fn row(&self, table: &mut Table) {
        let placed = self.channels.iter().filter(|c| c.x_um.is_some()).count();
        let mut gains: Vec<f64> = self.channels.iter().filter_map(|c| c.gain_uv).collect();
        gains.dedup();
        table.row([
            self.name.clone(),
            self.kind.to_owned(),
            number(self.rate_hz),
            format!("{:.3}", self.samples as f64 / self.rate_hz),
            self.gaps.len().to_string(),
            self.channels.len().to_string(),
            placed.to_string(),
            match gains[..] {
                [] => "unknown".to_owned(),
                [gain] => format!("{gain:.4}"),
                _ => "several".to_owned(),
            },
        ]);
    }
}

/// Prints the table of `streams`.
pub(super) fn print_table(streams: &[StreamFacts]) -> Result<()> {
    let mut table = Table::new(&[
        "stream",
        "kind",
        "Hz",
        "s",
        "gaps",
        "channels",
        "placed",
        "µV per bit",
    ]);
    streams.iter().for_each(|stream| stream.row(&mut table));
    table.print()?;
    for stream in streams {
        for note in &stream.notes {
            report::line(&format!("{}: {note}", stream.name))?;
        }
    }
    Ok(())
}

impl Outcome for VoltageFacts {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: voltage, {}",
            self.file,
            count(self.streams.len() as u128, "stream")
        ))?;
        print_table(&self.streams)
    }
}
