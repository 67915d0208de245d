//! Spikes with their waveforms: `SpikeEventSeries`, one per electrode group.
//!
//! Every series is a channel, named as it is, and every event a spike. Its features are the voltages of the group's
//! electrodes in microvolts at one sample: the one with the largest voltage, of either sign, on any of them.

use std::ops::Range;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::memory;
use betz_recording::{MAX_FEATURES, Recording, SpikeFeatures, Spikes};

use super::hdf5::File;
use super::series::leaf;
use super::ticked::{TickedSpikes, tick};
use super::{Source, assemble};
use crate::{ReadOptions, Report};

/// Type of the series, by `neurodata_type`.
const TYPE: &str = "SpikeEventSeries";

/// Values that are read at once.
const BLOCK: usize = 1 << 20;

/// Events of one electrode group.
struct Events {
    times: Vec<f64>,
    /// Number of electrodes.
    columns: usize,
    /// Features, (event, electrode).
    features: Vec<f32>,
}

/// Paths of the series, each once.
pub(super) fn found(file: &File) -> Vec<String> {
    let data = file
        .datasets()
        .filter_map(|path| path.strip_suffix("/data"));
    let events = data
        .filter(|path| path.starts_with("acquisition/") || path.starts_with("processing/"))
        .filter(|path| file.group_text(path, "neurodata_type").as_deref() == Some(TYPE));
    let mut seen = std::collections::BTreeSet::new();
    events
        .filter(|path| seen.insert(file.canonical(path)))
        .map(str::to_owned)
        .collect()
}

/// The recording of the events in `file`, and the features of its spikes.
pub(super) fn recording(
    file: &File,
    options: &ReadOptions,
) -> Result<(Recording, SpikeFeatures, Report)> {
    super::check_tick(options)?;
    let mut paths = found(file);
    if !options.units.is_empty() {
        let named = |path: &String, wanted: &String| path == wanted || leaf(path) == wanted;
        if let Some(wanted) = (options.units.iter()).find(|w| !paths.iter().any(|p| named(p, w))) {
            return Err(Error::argument(format!(
                "units: expected some of [{}], got '{wanted}'",
                paths.join(", ")
            )));
        }
        paths.retain(|path| options.units.iter().any(|wanted| named(path, wanted)));
    }
    if paths.is_empty() {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "expected spikes with waveforms (a {TYPE} in acquisition or processing), got none"
            ),
        ));
    }
    let groups: Vec<Events> = (paths.iter())
        .map(|path| read(file, path))
        .collect::<Result<_>>()?;
    let columns = groups.iter().map(|g| g.columns).fold(1, usize::max);
    let mut order = Vec::new();
    let mut report = Report::default();
    let spikes = &mut |low: f64, window: &Range<f64>, report: &mut Report| {
        let (ticked, events) = ticked(&groups, low, options.tick_seconds, window, report)?;
        order = events;
        Ok(ticked)
    };
    let source = Source {
        names: names(&paths),
        electrode_um: None,
        spikes,
        units: None,
        series: paths,
    };
    report.notes.extend_from_slice(file.dangling());
    let (recording, report) = assemble(file, options, source, report)?;
    let mut values = memory::filled("spike features", f32::NAN, order.len() * columns)?;
    for (row, (group, event)) in values.chunks_exact_mut(columns).zip(order) {
        let of = &groups[group];
        row[..of.columns].copy_from_slice(&of.features[event * of.columns..][..of.columns]);
    }
    Ok((recording, SpikeFeatures { columns, values }, report))
}

/// Names of the channels: those of the series, or their paths where two have one name.
fn names(paths: &[String]) -> Vec<String> {
    let once = |path: &&String| paths.iter().filter(|p| leaf(p) == leaf(path)).count() == 1;
    match paths.iter().all(|path| once(&path)) {
        true => paths.iter().map(|path| leaf(path).to_owned()).collect(),
        false => paths.to_vec(),
    }
}

/// The spikes of all groups within `window` in ticks from `low` on, or from the earliest where that lies before, and the
/// (group, event) of each.
fn ticked(
    groups: &[Events],
    low: f64,
    tick_seconds: f64,
    window: &Range<f64>,
    report: &mut Report,
) -> Result<(TickedSpikes, Vec<(usize, usize)>)> {
    let all = groups.iter().map(|g| g.times.len()).sum();
    let mut events: Vec<(usize, usize)> = memory::room("spike events", all)?;
    let (mut least, mut high, mut lost) = (low, low, 0_usize);
    for (group, of) in groups.iter().enumerate() {
        for (event, &time) in of.times.iter().enumerate() {
            lost += usize::from(!time.is_finite());
            if window.contains(&time) && time.is_finite() {
                (least, high) = (least.min(time), high.max(time));
                events.push((group, event));
            }
        }
    }
    super::check_span(least, high)?;
    if lost > 0 {
        report.notes.push(format!(
            "left out: {}, not finite",
            betz_base::text::count(lost as u128, "spike time")
        ));
    }
    let at =
        |&(group, event): &(usize, usize)| tick(groups[group].times[event] - least, tick_seconds);
    events.sort_by_key(|event| (at(event), event.0));
    let spikes = Spikes::new(
        events.iter().map(at).collect(),
        events.iter().map(|(group, _)| *group as u32).collect(),
    );
    let ticked = TickedSpikes {
        spikes,
        low: least,
        high,
    };
    Ok((ticked, events))
}

/// The events of the series `path`: data of (events, samples) or (events, electrodes, samples).
fn read(file: &File, path: &str) -> Result<Events> {
    let data = format!("{path}/data");
    let shape = file.shape(&data)?.unwrap_or_default();
    let (events, columns, samples) = match shape[..] {
        [events, samples] => (events, 1, samples),
        [events, columns, samples] => (events, columns, samples),
        _ => {
            return Err(Error::recording(format!(
                "{data}: expected (events, samples) or (events, electrodes, samples), got a shape of {shape:?}"
            )));
        }
    };
    if columns > MAX_FEATURES {
        return Err(Error::recording(format!(
            "{data}: expected at most {MAX_FEATURES} electrodes per group, got {columns}"
        )));
    }
    let Some(size) = columns.checked_mul(samples) else {
        return Err(Error::recording(format!(
            "{data}: expected waveforms that fit in memory, got a shape of {shape:?}"
        )));
    };
    let times = file.numbers(&format!("{path}/timestamps"))?;
    let times = times.map(|times| times.values).unwrap_or_default();
    if times.len() != events {
        return Err(Error::recording(format!(
            "{path}/timestamps: expected {events}, one per event of data, got {}",
            times.len()
        )));
    }
    if events > 0 && size == 0 {
        return Err(Error::recording(format!(
            "{data}: expected samples of electrodes, got a shape of {shape:?}"
        )));
    }
    let factor = file.number(&data, "conversion").unwrap_or(1.0) * 1e6;
    let offset = file.number(&data, "offset").unwrap_or(0.0) * 1e6;
    let of_channel = file.numbers(&format!("{path}/channel_conversion"))?;
    let of_channel = of_channel.map_or_else(|| vec![1.0; columns], |c| c.values);
    if of_channel.len() != columns {
        return Err(Error::recording(format!(
            "{path}/channel_conversion: expected {columns}, one per electrode, got {}",
            of_channel.len()
        )));
    }
    let mut features = memory::room("spike features", events * columns)?;
    let rows = (BLOCK / size.max(1)).max(1);
    for first in (0..events).step_by(rows) {
        let count = rows.min(events - first);
        let block = match shape.len() {
            2 => file.block(&data, &[first, 0], &[count, samples])?,
            _ => file.block(&data, &[first, 0, 0], &[count, columns, samples])?,
        };
        for waveform in block.chunks_exact(size) {
            let volts =
                |c: usize, s: usize| waveform[c * samples + s] * factor * of_channel[c] + offset;
            let largest = |s: usize| {
                let each = (0..columns).map(|c| volts(c, s).abs());
                each.filter(|v| v.is_finite()).fold(0.0, f64::max)
            };
            let mut peak = (0, largest(0));
            for s in 1..samples {
                let volts = largest(s);
                if volts > peak.1 {
                    peak = (s, volts);
                }
            }
            features.extend((0..columns).map(|c| volts(c, peak.0) as f32));
        }
    }
    if features.len() != events * columns {
        return Err(Error::recording(format!(
            "{data}: expected {events} waveforms of {size} values, got {}",
            features.len() / columns
        )));
    }
    Ok(Events {
        times,
        columns,
        features,
    })
}
