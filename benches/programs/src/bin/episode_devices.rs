//! Counting on one GPU against counting on all: `cargo run --release -p betz-programs --bin episode_devices [EVENTS]`.
//!
//! 43,656 candidates of four symbols, as many as Feng et al. (Fig. 1.9) had, in random events; then the levelwise
//! search. In turns, medians; counts are compared.

use std::time::Instant;

use betz_device::Device;
use betz_episode::count::{CountJob, InMemory, Strategy, latest_start_on};
use betz_episode::{Alphabet, Clock, Events, Interval, MineOptions, Pattern, mine_by};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SYMBOLS: u32 = 60;
const CANDIDATES: usize = 43_656;
const TURNS: usize = 5;

fn main() -> betz_base::Result<()> {
    let events = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(100_000_000);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    // About one event per tick of 0.1 ms: 166 per symbol and second.
    let mut ticks: Vec<i64> = (0..events)
        .map(|_| random.random_range(0..events as i64))
        .collect();
    ticks.sort_unstable();
    let symbols: Vec<u32> = (0..events)
        .map(|_| random.random_range(0..SYMBOLS))
        .collect();
    let names = (0..SYMBOLS).map(|s| format!("u{s}")).collect();
    let events = Events::new(
        Alphabet::new(names, Clock::from_tick_seconds(1e-4)?)?,
        &ticks,
        &symbols,
    )?;
    drop((ticks, symbols));
    let delays = [Interval::new(0, 50)?, Interval::new(50, 100)?];
    let mut patterns = Vec::with_capacity(CANDIDATES);
    while patterns.len() < CANDIDATES {
        let nodes = (0..4).map(|_| random.random_range(0..SYMBOLS)).collect();
        let edges = (0..3).map(|_| delays[random.random_range(0..2)]).collect();
        patterns.push(Pattern::new(nodes, edges)?);
    }
    let devices = [Device::cuda(0)?, Device::cuda_all()?];
    let strategies: Vec<Box<dyn Strategy>> = (devices.iter()).map(latest_start_on).collect();
    let job = CountJob::new(&events, &patterns);
    let mut seconds = [Vec::new(), Vec::new()];
    let mut counts = [Vec::new(), Vec::new()];
    for turn in 0..=TURNS {
        for (i, strategy) in strategies.iter().enumerate() {
            let started = Instant::now();
            counts[i] = strategy.count(&job)?;
            let took = started.elapsed().as_secs_f64();
            if turn == 0 {
                println!(
                    "first, with the copy, {}: {took:.3} s",
                    strategy.ran().device
                );
            } else {
                seconds[i].push(took);
            }
        }
    }
    let [one, all] = seconds.map(median);
    println!(
        "{} events, {CANDIDATES} candidates: one {one:.4} s, all {all:.4} s, {:.2} times; counts {}",
        events.len(),
        one / all,
        if counts[0] == counts[1] {
            "equal"
        } else {
            "DIFFER"
        }
    );
    let threshold = counts[0].iter().max().copied().unwrap_or(1) / 2;
    let mut levels = [Vec::new(), Vec::new()];
    let mut found = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        for (i, device) in devices.iter().enumerate() {
            let options = MineOptions {
                max_size: Some(3),
                ..MineOptions::new(delays[..1].to_vec(), threshold)
            };
            let counter = InMemory {
                events: &events,
                strategy: &*latest_start_on(device),
            };
            let started = Instant::now();
            found[i] = mine_by(&counter, &options, &())?.episodes;
            levels[i].push(started.elapsed().as_secs_f64());
        }
    }
    let [one, all] = levels.map(median);
    println!(
        "levelwise to size 3, {} episodes: one {one:.3} s, all {all:.3} s, {:.2} times, the copy included; lists {}",
        found[0].len(),
        one / all,
        if found[0] == found[1] {
            "equal"
        } else {
            "DIFFER"
        }
    );
    Ok(())
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
