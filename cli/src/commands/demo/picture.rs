//! The demo's picture: true and decoded movement over time, as in fig. 5.6 of Galbraith 2010.

use std::path::Path;

use betz::Result;
use betz::recording::Recording;
use plotters::prelude::*;

use crate::chart::{self, Area, Axes, INK, PlotResult};

/// Most channels of the raster.
const ROWS: usize = 60;

const SINGLE: RGBColor = chart::ORANGE;
const MULTI: RGBColor = chart::BLUE;

/// Two-dimensional movement, row-major (steps, 2).
pub(crate) struct Movement<'a> {
    /// Length of one step.
    pub(crate) step_seconds: f64,
    /// True movement.
    pub(crate) truth: &'a [f32],
    /// Decoded from single units.
    pub(crate) single: &'a [f32],
    /// Decoded from multi-unit channels.
    pub(crate) multi: &'a [f32],
    /// Spikes of the single units.
    pub(crate) spikes: &'a Recording,
    /// Legend of the single-unit trace.
    pub(crate) single_label: String,
    /// Legend of the multi-unit trace.
    pub(crate) multi_label: String,
    /// Line above the panels.
    pub(crate) title: String,
}

struct Panel {
    name: &'static str,
    of: fn(f32, f32) -> f64,
    /// Fixed range and tick spacing (the angle), or none: from the data.
    range: Option<(f64, f64)>,
    wraps: bool,
}

const PANELS: [Panel; 4] = [
    Panel {
        name: "x",
        of: |x, _| f64::from(x),
        range: None,
        wraps: false,
    },
    Panel {
        name: "y",
        of: |_, y| f64::from(y),
        range: None,
        wraps: false,
    },
    Panel {
        name: "magnitude",
        of: |x, y| f64::from(x.hypot(y)),
        range: None,
        wraps: false,
    },
    Panel {
        name: "angle (°)",
        of: |x, y| f64::from(y.atan2(x)).to_degrees(),
        range: Some((-180.0, 180.0)),
        wraps: true,
    },
];

/// Draws `movement` as an SVG file: spikes, the four panels, and how far off the decoders are.
pub(crate) fn draw(movement: &Movement<'_>, path: &Path) -> Result<()> {
    chart::picture(path, (1160, 1440), |root| paint(movement, root))
}

fn paint(movement: &Movement<'_>, root: &Area<'_>) -> PlotResult {
    let (head, body) = root.split_vertically(64);
    header(movement, &head)?;
    let seconds = movement.truth.len() as f64 / 2.0 * movement.step_seconds;
    let areas = body.split_evenly((PANELS.len() + 2, 1));
    raster(movement.spikes, &areas[0], seconds)?;
    for (area, panel) in areas[1..].iter().zip(&PANELS) {
        draw_panel(movement, area, panel, seconds)?;
    }
    errors(movement, &areas[PANELS.len() + 1], seconds)
}

fn header(movement: &Movement<'_>, area: &Area<'_>) -> PlotResult {
    chart::text(area, &movement.title, (24, 20), 19.0)?;
    chart::entry(area, INK, "true", (24, 48))?;
    chart::entry(area, SINGLE, &movement.single_label, (130, 48))?;
    chart::entry(area, MULTI, &movement.multi_label, (500, 48))
}

/// The first channels' spikes.
fn raster(recording: &Recording, area: &Area<'_>, seconds: f64) -> PlotResult {
    let rows = recording.channels().min(ROWS);
    let name = chart::rows_name("unit", rows, recording.channels());
    let mut chart = chart::axes(
        area,
        &Axes {
            x: 0.0..seconds,
            y: rows as f64 - 0.5..-0.5,
            x_name: "",
            y_name: &name,
        },
    )?;
    let spikes = recording
        .spikes
        .ticks
        .iter()
        .zip(&recording.spikes.channels);
    let shown = spikes.filter(|(_, c)| (**c as usize) < rows);
    chart.draw_series(shown.map(|(&tick, &channel)| {
        let (at, row) = (tick as f64 * recording.tick_seconds, f64::from(channel));
        PathElement::new(
            vec![(at, row - 0.4), (at, row + 0.4)],
            INK.mix(0.6).stroke_width(1),
        )
    }))?;
    Ok(())
}

/// The distance between what was decoded and the truth.
fn errors(movement: &Movement<'_>, area: &Area<'_>, seconds: f64) -> PlotResult {
    let distance = |trace: &[f32]| -> Vec<f64> {
        let pairs = trace.chunks_exact(2).zip(movement.truth.chunks_exact(2));
        pairs
            .map(|(a, b)| f64::from((a[0] - b[0]).hypot(a[1] - b[1])))
            .collect()
    };
    let (single, multi) = (distance(movement.single), distance(movement.multi));
    let top = chart::range(single.iter().chain(&multi).copied()).end;
    let mut chart = chart::axes(
        area,
        &Axes {
            x: 0.0..seconds,
            y: 0.0..top,
            x_name: "time (s)",
            y_name: "error",
        },
    )?;
    for (errors, color) in [(&multi, MULTI), (&single, SINGLE)] {
        let every = errors.len().div_ceil(2200).max(1);
        let known = errors.iter().enumerate().step_by(every);
        let known = known.filter(|(_, e)| e.is_finite());
        let line = known.map(|(i, &e)| (i as f64 * movement.step_seconds, e));
        chart.draw_series(LineSeries::new(line, color.stroke_width(1)))?;
    }
    Ok(())
}

fn draw_panel(movement: &Movement<'_>, area: &Area<'_>, panel: &Panel, seconds: f64) -> PlotResult {
    let traces = [
        (movement.truth, INK, 2),
        (movement.multi, MULTI, 1),
        (movement.single, SINGLE, 1),
    ];
    let (low, high) = panel.range.unwrap_or_else(|| {
        let values = traces
            .iter()
            .flat_map(|(t, ..)| t.chunks_exact(2).map(|p| (panel.of)(p[0], p[1])));
        let (low, high) = values
            .filter(|v| v.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
                (l.min(v), h.max(v))
            });
        let margin = 0.05 * (high - low).max(1e-6);
        (low - margin, high + margin)
    });
    let mut chart = chart::axes(
        area,
        &Axes {
            x: 0.0..seconds,
            y: low..high,
            x_name: "",
            y_name: panel.name,
        },
    )?;
    for (trace, color, width) in traces {
        for piece in pieces(trace, panel, movement.step_seconds, seconds) {
            chart.draw_series(LineSeries::new(piece, color.stroke_width(width)))?;
        }
    }
    Ok(())
}

/// One polyline, or several where an angle jumps over ±180°; thinned to about two points per pixel.
fn pieces(trace: &[f32], panel: &Panel, step_seconds: f64, seconds: f64) -> Vec<Vec<(f64, f64)>> {
    let every = ((seconds / step_seconds) / 2200.0).ceil().max(1.0) as usize;
    let mut done = Vec::new();
    let mut piece: Vec<(f64, f64)> = Vec::new();
    for (i, p) in trace.chunks_exact(2).enumerate().step_by(every) {
        let value = (panel.of)(p[0], p[1]);
        let jumps = panel.wraps
            && piece
                .last()
                .is_some_and(|&(_, before)| (value - before).abs() > 180.0);
        if (jumps || !value.is_finite()) && !piece.is_empty() {
            done.push(std::mem::take(&mut piece));
        }
        if value.is_finite() {
            piece.push((i as f64 * step_seconds, value));
        }
    }
    done.push(piece);
    done
}
