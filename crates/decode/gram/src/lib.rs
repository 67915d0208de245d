//! The computations of training and evaluation, on the CPU and on CUDA devices.
//!
//! | module | computes |
//! |---|---|
//! | [`psc`] | the responses of a filter bank to a whole recording |
//! | [`gram`] | the normal equations (Γ, Υ and means), from spikes or from steps |
//! | [`solve`] | weights and intercept from the normal equations |
//! | [`decode`] | the estimates of a decoder at every step of a recording |
//! | [`score`] | R², RMSE and NRMSE of estimates |
//!
//! Every operation has a plain f64 definition (`oracle`), and its CUDA version stands beside it (`cuda`).

#[cfg(any(test, feature = "cases"))]
#[doc(hidden)]
#[allow(clippy::unwrap_used, missing_docs)]
pub mod cases;
pub mod decode;
mod delay;
pub mod gram;
pub mod movement;
mod noise;
pub mod parts;
pub mod psc;
pub mod score;
pub mod solve;

pub use delay::{DelayEstimate, estimate_delay, estimate_delay_on};
pub use gram::{GramPath, NormalEquations, SampledError};
pub use noise::largest_response;
pub use score::{Evaluation, evaluate, evaluate_on};
pub use solve::{MaskPolicy, Solver};
