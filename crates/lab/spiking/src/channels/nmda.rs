//! NMDA: slow excitation that magnesium blocks at rest (Jahr and Stevens 1990).

use super::{Channel, Constants, Gate};
use crate::math::exp;

pub(super) const CHANNEL: Channel = Channel {
    name: "nmda",
    constants: Constants {
        tau_rise_ms: 2.0,
        tau_decay_ms: 100.0,
        reversal_mv: 0.0,
        magnesium_mm: 1.0,
    },
    gate: Gate::Magnesium,
};

/// Share of channels that `magnesium` (mM) leaves open at the potential `v`: 1 / (1 + [Mg]/3.57 e^(−0.062 V)).
#[inline(always)]
pub(crate) fn gate(magnesium: f32, v: f32) -> f32 {
    1.0 / (magnesium / 3.57).mul_add(exp(-0.062 * v), 1.0)
}
