//! Tables I to III of Purgato (2016), beside what this crate takes for the same windows and nodes:
//! `paper_tables [--threads N] [--most NODES]`. Prints Markdown.
//!
//! The video is synthetic (130 × 172 pixels of a byte, 1,000 frames, seeded); nodes are pixels drawn by
//! chance. Up to 3,200 nodes the paper's figures are means over windows of 25, 50 … 200 frames, and so are
//! these. Times are wall-clock: of finding the edges (|r| ≥ 0.9, which some thousandth of the pairs reach), and in all with the `.npz` written.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a program for measuring, not for use

use std::time::Instant;

use betz_network::file::NetworkFile;
use betz_network::{NetworkSpec, Plan, Signal, Threshold, Window};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const HEIGHT: usize = 130;
const WIDTH: usize = 172;
const FRAMES: usize = 1000;

/// A row of the paper's tables, as printed there.
struct Row {
    nodes: usize,
    windows: &'static [usize],
    coefficients: u64,
    total: f64,
    gpu: f64,
    waiting: f64,
    covariance_ms: f64,
    correlation_ms: f64,
    steps: u32,
    windows_a_call: u32,
}

const ALL: &[usize] = &[25, 50, 75, 100, 125, 150, 175, 200];

#[rustfmt::skip]
const ROWS: [Row; 9] = [
    Row { nodes: 100, windows: ALL, coefficients: 8_870_000, total: 28.125, gpu: 0.084, waiting: 27.125, covariance_ms: 83.353, correlation_ms: 0.81, steps: 1, windows_a_call: 889 },
    Row { nodes: 200, windows: ALL, coefficients: 35_480_000, total: 92.0, gpu: 0.309, waiting: 90.5, covariance_ms: 306.773, correlation_ms: 2.095, steps: 1, windows_a_call: 889 },
    Row { nodes: 400, windows: ALL, coefficients: 141_920_000, total: 295.625, gpu: 1.177, waiting: 290.875, covariance_ms: 1170.549, correlation_ms: 6.719, steps: 1, windows_a_call: 889 },
    Row { nodes: 800, windows: ALL, coefficients: 567_680_000, total: 1149.125, gpu: 4.709, waiting: 1133.5, covariance_ms: 669.41, correlation_ms: 3.36, steps: 7, windows_a_call: 127 },
    Row { nodes: 1600, windows: ALL, coefficients: 2_270_720_000, total: 4674.5, gpu: 19.16, waiting: 4618.625, covariance_ms: 488.944, correlation_ms: 2.343, steps: 39, windows_a_call: 23 },
    Row { nodes: 3200, windows: ALL, coefficients: 9_082_880_000, total: 18_493.0, gpu: 76.296, waiting: 18_279.0, covariance_ms: 377.731, correlation_ms: 1.852, steps: 201, windows_a_call: 4 },
    Row { nodes: 6400, windows: &[200], coefficients: 36_331_520_000, total: 72_485.75, gpu: 304.284, waiting: 71_616.75, covariance_ms: 378.029, correlation_ms: 1.852, steps: 801, windows_a_call: 1 },
    Row { nodes: 12_800, windows: &[100], coefficients: 18_350_080_000, total: 307_466.0, gpu: 1106.469, waiting: 303_913.0, covariance_ms: 1221.42, correlation_ms: 6.625, steps: 901, windows_a_call: 1 },
    Row { nodes: 22_360, windows: &[200], coefficients: 49_996_960_000, total: 833_987.0, gpu: 5928.43, waiting: 821_084.0, covariance_ms: 7380.215, correlation_ms: 21.07, steps: 801, windows_a_call: 1 },
];

/// Sixty slow sources with a place each, and noise: (frames, pixels).
fn video() -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(2016);
    let sources: Vec<(f64, f64, f64, Vec<f64>)> = (0..60)
        .map(|_| {
            let (y, x) = (
                rng.random_range(0.0..HEIGHT as f64),
                rng.random_range(0.0..WIDTH as f64),
            );
            let mut value = 0.0;
            let course = (0..FRAMES).map(|_| {
                value = 0.95 * value + rng.random_range(-1.0..1.0);
                value
            });
            let course = course.collect();
            (y, x, rng.random_range(4.0..14.0), course)
        })
        .collect();
    let mut frames = vec![0_u8; FRAMES * HEIGHT * WIDTH];
    let mut course = vec![0.0; FRAMES];
    for pixel in 0..HEIGHT * WIDTH {
        let (y, x) = ((pixel / WIDTH) as f64, (pixel % WIDTH) as f64);
        course.fill(0.0);
        for (sy, sx, radius, of) in &sources {
            let far = ((y - sy).powi(2) + (x - sx).powi(2)) / (2.0 * radius * radius);
            if far < 6.0 {
                let share = 8.0 * (-far).exp();
                course.iter_mut().zip(of).for_each(|(c, s)| *c += share * s);
            }
        }
        for (t, value) in course.iter().enumerate() {
            let grey = 120.0 + value + rng.random_range(-12.0..12.0);
            frames[t * HEIGHT * WIDTH + pixel] = grey.clamp(0.0, 255.0) as u8;
        }
    }
    frames
}

struct RunCost {
    windows: usize,
    compute: f64,
    total: f64,
    edges: u64,
}

fn run(samples: &[u8], nodes: usize, length: usize, folder: &std::path::Path) -> RunCost {
    let begun = Instant::now();
    let signal = Signal::new(samples, nodes).expect("a signal");
    let spec = NetworkSpec::pearson(Window { length, step: 1 })
        .threshold(Threshold::Absolute(0.9))
        .max_edges(u64::MAX);
    let plan = Plan::new(&spec, &signal).expect("a plan");
    let network = plan.run(&signal, &()).expect("a network");
    let compute = begun.elapsed().as_secs_f64();
    let (windows, edges) = (network.len(), network.edges());
    let path = folder.join("net.npz");
    NetworkFile::new(network).write(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file");
    RunCost {
        windows,
        compute,
        total: begun.elapsed().as_secs_f64(),
        edges,
    }
}

/// A row's means over its lengths of windows.
struct Means {
    row: &'static Row,
    compute: f64,
    total: f64,
    pair_windows: f64,
    edges: f64,
}

impl Means {
    fn new(row: &'static Row, runs: &[RunCost]) -> Self {
        let mean =
            |of: &dyn Fn(&RunCost) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let pairs = row.nodes as f64 * (row.nodes as f64 - 1.0) / 2.0;
        Self {
            row,
            compute: mean(&|t| t.compute),
            total: mean(&|t| t.total),
            pair_windows: pairs * mean(&|t| t.windows as f64),
            edges: mean(&|t| t.edges as f64),
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str| -> Option<usize> {
        let at = arguments.iter().position(|a| a == name)?;
        Some(arguments.get(at + 1)?.parse().expect("a number"))
    };
    let threads = option("--threads").unwrap_or(0);
    let most = option("--most").unwrap_or(HEIGHT * WIDTH);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads");
    println!("{} threads\n", pool.current_num_threads());
    let means = pool.install(|| table_1(most));
    table_2(&means);
    table_3(&means);
}

/// Runs every row of at most `most` nodes, and prints each as soon as it is done.
fn table_1(most: usize) -> Vec<Means> {
    let folder = tempfile::tempdir().expect("a folder");
    let frames = video();
    let mut order: Vec<usize> = (0..HEIGHT * WIDTH).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
    println!(
        "Table I: how much there is to compute. The paper's rows of 12,800 and 22,360 nodes are misprinted"
    );
    println!("(N² times 112 and 100 windows); ours are unordered pairs times windows.\n");
    println!(
        "| nodes | windows of | paper: coefficients | pairs × windows | a window's pairs that are edges |"
    );
    println!("|---|---|---|---|---|");
    let mut all = Vec::new();
    for row in ROWS.iter().filter(|row| row.nodes <= most) {
        let mut chosen = order[..row.nodes].to_vec();
        chosen.sort_unstable();
        let samples: Vec<u8> = (frames.chunks_exact(HEIGHT * WIDTH))
            .flat_map(|frame| chosen.iter().map(|pixel| frame[*pixel]))
            .collect();
        let runs: Vec<RunCost> = (row.windows.iter())
            .map(|length| run(&samples, row.nodes, *length, folder.path()))
            .collect();
        let means = Means::new(row, &runs);
        println!(
            "| {} | {} | {} | {:.4e} | {:.3} % |",
            row.nodes,
            match row.windows {
                [one] => one.to_string(),
                _ => "25 … 200".to_owned(),
            },
            row.coefficients,
            means.pair_windows,
            100.0 * means.edges / means.pair_windows,
        );
        all.push(means);
    }
    all
}

fn table_2(means: &[Means]) {
    println!("\nTable II: seconds. The paper's wait is for its text files.\n");
    println!(
        "| nodes | paper: total | on three GPUs | waiting | here: edges | with the file | total / total | GPUs / edges |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for Means {
        row,
        compute,
        total,
        ..
    } in means
    {
        println!(
            "| {} | {} | {} | {} | {compute:.4} | {total:.4} | {:.0} × | {:.0} × |",
            row.nodes,
            row.total,
            row.gpu,
            row.waiting,
            row.total / total,
            row.gpu / compute
        );
    }
}

fn table_3(means: &[Means]) {
    println!(
        "\nTable III: a call of the paper's two kernels, and the same number of windows here.\n"
    );
    println!(
        "| nodes | calls | windows per call | paper: covariance, ms | correlation, ms | here: both, ms | pair-windows/s |"
    );
    println!("|---|---|---|---|---|---|---|");
    for Means {
        row,
        compute,
        pair_windows,
        ..
    } in means
    {
        println!(
            "| {} | {} | {} | {} | {} | {:.3} | {:.2e} |",
            row.nodes,
            row.steps,
            row.windows_a_call,
            row.covariance_ms,
            row.correlation_ms,
            compute * 1e3 / f64::from(row.steps),
            pair_windows / compute
        );
    }
}
