//! Conductance synapses by channel: one file each, which `kernels/spiking_channels.cuh` repeats for devices.
//!
//! A spike of weight w (nS) adds a conductance of peak w that rises and decays by exponentials:
//! g(t) = w N (e^(−t/τ_decay) − e^(−t/τ_rise)), or w e^(−t/τ_decay) without a rise. Its current is
//! g(t) · gate(V) · (E − V).

mod ampa;
mod gaba_a;
mod gaba_b;
mod nmda;

use serde::{Deserialize, Serialize};

/// Constants of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Constants {
    pub(crate) tau_rise_ms: f64,
    pub(crate) tau_decay_ms: f64,
    pub(crate) reversal_mv: f64,
    pub(crate) magnesium_mm: f64,
}

/// A kind of channel as it is listed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Channel {
    /// Its name in a network's description.
    pub(crate) name: &'static str,
    /// Its constants unless others are given.
    pub(crate) constants: Constants,
    /// Dependence of its conductance on the potential.
    pub(crate) gate: Gate,
}

/// Dependence of a conductance on the potential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Gate {
    /// None.
    Open = 0,
    /// Block by magnesium: [`nmda::gate`].
    Magnesium = 1,
}

pub(crate) use nmda::gate as magnesium;

/// All channels: a new one is a file, and a line here.
pub(crate) const CHANNELS: &[Channel] = &[
    ampa::CHANNEL,
    nmda::CHANNEL,
    gaba_a::CHANNEL,
    gaba_b::CHANNEL,
];

/// The channel of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static Channel> {
    CHANNELS.iter().find(|c| c.name == name)
}

/// Factor that gives a conductance of these time constants the peak 1.
pub(crate) fn peak(rise: f64, decay: f64) -> f64 {
    if rise == 0.0 {
        return 1.0;
    }
    let at = (decay / rise).ln() * rise * decay / (decay - rise);
    1.0 / ((-at / decay).exp() - (-at / rise).exp())
}
