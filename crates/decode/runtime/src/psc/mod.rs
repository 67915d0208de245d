//! Post-synaptic-current (PSC) filters: from spikes to smooth features.
//!
//! h(t) = t^n e^(−t/τ) for t ≥ 0 (Galbraith 2010, eq. 2.2), sampled on ticks and scaled to unit sum, runs as a recursion.
//! A filter of any other shape is a list of samples ([`SampledFilter`]), and runs as a convolution ([`Convolution`]).

mod convolution;
mod low_pass;
mod makers;
mod recursive;
mod sampled;
mod shape;
mod transform;

pub use convolution::Convolution;
pub use low_pass::{LowPass, LowPassFilter, MAX_LOW_PASS_ORDER, Section};
pub use makers::KernelShape;
pub use recursive::{BINOMIAL, RecursiveFilter, advance};
pub use sampled::{MAX_SAMPLES, SampledFilter};
pub use shape::{Filter, FilterBank, MAX_ORDER};

/// A filter state below this is as good as zero; above it no product in a step becomes denormal.
const SILENCE: f64 = 1e-280;

/// Zero in place of a state that has decayed to nothing: denormal numbers make steps slow exactly
/// when nothing happens.
#[inline(always)]
pub fn flush(state: f64) -> f64 {
    if state.abs() < SILENCE { 0.0 } else { state }
}
