//! Counting on one GPU against counting on all: `cargo run --release -p betz-programs --bin episode_devices [EVENTS]`.
//!
//! 43,656 candidates of four symbols, as many as Feng et al. (Fig. 1.9) had, in random events; then the levelwise
//! search. In turns, medians; counts are compared.

use std::time::Instant;

use betz_base::Result;
use betz_device::Device;
use betz_episode::count::{CountJob, InMemory, Strategy, latest_start_on};
use betz_episode::{Alphabet, Clock, Events, Interval, MineOptions, Pattern, mine_by};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SYMBOLS: u32 = 60;
const CANDIDATES: usize = 43_656;
const TURNS: usize = 5;

/// About one event per tick of 0.1 ms: 166 per symbol and second.
fn random_events(random: &mut ChaCha8Rng, events: usize) -> Result<Events> {
    let mut ticks: Vec<i64> = (0..events)
        .map(|_| random.random_range(0..events as i64))
        .collect();
    ticks.sort_unstable();
    let symbols: Vec<u32> = (0..events)
        .map(|_| random.random_range(0..SYMBOLS))
        .collect();
    let names = (0..SYMBOLS).map(|s| format!("u{s}")).collect();
    let alphabet = Alphabet::new(names, Clock::from_tick_seconds(1e-4)?)?;
    Events::new(alphabet, &ticks, &symbols)
}

fn random_candidates(random: &mut ChaCha8Rng, delays: [Interval; 2]) -> Result<Vec<Pattern>> {
    let mut patterns = Vec::with_capacity(CANDIDATES);
    while patterns.len() < CANDIDATES {
        let nodes = (0..4).map(|_| random.random_range(0..SYMBOLS)).collect();
        let edges = (0..3).map(|_| delays[random.random_range(0..2)]).collect();
        patterns.push(Pattern::new(nodes, edges)?);
    }
    Ok(patterns)
}

/// Median seconds of one device and of all, and the words that say whether their results are equal.
struct Comparison {
    one: f64,
    all: f64,
    results: &'static str,
}

impl Comparison {
    fn new<T: PartialEq>(seconds: [Vec<f64>; 2], results: &[T; 2]) -> Self {
        let [one, all] = seconds.map(median);
        let results = if results[0] == results[1] {
            "equal"
        } else {
            "DIFFER"
        };
        Self { one, all, results }
    }
}

/// Prints what counting the candidates takes, and returns their largest count.
fn compare_counting(devices: &[Device; 2], events: &Events, patterns: &[Pattern]) -> Result<u64> {
    let strategies: Vec<Box<dyn Strategy>> = devices.iter().map(latest_start_on).collect();
    let job = CountJob::new(events, patterns);
    let mut seconds = [Vec::new(), Vec::new()];
    let mut counts = [Vec::new(), Vec::new()];
    for turn in 0..=TURNS {
        for (i, strategy) in strategies.iter().enumerate() {
            let started = Instant::now();
            counts[i] = strategy.count(&job)?;
            let took = started.elapsed().as_secs_f64();
            if turn == 0 {
                let device = strategy.ran().device;
                println!("first, with the copy, {device}: {took:.3} s");
            } else {
                seconds[i].push(took);
            }
        }
    }
    let Comparison { one, all, results } = Comparison::new(seconds, &counts);
    println!(
        "{} events, {CANDIDATES} candidates: one {one:.4} s, all {all:.4} s, {:.2} times; counts {results}",
        events.len(),
        one / all,
    );
    Ok(counts[0].iter().max().copied().unwrap_or(1))
}

/// Prints what the levelwise search takes.
fn compare_search(devices: &[Device; 2], events: &Events, options: &MineOptions) -> Result<()> {
    let mut seconds = [Vec::new(), Vec::new()];
    let mut found = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        for (i, device) in devices.iter().enumerate() {
            let counter = InMemory {
                events,
                strategy: &*latest_start_on(device),
            };
            let started = Instant::now();
            found[i] = mine_by(&counter, options, &())?.episodes;
            seconds[i].push(started.elapsed().as_secs_f64());
        }
    }
    let Comparison { one, all, results } = Comparison::new(seconds, &found);
    println!(
        "levelwise to size 3, {} episodes: one {one:.3} s, all {all:.3} s, {:.2} times, the copy included; lists {results}",
        found[0].len(),
        one / all,
    );
    Ok(())
}

fn main() -> Result<()> {
    let events = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(100_000_000);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let events = random_events(&mut random, events)?;
    let delays = [Interval::new(0, 50)?, Interval::new(50, 100)?];
    let patterns = random_candidates(&mut random, delays)?;
    let devices = [Device::cuda(0)?, Device::cuda_all()?];
    let most = compare_counting(&devices, &events, &patterns)?;
    let options = MineOptions {
        max_size: Some(3),
        ..MineOptions::new(delays[..1].to_vec(), most / 2)
    };
    compare_search(&devices, &events, &options)
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
