//! # Betz: an embeddable decoding runtime for brain-machine interfaces
//!
//! Spikes in, movement out, within a bounded time.
//!
//! ```text
//! recording ──► psc ──► train ──► model ──► stream ──► movement
//! ```
//!
//! Time is integer ticks inside; seconds only at the edges.

pub use betz_base::{Error, ErrorKind, Progress, Result};
pub use betz_base::{error, file, progress};
pub use betz_recording as recording;
pub use betz_runtime::stream;

#[cfg(feature = "mine")]
pub use betz_episode as episode;
#[cfg(feature = "simulate")]
pub use betz_simulate as simulate;

#[cfg(any(feature = "train", feature = "mine"))]
pub use betz_device as device;

/// Post-synaptic-current (PSC) filters: their shapes, streaming, and in batch.
pub mod psc {
    pub use betz_runtime::psc::*;
    #[cfg(feature = "train")]
    pub use betz_train::psc::*;
}

/// The trained decoder, its file, and what it makes of a whole recording.
pub mod model {
    pub use betz_runtime::model::*;
    #[cfg(feature = "train")]
    pub use betz_train::decode::{channel_order, choose_device, decode, decode_on};
}

/// From spikes and behaviour to a decoder.
#[cfg(feature = "train")]
pub mod train {
    #[cfg(feature = "cuda")]
    pub use betz_train::train_counts_on;
    pub use betz_train::{
        Alternative, Choice, DelayEstimate, Evaluation, Folds, GramPath, MaskPolicy,
        NormalEquations, PRESETS, Part, Preset, RidgeChoice, Search, Solver, Timing, TrainOptions,
        Validation, alternatives, calibrate, choose, cross_validate, crossover, estimate_delay,
        evaluate, evaluate_on, folds, largest_response, train, train_on, train_validated,
        train_validated_on,
    };
    pub use betz_train::{Comparison, Kind, KindOptions, KindScore, train_kinds_on};
    pub use betz_train::{gram, retained, score, solve};
}

/// This version of Betz.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
