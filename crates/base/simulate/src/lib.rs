//! Simulated recordings: known truth to decode, known chains to find.
//!
//! ```text
//! noise ──► stimulus ─┐
//!                     ├─► lif ──► population ──► Recording (single units)   to decode
//! tuning ─────────────┘
//! network ─────────────────────► Recording (events) + embedded chains       to mine
//! drift ───── a Recording whose units change
//! poisson ─────────────────────► Dataset of any size                        to time things on
//! ```
//!
//! [`population`] is the population-temporal experiment of Galbraith 2010, chapter 5; [`network`]
//! the inhomogeneous-Poisson networks of the episode-mining papers. Everything follows from a
//! configuration and a seed: the same on every machine and for any number of threads.
//!
//! ```
//! use betz_simulate::population::{PopulationConfig, simulate};
//!
//! # fn main() -> betz_base::Result<()> {
//! let config = PopulationConfig {
//!     neurons: 10,
//!     train_seconds: 2.0,
//!     test_seconds: 1.0,
//!     ..PopulationConfig::default()
//! };
//! let recordings = simulate(&config, 1)?;
//! assert_eq!(recordings.train.channels(), 10);
//! assert_eq!(recordings.train, simulate(&config, 1)?.train); // the seed decides
//! # Ok(())
//! # }
//! ```

pub mod drift;
pub mod lif;
pub mod network;
pub mod noise;
mod poisson;
pub mod population;

pub use poisson::poisson;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use betz_recording::Spikes;

/// Purposes of a seed's random numbers. Each use has a stream of its own, so that changing
/// how many numbers one use draws leaves the others as they were.
#[derive(Debug, Clone, Copy)]
enum Stream {
    Population = 1,
    TrainStimulus = 2,
    TestStimulus = 3,
    TrainVoltage = 4,
    TestVoltage = 5,
    Chains = 6,
    Poisson = 7,
}

/// The first of the streams that belong to one neuron each.
const NEURON_STREAMS: u64 = 1 << 32;

fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// The union of neurons' spike trains, sorted by tick, then by channel.
fn merge(trains: &[Vec<u32>]) -> Spikes {
    let mut packed: Vec<u64> = trains
        .iter()
        .enumerate()
        .flat_map(|(channel, train)| {
            train
                .iter()
                .map(move |&tick| u64::from(tick) << 32 | channel as u64)
        })
        .collect();
    packed.par_sort_unstable();
    Spikes::new(
        packed.iter().map(|p| (p >> 32) as i64).collect(),
        packed.iter().map(|&p| p as u32).collect(),
    )
}
