//! GABA-B: slow inhibition (time constants after Destexhe et al. 1994, as a difference of exponentials).

use super::{Channel, Constants, Gate};

pub(super) const CHANNEL: Channel = Channel {
    name: "gaba_b",
    constants: Constants {
        tau_rise_ms: 60.0,
        tau_decay_ms: 200.0,
        reversal_mv: -95.0,
        magnesium_mm: 0.0,
    },
    gate: Gate::Open,
};
