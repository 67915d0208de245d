//! Prints the table of `benches/record/memory.md`: bytes on the heap that a prepared model, a session and a queue hold
//! from opening to closing. Steps add nothing to them.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin session_bytes
//! ```

#[path = "../../../support/held_bytes.rs"]
mod held_bytes;

use std::sync::Arc;

use betz::model::{Decoder, DecoderParts};
use betz::psc::{Filter, FilterBank};
use betz::recording::OutputInfo;
use betz::stream::{LateSpikes, PreparedModel, Session, SessionConfig, spike_queue};

fn decoder(channels: usize, filters: usize, outputs: usize) -> betz::Result<Decoder> {
    let filter = |f| Filter {
        tau_seconds: 0.02 * (f + 1) as f64,
        order: (f % 5) as u32,
    };
    let output = |o| OutputInfo {
        name: format!("output {o}"),
        unit: "mm".into(),
    };
    let bank = FilterBank::new((0..filters).map(filter).collect())?;
    let names = (0..channels).map(|c| format!("channel {c}")).collect();
    Decoder::new(DecoderParts {
        weights: vec![0.1; channels * filters * outputs],
        ..DecoderParts::linear(1e-3, bank, names, (0..outputs).map(output).collect())
    })
}

/// The result of `make`, and the bytes that it holds.
fn bytes_of<T>(make: impl FnOnce() -> betz::Result<T>) -> betz::Result<(T, usize)> {
    let before = held_bytes::held();
    let made = make()?;
    Ok((made, held_bytes::held() - before))
}

fn main() -> betz::Result<()> {
    println!("| channels | filters | outputs | model | session | session without statistics |");
    println!("|---|---|---|---|---|---|");
    for (channels, filters, outputs) in [
        (96, 1, 2),
        (142, 9, 4),
        (256, 8, 2),
        (1024, 1, 2),
        (1024, 8, 2),
        (1024, 9, 4),
        (16_384, 8, 2),
    ] {
        let decoder = decoder(channels, filters, outputs)?;
        let (model, model_bytes) = bytes_of(|| Ok(Arc::new(PreparedModel::new(&decoder, None)?)))?;
        let session = |statistics| {
            let config = SessionConfig {
                statistics,
                ..SessionConfig::default()
            };
            bytes_of(|| Session::open_prepared(Arc::clone(&model), config))
        };
        let ((_, with), (_, without)) = (session(true)?, session(false)?);
        println!("| {channels} | {filters} | {outputs} | {model_bytes} | {with} | {without} |");
    }
    println!();
    println!("| spikes that a queue holds | bytes |");
    println!("|---|---|");
    for capacity in [1024, 65_536, 1 << 20] {
        let (_, bytes) = bytes_of(|| spike_queue(capacity, LateSpikes::Take))?;
        println!("| {capacity} | {bytes} |");
    }
    Ok(())
}
