//! Are embedded chains found, and nothing else? `cargo run --release -p betz-programs --bin episode_chains`
//!
//! Simulates the mining papers' networks, mines them, and tests the frequent episodes size by size,
//! against surrogates and part by part (`significance::chains`). What passes is compared with what was
//! embedded. A *hit* is a contiguous part, of two symbols or more, of an embedded chain; anything else
//! is a *false alarm*.

use std::collections::HashSet;

use betz::Result;
use betz::episode::significance::{ChainOptions, ChainTest, Surrogate, chains};
use betz::episode::{Events, Interval, MineOptions, Pattern, mine};
use betz::simulate::network::{NetworkConfig, simulate};

/// False discovery rate of both tests, at each size.
const RATE: f64 = 0.01;

/// Episodes at least this often a second are frequent.
const PER_SECOND: f64 = 4.0;

fn main() -> Result<()> {
    println!(
        "| network | seed | frequent | tested | above surrogates | and every part | parts of chains | hits | whole chains | false alarms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let networks = [
        ("Sym26, 60 s", NetworkConfig::sym26()),
        ("64 neurons, 20 s", NetworkConfig::sym64(20.0)),
        ("64 neurons, 50 s", NetworkConfig::sym64(50.0)),
    ];
    for (name, config) in networks {
        for seed in 1..=3 {
            row(name, &config, seed)?;
        }
    }
    Ok(())
}

fn row(name: &str, config: &NetworkConfig, seed: u64) -> Result<()> {
    let simulated = simulate(config, seed)?;
    let events = Events::from_recording(&simulated.recording)?;
    let ticks = |seconds: f64| events.clock().ticks_floor(seconds);
    let interval = Interval::new(
        ticks(config.delay_seconds.0)?,
        ticks(config.delay_seconds.1)?,
    )?;
    let options = MineOptions::new(vec![interval], (PER_SECOND * config.seconds) as u64);
    let mut frequent: Vec<Pattern> = mine(&events, &options, &())?
        .episodes
        .into_iter()
        .map(|e| e.pattern)
        .collect();
    frequent.retain(|p| p.size() > 1);

    let options = ChainOptions {
        surrogate: Surrogate::Dither {
            delta: ticks(0.02)?,
        },
        draws: 999,
        shifts: (ticks(0.1)?, ticks(1.0)?),
        rate: RATE,
        seed,
    };
    let results = chains(&events, &frequent, &options, &())?;
    let tested: Vec<(&Pattern, &ChainTest)> = (frequent.iter().zip(&results))
        .filter_map(|(pattern, test)| Some((pattern, test.as_ref()?)))
        .collect();
    let above_surrogates = tested.iter().filter(|(_, t)| t.parts.is_some()).count();
    let found: HashSet<&Pattern> = (tested.iter().filter(|(_, t)| t.passed))
        .map(|&(pattern, _)| pattern)
        .collect();

    let mut parts = HashSet::new();
    let mut whole = 0;
    for chain in &simulated.chains {
        let nodes = &chain.nodes;
        for from in 0..nodes.len() {
            for to in from + 2..=nodes.len() {
                parts.insert(Pattern::uniform(nodes[from..to].to_vec(), interval)?);
            }
        }
        let chain = Pattern::uniform(nodes.clone(), interval)?;
        whole += usize::from(found.contains(&chain));
    }
    let hits = found.iter().filter(|p| parts.contains(*p)).count();
    println!(
        "| {name} | {seed} | {} | {} | {above_surrogates} | {} | {} | {hits} | {whole} of {} | {} |",
        frequent.len(),
        tested.len(),
        found.len(),
        parts.len(),
        simulated.chains.len(),
        found.len() - hits,
    );
    for pattern in found.iter().filter(|p| !parts.contains(*p)) {
        eprintln!("false alarm: {}", pattern.display(events.alphabet()));
    }
    Ok(())
}
