//! AMPA: fast excitation (Dayan and Abbott 2001, §5.8).

use super::{Channel, Constants, Gate};

pub(super) const CHANNEL: Channel = Channel {
    name: "ampa",
    constants: Constants {
        tau_rise_ms: 0.0,
        tau_decay_ms: 5.0,
        reversal_mv: 0.0,
        magnesium_mm: 0.0,
    },
    gate: Gate::Open,
};
