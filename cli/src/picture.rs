//! The demo's picture: true and decoded movement over time, as in fig. 5.6 of Galbraith 2010.

use std::path::Path;

use betz::{Error, ErrorKind, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const INK: RGBColor = RGBColor(38, 40, 46);
const FAINT: RGBColor = RGBColor(226, 228, 233);
const SINGLE: RGBColor = RGBColor(208, 58, 48);
const MULTI: RGBColor = RGBColor(28, 140, 92);

/// Two-dimensional movement, row-major (steps, 2).
pub(crate) struct Movement<'a> {
    /// Length of one step.
    pub(crate) step_seconds: f64,
    /// What was to be decoded.
    pub(crate) truth: &'a [f32],
    /// Decoded from single units.
    pub(crate) single: &'a [f32],
    /// Decoded from multi-unit channels.
    pub(crate) multi: &'a [f32],
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

/// Draws `movement` as an SVG file, written to a temporary name and renamed.
pub(crate) fn draw(movement: &Movement<'_>, path: &Path) -> Result<()> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (1160, 980)).into_drawing_area();
        paint(movement, &root).map_err(|e| {
            Error::new(
                ErrorKind::Internal,
                format!("drawing {}: {e}", path.display()),
            )
        })?;
    }
    crate::files::write_picture(path, &svg)
}

fn paint(
    movement: &Movement<'_>,
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(64);
    header(movement, &head)?;
    let seconds = movement.truth.len() as f64 / 2.0 * movement.step_seconds;
    for (i, (area, panel)) in body.split_evenly((4, 1)).iter().zip(&PANELS).enumerate() {
        draw_panel(movement, area, panel, seconds, i == PANELS.len() - 1)?;
    }
    Ok(())
}

fn header(
    movement: &Movement<'_>,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let text = |size: f64| {
        TextStyle::from(("sans-serif", size).into_font())
            .color(&INK)
            .pos(Pos::new(HPos::Left, VPos::Center))
    };
    area.draw(&Text::new(movement.title.clone(), (64, 20), text(19.0)))?;
    let entries = [
        (INK, "true".to_string(), 64),
        (SINGLE, movement.single_label.clone(), 170),
        (MULTI, movement.multi_label.clone(), 520),
    ];
    for (color, label, x) in entries {
        area.draw(&PathElement::new(
            vec![(x, 48), (x + 28, 48)],
            color.stroke_width(3),
        ))?;
        area.draw(&Text::new(label, (x + 36, 48), text(15.0)))?;
    }
    Ok(())
}

fn draw_panel(
    movement: &Movement<'_>,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    panel: &Panel,
    seconds: f64,
    last: bool,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
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
    let mut chart = ChartBuilder::on(area)
        .margin_right(24)
        .margin_top(6)
        .margin_bottom(if last { 2 } else { 6 })
        .x_label_area_size(if last { 44 } else { 20 })
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..seconds, low..high)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(FAINT.stroke_width(1))
        .label_style(("sans-serif", 13).into_font().color(&INK))
        .axis_desc_style(("sans-serif", 15).into_font().color(&INK))
        .x_labels(11)
        .y_labels(5)
        .y_desc(panel.name);
    if panel.wraps {
        mesh.y_labels(5).y_label_formatter(&|v| format!("{v:.0}"));
    }
    if last {
        mesh.x_desc("time (s)");
    }
    mesh.draw()?;
    for (trace, color, width) in traces {
        for piece in pieces(trace, panel, movement.step_seconds, seconds) {
            chart.draw_series(LineSeries::new(piece, color.stroke_width(width)))?;
        }
    }
    Ok(())
}

/// One polyline, or several where an angle jumps over ±180°; thinned to about two points a pixel.
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
