//! `betz look`: numbers and pictures of a recording before anything is trained on it.

pub(crate) mod args;
mod picture;
mod print;
mod request;

use betz::explore::{
    IntervalOptions, Intervals, Psth, QualityOptions, Raster, TuningCurves, TuningOptions,
    UnitQuality, Window, intervals, psth, quality, raster, tuning,
};
use betz::recording::{Recording, SpikeForm};
use betz::{Error, Result};
use serde::Serialize;
use std::borrow::Cow;

use crate::data;
use crate::files::{Files, Kind};
use crate::parse;
use crate::report::{self};
use args::Look;

#[derive(Serialize)]
struct LookReport {
    recording: String,
    seconds: f64,
    /// Seconds inside the segments: the time of units, intervals and tuning.
    seconds_in_segments: f64,
    segments: usize,
    /// Names of the channels that were looked at.
    channel_names: Vec<String>,
    units: Vec<UnitQuality>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intervals: Option<Intervals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Psth>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rasters: Vec<Raster>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tuning: Option<TuningCurves>,
    /// Channels in the picture; of more the first are drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    channels_drawn: Option<usize>,
    total_seconds: f64,
}

pub(crate) fn run(args: &Look) -> Result<()> {
    Files::new(&args.common)
        .reads("RECORDING", &args.recording)
        .may_write("--picture", args.picture.as_deref(), Kind::Picture)?;
    let mut recording = data::read_recording(&args.recording, &args.behavior)?;
    let at = |e: Error| match e.kind() {
        betz::ErrorKind::InvalidArgument => e,
        _ => e.at(args.recording.display()),
    };
    if let Some(list) = &args.segments {
        let wanted = parse::ranges("--segments", list, recording.segments.len())?;
        recording.segments = wanted.iter().map(|&i| recording.segments[i]).collect();
    }
    let channels = match &args.channels {
        Some(list) => parse::channels("--channels", list, &recording.channel_names)?,
        None => (0..recording.channels()).collect(),
    };
    let drawn = &channels[..channels.len().min(picture::CHANNELS)];
    let options = QualityOptions {
        refractory_seconds: args.refractory,
        ..QualityOptions::default()
    };
    let units = quality(&recording, &channels, &options).map_err(at)?;
    let (response, rasters) = responses(args, &recording, &channels).map_err(at)?;
    let tuning = tuned(args, &recording, &channels).map_err(at)?;
    let asked = args.intervals.map(|_| channels.as_slice());
    let intervals = histograms(args, &recording, asked).map_err(at)?;
    if let Some(path) = &args.picture {
        let drawn_intervals = match has_intervals(&recording) {
            true => histograms(args, &recording, Some(drawn)).map_err(at)?,
            false => None,
        };
        let title = format!(
            "{}: {}",
            args.recording.display(),
            picture::share(drawn.len(), channels.len())
        );
        let look = picture::Look {
            title,
            names: drawn
                .iter()
                .map(|&c| recording.channel_names[c].as_str())
                .collect(),
            units: &units[..drawn.len()],
            response: response.as_ref(),
            rasters: &rasters,
            tuning: tuning.as_ref(),
            intervals: drawn_intervals.as_ref(),
        };
        picture::draw(&look, path)?;
    }
    let ticks: usize = recording.segments.iter().map(|s| s.len()).sum();
    let look = LookReport {
        recording: args.recording.display().to_string(),
        seconds: recording.seconds(),
        seconds_in_segments: ticks as f64 * recording.tick_seconds,
        segments: recording.segments.len(),
        channel_names: channels
            .iter()
            .map(|&c| recording.channel_names[c].clone())
            .collect(),
        units,
        intervals,
        response,
        rasters: if args.raster { rasters } else { Vec::new() },
        tuning,
        channels_drawn: args.picture.as_ref().map(|_| drawn.len()),
        total_seconds: report::total_seconds(),
    };
    report::tell(&look, args.common.json)
}

/// Rates around the events of `--align`, and the rasters that are asked for or drawn.
fn responses(
    args: &Look,
    recording: &Recording,
    channels: &[usize],
) -> Result<(Option<Psth>, Vec<Raster>)> {
    let Some(text) = &args.align else {
        return Ok((None, Vec::new()));
    };
    let events = request::events(text, recording)?;
    let window = Window {
        start_seconds: args.window.0,
        stop_seconds: args.window.1,
        bin_seconds: args.bin,
    };
    let response = psth(recording, channels, &events, &window)?;
    let wanted = match (args.raster, &args.picture) {
        (true, _) => channels,
        (false, Some(_)) => &channels[..channels.len().min(picture::CHANNELS)],
        (false, None) => &[],
    };
    let rasters: Result<Vec<Raster>> = (wanted.iter())
        .map(|&channel| raster(recording, channel, &events, &window))
        .collect();
    Ok((Some(response), rasters?))
}

/// The tuning curves of `--tune`.
fn tuned(args: &Look, recording: &Recording, channels: &[usize]) -> Result<Option<TuningCurves>> {
    let Some(text) = &args.tune else {
        return Ok(None);
    };
    let behavior = recording.behavior.as_ref().ok_or_else(|| {
        Error::recording("--tune: expected a recording with behaviour, got one without")
    })?;
    let variable = request::variable(text, &behavior.outputs)?;
    let step = data::default_step(recording);
    let (dataset, _) = data::aligned(
        Cow::Borrowed(recording),
        step,
        &crate::common_args::Part::default(),
    )?;
    let options = TuningOptions {
        bins: args.tune_bins,
        range: None,
        lag_steps: (args.lag.unwrap_or(0.0) / dataset.step_seconds).round() as i64,
        min_speed: args.min_speed.unwrap_or(0.0),
        min_occupancy_seconds: args.min_time.unwrap_or(0.0),
    };
    tuning(&dataset, channels, variable, &options).map(Some)
}

/// True if the recording has times of single spikes.
fn has_intervals(recording: &Recording) -> bool {
    recording.form == SpikeForm::Events || recording.tick_seconds <= 0.001
}

/// Histograms of intervals of the `asked` channels.
fn histograms(
    args: &Look,
    recording: &Recording,
    asked: Option<&[usize]>,
) -> Result<Option<Intervals>> {
    let Some(channels) = asked else {
        return Ok(None);
    };
    // Bins of 1 ms, or the tick if it is longer, and a whole number of them.
    let tick = recording.tick_seconds;
    let bin_seconds = match recording.form {
        SpikeForm::Counts => (0.001 / tick).round().max(1.0) * tick,
        _ => tick.max(0.001),
    };
    let bins = (args.intervals.unwrap_or(0.1) / bin_seconds)
        .ceil()
        .max(1.0);
    let options = IntervalOptions {
        bin_seconds,
        longest_seconds: bins * bin_seconds,
    };
    intervals(recording, channels, &options).map(Some)
}
