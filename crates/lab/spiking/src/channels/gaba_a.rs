//! GABA-A: fast inhibition (Vogels and Abbott 2005).

use super::{Channel, Constants, Gate};

pub(super) const CHANNEL: Channel = Channel {
    name: "gaba_a",
    constants: Constants {
        tau_rise_ms: 0.0,
        tau_decay_ms: 10.0,
        reversal_mv: -80.0,
        magnesium_mm: 0.0,
    },
    gate: Gate::Open,
};
