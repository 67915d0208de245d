//! A bank of filters drawn: impulse responses above, frequency responses below.

use std::path::Path;

use betz::Result;
use plotters::prelude::*;

use super::curve::Curve;
use crate::chart::{self, Area, Axes, PlotResult};

/// Most filters that are drawn; colours repeat after as many.
const FILTERS: usize = 12;

/// Most points of a line.
const POINTS: usize = 2000;

/// Least gain that is drawn, in decibels below the largest.
const DEEPEST: f64 = -60.0;

/// Draws `curves`, and behind each, dashed, its entry in `others`.
pub(super) fn draw(title: &str, curves: &[Curve], others: &[Curve], path: &Path) -> Result<()> {
    let drawn = &curves[..curves.len().min(FILTERS)];
    let head = 40 + 22 * drawn.len().div_ceil(3) as u32;
    chart::picture(path, (1000, head + 720), |root| {
        let (top, body) = root.split_vertically(head);
        let share = chart::rows_name("filter", drawn.len(), curves.len());
        let title = match drawn.len() < curves.len() {
            true => format!("{title}: {share}"),
            false => title.to_owned(),
        };
        chart::text(&top, &title, (24, 20), 18.0)?;
        for (i, curve) in drawn.iter().enumerate() {
            let at = (24 + 320 * (i % 3) as i32, 48 + 22 * (i / 3) as i32);
            chart::entry(&top, chart::color(i), &curve.name, at)?;
        }
        let (above, below) = body.split_vertically(360);
        impulses(&above, drawn, others)?;
        responses(&below, drawn, others)
    })
}

fn impulses(area: &Area<'_>, curves: &[Curve], others: &[Curve]) -> PlotResult {
    let all = || curves.iter().chain(others.iter().take(curves.len()));
    let times = all().flat_map(|c| {
        let first = c.start as f64 * c.step_seconds;
        [first, first + c.values.len() as f64 * c.step_seconds]
    });
    let values = all().flat_map(|c| c.values.iter().copied());
    let mut chart = chart::axes(
        area,
        &Axes {
            x: chart::range(times.chain([0.0])),
            y: chart::range(values.chain([0.0])),
            x_name: "seconds from the spike",
            y_name: "response to one spike",
        },
    )?;
    for (i, curve) in curves.iter().enumerate() {
        let style = chart::color(i).stroke_width(2);
        chart.draw_series(LineSeries::new(thinned(curve.points().collect()), style))?;
        if let Some(other) = others.get(i) {
            let points = thinned(other.points().collect());
            let style = chart::INK.stroke_width(1);
            chart.draw_series(DashedLineSeries::new(points, 4, 6, style))?;
        }
    }
    Ok(())
}

/// Gain in decibels of each filter's largest, over the logarithm of frequency.
fn responses(area: &Area<'_>, curves: &[Curve], others: &[Curve]) -> PlotResult {
    let decibels = |curve: &Curve| -> Vec<(f64, f64)> {
        let response = curve.response();
        let largest = response.iter().fold(0.0f64, |m, (_, gain)| m.max(*gain));
        let level = |gain: f64| (20.0 * (gain / largest).log10()).max(DEEPEST);
        (response.iter())
            .map(|(hz, gain)| (hz.log10(), level(*gain)))
            .collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = curves.iter().map(decibels).collect();
    let frequencies = lines.iter().flatten().map(|(x, _)| *x);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: chart::range(frequencies),
            y: DEEPEST..3.0,
            x_name: "frequency (Hz, as a power of ten)",
            y_name: "gain (dB below the largest)",
        },
    )?;
    for (i, line) in lines.into_iter().enumerate() {
        let style = chart::color(i).stroke_width(2);
        chart.draw_series(LineSeries::new(line, style))?;
        if let Some(other) = others.get(i) {
            let style = chart::INK.stroke_width(1);
            chart.draw_series(DashedLineSeries::new(decibels(other), 4, 6, style))?;
        }
    }
    Ok(())
}

/// Some of the points: the least and the largest of every stretch.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= POINTS {
        return points;
    }
    let stretch = (2 * points.len()).div_ceil(POINTS);
    let ends = points.chunks(stretch).flat_map(|some| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let mut ends: Vec<(f64, f64)> = (some.iter().min_by(by_value).into_iter())
            .chain(some.iter().max_by(by_value))
            .copied()
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    });
    ends.collect()
}
