//! Prints the tables of `benches/record/step.md`: linear decoders with one filter, eight, and the bank that training
//! chooses for reaching movements (`reach`: 9 filters, 36 lanes with 4 outputs), a lift and recurrent decoders; back to
//! back, and once per millisecond with other work between.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin bank_latency                       # 10⁶ steps back to back, 10⁴ once per millisecond
//! cargo run --release -p betz-programs --bin bank_latency -- 100000 1000        # fewer
//! cargo run --release -p betz-programs --bin bank_latency -- 100000 1000 lift   # decoders whose names begin so
//! ```
//!
//! 142 channels, 4 outputs, steps of 1 ms; the counts are drawn beforehand (Poisson). Back to back, the loop is
//! timed in parts of 1,000 steps. Once per millisecond, each step is timed with two readings of the clock: as it comes,
//! after a warm call (`Session::warm`), and with nothing between the readings, in turns. Before each the program writes
//! to 8 or 64 MiB and sleeps. What one cache line costs then is printed last. On a machine that is shared, `chrt -f 50 taskset -c 1` keeps other programs away.

#[path = "../decoders.rs"]
mod decoders;

use std::hint::black_box;
use std::time::{Duration, Instant};

use betz::psc::{Filter, FilterBank};
use betz::stream::{Session, SessionConfig};
use decoders::{Kind, OUTPUTS, counts_of_a_step, decoder, preset};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CHANNELS: usize = 142;
/// Ticks drawn; the loops go round in them.
const DRAWN: usize = 1024;
/// Memory that the other work writes to, in MiB: more than the caches of one core, and more than most of a socket's share.
const OTHER_MIB: [u64; 2] = [8, 64];

/// The eight of `step_latency`.
const EIGHT: [(f64, u32); 8] = [
    (0.005, 0),
    (0.01, 1),
    (0.02, 1),
    (0.04, 1),
    (0.05, 0),
    (0.1, 1),
    (0.2, 0),
    (0.4, 0),
];
const ONE: [(f64, u32); 1] = [(0.04, 1)];

fn bank(filters: &[(f64, u32)]) -> betz::Result<FilterBank> {
    let filter = |&(tau_seconds, order)| Filter { tau_seconds, order };
    FilterBank::new(filters.iter().map(filter).collect())
}

/// [`DRAWN`] ticks of counts, (tick, channel), Poisson with `mean`.
fn draw(mean: f64, rng: &mut ChaCha8Rng) -> Vec<u16> {
    let none = (-mean).exp();
    let mut one = || {
        let (mut count, mut product) = (0, rng.random::<f64>());
        while product > none {
            count += 1;
            product *= rng.random::<f64>();
        }
        count
    };
    (0..DRAWN * CHANNELS).map(|_| one()).collect()
}

struct Quantiles {
    p50: f64,
    p99: f64,
    p99_9: f64,
    max: f64,
}

/// Microseconds.
fn quantiles(mut ns: Vec<u64>) -> Quantiles {
    ns.sort_unstable();
    let at = |q: f64| ns[((ns.len() - 1) as f64 * q) as usize] as f64 * 1e-3;
    Quantiles {
        p50: at(0.5),
        p99: at(0.99),
        p99_9: at(0.999),
        max: at(1.0),
    }
}

/// Mean of a step in each part of 1,000, in microseconds: half of the parts take no longer than the first
/// number, and the quickest takes the second. What other programs take of the processor lies between them.
fn back_to_back(session: &mut Session, counts: &[u16], ticks: usize) -> betz::Result<(f64, f64)> {
    const PART: usize = 1000;
    let mut out = [0.0; OUTPUTS];
    let mut rows = counts.chunks_exact(CHANNELS).cycle();
    let mut parts = Vec::with_capacity(ticks / PART + 1);
    for _ in 0..ticks.div_ceil(PART) {
        let start = Instant::now();
        for now in rows.by_ref().take(PART) {
            session.step_counts(black_box(now), &mut out)?;
            black_box(&mut out);
        }
        parts.push(start.elapsed().as_nanos() as u64);
    }
    parts.sort_unstable();
    let mean = |ns: u64| ns as f64 * 1e-3 / PART as f64;
    Ok((mean(parts[parts.len() / 2]), mean(parts[0])))
}

/// Steps once per millisecond after other work, in turns as they come, after a warm call, and none at all (two
/// readings of the clock). A thread that has woken early waits 20 µs for its spikes, with the warm call in it or not.
fn once_a_millisecond(
    session: &mut Session,
    counts: &[u16],
    ticks: usize,
    other: &mut [u64],
) -> betz::Result<[Quantiles; 3]> {
    /// Steps of one way before the next has its turn; the first of them are not counted.
    const TURN: usize = 24;
    const LEFT_OUT: usize = 4;
    let (mut bins, mut out) = ([0; CHANNELS], [0.0; OUTPUTS]);
    let mut times = [const { Vec::new() }; 3];
    let mut next = Instant::now();
    for (step, now) in (counts.chunks_exact(CHANNELS).cycle()).enumerate() {
        let way = step / TURN % times.len();
        if step >= ticks * times.len() * TURN / (TURN - LEFT_OUT) {
            break;
        }
        next += Duration::from_millis(1);
        // One word of every line.
        for word in other.iter_mut().step_by(8) {
            *word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
        }
        black_box(&mut *other);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        // Behind by more than a step, because the processor was away: not caught up with.
        next = next.max(Instant::now());
        let woken = Instant::now();
        if way == 1 {
            session.warm();
        }
        while woken.elapsed() < Duration::from_micros(20) {}
        // As an acquisition would, which has just written them.
        bins.copy_from_slice(now);
        let a = Instant::now();
        if way < 2 {
            session.step_counts(black_box(&bins), &mut out)?;
            black_box(&mut out);
        }
        let b = Instant::now();
        if step % TURN >= LEFT_OUT {
            times[way].push((b - a).as_nanos() as u64);
        }
    }
    Ok(times.map(quantiles))
}

/// Nanoseconds per cache line of a session's size after `other` work: each line's address read from the one before it,
/// and all addresses known beforehand. The median of some rounds.
fn line_ns(other: &mut [u64], rng: &mut ChaCha8Rng) -> [f64; 2] {
    const LINES: usize = 1024;
    const WORDS: usize = 8;
    // Bytes between two lines: prefetchers of neighbours find nothing of use.
    const APART: usize = 1 << 10;
    let mut order: Vec<usize> = (0..LINES).collect();
    order.shuffle(rng);
    let mut lines = vec![0_usize; LINES * APART / WORDS];
    let word = |line: usize| line * APART / WORDS;
    for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
        lines[word(*from)] = word(*to);
    }
    let mut rounds = [const { Vec::new() }; 2];
    for round in 0..2 * 25 {
        for word in other.iter_mut().step_by(WORDS) {
            *word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
        }
        black_box(&mut *other);
        let start = Instant::now();
        let mut at = word(order[0]);
        let mut sum = 0_usize;
        for line in &order {
            if round % 2 == 0 {
                at = lines[at];
            } else {
                sum = sum.wrapping_add(lines[word(*line)]);
            }
        }
        black_box((at, sum));
        rounds[round % 2].push(start.elapsed().as_nanos() as u64);
    }
    rounds.map(|ns| quantiles(ns).p50 * 1e3 / LINES as f64)
}

fn argument(i: usize, otherwise: usize) -> betz::Result<usize> {
    match std::env::args().nth(i).map(|n| n.parse()) {
        None => Ok(otherwise),
        Some(Ok(n)) if n > 0 => Ok(n),
        Some(_) => Err(betz::Error::argument("expected a number of steps above 0")),
    }
}

fn main() -> betz::Result<()> {
    let (warm, cold) = (argument(1, 1_000_000)?, argument(2, 10_000)?);
    println!("{CHANNELS} channels, {OUTPUTS} outputs, counts; µs; statistics on");
    println!();
    println!(
        "| decoder | spikes per bin | back to back, median | least | once per ms, other work | p50 | p99 | p99.9 | max | warm p50 | p99 | p99.9 | max | bare p50 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let begins = std::env::args().nth(3).unwrap_or_default();
    let rows = [
        ("one, order 1", bank(&ONE)?, Kind::Linear),
        ("eight", bank(&EIGHT)?, Kind::Linear),
        ("reach", preset("reach")?, Kind::Linear),
        ("lift 256", preset("reach")?, Kind::Lift(256)),
        (
            "recurrent 64",
            counts_of_a_step()?,
            Kind::Recurrent(&[64], false),
        ),
        (
            "recurrent 64, 64",
            counts_of_a_step()?,
            Kind::Recurrent(&[64, 64], false),
        ),
    ];
    for (name, bank, kind) in rows {
        if !name.starts_with(&begins) {
            continue;
        }
        for mean in [0.02, 0.4, 3.0] {
            let rng = &mut ChaCha8Rng::seed_from_u64(7);
            let decoder = decoder(rng, CHANNELS, bank.clone(), kind)?;
            let counts = draw(mean, rng);
            let mut session = Session::open(&decoder, SessionConfig::default())?;
            let (median, least) = back_to_back(&mut session, &counts, warm)?;
            for mib in OTHER_MIB {
                let mut other: Vec<u64> = (0..mib << 17).collect();
                let [plain, warmed, bare] =
                    once_a_millisecond(&mut session, &counts, cold, &mut other)?;
                print!("| {name} | {mean} | {median:.3} | {least:.3} | {mib} MiB |");
                for q in [plain, warmed] {
                    print!(
                        " {:.2} | {:.2} | {:.2} | {:.1} |",
                        q.p50, q.p99, q.p99_9, q.max
                    );
                }
                println!(" {:.2} |", bare.p50);
            }
        }
    }
    println!();
    for mib in OTHER_MIB {
        let mut other: Vec<u64> = (0..mib << 17).collect();
        let [chained, known] = line_ns(&mut other, &mut ChaCha8Rng::seed_from_u64(7));
        println!(
            "a cache line after {mib} MiB: {chained:.1} ns by the address in the one before, {known:.1} ns with all addresses known"
        );
    }
    Ok(())
}
