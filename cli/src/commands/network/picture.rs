//! `betz network graph --picture`: density and communities over time, windows against windows, and the
//! nodes where they are.

use std::collections::BTreeMap;
use std::path::Path;

use betz::Result;
use betz::network::WindowEdges;
use betz::network::file::{NetworkFile, Positions};
use betz::network::graph::track::{CommunityTracks, NONE};
use betz::text::count;
use plotters::prelude::*;

use crate::chart::{self, Area, Axes, BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, PlotResult};

/// Communities that have a colour, rows of nodes, cells of windows along an axis, edges of the map.
const COLORS: [RGBColor; 6] = [
    BLUE,
    ORANGE,
    GREEN,
    PURPLE,
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
const REST: RGBColor = RGBColor(150, 152, 158);
const ROWS: usize = 240;
const CELLS: usize = 90;
const LINKS: usize = 2_500;

/// The data of the picture.
pub(crate) struct PictureData<'a> {
    pub(crate) file: &'a NetworkFile,
    pub(crate) tracked: &'a CommunityTracks,
    /// (windows, windows).
    pub(crate) likeness: &'a [f32],
}

pub(crate) fn draw(shown: &PictureData<'_>, path: &Path) -> Result<()> {
    let network = &shown.file.network;
    let meta = network.meta();
    let title = format!(
        "{}: {}, {} of {}, {} by {}",
        path.file_stem()
            .map_or_else(String::new, |s| s.to_string_lossy().into_owned()),
        count(network.nodes() as u128, "node"),
        count(network.len() as u128, "window"),
        count(meta.spec.window.length as u128, "sample"),
        count(network.edges(), "edge"),
        meta.spec.measure.name()
    );
    let colors = colors(shown.tracked);
    chart::picture(path, (1160, 1080), |root| {
        let (head, body) = root.split_vertically(40);
        chart::text(&head, &title, (24, 20), 18.0)?;
        let (over_time, rest) = body.split_vertically(170);
        let (members, bottom) = rest.split_vertically(360);
        let (windows, map) = bottom.split_horizontally(560);
        density(shown, &over_time)?;
        membership(shown, &colors, &members)?;
        against(shown, &windows)?;
        match &shown.file.positions {
            Some(places) => on_map(shown, places, &colors, &map),
            None => chart::text(&map, "no positions: no map", (80, 80), 14.0),
        }
    })
}

/// The communities that most nodes are in over all windows, each with its colour.
fn colors(tracked: &CommunityTracks) -> BTreeMap<u32, RGBColor> {
    let mut counts = BTreeMap::<u32, usize>::new();
    for c in tracked.identities.iter().filter(|c| **c != NONE) {
        *counts.entry(*c).or_default() += 1;
    }
    let mut order: Vec<(u32, usize)> = counts.into_iter().collect();
    order.sort_by_key(|(c, count)| (std::cmp::Reverse(*count), *c));
    order.iter().map(|(c, _)| *c).zip(COLORS).collect()
}

fn color(colors: &BTreeMap<u32, RGBColor>, community: u32) -> RGBColor {
    match community {
        NONE => FAINT,
        c => colors.get(&c).copied().unwrap_or(REST),
    }
}

/// Beginning of window `k`: in seconds if they are known, otherwise its first sample.
fn time(file: &NetworkFile, k: usize) -> f64 {
    file.seconds(k).unwrap_or_else(|| {
        let starts = file.network.window_start();
        starts.get(k).map_or(0.0, |s| *s as f64)
    })
}

fn unit(file: &NetworkFile) -> &'static str {
    match file.seconds(0) {
        Some(_) => "start of the window (s)",
        None => "first sample of the window",
    }
}

/// From the first window's beginning to a step behind the last one's.
fn span(file: &NetworkFile) -> std::ops::Range<f64> {
    let last = file.network.len().saturating_sub(1);
    let (from, to) = (time(file, 0), time(file, last));
    from..to + (to - from) / last.max(1) as f64
}

fn density(shown: &PictureData<'_>, area: &Area<'_>) -> PlotResult {
    let network = &shown.file.network;
    let every = network.len().div_ceil(2_200).max(1);
    let points: Vec<(f64, f64)> = (0..network.len())
        .step_by(every)
        .filter_map(|k| Some((time(shown.file, k), network.density(k)? * 100.0)))
        .collect();
    let top = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: span(shown.file),
            y: 0.0..top * 1.1,
            x_name: "",
            y_name: "edges (% of pairs)",
        },
    )?;
    chart.draw_series(LineSeries::new(points, INK.stroke_width(1)))?;
    Ok(())
}

/// Each node's community over time; nodes by the community that they are in most often.
fn membership(
    shown: &PictureData<'_>,
    colors: &BTreeMap<u32, RGBColor>,
    area: &Area<'_>,
) -> PlotResult {
    let (nodes, windows) = (shown.tracked.nodes, shown.file.network.len());
    let of = |node: usize, k: usize| shown.tracked.identities[k * nodes + node];
    let rank: BTreeMap<u32, usize> = (colors.iter())
        .map(|(c, color)| (*c, COLORS.iter().position(|x| x == color).unwrap_or(0)))
        .collect();
    let home = |node: usize| {
        let mut counts = vec![0; COLORS.len() + 1];
        for k in 0..windows {
            let at = rank.get(&of(node, k)).copied().unwrap_or(COLORS.len());
            counts[at] += 1;
        }
        let most = (0..COLORS.len()).max_by_key(|c| (counts[*c], COLORS.len() - c));
        let most = most.filter(|c| counts[*c] > 0).unwrap_or(COLORS.len());
        (most, std::cmp::Reverse(counts[most]))
    };
    let mut order: Vec<usize> = (0..nodes).step_by(nodes.div_ceil(ROWS).max(1)).collect();
    order.sort_by_cached_key(|node| home(*node));
    let rows = order.len();
    let mut chart = chart::axes(
        area,
        &Axes {
            x: span(shown.file),
            y: rows as f64..0.0,
            x_name: unit(shown.file),
            y_name: "nodes, by community",
        },
    )?;
    let end = span(shown.file).end;
    for (row, node) in order.iter().enumerate() {
        let mut k = 0;
        while k < windows {
            let here = color(colors, of(*node, k));
            let from = k;
            while k < windows && color(colors, of(*node, k)) == here {
                k += 1;
            }
            if here == FAINT {
                continue;
            }
            let until = if k < windows {
                time(shown.file, k)
            } else {
                end
            };
            let corners = [
                (time(shown.file, from), row as f64),
                (until, row as f64 + 1.0),
            ];
            chart.draw_series([Rectangle::new(corners, here.filled())])?;
        }
    }
    Ok(())
}

/// Draws the similarity of every two windows, from white (0 and below) to dark (1).
fn against(shown: &PictureData<'_>, area: &Area<'_>) -> PlotResult {
    let windows = shown.file.network.len();
    let cells = windows.min(CELLS);
    let at = |cell: usize| cell * windows / cells.max(1);
    let range = span(shown.file);
    let mut chart = chart::axes(
        area,
        &Axes {
            x: range.clone(),
            y: range.end..range.start,
            x_name: "windows against windows: correlation of edges, 0 to 1",
            y_name: unit(shown.file),
        },
    )?;
    let edge = |cell: usize| match cell {
        c if c >= cells => range.end,
        c => time(shown.file, at(c)),
    };
    for a in 0..cells {
        for b in 0..cells {
            let value = f64::from(shown.likeness[at(a) * windows + at(b)]);
            if !value.is_finite() || value <= 0.02 {
                continue;
            }
            let corners = [(edge(b), edge(a)), (edge(b + 1), edge(a + 1))];
            chart.draw_series([Rectangle::new(corners, BLUE.mix(value.min(1.0)).filled())])?;
        }
    }
    Ok(())
}

/// The window with most edges, nodes where they are.
fn on_map(
    shown: &PictureData<'_>,
    places: &Positions,
    colors: &BTreeMap<u32, RGBColor>,
    area: &Area<'_>,
) -> PlotResult {
    let network = &shown.file.network;
    let Some(window) = network.windows().max_by_key(WindowEdges::len) else {
        return Ok(());
    };
    let place = |node: usize| {
        let of = &places.values[node * places.axes..];
        (of[0], of[1])
    };
    let known = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let all: Vec<(f64, f64)> = (0..network.nodes()).map(place).filter(known).collect();
    let (x, y) = (
        chart::range(all.iter().map(|p| p.0)),
        chart::range(all.iter().map(|p| p.1)),
    );
    let name = format!(
        "the window with most edges, from {}",
        time(shown.file, window.index)
    );
    let mut chart = chart::axes(
        area,
        &Axes {
            x,
            // As in an image, y goes down.
            y: y.end..y.start,
            x_name: &name,
            y_name: "y",
        },
    )?;
    let mut links: Vec<(u32, u32, f32)> = window.edges().collect();
    links.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
    links.truncate(LINKS);
    for (i, j, r) in links {
        let ends = [place(i as usize), place(j as usize)];
        if ends.iter().all(known) {
            let strength = f64::from(r.abs()).clamp(0.1, 1.0) * 0.35;
            chart.draw_series([PathElement::new(ends, INK.mix(strength).stroke_width(1))])?;
        }
    }
    let members = shown.tracked.window(window.index).unwrap_or_default();
    for (node, community) in members.iter().enumerate() {
        let at = place(node);
        if known(&at) {
            let fill = match *community {
                NONE => REST.mix(0.5).filled(),
                c => color(colors, c).filled(),
            };
            chart.draw_series([Circle::new(
                at,
                if *community == NONE { 2 } else { 4 },
                fill,
            )])?;
        }
    }
    Ok(())
}
