//! An acquisition thread, a ring buffer, a decoding thread: the shape of a real-time controller.
//!
//! ```sh
//! cargo run --release -p betz --example stream_ring_buffer
//! ```
//!
//! The acquisition thread stands for the amplifier: every tick it draws spikes of 64 channels whose
//! rates follow a slow movement. The decoding thread decodes each tick as soon as it is complete.

use std::thread;
use std::time::{Duration, Instant};

use betz::model::{Decoder, DecoderParts};
use betz::psc::{Filter, FilterBank};
use betz::stream::{LateSpikes, Session, SessionConfig, Spike, SpikeProducer, spike_queue};
use rand::{RngExt, SeedableRng};

const CHANNELS: u32 = 64;
const STEP: Duration = Duration::from_millis(1);
const TICKS: i64 = 3000;

/// Where the hand is at `tick`, −1 to 1.
fn movement(tick: i64) -> f64 {
    (tick as f64 * STEP.as_secs_f64() * std::f64::consts::TAU / 2.0).sin()
}

/// Even channels fire more to the right, odd ones more to the left: 30 ± 30 Hz.
fn preference(channel: u32) -> f64 {
    if channel.is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// Pushes every tick's spikes, then says that the tick is complete.
fn acquire(mut producer: SpikeProducer) {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let start = Instant::now();
    for tick in 0..TICKS {
        for channel in 0..CHANNELS {
            let hertz = 30.0 * (1.0 + preference(channel) * movement(tick));
            if rng.random_bool(hertz * STEP.as_secs_f64()) {
                // Without room the spike is dropped and counted; acquisition never waits.
                producer.push(&[Spike { tick, channel }]);
            }
        }
        producer.mark(tick);
        let due = start + STEP * (tick as u32 + 1);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// A decoder made by hand; `betz train` or `betz::train` makes a better one.
fn decoder() -> betz::Result<Decoder> {
    let spikes_a_step = 30.0 * STEP.as_secs_f64() * f64::from(CHANNELS);
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.05,
        order: 1,
    }])?;
    let names = (0..CHANNELS).map(|c| format!("channel {c}")).collect();
    Decoder::new(DecoderParts {
        weights: (0..CHANNELS)
            .map(|c| preference(c) / spikes_a_step)
            .collect(),
        ..DecoderParts::linear(STEP.as_secs_f64(), bank, names, vec!["x".into()])
    })
}

fn main() -> betz::Result<()> {
    let decoder = decoder()?;
    let config = SessionConfig {
        deadline: Some(STEP),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&decoder, config)?;
    let (producer, mut consumer) = spike_queue(4096, LateSpikes::Take)?;

    let acquisition = thread::spawn(move || acquire(producer));
    let mut x = [0.0];
    while consumer.tick() < TICKS {
        if !consumer.is_ready() {
            // A controller with a core of its own would spin, or sleep to an absolute deadline.
            thread::sleep(STEP / 10);
            continue;
        }
        consumer.step(&mut session, &mut x)?;
        if consumer.tick() % 250 == 0 {
            let bar = "*".repeat((20.0 * (x[0] + 1.2)).clamp(0.0, 48.0) as usize);
            println!(
                "{:5.2} s  x = {:+.2}  {bar}",
                consumer.tick() as f64 * decoder.step_seconds(),
                x[0]
            );
        }
    }
    if acquisition.join().is_err() {
        eprintln!("the acquisition thread stopped early");
    }

    let stats = session.stats();
    println!(
        "{} ticks, {} spikes, {} dropped, {} late, {} deadlines missed",
        stats.ticks, stats.spikes, stats.dropped, stats.late, stats.deadline_misses
    );
    println!(
        "step: p50 {:.2} µs, p99.9 {:.2} µs, max {:.2} µs",
        stats.latency.p50_us, stats.latency.p99_9_us, stats.latency.max_us
    );
    Ok(())
}
