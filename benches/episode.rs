//! Counting and mining episodes, as tables: `cargo bench --bench episode -- [SECTION…]`.
//!
//! Sections: `thirty`, `events`, `length`, `candidates`, `levelwise`; all but `levelwise` when none
//! is named. `--threads N` sets the threads of the parallel strategies (default 2); `serial` runs on
//! one core whatever the number.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::{Duration, Instant};

use betz::episode::count::{CountJob, strategies, strategy};
use betz::episode::{Alphabet, Clock, Events, Interval, Pattern};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const PER_SECOND: f64 = 1e12;

/// 64 Poisson neurons with four embedded chains of nine.
struct Network {
    seconds: f64,
    /// Total rate of each neuron, chains included, in spikes a second.
    rate: f64,
    seed: u64,
}

/// The four chains: nine different neurons each.
fn chains() -> Vec<Vec<u32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(64);
    (0..4)
        .map(|_| {
            let mut neurons: Vec<u32> = (0..64).collect();
            for i in 0..9 {
                let j = rng.random_range(i..64);
                neurons.swap(i, j);
            }
            neurons.truncate(9);
            neurons
        })
        .collect()
}

impl Network {
    fn events(&self) -> Events {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let chains = chains();
        // Each chain starts 4 times a second and passes on each spike with probability 0.9.
        let (start, pass) = (4.0, 0.9);
        let mut embedded = vec![0.0; 64];
        for chain in &chains {
            for (k, &n) in chain.iter().enumerate() {
                embedded[n as usize] += start * f64::powi(pass, k as i32);
            }
        }
        let gap =
            |rate: f64, rng: &mut ChaCha8Rng| -> f64 { -(1.0 - rng.random::<f64>()).ln() / rate };
        let mut pairs: Vec<(i64, u32)> = Vec::new();
        for n in 0..64_u32 {
            let rate = self.rate - embedded[n as usize];
            let mut t = gap(rate, &mut rng);
            while t < self.seconds {
                pairs.push(((t * PER_SECOND) as i64, n));
                t += gap(rate, &mut rng);
            }
        }
        for chain in &chains {
            let mut begin = gap(start, &mut rng);
            while begin < self.seconds {
                let mut t = begin;
                for &n in chain {
                    pairs.push(((t * PER_SECOND) as i64, n));
                    if !rng.random_bool(pass) {
                        break;
                    }
                    t += rng.random_range(0.0042..0.0058);
                }
                begin += gap(start, &mut rng);
            }
        }
        pairs.sort_unstable();
        let (ticks, symbols): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
        Events::new(alphabet(64), &ticks, &symbols).unwrap()
    }
}

fn alphabet(symbols: usize) -> Alphabet {
    let labels = (0..symbols).map(|i| format!("n{i}")).collect();
    Alphabet::new(labels, Clock::from_tick_seconds(1e-12).unwrap()).unwrap()
}

fn interval(low: f64, high: f64) -> Interval {
    Interval::from_seconds(low, high, Clock::from_tick_seconds(1e-12).unwrap()).unwrap()
}

/// The four embedded chains and random ones: `count` episodes of `size` symbols.
fn episodes(count: usize, size: usize) -> Vec<Pattern> {
    let mut rng = ChaCha8Rng::seed_from_u64(30);
    let edge = interval(0.004, 0.006);
    let mut list = chains();
    while list.len() < count {
        list.push((0..size.max(9)).map(|_| rng.random_range(0..64)).collect());
    }
    list.truncate(count);
    list.into_iter()
        .map(|mut symbols| {
            symbols.truncate(size);
            Pattern::uniform(symbols, edge).unwrap()
        })
        .collect()
}

/// The fastest of a few runs, and the counts.
fn time(name: &str, threads: usize, job: &CountJob<'_>) -> (Duration, Vec<u64>) {
    let strategy = strategy(name).unwrap();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    let mut best = Duration::MAX;
    let mut counts = Vec::new();
    let begun = Instant::now();
    for _ in 0..7 {
        let start = Instant::now();
        counts = pool.install(|| strategy.count(job)).unwrap();
        best = best.min(start.elapsed());
        if begun.elapsed() > Duration::from_secs(2) {
            break;
        }
    }
    (best, counts)
}

fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms >= 100.0 {
        format!("{ms:.0}")
    } else if ms >= 10.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.2}")
    }
}

/// Thirty nine-node episodes on 12.8 M events.
fn thirty(threads: usize) {
    let network = Network {
        seconds: 4000.0,
        rate: 50.0,
        seed: 1,
    };
    let events = network.events();
    let patterns = episodes(30, 9);
    println!("## 30 nine-node episodes, {} events\n", events.len());
    println!("| strategy | threads | ms | serial / this |\n|---|---|---|---|");
    let job = CountJob::new(&events, &patterns);
    let (serial, expected) = time("serial", 1, &job);
    println!("| serial | 1 | {} | 1 |", milliseconds(serial));
    for strategy in strategies() {
        if strategy.name() == "serial" {
            continue;
        }
        for threads in [1, threads] {
            let (took, counts) = time(strategy.name(), threads, &job);
            assert_eq!(counts, expected, "{}", strategy.name());
            println!(
                "| {} | {threads} | {} | {:.1} |",
                strategy.name(),
                milliseconds(took),
                serial.as_secs_f64() / took.as_secs_f64()
            );
        }
    }
    println!("\ncounts: {expected:?}\n");
}

fn main() {
    let mut sections: Vec<String> = Vec::new();
    let mut threads = 2;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = arguments.next().unwrap().parse().unwrap(),
            "--bench" => {}
            name => sections.push(name.to_owned()),
        }
    }
    let wanted = |name: &str| sections.is_empty() || sections.iter().any(|s| s == name);
    if wanted("thirty") {
        thirty(threads);
    }
}
