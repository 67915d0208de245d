//! `betz info RECORDING --picture`: raster, rates, gaps and tuning.

use std::path::Path;

use betz::Result;
use betz::explore::{TuningOptions, Variable, tuning};
use betz::recording::{Dataset, Recording};
use plotters::prelude::*;

use crate::chart::{self, Axes, BLUE, FAINT, INK, PlotResult};
use crate::report::count;

/// Seconds, rows and marks of the raster: what the eye takes in.
const RASTER_SECONDS: f64 = 10.0;
const ROWS: usize = 100;
const MARKS: usize = 20_000;
/// Bins of the rate over time, and of a tuning curve.
const BINS: usize = 200;
const TUNING_BINS: usize = 12;
/// Channels whose tuning is drawn.
const TUNED: usize = 4;

/// Draws `recording`; tuning is to the first output, in steps of `data`, where there is behaviour.
pub(crate) fn draw(
    name: &Path,
    recording: &Recording,
    data: Option<&Dataset>,
    path: &Path,
) -> Result<()> {
    let title = format!(
        "{}: {}, {:.1} s",
        name.display(),
        count(recording.channels() as u128, "channel"),
        recording.seconds()
    );
    chart::picture(path, (1160, 900), |root| {
        let (head, body) = root.split_vertically(40);
        chart::text(&head, &title, (24, 20), 18.0)?;
        let (raster_area, rest) = body.split_vertically(420);
        let (over_time, bottom) = rest.split_vertically(190);
        let (rates, tuning) = bottom.split_horizontally(580);
        raster(recording, &raster_area)?;
        rate_over_time(recording, &over_time)?;
        rate_of_channels(recording, &rates)?;
        match data.filter(|d| !d.outputs.is_empty()) {
            Some(data) => tuning_curves(data, &tuning),
            None => chart::text(&tuning, "no behaviour: no tuning", (80, 80), 14.0),
        }
    })
}

fn raster(recording: &Recording, area: &chart::Area<'_>) -> PlotResult {
    let from = recording.segments.first().map_or(0, |s| s.start);
    let tick = recording.tick_seconds;
    let begin = from as f64 * tick;
    let until = (begin + RASTER_SECONDS)
        .min(recording.seconds())
        .max(begin + tick);
    let rows = recording.channels().min(ROWS);
    let inside = recording.spikes.range(from, (until / tick).ceil() as i64);
    let every = inside.len().div_ceil(MARKS).max(1);
    let mut name = chart::rows_name("channel", rows, recording.channels());
    if every > 1 {
        name.push_str(&format!(", 1 in {every} spikes"));
    }
    let mut chart = chart::axes(
        area,
        &Axes {
            x: begin..until,
            y: rows as f64 - 0.5..-0.5,
            x_name: "",
            y_name: &name,
        },
    )?;
    let spikes = inside.step_by(every).filter_map(|i| {
        let row = f64::from(recording.spikes.channels[i]);
        let at = recording.spikes.ticks[i] as f64 * tick;
        (row < rows as f64).then_some((at, row))
    });
    chart.draw_series(spikes.map(|(at, row)| {
        PathElement::new(vec![(at, row - 0.4), (at, row + 0.4)], INK.stroke_width(1))
    }))?;
    Ok(())
}

/// Mean rate of a channel over time; what is in no trial is shaded.
fn rate_over_time(recording: &Recording, area: &chart::Area<'_>) -> PlotResult {
    let seconds = recording.seconds();
    let width = seconds / BINS as f64;
    let mut counts = [0.0; BINS];
    for (i, &tick) in recording.spikes.ticks.iter().enumerate() {
        let bin = (tick as f64 * recording.tick_seconds / width) as usize;
        counts[bin.min(BINS - 1)] += f64::from(recording.spikes.weight(i));
    }
    let rate = |count: f64| count / width / recording.channels() as f64;
    let top = counts.iter().copied().map(rate).fold(0.0, f64::max) * 1.05 + 1e-9;
    let mut chart = chart::axes(
        area,
        &Axes {
            x: 0.0..seconds,
            y: 0.0..top,
            x_name: "time (s); grey: in no trial",
            y_name: "rate (Hz)",
        },
    )?;
    let mut covered = 0;
    let mut gaps = Vec::new();
    for s in &recording.segments {
        gaps.push((covered, s.start));
        covered = s.stop;
    }
    gaps.push((covered, recording.ticks));
    let tick = recording.tick_seconds;
    let wide = gaps
        .into_iter()
        .filter(|(from, to)| (to - from) as f64 * tick > seconds * 2e-4);
    chart.draw_series(wide.map(|(from, to)| {
        let corners = [(from as f64 * tick, 0.0), (to as f64 * tick, top)];
        Rectangle::new(corners, FAINT.filled())
    }))?;
    let line = counts
        .iter()
        .enumerate()
        .map(|(i, &count)| ((i as f64 + 0.5) * width, rate(count)));
    chart.draw_series(LineSeries::new(line, BLUE.stroke_width(2)))?;
    Ok(())
}

/// Rates of all channels, the busiest first.
fn rate_of_channels(recording: &Recording, area: &chart::Area<'_>) -> PlotResult {
    let mut rates = vec![0.0; recording.channels()];
    for (i, &c) in recording.spikes.channels.iter().enumerate() {
        rates[c as usize] += f64::from(recording.spikes.weight(i)) / recording.seconds();
    }
    rates.sort_by(|a: &f64, b| b.total_cmp(a));
    let top = rates.first().copied().unwrap_or(0.0) * 1.05 + 1e-9;
    let mut chart = chart::axes(
        area,
        &Axes {
            x: 0.0..rates.len() as f64,
            y: 0.0..top,
            x_name: "channels, busiest first",
            y_name: "rate (Hz)",
        },
    )?;
    let every = rates.len().div_ceil(2000);
    let line = rates.iter().enumerate().step_by(every);
    let line = line.map(|(i, &rate)| (i as f64 + 0.5, rate));
    chart.draw_series(LineSeries::new(line, BLUE.stroke_width(2)))?;
    Ok(())
}

/// Tuning curves of the channels that follow the first output most.
fn tuning_curves(data: &Dataset, area: &chart::Area<'_>) -> PlotResult {
    let options = TuningOptions {
        bins: TUNING_BINS,
        ..TuningOptions::default()
    };
    let channels: Vec<usize> = (0..data.channels()).collect();
    let tuning = match tuning(data, &channels, Variable::Output(0), &options) {
        Ok(tuning) => tuning,
        Err(e) => return chart::text(area, e.message(), (80, 80), 14.0),
    };
    let known = |c: usize| {
        tuning
            .rate_of(c)
            .iter()
            .copied()
            .filter(|rate| !rate.is_nan())
    };
    let depth = |c: usize| {
        let lowest = known(c).fold(f64::INFINITY, f64::min);
        known(c).fold(0.0, f64::max) - lowest
    };
    let mut best = channels.clone();
    best.sort_by(|&a, &b| depth(b).total_cmp(&depth(a)));
    best.truncate(TUNED);
    let top = best.iter().flat_map(|&c| known(c)).fold(0.0, f64::max) * 1.15 + 1e-9;
    let axis = &tuning.axes[0];
    let name = format!("{} {}", axis.name, axis.unit);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: axis.edges[0]..axis.edges[TUNING_BINS],
            y: 0.0..top,
            x_name: name.trim_end(),
            y_name: "rate (Hz)",
        },
    )?;
    let centres = axis.centres();
    for (i, &c) in best.iter().enumerate() {
        let points = centres.iter().zip(tuning.rate_of(c));
        let line = points
            .filter(|(_, rate)| !rate.is_nan())
            .map(|(x, rate)| (*x, *rate));
        chart.draw_series(LineSeries::new(line, chart::color(i).stroke_width(2)))?;
        let label = &data.channel_names[c];
        chart::entry(area, chart::color(i), label, (90 + 120 * i as i32, 12))?;
    }
    Ok(())
}
