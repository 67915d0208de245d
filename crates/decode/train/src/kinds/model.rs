//! Fitted kinds in the form that a decoder keeps.

use super::family::FamilyFit;
use crate::experts::Gate;
use crate::lift::Cosines;
use betz_runtime::model::{self, Experts, FilteredReadout, Head, Lift};

/// The head of a lift.
pub(super) fn lift(fitted: &FamilyFit<Cosines>, seed: u64) -> Head {
    let cosines = &fitted.basis;
    Head::Lift(Lift {
        cosines: model::Cosines {
            radius: fitted.radius,
            frequencies: transposed(&cosines.omega, cosines.latents),
            phases: cosines.phase.clone(),
        },
        readout: readout(fitted),
        seed,
    })
}

/// The head of experts.
pub(super) fn experts(fitted: &FamilyFit<Gate>, seed: u64) -> Head {
    let gate = &fitted.basis;
    Head::Experts(Experts {
        gate: model::Gate {
            radius: fitted.radius,
            weights: transposed(&gate.weights, 2 * gate.latents),
            bias: gate.bias.clone(),
        },
        readout: readout(fitted),
        seed,
    })
}

fn readout<B>(fitted: &FamilyFit<B>) -> FilteredReadout {
    let outputs = fitted.readout.intercept.len();
    let (direct, filtered) = fitted.readout.weights.split_at(fitted.mean.len() * outputs);
    FilteredReadout {
        tau_seconds: fitted.plan.tau_seconds,
        centre: fitted.mean.clone(),
        direct: direct.to_vec(),
        filtered: filtered.to_vec(),
        intercept: fitted.readout.intercept.clone(),
    }
}

/// Rows of `width` as columns.
fn transposed(values: &[f32], width: usize) -> Vec<f32> {
    (0..width)
        .flat_map(|i| values.iter().skip(i).step_by(width).copied())
        .collect()
}
