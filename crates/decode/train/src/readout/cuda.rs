//! The sums of stage 2 on a CUDA device: features are made here and sent, Γ and Υ are theirs.

use std::sync::Arc;

use super::Pass;
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::cost::{Calibration, CostModel};
use betz_device::cuda::Context;
use betz_device::{Placement, Precision};
use betz_gram::NormalEquations;
use betz_gram::gram::cuda::{DeviceResponses, normal_equations_of_responses};
use betz_recording::Segment;

/// Steps whose features are on the device together.
const SENT: usize = 16_384;

/// One thread's: a product for every step and pair of features of one triangle.
const CPU: CostModel = CostModel {
    name: "readout.cpu",
    terms: &["products"],
    defaults: &[0.0086e-9],
};

/// Measured values from `benches/record/decoders.md` (H200). Features are gathered and sent from pageable memory, and
/// elements of Γ return, both once for as many steps as are sent together.
const CUDA: CostModel = CostModel {
    name: "readout.cuda",
    terms: &["sendings", "responses", "elements"],
    defaults: &[0.5e-3, 0.4e-9, 2e-9],
};

/// The device where the sums of `features` over `steps` are to be made: the one that was named, else one where they
/// are expected to take less time. `None`: the CPU.
pub(super) fn chosen(
    placement: &Placement,
    features: usize,
    steps: usize,
) -> Option<&Arc<Context>> {
    let context = placement.contexts().first()?;
    let (n, t) = (features as f64, steps as f64);
    let sendings = (t / SENT as f64).ceil();
    let calibration = Calibration::current();
    let threads = rayon::current_num_threads() as f64;
    let cpu = calibration.seconds(&CPU, &[t * n * n / 2.0]) / threads;
    let cuda = calibration.seconds(&CUDA, &[sendings, t * n, sendings * n * n]);
    (cuda < cpu).then_some(context)
}

/// As [`Pass::sums`] on `context`. Γ is off by the rounding of f32.
///
/// # Errors
/// Returns the errors of the device, and [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
pub(super) fn sums(
    context: &Arc<Context>,
    pass: &Pass<'_>,
    wants: &(dyn Fn(usize) -> bool + Sync),
    progress: &dyn Progress,
) -> Result<NormalEquations> {
    let (features, outputs) = (pass.features(), pass.outputs());
    let wanted = (0..pass.steps()).filter(|&step| wants(step)).count();
    let length = wanted.min(SENT);
    betz_base::memory::plan(
        format_args!("{features} features of {length} steps"),
        features as u128 * length as u128 * 4,
    )?;
    let mut total = NormalEquations::zeros(features, outputs);
    let mut values = vec![0.0_f32; features * length];
    let mut behavior = Vec::with_capacity(length * outputs);
    let mut filled = 0;
    let send = |values: &[f32], behavior: &mut Vec<f32>, total: &mut NormalEquations| {
        let steps = behavior.len() / outputs;
        let there = context.upload(values)?;
        let given = DeviceResponses {
            responses: &there,
            features,
            length,
            steps,
            segments: &[Segment {
                start: 0,
                stop: steps as i64,
            }],
            behavior,
            outputs,
        };
        let (sums, _) =
            normal_equations_of_responses(context, &given, 0, Precision::F32, progress)?;
        behavior.clear();
        total.add(&sums)
    };
    pass.blocks(wants, progress, |steps, block| {
        let n = steps.len();
        let mut taken = 0;
        while taken < n {
            let more = (n - taken).min(length - filled);
            for (to, from) in values.chunks_exact_mut(length).zip(block.chunks_exact(n)) {
                to[filled..filled + more].copy_from_slice(&from[taken..taken + more]);
            }
            for &step in &steps[taken..taken + more] {
                behavior.extend_from_slice(pass.truth(step));
            }
            (filled, taken) = (filled + more, taken + more);
            if filled == length {
                send(&values, &mut behavior, &mut total)?;
                filled = 0;
            }
        }
        Ok(())
    })?;
    if filled > 0 {
        send(&values, &mut behavior, &mut total)?;
    }
    Ok(total)
}
