//! Training on a device: where is decided when it begins, and carried along.

use std::panic::resume_unwind;

use super::blank::{Artefacts, CleanData};
use super::choice::{Choice, Paths, choose};
use super::fit;
use super::limits::limits;
use super::options::{RidgeChoice, TrainOptions};
use super::retained::StoredStatistics;
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::Precision;
use betz_device::{Device, Placement, Ran};
use betz_gram::gram::cuda::{DeviceSums, SampledWay};
use betz_gram::gram::{self, GramPath, NormalEquations, SampledError};
use betz_gram::solve;
use betz_recording::DatasetView;
use betz_runtime::model::Decoder;
use betz_runtime::psc::FilterBank;

/// A decoder, and what became of its training.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// The decoder.
    pub decoder: Decoder,
    /// Place of training, its path to Γ, and the reasons against other places.
    pub ran: Ran,
    /// Error of Γ against full precision, if a lower one was asked for ([`TrainOptions::precision`]),
    /// the dense path ran on a device, and there was memory to measure it. Of cross-validation over all folds
    /// of the bank that was chosen, or of the training on the whole where that took sums of its own.
    pub gram_error: Option<SampledError>,
    /// Steps that were taken for artefacts.
    pub artefacts: Artefacts,
}

/// [`train`](super::train) on `device`: only spikes and behaviour go up, and weights come down.
/// [`Device::auto`] is settled by [`choose`], and goes on with the CPU where the device falls short
/// ([`Placement::or_cpu`]).
///
/// # Errors
/// As [`train`](super::train), and those of the device.
pub fn train_on<'d>(
    device: &Device,
    data: impl Into<DatasetView<'d>>,
    options: &TrainOptions,
    progress: &dyn Progress,
) -> Result<Trained> {
    let data = &data.into();
    fit::check(data, std::slice::from_ref(&options.bank), usize::MAX)?;
    CleanData::check(data)?;
    let choice = choose(device, data, options, None);
    // A device begins with the data as they are while the host looks for artefacts, which most recordings have none of.
    let (cleaned, begun) = std::thread::scope(|scope| {
        let search = || CleanData::search(data, options.keep_artefacts);
        if choice.placement.is_cpu() || keeps_sums(options) {
            return (search(), None);
        }
        let search = scope.spawn(search);
        let contexts = choice.placement.contexts();
        let sums = cuda::sums(contexts, choice.paths[0], data, options, progress);
        let cleaned = search.join();
        (cleaned.unwrap_or_else(|e| resume_unwind(e)), Some(sums))
    });
    let trained = if cleaned.is_unchanged() {
        let (placement, paths) = (&choice.placement, choice.paths[0]);
        train_after(begun, placement, paths, data, options, progress)?
    } else {
        drop(begun);
        let data = &cleaned.view(data);
        let Choice {
            placement, paths, ..
        } = choose(device, data, options, None);
        train_at(&placement, paths[0], data, options, progress)?
    };
    Ok(Trained {
        artefacts: cleaned.artefacts,
        ..trained
    })
}

/// Sums on a device, and the path by which they were computed; `None` for what only the CPU does, or without a device.
type PathOnDevice = Option<(DeviceSums, GramPath)>;

/// True if training needs the sums in host memory: the model keeps them, or the ridge follows from them.
fn keeps_sums(options: &TrainOptions) -> bool {
    options.retain.is_some() || options.ridge == RidgeChoice::Generalised
}

/// [`train_on`] where that was decided already; `data` is checked, and holds no artefacts.
pub(super) fn train_at(
    placement: &Placement,
    paths: Paths,
    data: &DatasetView<'_>,
    options: &TrainOptions,
    progress: &dyn Progress,
) -> Result<Trained> {
    train_after(None, placement, paths, data, options, progress)
}

/// [`train_at`], with the sums that the device has computed already, if it has.
fn train_after(
    begun: Option<Result<PathOnDevice>>,
    placement: &Placement,
    paths: Paths,
    data: &DatasetView<'_>,
    options: &TrainOptions,
    progress: &dyn Progress,
) -> Result<Trained> {
    if keeps_sums(options) {
        // They come down from wherever they are computed.
        let features = data.channels() * options.bank.len();
        StoredStatistics::check_size(features, data.outputs.len(), options.retain)?;
        let bank = &options.bank;
        let found = normal_equations(placement, paths, data, options, bank, progress)?;
        let (sums, path) = (&found.sums, found.path);
        return Ok(Trained {
            decoder: decoder_from_sums(placement, data, options, sums, path, progress)?,
            ran: placement.ran(found.path_name()),
            gram_error: found.gram_error,
            artefacts: Artefacts::default(),
        });
    }
    let contexts = placement.contexts();
    let sums = begun.unwrap_or_else(|| cuda::sums(contexts, paths, data, options, progress));
    let trained = sums.and_then(|sums| cuda::train(contexts, sums, data, options, progress));
    if let Some(Some(trained)) = placement.or_cpu(trained)? {
        return Ok(Trained {
            ran: placement.ran(path_name(trained.path, trained.sampled_way)),
            decoder: trained.decoder,
            gram_error: trained.gram_error,
            artefacts: Artefacts::default(),
        });
    }
    let (bank, low_pass, delay) = (&options.bank, options.low_pass, options.delay_steps);
    let (sums, path) = gram::normal_equations(data, bank, low_pass, delay, paths.cpu, progress)?;
    Ok(Trained {
        decoder: fit::decoder_from_sums(data, options, &sums, path, progress)?,
        ran: placement.ran(path.name()),
        gram_error: None,
        artefacts: Artefacts::default(),
    })
}

/// Sums, and how they came about.
#[derive(Debug, PartialEq)]
pub(super) struct PathSums {
    pub(super) sums: NormalEquations,
    pub(super) path: GramPath,
    /// The way in which a device computed responses to sampled filters.
    pub(super) sampled_way: Option<SampledWay>,
    pub(super) gram_error: Option<SampledError>,
}

impl PathSums {
    /// The path's name in reports.
    pub(super) fn path_name(&self) -> &'static str {
        path_name(self.path, self.sampled_way)
    }
}

/// The name of `path` in reports, with sampled filters computed in a device's `way`.
fn path_name(path: GramPath, way: Option<SampledWay>) -> &'static str {
    match way {
        None => path.name(),
        Some(SampledWay::Gather) => "dense, sampled filters gathered",
        Some(SampledWay::Transform) => "dense, sampled filters transformed",
    }
}

/// [`normal_equations`](gram::normal_equations) where `placement` says, by the path that `paths` names
/// there; by the other, where they leave that open and it does not fit the device.
pub(super) fn normal_equations(
    placement: &Placement,
    paths: Paths,
    data: &DatasetView<'_>,
    options: &TrainOptions,
    bank: &FilterBank,
    progress: &dyn Progress,
) -> Result<PathSums> {
    if let contexts @ [context, ..] = placement.contexts() {
        let request = cuda::request(paths, options, bank);
        let sums = gram::cuda::device_sums(contexts, data, &request, progress).and_then(|found| {
            let Some((sums, path)) = found else {
                return Ok(None);
            };
            Ok(Some(PathSums {
                gram_error: sums.sampled,
                sampled_way: sums.sampled_way,
                sums: sums.download(context)?,
                path,
            }))
        });
        if let Some(Some(found)) = placement.or_cpu(sums)? {
            return Ok(found);
        }
    }
    let (low_pass, delay) = (options.low_pass, options.delay_steps);
    let (sums, path) = gram::normal_equations(data, bank, low_pass, delay, paths.cpu, progress)?;
    Ok(PathSums {
        sums,
        path,
        sampled_way: None,
        gram_error: None,
    })
}

/// The decoder that `sums`, computed by `path` over every segment of `data`, lead to; solved where
/// `placement` says, if they fit there.
pub(super) fn decoder_from_sums(
    placement: &Placement,
    data: &DatasetView<'_>,
    options: &TrainOptions,
    sums: &NormalEquations,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<Decoder> {
    if let [context, ..] = placement.contexts()
        && options.ridge != RidgeChoice::Generalised
    {
        let decoder = || {
            let (n, m) = (sums.features, sums.outputs);
            if !solve::cuda::fits(context, n, m, 8 * (n as u64).pow(2))? {
                return Ok(None);
            }
            let there = gram::cuda::DeviceSums::upload(context, sums)?;
            let decoder = cuda::decoder(context, data, options, &there, path, progress)?;
            StoredStatistics::kept_in(decoder, sums, options.retain).map(Some)
        };
        if let Some(Some(decoder)) = placement.or_cpu(decoder())? {
            return Ok(decoder);
        }
    }
    fit::decoder_from_sums(data, options, sums, path, progress)
}

/// Γ and Υ computed on `device` and left there: what training takes before it solves.
pub(super) fn sums_for_timing(
    device: &Device,
    data: &DatasetView<'_>,
    bank: &FilterBank,
    path: GramPath,
    progress: &dyn Progress,
) -> Result<()> {
    if let contexts @ [context, ..] = device.contexts() {
        let request = gram::cuda::Request {
            bank,
            low_pass: None,
            delay_steps: 0,
            path,
            either: false,
            precision: Precision::F32,
            sampled: None,
        };
        gram::cuda::device_sums(contexts, data, &request, progress)?;
        return context.synchronize();
    }
    gram::normal_equations(data, bank, None, 0, path, progress).map(|_| ())
}

pub(super) mod cuda {
    use std::sync::Arc;

    use super::*;
    use betz_device::cuda::Context;
    use betz_gram::gram::cuda::{Request, device_sums};
    use betz_gram::parts::time_on;
    use betz_gram::solve::{self, FeatureNames};

    /// A decoder that was trained on devices.
    pub(super) struct DeviceTraining {
        pub(super) decoder: Decoder,
        pub(super) path: GramPath,
        pub(super) sampled_way: Option<SampledWay>,
        pub(super) gram_error: Option<SampledError>,
    }

    /// The request for the sums that `options` need, with `bank`.
    pub(super) fn request<'a>(
        paths: Paths,
        options: &TrainOptions,
        bank: &'a FilterBank,
    ) -> Request<'a> {
        Request {
            bank,
            low_pass: options.low_pass,
            delay_steps: options.delay_steps,
            path: paths.cuda,
            either: paths.either,
            precision: options.precision,
            sampled: None,
        }
    }

    /// Sums on the first of `contexts`.
    pub(super) fn sums(
        contexts: &[Arc<Context>],
        paths: Paths,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        progress: &dyn Progress,
    ) -> Result<PathOnDevice> {
        let Some(context) = contexts.first() else {
            return Ok(None);
        };
        let request = request(paths, options, &options.bank);
        std::thread::scope(|scope| {
            if !context.has_solver() {
                scope.spawn(|| solve::cuda::prepare(context));
            }
            device_sums(contexts, data, &request, progress)
        })
    }

    /// The training that `sums` on the first of `contexts` lead to; `None` without them.
    pub(super) fn train(
        contexts: &[Arc<Context>],
        sums: PathOnDevice,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        progress: &dyn Progress,
    ) -> Result<Option<DeviceTraining>> {
        let (Some(context), Some((sums, path))) = (contexts.first(), sums) else {
            return Ok(None);
        };
        Ok(Some(DeviceTraining {
            decoder: decoder(context, data, options, &sums, path, progress)?,
            path,
            sampled_way: sums.sampled_way,
            gram_error: sums.sampled,
        }))
    }

    /// The decoder that `sums` on `context` lead to.
    pub(crate) fn decoder(
        context: &Context,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        sums: &DeviceSums,
        path: GramPath,
        progress: &dyn Progress,
    ) -> Result<Decoder> {
        let bank = &options.bank;
        let ridge = fit::ridge(data, bank, options, sums.steps)?;
        progress.update("solve", 0, 1);
        // The host goes through spikes and labels while the device computes.
        let (solved, limits) = rayon::join(
            || {
                time_on(context, progress, || {
                    solve::cuda::solve(context, sums, ridge, options.solver)
                })
            },
            || limits(data, &vec![true; data.channels()], options.keep_artefacts),
        );
        let solution = match solved? {
            Some(found) => found.into_solution(bank.len()),
            // The CPU's solver says what is wrong, in the same words, or masks it.
            None => {
                let sums = sums.download(context)?;
                let names = FeatureNames {
                    channels: data.channel_names,
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
        fit::decoder(data, options, steps, ridge, path, solution, Some(limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_base::error::{Error, ErrorKind};
    use betz_gram::cases;

    /// If a device falls short, training gives the CPU's result, even if work had begun on the device.
    #[test]
    fn a_device_that_falls_short_leaves_the_rest_to_the_cpu() {
        let fallen = || {
            let placement = Placement::on(&Device::auto());
            let short = Error::new(ErrorKind::DeviceMemory, "expected room for 9 bytes, got 7");
            assert!(placement.or_cpu(Err::<(), _>(short)).unwrap().is_none());
            placement
        };
        for case in &cases::all()[..4] {
            let options = TrainOptions {
                delay_steps: case.delay_steps,
                mask: betz_gram::MaskPolicy::Mask,
                ..TrainOptions::new(case.bank.clone())
            };
            let data = &case.data.view();
            let paths = choose(&Device::cpu(), data, &options, None).paths[0];
            let by = |placement: &Placement| train_at(placement, paths, data, &options, &());
            let (there, here) = (by(&fallen()), by(&Placement::cpu()));
            let decoder = |trained: Result<Trained>| trained.map(|t| t.decoder);
            if let Ok(there) = &there {
                assert_eq!(there.ran.device, "cpu");
                assert!(there.ran.fallback.is_some());
            }
            assert_eq!(decoder(there), decoder(here), "{}", case.name);
            let sums = |placement: &Placement| {
                normal_equations(placement, paths, data, &options, &case.bank, &())
            };
            let (there, here) = (sums(&fallen()), sums(&Placement::cpu()));
            assert_eq!(there, here, "{}", case.name);
        }
    }

    /// A training tells what it took, whoever named the device.
    #[test]
    fn what_ran_is_told_with_the_decoder() {
        let case = &cases::all()[0];
        for gram in [GramPath::Event, GramPath::Dense] {
            let options = TrainOptions {
                gram,
                mask: betz_gram::MaskPolicy::Mask,
                ..TrainOptions::new(case.bank.clone())
            };
            let trained = train_on(&Device::cpu(), &case.data, &options, &()).unwrap();
            assert_eq!(trained.ran, Ran::on_cpu(gram.name()));
            assert_eq!(trained.decoder.training().gram_path, gram.name());
            assert_eq!(trained.gram_error, None);
        }
    }
}
