//! Spiking networks in real time.
//!
//! A [`Network`] says what there is: populations of leaky integrate-and-fire neurons, projections,
//! inputs. [`Plan`] says what it takes, before anything is allocated. [`Engine`] builds and runs it.
//!
//! ```text
//! Network ──► Plan (memory, fixed point) ──► Engine ──► counts, spikes, potentials, hash, times
//!    ▲                                         ▲
//! models, JSON, connections.bin             currents and spikes by call
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`models`] | networks by name, among them those of Galbraith 2010, chapter 4 |
//! | [`connections`] | that paper's `connections.bin` |
//! | [`patterns`] | the twenty firing patterns of Izhikevich 2004 |
//! | [`oracle`] | plain loops in f64 and in the engine's own arithmetic, to test against |
//!
//! Spikes are a function of the network and its seed: the same on any number of threads. Sums of
//! input are integers (a unit is a power of two, chosen from the largest weight; what could overflow
//! is refused), random numbers are counter-based, and neurons use fused multiply-adds that are spelled
//! out: a CUDA device ([`Options::device`]) gives the same bits.
//!
//! ```
//! use betz_spiking::{Engine, Options, models};
//!
//! let network = models::by_name("cuba", 1.0, 1)?;
//! let mut engine = Engine::build(&network, &Options::default(), &())?;
//! let report = engine.run(1_000, &())?; // 100 ms
//! println!("{} spikes, hash {:016x}", report.spikes, report.hash);
//! # assert!(report.spikes > 100);
//! # Ok::<(), betz_spiking::Error>(())
//! ```

// The tests' networks name this crate as its users do.
#[cfg(test)]
extern crate self as betz_spiking;

mod channels;
mod check;
mod connect;
mod draw;
mod drive;
mod dynamics;
mod engine;
mod kinds;
mod load;
mod math;
mod model_population;
pub mod models;
mod neuron;
pub mod oracle;
pub mod patterns;
mod plan;
mod plasticity;
#[doc(hidden)]
pub mod random;
mod spec;
mod streaming;
mod tuning;

pub use betz_base::{Error, ErrorKind, Progress, Result};
pub use betz_device::{Device, Ran};
pub use connect::RoundedWeights;
pub use connect::file as connections;
pub use draw::{Draw, Values};
pub use drive::{CurrentRow, CurrentTable, Drive, Interpolation};
pub use dynamics::{Model, Parameter, models as neuron_models};
pub use engine::{Engine, Options, Phases, Report, Spike, write_counts};
pub use kinds::{Lif, Neuron, NeuronModel, PoissonSource, SpikeTrains};
pub use plan::{MAX_THREADS, Plan, available_bytes};
pub use plasticity::{Dependence, Plasticity, Reward, Triplet};
pub use spec::{
    Arrival, Channel, ListedSynapse, MAX_DELAY_STEPS, MAX_NEURONS, Network, Poisson, Population,
    Projection, Rule, Stimulus, Synapse,
};
pub use streaming::StreamCost;
pub use tuning::{Movement, TuningProfile};
