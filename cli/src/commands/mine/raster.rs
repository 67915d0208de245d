//! A raster of the events with the strongest chains marked.

use std::path::Path;

use betz::episode::{Episode, Events, occurrences};
use betz::{Error, ErrorKind, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::chart::{self, INK};

/// Chains that are marked.
const CHAINS: usize = 4;
/// Occurrences of the strongest chain that the window should hold.
const OCCURRENCES: usize = 6;
const SPIKE: RGBColor = RGBColor(176, 180, 190);

struct Chain {
    label: String,
    symbols: Vec<u32>,
    /// Ticks of each occurrence, one per symbol.
    occurrences: Vec<Vec<i64>>,
}

/// Draws the events of a window and, in it, the occurrences of the longest, most frequent episodes
/// that share no symbols, as an SVG file.
pub(crate) fn draw(events: &Events, episodes: &[Episode], path: &Path) -> Result<()> {
    let chains = strongest(events, episodes)?;
    let (from, until) = window(events, &chains);
    let mut svg = String::new();
    paint(events, &chains, from, until, &mut svg).map_err(|e| {
        Error::new(
            ErrorKind::Internal,
            format!("drawing {}: {e}", path.display()),
        )
    })?;
    crate::picture::write(path, &svg)
}

fn strongest(events: &Events, episodes: &[Episode]) -> Result<Vec<Chain>> {
    let mut order: Vec<&Episode> = episodes.iter().filter(|e| e.pattern.size() > 1).collect();
    order.sort_by_key(|e| std::cmp::Reverse((e.pattern.size(), e.count)));
    let mut chains: Vec<Chain> = Vec::new();
    for episode in order {
        let symbols = episode.pattern.symbols();
        let taken = chains
            .iter()
            .any(|c| c.symbols.iter().any(|s| symbols.contains(s)));
        if taken {
            continue;
        }
        let labels: Vec<&str> = symbols
            .iter()
            .map(|&s| events.alphabet().label(s))
            .collect();
        chains.push(Chain {
            label: format!("{}  ({})", labels.join(" → "), episode.count),
            symbols: symbols.to_vec(),
            occurrences: occurrences(events, &episode.pattern)?,
        });
        if chains.len() == CHAINS {
            break;
        }
    }
    Ok(chains)
}

/// A window that holds a few occurrences of the strongest chain, else the first second.
fn window(events: &Events, chains: &[Chain]) -> (i64, i64) {
    let second = (1.0 / events.clock().tick_seconds()).round().max(1.0) as i64;
    let first = events.first_tick();
    let Some(found) = chains
        .first()
        .map(|c| &c.occurrences)
        .filter(|o| !o.is_empty())
    else {
        return (first, first + second);
    };
    let last = found.len().min(OCCURRENCES) - 1;
    let start = found[0].first().copied().unwrap_or(first);
    let stop = found[last].last().copied().unwrap_or(start + second);
    let margin = ((stop - start) / 20).max(second / 100);
    (start - margin, (stop + margin).min(start + 20 * second))
}

fn paint(
    events: &Events,
    chains: &[Chain],
    from: i64,
    until: i64,
    svg: &mut String,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let rows = order_of_rows(events, chains);
    let height = (140 + 12 * rows.len().min(90) + 24 * chains.len()) as u32;
    let root = SVGBackend::with_string(svg, (1160, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(16 + 24 * chains.len() as u32);
    for (i, (chain, color)) in chains.iter().zip((0..).map(chart::color)).enumerate() {
        let y = 20 + 24 * i as i32;
        head.draw(&PathElement::new(
            vec![(64, y), (92, y)],
            color.stroke_width(3),
        ))?;
        let style = ("sans-serif", 14).into_font().color(&INK);
        head.draw(&Text::new(chain.label.clone(), (100, y - 8), style))?;
    }
    let seconds = |tick: i64| events.seconds(tick);
    let row_of: std::collections::HashMap<u32, f64> = rows
        .iter()
        .zip(0..)
        .map(|(&s, i)| (s, f64::from(i)))
        .collect();
    let mut chart = ChartBuilder::on(&body)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(seconds(from)..seconds(until), rows.len() as f64..-1.0)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(SPIKE.stroke_width(1))
        .label_style(("sans-serif", 13).into_font().color(&INK))
        .axis_desc_style(("sans-serif", 15).into_font().color(&INK))
        .y_labels(0)
        .x_desc("time (s)")
        .draw()?;
    let named = TextStyle::from(("sans-serif", 11).into_font())
        .color(&INK)
        .pos(Pos::new(HPos::Right, VPos::Center));
    for (&symbol, row) in rows.iter().zip(0..) {
        let (x, y) = chart.backend_coord(&(seconds(from), f64::from(row)));
        let label: String = events.alphabet().label(symbol).chars().take(9).collect();
        root.draw(&Text::new(label, (x - 6, y), named.clone()))?;
    }
    for (&symbol, &row) in &row_of {
        let ticks = events.ticks_of(symbol);
        let inside = ticks.partition_point(|&t| t < from)..ticks.partition_point(|&t| t < until);
        chart.draw_series(ticks[inside].iter().map(|&t| {
            let x = seconds(t);
            PathElement::new(
                vec![(x, row - 0.35), (x, row + 0.35)],
                SPIKE.stroke_width(1),
            )
        }))?;
    }
    for (chain, color) in chains.iter().zip((0..).map(chart::color)) {
        let seen = chain
            .occurrences
            .iter()
            .filter(|o| o.iter().all(|&t| from <= t && t < until));
        for occurrence in seen {
            let line: Vec<(f64, f64)> = occurrence
                .iter()
                .zip(&chain.symbols)
                .map(|(&t, s)| (seconds(t), row_of.get(s).copied().unwrap_or(0.0)))
                .collect();
            chart.draw_series(line.iter().map(|&at| Circle::new(at, 3, color.filled())))?;
            chart.draw_series(LineSeries::new(line, color.stroke_width(2)))?;
        }
    }
    root.present()?;
    Ok(())
}

/// Symbols from top to bottom: chain by chain, then the rest (the busiest, if there are many).
fn order_of_rows(events: &Events, chains: &[Chain]) -> Vec<u32> {
    const MOST: usize = 90;
    let mut rows: Vec<u32> = Vec::new();
    for &s in chains.iter().flat_map(|c| &c.symbols) {
        if !rows.contains(&s) {
            rows.push(s);
        }
    }
    let mut rest: Vec<u32> = (0..events.symbols() as u32)
        .filter(|s| !rows.contains(s))
        .collect();
    if rows.len() + rest.len() > MOST {
        rest.sort_by_key(|&s| std::cmp::Reverse(events.ticks_of(s).len()));
        rest.truncate(MOST.saturating_sub(rows.len()));
        rest.sort_unstable();
    }
    rows.extend(rest);
    rows
}
