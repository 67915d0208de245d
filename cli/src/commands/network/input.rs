//! Signals and recordings that networks are made of.

use std::ops::Range;
use std::path::Path;

use betz::network::file::Positions;
use betz::network::{Signal, SignalData, SpikeTrains};
use betz::recording::arrays::{Arrays, Samples, Values, read_npy};
use betz::recording::{Recording, SpikeForm};
use betz::{Error, ErrorKind, Result, memory};

use super::args::{InputArgs, Region};
use super::frames::{self, Pixels, View};
use super::{lines, nodes};
use crate::common_args::Behaviors;
use crate::data;
use crate::files::refuse_stream;
use crate::report;

/// Arrays of an `.npz` that name the nodes, and that say where they are.
const NAMES: [&str; 3] = ["node_name", "names", "channel_names"];
const POSITIONS: [&str; 4] = ["node_xy", "xy", "xyz", "electrode_um"];

/// The input of a network.
pub(super) struct Input {
    pub(super) values: Values,
    pub(super) nodes: usize,
    /// Values of a node at an instant: 1, or the axes of places that change.
    pub(super) axes: usize,
    /// Ranges of samples without a gap; `None`: all.
    pub(super) segments: Option<Vec<Range<usize>>>,
    /// Beginning of each segment, if segments do not simply follow each other.
    pub(super) segment_seconds: Option<Vec<f64>>,
    pub(super) sample_seconds: Option<f64>,
    pub(super) names: Option<Vec<String>>,
    pub(super) positions: Option<Positions>,
    /// The nodes are pixels of frames.
    framed: bool,
}

impl Input {
    fn of_lines(lines: lines::Lines) -> Self {
        Self {
            values: Values::F64(lines.values),
            nodes: lines.nodes,
            axes: 1,
            segments: Some(lines.segments),
            segment_seconds: lines.segment_seconds,
            sample_seconds: lines.sample_seconds,
            names: lines.names,
            positions: None,
            framed: false,
        }
    }

    pub(super) fn read(path: &Path, from: &InputArgs) -> Result<Self> {
        let ending = |endings: &[&str]| {
            let of = path.extension();
            of.is_some_and(|of| endings.iter().any(|e| of.eq_ignore_ascii_case(e)))
        };
        let framed = from.frames.is_some() || frames::holds(path);
        let view = View::of(from);
        let input = if framed || ending(&["npy", "txt", "csv", "tsv", "dat"]) {
            spikes_only(from)?;
            let input = match from.frames {
                Some(size) => frames::raw(path, size, view).map(|pixels| of_pixels(pixels, from)),
                None if framed => frames::read(path, view).map(|pixels| of_pixels(pixels, from)),
                None if ending(&["npy"]) => of_samples(read_npy(path)?, from),
                None => lines::read(path, from.sample_seconds).map(Self::of_lines),
            };
            input.map_err(|e| placed(path, e))?
        } else if betz_formats::is_hdf5(path) {
            of_recording(data::read_recording(path, &Behaviors::default())?, from)
                .map_err(|e| placed(path, e))?
        } else {
            let mut arrays = Arrays::open(path)?;
            if let Some(name) = signal_name(&arrays, from) {
                spikes_only(from)?;
                of_arrays(&mut arrays, name, from).map_err(|e| placed(path, e))?
            } else if arrays.has("counts") || arrays.has("spike_ticks") {
                drop(arrays);
                refuse_stream(path)?;
                of_recording(data::read_recording(path, &Behaviors::default())?, from)
                    .map_err(|e| placed(path, e))?
            } else {
                return Err(Error::recording(format!(
                    "{}: expected an array `{}` (--signal names another) or `positions`, or a recording's `counts` or `spike_ticks`; got {}",
                    path.display(),
                    from.signal,
                    arrays.names().join(", ")
                )));
            }
        };
        if !input.framed {
            frames_only(from)?;
        }
        // Shapes, segments and times are looked at before anything else is done.
        (input.signal()).map_err(|e| placed(path, e.of_kind(ErrorKind::InvalidRecording)))?;
        let names = input.names.as_deref();
        let kept = match (&from.nodes, &from.region) {
            (Some(list), _) => nodes::chosen(list, input.nodes, names)?,
            (None, Some(Region::File(file))) => nodes::region(file, input.nodes, names)?,
            (None, _) => return Ok(input),
        };
        Ok(input.some_nodes(&kept))
    }

    /// The nodes in `kept` alone. Nodes without names are called by their numbers in the input.
    fn some_nodes(mut self, kept: &[usize]) -> Self {
        let columns: Vec<usize> = (kept.iter())
            .flat_map(|n| n * self.axes..(n + 1) * self.axes)
            .collect();
        self.values = nodes::columns(self.values, self.nodes * self.axes, &columns);
        self.names = Some(match self.names {
            Some(names) => kept.iter().map(|n| names[*n].clone()).collect(),
            None => kept.iter().map(usize::to_string).collect(),
        });
        self.positions = self.positions.map(|places| Positions {
            values: (kept.iter())
                .flat_map(|n| &places.values[n * places.axes..(n + 1) * places.axes])
                .copied()
                .collect(),
            axes: places.axes,
        });
        self.nodes = kept.len();
        self
    }

    pub(super) fn signal(&self) -> Result<Signal<'_>> {
        let data: SignalData<'_> = match &self.values {
            Values::U8(v) => v.into(),
            Values::U16(v) => v.into(),
            Values::I16(v) => v.into(),
            Values::F32(v) => v.into(),
            Values::F64(v) => v.into(),
        };
        let mut signal = match self.axes {
            1 => Signal::new(data, self.nodes)?,
            axes => Signal::places(data, self.nodes, axes)?,
        };
        if let Some(segments) = &self.segments {
            signal = signal.with_segments(segments.clone())?;
        }
        match self.sample_seconds {
            Some(seconds) => signal.with_sample_seconds(seconds),
            None => Ok(signal),
        }
    }

    /// Beginnings of the windows that start at these samples; `None` if each is its sample's number times the time of
    /// a sample.
    pub(super) fn window_seconds(&self, starts: &[u64]) -> Option<Vec<f64>> {
        let (segments, begins) = (self.segments.as_ref()?, self.segment_seconds.as_ref()?);
        let seconds = self.sample_seconds?;
        let of = |start: &u64| {
            let at = segments.partition_point(|s| s.end as u64 <= *start);
            Some(begins.get(at)? + (*start - segments.get(at)?.start as u64) as f64 * seconds)
        };
        starts.iter().map(of).collect()
    }
}

fn placed(path: &Path, error: Error) -> Error {
    if error.message().contains(&*path.to_string_lossy()) {
        error
    } else {
        error.at(path.display())
    }
}

fn spikes_only(from: &InputArgs) -> Result<()> {
    match from.bin {
        Some(_) => Err(Error::argument(
            "--bin: expected a recording of spikes, got a signal",
        )),
        None => Ok(()),
    }
}

/// Refuses what is asked of frames alone.
fn frames_only(from: &InputArgs) -> Result<()> {
    let rectangle = matches!(from.region, Some(Region::Rectangle(_)));
    for (option, given) in [
        ("--region", rectangle),
        ("--channel", from.channel.is_some()),
        ("--downsample", from.downsample.is_some()),
    ] {
        if given {
            return Err(Error::argument(format!(
                "{option}: expected frames, got an input whose nodes are no pixels"
            )));
        }
    }
    Ok(())
}

/// A signal of (samples, nodes), or frames of (height, width) whose pixels are nodes.
fn of_samples(samples: Samples, from: &InputArgs) -> Result<Input> {
    match samples.shape[..] {
        [_, nodes] => Ok(Input {
            values: samples.values,
            nodes,
            axes: 1,
            segments: None,
            segment_seconds: None,
            sample_seconds: from.sample_seconds,
            names: None,
            positions: None,
            framed: false,
        }),
        [_, _, _] | [_, _, _, 3] => Ok(of_pixels(frames::array(samples, View::of(from))?, from)),
        _ => Err(Error::recording(format!(
            "signal: expected (samples, nodes), (frames, height, width) or (frames, height, width, 3), got {:?}",
            samples.shape
        ))),
    }
}

fn of_pixels(pixels: Pixels, from: &InputArgs) -> Input {
    Input {
        nodes: pixels.samples.shape[1],
        values: pixels.samples.values,
        axes: 1,
        segments: None,
        segment_seconds: None,
        sample_seconds: from.sample_seconds.or(pixels.sample_seconds),
        names: None,
        positions: Some(pixels.positions),
        framed: true,
    }
}

/// The array of places that change, (samples, nodes, 2 or 3).
const PLACES: &str = "positions";

/// The array that holds the signal: the one that is named, else places. A recording may have places of its own.
fn signal_name<'a>(arrays: &Arrays, from: &'a InputArgs) -> Option<&'a str> {
    let recording = arrays.has("counts") || arrays.has("spike_ticks");
    if arrays.has(&from.signal) {
        return Some(&from.signal);
    }
    (!recording && arrays.has(PLACES)).then_some(PLACES)
}

/// Places that change.
fn of_places(samples: Samples, from: &InputArgs) -> Result<Input> {
    let [_, nodes, axes @ (2 | 3)] = samples.shape[..] else {
        return Err(Error::recording(format!(
            "expected (samples, nodes, 2 or 3), got {:?}",
            samples.shape
        )));
    };
    Ok(Input {
        values: samples.values,
        nodes,
        axes,
        segments: None,
        segment_seconds: None,
        sample_seconds: from.sample_seconds,
        names: None,
        positions: None,
        framed: false,
    })
}

fn of_arrays(arrays: &mut Arrays, name: &str, from: &InputArgs) -> Result<Input> {
    let samples = arrays.samples(name)?;
    let samples =
        samples.ok_or_else(|| Error::recording(format!("expected an array `{name}`, got none")))?;
    let input = match name {
        PLACES => of_places(samples, from),
        _ => of_samples(samples, from),
    };
    let mut input = input.map_err(|e| e.at(format_args!("array `{name}`")))?;
    if input.sample_seconds.is_none() {
        input.sample_seconds = arrays.number("sample_seconds")?;
    }
    if input.sample_seconds.is_none() {
        input.sample_seconds = arrays.number("step_seconds")?;
    }
    if let Some(found) = arrays.numbers::<i64>("segments", 2)? {
        if found.shape[1] != 2 {
            return Err(Error::recording(format!(
                "array `segments`: expected (n, 2), got {:?}",
                found.shape
            )));
        }
        let ranges = found.values.chunks_exact(2).enumerate().map(|(n, pair)| {
            let ends = (usize::try_from(pair[0]), usize::try_from(pair[1]));
            match ends {
                (Ok(start), Ok(stop)) => Ok(start..stop),
                _ => Err(Error::recording(format!(
                    "array `segments`: [{n}]: expected samples, got {} to {}",
                    pair[0], pair[1]
                ))),
            }
        });
        input.segments = Some(ranges.collect::<Result<_>>()?);
    }
    for array in NAMES.iter().filter(|array| **array != name) {
        if input.names.is_some() || !arrays.has(array) {
            continue;
        }
        match arrays.strings(array, 1)? {
            Some(names) if names.len() == input.nodes => input.names = Some(names),
            Some(names) => eprintln!(
                "`{array}` is not used: expected a name for each of {} nodes, got {}",
                input.nodes,
                names.len()
            ),
            None => {}
        }
    }
    for array in POSITIONS.iter().filter(|array| **array != name) {
        if input.positions.is_some() || !arrays.has(array) {
            continue;
        }
        match arrays.numbers::<f64>(array, 2)? {
            Some(found) if found.shape[0] == input.nodes && matches!(found.shape[1], 2 | 3) => {
                input.positions = Some(Positions {
                    axes: found.shape[1],
                    values: found.values,
                });
            }
            Some(found) => eprintln!(
                "`{array}` is not used: expected ({}, 2 or 3), got {:?}",
                input.nodes, found.shape
            ),
            None => {}
        }
    }
    Ok(input)
}

/// Spikes counted in bins that begin anew with every segment.
fn of_recording(recording: Recording, from: &InputArgs) -> Result<Input> {
    if from.sample_seconds.is_some() {
        return Err(Error::argument(
            "--sample-seconds: expected --bin for a recording, whose file says how long a tick is",
        ));
    }
    let tick = recording.tick_seconds;
    let bin = match (from.bin, recording.form) {
        (None, SpikeForm::Counts) => 1,
        (None, SpikeForm::Events) => {
            return Err(Error::argument(
                "--bin: expected one, such as 50ms, for a recording of spike times, got none",
            ));
        }
        (_, SpikeForm::Signal) => {
            return Err(Error::argument(
                "--signal: expected the array that holds the signal, got another recording's",
            ));
        }
        (Some(seconds), _) => ticks(seconds, tick)?,
    };
    let seconds = bin as f64 * tick;
    let trains = trains(&recording)?;
    let within: Vec<Range<u64>> = segments(&recording);
    let nodes = recording.channels();
    let binned = trains.counts_within(&within, bin)?;
    if from.bin.is_some() {
        eprintln!(
            "{} of {seconds} s in {}",
            report::count(binned.segments.last().map_or(0, |s| s.end) as u128, "bin"),
            report::count(within.len() as u128, "segment")
        );
    }
    Ok(Input {
        values: Values::U16(binned.counts),
        nodes,
        axes: 1,
        segments: Some(binned.segments),
        segment_seconds: Some(within.iter().map(|s| s.start as f64 * tick).collect()),
        sample_seconds: Some(seconds),
        names: Some(recording.channel_names),
        positions: positions(recording.electrode_um),
        framed: false,
    })
}

/// Positions of electrodes, if known.
pub(super) fn positions(electrodes: Option<Vec<[f32; 2]>>) -> Option<Positions> {
    electrodes.map(|places| Positions {
        values: places.into_iter().flatten().map(f64::from).collect(),
        axes: 2,
    })
}

/// A recording's segments in ticks.
pub(super) fn segments(recording: &Recording) -> Vec<Range<u64>> {
    (recording.segments.iter())
        .map(|s| s.start as u64..s.stop as u64)
        .collect()
}

/// A recording's spikes, a train for each channel.
pub(super) fn trains(recording: &Recording) -> Result<SpikeTrains> {
    let spikes = &recording.spikes;
    // A bin of several spikes is one entry of the recording, and as many spikes here.
    memory::plan("spikes", spikes.total().max(0.0) as u128 * 20)?;
    let (mut times, mut of) = (Vec::new(), Vec::new());
    for (at, (time, channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
        let count = spikes.weight(at).max(0.0) as usize;
        times.extend(std::iter::repeat_n(*time as u64, count));
        of.extend(std::iter::repeat_n(*channel, count));
    }
    SpikeTrains::new(&times, &of, recording.channels(), recording.ticks as u64)
}

/// The whole number of ticks that is nearest to `seconds`.
fn ticks(seconds: f64, tick: f64) -> Result<u64> {
    let ticks = (seconds / tick).round();
    if !(1.0..1e15).contains(&ticks) {
        return Err(Error::argument(format!(
            "--bin: expected at least a tick of {tick} s, got {seconds} s"
        )));
    }
    Ok(ticks as u64)
}
