//! A decoder of any size, stepped any number of times: `count.sh` counts the instructions.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::{Input, Session, SessionConfig};

/// Channels, outputs, filters, spikes per step, steps; as in `BETZ_COUNT=96,2,1,40,1000`.
fn sizes() -> Option<[usize; 5]> {
    let mut sizes = [0; 5];
    let mut texts = env!("BETZ_COUNT").split(',');
    for size in &mut sizes {
        *size = texts.next()?.parse().ok()?;
    }
    Some(sizes)
}

pub fn run() -> Option<()> {
    let [channels, outputs, filters, spikes, steps] = sizes()?;
    let filters: Vec<Filter> = (0..filters as u32)
        .map(|i| Filter {
            tau_seconds: 0.05 * f64::from(i + 1),
            order: i % 3,
        })
        .collect();
    let names = |stem: &str, length: usize| (0..length).map(|i| format!("{stem}{i}")).collect();
    let outputs_named: Vec<_> = (0..outputs)
        .map(|i| format!("y{i}").as_str().into())
        .collect();
    let weights = channels * filters.len() * outputs;
    let parts = DecoderParts {
        weights: (0..weights).map(|i| (i % 17) as f64 - 8.0).collect(),
        ..DecoderParts::linear(
            0.02,
            FilterBank::new(filters).ok()?,
            names("ch", channels),
            outputs_named,
        )
    };
    let config = SessionConfig {
        statistics: false,
        ..SessionConfig::default()
    };
    let mut session = Session::open(&Decoder::new(parts).ok()?, config).ok()?;
    let mut out = vec![0.0; outputs];
    let fired: Vec<u32> = (0..spikes).map(|i| (i * 7 % channels) as u32).collect();
    for _ in 0..steps {
        session.try_step(&Input::Spikes(&fired), &mut out).ok()?;
    }
    Some(())
}
