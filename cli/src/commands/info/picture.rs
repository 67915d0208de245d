//! `betz info RECORDING --picture`: raster, rates, gaps and tuning.

use std::path::Path;

use betz::Result;
use betz::recording::{Dataset, Recording};
use plotters::prelude::*;

use crate::chart::{self, Axes, BLUE, Drawn, FAINT, GREEN, INK, ORANGE, PURPLE};
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
const COLORS: [RGBColor; TUNED] = [BLUE, ORANGE, GREEN, PURPLE];

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

fn raster(recording: &Recording, area: &chart::Area<'_>) -> Drawn {
    let from = recording.segments.first().map_or(0, |s| s.start);
    let tick = recording.tick_seconds;
    let begin = from as f64 * tick;
    let until = (begin + RASTER_SECONDS)
        .min(recording.seconds())
        .max(begin + tick);
    let rows = recording.channels().min(ROWS);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: begin..until,
            y: rows as f64 - 0.5..-0.5,
            x_name: "",
            y_name: "channel",
        },
    )?;
    let inside = recording.spikes.range(from, (until / tick).ceil() as i64);
    let every = inside.len().div_ceil(MARKS).max(1);
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
fn rate_over_time(recording: &Recording, area: &chart::Area<'_>) -> Drawn {
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
fn rate_of_channels(recording: &Recording, area: &chart::Area<'_>) -> Drawn {
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

/// Mean rate of the channels that follow the first output most, in bins of as many steps.
fn tuning_curves(data: &Dataset, area: &chart::Area<'_>) -> Drawn {
    let outputs = data.outputs.len();
    let mut steps: Vec<(f32, usize)> = (data.segments.iter())
        .flat_map(|s| s.start as usize..s.stop as usize)
        .map(|t| (data.behavior[t * outputs], t))
        .collect();
    steps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let bins = TUNING_BINS.min(steps.len());
    let mut bin_of = vec![usize::MAX; data.steps];
    let mut centres = vec![(0.0, 0.0); bins];
    for (i, &(value, t)) in steps.iter().enumerate() {
        let bin = i * bins / steps.len();
        bin_of[t] = bin;
        centres[bin].0 += f64::from(value);
        centres[bin].1 += 1.0;
    }
    let mut counts = vec![0.0; data.channels() * bins];
    let spikes = data.spikes.ticks.iter().zip(&data.spikes.channels);
    for (i, (&t, &c)) in spikes.enumerate() {
        let bin = bin_of[t as usize];
        if bin < bins {
            counts[c as usize * bins + bin] += f64::from(data.spikes.weight(i));
        }
    }
    let rate = |c: usize, bin: usize| counts[c * bins + bin] / centres[bin].1 / data.step_seconds;
    let depth = |c: usize| {
        let rates = (0..bins).map(|bin| rate(c, bin));
        let (low, high) = rates.fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), r| {
            (l.min(r), h.max(r))
        });
        high - low
    };
    let mut best: Vec<(f64, usize)> = (0..data.channels()).map(|c| (depth(c), c)).collect();
    best.sort_by(|a, b| b.0.total_cmp(&a.0));
    best.truncate(TUNED);
    let top = best
        .iter()
        .flat_map(|&(_, c)| (0..bins).map(move |bin| (c, bin)));
    let top = top.map(|(c, bin)| rate(c, bin)).fold(0.0, f64::max) * 1.15 + 1e-9;
    let centre = |bin: usize| centres[bin].0 / centres[bin].1;
    let output = &data.outputs[0];
    let name = format!("{} {}", output.name, output.unit);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: chart::range((0..bins).map(centre)),
            y: 0.0..top,
            x_name: name.trim_end(),
            y_name: "rate (Hz)",
        },
    )?;
    for (i, (&(_, c), color)) in best.iter().zip(COLORS).enumerate() {
        let line = (0..bins).map(|bin| (centre(bin), rate(c, bin)));
        chart.draw_series(LineSeries::new(line, color.stroke_width(2)))?;
        let label = &data.channel_names[c];
        chart::entry(area, color, label, (90 + 120 * i as i32, 12))?;
    }
    Ok(())
}
