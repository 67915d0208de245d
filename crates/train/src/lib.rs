//! From spikes and behaviour to a decoder.
//!
//! ```text
//! Dataset ──gram──► NormalEquations (Γ, Υ, means) ──solve──► weights, intercept ──► Decoder
//! ```
//!
//! The optimal linear decoder (Eliasmith & Anderson 2003; Galbraith 2010, eqs. 5.1–5.3) minimises
//! Σ_t |x(t) − φᵀa(t) − c|² + λ|φ|² over the responses a(t) of every channel to every filter.
//!
//! Besides: [`psc`] filters whole recordings, [`decode`] decodes them, [`score`] says how well.
//!
//! ```
//! use betz_runtime::psc::{Filter, FilterBank};
//! use betz_train::{Search, TrainOptions, evaluate, train_validated};
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
#[cfg(test)]
mod cases;
mod choice;
mod counts;
pub mod decode;
mod delay;
mod device;
mod experts;
mod fit;
mod folds;
pub mod gram;
mod held_out;
mod kalman;
mod kinds;
mod latents;
mod lift;
mod limits;
pub mod long;
mod noise;
pub mod online;
mod options;
pub mod place;
mod presets;
pub mod psc;
mod readout;
pub mod retained;
pub mod score;
mod search;
pub mod solve;
pub mod sums;
#[cfg(test)]
mod tests;
mod validate;
mod variance;

pub use active::{Active, active, spread};
pub use calibrate::{Timing, calibrate};
pub use choice::{Alternative, Choice, alternatives, choose, crossover};
pub use counts::train_counts_on;
pub use delay::{DelayEstimate, estimate_delay};
pub use device::{Trained, train_on};
pub use fit::train;
pub use folds::{Folds, MAX_FOLDS, Part, folds};
pub use gram::{GramPath, NormalEquations, SampledError};
pub use kinds::{Comparison, Kind, KindOptions, KindScore, train_kinds_on};
pub use noise::largest_response;
pub use options::{RidgeChoice, TrainOptions};
pub use presets::{PRESETS, Preset};
pub use score::{Evaluation, evaluate, evaluate_on};
pub use search::Search;
pub use solve::{MaskPolicy, Solver};
pub use validate::{Validation, cross_validate, train_validated, train_validated_on};
pub use variance::{VarianceScore, variance_scores, with_variance};
