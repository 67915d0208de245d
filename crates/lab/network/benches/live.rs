//! A live network of 1,024 channels, as tables: `cargo bench -p betz-network --bench live`.
//!
//! Poisson spikes of 10 Hz per channel, half of them in 32 groups that go together; steps of 5 ms, bins of 50 ms,
//! windows of 200 bins, one window per bin. An update is a bin's sums and its window's edges. Then a session's step of
//! the same spikes, with and without the network.

#![allow(clippy::unwrap_used, missing_docs)]

use betz_network::graph::leiden::Leiden;
use betz_network::live::{LiveConfig, LiveSpec, open};
use betz_network::{Sign, Window};
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::{Session, SessionConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CHANNELS: usize = 1024;
const STEPS: usize = 20_000;

fn spikes(hz: f64) -> Vec<Vec<u32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // Groups are awake for a tenth of the time, in stretches of some 100 ms.
    let mut awake = [false; 32];
    (0..STEPS)
        .map(|_| {
            for awake in &mut awake {
                let turns = if *awake { 0.05 } else { 0.05 / 9.0 };
                *awake ^= rng.random_bool(turns);
            }
            (0..CHANNELS as u32)
                .filter(|c| {
                    let alone = hz * 0.005 * 0.5;
                    let group = if awake[*c as usize % 32] {
                        10.0 * alone
                    } else {
                        0.0
                    };
                    rng.random_bool((alone + group).min(1.0))
                })
                .collect()
        })
        .collect()
}

fn config(threshold: f64, communities: bool) -> LiveConfig {
    let spec = LiveSpec {
        channels: CHANNELS,
        window: Window::new(200, 1),
        threshold,
        sign: Sign::Both,
        strict: false,
        max_edges: CHANNELS * CHANNELS / 2,
    };
    LiveConfig {
        capacity: 1 << 20,
        communities: communities.then(Leiden::default),
        ..LiveConfig::new(spec, 10)
    }
}

fn main() {
    println!(
        "| Hz per channel | threshold | communities | edges per window | p50 (µs) | p99 | max |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (hz, threshold, communities) in [
        (10.0, 0.9, false),
        (10.0, 0.3, false),
        (10.0, 0.1, false),
        (50.0, 0.3, false),
        (10.0, 0.3, true),
    ] {
        let (mut feed, handle) = open(config(threshold, communities)).unwrap();
        let (mut edges, mut windows) = (0, 0);
        for (tick, fired) in spikes(hz).iter().enumerate() {
            feed.push_spikes(tick as i64, fired);
            if tick % 10 == 9 {
                handle.flush().unwrap();
                let found = handle.read(|w| w.map(|w| w.found));
                edges += found.unwrap_or(0);
                windows += usize::from(found.is_some());
            }
        }
        let stats = handle.close().unwrap();
        assert_eq!((stats.lost_steps, stats.counts.skipped_windows), (0, 0));
        println!(
            "| {hz} | {threshold} | {} | {} | {:.0} | {:.0} | {:.0} |",
            if communities { "followed" } else { "none" },
            edges / windows,
            stats.update_p50_us,
            stats.update_p99_us,
            stats.update_max_us
        );
    }
    steps();
}

/// A step every 100 µs, so that the thread works beside the steps as it would.
fn steps() {
    let filter = Filter {
        tau_seconds: 0.1,
        order: 1,
    };
    let names = (0..CHANNELS).map(|c| c.to_string()).collect();
    let outputs = vec!["x".into(), "y".into()];
    let bank = FilterBank::new(vec![filter]).unwrap();
    let decoder = Decoder::new(DecoderParts {
        weights: (0..CHANNELS * 2).map(|i| i as f64 * 1e-3).collect(),
        ..DecoderParts::linear(0.005, bank, names, outputs)
    })
    .unwrap();
    let spikes = spikes(10.0);
    println!("\n| step of 1,024 channels | network | p50 (ns) | p99 | p99.9 | lost |");
    println!("|---|---|---|---|---|---|");
    for (name, as_counts, attached) in [
        ("list", false, false),
        ("list", false, true),
        ("counts", true, false),
        ("counts", true, true),
    ] {
        let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
        let (feed, handle) = open(config(0.3, false)).unwrap();
        if attached {
            session.attach(Box::new(feed), 0).unwrap();
        }
        let mut out = [0.0; 2];
        let mut counts = vec![0_u16; CHANNELS];
        for fired in &spikes {
            let until = std::time::Instant::now() + std::time::Duration::from_micros(100);
            if as_counts {
                counts.fill(0);
                fired.iter().for_each(|c| counts[*c as usize] = 1);
                session.step_counts(&counts, &mut out).unwrap();
            } else {
                session.step_spikes(fired, &mut out).unwrap();
            }
            while std::time::Instant::now() < until {
                std::hint::spin_loop();
            }
        }
        let latency = session.stats().latency;
        println!(
            "| {name} | {} | {:.0} | {:.0} | {:.0} | {} |",
            if attached { "attached" } else { "none" },
            latency.p50_us * 1e3,
            latency.p99_us * 1e3,
            latency.p99_9_us * 1e3,
            handle.stats().lost_steps
        );
    }
}
