//! Cost of a step of a layout: `cargo run --release -p betz-programs --bin graph_layout -- [NODES] [EDGES] [STEPS]`.
//!
//! Nodes in forty groups, six edges of seven inside them. Prints the least and the median of the steps, in
//! milliseconds, and CPU milliseconds per step of all threads.

use std::time::Instant;

use betz_network::Result;
use betz_network::graph::Graph;
use betz_network::graph::layout::Layout;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const GROUPS: usize = 40;

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let mut next = |otherwise| numbers.next().and_then(|n| n.ok()).unwrap_or(otherwise);
    let (nodes, edges, steps) = (next(20_000), next(200_000), next(300));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut all = std::collections::BTreeMap::new();
    while all.len() < edges {
        let a = rng.random_range(0..nodes);
        let b = match rng.random_range(0..7) {
            0 => rng.random_range(0..nodes),
            _ => (rng.random_range(0..nodes / GROUPS) * GROUPS + a % GROUPS).min(nodes - 1),
        };
        if a != b {
            all.insert(
                (a.min(b) as u32, a.max(b) as u32),
                rng.random_range(0.3..1.0),
            );
        }
    }
    let graph = Graph::new(nodes, all.into_iter().map(|((i, j), w)| (i, j, w)))?;
    let mut layout = Layout::new(&graph, 1, None)?;
    let mut times: Vec<f64> = Vec::new();
    let (started, cpu) = (Instant::now(), cpu_seconds());
    for _ in 0..steps.max(1) {
        let began = Instant::now();
        layout.step(&graph);
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let (whole, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    times.sort_by(f64::total_cmp);
    println!(
        "{nodes} nodes, {edges} edges, {} threads: a step takes {:.2} ms at least, {:.2} ms median, {:.2} CPU ms; {steps} steps {whole:.2} s",
        std::thread::available_parallelism().map_or(1, usize::from),
        times[0],
        times[times.len() / 2],
        cpu * 1e3 / times.len() as f64
    );
    Ok(())
}

/// Of all threads, user and system; 0 where the system does not say.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or("");
    let ticks = |k: usize| {
        after
            .split_whitespace()
            .nth(k)
            .and_then(|t| t.parse::<f64>().ok())
    };
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}
