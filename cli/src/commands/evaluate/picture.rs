//! `betz evaluate --picture`: truth and decoded outputs, their error, a scatter plot, every trial.

use std::ops::Range;
use std::path::Path;

use betz::Result;
use betz::model::OutputScore;
use betz::train::trials::TrialPairs;
use plotters::prelude::*;

use crate::chart::{self, Area, Axes, BLUE, INK, ORANGE, PlotResult};

/// Most outputs that are drawn.
const OUTPUTS: usize = 4;
/// Points of a line or a scatter: more than the eye tells apart make large files.
const POINTS: usize = 2000;
/// Bins of the distribution of errors.
const ERROR_BINS: usize = 48;
/// Seconds of the recording that the course shows.
const COURSE_SECONDS: f64 = 30.0;

/// One row of panels per output: course, error over all of the time, scatter, and R² of every trial, or, of one trial, the
/// distribution of errors.
pub(crate) fn draw(
    title: &str,
    scores: &[OutputScore],
    pairs: &[TrialPairs],
    path: &Path,
) -> Result<()> {
    let rows = pairs.len().min(OUTPUTS);
    chart::picture(path, (1160, 80 + 420 * rows as u32), |root| {
        let (head, body) = root.split_vertically(64);
        let title = match rows < pairs.len() {
            true => format!("{title}: {rows} of {} outputs shown", pairs.len()),
            false => title.to_owned(),
        };
        chart::text(&head, &title, (24, 20), 18.0)?;
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

fn output(area: &Area<'_>, score: &OutputScore, pairs: &TrialPairs) -> PlotResult {
    let unit = if score.unit.is_empty() {
        String::new()
    } else {
        format!(" ({})", score.unit)
    };
    let name = format!("{}{unit}", score.name);
    let (left, right) = area.split_horizontally(760);
    let (course_area, errors_area) = left.split_vertically(240);
    let (scatter_area, trials_area) = right.split_vertically(240);
    let from = pairs.seconds.first().copied().unwrap_or(0.0);
    let until = pairs.seconds.last().copied().unwrap_or(1.0);
    let span = from..until.max(from + 1e-9);
    course(&course_area, &name, pairs, &span)?;
    errors(&errors_area, pairs, &span)?;
    scatter(&scatter_area, score, pairs)?;
    match pairs.trials.len() {
        0 | 1 => error_histogram(&trials_area, &format!("error{unit}"), pairs),
        _ => trials(&trials_area, pairs),
    }
}

/// Truth and estimate over the first seconds.
fn course(area: &Area<'_>, name: &str, pairs: &TrialPairs, span: &Range<f64>) -> PlotResult {
    let shown = span.start..span.end.min(span.start + COURSE_SECONDS);
    let inside = |i: &usize| pairs.seconds[*i] <= shown.end;
    let first: Vec<usize> = (0..pairs.seconds.len()).take_while(inside).collect();
    let values = first
        .iter()
        .flat_map(|&i| [pairs.truth[i], pairs.estimate[i]]);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: shown.clone(),
            y: chart::range(values),
            x_name: "",
            y_name: name,
        },
    )?;
    for (line, color, width) in [(&pairs.truth, INK, 2), (&pairs.estimate, BLUE, 1)] {
        for trial in &pairs.trials {
            let points = thinned(trial.clone().filter(|i| inside(i)), first.len());
            let points = points.map(|i| (pairs.seconds[i], line[i]));
            chart.draw_series(LineSeries::new(points, color.stroke_width(width)))?;
        }
    }
    Ok(())
}

fn error(pairs: &TrialPairs, i: usize) -> f64 {
    pairs.estimate[i] - pairs.truth[i]
}

/// The error over all of the time.
fn errors(area: &Area<'_>, pairs: &TrialPairs, span: &Range<f64>) -> PlotResult {
    let mut chart = chart::axes(
        area,
        &Axes {
            x: span.clone(),
            y: chart::range((0..pairs.truth.len()).map(|i| error(pairs, i))),
            x_name: "time (s)",
            y_name: "error",
        },
    )?;
    let zero = [(span.start, 0.0), (span.end, 0.0)];
    chart.draw_series(LineSeries::new(zero, INK.stroke_width(1)))?;
    for trial in &pairs.trials {
        let steps = thinned(trial.clone(), pairs.seconds.len());
        let points = steps.map(|i| (pairs.seconds[i], error(pairs, i)));
        chart.draw_series(LineSeries::new(points, ORANGE.stroke_width(1)))?;
    }
    Ok(())
}

/// Estimate against truth.
fn scatter(area: &Area<'_>, score: &OutputScore, pairs: &TrialPairs) -> PlotResult {
    let both = chart::range(pairs.truth.iter().chain(&pairs.estimate).copied());
    let name = format!("decoded, R² {:.3}", score.r2);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: both.clone(),
            y: both.clone(),
            x_name: "true",
            y_name: &name,
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
    Ok(())
}

/// R² of every trial.
fn trials(area: &Area<'_>, pairs: &TrialPairs) -> PlotResult {
    let each = pairs.scores();
    // A trial that hardly changes has an R² far below 0; it would flatten all others.
    let clipped = |r2: f64| r2.clamp(-1.0, 1.0);
    let mut chart = chart::axes(
        area,
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

/// Distribution of the errors, in place of the trials if there is only one.
fn error_histogram(area: &Area<'_>, name: &str, pairs: &TrialPairs) -> PlotResult {
    let all = || {
        (0..pairs.truth.len())
            .map(|i| error(pairs, i))
            .filter(|e| e.is_finite())
    };
    let range = chart::range(all());
    let width = (range.end - range.start) / ERROR_BINS as f64;
    let mut counts = [0_u32; ERROR_BINS];
    for error in all() {
        let bin = ((error - range.start) / width) as usize;
        counts[bin.min(ERROR_BINS - 1)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: range.clone(),
            y: 0.0..f64::from(most) * 1.05 + 1e-9,
            x_name: name,
            y_name: "steps (one trial)",
        },
    )?;
    let bars = counts.iter().enumerate().filter(|(_, n)| **n > 0);
    chart.draw_series(bars.map(|(k, &n)| {
        let left = range.start + k as f64 * width;
        Rectangle::new([(left, 0.0), (left + width, f64::from(n))], ORANGE.filled())
    }))?;
    Ok(())
}

/// Every so many-th of `steps`, of `of` in all.
fn thinned(steps: impl Iterator<Item = usize>, of: usize) -> impl Iterator<Item = usize> {
    steps.step_by(of.div_ceil(POINTS).max(1))
}
