//! From spikes and behaviour to a decoder.
//!
//! ```text
//! Dataset ──gram──► NormalEquations (Γ, Υ, means) ──solve──► weights, intercept ──► Decoder
//! ```
//!
//! The optimal linear decoder (Eliasmith & Anderson 2003; Galbraith 2010, eqs. 5.1–5.3) minimises
//! Σ_t |x(t) − φᵀa(t) − c|² + λ|φ|² over the responses a(t) of every channel to every filter.

#[cfg(test)]
mod cases;
mod fit;
pub mod gram;
mod noise;
mod options;
pub mod score;
pub mod solve;
#[cfg(test)]
mod tests;

pub use fit::train;
pub use gram::{GramPath, NormalEquations};
pub use noise::largest_response;
pub use options::{RidgeChoice, TrainOptions};
pub use score::{Evaluation, evaluate};
pub use solve::{MaskPolicy, Solver};
