//! Training on a chosen device.

use super::blank::without_artefacts;
#[cfg(feature = "cuda")]
use super::choice::choose;
use super::fit;
use super::gram::{self, GramPath, NormalEquations};
use super::options::TrainOptions;
use super::retained::Retained;
#[cfg(feature = "cuda")]
use super::solve;
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::Device;
#[cfg(feature = "cuda")]
use betz_device::Precision;
use betz_recording::Dataset;
use betz_runtime::model::Decoder;
use betz_runtime::psc::FilterBank;

/// [`train`](super::train) on `device`: only spikes and behaviour go up, and weights come down.
/// [`Device::auto`] is settled by [`choose`], and goes on with the CPU where the device falls short
/// ([`Device::or_cpu`]).
///
/// # Errors
/// As [`train`](super::train), and those of the device.
pub fn train_on(
    device: &Device,
    data: &Dataset,
    options: &TrainOptions,
    progress: &dyn Progress,
) -> Result<Decoder> {
    fit::check(data, std::slice::from_ref(&options.bank))?;
    let (data, _) = without_artefacts(data);
    let data = &*data;
    if options.retain.is_some() {
        let features = data.channels() * options.bank.len();
        Retained::check_size(features, data.outputs.len(), options.retain)?;
        #[cfg(feature = "cuda")]
        let device = &choose(device, data, options, None).device;
        let (bank, path) = (&options.bank, options.gram);
        let (sums, path) = normal_equations(device, data, options, bank, path, progress)?;
        return decoder_from_sums(device, data, options, &sums, path, progress);
    }
    #[cfg(feature = "cuda")]
    {
        let chosen = choose(device, data, options, None).device;
        let trained = cuda::train(chosen.contexts(), data, options, progress);
        if let Some(Some(decoder)) = chosen.or_cpu(trained)? {
            return Ok(decoder);
        }
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    fit::train_as_it_is(data, options, progress)
}

/// [`normal_equations`](gram::normal_equations) on `device`, which is open or the CPU; by `path`, unless
/// `options` leave that open and it does not fit the device.
pub(super) fn normal_equations(
    device: &Device,
    data: &Dataset,
    options: &TrainOptions,
    bank: &FilterBank,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<(NormalEquations, GramPath)> {
    let (low_pass, delay) = (options.low_pass, options.delay_steps);
    #[cfg(feature = "cuda")]
    if let contexts @ [context, ..] = device.contexts() {
        let request = gram::cuda::Request {
            bank,
            low_pass,
            delay_steps: delay,
            path,
            either: options.gram == GramPath::Auto,
            precision: options.precision,
        };
        let sums = gram::cuda::device_sums(contexts, data, &request, progress).and_then(|found| {
            let Some((sums, path)) = found else {
                return Ok(None);
            };
            cuda::report(&sums, progress);
            Ok(Some((sums.download(context)?, path)))
        });
        if let Some(Some(found)) = device.or_cpu(sums)? {
            return Ok(found);
        }
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    gram::normal_equations(data, bank, low_pass, delay, path, progress)
}

/// The decoder that `sums`, computed by `path` over every segment of `data`, lead to; solved on `device`
/// where they fit it.
pub(super) fn decoder_from_sums(
    device: &Device,
    data: &Dataset,
    options: &TrainOptions,
    sums: &NormalEquations,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<Decoder> {
    #[cfg(feature = "cuda")]
    if let [context, ..] = device.contexts() {
        let decoder = || {
            let (n, m) = (sums.features, sums.outputs);
            if !solve::cuda::fits(context, n, m, 8 * (n as u64).pow(2))? {
                return Ok(None);
            }
            let there = gram::cuda::DeviceSums::upload(context, sums)?;
            let decoder = cuda::decoder(context, data, options, &there, path, progress)?;
            Retained::kept_in(decoder, sums, options.retain).map(Some)
        };
        if let Some(Some(decoder)) = device.or_cpu(decoder())? {
            return Ok(decoder);
        }
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    fit::decoder_from_sums(data, options, sums, path, progress)
}

/// Γ and Υ computed on `device` and left there: what training takes before it solves.
pub(super) fn sums_for_timing(
    device: &Device,
    data: &Dataset,
    bank: &FilterBank,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<()> {
    #[cfg(feature = "cuda")]
    if let contexts @ [context, ..] = device.contexts() {
        let request = gram::cuda::Request {
            bank,
            low_pass: None,
            delay_steps: 0,
            path,
            either: false,
            precision: Precision::F32,
        };
        gram::cuda::device_sums(contexts, data, &request, progress)?;
        return context.synchronize();
    }
    #[cfg(not(feature = "cuda"))]
    let _ = device;
    gram::normal_equations(data, bank, None, 0, path, progress).map(|_| ())
}

#[cfg(feature = "cuda")]
pub(super) mod cuda {
    use std::sync::Arc;

    use super::*;
    use crate::gram::cuda::{DeviceSums, Request, device_sums};
    use crate::solve::{self, FeatureNames};
    use betz_device::cuda::Context;

    /// The whole of training on devices; `None` for what only the CPU does, or without a device.
    pub(super) fn train(
        contexts: &[Arc<Context>],
        data: &Dataset,
        options: &TrainOptions,
        progress: &dyn Progress,
    ) -> Result<Option<Decoder>> {
        let bank = &options.bank;
        let Some(context) = contexts.first() else {
            return Ok(None);
        };
        let request = Request {
            bank,
            low_pass: options.low_pass,
            delay_steps: options.delay_steps,
            path: options.gram,
            either: options.gram == GramPath::Auto,
            precision: options.precision,
        };
        let sums = std::thread::scope(|scope| {
            if !context.has_solver() {
                scope.spawn(|| solve::cuda::prepare(context));
            }
            device_sums(contexts, data, &request, progress)
        });
        let Some((sums, path)) = sums? else {
            return Ok(None);
        };
        decoder(context, data, options, &sums, path, progress).map(Some)
    }

    /// Reports how far Γ is from full precision, where a lower one was asked for.
    pub(crate) fn report(sums: &DeviceSums, progress: &dyn Progress) {
        if let Some(sampled) = &sums.sampled {
            progress.measured("gram_error_largest", sampled.largest);
            progress.measured("gram_error_rms", sampled.rms);
        }
    }

    /// The decoder that `sums` on `context` lead to.
    pub(crate) fn decoder(
        context: &Context,
        data: &Dataset,
        options: &TrainOptions,
        sums: &DeviceSums,
        path: GramPath,
        progress: &dyn Progress,
    ) -> Result<Decoder> {
        let bank = &options.bank;
        report(sums, progress);
        let ridge = fit::ridge(data, bank, options, sums.steps)?;
        progress.update("solve", 0, 1);
        let solved = solve::cuda::solve(context, sums, ridge, options.solver)?;
        let solution = match solved {
            Some(found) => found.into_solution(bank.len()),
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
        fit::decoder(data, options, steps, ridge, path, solution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use betz_base::error::{Error, ErrorKind};

    /// Whatever has been begun on it, a device that fell short trains as the CPU does.
    #[test]
    fn a_device_that_auto_gave_up_trains_on_the_cpu() {
        let auto = Device::auto();
        let short = Error::new(ErrorKind::DeviceMemory, "expected room for 9 bytes, got 7");
        assert!(auto.or_cpu(Err::<(), _>(short)).unwrap().is_none());
        for case in &cases::all()[..4] {
            let options = TrainOptions {
                delay_steps: case.delay_steps,
                mask: crate::MaskPolicy::Mask,
                ..TrainOptions::new(case.bank.clone())
            };
            let by = |device: &Device| train_on(device, &case.data, &options, &());
            assert_eq!(by(&auto), by(&Device::cpu()), "{}", case.name);
            let sums = |device| {
                let (bank, path) = (&case.bank, GramPath::Auto);
                normal_equations(device, &case.data, &options, bank, path, &())
            };
            assert_eq!(sums(&auto), sums(&Device::cpu()), "{}", case.name);
        }
        assert_eq!(auto.fallback(), Some("expected room for 9 bytes, got 7"));
    }
}
