//! `betz compare --picture`: scores of all kinds, what a step costs, and R² over time.

use std::path::Path;

use betz::Result;
use plotters::prelude::*;

use super::{ComparisonReport, WindowScore};
use crate::chart::{self, Area, Axes, INK, PlotResult};
use crate::report::count;

/// Draws `found`.
pub(super) fn draw(found: &ComparisonReport, path: &Path) -> Result<()> {
    let title = format!(
        "{}: {} decoder kinds, {} folds, {}",
        found.recording,
        found.kinds.len(),
        found.folds,
        count(found.steps as u128, "step")
    );
    chart::picture(path, (1160, 880), |root| {
        let (head, body) = root.split_vertically(40);
        chart::text(&head, &title, (24, 20), 18.0)?;
        let (body, times) = body.split_vertically(480);
        let (names, panels) = body.split_vertically(28);
        for (k, row) in found.kinds.iter().enumerate() {
            let at = (24 + 150 * k as i32, 12);
            chart::entry(&names, chart::color(k), row.decoder, at)?;
        }
        let (scores, costs) = panels.split_horizontally(580);
        score_panel(found, &scores)?;
        cost_panel(found, &costs)?;
        let (names, panel) = times.split_vertically(28);
        let rows = rows_over_time(found);
        for (k, (name, _)) in rows.iter().enumerate() {
            chart::entry(&names, chart::color(k), name, (24 + 150 * k as i32, 12))?;
        }
        time_panel(found, &rows, &panel)
    })
}

/// Names and windows of what is drawn over time: the blend and its members if there is one, else all kinds.
fn rows_over_time(found: &ComparisonReport) -> Vec<(&str, &[WindowScore])> {
    match &found.blend {
        Some(blend) => (blend.rows.iter())
            .map(|row| (row.decoder, row.over_time.as_slice()))
            .collect(),
        None => (found.kinds.iter())
            .map(|row| (row.decoder, row.over_time.as_slice()))
            .collect(),
    }
}

/// Mean R² in windows of what was held out, against the time in the recording.
fn time_panel(
    found: &ComparisonReport,
    rows: &[(&str, &[WindowScore])],
    area: &Area<'_>,
) -> PlotResult {
    let seconds = |step: f64| step * found.step_seconds;
    let points = |windows: &[WindowScore]| -> Vec<(f64, f64)> {
        let middle = |w: &WindowScore| seconds((w.first_step + w.stop_step) as f64 / 2.0);
        let finite = windows.iter().filter(|window| window.r2.is_finite());
        finite.map(|window| (middle(window), window.r2)).collect()
    };
    let all: Vec<(f64, f64)> = rows
        .iter()
        .flat_map(|(_, windows)| points(windows))
        .collect();
    if all.is_empty() {
        return Ok(());
    }
    let mut chart = chart::axes(
        area,
        &Axes {
            x: chart::range(all.iter().map(|point| point.0)),
            y: chart::range(all.iter().map(|point| point.1)),
            x_name: "time in the recording, s",
            y_name: "R², mean over outputs",
        },
    )?;
    for (k, (_, windows)) in rows.iter().enumerate() {
        let points = points(windows);
        let color = chart::color(k);
        chart.draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?;
        chart.draw_series(
            points
                .into_iter()
                .map(|point| Circle::new(point, 3, color.filled())),
        )?;
    }
    Ok(())
}

/// Mean R² of each kind, with the standard error of its gain, and a point per output.
fn score_panel(found: &ComparisonReport, area: &Area<'_>) -> PlotResult {
    let all = found.kinds.iter().flat_map(|row| {
        let outputs = row.outputs.iter().map(|score| score.r2);
        outputs.chain([row.r2 - row.gain_error, row.r2 + row.gain_error])
    });
    let mut chart = chart::axes(
        area,
        &Axes {
            x: -0.5..found.kinds.len() as f64 - 0.5,
            y: chart::range(all),
            x_name: "kind, as above; points: single outputs",
            y_name: "R², mean over outputs",
        },
    )?;
    for (k, row) in found.kinds.iter().enumerate() {
        let at = k as f64;
        let color = chart::color(k);
        let mean = [(at - 0.3, row.r2), (at + 0.3, row.r2)];
        chart.draw_series(LineSeries::new(mean, color.stroke_width(4)))?;
        let error = [(at, row.r2 - row.gain_error), (at, row.r2 + row.gain_error)];
        chart.draw_series(LineSeries::new(error, color.stroke_width(2)))?;
        let outputs = row.outputs.iter().filter(|score| score.r2.is_finite());
        chart.draw_series(outputs.map(|score| Circle::new((at + 0.15, score.r2), 4, INK)))?;
    }
    Ok(())
}

/// Mean R² against the time of a step, on a scale of powers of ten.
fn cost_panel(found: &ComparisonReport, area: &Area<'_>) -> PlotResult {
    let cost = |us: f64| us.max(1e-3).log10();
    let x = chart::range(found.kinds.iter().map(|row| cost(row.step_us)));
    let mut chart = chart::axes(
        area,
        &Axes {
            x: x.start - 0.2..x.end + 0.2,
            y: chart::range(found.kinds.iter().map(|row| row.r2)),
            x_name: "log10 of the median step in µs",
            y_name: "R², mean over outputs",
        },
    )?;
    for (k, row) in found.kinds.iter().enumerate() {
        let point = (cost(row.step_us), row.r2);
        if row.r2.is_finite() {
            chart.draw_series([Circle::new(point, 6, chart::color(k).filled())])?;
        }
    }
    Ok(())
}
