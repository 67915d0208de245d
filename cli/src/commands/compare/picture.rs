//! `betz compare --picture`: scores of all kinds, and what a step costs.

use std::path::Path;

use betz::Result;
use plotters::prelude::*;

use super::ComparisonReport;
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
    chart::picture(path, (1160, 520), |root| {
        let (head, body) = root.split_vertically(40);
        chart::text(&head, &title, (24, 20), 18.0)?;
        let (names, panels) = body.split_vertically(28);
        for (k, row) in found.kinds.iter().enumerate() {
            let at = (24 + 150 * k as i32, 12);
            chart::entry(&names, chart::color(k), row.decoder, at)?;
        }
        let (scores, costs) = panels.split_horizontally(580);
        score_panel(found, &scores)?;
        cost_panel(found, &costs)
    })
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
