//! From spikes and behaviour to a decoder.
//!
//! ```text
//! Dataset ──betz-gram──► NormalEquations (Γ, Υ, means) ──solve──► weights, intercept ──► Decoder
//! ```
//!
//! The optimal linear decoder (Eliasmith & Anderson 2003; Galbraith 2010, eqs. 5.1–5.3) minimises
//! Σ_t |x(t) − φᵀa(t) − c|² + λ|φ|² over the responses a(t) of every channel to every filter.
//!
//! `betz-gram` has what this crate stands on: batch filtering, Γ and Υ, solving, decoding and scores.
//!
//! ```
//! use betz_runtime::psc::{Filter, FilterBank};
//! use betz_gram::evaluate;
//! use betz_train::{Search, TrainOptions, train_validated};
//!
//! # fn main() -> betz_base::Result<()> {
//! // Ten trains that have nothing to do with the movement: a decoder must say so.
//! let data = betz_simulate::poisson(10, 20.0, 5_000, 0.01, 1)?;
//! let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 1 }])?;
//! let decoder = train_validated(&data, &TrainOptions::new(bank), &Search::ridge(), &())?;
//! let unseen = betz_simulate::poisson(10, 20.0, 5_000, 0.01, 2)?;
//! assert!(evaluate(&decoder, &unseen)?.outputs.iter().all(|output| output.r2 < 0.1));
//! # Ok(())
//! # }
//! ```

mod active;
mod blank;
mod calibrate;
mod centre;
mod choice;
mod classes;
mod device;
mod discriminant;
mod experts;
pub mod filters;
mod fit;
mod folds;
mod generalised;
mod held_out;
mod kalman;
mod kinds;
mod latents;
mod lift;
mod limits;
pub mod long;
mod masked;
pub mod online;
mod options;
pub mod place;
mod presets;
#[cfg(test)]
mod reaches;
mod readout;
mod recurrent;
pub mod retained;
mod search;
mod step_totals;
pub mod sums;
#[cfg(test)]
mod tests;
mod training;
mod training_data;
pub mod trials;
pub mod unlike;
mod usual_counts;
mod validate;
mod variance;

pub use betz_linear::use_one_order;
pub use blank::Artefacts;
pub use calibrate::{Timing, calibrate};
pub use centre::CentredSignal;
pub use choice::{Alternative, Choice, alternatives, choose, crossover};
pub use classes::{
    ClassOptions, ClassReport, ClassScores, EventScores, GateReport, LabelSource, class_events,
    class_probabilities, evaluate_classes,
};
pub use device::{Trained, train_on};
pub use fit::train;
pub use folds::MAX_FOLDS;
pub use generalised::ridge as generalised_ridge;
pub use kinds::{
    Comparison, Kind, KindOptions, KindScore, KindTraits, WindowScore, train_kinds_on,
};
pub use options::{RidgeChoice, TrainOptions, TrainingPlan};
pub use presets::{PRESETS, Preset};
pub use search::Search;
pub use training::{Delay, Training, TrainingOutcome};
pub use training_data::{Overlap, TrainingData, overlap_warning};
pub use validate::{Validation, cross_validate, train_validated, train_validated_on};
pub use variance::{VarianceScore, variance_scores};
