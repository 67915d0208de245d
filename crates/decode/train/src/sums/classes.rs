//! Classes from sums: linear discriminant analysis, calibrated on a recording that is in none of the sums.
//!
//! The outputs of the sums are indicators, one per class, so Υ holds the sum of the features of each class and Σx the
//! number of its steps. The covariance within classes follows from Γ, which takes no other sums: those of several
//! recordings merge exactly. Discriminants are too confident, because neighbouring steps are alike and classes are not
//! normal: their scores are always calibrated.

use super::Sums;
use super::solve::SolveOptions;
use crate::classes::{
    ClassOptions, ClassReport, HeldScores, Judge, attach_confusion, labelled_parts, shares,
};
use crate::discriminant::{ClassSums, Scatter, Scores};
use crate::fit;
use crate::options::{RidgeChoice, TrainOptions};
use crate::validate::spans;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_base::text::count;
use betz_device::Device;
use betz_gram::NormalEquations;
use betz_gram::decode::decode;
use betz_gram::gram::paired_steps;
use betz_gram::solve::Solution;
use betz_recording::Dataset;
use betz_recording::labels::Labels;
use betz_runtime::model::{Cosines, Decoder};

/// Shrinkages that are tried: parts of the mean variance within classes, added to each feature's.
const SHRINKAGES: [f64; 7] = [1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0];

/// Norm beyond which scores are clipped, in root mean squares.
const CLIP: f64 = 10.0;

impl Sums {
    /// The sums of the labelled steps of `data`, with one output per class; `data`'s own outputs play no part. Steps
    /// without a label enter no sum, but the filters hear their spikes.
    ///
    /// # Errors
    /// As [`over`](Self::over); [`ErrorKind::InvalidArgument`] for a name of a class that comes twice;
    /// [`ErrorKind::InsufficientData`] without a labelled step.
    pub fn over_labels(
        device: &Device,
        data: &Dataset,
        labels: &Labels,
        options: &TrainOptions,
        progress: &dyn Progress,
    ) -> Result<Self> {
        labels.check_names()?;
        let indicators = labels.indicators(data);
        let banks = std::slice::from_ref(&options.bank);
        let (_, history) = spans(banks, data.step_seconds, options.delay_steps);
        let parts = match labels.are_missing(data) {
            true => Some(labelled_parts(labels, data, options.delay_steps, history)),
            false => None,
        };
        if parts.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "sums: expected labelled steps inside segments, got none",
            ));
        }
        Self::over_parts(
            device,
            &indicators.view(),
            options,
            progress,
            parts.as_deref(),
        )
    }

    /// The decoder of kind `classes` of these sums [over labels](Self::over_labels), by linear discriminant analysis:
    /// W = Σ⁻¹M and b = ln π − ½·diag(MᵀW), with M the means of the classes, Σ the covariance within them plus a shrinkage
    /// (Fisher 1936). `held_out`, a recording in none of the sums, and its labels calibrate the scores, and choose the
    /// shrinkage (the least −ln p), the hidden Markov model and the rules of events. Of two classes, their shares in
    /// `held_out` count, not those in the sums.
    ///
    /// All scores of the report are of `held_out`, on which its calibration was fitted.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for sums that are not over labels, for a recording of other channels, another step or other
    /// classes, and for one that is in the sums; [`ErrorKind::InsufficientData`] for a class with fewer than
    /// `options.least_labelled` steps; [`ErrorKind::InvalidArgument`] for options that make no sense.
    pub fn solve_classes(
        &self,
        (held_out, labels): (&Dataset, &Labels),
        options: &ClassOptions,
    ) -> Result<(Decoder, ClassReport)> {
        let labelled = self.check_classes(held_out, options)?;
        let names: Vec<&str> = (self.form.outputs.iter())
            .map(|o| o.name.as_str())
            .collect();
        let labels = labels.in_order(&names)?;
        labels.check(options.least_labelled)?;
        options.check(&labels)?;
        let judge = Judge {
            data: held_out.view(),
            labels: &labels,
            delay_steps: self.form.delay_steps,
        };
        let equations = self.equations();
        let engines = Engines::new(self, &equations)?;
        let classes = names.len();
        let mut best: Option<(f64, HeldScores, Decoder)> = None;
        for shrinkage in SHRINKAGES {
            let Some(engine) = engines.engine(shrinkage)? else {
                continue;
            };
            let held = held_scores(&engine, judge)?;
            let loss = held.calibrated_loss(classes);
            // NaN is not lower.
            if loss < best.as_ref().map_or(f64::INFINITY, |b| b.0) {
                best = Some((loss, held, engine));
            }
        }
        let Some((_, held, engine)) = best else {
            return Err(Error::new(
                ErrorKind::NotPositiveDefinite,
                "classes: expected sums of features that differ, got none; check that channels fire",
            ));
        };
        let priors = match classes {
            2 => shares(&labels.counts()),
            _ => shares(&labelled),
        };
        let chosen = held.choose(judge, (labelled, priors), options)?;
        let cosines = Cosines {
            radius: engines.radius(&engine),
            ..Cosines::default()
        };
        let identity: Vec<f64> = (0..classes * classes)
            .map(|i| f64::from(u8::from(i % (classes + 1) == 0)))
            .collect();
        let head = chosen.choice.head(
            (&identity, vec![0.0; classes]),
            (cosines, None),
            options.priors.as_ref(),
        );
        let mut parts = engine.into_parts();
        parts.head = head;
        let decoder = attach_confusion(fit::checked(parts)?, &chosen.report.scores)?;
        Ok((decoder, chosen.report))
    }

    /// The number of steps of each class.
    fn check_classes(&self, held_out: &Dataset, options: &ClassOptions) -> Result<Vec<usize>> {
        let form = &self.form;
        let classes = form.outputs.len();
        // Σx and Σx², which are equal if every x is 0 or 1.
        let tail = self.values.len() - 2 * classes;
        let (sums, squares) = self.values[tail..].split_at(classes);
        let total: i128 = sums.iter().sum();
        if sums != squares || total != i128::from(self.steps) << 64 {
            return Err(Error::mismatch(
                "classes: expected sums over labels (`betz sums --labels`), got those of other outputs",
            ));
        }
        let labelled: Vec<usize> = sums.iter().map(|sum| (sum >> 64) as usize).collect();
        let few = (labelled.iter()).position(|&steps| steps < options.least_labelled);
        if let Some(class) = few {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "labels: expected at least {} labelled steps of every class, got {} of {:?}",
                    options.least_labelled, labelled[class], form.outputs[class].name
                ),
            ));
        }
        let differ = |what: &str, expected: String, got: String| {
            Err(Error::mismatch(format!(
                "calibration: expected a recording with the {what} of the sums, {expected}, got {got}"
            )))
        };
        if held_out.channel_names != form.channel_names {
            let channels = |names: &[String]| count(names.len() as u128, "channel");
            let (own, other) = (
                channels(&form.channel_names),
                channels(&held_out.channel_names),
            );
            return differ("channels", own, other);
        }
        if held_out.step_seconds.to_bits() != form.step_seconds.to_bits() {
            let seconds = |step: f64| format!("{step} s");
            return differ(
                "step",
                seconds(form.step_seconds),
                seconds(held_out.step_seconds),
            );
        }
        if let Some(warning) = self.sample.overlap(held_out).warning() {
            return Err(Error::mismatch(format!(
                "calibration: expected a recording that is in none of the sums, got one that is: {warning}"
            )));
        }
        Ok(labelled)
    }
}

/// Linear decoders whose outputs are the scores of the classes.
struct Engines<'a> {
    sums: &'a Sums,
    equations: &'a NormalEquations,
    scatter: Scatter,
}

impl<'a> Engines<'a> {
    fn new(sums: &'a Sums, equations: &'a NormalEquations) -> Result<Self> {
        let (features, classes) = (equations.features, equations.outputs);
        let by_class: Vec<f64> = (0..classes)
            .flat_map(|class| {
                equations
                    .upsilon
                    .iter()
                    .skip(class)
                    .step_by(classes)
                    .copied()
            })
            .collect();
        let members: Vec<u64> = (equations.output_sum.iter()).map(|n| *n as u64).collect();
        let class_sums = ClassSums {
            features,
            products: &equations.gram,
            sums: &by_class,
            members: &members,
        };
        betz_base::memory::plan(
            format_args!("a discriminant of {features} features"),
            3 * 8 * (features as u128).pow(2),
        )?;
        Ok(Self {
            sums,
            equations,
            scatter: class_sums.scatter(),
        })
    }

    /// The decoder of `shrinkage`; `None` if it is too small. The scores of a step add up to 0.
    fn engine(&self, shrinkage: f64) -> Result<Option<Decoder>> {
        let Some(Scores { weights, bias }) = self.scatter.scores(shrinkage) else {
            return Ok(None);
        };
        let classes = bias.len();
        let features = self.equations.features;
        let centred = |values: &mut dyn Iterator<Item = f64>| -> Vec<f64> {
            let values: Vec<f64> = values.collect();
            let mean = values.iter().sum::<f64>() / classes as f64;
            values.into_iter().map(|value| value - mean).collect()
        };
        let weights = (0..features)
            .flat_map(|f| centred(&mut weights.iter().skip(f).step_by(features).copied()));
        let solution = Solution {
            weights: weights.collect(),
            intercept: centred(&mut bias.into_iter()),
            channel_mask: vec![true; self.sums.form.channel_names.len()],
        };
        let ridge = shrinkage * self.scatter.mean_diagonal() * self.equations.steps as f64;
        let options = SolveOptions::with(RidgeChoice::Fixed(ridge));
        let mut parts = (self
            .sums
            .decoder(self.equations, ridge, &options, solution)?)
        .into_parts();
        // Scores have no range.
        parts.limits.ranges = Vec::new();
        fit::checked(parts).map(Some)
    }

    /// The radius within which `engine`'s scores are not clipped.
    fn radius(&self, engine: &Decoder) -> f64 {
        let (sums, m) = (self.equations, self.equations.outputs);
        let product = sums.gram_times(engine.weights(), m);
        let mut square: f64 = (product.iter().zip(engine.weights()))
            .map(|(p, w)| p * w)
            .sum();
        let rows = engine.weights().chunks_exact(m).zip(&sums.feature_sum);
        for (row, sum) in rows {
            let products = row.iter().zip(engine.intercept()).map(|(w, b)| w * b);
            square += 2.0 * sum * products.sum::<f64>();
        }
        let steps = sums.steps as f64;
        square += steps * engine.intercept().iter().map(|b| b * b).sum::<f64>();
        CLIP * (square / steps).max(1e-12).sqrt()
    }
}

/// The scores that `engine` gives the labelled steps.
fn held_scores(engine: &Decoder, judge: Judge<'_>) -> Result<HeldScores> {
    let classes = judge.labels.classes();
    let decoded = decode(engine, judge.data)?;
    let mut held = HeldScores::default();
    let paired = (judge.data.segments.iter()).filter_map(|s| paired_steps(s, judge.delay_steps));
    for (first, stop) in paired {
        for step in first as usize..stop as usize {
            let row = &decoded[step * classes..][..classes];
            let Some(class) = judge
                .label(step)
                .filter(|_| row.iter().all(|s| s.is_finite()))
            else {
                continue;
            };
            held.scores
                .extend(row.iter().map(|score| f64::from(*score)));
            held.classes.push(class);
            held.steps.push(step);
        }
    }
    Ok(held)
}

#[cfg(test)]
mod tests;
