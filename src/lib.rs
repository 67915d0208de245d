//! # Betz: an embeddable decoding runtime for brain-machine interfaces
//!
//! Spikes in, movement out, within a bounded time.
//!
//! ```text
//! recording ──► psc ──► train ──► model ──► stream ──► movement
//!     ├──► episode (mining)        simulate (recordings with a known truth)
//!     ├──► network (correlations over sliding windows, communities)
//!     └──► explore (responses to events, tuning, quality of units)
//! ```
//!
//! This crate is a facade: its modules are crates of their own, and features choose them. Three features are floors of the
//! house, which switch on all that stands there:
//!
//! | floor | feature | adds |
//! |---|---|---|
//! | – | (none) | [`recording`]'s types, [`psc`] filters, [`model`] files, [`stream`]: what a controller embeds |
//! | `decode` | `npz` | reading and writing recordings as `.npz` |
//! | `decode` | `train` | batch filtering and decoding, [`train`], [`device`] |
//! | `decode` | `transforms` | with `train`: long filters of samples by Fourier transforms; their samples are added otherwise |
//! | `decode` | `tuning` | with `train`: training of recurrent decoders online |
//! | `decode` | `simulate` | [`simulate`]: populations and networks with a known truth |
//! | `decode` | `serde` | outputs, filters and provenance can be serialised |
//! | `rig` | `sort` | `sort`: sorted spikes from voltage; with `train` also the training of sorters |
//! | `rig` | `formats` | `formats`: NWB, voltage of rigs, ONNX, safetensors |
//! | `rig` | `live` | `live`: whole sessions, and `rigs`: clients of devices and buses |
//! | `lab` | `explore` | `explore`: responses to events, tuning curves, intervals between spikes, quality of units |
//! | `lab` | `mine` | `episode`: frequent episodes of spikes, offline and online |
//! | `lab` | `multiply` | products of matrices larger than memory: `device::multiply` |
//! | `lab` | `network` | `network`: correlation networks over sliding windows, their graphs and communities |
//! | `lab` | `som` | `som`: self-organising maps |
//! | `lab` | `spiking` | `spiking`: networks of spiking neurons in real time, and decoders in a closed loop |
//! | – | `cuda` | all of this on a GPU, loaded at run time: the same binary runs without one |
//! | – | `nalgebra`, `ndarray` | weights as matrices of these crates: `betz::weights` |
//!
//! `decode` and `cuda` are on by default. Time is integer ticks inside; seconds only at the edges.
//!
//! # A tour
//!
//! ## From spikes to a decoder
//! Forty simulated neurons follow a movement in two dimensions; a decoder is trained on twenty seconds
//! of it and scored on two that it has not seen. [`recording::Recording::read_npz`] reads yours.
//!
//! ```
//! # #[cfg(all(feature = "train", feature = "simulate"))]
//! # fn main() -> betz::Result<()> {
//! use betz::psc::{Filter, FilterBank};
//! use betz::simulate::population::{PopulationConfig, simulate};
//! use betz::train::{Search, TrainOptions, evaluate, train_validated};
//!
//! let recordings = simulate(
//!     &PopulationConfig {
//!         neurons: 40,
//!         train_seconds: 20.0,
//!         test_seconds: 2.0,
//!         ..PopulationConfig::default()
//!     },
//!     1,
//! )?;
//! let train = recordings.train.align(0.005)?; // on the model's clock: a step every 5 ms
//! let test = recordings.test.align(0.005)?;
//!
//! // One filter h(t) = t e^(−t/20 ms) per channel; the ridge is chosen by cross-validation.
//! let bank = FilterBank::new(vec![Filter { tau_seconds: 0.020, order: 1 }])?;
//! let options = TrainOptions { delay_steps: 6, ..TrainOptions::new(bank) };
//! let decoder = train_validated(&train, &options, &Search::ridge(), &())?;
//! for output in evaluate(&decoder, &test)?.outputs {
//!     assert!(output.r2 > 0.8, "{}: R² {}", output.name, output.r2);
//! }
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "train", feature = "simulate")))]
//! # fn main() {}
//! ```
//!
//! ## From a model file to movement
//! A controller loads the model once, opens a session, and gives it the channels that fired in each
//! tick. Opening allocates; stepping does not, nor does it lock or call the system.
//!
//! ```
//! # #[cfg(all(feature = "train", feature = "simulate"))]
//! # fn main() -> betz::Result<()> {
//! # use betz::psc::{Filter, FilterBank};
//! # use betz::train::{TrainOptions, train};
//! # let data = betz::simulate::poisson(3, 20.0, 2_000, 0.01, 1)?;
//! # let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 1 }])?;
//! # let file = train(&data, &TrainOptions::new(bank), &())?.to_bytes()?;
//! use betz::model::Decoder;
//! use betz::stream::{Session, SessionConfig};
//!
//! let decoder = Decoder::from_bytes(&file)?; // Decoder::load reads a file
//! let mut session = Session::open(&decoder, SessionConfig::default())?;
//! let mut movement = vec![0.0; session.outputs()];
//!
//! session.step_spikes(&[0, 2, 2], &mut movement)?; // one entry per spike, in any order
//! session.step_spikes(&[], &mut movement)?; // a tick of silence is a tick, too
//! assert_eq!(session.stats().ticks, 2);
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "train", feature = "simulate")))]
//! # fn main() {}
//! ```
//!
//! ## From spikes to the chains among them
//! Mining finds episodes (which neuron fires after which, at which delay) that occur more often than a threshold. Two
//! chains are hidden in the spikes of 26 neurons, and mining finds both.
//!
//! ```
//! # #[cfg(all(feature = "mine", feature = "simulate"))]
//! # fn main() -> betz::Result<()> {
//! use betz::episode::{Events, Interval, MineOptions, mine};
//! use betz::simulate::network::{NetworkConfig, simulate};
//!
//! let network = simulate(&NetworkConfig { seconds: 10.0, ..NetworkConfig::sym26() }, 1)?;
//! let events = Events::from_recording(&network.recording)?;
//! let delays = Interval::from_seconds(0.004, 0.006, events.clock())?; // (4, 6] ms between neighbours
//!
//! let mined = mine(&events, &MineOptions::new(vec![delays], 60), &())?;
//! for chain in &network.chains {
//!     assert!(mined.episodes.iter().any(|e| e.pattern.symbols() == chain.nodes));
//! }
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "mine", feature = "simulate")))]
//! # fn main() {}
//! ```
//!
//! ## From a signal to its communities
//! `network` (feature `network`) finds the nodes that go together in a sliding window, exactly, and the groups that they form. Its page
//! begins with an example; `betz network` does the same from the command line.
//!
//! The repository's `examples/` are complete programs; `docs/` has guides and reference.

#[cfg(feature = "train")]
pub use betz_base::worker::Pool;
pub use betz_base::{Error, ErrorKind, Progress, Result};
pub use betz_base::{error, file, hash, memory, progress, team, text};
pub use betz_recording as recording;
pub use betz_runtime::stream;

#[cfg(feature = "mine")]
pub use betz_episode as episode;
#[cfg(feature = "explore")]
pub use betz_explore as explore;
#[cfg(feature = "formats")]
pub use betz_formats as formats;
#[cfg(feature = "live")]
pub use betz_live as live;
#[cfg(feature = "network")]
pub use betz_network as network;
#[cfg(feature = "live")]
pub use betz_rigs as rigs;
#[cfg(feature = "simulate")]
pub use betz_simulate as simulate;
#[cfg(feature = "som")]
pub use betz_som as som;
#[cfg(feature = "sort")]
pub use betz_sort as sort;
/// Spiking networks in real time, and decoders tested in a closed loop with them.
#[cfg(feature = "spiking")]
pub mod spiking {
    pub use betz_closed_loop as closed_loop;
    pub use betz_spiking::*;
}

#[cfg(any(
    feature = "train",
    feature = "mine",
    feature = "multiply",
    feature = "network"
))]
pub use betz_device as device;

pub mod input_form;
#[cfg(any(feature = "nalgebra", feature = "ndarray"))]
pub mod weights;

/// Post-synaptic-current (PSC) filters: their shapes, streaming, and in batch.
pub mod psc {
    #[cfg(feature = "train")]
    pub use betz_gram::psc::*;
    pub use betz_runtime::psc::*;
}

/// The trained decoder, its file, and the decoding of whole recordings.
pub mod model {
    #[cfg(feature = "train")]
    pub use betz_gram::decode::{
        Decoded, blanking_warning, channel_order, choose_device, decode, decode_on,
    };
    pub use betz_runtime::model::*;
}

/// From spikes and behaviour to a decoder.
#[cfg(feature = "train")]
pub mod train {
    pub use betz_gram::{
        DelayEstimate, Evaluation, GramPath, MaskPolicy, NormalEquations, SampledError, Solver,
        estimate_delay, estimate_delay_on, evaluate, evaluate_on, gram, largest_response, parts,
        score, solve,
    };
    pub use betz_train::{
        Alternative, Choice, Delay, MAX_FOLDS, PRESETS, Preset, RidgeChoice, Search, Timing,
        TrainOptions, Trained, Training, TrainingOutcome, TrainingPlan, Validation, alternatives,
        calibrate, choose, cross_validate, crossover, train, train_on, train_validated,
        train_validated_on, use_one_order,
    };
    pub use betz_train::{
        Artefacts, CentredSignal, Comparison, Kind, KindOptions, KindScore, KindTraits,
        WindowScore, train_kinds_on,
    };
    pub use betz_train::{
        ClassOptions, ClassReport, ClassScores, EventScores, GateReport, LabelSource, class_events,
        class_probabilities, evaluate_classes,
    };
    pub use betz_train::{Overlap, TrainingData, overlap_warning};
    pub use betz_train::{VarianceScore, generalised_ridge, variance_scores};
    pub use betz_train::{filters, long, online, place, retained, sums, trials, unlike};
}

/// This version of Betz.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The Rust program of docs/embedding.md compiles.
#[cfg(all(doctest, feature = "npz", feature = "train"))]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;
