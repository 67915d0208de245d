//! `betz simulate --patterns`: the twenty firing patterns of Izhikevich 2004.

use std::path::Path;

use betz::Result;
use betz::spiking::patterns::{self, Pattern, PatternTrace};
use plotters::prelude::*;
use serde::Serialize;

use super::args::Simulate;
use crate::chart::{self, PlotResult};
use crate::files::{Files, Kind};
use crate::report::{self, Outcome, Table};

/// Width and height of a pattern's panel.
const PANEL: (u32, u32) = (280, 150);
/// Panels in a row, and rows.
const GRID: (usize, usize) = (4, 5);

/// The patterns as they were simulated.
#[derive(Serialize)]
struct PatternsReport {
    patterns: Vec<PatternReport>,
}

/// Spikes of one pattern.
#[derive(Serialize)]
struct PatternReport {
    name: &'static str,
    milliseconds: f64,
    spikes_ms: Vec<f64>,
}

pub(super) fn run(args: &Simulate) -> Result<()> {
    let mut files = Files::new(&args.common);
    files.may_write("--picture", args.picture.as_deref(), Kind::Picture)?;
    let patterns = patterns::patterns();
    let traces = patterns
        .iter()
        .map(Pattern::run)
        .collect::<Result<Vec<_>>>()?;
    if let Some(path) = &args.picture {
        draw(&patterns, &traces, path)?;
    }
    let reports = patterns
        .iter()
        .zip(traces)
        .map(|(pattern, trace)| PatternReport {
            name: pattern.name,
            milliseconds: pattern.ms,
            spikes_ms: trace.spikes_ms,
        });
    let told = PatternsReport {
        patterns: reports.collect(),
    };
    report::tell(&told, args.common.json)
}

impl Outcome for PatternsReport {
    fn print(&self) -> Result<()> {
        let mut table = Table::new(&["pattern", "ms", "spikes", "first at ms"]);
        for pattern in &self.patterns {
            table.row([
                pattern.name.to_owned(),
                format!("{}", pattern.milliseconds),
                pattern.spikes_ms.len().to_string(),
                (pattern.spikes_ms.first()).map_or_else(String::new, |ms| format!("{ms:.1}")),
            ]);
        }
        table.print()
    }
}

/// A panel for each pattern: its potential, and the current below.
fn draw(patterns: &[Pattern], traces: &[PatternTrace], path: &Path) -> Result<()> {
    let size = (PANEL.0 * GRID.0 as u32, PANEL.1 * GRID.1 as u32);
    chart::picture(path, size, |root| {
        let panels = root.split_evenly((GRID.1, GRID.0));
        for ((panel, pattern), trace) in panels.iter().zip(patterns).zip(traces) {
            chart::text(panel, pattern.name, (12, 14), 14.0)?;
            line(panel, pattern.ms, (26, 84), chart::BLUE, || {
                (trace.potentials_mv.iter().enumerate())
                    .map(|(i, v)| (0.1 * (i + 1) as f64, f64::from(*v)))
                    .collect()
            })?;
            line(panel, pattern.ms, (118, 20), chart::ORANGE, || {
                let mut rows = pattern.currents.clone();
                if let Some((_, last)) = rows.last().copied() {
                    rows.push((pattern.ms, last));
                }
                rows
            })?;
        }
        Ok(())
    })
}

/// A line over `ms` within `height` points from `top` of a panel, without axes.
fn line(
    panel: &chart::Area<'_>,
    ms: f64,
    (top, height): (i32, i32),
    color: RGBColor,
    points: impl Fn() -> Vec<(f64, f64)>,
) -> PlotResult {
    let points = points();
    let low = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
    let width = f64::from(PANEL.0) - 24.0;
    let place = |&(x, y): &(f64, f64)| {
        let part = (y - low) / (high - low).max(1e-9);
        let down = f64::from(height) * (1.0 - part);
        (12 + (x / ms * width) as i32, top + down as i32)
    };
    let style = color.stroke_width(1);
    panel.draw(&PathElement::new(
        points.iter().map(place).collect::<Vec<_>>(),
        style,
    ))?;
    Ok(())
}
