//! Voltage as NWB.

use std::path::Path;

use betz::{Error, Result};
use betz_formats::nwb;
use betz_formats::voltage::{VoltageRecording, VoltageStream};
use serde::Serialize;

use super::args::Convert;
use crate::files::{Files, Kind};
use crate::report::{self, Outcome};

#[derive(Serialize)]
struct VoltageConversion {
    out: String,
    format: &'static str,
    bytes: u64,
    /// Names of the series that were written.
    series: Vec<String>,
    samples: u64,
    seconds: f64,
    /// Trials, marks and changes of digital lines, as `--line` asks for them.
    trials: usize,
    marks: usize,
    changes: usize,
}

/// The streams of IN, if it is a recording of voltage that is not NWB yet.
pub(super) fn of(path: &Path) -> Result<Option<VoltageRecording>> {
    if betz_formats::is_hdf5(path) {
        return Ok(None);
    }
    let recording = VoltageRecording::read(path)?;
    Ok(recording.filter(|recording| !recording.streams.is_empty()))
}

/// Refuses options that only voltage has a use for.
pub(super) fn refuse_options(args: &Convert) -> Result<()> {
    let option = match (&args.streams[..], &args.lines[..]) {
        ([name, ..], _) => format!("--stream {name}"),
        ([], [line, ..]) => format!("--line {line}"),
        ([], []) if args.truncate => "--truncate".to_owned(),
        ([], []) => return Ok(()),
    };
    Err(Error::argument(format!(
        "{option}: expected voltage of SpikeGLX or Open Ephys, got {}",
        args.input.display()
    )))
}

pub(super) fn run(args: &Convert, recording: &VoltageRecording) -> Result<()> {
    args.behavior
        .none("IN is voltage, which has none of them")?;
    for (option, given) in [
        ("--decode", args.decode.is_some()),
        ("--memory", args.memory.is_some()),
    ] {
        if given {
            return Err(Error::argument(format!(
                "{option}: expected none where IN is voltage, got {}",
                args.input.display()
            )));
        }
    }
    let streams: Vec<&VoltageStream> = match &args.streams[..] {
        [] => recording.streams.iter().collect(),
        names => (names.iter())
            .map(|name| recording.stream(Some(name)))
            .collect::<Result<_>>()?,
    };
    let mut files = Files::new(&args.common).reads("IN", &args.input);
    for stream in &streams {
        files = files.reads("IN", stream.path());
    }
    files.writes("OUT", &args.out, Kind::Nwb)?;
    for note in streams.iter().flat_map(|stream| &stream.notes) {
        report::remark(format!("{}: {note}", args.input.display()));
    }
    let options = super::options(args, super::session(args, None)?)?;
    let bar = report::Bar::new();
    let written = nwb::write_voltage(
        &streams,
        &args.out,
        &options,
        args.truncate,
        &args.lines,
        &bar,
    )?;
    drop(bar);
    if !args.lines.is_empty() && written.changes == 0 {
        report::remark(format!(
            "{}: the lines of --line never change",
            args.input.display()
        ));
    }
    let length = |stream: &&VoltageStream| stream.length() as f64 / stream.rate_hz;
    let told = VoltageConversion {
        out: args.out.display().to_string(),
        format: "nwb",
        bytes: std::fs::metadata(&args.out).map_or(0, |m| m.len()),
        series: written.series,
        samples: (streams.iter())
            .map(|stream| stream.samples * stream.channels.len() as u64)
            .sum(),
        seconds: streams.iter().map(length).fold(0.0, f64::max),
        trials: written.trials,
        marks: written.marks,
        changes: written.changes,
    };
    report::tell(&told, args.common.json)
}

impl Outcome for VoltageConversion {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: voltage as {}, {}, {:.1} s, {} bytes",
            self.out,
            self.series.join(", "),
            report::count(u128::from(self.samples), "sample"),
            self.seconds,
            self.bytes
        ))?;
        if self.changes == 0 {
            return Ok(());
        }
        report::line(&format!(
            "digital lines: {}, {}, {}",
            report::count(self.changes as u64, "change"),
            report::count(self.trials as u64, "trial"),
            report::count(self.marks as u64, "mark")
        ))
    }
}
