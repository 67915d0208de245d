//! Cost of an event online, as a table: `cargo bench -p betz --bench online`.
//!
//! 64 Poisson neurons with four embedded chains of nine; 1,000 watched episodes of size 4. The mean
//! is of a pass without a clock inside; percentiles come from a second pass that reads the clock
//! around every event (its own cost, tens of nanoseconds, included). `apart` counts every episode by
//! itself, without shared prefixes, and is given every event.

#![allow(clippy::unwrap_used, missing_docs)]

use std::time::{Duration, Instant};

use betz::episode::count::count;
use betz::episode::online::{MinerConfig, OnlineMiner, open};
use betz::episode::{Events, Interval, MineOptions, Pattern, mine};
use betz::model::{Decoder, DecoderParts};
use betz::psc::{Filter, FilterBank};
use betz::recording::OutputInfo;
use betz::simulate::network::{NetworkConfig, simulate};
use betz::stream::{Session, SessionConfig};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const EPISODES: usize = 1000;

fn main() {
    println!(
        "| watched | events | Hz per neuron | shared, mean (ns) | p50 | p99 | p99.9 | max (µs) | apart, mean (ns) |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for seconds in [20.0, 100.0] {
        let config = NetworkConfig::sym64(seconds);
        let simulated = simulate(&config, 1).unwrap();
        let events = Events::from_recording(&simulated.recording).unwrap();
        let edge = |low, high| Interval::from_seconds(low, high, events.clock()).unwrap();
        let chain = edge(0.004, 0.006);
        let wide = [edge(0.0, 0.005), edge(0.005, 0.01), edge(0.01, 0.015)];
        row("random, (4, 6] ms", &events, seconds, &random(&[chain]));
        row(
            "random, (0, 5], (5, 10], (10, 15] ms",
            &events,
            seconds,
            &random(&wide),
        );
        row(
            "most frequent, (4, 6] ms",
            &events,
            seconds,
            &frequent(&events, chain),
        );
    }
    feed();
    attached();
}

/// Random episodes of four symbols.
fn random(intervals: &[Interval]) -> Vec<Pattern> {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let interval = |rng: &mut ChaCha8Rng| intervals[rng.random_range(0..intervals.len())];
    (0..EPISODES)
        .map(|_| {
            let symbols = (0..4).map(|_| rng.random_range(0..64)).collect();
            let edges = (0..3).map(|_| interval(&mut rng)).collect();
            Pattern::new(symbols, edges).unwrap()
        })
        .collect()
}

/// The episodes of four symbols with the highest counts in the first 20 s.
fn frequent(events: &Events, edge: Interval) -> Vec<Pattern> {
    let end = events.clock().ticks_floor(20.0).unwrap();
    let (ticks, symbols): (Vec<i64>, Vec<u32>) = events.iter().take_while(|e| e.0 < end).unzip();
    let first = Events::new(events.alphabet().clone(), &ticks, &symbols).unwrap();
    let mut options = MineOptions::new(vec![edge], 20);
    options.max_size = Some(4);
    let mut episodes = mine(&first, &options, &()).unwrap().episodes;
    episodes.retain(|e| e.pattern.size() == 4);
    episodes.sort_by_key(|e| std::cmp::Reverse(e.count));
    episodes.truncate(EPISODES);
    assert_eq!(episodes.len(), EPISODES);
    episodes.into_iter().map(|e| e.pattern).collect()
}

fn row(name: &str, events: &Events, seconds: f64, patterns: &[Pattern]) {
    let stream: Vec<(i64, u32)> = events.iter().collect();
    let offline = count(events, patterns).unwrap();
    let mut mean = Duration::MAX;
    for _ in 0..5 {
        let mut miner = OnlineMiner::new(64, patterns).unwrap();
        let start = Instant::now();
        miner.extend(stream.iter().copied());
        mean = mean.min(start.elapsed());
        assert!(miner.counts().eq(offline.iter().copied()));
    }
    let mut miner = OnlineMiner::new(64, patterns).unwrap();
    let mut times = Histogram::<u64>::new_with_bounds(1, 1_000_000_000, 3).unwrap();
    for &(tick, symbol) in &stream {
        let start = Instant::now();
        miner.push(tick, symbol);
        times.saturating_record(start.elapsed().as_nanos() as u64);
    }
    let some = &stream[..stream.len().min(20_000)];
    let mut each: Vec<OnlineMiner> = patterns
        .iter()
        .map(|p| OnlineMiner::new(64, std::slice::from_ref(p)).unwrap())
        .collect();
    let start = Instant::now();
    for &(tick, symbol) in some {
        for miner in &mut each {
            miner.push(tick, symbol);
        }
    }
    let apart = start.elapsed();
    let per = |time: Duration, n: usize| time.as_nanos() as f64 / n as f64;
    println!(
        "| {name} | {} | {:.0} | {:.0} | {} | {} | {} | {:.1} | {:.0} |",
        stream.len(),
        stream.len() as f64 / seconds / 64.0,
        per(mean, stream.len()),
        times.value_at_quantile(0.5),
        times.value_at_quantile(0.99),
        times.value_at_quantile(0.999),
        times.max() as f64 * 1e-3,
        per(apart, some.len()),
    );
}

/// Cost of an event to the feeder of a miner's thread.
fn feed() {
    let config = MinerConfig {
        capacity: 1 << 22,
        ..MinerConfig::new(64, random(&[Interval::new(400, 600).unwrap()]))
    };
    let (mut feed, handle) = open(config).unwrap();
    let mut times = Histogram::<u64>::new_with_bounds(1, 1_000_000_000, 3).unwrap();
    let spikes: Vec<u32> = (0..16).map(|i| i * 4).collect();
    let ticks = 200_000;
    for tick in 0..ticks {
        let start = Instant::now();
        feed.push_spikes(tick * 100, &spikes);
        times.saturating_record(start.elapsed().as_nanos() as u64);
    }
    handle.flush().unwrap();
    println!(
        "\nfeeding {ticks} steps of 16 spikes: p50 {} ns, p99.9 {} ns per step, {} dropped",
        times.value_at_quantile(0.5),
        times.value_at_quantile(0.999),
        feed.dropped()
    );
}

/// Cost of a session's step with a miner attached, and without.
fn attached() {
    const CHANNELS: usize = 256;
    let filter = Filter {
        tau_seconds: 0.1,
        order: 1,
    };
    let bank = FilterBank::new(vec![filter]).unwrap();
    let names = (0..CHANNELS).map(|c| c.to_string()).collect();
    let outputs = ["x", "y"].map(OutputInfo::from).to_vec();
    let decoder = Decoder::new(DecoderParts {
        weights: (0..CHANNELS * 2).map(|i| i as f64 * 1e-3).collect(),
        ..DecoderParts::linear(0.001, bank, names, outputs)
    })
    .unwrap();
    let spikes: Vec<u32> = (0..16).map(|i| i * 16).collect();
    let mut counts = vec![0_u16; CHANNELS];
    for &channel in &spikes {
        counts[channel as usize] = 1;
    }
    println!("\n| step of 16 spikes, 256 channels | miner | p50 (ns) | p99.9 | dropped |");
    println!("|---|---|---|---|---|");
    for as_counts in [false, true] {
        for with_miner in [false, true] {
            let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
            let config = MinerConfig {
                capacity: 1 << 22,
                ..MinerConfig::new(CHANNELS, random(&[Interval::new(4, 6).unwrap()]))
            };
            let (feed, handle) = open(config).unwrap();
            if with_miner {
                session.attach(Box::new(feed), 0).unwrap();
            }
            let mut estimates = [0.0; 2];
            for _ in 0..200_000 {
                if as_counts {
                    session.step_counts(&counts, &mut estimates).unwrap();
                } else {
                    session.step_spikes(&spikes, &mut estimates).unwrap();
                }
            }
            let latency = session.stats().latency;
            println!(
                "| {} | {} | {:.0} | {:.0} | {} |",
                if as_counts { "counts" } else { "list" },
                if with_miner { "attached" } else { "none" },
                latency.p50_us * 1e3,
                latency.p99_9_us * 1e3,
                handle.summary().dropped
            );
        }
    }
}
