//! Post-synaptic-current (PSC) filters: from spikes to smooth features.
//!
//! h(t) = t^n e^(−t/τ) for t ≥ 0 (Galbraith 2010, eq. 2.2), sampled on ticks and scaled to unit sum.

mod lowpass;
mod recursive;
mod shape;

pub use lowpass::{LowPass, LowPassFilter, MAX_LOW_PASS_ORDER, Section};
pub(crate) use recursive::BINOMIAL;
pub use recursive::{RecursiveFilter, advance};
pub use shape::{Filter, FilterBank, MAX_ORDER};

/// A filter state below this is as good as zero; above it no product in a step becomes denormal.
const SILENCE: f64 = 1e-280;

/// Zero in place of a state that has decayed to nothing: denormal numbers make steps slow exactly
/// when nothing happens.
#[inline(always)]
pub fn flush(state: f64) -> f64 {
    if state.abs() < SILENCE { 0.0 } else { state }
}
