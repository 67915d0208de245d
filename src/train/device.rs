//! Training on a chosen device.

use super::fit;
use super::options::TrainOptions;
use crate::device::Device;
use crate::error::Result;
use crate::model::Decoder;
use crate::progress::Progress;
use crate::recording::Dataset;

/// [`train`](super::train) on `device`: only spikes and behaviour go up, and weights come down.
///
/// # Errors
/// As [`train`](super::train), and those of the device.
pub fn train_on(
    device: &Device,
    data: &Dataset,
    options: &TrainOptions,
    progress: &dyn Progress,
) -> Result<Decoder> {
    #[cfg(feature = "cuda")]
    if let Some(context) = device.contexts().first()
        && let Some(decoder) = cuda::train(context, data, options, progress)?
    {
        return Ok(decoder);
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    fit::train(data, options, progress)
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::*;
    use crate::device::cuda::Context;
    use crate::train::gram::{self, GramPath};
    use crate::train::solve::{self, FeatureNames, Solution};

    /// The whole of training on one device; `None` for what only the CPU does.
    pub(super) fn train(
        context: &Context,
        data: &Dataset,
        options: &TrainOptions,
        progress: &dyn Progress,
    ) -> Result<Option<Decoder>> {
        fit::check(data)?;
        let bank = &options.bank;
        let Some((sums, path)) = gram::cuda::device_sums(
            context,
            data,
            bank,
            options.low_pass,
            options.delay_steps,
            options.gram,
            progress,
        )?
        else {
            return Ok(None);
        };
        let ridge = fit::ridge(data, options, sums.steps)?;
        progress.update("solve", 0, 1);
        let solvable = ridge.is_finite() && (ridge > 0.0 || sums.steps > sums.features as u64);
        let solved = if solvable {
            solve::cuda::solve(context, &sums, ridge, options.solver)?
        } else {
            None
        };
        let solution = match solved {
            Some(found) => Solution {
                channel_mask: found
                    .feature_sums
                    .chunks_exact(bank.len())
                    // Responses are never negative: no sum, no response.
                    .map(|sums| sums.iter().any(|&s| s != 0.0))
                    .collect(),
                weights: found.weights,
                intercept: found.intercept,
            },
            // The CPU's solver says what is wrong, in the same words, or masks it.
            None => {
                let sums = sums.download(context)?;
                let names = FeatureNames {
                    channels: &data.channel_names,
                    bank,
                };
                let mut solution = solve::solve(&sums, ridge, options.solver, options.mask, names)?;
                for (mask, sums) in solution
                    .channel_mask
                    .iter_mut()
                    .zip(sums.feature_sum.chunks_exact(bank.len()))
                {
                    *mask &= sums.iter().any(|&s| s != 0.0);
                }
                solution
            }
        };
        progress.update("solve", 1, 1);
        let steps = sums.steps;
        debug_assert_ne!(path, GramPath::Auto);
        Ok(Some(fit::decoder(
            data, options, steps, ridge, path, solution,
        )))
    }
}
