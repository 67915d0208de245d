//! `betz simulate --model … --picture`: the last moments of a spiking network, as rasters of papers show them.

use std::path::Path;

use betz::Result;
use plotters::prelude::*;

use crate::chart::{self, Axes, PlotResult};

/// Spikes that are drawn; of more, those of every so-manyth neuron.
const MARKS: usize = 20_000;
/// Bins of the rates.
const BINS: usize = 125;

/// The last moments of a network.
pub(crate) struct Moments<'a> {
    /// Line above the panels.
    pub(crate) title: String,
    /// Milliseconds of the network at the left and right edges.
    pub(crate) from_ms: f64,
    pub(crate) to_ms: f64,
    pub(crate) step_ms: f64,
    pub(crate) neurons: u64,
    /// Name and first neuron of each population.
    pub(crate) populations: &'a [(String, u64)],
    /// Milliseconds and neuron of each spike between the edges.
    pub(crate) spikes: &'a [(f64, u64)],
    /// Neurons whose membrane potentials were recorded, each with those of all steps up to the right edge, in mV.
    pub(crate) potentials: &'a [(u32, &'a [f32])],
}

/// Draws `moments` as an SVG file: spikes of each neuron, rates of each population, potentials where there are any.
pub(crate) fn draw(moments: &Moments<'_>, path: &Path) -> Result<()> {
    let traced = !moments.potentials.is_empty();
    let height = 40 + 460 + 190 + if traced { 200 } else { 0 };
    chart::picture(path, (1160, height), |root| {
        let (head, body) = root.split_vertically(40);
        chart::text(&head, &moments.title, (24, 20), 18.0)?;
        let (panels, names) = body.split_horizontally(1040);
        let (spikes, rest) = panels.split_vertically(460);
        let (rates, potentials) = rest.split_vertically(190);
        raster(moments, &spikes)?;
        population_names(moments, &names)?;
        population_rates(moments, &rates, !traced)?;
        if traced {
            traces(moments, &potentials)?;
        }
        Ok(())
    })
}

/// First neuron of population `p`, and the first one behind it.
fn own(moments: &Moments<'_>, p: usize) -> (u64, u64) {
    let next = moments.populations.get(p + 1);
    let end = next.map_or(moments.neurons, |(_, first)| *first);
    (moments.populations[p].1, end)
}

fn population_of(moments: &Moments<'_>, neuron: u64) -> usize {
    (moments.populations)
        .partition_point(|(_, first)| *first <= neuron)
        .saturating_sub(1)
}

fn raster(moments: &Moments<'_>, area: &chart::Area<'_>) -> PlotResult {
    let every = moments.spikes.len().div_ceil(MARKS).max(1) as u64;
    let name = match every {
        1 => "neuron".to_owned(),
        _ => format!("neuron (one in {every} shown)"),
    };
    let mut chart = chart::axes(
        area,
        &Axes {
            x: moments.from_ms..moments.to_ms,
            y: moments.neurons as f64..0.0,
            x_name: "",
            y_name: &name,
        },
    )?;
    let shown = (moments.spikes.iter()).filter(|(_, neuron)| neuron.is_multiple_of(every));
    chart.draw_series(shown.map(|&(at, neuron)| {
        let color = chart::color(population_of(moments, neuron));
        Circle::new((at, neuron as f64 + 0.5), 1, color.filled())
    }))?;
    Ok(())
}

/// Beside the raster, each where its neurons are, as far as there is room.
fn population_names(moments: &Moments<'_>, area: &chart::Area<'_>) -> PlotResult {
    // The raster's own margins, above and below.
    let (top, height) = (8.0, 460.0 - 8.0 - 26.0);
    let mut free = 0;
    for (p, (name, _)) in moments.populations.iter().enumerate() {
        let (first, end) = own(moments, p);
        let middle = (first + end) as f64 / 2.0 / moments.neurons.max(1) as f64;
        let y = ((top + height * middle) as i32).max(free);
        chart::entry(area, chart::color(p), name, (0, y))?;
        free = y + 18;
    }
    Ok(())
}

fn population_rates(moments: &Moments<'_>, area: &chart::Area<'_>, last: bool) -> PlotResult {
    let span = moments.to_ms - moments.from_ms;
    let mut counts = vec![[0u32; BINS]; moments.populations.len()];
    for &(at, neuron) in moments.spikes {
        let bin = ((at - moments.from_ms) / span * BINS as f64) as usize;
        counts[population_of(moments, neuron)][bin.min(BINS - 1)] += 1;
    }
    let width_s = span * 1e-3 / BINS as f64;
    let rates: Vec<Vec<f64>> = (counts.iter().enumerate())
        .map(|(p, counts)| {
            let (first, end) = own(moments, p);
            let per = (end - first).max(1) as f64 * width_s;
            counts.iter().map(|c| f64::from(*c) / per).collect()
        })
        .collect();
    let top = rates.iter().flatten().copied().fold(0.0, f64::max);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: moments.from_ms..moments.to_ms,
            y: 0.0..1.05 * top + 1e-9,
            x_name: if last { "time (ms)" } else { "" },
            y_name: "rate (Hz)",
        },
    )?;
    for (p, rates) in rates.iter().enumerate() {
        let at = |bin: usize| moments.from_ms + (bin as f64 + 0.5) * span / BINS as f64;
        let line = rates.iter().enumerate().map(|(bin, &rate)| (at(bin), rate));
        let color = chart::color(p);
        chart.draw_series(LineSeries::new(line, color.stroke_width(1)))?;
    }
    Ok(())
}

fn traces(moments: &Moments<'_>, area: &chart::Area<'_>) -> PlotResult {
    let steps = ((moments.to_ms - moments.from_ms) / moments.step_ms).round() as usize;
    let last = |values: &[f32]| values.len().saturating_sub(steps);
    let shown = (moments.potentials.iter()).flat_map(|(_, v)| &v[last(v)..]);
    let range = chart::range(shown.map(|v| f64::from(*v)));
    let mut chart = chart::axes(
        area,
        &Axes {
            x: moments.from_ms..moments.to_ms,
            y: range,
            x_name: "time (ms)",
            y_name: "potential (mV)",
        },
    )?;
    for (neuron, values) in moments.potentials {
        let first = last(values);
        let end = moments.to_ms - (values.len() - first) as f64 * moments.step_ms;
        let line = (values[first..].iter().enumerate())
            .map(|(i, v)| (end + (i + 1) as f64 * moments.step_ms, f64::from(*v)));
        let color = chart::color(population_of(moments, u64::from(*neuron)));
        chart.draw_series(LineSeries::new(line, color.stroke_width(1)))?;
    }
    Ok(())
}
