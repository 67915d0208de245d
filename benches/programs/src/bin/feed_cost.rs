//! Cost of a feed per step: two sessions of one model on the same spikes, with and without, in turns.
//!
//! ```text
//! cargo run --release -p betz-programs --bin feed_cost -- [CHANNELS] [HZ] [BLOCKS]
//! ```
//! Blocks of a thousand steps, one session after the other, at the rate of 1,000 steps per second of spikes; prints the
//! median and the least of the blocks' means, so that what the machine does in between counts for both alike. The hub
//! reads along, and eight viewers do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use betz_base::error::{Error, Result};
use betz_monitor::{Monitor, Options, Source};
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::{Session, SessionConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const BLOCKS: usize = 400;
const STEPS: usize = 1_000;
const VIEWERS: usize = 8;

/// Reads what comes, says that it was drawn, and looks at nothing of it.
fn viewer(monitor: &Monitor) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(monitor.address())?;
    let (host, token) = (
        monitor.address(),
        monitor.token().map_or("", |t| t.as_str()),
    );
    write!(
        stream,
        "GET /live HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: betz={token}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: betz.v1\r\n\r\n"
    )?;
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while stream.read(&mut bytes).is_ok_and(|n| n > 0) {
            let _ = stream.write_all(&[0x82, 0x84, 0, 0, 0, 0, 2, 0, 0, 0]);
        }
    });
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let channels: usize = args.next().and_then(|a| a.parse().ok()).unwrap_or(256);
    let rate: f64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(20.0);
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.1,
        order: 0,
    }])?;
    let names = (0..channels).map(|c| format!("ch{c}")).collect();
    let parts = DecoderParts {
        weights: (0..2 * channels).map(|i| i as f64).collect(),
        ..DecoderParts::linear(0.001, bank, names, vec!["x".into(), "y".into()])
    };
    let model = Decoder::new(parts)?;
    let mut alone = Session::open(&model, SessionConfig::default())?;
    let mut watched = Session::open(&model, SessionConfig::default())?;
    let blocks: usize = args.next().and_then(|a| a.parse().ok()).unwrap_or(BLOCKS);
    let options = Options::default();
    let (monitor, feed) = Monitor::start(Source::of("feed_cost", &model), options)?;
    watched.attach(Box::new(feed), 0)?;
    for _ in 0..VIEWERS {
        viewer(&monitor).map_err(|e| Error::argument(format!("a viewer: {e}")))?;
    }
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let spikes: Vec<Vec<u32>> = (0..STEPS)
        .map(|_| {
            (0..channels as u32)
                .filter(|_| random.random::<f64>() < rate * 0.001)
                .collect()
        })
        .collect();
    let mut out = [0.0; 2];
    let mut times = [Vec::new(), Vec::new()];
    for block in 0..2 * blocks {
        let session = if block % 2 == 0 {
            &mut alone
        } else {
            &mut watched
        };
        let begin = Instant::now();
        for step in &spikes {
            session.step_spikes(step, &mut out)?;
        }
        times[block % 2].push(begin.elapsed().as_nanos() as f64 / STEPS as f64);
        // The hub's turn, so that the ring is empty before the next block.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mean = spikes.iter().map(Vec::len).sum::<usize>() as f64 / STEPS as f64;
    println!(
        "{channels} channels, {mean:.1} spikes per step, {VIEWERS} viewers, {blocks} blocks each"
    );
    for (name, times) in ["alone", "with a feed"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!(
            "{name:<12} median {:7.1} ns per step, least {:7.1} ns",
            times[times.len() / 2],
            times[0]
        );
    }
    println!(
        "difference   median {:7.1} ns,         least {:7.1} ns",
        times[1][blocks / 2] - times[0][blocks / 2],
        times[1][0] - times[0][0]
    );
    Ok(())
}
