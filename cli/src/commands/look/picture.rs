//! `betz look --picture`: one row of panels per channel.

use std::path::Path;

use betz::Result;
use betz::explore::{Axis, Intervals, Psth, Raster, TuningCurves, UnitQuality};
use plotters::prelude::*;

use crate::chart::{self, Area, Axes, BLUE, INK, ORANGE, PlotResult};
use crate::report::count;

/// Most channels of a picture.
pub(super) const CHANNELS: usize = 12;
/// Most marks of a raster; of more spikes, one in so many is drawn.
const MARKS: usize = 5_000;
/// Width of the text beside the panels, and of a panel.
const TEXT_WIDTH: u32 = 190;
const PANEL_WIDTH: u32 = 480;
/// Height of a row of panels, and of a raster above its rates.
const ROW_HEIGHT: u32 = 190;
const RESPONSE_HEIGHT: u32 = 320;
const RASTER_HEIGHT: u32 = 160;

/// The numbers of the channels that are drawn, first in each list.
pub(super) struct Look<'a> {
    /// Line above the panels.
    pub(super) title: String,
    pub(super) names: Vec<&'a str>,
    pub(super) units: &'a [UnitQuality],
    pub(super) response: Option<&'a Psth>,
    pub(super) rasters: &'a [Raster],
    pub(super) tuning: Option<&'a TuningCurves>,
    pub(super) intervals: Option<&'a Intervals>,
}

/// `12 channels`, or `12 of 150 channels shown`.
pub(super) fn share(drawn: usize, of: usize) -> String {
    match drawn < of {
        true => format!("{drawn} of {} shown", count(of as u128, "channel")),
        false => count(of as u128, "channel"),
    }
}

/// Draws `look`.
pub(super) fn draw(look: &Look<'_>, path: &Path) -> Result<()> {
    let panels = [
        look.response.is_some(),
        look.tuning.is_some(),
        look.intervals.is_some(),
    ];
    let panels = panels.iter().filter(|panel| **panel).count() as u32;
    let row = match look.response {
        Some(_) => RESPONSE_HEIGHT,
        None => ROW_HEIGHT,
    };
    let size = (
        (TEXT_WIDTH + panels * PANEL_WIDTH).max(700),
        40 + row * look.names.len() as u32,
    );
    chart::picture(path, size, |root| {
        let (head, body) = root.split_vertically(40);
        chart::text(&head, &look.title, (24, 20), 18.0)?;
        let rows = body.split_evenly((look.names.len(), 1));
        for (p, area) in rows.iter().enumerate() {
            channel(look, p, area)?;
        }
        Ok(())
    })
}

/// The row of the channel at `p`.
fn channel(look: &Look<'_>, p: usize, area: &Area<'_>) -> PlotResult {
    let (text, mut rest) = area.split_horizontally(TEXT_WIDTH);
    facts(look.names[p], &look.units[p], &text)?;
    if let Some(response) = look.response {
        let (panel, right) = rest.split_horizontally(PANEL_WIDTH);
        let (above, below) = panel.split_vertically(RASTER_HEIGHT);
        if let Some(spikes) = look.rasters.get(p) {
            raster(response, spikes, &above)?;
        }
        rates(response, p, &below)?;
        rest = right;
    }
    if let Some(tuning) = look.tuning {
        let (panel, right) = rest.split_horizontally(PANEL_WIDTH);
        match tuning.axes.as_slice() {
            [x, y] => map(tuning, p, x, y, &panel)?,
            _ => curve(tuning, p, &panel)?,
        }
        rest = right;
    }
    if let Some(intervals) = look.intervals {
        histogram(intervals, p, &rest)?;
    }
    Ok(())
}

fn facts(name: &str, unit: &UnitQuality, area: &Area<'_>) -> PlotResult {
    chart::text(area, name, (24, 22), 17.0)?;
    let mut lines = vec![
        format!("{:.2} Hz", unit.rate_hz),
        format!("present in {:.0} %", 100.0 * unit.presence),
    ];
    if !unit.violation_share.is_nan() {
        lines.push(format!("{:.2} % violations", 100.0 * unit.violation_share));
    }
    if !unit.fano.is_nan() {
        lines.push(format!("Fano factor {:.2}", unit.fano));
    }
    for (i, line) in lines.iter().enumerate() {
        chart::text(area, line, (24, 46 + 20 * i as i32), 13.0)?;
    }
    Ok(())
}

fn window(response: &Psth) -> std::ops::Range<f64> {
    response.window.start_seconds..response.window.stop_seconds
}

fn raster(response: &Psth, spikes: &Raster, area: &Area<'_>) -> PlotResult {
    let every = spikes.rows.len().div_ceil(MARKS).max(1);
    let name = match every {
        1 => "event".to_owned(),
        _ => format!("event (1 in {every} spikes)"),
    };
    let mut chart = chart::axes(
        area,
        &Axes {
            x: window(response),
            y: spikes.events as f64 - 0.5..-0.5,
            x_name: "",
            y_name: &name,
        },
    )?;
    let marks = spikes.seconds.iter().zip(&spikes.rows).step_by(every);
    chart.draw_series(marks.map(|(&at, &row)| {
        let row = f64::from(row);
        PathElement::new(vec![(at, row - 0.4), (at, row + 0.4)], INK.stroke_width(1))
    }))?;
    Ok(())
}

fn rates(response: &Psth, p: usize, area: &Area<'_>) -> PlotResult {
    let mean = response.mean_of(p);
    let error = &response.error_hz[p * response.bins..(p + 1) * response.bins];
    let upper = |k: usize| mean[k] + if error[k].is_nan() { 0.0 } else { error[k] };
    let top = (0..response.bins).map(upper).fold(0.0, f64::max) * 1.05 + 1e-9;
    let name = format!("time after `{}` (s)", response.name);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: window(response),
            y: 0.0..top,
            x_name: &name,
            y_name: "rate (Hz)",
        },
    )?;
    let times = response.times();
    let centre = |k: usize| times[k] + 0.5 * response.window.bin_seconds;
    let known = (0..response.bins).filter(|&k| error[k] > 0.0);
    chart.draw_series(known.map(|k| {
        let ends = [mean[k] - error[k], mean[k] + error[k]];
        PathElement::new(
            ends.map(|end| (centre(k), end)).to_vec(),
            BLUE.mix(0.35).stroke_width(2),
        )
    }))?;
    let line = (0..response.bins).map(|k| (centre(k), mean[k]));
    chart.draw_series(LineSeries::new(line, BLUE.stroke_width(2)))?;
    if window(response).contains(&0.0) {
        let zero = [(0.0, 0.0), (0.0, top)];
        chart.draw_series(LineSeries::new(zero, ORANGE.stroke_width(1)))?;
    }
    Ok(())
}

/// Name and unit of an axis; angles are drawn in degrees.
fn name_of(axis: &Axis) -> String {
    match axis.unit.as_str() {
        "" => axis.name.clone(),
        "rad" => format!("{} (°)", axis.name),
        unit => format!("{} ({unit})", axis.name),
    }
}

fn curve(tuning: &TuningCurves, p: usize, area: &Area<'_>) -> PlotResult {
    let axis = &tuning.axes[0];
    let scale = match axis.unit.as_str() {
        "rad" => 180.0 / std::f64::consts::PI,
        _ => 1.0,
    };
    let rates = tuning.rate_of(p);
    let known = || rates.iter().copied().filter(|rate| !rate.is_nan());
    let edges = &axis.edges;
    let name = name_of(axis);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: edges[0] * scale..edges[edges.len() - 1] * scale,
            y: 0.0..known().fold(0.0, f64::max) * 1.05 + 1e-9,
            x_name: &name,
            y_name: "rate (Hz)",
        },
    )?;
    let centres = axis.centres();
    let points = || {
        let all = centres.iter().zip(rates).filter(|(_, rate)| !rate.is_nan());
        all.map(|(centre, rate)| (centre * scale, *rate))
    };
    chart.draw_series(LineSeries::new(points(), BLUE.stroke_width(2)))?;
    chart.draw_series(points().map(|point| Circle::new(point, 3, BLUE.filled())))?;
    if let Some(fit) = tuning.curves[p].cosine {
        let at = |i: i32| f64::from(i).to_radians();
        let line = (-180..=180).step_by(5).map(|i| {
            let rate = fit.offset_hz + fit.depth_hz * (at(i) - fit.preferred).cos();
            (f64::from(i), rate.max(0.0))
        });
        chart.draw_series(LineSeries::new(line, ORANGE.stroke_width(1)))?;
    }
    Ok(())
}

/// Rates over two outputs: darker is higher; bins without a rate stay white.
fn map(tuning: &TuningCurves, p: usize, x: &Axis, y: &Axis, area: &Area<'_>) -> PlotResult {
    let rates = tuning.rate_of(p);
    let most = rates
        .iter()
        .copied()
        .filter(|rate| !rate.is_nan())
        .fold(0.0, f64::max);
    let columns = x.edges.len() - 1;
    let (x_name, y_name) = (format!("{}; dark: {most:.1} Hz", name_of(x)), name_of(y));
    let mut chart = chart::axes(
        area,
        &Axes {
            x: x.edges[0]..x.edges[columns],
            y: y.edges[0]..y.edges[y.edges.len() - 1],
            x_name: &x_name,
            y_name: &y_name,
        },
    )?;
    let known = rates.iter().enumerate().filter(|(_, rate)| !rate.is_nan());
    chart.draw_series(known.map(|(bin, rate)| {
        let (row, column) = (bin / columns, bin % columns);
        let strength = 0.06 + 0.94 * rate / most.max(1e-12);
        Rectangle::new(
            [
                (x.edges[column], y.edges[row]),
                (x.edges[column + 1], y.edges[row + 1]),
            ],
            BLUE.mix(strength).filled(),
        )
    }))?;
    Ok(())
}

fn histogram(intervals: &Intervals, p: usize, area: &Area<'_>) -> PlotResult {
    let counts = &intervals.counts[p * intervals.bins..(p + 1) * intervals.bins];
    let most = counts.iter().copied().max().unwrap_or(0);
    let width = 1e3 * intervals.bin_seconds;
    let name = match intervals.longer[p] {
        0 => "interval (ms)".to_owned(),
        longer => format!("interval (ms); {longer} longer"),
    };
    let mut chart = chart::axes(
        area,
        &Axes {
            x: 0.0..width * intervals.bins as f64,
            y: 0.0..most as f64 * 1.05 + 1e-9,
            x_name: &name,
            y_name: "intervals",
        },
    )?;
    let bars = counts.iter().enumerate().filter(|(_, n)| **n > 0);
    chart.draw_series(bars.map(|(k, &n)| {
        let left = k as f64 * width;
        Rectangle::new([(left, 0.0), (left + width, n as f64)], BLUE.filled())
    }))?;
    Ok(())
}
