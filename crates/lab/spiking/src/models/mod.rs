//! Networks by name.
//!
//! | name | network |
//! |---|---|
//! | [`galbraith`] | the ring, full and random networks of Galbraith 2010, chapter 4 |
//! | [`pd14`] | the cortical microcircuit of Potjans and Diesmann 2014 |
//! | [`brunel`] | the sparse network of Brunel 2000 with exponential currents |
//! | [`cuba`] | the network of Vogels and Abbott 2005, as benchmark 2 of Brette et al. 2007 |

mod brunel;
mod cuba;
pub mod galbraith;
mod pd14;

use betz_base::{Error, Result};

pub use brunel::brunel;
pub use cuba::cuba;
pub use pd14::{PD14_RATES_HZ, pd14};

use crate::spec::Network;

/// Names that [`by_name`] knows.
pub const NAMES: [&str; 3] = ["pd14", "brunel", "cuba"];

/// The model of that name; `scale` of its neurons (and of PD14's in-degrees) is kept.
///
/// # Errors
/// `InvalidArgument` for another name, and for a scale that leaves a population without neurons.
pub fn by_name(name: &str, scale: f64, seed: u64) -> Result<Network> {
    let network = match name {
        "pd14" => pd14(scale, seed),
        "brunel" => brunel(scale, 5.0, 2.0, seed),
        "cuba" => cuba(scale, seed),
        _ => {
            return Err(Error::argument(format!(
                "expected a model among {NAMES:?}, got {name:?}"
            )));
        }
    }?;
    network.check()?;
    Ok(network)
}

/// Neurons of a scaled population.
fn scale_neurons(neurons: f64, scale: f64) -> u32 {
    // NaN and what is negative become 0, which is refused as a network without neurons.
    (neurons * scale).round().clamp(0.0, 1e9) as u32
}

/// Charge of an exponential current per mV of the potential's peak, in pA/mV: the inverse of
/// (τ_m τ_s / (C (τ_m − τ_s))) ((τ_s/τ_m)^(τ_s/(τ_m − τ_s)) … ), as in the microcircuit's scripts.
fn current_for_potential(c_m_pf: f64, tau_m_ms: f64, tau_s_ms: f64) -> f64 {
    let inverse = 1.0 / (tau_m_ms - tau_s_ms);
    let ratio = tau_m_ms / tau_s_ms;
    let peak = ratio.powf(-tau_m_ms * inverse) - ratio.powf(-tau_s_ms * inverse);
    (1.0 / (tau_m_ms * tau_s_ms / c_m_pf * inverse * peak)).abs()
}
