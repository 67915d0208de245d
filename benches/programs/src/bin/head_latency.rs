//! Prints the table of step latencies in `benches/record/decoders.md`: linear decoders, lifts, experts and recurrent
//! networks behind the bank `reach`, back to back and once per millisecond.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin head_latency            # 10⁶ steps per row, 5,000 once per millisecond
//! cargo run --release -p betz-programs --bin head_latency -- 100000  # fewer
//! ```
//!
//! Steps are of 1 ms, channels fire at 20 Hz, drawn before the loop, given as lists. The test `realtime` of
//! betz-runtime proves that no step allocates.

#[path = "../decoders.rs"]
mod decoders;

use std::hint::black_box;
use std::time::{Duration, Instant};

use betz::stream::{Latency, Session, SessionConfig};
use decoders::{Kind, OUTPUTS, STEP_SECONDS, counts_of_a_step, decoder, preset};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const HERTZ: f64 = 20.0;
/// Steps drawn; the loop goes round in them.
const DRAWN: usize = 1 << 13;
/// Steps of a row that are taken once per millisecond.
const PACED: usize = 5_000;

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
        for (name, kind) in [
            ("linear", Kind::Linear),
            ("lift 256", Kind::Lift(256)),
            ("experts 8", Kind::Experts(8)),
            ("experts 24", Kind::Experts(24)),
            ("recurrent 64", Kind::Recurrent(&[64], false)),
            ("recurrent 64, 64", Kind::Recurrent(&[64, 64], false)),
            ("recurrent 256", Kind::Recurrent(&[256], false)),
            ("recurrent 256, bf16", Kind::Recurrent(&[256], true)),
        ] {
            let rng = &mut ChaCha8Rng::seed_from_u64(3);
            let bank = match kind {
                Kind::Recurrent(..) => counts_of_a_step()?,
                _ => preset("reach")?,
            };
            let decoder = decoder(rng, channels, bank, kind)?;
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
