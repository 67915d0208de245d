//! Are embedded chains found, and nothing else? `cargo run --release --example episode_chains`
//!
//! Simulates the mining papers' networks, mines them, tests every frequent episode against surrogates
//! and, of those that pass, every part, and compares what is left with what was embedded. A *hit* is a
//! contiguous part, of two symbols or more, of an embedded chain; anything else is a *false alarm*.

use std::collections::HashSet;

use betz::Result;
use betz::episode::significance::{
    PartOptions, SignificanceOptions, Surrogate, part_significance, significance,
};
use betz::episode::{Events, Interval, MineOptions, Pattern, mine};
use betz::simulate::network::{NetworkConfig, simulate};

/// False discovery rate of both tests.
const RATE: f64 = 0.05;

/// Episodes at least this often a second are frequent.
const PER_SECOND: f64 = 4.0;

fn main() -> Result<()> {
    println!(
        "| network | seed | frequent | above surrogates | and every part | parts of chains | hits | whole chains | false alarms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
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

    let surrogates = SignificanceOptions {
        surrogate: Surrogate::Dither {
            delta: ticks(0.02)?,
        },
        surrogates: 199,
        seed,
    };
    let tested = significance(&events, &frequent, &surrogates, &())?;
    let above: Vec<Pattern> = frequent
        .iter()
        .zip(&tested)
        .filter(|(_, s)| s.q <= RATE)
        .map(|(p, _)| p.clone())
        .collect();
    let shifts = PartOptions {
        shifts: 999,
        least: ticks(0.1)?,
        most: ticks(1.0)?,
        seed,
    };
    let parts_tested = part_significance(&events, &above, &shifts, &())?;
    let found: HashSet<&Pattern> = above
        .iter()
        .zip(&parts_tested)
        .filter(|(_, e)| e.q <= RATE)
        .map(|(p, _)| p)
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
        whole += usize::from(found.contains(&Pattern::uniform(nodes.clone(), interval)?));
    }
    let hits = found.iter().filter(|p| parts.contains(**p)).count();
    println!(
        "| {name} | {seed} | {} | {} | {} | {} | {hits} | {whole} of {} | {} |",
        frequent.len(),
        above.len(),
        found.len(),
        parts.len(),
        simulated.chains.len(),
        found.len() - hits,
    );
    for (p, e) in above.iter().zip(&parts_tested) {
        if e.q <= RATE && !parts.contains(p) {
            let text = p.display(events.alphabet());
            eprintln!(
                "false alarm: {text}: symbols {:?} have p {:.4}, expected {:.1}",
                e.weakest, e.p, e.expected
            );
        }
    }
    Ok(())
}
