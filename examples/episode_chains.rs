//! Are embedded chains found, and nothing else? `cargo run --release --example episode_chains`
//!
//! Simulates the mining papers' networks, mines them, and tests the frequent episodes size by size:
//! against surrogates and, of those that pass, every part. An episode is tested only if all but its
//! first symbol, and all but its last, have passed, which keeps the number of tests small, and leaves
//! out what two chains make that happen to run side by side. What passes is compared with what was
//! embedded. A *hit* is a contiguous part, of two symbols or more, of an embedded chain; anything else
//! is a *false alarm*.

use std::collections::HashSet;

use betz::Result;
use betz::episode::significance::{
    PartOptions, SignificanceOptions, Surrogate, part_significance, significance,
};
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

    let surrogate = Surrogate::Dither {
        delta: ticks(0.02)?,
    };
    let (least, most) = (ticks(0.1)?, ticks(1.0)?);
    let mut found: HashSet<Pattern> = HashSet::new();
    let (mut tests, mut above_surrogates) = (0, 0);
    for size in 2.. {
        let passed =
            |part: Option<Pattern>| part.is_none_or(|p| p.size() < 2 || found.contains(&p));
        let candidates: Vec<Pattern> = frequent
            .iter()
            .filter(|p| p.size() == size && passed(p.without_first()) && passed(p.without_last()))
            .cloned()
            .collect();
        if candidates.is_empty() {
            break;
        }
        // Most tests are of pairs, few of which are real: they need smaller p-values to stand out.
        let draws = if size == 2 { 3999 } else { 999 };
        let surrogates = SignificanceOptions {
            surrogate,
            surrogates: draws,
            seed,
        };
        let tested = significance(&events, &candidates, &surrogates, &())?;
        let above: Vec<Pattern> = (candidates.iter().zip(&tested))
            .filter(|(_, s)| s.q <= RATE)
            .map(|(p, _)| p.clone())
            .collect();
        let shifts = PartOptions {
            shifts: draws,
            least,
            most,
            seed,
        };
        let parts = part_significance(&events, &above, &shifts, &())?;
        tests += candidates.len();
        above_surrogates += above.len();
        found.extend(
            (above.into_iter().zip(&parts))
                .filter(|(_, part)| part.q <= RATE)
                .map(|(p, _)| p),
        );
    }

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
    let hits = found.iter().filter(|p| parts.contains(*p)).count();
    println!(
        "| {name} | {seed} | {} | {tests} | {above_surrogates} | {} | {} | {hits} | {whole} of {} | {} |",
        frequent.len(),
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
