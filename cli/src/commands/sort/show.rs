//! `betz sort show`: the units of a sorter, and its maps as a picture.

use std::path::Path;

use betz::sort::{Reference, Sorter, UNLABELLED};
use betz::text::count;
use betz::{Error, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Serialize;

use super::args::SortShow;
use crate::chart::{self, Axes, FAINT, PlotResult};
use crate::files::{Files, Kind};
use crate::report::{self, Outcome, Table};

#[derive(Serialize)]
pub(super) struct SorterFacts {
    kind: &'static str,
    file: String,
    rate_hz: f64,
    channels: usize,
    row_channels: usize,
    reference: &'static str,
    threshold: f64,
    forget_seconds: f64,
    groups: usize,
    nodes: usize,
    edits: usize,
    units: Vec<UnitFacts>,
}

#[derive(Serialize)]
struct UnitFacts {
    unit: u32,
    channel: u32,
    spikes: u64,
    rate_hz: f64,
    microvolts: f32,
    group: u32,
    nodes: Vec<u32>,
}

pub(super) fn run(args: &SortShow) -> Result<()> {
    let mut files = Files::new(&args.common).reads("SORTER", &args.sorter);
    files.may_write("--picture", args.picture.as_deref(), Kind::Picture)?;
    let sorter = Sorter::load(&args.sorter)?;
    if let Some(path) = &args.picture {
        draw(&sorter, &args.sorter, path)?;
    }
    report::tell(&facts(&sorter, &args.sorter), args.common.json)
}

/// `betz info` of a sorter.
pub(crate) fn inside(path: &Path, json: bool) -> Result<()> {
    report::tell(&facts(&Sorter::load(path)?, path), json)
}

impl Outcome for SorterFacts {
    fn print(&self) -> Result<()> {
        self.table()?;
        report::line(&format!(
            "{}: {} of {} at {} Hz, {} in {}, reference {}, threshold −{} σ, forgets in {} s, {} by hand",
            self.file,
            count(self.channels as u128, "channel"),
            self.row_channels,
            self.rate_hz,
            count(self.nodes as u128, "node"),
            count(self.groups as u128, "map"),
            self.reference,
            self.threshold,
            self.forget_seconds,
            count(self.edits as u128, "change")
        ))
    }
}

pub(super) fn facts(sorter: &Sorter, path: &Path) -> SorterFacts {
    let settings = sorter.settings();
    SorterFacts {
        kind: "sorter",
        file: path.display().to_string(),
        rate_hz: settings.rate_hz,
        channels: sorter.layout().channels(),
        row_channels: sorter.layout().row_channels,
        reference: match settings.reference {
            Reference::None => "none",
            Reference::Average => "car",
            Reference::Median => "median",
            Reference::Regression => "lrr",
        },
        threshold: settings.threshold,
        forget_seconds: sorter.forget_seconds(),
        groups: sorter.groups().len(),
        nodes: sorter.groups().iter().map(betz::sort::Group::nodes).sum(),
        edits: sorter.edits().len(),
        units: (sorter.units().iter().enumerate())
            .map(|(place, unit)| {
                let labels = &sorter.groups()[unit.group as usize].labels;
                let own = (0..labels.len() as u32).filter(|n| labels[*n as usize] == place as u32);
                UnitFacts {
                    unit: unit.id,
                    channel: unit.channel,
                    spikes: unit.spikes,
                    rate_hz: unit.rate_hz,
                    microvolts: unit.microvolts,
                    group: unit.group,
                    nodes: own.collect(),
                }
            })
            .collect(),
    }
}

impl SorterFacts {
    /// One row per unit.
    pub(super) fn table(&self) -> Result<()> {
        let mut table = Table::new(&["unit", "channel", "spikes", "Hz", "µV", "map", "nodes"]);
        for unit in &self.units {
            table.row([
                unit.unit.to_string(),
                unit.channel.to_string(),
                unit.spikes.to_string(),
                format!("{:.2}", unit.rate_hz),
                format!("{:.0}", unit.microvolts),
                unit.group.to_string(),
                unit.nodes.len().to_string(),
            ]);
        }
        table.print()
    }
}

/// Most units whose waveforms are drawn.
const DRAWN_UNITS: usize = 24;

/// The map of the group with most units, its nodes in the units' colours, and the units' waveforms.
fn draw(sorter: &Sorter, name: &Path, path: &Path) -> Result<()> {
    let of = |g: usize| {
        sorter
            .units()
            .iter()
            .filter(|u| u.group as usize == g)
            .count()
    };
    let Some(shown) = (0..sorter.groups().len()).max_by_key(|g| (of(*g), std::cmp::Reverse(*g)))
    else {
        return Err(Error::mismatch(
            "--picture: expected a sorter with maps, got none",
        ));
    };
    let group = &sorter.groups()[shown];
    chart::picture(path, (1160, 640), |root| {
        let (head, body) = root.split_vertically(40);
        let title = format!(
            "{}: map {shown}, {}{}; numbers: units; brighter nodes win fewer spikes, grey ones stand for noise",
            name.display(),
            count(of(shown) as u128, "unit"),
            match of(shown) > DRAWN_UNITS {
                true => format!(" (waveforms of {DRAWN_UNITS} shown)"),
                false => String::new(),
            }
        );
        chart::text(&head, &title, (24, 20), 16.0)?;
        let (left, right) = body.split_horizontally(600);
        map(&left, group)?;
        waveforms(&right, sorter, shown)
    })
}

fn map(area: &chart::Area<'_>, group: &betz::sort::Group) -> PlotResult {
    let (rows, columns) = (group.rows as f64, group.columns as f64);
    let side = (560.0 / rows).min(560.0 / columns);
    let most = f64::from(group.hits.iter().copied().max().unwrap_or(1).max(1));
    for (node, (&label, &hits)) in group.labels.iter().zip(&group.hits).enumerate() {
        let (row, column) = ((node / group.columns) as f64, (node % group.columns) as f64);
        let color = if label == UNLABELLED {
            FAINT
        } else {
            chart::color(label as usize)
        };
        let strength = 0.25 + 0.75 * (f64::from(hits) / most).sqrt();
        let corner = |r: f64, c: f64| ((20.0 + c * side) as i32, (10.0 + r * side) as i32);
        let (a, b) = (corner(row, column), corner(row + 1.0, column + 1.0));
        area.draw(&Rectangle::new(
            [a, (b.0 - 1, b.1 - 1)],
            color.mix(strength).filled(),
        ))?;
    }
    Ok(())
}

fn waveforms(area: &chart::Area<'_>, sorter: &Sorter, shown: usize) -> PlotResult {
    let settings = sorter.settings();
    let units: Vec<_> = (sorter.units().iter().enumerate())
        .filter(|(_, u)| u.group as usize == shown)
        .take(DRAWN_UNITS)
        .collect();
    let samples = units.iter().flat_map(|(_, u)| u.waveform.iter());
    let (low, high) = samples.fold((-1.0_f32, 1.0_f32), |(l, h), v| (l.min(*v), h.max(*v)));
    let length = units.first().map_or(1, |(_, u)| u.waveform.len());
    let ms = |i: usize| (i as f64 - 0.375 * length as f64) / settings.rate_hz * 1e3;
    let mut chart = chart::axes(
        area,
        &Axes {
            x: ms(0)..ms(length - 1).max(ms(0) + 0.1),
            y: f64::from(low) * 1.1..f64::from(high) * 1.1,
            x_name: "ms",
            y_name: "µV, mean on the unit's channel",
        },
    )?;
    for (place, unit) in &units {
        let line = unit
            .waveform
            .iter()
            .enumerate()
            .map(|(i, v)| (ms(i), f64::from(*v)));
        chart.draw_series(LineSeries::new(line, chart::color(*place).stroke_width(2)))?;
    }
    // Above the lines, each at the lowest point of its own.
    for (place, unit) in &units {
        let lowest = (unit.waveform.iter().enumerate()).min_by(|a, b| a.1.total_cmp(b.1));
        let (i, value) = lowest.map_or((0, 0.0), |(i, v)| (i, f64::from(*v)));
        let color = chart::color(*place);
        let style = TextStyle::from(("sans-serif", 13.0).into_font())
            .color(&color)
            .pos(Pos::new(HPos::Center, VPos::Top));
        let number = Text::new(unit.id.to_string(), (ms(i), value), style);
        chart.draw_series([number])?;
    }
    if units.is_empty() {
        chart::text(area, "no units", (80, 80), 14.0)?;
    }
    Ok(())
}
