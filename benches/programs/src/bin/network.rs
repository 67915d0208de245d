//! Times a network of correlations: `network DATA.f32 NODES LENGTH STEP THRESHOLD [--threads N]
//! [--repeats N] [--arch avx512|avx2|portable] [--measure NAME] [--density D | --top K |
//! --top-per-node K] [--edges OUT]`.
//! DATA is time-major f32. Prints one JSON object; CPU seconds are the process's, least of the repeats.
//! OUT gets (window u32, i u32, j u32, r f32) of every edge.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a program for measuring, not for use

use std::io::Write;
use std::time::Instant;

use betz_network::{Arch, Measure, Network, NetworkSpec, Plan, Signal, Threshold, Window};

/// CPU seconds of all threads that are alive.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split_whitespace().next()?.parse::<f64>().ok())
        .sum::<f64>()
        / 1e9
}

fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|a| a != name);
    arguments.nth(1)
}

fn number(at: usize) -> f64 {
    let text = std::env::args().nth(at).expect("five arguments");
    text.parse().expect("a number")
}

/// The measure, windows and threshold that the arguments name.
fn spec() -> NetworkSpec {
    let window = Window {
        length: number(3) as usize,
        step: number(4) as usize,
    };
    let measure = match option("--measure").as_deref() {
        None | Some("pearson") => Measure::Pearson,
        Some("spearman") => Measure::Spearman,
        Some("kendall") => Measure::Kendall,
        Some("covariance") => Measure::Covariance,
        Some("euclidean") => Measure::Euclidean { hold: 1 },
        Some("plv") => Measure::PhaseLocking,
        Some("partial") => Measure::Partial,
        Some(name) => Measure::Lagged {
            lags: name
                .strip_prefix("lagged")
                .and_then(|l| l.parse().ok())
                .expect("a measure"),
        },
    };
    let mut threshold = Threshold::Absolute(number(5));
    if let Some(density) = option("--density") {
        threshold = Threshold::Density(density.parse().expect("a density"));
    }
    if let Some(count) = option("--top") {
        threshold = Threshold::Top(count.parse().expect("a count"));
    }
    if let Some(count) = option("--top-per-node") {
        threshold = Threshold::TopPerNode(count.parse().expect("a count"));
    }
    NetworkSpec::new(measure, window)
        .threshold(threshold)
        .max_edges(u64::MAX)
}

fn write_edges(network: &Network, path: &str) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for window in network.windows() {
        for (i, j, r) in window.edges() {
            for word in [window.index as u32, i, j, r.to_bits()] {
                file.write_all(&word.to_le_bytes())?;
            }
        }
    }
    file.flush()
}

fn main() {
    let path = std::env::args().nth(1).expect("the data");
    let bytes = std::fs::read(path).expect("the data");
    let samples: Vec<f32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    let nodes = number(2) as usize;
    let threads = option("--threads").map_or(1, |v| v.parse().expect("threads"));
    let repeats: usize = option("--repeats").map_or(3, |v| v.parse().expect("repeats"));
    let signal = Signal::new(&samples, nodes).expect("a signal");
    let mut plan = Plan::new(&spec(), &signal).expect("a plan");
    if let Some(name) = option("--arch") {
        let arch = Arch::available()
            .into_iter()
            .find(|a| a.name() == name)
            .expect("registers");
        plan = plan.with_arch(arch).expect("registers");
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads");
    let (mut wall, mut cpu) = (f64::MAX, f64::MAX);
    let mut last = None;
    for _ in 0..repeats {
        drop(last.take());
        let (start, start_cpu) = (Instant::now(), cpu_seconds());
        let network = pool.install(|| plan.run(&signal, &())).expect("a network");
        wall = wall.min(start.elapsed().as_secs_f64());
        cpu = cpu.min(cpu_seconds() - start_cpu);
        last = Some(network);
    }
    let network = last.expect("at least one repeat");
    let estimate = plan.estimate();
    println!(
        "{{\"nodes\":{nodes},\"windows\":{},\"threads\":{threads},\"arch\":\"{}\",\"seconds\":{wall:.4},\"cpu\":{cpu:.4},\"edges\":{},\"density\":{:.6},\"rechecked\":{},\"rebuilt\":{},\"extreme\":{},\"pair_windows_per_s\":{:.3e},\"expected_seconds\":{:.4},\"expected_bytes\":{}}}",
        network.len(),
        plan.arch().name(),
        network.edges(),
        network.edges() as f64 / estimate.pair_windows,
        network.meta().rechecked,
        network.meta().rebuilt,
        network.meta().extreme,
        estimate.pair_windows / wall,
        estimate.seconds,
        estimate.bytes,
    );
    if let Some(path) = option("--edges") {
        write_edges(&network, &path).expect("the file");
    }
}
