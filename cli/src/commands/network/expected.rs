//! `betz network compute --dry-run`: what it would take.

use betz::network::file::LARGEST;
use betz::network::{Measure, NetworkSpec, Plan, Signal, Threshold, Window};
use betz::{Result, memory};
use serde::Serialize;

use super::args::Compute;
use super::request::Request;
use crate::report::{self, Outcome};

/// Nodes, windows and values of the sample that edges are counted in.
const NODES: usize = 256;
const WINDOWS: usize = 16;
const VALUES: usize = 1 << 25;

#[derive(Serialize)]
struct Estimates {
    dry_run: bool,
    #[serde(flatten)]
    asked: Request,
    windows: usize,
    pairs: u64,
    pair_windows: f64,
    /// `None` where only the whole work tells.
    expected_edges: Option<f64>,
    trailing: usize,
    /// Signal, work and edges.
    memory_bytes: u64,
    expected_seconds: f64,
    device: String,
}

/// `plan` is on the device that would do it.
pub(super) fn run(
    args: &Compute,
    spec: &NetworkSpec,
    signal: &Signal<'_>,
    plan: &Plan,
) -> Result<()> {
    let estimate = plan.estimate();
    let (edges, times) = match args.chance.surrogates {
        Some(count) => (None, count as f64 + 1.0),
        None => (edges(spec, signal, estimate.windows)?, 1.0),
    };
    let lists = edges.map_or(0, |e| (e * 12.0) as u64);
    let mut asked = Request::new(spec, signal);
    if args.chance.surrogates.is_some() {
        asked = Request::new(&spec.threshold(Threshold::Absolute(0.0)), signal);
        asked.threshold = None;
    }
    let expected = Estimates {
        dry_run: true,
        windows: estimate.windows,
        pairs: estimate.pairs,
        pair_windows: estimate.pair_windows,
        expected_edges: edges,
        trailing: estimate.trailing,
        memory_bytes: (estimate.bytes)
            .saturating_add(signal.bytes() as u64)
            .saturating_add(lists),
        expected_seconds: estimate.seconds * times,
        device: plan.device(),
        asked,
    };
    report::tell(&expected, args.common.json)
}

impl Outcome for Estimates {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{} of {}: {} of {} samples every {}",
            report::count(self.asked.samples as u128, "sample"),
            report::count(self.asked.nodes as u128, "node"),
            report::count(self.windows as u128, "window"),
            self.asked.window,
            self.asked.step
        ))?;
        report::line(&format!(
            "{}, {:.3e} over all windows",
            report::count(self.pairs, "pair"),
            self.pair_windows
        ))?;
        report::line(&match self.expected_edges {
            Some(edges) => format!("about {edges:.0} edges"),
            None => "edges: not known before the computation".to_owned(),
        })?;
        let edge = if self.asked.nodes <= 1 << 16 {
            8.0
        } else {
            12.0
        };
        if (self.expected_edges).is_some_and(|edges| edges * edge > LARGEST as f64) {
            report::line(&format!(
                "more than {} to write: a directory (.zarr)",
                memory::size(LARGEST)
            ))?;
        }
        report::line(&format!(
            "about {} and {} on {}, edges included",
            report::duration(self.expected_seconds),
            memory::size(self.memory_bytes),
            self.device
        ))
    }
}

/// Estimates number of edges: given by the threshold itself, or estimated on a sample of nodes and windows.
fn edges(spec: &NetworkSpec, signal: &Signal<'_>, windows: usize) -> Result<Option<f64>> {
    let nodes = signal.nodes();
    let pairs = |n: usize| n as f64 * (n as f64 - 1.0) / 2.0;
    match spec.threshold {
        Threshold::Absolute(_) if spec.measure != Measure::Partial => {}
        Threshold::Absolute(_) => return Ok(None),
        Threshold::Density(share) => {
            return Ok(Some((share * pairs(nodes)).round() * windows as f64));
        }
        Threshold::Top(count) => return Ok(Some(pairs(nodes).min(count as f64) * windows as f64)),
        Threshold::TopPerNode(count) => {
            let most = pairs(nodes).min(nodes as f64 * count as f64);
            return Ok(Some(most * windows as f64));
        }
    }
    let few = (VALUES / signal.samples().max(1))
        .clamp(2, NODES)
        .min(nodes);
    if few < 2 {
        return Ok(Some(0.0));
    }
    let samples = some(signal, few);
    let part = match signal.axes() {
        1 => Signal::new(&samples, few)?,
        axes => Signal::places(&samples, few, axes)?,
    };
    let part = part.with_segments(signal.segments().to_vec())?;
    let skip = match spec.measure {
        // A hold spans consecutive windows, so none is skipped.
        Measure::Euclidean { hold } if hold > 1 => 1,
        _ => windows.div_ceil(WINDOWS),
    };
    let sparse = NetworkSpec {
        window: Window {
            step: spec.window.step.saturating_mul(skip),
            ..spec.window
        },
        max_edges: u64::MAX,
        ..*spec
    };
    let plan = Plan::new(&sparse, &part)?;
    let found = plan.run(&part, &())?;
    let share = found.edges() as f64 / pairs(few) / found.len().max(1) as f64;
    Ok(Some((share * pairs(nodes) * windows as f64).round()))
}

/// The samples of `few` nodes, evenly chosen.
fn some(signal: &Signal<'_>, few: usize) -> Vec<f64> {
    let chosen: Vec<usize> = (0..few).map(|k| k * signal.nodes() / few).collect();
    (0..signal.samples())
        .flat_map(|t| chosen.iter().map(move |n| (t, *n)))
        .flat_map(|(t, n)| match signal.axes() {
            1 => vec![signal.value(t, n)],
            axes => signal.place(t, n).unwrap_or([f64::NAN; 3])[..axes].to_vec(),
        })
        .collect()
}
