//! `betz network graph`: measures of every window's graph, communities, and what becomes of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use betz::network::file::NetworkFile;
use betz::network::graph::leiden::{Communities, Leiden, Objective};
use betz::network::graph::modularity::Signs;
use betz::network::graph::similarity::{Likeness, similarity};
use betz::network::graph::track::{CommunityTracks, Event, Matching, NONE, track};
use betz::network::graph::{Graph as Net, measures, rewire};
use betz::{Error, Progress, Result, memory, progress};
use rayon::prelude::*;
use serde::Serialize;

use super::args::{Graph, GraphMeasure};
use super::picture::{self as network_picture, PictureData};
use super::table::{Column, GraphMeasures, HEADER, NodeColumn};
use super::{Spread, on_cpu};
use crate::files::{Files, Kind, is_csv};
use crate::report::{self, Bar, Outcome, Table};

/// Nodes up to which shortest paths are looked for from all of them, and from how many otherwise.
const ALL_SOURCES: usize = 5_000;
const SOURCES: usize = 500;

#[derive(Serialize)]
struct CommunityHistory {
    identities: u32,
    births: usize,
    deaths: usize,
    splits: usize,
    merges: usize,
    mean_flexibility: f64,
}

#[derive(Serialize)]
struct GraphReport {
    network: String,
    nodes: usize,
    windows: usize,
    edges: u64,
    /// Over windows; `null` where none has a value.
    measures: BTreeMap<&'static str, Option<Spread>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    communities: Option<CommunityHistory>,
    seconds: f64,
    device: &'static str,
    out: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<String>,
    /// Names of the measures, in the table's order.
    #[serde(skip)]
    columns: Vec<&'static str>,
}

pub(super) fn run(args: &Graph) -> Result<()> {
    on_cpu(&args.common.device)?;
    let mut files = Files::new(&args.common).reads("NET", &args.network);
    let as_csv = match &args.out {
        Some(path) => is_csv(path)?,
        None => false,
    };
    let kind = if as_csv {
        Kind::Table(&[HEADER])
    } else {
        Kind::GraphMeasures
    };
    files.may_write("--out", args.out.as_deref(), kind)?;
    files.may_write("--picture", args.picture.as_deref(), Kind::Picture)?;
    let file = NetworkFile::read(&args.network)?;
    if args.picture.is_some() && (file.network.nodes() == 0 || file.network.is_empty()) {
        return Err(Error::argument(
            "--picture: expected a network with nodes and windows, got none",
        ));
    }
    report::stop_on_interrupt();
    let bar = Bar::new();
    let whole = args.out.is_some() && !as_csv;
    let measured = measure(args, &file, whole, &bar)?;
    drop(bar);
    if let Some(path) = &args.out {
        if as_csv {
            measured.write_csv(&file, path)?;
        } else {
            measured.write_npz(&file, &args.network, path)?;
        }
    }
    if let (Some(path), Some(tracked), Some(likeness)) =
        (&args.picture, &measured.tracked, &measured.likeness)
    {
        let shown = PictureData {
            file: &file,
            tracked,
            likeness,
        };
        network_picture::draw(&shown, path)?;
    }
    let network = &file.network;
    let found = GraphReport {
        network: args.network.display().to_string(),
        nodes: network.nodes(),
        windows: network.len(),
        edges: network.edges(),
        measures: (measured.columns.iter())
            .map(|c| (c.name, Spread::of(c.values.iter().copied())))
            .collect(),
        communities: measured.tracked.as_ref().map(followed),
        seconds: report::total_seconds(),
        device: "cpu",
        out: args.out.as_ref().map(|p| p.display().to_string()),
        picture: args.picture.as_ref().map(|p| p.display().to_string()),
        columns: measured.columns.iter().map(|c| c.name).collect(),
    };
    report::tell(&found, args.common.json)
}

impl Outcome for GraphReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: {}, {}, {}",
            self.network,
            report::count(self.nodes as u128, "node"),
            report::count(self.windows as u128, "window"),
            report::count(self.edges, "edge")
        ))?;
        let mut table = Table::new(&["over windows", "least", "mean", "most"]);
        for column in &self.columns {
            let cells = match self.measures.get(column).copied().flatten() {
                Some(spread) => [spread.min, spread.mean, spread.max].map(number),
                None => ["-", "-", "-"].map(str::to_owned),
            };
            let [least, mean, most] = cells;
            table.row([column.replace('_', " "), least, mean, most]);
        }
        table.print()?;
        if let Some(c) = &self.communities {
            report::line(&format!(
                "{} of at least {} nodes followed: {} born, {} died, {} split, {} merged; a node changes in {:.1} % of windows",
                if c.identities == 1 {
                    "1 community".to_owned()
                } else {
                    format!("{} communities", c.identities)
                },
                Matching::default().smallest,
                c.births,
                c.deaths,
                c.splits,
                c.merges,
                c.mean_flexibility * 100.0
            ))?;
        }
        report::line(&format!("{:.2} s in all", self.seconds))
    }
}

/// Whole numbers as they are, others to four digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e9 {
        format!("{value}")
    } else {
        format!("{value:.4}")
    }
}

fn followed(tracked: &CommunityTracks) -> CommunityHistory {
    let of = |which: fn(&Event) -> bool| tracked.events.iter().filter(|(_, e)| which(e)).count();
    let flexibility = tracked.flexibility();
    CommunityHistory {
        identities: tracked.count,
        births: of(|e| matches!(e, Event::Birth { .. })),
        deaths: of(|e| matches!(e, Event::Death { .. })),
        splits: of(|e| matches!(e, Event::Split { .. })),
        merges: of(|e| matches!(e, Event::Merge { .. })),
        mean_flexibility: flexibility.iter().sum::<f64>() / flexibility.len().max(1) as f64,
    }
}

/// Measures of one window: for each name one number, and one number per node.
struct OfWindow {
    values: Vec<(&'static str, f64)>,
    nodes: Vec<(&'static str, Vec<f32>)>,
}

fn measure(args: &Graph, file: &NetworkFile, whole: bool, bar: &Bar) -> Result<GraphMeasures> {
    let network = &file.network;
    let (windows, nodes) = (network.len(), network.nodes());
    let wants = |m: GraphMeasure| {
        let drawn = matches!(m, GraphMeasure::Communities | GraphMeasure::Fcd);
        args.measures.contains(&m) || drawn && args.picture.is_some()
    };
    check_counts(args, wants(GraphMeasure::SmallWorld))?;
    if whole {
        // Up to seven values for each node and window.
        let values = windows as u128 * nodes as u128 * 4 * 7;
        memory::plan("measures of every node and window", values)?;
    }
    let needs_communities = wants(GraphMeasure::Communities) || wants(GraphMeasure::Participation);
    let communities = if needs_communities {
        Some(communities(args, file, bar)?)
    } else {
        None
    };
    let tracked = match communities.as_ref().filter(|_| nodes > 0) {
        Some(found) => {
            let all: Vec<u32> = found.iter().flat_map(|c| c.communities.clone()).collect();
            Some(track(&all, nodes, Matching::default())?)
        }
        None => None,
    };
    let done = AtomicU64::new(0);
    let rows: Vec<OfWindow> = (0..windows)
        .into_par_iter()
        .map(|k| {
            progress::check(bar, "measures")?;
            let found = communities.as_ref().map(|all| &all[k]);
            let row = of_window(args, file, k, found, whole)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            bar.update("measures", done, windows as u64);
            Ok(row)
        })
        .collect::<Result<_>>()?;
    let (mut columns, of_nodes) = columns_of(rows, windows, nodes);
    if let Some(tracked) = &tracked {
        columns.push(Column {
            name: "communities",
            values: community_counts(tracked, nodes),
        });
    }
    let likeness = if wants(GraphMeasure::Fcd) {
        bar.update("windows against windows", 0, 1);
        let all = similarity(network, Likeness::Correlation)?;
        let before = |k: usize| match k {
            0 => f64::NAN,
            k => f64::from(all[k * windows + k - 1]),
        };
        columns.push(Column {
            name: "likeness_to_window_before",
            values: (0..windows).map(before).collect(),
        });
        Some(all)
    } else {
        None
    };
    Ok(GraphMeasures {
        columns,
        nodes: of_nodes,
        tracked,
        likeness,
    })
}

/// Refuses numbers of draws and of sources that nothing can be computed from.
fn check_counts(args: &Graph, small_world: bool) -> Result<()> {
    if small_world && args.rewirings == 0 {
        return Err(Error::argument("--rewirings: expected at least 1, got 0"));
    }
    if args.sources == Some(0) {
        return Err(Error::argument("--sources: expected at least 1, got 0"));
    }
    Ok(())
}

/// The windows' measures by name: one value, and one value per node, for each window.
fn columns_of(rows: Vec<OfWindow>, windows: usize, nodes: usize) -> (Vec<Column>, Vec<NodeColumn>) {
    let mut columns: Vec<Column> = Vec::new();
    let mut of_nodes: Vec<NodeColumn> = Vec::new();
    for row in rows {
        if columns.is_empty() {
            columns.extend(row.values.iter().map(|(name, _)| Column {
                name,
                values: Vec::with_capacity(windows),
            }));
            of_nodes.extend(row.nodes.iter().map(|(name, _)| NodeColumn {
                name,
                values: Vec::with_capacity(windows * nodes),
            }));
        }
        for (column, (_, value)) in columns.iter_mut().zip(row.values) {
            column.values.push(value);
        }
        for (column, (_, values)) in of_nodes.iter_mut().zip(row.nodes) {
            column.values.extend(values);
        }
    }
    (columns, of_nodes)
}

/// Number of communities in each window.
fn community_counts(tracked: &CommunityTracks, nodes: usize) -> Vec<f64> {
    (tracked.identities.chunks_exact(nodes))
        .map(|of| {
            let mut all: Vec<u32> = of.iter().copied().filter(|c| *c != NONE).collect();
            all.sort_unstable();
            all.dedup();
            all.len() as f64
        })
        .collect()
}

/// Communities of every window, each from those of the window before.
fn communities(args: &Graph, file: &NetworkFile, bar: &Bar) -> Result<Vec<Communities>> {
    let leiden = Leiden {
        objective: Objective::Modularity {
            resolution: args.resolution,
            signs: Signs::default(),
        },
        seed: args.seed,
        ..Leiden::default()
    };
    let network = &file.network;
    let mut all: Vec<Communities> = Vec::with_capacity(network.len());
    for window in network.windows() {
        progress::check(bar, "communities")?;
        bar.update("communities", window.index as u64, network.len() as u64);
        let graph = Net::of(&window, network.nodes());
        let start = all.last().map(|c| c.communities.as_slice());
        let found = leiden
            .run(&graph, start)
            .map_err(|e| e.at("--resolution"))?;
        all.push(found);
    }
    Ok(all)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn of_window(
    args: &Graph,
    file: &NetworkFile,
    k: usize,
    communities: Option<&Communities>,
    whole: bool,
) -> Result<OfWindow> {
    let network = &file.network;
    let window = network.window(k).ok_or_else(|| {
        Error::argument(format!("window {k}: expected one below {}", network.len()))
    })?;
    let graph = Net::of(&window, network.nodes());
    let mut row = OfWindow {
        values: vec![
            ("edges", graph.edges() as f64),
            ("density", network.density(k).unwrap_or(0.0)),
        ],
        nodes: Vec::new(),
    };
    by_node(args, &graph, &mut row);
    by_graph(args, &graph, communities, &mut row)?;
    if !whole {
        row.nodes.clear();
    }
    Ok(row)
}

/// Adds the measures that every node has for itself.
fn by_node(args: &Graph, graph: &Net, row: &mut OfWindow) {
    let wants = |m: GraphMeasure| args.measures.contains(&m);
    let OfWindow { values, nodes } = row;
    let mut of_nodes = |name: &'static str, values: Vec<f32>| nodes.push((name, values));
    if wants(GraphMeasure::Degree) {
        let degrees = measures::degrees(graph);
        let most = degrees.iter().max().copied().unwrap_or(0);
        values.push(("mean_degree", mean(degrees.iter().map(|d| f64::from(*d)))));
        values.push(("largest_degree", f64::from(most)));
        of_nodes("degree", degrees.iter().map(|d| *d as f32).collect());
    }
    if wants(GraphMeasure::Strength) {
        let strengths = measures::strengths(graph);
        values.push((
            "mean_positive_strength",
            mean(strengths.iter().map(|s| s.0)),
        ));
        values.push((
            "mean_negative_strength",
            mean(strengths.iter().map(|s| s.1)),
        ));
        of_nodes(
            "positive_strength",
            strengths.iter().map(|s| s.0 as f32).collect(),
        );
        of_nodes(
            "negative_strength",
            strengths.iter().map(|s| s.1 as f32).collect(),
        );
    }
    if wants(GraphMeasure::Clustering) {
        let plain = measures::clustering(graph);
        let weighted = measures::weighted_clustering(graph);
        values.push(("clustering", mean(plain.iter().copied())));
        values.push(("weighted_clustering", mean(weighted.iter().copied())));
        values.push(("transitivity", measures::transitivity(graph)));
        of_nodes("node_clustering", plain.iter().map(|c| *c as f32).collect());
    }
}

/// Adds the measures of the whole graph, and of its `communities`.
fn by_graph(
    args: &Graph,
    graph: &Net,
    communities: Option<&Communities>,
    row: &mut OfWindow,
) -> Result<()> {
    let wants = |m: GraphMeasure| args.measures.contains(&m);
    let OfWindow { values, nodes } = row;
    if wants(GraphMeasure::Components) {
        let (of, count) = measures::components(graph);
        let mut sizes = vec![0_u32; count];
        of.iter().for_each(|c| sizes[*c as usize] += 1);
        let largest = sizes.iter().max().copied().unwrap_or(0);
        values.push(("components", count as f64));
        values.push(("largest_component", f64::from(largest)));
    }
    if wants(GraphMeasure::Efficiency) {
        let many = (graph.nodes() > ALL_SOURCES).then_some(SOURCES);
        let sources = args.sources.or(many);
        let paths = measures::paths(graph, false, sources, args.seed);
        values.push(("efficiency", paths.efficiency));
        values.push(("path_length", paths.length));
    }
    if wants(GraphMeasure::Assortativity) {
        let value = measures::assortativity(graph);
        values.push(("assortativity", value.unwrap_or(f64::NAN)));
    }
    if let Some(found) = communities {
        values.push(("modularity", found.quality));
        if wants(GraphMeasure::Participation) {
            let participation = measures::participation(graph, &found.communities)?;
            values.push((
                "mean_participation",
                mean(participation.iter().map(|p| p.0)),
            ));
            let of_nodes = participation.iter().map(|p| p.0 as f32).collect();
            nodes.push(("participation", of_nodes));
        }
    }
    if wants(GraphMeasure::SmallWorld) {
        let found = rewire::small_world(graph, args.rewirings, args.seed)?;
        values.push(("small_world_sigma", found.sigma));
        values.push(("small_world_omega", found.omega));
    }
    Ok(())
}
