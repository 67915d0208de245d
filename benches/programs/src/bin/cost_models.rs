//! Writes the models whose steps `scripts/step_cost.sh` and `benches/peers/phantomcore.cpp` count and time: every kind of
//! decoder but the linear one, as `FOLDER/KIND-CHANNELS-FILTERS.betz`. Weights are random.
//!
//! ```sh
//! cargo run -p betz-programs --bin cost_models FOLDER CHANNELS FILTERS...
//! ```
//!
//! A recurrent decoder has one filter however many are asked for: it sees the counts of a step.

#[path = "../decoders.rs"]
mod decoders;

use std::path::PathBuf;

use betz::model::Decoder;
use betz::psc::{Filter, FilterBank};
use decoders::{Kind, counts_of_a_step, decoder, preset};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const KINDS: [(&str, Kind); 8] = [
    ("kalman", Kind::Kalman),
    ("lift256", Kind::Lift(256)),
    ("experts8", Kind::Experts(8)),
    ("classes8", Kind::Classes(8)),
    ("place10x10", Kind::Place(10)),
    ("place20x20", Kind::Place(20)),
    ("recurrent64", Kind::Recurrent(&[64], false)),
    ("recurrent256", Kind::Recurrent(&[256], false)),
];

/// As in the models of `ffi/tests/c/cost.c`.
fn bank(filters: usize) -> betz::Result<FilterBank> {
    let filter = |i| Filter {
        tau_seconds: 0.02 * (i + 1) as f64,
        order: 1,
    };
    FilterBank::new((0..filters).map(filter).collect())
}

fn model(kind: Kind, channels: usize, filters: usize) -> betz::Result<Decoder> {
    let rng = &mut ChaCha8Rng::seed_from_u64(3);
    let bank = match (kind, filters) {
        (Kind::Recurrent(..), _) => counts_of_a_step()?,
        (_, 9) => preset("reach")?,
        _ => bank(filters)?,
    };
    decoder(rng, channels, bank, kind)
}

fn main() -> betz::Result<()> {
    let usage = || betz::Error::argument("usage: cost_models FOLDER CHANNELS FILTERS...");
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or_else(usage)?);
    let numbers: Option<Vec<usize>> = arguments.map(|n| n.parse().ok()).collect();
    let numbers = numbers.ok_or_else(usage)?;
    let (channels, filters) = numbers.split_first().ok_or_else(usage)?;
    for (name, kind) in KINDS {
        for &filters in filters {
            let path = folder.join(format!("{name}-{channels}-{filters}.betz"));
            model(kind, *channels, filters)?.save(&path)?;
        }
    }
    Ok(())
}
