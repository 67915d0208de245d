//! Prints the table of `benches/record/step.md`: latencies of one step, over ten million ticks each.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin step_latency            # 10⁷ ticks per row
//! cargo run --release -p betz-programs --bin step_latency -- 100000  # fewer
//! ```
//!
//! Spikes come at 20 Hz per channel on a clock of 0.25 ms, drawn before the loop. Counts are written
//! into their array tick by tick, as an acquisition would. The last column and the two lines about
//! the machine tell what it did meanwhile: a loop that does nothing but read the clock has a maximum
//! as well.

use std::hint::black_box;
use std::time::Instant;

use betz::model::{Decoder, DecoderParts};
use betz::psc::{Filter, FilterBank};
use betz::recording::OutputInfo;
use betz::stream::{Session, SessionConfig, Stats};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const STEP_SECONDS: f64 = 0.25e-3;
const HERTZ: f64 = 20.0;
/// Ticks drawn; the loop goes round in them.
const DRAWN: usize = 1 << 15;

/// Time constant and order of the single filter.
const ONE: [(f64, u32); 1] = [(0.04, 1)];

/// Time constants and orders of the bank of eight.
const BANK: [(f64, u32); 8] = [
    (0.005, 0),
    (0.01, 1),
    (0.02, 1),
    (0.04, 1),
    (0.05, 0),
    (0.1, 1),
    (0.2, 0),
    (0.4, 0),
];

/// Form of a tick's spikes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Input {
    List,
    Counts,
    /// A list, always empty, after a burst has set every state going.
    Silence,
}

struct Row {
    channels: usize,
    outputs: usize,
    filters: &'static [(f64, u32)],
    input: Input,
}

const ROWS: [Row; 9] = [
    row(1024, 2, &ONE, Input::List),
    row(1024, 2, &ONE, Input::Counts),
    row(1024, 2, &ONE, Input::Silence),
    row(1024, 2, &BANK, Input::List),
    row(1024, 2, &BANK, Input::Counts),
    row(1024, 2, &BANK, Input::Silence),
    row(16384, 2, &ONE, Input::List),
    row(16384, 2, &BANK, Input::List),
    row(142, 4, &ONE, Input::Counts),
];

const fn row(channels: usize, outputs: usize, filters: &'static [(f64, u32)], input: Input) -> Row {
    Row {
        channels,
        outputs,
        filters,
        input,
    }
}

fn decoder(row: &Row, rng: &mut ChaCha8Rng) -> betz::Result<Decoder> {
    let filters = (row.filters.iter())
        .map(|&(tau_seconds, order)| Filter { tau_seconds, order })
        .collect();
    let output = |o| OutputInfo {
        name: format!("output {o}"),
        unit: "mm".into(),
    };
    let bank = FilterBank::new(filters)?;
    let names = (0..row.channels).map(|c| format!("channel {c}")).collect();
    let outputs = (0..row.outputs).map(output).collect();
    Decoder::new(DecoderParts {
        weights: (0..row.channels * row.filters.len() * row.outputs)
            .map(|_| rng.random_range(-1.0..1.0))
            .collect(),
        intercept: vec![0.5; row.outputs],
        ..DecoderParts::linear(STEP_SECONDS, bank, names, outputs)
    })
}

/// The channels that fire in each of [`DRAWN`] ticks.
fn draw(row: &Row, rng: &mut ChaCha8Rng) -> Vec<Vec<u32>> {
    let chance = HERTZ * STEP_SECONDS;
    (0..DRAWN)
        .map(|_| {
            (0..row.channels as u32)
                .filter(|_| rng.random_bool(chance))
                .collect()
        })
        .collect()
}

fn measure(row: &Row, ticks: usize) -> betz::Result<(Stats, f64, f64)> {
    let rng = &mut ChaCha8Rng::seed_from_u64(7);
    let decoder = decoder(row, rng)?;
    let spikes = draw(row, rng);
    let opening = Instant::now();
    let mut session = Session::open(&decoder, SessionConfig::default())?;
    let open_ms = opening.elapsed().as_secs_f64() * 1e3;
    let mut out = vec![0.0; row.outputs];
    let mut counts = vec![0u16; row.channels];
    let burst: Vec<u32> = (0..row.channels as u32).collect();
    session.step_spikes(&burst, &mut out)?;
    // Ten thousand ticks for the caches and the branch predictor.
    let mut run = |session: &mut Session, ticks: usize| -> betz::Result<()> {
        for tick in 0..ticks {
            let list = &spikes[tick % DRAWN];
            match row.input {
                Input::List => session.step_spikes(list, &mut out)?,
                Input::Silence => session.step_spikes(&[], &mut out)?,
                Input::Counts => {
                    for &channel in list {
                        counts[channel as usize] += 1;
                    }
                    session.step_counts(&counts, &mut out)?;
                    for &channel in list {
                        counts[channel as usize] = 0;
                    }
                }
            }
            black_box(&mut out);
        }
        Ok(())
    };
    run(&mut session, 10_000)?;
    session.clear_stats();
    let start = Instant::now();
    run(&mut session, ticks)?;
    let mean_ns = start.elapsed().as_secs_f64() * 1e9 / ticks as f64;
    Ok((session.stats(), mean_ns, open_ms))
}

/// The longest gap in a loop that only reads the clock, in microseconds.
fn longest_gap(seconds: f64) -> f64 {
    let start = Instant::now();
    let (mut last, mut longest) = (start, 0.0f64);
    while last.duration_since(start).as_secs_f64() < seconds {
        let now = Instant::now();
        longest = longest.max(now.duration_since(last).as_secs_f64());
        last = now;
    }
    longest * 1e6
}

/// Stolen ticks (10 ms each) of all processors since boot, and this thread's involuntary context
/// switches; zeros where the system does not say.
fn interruptions() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = (stat.lines().next())
        .and_then(|cpu| cpu.split_whitespace().nth(8)?.parse().ok())
        .unwrap_or(0);
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let switches = (status.lines())
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))
        .and_then(|n| n.trim().parse().ok())
        .unwrap_or(0);
    (stolen, switches)
}

fn main() -> betz::Result<()> {
    let ticks = match std::env::args().nth(1).map(|n| n.parse::<usize>()) {
        None => 10_000_000,
        Some(Ok(ticks)) if ticks > 0 => ticks,
        Some(_) => return Err(betz::Error::argument("expected a number of ticks above 0")),
    };
    println!(
        "{ticks} ticks per row, statistics on; µs, of the step alone; `loop` is the mean of the whole loop"
    );
    println!();
    println!(
        "| step | p50 | p99 | p99.9 | max | mean | loop | bare loop's max | stolen, switched | open (ms) |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for row in &ROWS {
        let before = interruptions();
        let (stats, mean_ns, open_ms) = measure(row, ticks)?;
        let after = interruptions();
        let gap = longest_gap(mean_ns * 1e-9 * ticks as f64);
        let l = stats.latency;
        println!(
            "| {} channels, {} filters, {} outputs, {:?} | {:.3} | {:.3} | {:.3} | {:.1} | {:.3} | {:.3} | {gap:.1} | {} ms, {} × | {open_ms:.2} |",
            row.channels,
            row.filters.len(),
            row.outputs,
            row.input,
            l.p50_us,
            l.p99_us,
            l.p99_9_us,
            l.max_us,
            l.mean_us,
            mean_ns / 1e3,
            (after.0 - before.0) * 10,
            after.1 - before.1,
        );
    }
    Ok(())
}
