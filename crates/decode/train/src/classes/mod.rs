//! Classes: from labels to a decoder of kind `classes`.
//!
//! ```text
//! labels ──► indicators ──► bank, ridge ──► latents of the labels ──► z, h ∗ z, cosines ──► softmax
//!                                    calibration, hidden Markov model, events: on held-out folds ──► decoder
//! ```

mod calibrate;
mod choice;
mod confusion;
mod events;
mod features;
mod gate;
mod labels;
mod markov;
mod scores;
mod softmax;

pub use gate::GateReport;
pub use labels::LabelSource;
pub use scores::{ClassScores, EventScores};

pub(crate) use choice::{HeldScores, Judge, shares};
pub(crate) use confusion::attach as attach_confusion;
pub(crate) use labels::labelled_parts;

use choice::{ChoiceOutcome, ClassChoice};
use features::{ClassFeatures, Samples, latent_tau};
use scores::{Predictions, label_at};
use softmax::Softmax;

use crate::blank::CleanData;
use crate::device::Trained;
use crate::folds::{Folds, folds};
use crate::kinds::nonlinear::{Nonlinear, Whole};
use crate::kinds::split::{Fold, Split};
use crate::latents::class_targets;
use crate::lift::Cosines;
use crate::limits::without_blanking;
use crate::options::TrainingPlan;
use crate::search::Search;
use crate::training::{Training, TrainingOutcome};
use crate::validate;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_base::progress::Progress;
use betz_device::Device;
use betz_recording::labels::{LEAST_LABELLED, Labels};
use betz_recording::{Dataset, DatasetView};
use betz_runtime::model::{Classes, Decoder, Head, MAX_CLASSES};
use betz_runtime::stream::{ClassEvent, EventDetector};

/// Latents and cosines if nothing else is said.
const LATENTS: usize = 12;
const UNITS: usize = 128;

/// Configuration of the classes, besides that of [`Training`].
#[derive(Debug, Clone, PartialEq)]
pub struct ClassOptions {
    /// False alarms per minute that the events of a class may make.
    pub false_alarms: f64,
    /// Share of each class in use, if it differs from that in training; they add up to 1.
    pub priors: Option<Vec<f64>>,
    /// Least number of labelled steps of a class.
    pub least_labelled: usize,
    /// Try a hidden Markov model behind the probabilities. Steps that no time connects have none.
    pub markov: bool,
}

impl Default for ClassOptions {
    fn default() -> Self {
        Self {
            false_alarms: 1.0,
            priors: None,
            least_labelled: LEAST_LABELLED,
            markov: true,
        }
    }
}

/// Report of training on labels. All scores are of held-out folds.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ClassReport {
    /// Scores with calibration, and with events.
    pub scores: ClassScores,
    /// Expected calibration error before calibration.
    pub ece_before: f64,
    /// Factor of the scores that calibrates them; below 1: they were too confident.
    pub scale: f64,
    /// κ of the hidden Markov model; `None` if it made held-out labels less likely.
    pub kappa: Option<f64>,
    /// Labelled steps of each class.
    pub labelled: Vec<usize>,
}

impl Training {
    /// Trains a decoder whose outputs are the probabilities of the classes of `labels`, on `data` (whose own outputs
    /// play no part). Bank, ridge, delay and folds are those of the configuration; `kinds` gives latents, cosines and
    /// seed.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run) and of [`Labels::check`];
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for options that make no sense, and for less
    /// than two folds.
    pub fn run_classes(
        &self,
        data: &Dataset,
        labels: &Labels,
        options: &ClassOptions,
        device: &Device,
        progress: &dyn Progress,
    ) -> Result<(TrainingOutcome, ClassReport)> {
        let (outcome, report) =
            self.run_labels(data, labels, options, (device, progress), |used, plan| {
                let found = self.classes(used, labels, (options, plan), (device, progress))?;
                Ok((found.trained, found.report))
            })?;
        Ok((outcome.with_confusion(data, &report)?, report))
    }

    /// Checks the configuration, and trains on the indicators of `labels` by `train`.
    pub(crate) fn run_labels(
        &self,
        data: &Dataset,
        labels: &Labels,
        options: &ClassOptions,
        (device, progress): (&Device, &dyn Progress),
        train: impl FnOnce(&Dataset, TrainingPlan) -> Result<(Trained, ClassReport)>,
    ) -> Result<(TrainingOutcome, ClassReport)> {
        self.check_classes(labels, options)?;
        let mut report = None;
        let outcome = self.run_by(
            &labels.indicators(data),
            Self::best_delay(device, progress),
            |used, plan| {
                let (trained, found) = train(used, plan)?;
                report = Some(found);
                Ok((trained, None))
            },
        )?;
        let report = report.ok_or_else(|| {
            let message = "classes: expected a report of training, got none";
            Error::new(ErrorKind::Internal, message)
        })?;
        Ok((outcome.with_event_warning(&report, options), report))
    }

    fn check_classes(&self, labels: &Labels, options: &ClassOptions) -> Result<()> {
        labels.check(options.least_labelled)?;
        options.check(labels)?;
        if self.folds < 2 {
            return Err(Error::argument(format!(
                "classes: expected at least 2 folds, on which they are calibrated, got {}",
                self.folds
            )));
        }
        self.kinds.check()
    }

    /// The decoder of `used`, whose outputs are indicators of `labels`.
    fn classes(
        &self,
        used: &Dataset,
        labels: &Labels,
        (options, plan): (&ClassOptions, TrainingPlan),
        (device, progress): (&Device, &dyn Progress),
    ) -> Result<TrainedClasses> {
        let view = used.view();
        let search = plan.search.unwrap_or(Search::scores_only(self.folds));
        let train = &plan.options;
        let cleaned = CleanData::new(&view, train)?;
        let data = cleaned.view(&view);
        let found = validate::cross_validate_banks_in(
            device,
            (&data, &|guard, history| {
                labelled_folds(used, labels, search.folds, guard, history)
            }),
            train,
            &search,
            progress,
        )?;
        let latents = self.kinds.latents.unwrap_or(LATENTS);
        let units = self.kinds.units.unwrap_or(UNITS);
        let aims = (class_targets(&data), latents);
        let behind = Nonlinear::with_targets(data, train, &found, aims, progress)?;
        let fitting = ClassFit {
            labels,
            delay_steps: train.delay_steps,
            latents: latents.min(behind.split().latents()),
            units,
            seed: self.kinds.seed,
            tau_seconds: latent_tau(data.step_seconds),
            progress,
        };
        let chosen = fitting.validate(data, behind.split(), options)?;
        let whole = behind.whole(progress)?;
        let head = fitting.head(behind.all(&whole), chosen.choice, options)?;
        let decoder = behind.decoder((&whole, fitting.whole_latents(&whole)), head, Vec::new())?;
        let decoder = match train.keep_artefacts {
            true => without_blanking(decoder)?,
            false => decoder,
        };
        let trained = Trained {
            artefacts: cleaned.artefacts,
            ..found.trained(decoder)
        };
        Ok(TrainedClasses {
            trained,
            report: chosen.report,
            held_out: chosen.probabilities,
        })
    }
}

impl TrainingOutcome {
    /// The same with a warning if classes make no events. Steps that no time connects have none anyway.
    fn with_event_warning(mut self, report: &ClassReport, options: &ClassOptions) -> Self {
        if options.markov {
            self.warnings.extend(report.scores.event_warning());
        }
        self
    }

    /// The same with a sample of `data`, and with the confusion of `report`.
    fn with_confusion(self, data: &Dataset, report: &ClassReport) -> Result<Self> {
        let mut outcome = self.with_sample(data)?;
        outcome.decoder = attach_confusion(outcome.decoder, &report.scores)?;
        Ok(outcome)
    }
}

/// A decoder of classes.
struct TrainedClasses {
    trained: Trained,
    report: ClassReport,
    /// Probabilities of held-out steps, (step, class); NaN elsewhere.
    held_out: Vec<f32>,
}

impl ClassOptions {
    pub(crate) fn check(&self, labels: &Labels) -> Result<()> {
        let classes = labels.classes();
        if classes > MAX_CLASSES {
            return Err(Error::argument(format!(
                "labels: expected at most {MAX_CLASSES} classes, got {classes}"
            )));
        }
        if !(self.false_alarms > 0.0 && self.false_alarms.is_finite()) {
            return Err(Error::argument(format!(
                "false alarms per minute: expected a number above 0, got {}",
                self.false_alarms
            )));
        }
        if let Some(priors) = &self.priors {
            let sum: f64 = priors.iter().sum();
            let is_share = |share: &f64| *share > 1e-12 && *share <= 1.0;
            if priors.len() != classes || !priors.iter().all(is_share) || (sum - 1.0).abs() > 1e-6 {
                return Err(Error::argument(format!(
                    "priors: expected {classes} shares above 0 that add up to 1, one per class, got {priors:?}, which add \
                     up to {sum}"
                )));
            }
        }
        Ok(())
    }
}

/// Folds of the labelled steps of `data`. Where steps have no label, a part begins after them, and its filters have
/// the history before it.
fn labelled_folds(
    data: &Dataset,
    labels: &Labels,
    count: usize,
    guard: usize,
    history: usize,
) -> Result<Folds> {
    if !labels.are_missing(data) {
        return folds(&data.segments, count, guard, history);
    }
    let runs = labels.runs(data);
    let mut split = folds(&runs, count, guard, history)?;
    for part in split.folds.iter_mut().flatten() {
        part.from = labels::start_of_filters(part.segment.start, data, history);
    }
    // The sums are those of the parts: steps without a label are in no sum.
    split.whole = true;
    Ok(split)
}

/// Settings that every fit shares.
struct ClassFit<'a> {
    labels: &'a Labels,
    delay_steps: i64,
    latents: usize,
    units: usize,
    seed: u64,
    tau_seconds: Option<f64>,
    progress: &'a dyn Progress,
}

impl ClassFit<'_> {
    fn features(&self, latents: usize) -> ClassFeatures {
        ClassFeatures {
            tau_seconds: self.tau_seconds,
            cosines: Cosines::draw(self.seed, latents, self.units),
        }
    }

    fn whole_latents(&self, whole: &Whole) -> usize {
        self.latents.min(whole.latents())
    }

    fn label(&self) -> impl Fn(usize) -> Option<usize> + Sync + '_ {
        |step| label_at(self.labels, self.delay_steps, step)
    }

    /// The softmax of `fold`'s training steps.
    fn fit(&self, fold: Fold<'_>, latents: usize) -> Result<(Softmax, f64)> {
        let walk = fold.walk(latents)?;
        let (features, label) = (self.features(latents), self.label());
        let spaced = (true, self.progress);
        let samples = Samples::collect((walk, &features), &label, &fold.trains(), spaced)?;
        let softmax = Softmax::fit(&samples, self.labels.classes(), self.progress)?;
        Ok((softmax, walk.radius))
    }

    /// Calibrates, and chooses the hidden Markov model and the rules of events, on what each fold holds out.
    fn validate(
        &self,
        data: DatasetView<'_>,
        split: &Split<'_>,
        options: &ClassOptions,
    ) -> Result<ChoiceOutcome> {
        let classes = self.labels.classes();
        let mut held = HeldScores::default();
        for (k, fold) in split.folds().enumerate() {
            self.progress
                .update("classes", k as u64, split.stages.len() as u64);
            let (softmax, _) = self.fit(fold, self.latents)?;
            let walk = fold.walk(self.latents)?;
            let (features, label) = (self.features(self.latents), self.label());
            let every = (false, self.progress);
            let samples = Samples::collect((walk, &features), &label, &fold.holds(), every)?;
            for block in &samples.blocks {
                let own = softmax.scores(block);
                let n = block.steps.len();
                for (i, (&step, &label)) in block.steps.iter().zip(&block.labels).enumerate() {
                    (held.scores).extend((0..classes).map(|class| own[class * n + i]));
                    held.classes.push(usize::from(label));
                    held.steps.push(step);
                }
            }
        }
        let judge = Judge {
            data,
            labels: self.labels,
            delay_steps: self.delay_steps,
        };
        let labelled = self.labels.counts();
        let priors = shares(&labelled);
        held.choose(judge, (labelled, priors), options)
    }

    /// The head fitted to all of `fold`'s steps.
    fn head(&self, fold: Fold<'_>, chosen: ClassChoice, options: &ClassOptions) -> Result<Head> {
        let latents = self.latents;
        let (softmax, radius) = self.fit(fold, latents)?;
        let classes = self.labels.classes();
        let (weights, bias) = softmax.weights.split_at(softmax.weights.len() - classes);
        let cosines = self.features(latents).cosines;
        let cosines = betz_runtime::model::Cosines {
            radius,
            frequencies: (0..latents)
                .flat_map(|i| cosines.omega.iter().skip(i).step_by(latents).copied())
                .collect(),
            phases: cosines.phase,
        };
        let features = (cosines, self.tau_seconds);
        Ok(chosen.head((weights, bias.to_vec()), features, options.priors.as_ref()))
    }
}

/// Turns scores into probabilities; returns the logarithm of the sum of their exponentials.
fn softmax_in_place(scores: &mut [f64]) -> f64 {
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = float::exp(*score - highest);
        sum += *score;
    }
    scores.iter_mut().for_each(|s| *s /= sum);
    highest + float::ln(sum)
}

/// Scores of `decoder`'s classes on `data` with `labels`; the decoder's and the labels' classes are matched by name.
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if the decoder has no classes, or others; the errors of
/// decoding.
pub fn evaluate_classes(decoder: &Decoder, data: &Dataset, labels: &Labels) -> Result<ClassScores> {
    let classes = expect_classes(decoder, "evaluate")?;
    let names = decoder.class_names();
    let labels = labels.in_order(&names)?;
    let probabilities = labels::probabilities(decoder, data)?;
    let judged = Predictions {
        data: data.view(),
        labels: &labels,
        delay_steps: decoder.delay_steps(),
        probabilities: &probabilities,
    };
    let mut scores = judged.scores(&classes.priors);
    for (class, rule) in classes.events.iter().enumerate() {
        if let Some(rule) = rule {
            let onsets = judged.onsets(class);
            scores.events[class] = Some(judged.event_scores(class, *rule, &onsets)?);
        }
    }
    Ok(scores)
}

/// Probabilities of the classes of `decoder` at every step of `data`, (step, class) row-major; NaN outside segments. Filters
/// start from rest at each segment.
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if the decoder has no classes; the errors of decoding.
pub fn class_probabilities(decoder: &Decoder, data: &Dataset) -> Result<Vec<f32>> {
    expect_classes(decoder, "probabilities")?;
    labels::probabilities(decoder, data)
}

/// Events of `decoder`'s classes on `data`, in the order of time; filters and events start from rest at each segment.
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if the decoder has no classes; the errors of decoding.
pub fn class_events(decoder: &Decoder, data: &Dataset) -> Result<Vec<ClassEvent>> {
    let classes = expect_classes(decoder, "events")?;
    let probabilities = labels::probabilities(decoder, data)?;
    let mut detector = EventDetector::new(&classes.events, data.step_seconds)?;
    let (mut row, mut events) = (vec![0.0; classes.classes()], Vec::new());
    let mut room = vec![ClassEvent::default(); 2 * classes.classes()];
    for segment in &data.segments {
        for step in segment.start..segment.stop {
            let own = &probabilities[step as usize * row.len()..][..row.len()];
            for (value, p) in row.iter_mut().zip(own) {
                *value = f64::from(*p);
            }
            detector.step(step, &row);
            let count = detector.read(&mut room);
            events.extend_from_slice(&room[..count]);
        }
        detector.reset(segment.stop);
        let count = detector.read(&mut room);
        events.extend_from_slice(&room[..count]);
    }
    Ok(events)
}

fn expect_classes<'a>(decoder: &'a Decoder, what: &str) -> Result<&'a Classes> {
    decoder.classes().ok_or_else(|| {
        Error::mismatch(format!(
            "{what}: expected a model with classes (`betz train --labels`), got one of kind {}",
            decoder.kind()
        ))
    })
}

#[cfg(test)]
pub(crate) mod tests;
