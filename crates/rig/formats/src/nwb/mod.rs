//! Neurodata Without Borders (NWB 2, HDF5): units, trials and behaviour as a recording, and recordings as NWB.
//!
//! | of the file | becomes |
//! |---|---|
//! | `units/spike_times` with its end offsets, of any width | a channel per unit, in ticks |
//! | `units/electrodes`, `general/extracellular_ephys/electrodes` | electrode positions |
//! | series in `acquisition` and `processing/behavior` | behaviour: those asked for, else velocities, else the first |
//! | `intervals/trials` or tables asked for, or runs of `acquisition/TrialNum` | segments; one over everything where there are neither |
//! | `intervals/invalid_times`, or tables asked for | left out of the segments |
//! | `identifier`, `session_description` | `meta` |
//!
//! Raw voltage stays in the file: [`ElectricalSeries`] reads parts of it, for sorting.
//!
//! Times stay the file's, unless something lies before 0, or they count from 1970: then everything is moved, and the report
//! says by how much. Soft and external links are followed. Two layouts of the FALCON benchmark are known by their names: M2, whose timestamps are the
//! starts of bins where a recording has the value at a step's end, and H1, whose `rate` holds a period.
//!
//! A file that [`write()`] made is read back as the original recording.

mod behavior;
mod events;
mod hdf5;
mod hdf5_error;
mod hdf5_write;
mod intervals;
mod links;
mod observed;
mod own;
mod series;
mod session;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod ticked;
mod trials;
mod units;
mod unused;
mod voltage;
mod write;

use std::path::Path;

use betz_base::error::{Error, ErrorKind, Result};
use betz_recording::{Behavior, Recording, Segment, SpikeFeatures, SpikeForm};

use crate::voltage::VoltageStream;
use crate::{ReadOptions, Report, angles};
use hdf5::File;
use own::Own;
pub use series::Series;
pub use session::{Moment, Session, Subject, session_of_meta};
pub use units::Units;
pub use voltage::ElectricalSeries;
pub use write::{
    DecodedOutputs, LineUse, ReadRows, SeriesKind, SessionElectrodes, SessionParts, SessionSeries,
    SessionTrial, SessionUnit, TakeRows, WriteOptions, WrittenVoltage, write, write_session,
    write_stretches, write_voltage,
};

/// Longest recording in seconds; a later time is treated as invalid.
const LONGEST_SECONDS: f64 = 1e8;

/// Reads the recording in the NWB file at `path`.
///
/// Reads the units, the trials and the behaviour, nothing else: raw voltage stays where it is. Memory is what the recording
/// takes, of a time range or some units what those take: times of spikes are read in stretches, and are sorted in place
/// (with half of that again while that is done).
///
/// [`ErrorKind::Io`] if the file cannot be read; [`ErrorKind::InvalidRecording`] if it is damaged or violates NWB in
/// the parts read, with the dataset's name; [`ErrorKind::InsufficientData`] without units;
/// [`ErrorKind::InvalidArgument`] for behaviour that does not exist, with a list of the series that do.
pub fn read(path: &Path, options: &ReadOptions) -> Result<(Recording, Report)> {
    File::open(path)
        .and_then(|file| recording(&file, options))
        .map_err(|e| e.at(path.display()))
}

/// Reads the recording whose channels are the electrode groups of the spikes with waveforms (`SpikeEventSeries`) in the
/// NWB file at `path`, and the features of its spikes: the voltages of the group's electrodes in microvolts, at the sample
/// with the largest voltage of either sign on any of them. Trials and behaviour are those of [`read`].
///
/// # Errors
/// The errors of [`read`]; [`ErrorKind::InsufficientData`] without such spikes.
pub fn read_spike_events(
    path: &Path,
    options: &ReadOptions,
) -> Result<(Recording, SpikeFeatures, Report)> {
    File::open(path)
        .and_then(|file| events::recording(&file, options))
        .map_err(|e| e.at(path.display()))
}

/// Reads the units of the NWB file at `path`, with their times as stored.
///
/// # Errors
/// The errors of [`read`].
pub fn read_units(path: &Path) -> Result<Units> {
    File::open(path)
        .and_then(|file| units::read(&file)?.ok_or_else(|| no_units(&file)))
        .map_err(|e| e.at(path.display()))
}

/// Reads the time series at `series` (its path in the file) of the NWB file at `path`.
///
/// # Errors
/// The errors of [`read`].
pub fn read_series(path: &Path, series: &str) -> Result<Series> {
    File::open(path)
        .and_then(|file| series::read(&file, series, &mut Report::default()))
        .map_err(|e| e.at(path.display()))
}

/// Reads the session described in the NWB file at `path`; `None` if the file has no readable start time.
///
/// # Errors
/// The errors of [`read`] for a file that cannot be opened.
pub fn read_session(path: &Path) -> Result<Option<Session>> {
    File::open(path)
        .map(|file| session::of(&file))
        .map_err(|e| e.at(path.display()))
}

/// True if the NWB file at `path` has a table of units.
///
/// # Errors
/// The errors of [`read`] for a file that cannot be opened.
pub fn has_units(path: &Path) -> Result<bool> {
    let file = File::open(path).map_err(|e| e.at(path.display()))?;
    file.shape(units::TIMES)
        .map(|shape| shape.is_some())
        .map_err(|e| e.at(path.display()))
}

/// Streams of voltage in the NWB file at `path`: those in `acquisition` itself first. A series that cannot be read is left
/// out, and the first stream's notes say why.
///
/// # Errors
/// The errors of [`read`] for a file that cannot be opened; those of the series if none can be read.
pub fn voltage_streams(path: &Path) -> Result<Vec<VoltageStream>> {
    let file = File::open(path).map_err(|e| e.at(path.display()))?;
    let (direct, others) = voltage::found(&file);
    drop(file);
    let (mut streams, mut faults) = (Vec::new(), Vec::new());
    for series in direct.iter().chain(&others) {
        match ElectricalSeries::open(path, Some(series)) {
            Ok(opened) => streams.push(VoltageStream::of_series(path, &opened)),
            Err(e) if e.kind() == ErrorKind::OutOfMemory => return Err(e),
            Err(e) => faults.push(e),
        }
    }
    match (streams.first_mut(), faults.is_empty()) {
        (Some(first), _) => {
            let left_out = faults.iter().map(|e| format!("left out: {}", e.message()));
            first.notes.extend(left_out);
        }
        (None, false) => return Err(faults.remove(0)),
        (None, true) => {}
    }
    Ok(streams)
}

/// True if [`write()`] made the file at `path`.
pub fn is_own(path: &Path) -> bool {
    crate::is_hdf5(path) && File::open(path).is_ok_and(|file| Own::read(&file).is_some())
}

fn no_units(file: &File) -> Error {
    let (voltage, others) = voltage::found(file);
    let voltage = voltage.into_iter().chain(others).next();
    let elsewhere = units::elsewhere(file);
    let waveforms = match &events::found(file)[..] {
        [] => String::new(),
        paths => format!(
            "; betz train --decoder place --marks reads the spikes with waveforms in [{}]",
            paths.join(", ")
        ),
    };
    let instead = match (&elsewhere[..], voltage) {
        ([], None) => String::new(),
        ([], Some(path)) => format!("; betz sort makes one of the voltage in {path}"),
        (there, _) => format!(
            "; there are spike times in [{}]: copy that table to units (h5copy does)",
            there.join(", ")
        ),
    };
    Error::new(
        ErrorKind::InsufficientData,
        format!(
            "expected a table of units with spike times (units/spike_times), got none{instead}{waveforms}"
        ),
    )
}

/// The recording in a file that Betz wrote, unchanged; `None` for any other file, and for one that was changed since.
fn own_recording(file: &File, report: &mut Report) -> Result<Option<Recording>> {
    let Some(own) = Own::read(file) else {
        return Ok(None);
    };
    match own.recording(file, &mut report.notes) {
        Ok(recording) => Ok(Some(recording)),
        Err(e) if e.kind() == ErrorKind::OutOfMemory => Err(e),
        Err(e) => {
            report.notes.push(format!(
                "Betz wrote the file, and it was changed since ({e}): read as any other"
            ));
            Ok(None)
        }
    }
}

/// Reads spikes in ticks from a time on, or from their earliest where that lies before, within a window.
type ReadSpikes<'a> =
    &'a mut dyn FnMut(f64, &std::ops::Range<f64>, &mut Report) -> Result<ticked::TickedSpikes>;

/// Channels of a recording and their spikes.
struct Source<'a> {
    names: Vec<String>,
    electrode_um: Option<Vec<[f32; 2]>>,
    spikes: ReadSpikes<'a>,
    /// The table of units, if channels are units.
    units: Option<&'a units::Table>,
    /// Paths of the series that the channels are read from.
    series: Vec<String>,
}

fn check_tick(options: &ReadOptions) -> Result<()> {
    let tick = options.tick_seconds;
    match tick.is_finite() && tick > 0.0 {
        true => Ok(()),
        false => Err(Error::argument(format!(
            "tick: expected a finite length > 0 s, got {tick}"
        ))),
    }
}

fn recording(file: &File, options: &ReadOptions) -> Result<(Recording, Report)> {
    check_tick(options)?;
    let mut report = Report::default();
    let plain = ReadOptions {
        angles: Vec::new(),
        ..options.clone()
    };
    if plain == ReadOptions::default()
        && let Some(mut recording) = own_recording(file, &mut report)?
    {
        angles::settle(&mut recording.behavior, &options.angles, &mut report.notes)?;
        return Ok((recording, report));
    }
    report.notes.extend_from_slice(file.dangling());
    let units = units::table(file, &options.units)?.ok_or_else(|| no_units(file))?;
    report.notes.extend_from_slice(&units.notes);
    let source = Source {
        names: units.names.clone(),
        electrode_um: units.electrode_um.clone(),
        spikes: &mut |low, window, report| {
            ticked::read(file, &units, low, options.tick_seconds, window, report)
        },
        units: Some(&units),
        series: Vec::new(),
    };
    assemble(file, options, source, report)
}

/// The recording of the spikes of `source`, with the trials and the behaviour of `file`.
fn assemble(
    file: &File,
    options: &ReadOptions,
    source: Source<'_>,
    mut report: Report,
) -> Result<(Recording, Report)> {
    let tick_seconds = options.tick_seconds;
    let window = options.window()?;
    let (mut behavior, paths) = behavior::read(file, options, &mut report)?;
    angles::settle(&mut behavior, &options.angles, &mut report.notes)?;
    let mut trials = trials::read(file, &options.trials, &mut report)?;
    // A trial is whole, or it is none.
    trials.retain(|(start, stop)| *start >= window.start && *stop <= window.end);
    let times = behavior.iter().flat_map(|b| b.times.iter().flatten());
    let bounds = trials.iter().flat_map(|(start, stop)| [start, stop]);
    let first = times.clone().chain(bounds.clone());
    let origin = origin(file, first.copied().fold(f64::INFINITY, f64::min))?;
    let (mut low, mut high) = (origin, origin);
    for &time in times.chain(bounds) {
        (low, high) = (low.min(time), high.max(time));
    }
    check_span(low, high)?;
    let ticked = (source.spikes)(low, &window, &mut report)?;
    low = ticked.low;
    report
        .notes
        .extend(ticked.looks_like_milliseconds(source.names.len(), behavior.as_ref()));
    if !ticked.spikes.is_empty() {
        // A spike at the very end has its tick, too.
        high = high.max(ticked.high + tick_seconds);
    }
    check_span(low, high)?;
    if low != 0.0 {
        report.notes.push(format!(
            "times begin at {low} s: everything was moved to begin at 0"
        ));
    }
    let ticks = ticked::tick(high - low + 0.999_99 * tick_seconds, tick_seconds);
    if trials.is_empty() {
        trials = vec![(low, low + ticks as f64 * tick_seconds)];
    }
    let (within, mask) = (&options.within, &options.mask);
    let spans = intervals::select(file, trials, within, mask, &mut report.notes)?;
    let spans = match source.units {
        Some(units) => observed::select(file, units, spans, &mut report.notes)?,
        None => spans,
    };
    let used = [paths, source.series].concat();
    unused::note(file, options, &used, &mut report);
    report.origin_seconds = low;
    let recording = Recording {
        tick_seconds,
        ticks,
        spikes: ticked.spikes,
        channel_names: source.names,
        behavior: behavior.map(|b| Behavior {
            times: b
                .times
                .map(|times| times.into_iter().map(|t| t - low).collect()),
            ..b
        }),
        segments: segments(&spans, low, ticks, tick_seconds),
        electrode_um: source.electrode_um,
        form: SpikeForm::Events,
        meta: Some(meta(file, low, &report)),
    };
    recording.check()?;
    Ok((recording, report))
}

/// Converts `spans` to ticks from `low` on; one segment over everything if none contains a tick.
fn segments(
    spans: &[intervals::Interval],
    low: f64,
    ticks: i64,
    tick_seconds: f64,
) -> Vec<Segment> {
    let at = |seconds: f64| ((seconds - low) / tick_seconds).round() as i64;
    let segments: Vec<Segment> = (spans.iter())
        .map(|&(start, stop)| Segment {
            start: at(start),
            stop: at(stop).min(ticks),
        })
        .filter(|segment| !segment.is_empty())
        .collect();
    match segments.is_empty() {
        true => vec![Segment {
            start: 0,
            stop: ticks,
        }],
        false => segments,
    }
}

/// The time that becomes 0 if nothing lies before: 0, or the first time where all lie too late for a session's own clock,
/// as seconds since 1970 do. `first` is the first time of behaviour and trials.
fn origin(file: &File, first: f64) -> Result<f64> {
    let mut spike = [f64::INFINITY];
    if file.shape(units::TIMES)?.is_some_and(|shape| shape[0] > 0) {
        file.fill(units::TIMES, 0, &mut spike)?;
    }
    let first = first.min(spike[0]);
    Ok(match first.is_finite() && first > LONGEST_SECONDS {
        true => first,
        false => 0.0,
    })
}

/// Refuses times that are too far apart.
fn check_span(low: f64, high: f64) -> Result<()> {
    if high - low > LONGEST_SECONDS {
        return Err(Error::recording(format!(
            "times: expected at most {LONGEST_SECONDS:e} s from first to last, got {low} s to {high} s; \
             give spikes, behaviour and trials one clock"
        )));
    }
    Ok(())
}

/// Moment of the recording's time 0, which is `origin` in the file.
fn reference(session: &Session, origin: f64) -> Moment {
    let since_1970 = (origin > LONGEST_SECONDS).then(|| Moment::of_epoch(0));
    match since_1970 {
        Some(Ok(epoch)) => epoch.after(origin),
        _ => session
            .zero
            .as_ref()
            .unwrap_or(&session.start)
            .after(origin),
    }
}

/// Origin and processing of the recording, as JSON.
fn meta(file: &File, origin: f64, report: &Report) -> String {
    let said = |path: &str| session::said(file, path).unwrap_or_default();
    let mut meta = serde_json::json!({
        "source": "nwb",
        "identifier": said("identifier"),
        "session_description": said("session_description"),
        "origin_seconds": origin,
        "notes": report.notes,
    });
    if let Some(session) = session::of(file) {
        meta["session_start_time"] = session.start.text().into();
        meta["timestamps_reference_time"] = reference(&session, origin).text().into();
    }
    meta.to_string()
}
