//! Training a decoder from beginning to end: the one entry point for the command line, Python, C and Rust.

#[cfg(feature = "npz")]
mod chunks;

use super::active::{active, spread};
use super::blank::Artefacts;
use super::centre::CentredSignal;
use super::device::{Trained, train_on};
use super::kinds::{Comparison, Kind, KindOptions, train_kinds_on};
use super::masked;
use super::options::{RidgeChoice, TrainOptions, TrainingPlan};
use super::presets::PRESETS;
use super::search::Search;
use super::training_data::TrainingData;
use super::trials::single_step_warning;
use super::validate::train_validated_on;
use super::variance::{tells_variance, with_variance};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{Phases, Progress};
use betz_device::{Device, Precision, Ran};
use betz_gram::estimate_delay_on;
use betz_gram::gram::{GramPath, SampledError};
use betz_gram::solve::{MaskPolicy, Solver};
use betz_recording::{Dataset, DatasetView};
use betz_runtime::model::Decoder;
use betz_runtime::psc::{FilterBank, LowPass};

/// Delay between the behaviour and its estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// The output at step t estimates the behaviour at step t − delay.
    Steps(i64),
    /// The delay at which spikes explain behaviour best, within the given seconds in both directions
    /// ([`estimate_delay_on`]).
    Estimated {
        /// Largest delay that is tried, in seconds.
        within_seconds: f64,
    },
}

/// Configuration of training.
///
/// ```
/// use betz_device::Device;
/// use betz_train::Training;
///
/// # fn main() -> betz_base::Result<()> {
/// let data = betz_simulate::poisson(10, 20.0, 5_000, 0.01, 1)?;
/// let training = Training { folds: 3, ..Training::default() };
/// let trained = training.run(&data, &Device::cpu(), &())?;
/// assert_eq!(trained.decoder.training().folds, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Training {
    /// PSC filters; `None`: the best of the [`PRESETS`] that suit the data, by cross-validation.
    pub bank: Option<FilterBank>,
    /// Butterworth low-pass behind the filters.
    pub low_pass: Option<LowPass>,
    /// Delay of the estimates.
    pub delay: Delay,
    /// Ridge; `None`: by cross-validation, or without folds by [`RidgeChoice::Generalised`].
    pub ridge: Option<RidgeChoice>,
    /// Path to Γ.
    pub gram: GramPath,
    /// Precision of the dense path's products on a device.
    pub precision: Precision,
    /// Solver of the linear system.
    pub solver: Solver,
    /// Treatment of dead and duplicated channels.
    pub mask: MaskPolicy,
    /// Store the sufficient statistics in the decoder, in at most this many bytes.
    pub retain: Option<usize>,
    /// Folds of cross-validation; 0: none.
    pub folds: usize,
    /// Decoder kinds to choose from; [`KindOptions::linear`] alone compares nothing.
    pub kinds: KindOptions,
    /// Train only on channels that fire, and mask the others. If false, the solver handles silent channels.
    pub leave_out_silent: bool,
    /// Train on and decode steps with far more spikes than usual without changes. If false, they count as artefacts
    /// ([`Artefacts`]).
    pub keep_artefacts: bool,
    /// Also estimate the variance of every output, if the chosen kind supports it: lift, experts, and a blend of which one
    /// of these is a member.
    pub variance: bool,
}

impl Default for Training {
    /// The best preset and ridge of a linear decoder by five folds; masks channels without information.
    fn default() -> Self {
        Self {
            bank: None,
            low_pass: None,
            delay: Delay::Steps(0),
            ridge: None,
            gram: GramPath::Auto,
            precision: Precision::F32,
            solver: Solver::Cholesky,
            mask: MaskPolicy::Mask,
            retain: None,
            folds: 5,
            kinds: KindOptions::linear(),
            leave_out_silent: true,
            keep_artefacts: false,
            variance: false,
        }
    }
}

/// A trained decoder and a report of its training.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingOutcome {
    /// The decoder, for all channels of the data.
    pub decoder: Decoder,
    /// Device and path to Γ.
    pub ran: Ran,
    /// Error of Γ in a lower precision; see [`Trained::gram_error`](super::Trained::gram_error).
    pub gram_error: Option<SampledError>,
    /// Scores of the compared kinds; `None` if only the linear one was requested.
    pub comparison: Option<Comparison>,
    /// Channels that were left out because they are silent.
    pub silent_channels: usize,
    /// Number of steps that count as artefacts.
    pub artefacts: Artefacts,
    /// Warnings about the data, one sentence each; empty if there are none.
    pub warnings: Vec<String>,
}

/// Share of the time that training takes; the estimate of a delay, and variances, take one each.
const TRAINING: u64 = 8;

impl TrainingOutcome {
    /// Attaches a sample of `data` to the decoder, which was trained on it.
    pub(crate) fn with_sample(mut self, data: &Dataset) -> Result<Self> {
        self.decoder = TrainingData::new(data).attach(self.decoder)?;
        Ok(self)
    }
}

impl Training {
    /// Trains on `data`. [`Device::auto`] runs where this host's calibration expects less time
    /// ([`choose`](super::choose)). The decoder keeps a sample of what it was trained on ([`TrainingData`]).
    ///
    /// # Errors
    /// The errors of [`train_on`], [`train_validated_on`] and [`train_kinds_on`];
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub fn run(
        &self,
        data: &Dataset,
        device: &Device,
        progress: &dyn Progress,
    ) -> Result<TrainingOutcome> {
        let of_delay = u64::from(matches!(self.delay, Delay::Estimated { .. }));
        let of_variance = u64::from(self.variance);
        let all = of_delay + TRAINING + of_variance;
        let mut phases = Phases::new(progress, "training", all);
        let delay = phases.next(of_delay);
        let (training, variance) = (&phases.next(TRAINING), &phases.next(of_variance));
        let outcome = self.run_by(data, Self::best_delay(device, &delay), |used, plan| {
            if !self.compares() {
                return Ok((train_linear(used, &plan, device, training)?, None));
            }
            let search = plan.search.unwrap_or(Search::scores_only(0));
            let options = &plan.options;
            let (mut trained, mut comparison) =
                train_kinds_on(device, used, options, &search, &self.kinds, training)?;
            // Errors of a blend are those on steps that it did not see.
            let held_out = std::mem::take(&mut comparison.held_out);
            if self.variance && tells_variance(&trained.decoder) {
                let held_out = Some(held_out).filter(|held_out| !held_out.is_empty());
                trained.decoder = with_variance(&trained.decoder, used, held_out, variance)?;
            }
            Ok((trained, Some(comparison)))
        })?;
        outcome.with_sample(data)
    }

    /// Trains like [`run`](Self::run), but only the linear kind, whatever `kinds` says, at a given delay, and without
    /// a sample of the training data. A program that calls only this function does not link the training of the other
    /// kinds, nor the transforms that estimate a delay: 1.5 MB.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if the
    /// delay is to be estimated.
    pub fn run_linear(
        &self,
        data: &Dataset,
        device: &Device,
        progress: &dyn Progress,
    ) -> Result<TrainingOutcome> {
        self.run_by(data, given_delay, |used, plan| {
            Ok((train_linear(used, &plan, device, progress)?, None))
        })
    }

    /// Estimates a delay of at most the given seconds on `device`.
    pub(crate) fn best_delay(
        device: &Device,
        progress: &dyn Progress,
    ) -> impl FnOnce(&DatasetView<'_>, &TrainOptions, f64) -> Result<i64> {
        |data, options, within_seconds| {
            let most = (within_seconds / data.step_seconds).round() as usize;
            let (bank, low_pass) = (&options.bank, options.low_pass);
            let estimate = estimate_delay_on(device, data, bank, low_pass, most, progress)?;
            Ok(estimate.delay_steps)
        }
    }

    /// Trains by `train` on the channels that take part, and extends the decoder to all of them. `delay` estimates a
    /// delay of at most the given seconds.
    pub(crate) fn run_by(
        &self,
        data: &Dataset,
        delay: impl FnOnce(&DatasetView<'_>, &TrainOptions, f64) -> Result<i64>,
        train: impl FnOnce(&Dataset, TrainingPlan) -> Result<(Trained, Option<Comparison>)>,
    ) -> Result<TrainingOutcome> {
        let centred = self.centred(data)?;
        let whole = centred.as_ref().map_or(data, |centred| &centred.data);
        let firing = match self.leave_out_silent {
            true => active(whole)?,
            false => None,
        };
        let used = firing.as_ref().map_or(whole, |firing| &firing.data);
        let (trained, comparison) = self
            .plan(&used.view(), delay)
            .and_then(|plan| train(used, plan))
            .map_err(|e| explain_by_outputs(data, explain_by_trials(data, e)))?;
        let left_out = comparison.as_ref().and_then(|c| c.left_out.as_ref());
        let mut decoder = trained.decoder;
        let masked = masked::warning(&used.view(), decoder.channel_mask());
        let artefacts = trained.artefacts.warning(data.steps_in_segments() as u64);
        if let Some(firing) = &firing {
            decoder = spread(decoder, &data.channel_names, &firing.channels)?;
        }
        if let Some(centred) = &centred {
            decoder = centred.decoder(decoder)?;
        }
        Ok(TrainingOutcome {
            silent_channels: data.channels() - used.channels(),
            decoder,
            ran: trained.ran,
            gram_error: trained.gram_error,
            artefacts: trained.artefacts,
            warnings: single_step_warning(data)
                .into_iter()
                .chain(left_out.cloned())
                .chain(masked)
                .chain(artefacts)
                .collect(),
            comparison,
        })
    }

    /// `data` without its means, if it is a signal that has such.
    fn centred(&self, data: &Dataset) -> Result<Option<CentredSignal>> {
        let bank = match &self.bank {
            Some(bank) => bank.clone(),
            // Every preset has filters that remember.
            None => PRESETS[PRESETS.len() - 1].bank()?,
        };
        let options = TrainOptions {
            low_pass: self.low_pass,
            gram: self.gram,
            ..TrainOptions::new(bank)
        };
        CentredSignal::new(data, &options)
    }

    /// True if kinds other than the linear one are requested.
    fn compares(&self) -> bool {
        self.kinds.kinds != [Kind::Linear]
    }

    /// The options for `data`: the first bank to try, the delay, and what cross-validation chooses.
    fn plan(
        &self,
        data: &DatasetView<'_>,
        delay: impl FnOnce(&DatasetView<'_>, &TrainOptions, f64) -> Result<i64>,
    ) -> Result<TrainingPlan> {
        let mut search = match self.bank {
            Some(_) => Search::ridge(),
            None => Search::presets(data)?,
        };
        search.folds = self.folds;
        search.ridge = self.ridge.is_none();
        let bank = match (&self.bank, search.banks.first()) {
            (Some(bank), _) | (None, Some(bank)) => bank.clone(),
            (None, None) => PRESETS[0].bank()?,
        };
        let mut options = TrainOptions {
            low_pass: self.low_pass,
            gram: self.gram,
            precision: self.precision,
            solver: self.solver,
            mask: self.mask,
            retain: self.retain,
            keep_artefacts: self.keep_artefacts,
            ..TrainOptions::new(bank)
        };
        options.ridge = self.ridge.unwrap_or(match self.folds {
            0 => RidgeChoice::Generalised,
            _ => options.ridge,
        });
        options.delay_steps = match self.delay {
            Delay::Steps(steps) => steps,
            Delay::Estimated { within_seconds } => delay(data, &options, within_seconds)?,
        };
        Ok(TrainingPlan {
            options,
            search: (self.folds > 0).then_some(search),
            leave_out_silent: self.leave_out_silent,
        })
    }
}

/// `error`, with the outputs that are copies of each other if there are such and a Kalman filter says so.
fn explain_by_outputs(data: &Dataset, error: Error) -> Error {
    let of_kalman =
        error.kind() == ErrorKind::NotPositiveDefinite && error.message().starts_with("kalman:");
    match equal_outputs(data).filter(|_| of_kalman) {
        Some((a, b)) => {
            let words = format!(
                "kalman: expected outputs that are independent of each other, got {a} and {b}, which are the same but for offset and scale: leave one of them out"
            );
            error.in_words(words)
        }
        None => error,
    }
}

/// Part of 1 by which the correlation of outputs that are copies of each other differs from it.
const COPY: f64 = 1e-9;

/// Names of two outputs whose values in segments differ by offset and scale alone.
fn equal_outputs(data: &Dataset) -> Option<(&str, &str)> {
    let m = data.outputs.len();
    let rows = || {
        let steps = data.segments.iter().flat_map(|s| s.start..s.stop);
        steps.filter_map(|step| {
            data.behavior
                .get(step as usize * m..(step as usize + 1) * m)
        })
    };
    let count = rows().count().max(1) as f64;
    let mut mean = vec![0.0; m];
    for row in rows() {
        for (mean, v) in mean.iter_mut().zip(row) {
            *mean += f64::from(*v) / count;
        }
    }
    let mut products = vec![0.0; m * m];
    for row in rows() {
        for i in 0..m {
            for j in 0..=i {
                products[i * m + j] +=
                    (f64::from(row[i]) - mean[i]) * (f64::from(row[j]) - mean[j]);
            }
        }
    }
    let pairs = (0..m).flat_map(|i| (0..i).map(move |j| (j, i)));
    let copies = |(j, i): &(usize, usize)| {
        let size = (products[i * m + i] * products[j * m + j]).sqrt();
        size > 0.0 && products[i * m + j].abs() >= (1.0 - COPY) * size
    };
    let (j, i) = pairs.into_iter().find(copies)?;
    Some((&data.outputs[j].name, &data.outputs[i].name))
}

/// `error`, with its reason if most trials are a single step.
fn explain_by_trials(data: &Dataset, error: Error) -> Error {
    let is_of_data = matches!(
        error.kind(),
        ErrorKind::NotPositiveDefinite | ErrorKind::InsufficientData
    );
    match single_step_warning(data) {
        Some(warning) if is_of_data => {
            Error::new(error.kind(), format!("{warning} ({})", error.message()))
        }
        _ => error,
    }
}

/// Replaces the estimate of a delay if a delay must be given.
fn given_delay(_: &DatasetView<'_>, _: &TrainOptions, _: f64) -> Result<i64> {
    Err(Error::argument(
        "delay: expected a number of steps, got one to be estimated",
    ))
}

/// The linear decoder of `plan`, cross-validated if the plan says so.
fn train_linear(
    data: &Dataset,
    plan: &TrainingPlan,
    device: &Device,
    progress: &dyn Progress,
) -> Result<Trained> {
    match &plan.search {
        Some(search) => train_validated_on(device, data, &plan.options, search, progress),
        None => train_on(device, data, &plan.options, progress),
    }
}

#[cfg(test)]
mod tests;
