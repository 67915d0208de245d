//! Prints the table of step latencies in `benches/record/decoders.md`: linear decoders, lifts and experts behind
//! the bank `reach`, back to back and once per millisecond.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin head_latency            # 10⁶ steps per row, 5,000 once per millisecond
//! cargo run --release -p betz-programs --bin head_latency -- 100000  # fewer
//! ```
//!
//! Steps are of 1 ms, channels fire at 20 Hz, drawn before the loop, given as lists. Weights are random:
//! arithmetic takes as long whatever they are. That steps allocate nothing, heads too, is for the test `realtime` of
//! betz-runtime to prove.

use std::hint::black_box;
use std::time::{Duration, Instant};

use betz::model::{Cosines, Decoder, DecoderParts, Experts, FilteredReadout, Gate, Head, Lift};
use betz::recording::OutputInfo;
use betz::stream::{Latency, Session, SessionConfig};
use betz::train::Preset;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const OUTPUTS: usize = 4;
const LATENTS: usize = 12;
const STEP_SECONDS: f64 = 1e-3;
const HERTZ: f64 = 20.0;
/// Steps drawn; the loop goes round in them.
const DRAWN: usize = 1 << 13;
/// Steps of a row that are taken once per millisecond.
const PACED: usize = 5_000;

fn numbers(rng: &mut ChaCha8Rng, n: usize, most: f64) -> Vec<f64> {
    (0..n).map(|_| rng.random_range(-most..most)).collect()
}

fn short(rng: &mut ChaCha8Rng, n: usize, most: f32) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-most..most)).collect()
}

fn readout(rng: &mut ChaCha8Rng, features: usize) -> FilteredReadout {
    FilteredReadout {
        tau_seconds: Some(0.1),
        centre: numbers(rng, features, 0.5),
        direct: numbers(rng, features * OUTPUTS, 1.0),
        filtered: numbers(rng, features * OUTPUTS, 1.0),
        intercept: numbers(rng, OUTPUTS, 2.0),
    }
}

fn head(rng: &mut ChaCha8Rng, kind: &str, size: usize) -> Head {
    let radius = 6.0;
    match kind {
        "lift" => Head::Lift(Lift {
            cosines: Cosines {
                radius,
                frequencies: short(rng, LATENTS * size, 0.05),
                phases: short(rng, size, 0.5),
            },
            readout: readout(rng, LATENTS + size),
            seed: 1,
        }),
        "experts" => Head::Experts(Experts {
            gate: Gate {
                radius,
                weights: short(rng, 2 * LATENTS * size, 0.1),
                bias: short(rng, size, 0.1),
            },
            readout: readout(rng, LATENTS + size + size * LATENTS),
            seed: 1,
        }),
        _ => Head::Linear,
    }
}

fn decoder(
    rng: &mut ChaCha8Rng,
    channels: usize,
    kind: &str,
    size: usize,
) -> betz::Result<Decoder> {
    let bank = Preset::named("reach")
        .ok_or_else(|| betz::Error::argument("expected a bank called reach"))?
        .bank()?;
    let latents = if kind == "linear" { OUTPUTS } else { LATENTS };
    let output = |o| OutputInfo {
        name: format!("output {o}"),
        unit: "mm".into(),
    };
    let names = (0..channels).map(|c| format!("channel {c}")).collect();
    let weights = numbers(rng, channels * bank.len() * latents, 0.05);
    Decoder::new(DecoderParts {
        weights,
        intercept: vec![0.0; latents],
        head: head(rng, kind, size),
        ..DecoderParts::linear(
            STEP_SECONDS,
            bank,
            names,
            (0..OUTPUTS).map(output).collect(),
        )
    })
}

/// Latencies of `steps` steps, one after another or each at its millisecond.
fn measure(
    session: &mut Session,
    spikes: &[Vec<u32>],
    steps: usize,
    pause: Option<Duration>,
) -> betz::Result<Latency> {
    let mut out = [0.0; OUTPUTS];
    for list in spikes.iter().cycle().take(10_000.min(steps)) {
        session.step_spikes(list, &mut out)?;
    }
    session.clear_stats();
    let start = Instant::now();
    for (i, list) in (1..).zip(spikes.iter().cycle().take(steps)) {
        if let Some(pause) = pause {
            let due = pause * i;
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
        session.step_spikes(list, &mut out)?;
        black_box(&mut out);
    }
    Ok(session.stats().latency)
}

fn main() -> betz::Result<()> {
    let steps = match std::env::args().nth(1).map(|n| n.parse::<usize>()) {
        None => 1_000_000,
        Some(Ok(steps)) if steps > 0 => steps,
        Some(_) => return Err(betz::Error::argument("expected a number of steps above 0")),
    };
    println!(
        "{steps} steps per row back to back, {PACED} once per millisecond; µs, the clock's 20 ns in them"
    );
    println!();
    println!(
        "| decoder | channels | p50 | p99 | p99.9 | max | p50, once per ms | p99, once per ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for channels in [95, 1024] {
        for (kind, size) in [
            ("linear", 0),
            ("lift", 256),
            ("experts", 8),
            ("experts", 24),
        ] {
            let rng = &mut ChaCha8Rng::seed_from_u64(3);
            let decoder = decoder(rng, channels, kind, size)?;
            let chance = HERTZ * STEP_SECONDS;
            let spikes: Vec<Vec<u32>> = (0..DRAWN)
                .map(|_| {
                    let all = 0..channels as u32;
                    all.filter(|_| rng.random_bool(chance)).collect()
                })
                .collect();
            let mut session = Session::open(&decoder, SessionConfig::default())?;
            let dense = measure(&mut session, &spikes, steps, None)?;
            let pause = Some(Duration::from_millis(1));
            let paced = measure(&mut session, &spikes, PACED, pause)?;
            let name = if size == 0 {
                kind.to_owned()
            } else {
                format!("{kind} {size}")
            };
            println!(
                "| {name} | {channels} | {:.3} | {:.3} | {:.3} | {:.1} | {:.3} | {:.3} |",
                dense.p50_us,
                dense.p99_us,
                dense.p99_9_us,
                dense.max_us,
                paced.p50_us,
                paced.p99_us
            );
        }
    }
    Ok(())
}
