//! `betz simulate --closed-loop --picture`: the ways that cursors took, and how long each trial did.

use std::path::Path;

use betz::Result;
use betz::spiking::closed_loop::{Session, Setup};
use plotters::prelude::*;

use crate::chart::{self, Axes, BLUE, FAINT, INK, ORANGE, PlotResult};

/// Trials whose ways are drawn.
const WAYS: usize = 16;
const WIDTH: u32 = 380;

/// Draws `sessions`, each under its decoder's name, as an SVG file; `faults` of `setup` are marked.
pub(crate) fn draw(sessions: &[(String, &Session)], setup: &Setup, path: &Path) -> Result<()> {
    let size = (WIDTH * sessions.len().max(1) as u32, 40 + 360 + 250);
    chart::picture(path, size, |root| {
        let columns = root.split_evenly((1, sessions.len().max(1)));
        for ((name, session), column) in sessions.iter().zip(&columns) {
            let (head, body) = column.split_vertically(40);
            chart::text(&head, name, (24, 20), 17.0)?;
            let (above, below) = body.split_vertically(360);
            ways(session, &above)?;
            times(session, setup, &below)?;
        }
        Ok(())
    })
}

/// The last trials' ways and targets: blue where the cursor stayed on the target, orange where it did not in time.
fn ways(session: &Session, area: &chart::Area<'_>) -> PlotResult {
    let trials = session.log.chunk_by(|a, b| a.target == b.target);
    let all: Vec<_> = trials.zip(&session.trials).collect();
    let shown = &all[all.len().saturating_sub(WAYS)..];
    let reach = (shown.iter().flat_map(|(bins, _)| bins.iter()))
        .flat_map(|bin| bin.cursor.iter().chain(&bin.target))
        .fold(session.radius, |most: f64, v| most.max(v.abs()));
    let edge = 1.05 * (reach + session.radius);
    // As many points a centimetre both ways, beside what the axes' names take.
    let (width, height) = area.dim_in_pixel();
    let tall = f64::from(height.saturating_sub(58)) / f64::from(width.saturating_sub(108).max(1));
    let mut chart = chart::axes(
        area,
        &Axes {
            x: -edge..edge,
            y: -edge * tall..edge * tall,
            x_name: "x (cm)",
            y_name: "y (cm)",
        },
    )?;
    let circle = |[x, y]: [f64; 2]| {
        (0..=48).map(move |i| {
            let (sin, cos) = (f64::from(i) / 48.0 * std::f64::consts::TAU).sin_cos();
            (x + session.radius * cos, y + session.radius * sin)
        })
    };
    for (_, trial) in shown {
        chart.draw_series(LineSeries::new(circle(trial.target), FAINT.stroke_width(2)))?;
    }
    for (bins, trial) in shown {
        let color = if trial.success { BLUE } else { ORANGE };
        let way = bins.iter().map(|bin| (bin.cursor[0], bin.cursor[1]));
        chart.draw_series(LineSeries::new(way, color.stroke_width(1)))?;
    }
    Ok(())
}

/// Seconds to each target over the session's time; faults as lines.
fn times(session: &Session, setup: &Setup, area: &chart::Area<'_>) -> PlotResult {
    let seconds = session.log.len() as f64 * session.bin_s;
    let limit = setup.task.limit_s();
    let mut chart = chart::axes(
        area,
        &Axes {
            x: 0.0..seconds,
            y: 0.0..1.05 * limit,
            x_name: "session (s)",
            y_name: "to target (s)",
        },
    )?;
    chart.draw_series(
        (setup.faults.iter())
            .filter(|f| f.at_s < seconds)
            .map(|fault| {
                PathElement::new(
                    vec![(fault.at_s, 0.0), (fault.at_s, 1.05 * limit)],
                    INK.stroke_width(1),
                )
            }),
    )?;
    let mut end = 0.0;
    let trials = session.log.chunk_by(|a, b| a.target == b.target);
    chart.draw_series(trials.zip(&session.trials).map(|(bins, trial)| {
        end += bins.len() as f64 * session.bin_s;
        let color = if trial.success { BLUE } else { ORANGE };
        Circle::new((end, trial.time_to_target_s), 2, color.filled())
    }))?;
    Ok(())
}
