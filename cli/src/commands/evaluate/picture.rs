//! `betz evaluate --picture`: truth and what was decoded, the error, their scatter, every trial.

use std::path::Path;

use betz::Result;
use betz::model::OutputScore;
use betz::train::trials::TrialPairs;
use plotters::prelude::*;

use crate::chart::{self, Area, Axes, BLUE, Drawn, INK, ORANGE};

/// Outputs that are drawn.
const OUTPUTS: usize = 4;
/// Points of a line or a scatter: more than the eye tells apart make large files.
const POINTS: usize = 2000;
/// Seconds of the recording that the course shows.
const COURSE_SECONDS: f64 = 30.0;

/// One row of panels an output: course, error over all of the time, scatter, R² of every trial.
pub(crate) fn draw(
    title: &str,
    scores: &[OutputScore],
    pairs: &[TrialPairs],
    path: &Path,
) -> Result<()> {
    let rows = pairs.len().min(OUTPUTS);
    chart::picture(path, (1160, 80 + 420 * rows as u32), |root| {
        let (head, body) = root.split_vertically(64);
        chart::text(&head, title, (24, 20), 18.0)?;
        chart::entry(&head, INK, "true", (24, 48))?;
        chart::entry(&head, BLUE, "decoded", (140, 48))?;
        chart::entry(&head, ORANGE, "error (decoded − true)", (290, 48))?;
        let rows = body.split_evenly((rows, 1));
        for ((area, score), pairs) in rows.iter().zip(scores).zip(pairs) {
            output(area, score, pairs)?;
        }
        Ok(())
    })
}

fn output(area: &Area<'_>, score: &OutputScore, pairs: &TrialPairs) -> Drawn {
    let unit = if score.unit.is_empty() {
        String::new()
    } else {
        format!(" ({})", score.unit)
    };
    let name = format!("{}{unit}", score.name);
    let (left, right) = area.split_horizontally(760);
    let (course, residuals) = left.split_vertically(240);
    let (scatter, trials) = right.split_vertically(240);
    let all = pairs.seconds.iter().copied();
    let from = pairs.seconds.first().copied().unwrap_or(0.0);
    let until = pairs
        .seconds
        .last()
        .copied()
        .unwrap_or(1.0)
        .max(from + 1e-9);
    let shown = from..until.min(from + COURSE_SECONDS);
    let inside = |i: &usize| pairs.seconds[*i] <= shown.end;
    let first: Vec<usize> = (0..pairs.seconds.len()).take_while(inside).collect();
    let values = first
        .iter()
        .flat_map(|&i| [pairs.truth[i], pairs.estimate[i]]);
    let mut chart = chart::axes(
        &course,
        &Axes {
            x: shown.clone(),
            y: chart::range(values),
            x_name: "",
            y_name: &name,
        },
    )?;
    for (line, color, width) in [(&pairs.truth, INK, 2), (&pairs.estimate, BLUE, 1)] {
        for trial in &pairs.trials {
            let points = thinned(trial.clone().filter(|i| inside(i)), first.len());
            let points = points.map(|i| (pairs.seconds[i], line[i]));
            chart.draw_series(LineSeries::new(points, color.stroke_width(width)))?;
        }
    }
    let error = |i: usize| pairs.estimate[i] - pairs.truth[i];
    let mut chart = chart::axes(
        &residuals,
        &Axes {
            x: from..until,
            y: chart::range((0..pairs.truth.len()).map(error)),
            x_name: "time (s)",
            y_name: "error",
        },
    )?;
    let zero = [(from, 0.0), (until, 0.0)];
    chart.draw_series(LineSeries::new(zero, INK.stroke_width(1)))?;
    for trial in &pairs.trials {
        let points = thinned(trial.clone(), all.len()).map(|i| (pairs.seconds[i], error(i)));
        chart.draw_series(LineSeries::new(points, ORANGE.stroke_width(1)))?;
    }
    let both = chart::range(pairs.truth.iter().chain(&pairs.estimate).copied());
    let scatter_name = format!("decoded, R² {:.3}", score.r2);
    let mut chart = chart::axes(
        &scatter,
        &Axes {
            x: both.clone(),
            y: both.clone(),
            x_name: "true",
            y_name: &scatter_name,
        },
    )?;
    chart.draw_series(thinned(0..pairs.truth.len(), pairs.truth.len()).map(|i| {
        Circle::new(
            (pairs.truth[i], pairs.estimate[i]),
            1,
            BLUE.mix(0.5).filled(),
        )
    }))?;
    let diagonal = [(both.start, both.start), (both.end, both.end)];
    chart.draw_series(LineSeries::new(diagonal, INK.stroke_width(1)))?;
    let each = pairs.scores();
    // A trial that hardly changes has an R² far below 0; it would flatten all others.
    let clipped = |r2: f64| r2.clamp(-1.0, 1.0);
    let mut chart = chart::axes(
        &trials,
        &Axes {
            x: -0.5..each.len().max(1) as f64 - 0.5,
            y: chart::range(each.iter().map(|t| clipped(t.r2)).chain([0.0, 1.0])),
            x_name: "trial",
            y_name: "R² (−1 or more)",
        },
    )?;
    let flat = [(-0.5, 0.0), (each.len() as f64 - 0.5, 0.0)];
    chart.draw_series(LineSeries::new(flat, INK.stroke_width(1)))?;
    let known = each.iter().enumerate().filter(|(_, t)| t.r2.is_finite());
    chart.draw_series(
        known.map(|(i, t)| Circle::new((i as f64, clipped(t.r2)), 2, BLUE.filled())),
    )?;
    Ok(())
}

/// Every so many-th of `steps`, of `of` in all.
fn thinned(steps: impl Iterator<Item = usize>, of: usize) -> impl Iterator<Item = usize> {
    steps.step_by(of.div_ceil(POINTS).max(1))
}
