//! Post-synaptic-current (PSC) filters: from spikes to smooth features.
//!
//! h(t) = t^n e^(−t/τ) for t ≥ 0 (Galbraith 2010, eq. 2.2), sampled on ticks and scaled to unit sum.

mod shape;

pub use shape::{Filter, FilterBank, MAX_ORDER};
