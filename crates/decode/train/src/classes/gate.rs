//! The gate: v̂ ← (a + b·p)·v̂, by least squares on estimates and probabilities of held-out folds.

use super::{ClassOptions, ClassReport, TrainedClasses};
use crate::blank::CleanData;
use crate::device::Trained;
use crate::fit::checked;
use crate::kinds::KindOptions;
use crate::options::TrainingPlan;
use crate::search::Search;
use crate::training::{Training, TrainingOutcome};
use crate::validate;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_device::Device;
use betz_gram::gram::paired_steps;
use betz_gram::movement::outputs_with_velocities;
use betz_gram::score::{mean_r2, score_estimates};
use betz_recording::labels::Labels;
use betz_recording::{Dataset, DatasetView, OutputInfo};
use betz_runtime::model::{Decoder, DecoderParts, Head, VelocityGate};
use std::cell::RefCell;

/// Report of a gate. Both scores are of held-out folds.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GateReport {
    /// Name of the class that opens the gate.
    pub class: String,
    /// a, the factor of velocities if the probability is 0.
    pub closed: f64,
    /// b, what a probability of 1 adds to the factor.
    pub slope: f64,
    /// Mean R² of the velocities without the gate.
    pub r2_before: f64,
    /// Mean R² of the velocities with the gate.
    pub r2: f64,
    /// The classes.
    pub classes: ClassReport,
}

impl Training {
    /// Trains a linear decoder of `data` whose velocities are gated by the probability of the class `gate` of `labels`:
    /// one model, one engine. Steps also compute the probabilities of the classes, and their events.
    ///
    /// # Errors
    /// The errors of [`run_classes`](Self::run_classes);
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if no class is called `gate`, or no output
    /// is a velocity.
    pub fn run_gated(
        &self,
        data: &Dataset,
        (labels, gate): (&Labels, &str),
        options: &ClassOptions,
        device: &Device,
        progress: &dyn Progress,
    ) -> Result<(TrainingOutcome, GateReport)> {
        self.check_classes(labels, options)?;
        let gate = ClassGate {
            training: self,
            class: position(labels, gate)?,
            labels,
            outputs: outputs_with_velocities(&data.view()),
        };
        gate.check_velocities()?;
        let report = RefCell::new(None);
        let outcome = self.run_by(data, Self::best_delay(device, progress), |used, plan| {
            let (trained, found) = gate.run(used, (options, plan), (device, progress))?;
            report.replace(Some(found));
            Ok((trained, None))
        })?;
        let Some(report) = report.into_inner() else {
            return Err(Error::argument(
                "gate: expected a report of training, got none",
            ));
        };
        let outcome = outcome.with_event_warning(&report.classes, options);
        Ok((outcome.with_confusion(data, &report.classes)?, report))
    }
}

/// Index of the class `name`.
fn position(labels: &Labels, name: &str) -> Result<usize> {
    let found = labels.names.iter().position(|own| own == name);
    found.ok_or_else(|| {
        Error::argument(format!(
            "gate: expected one of the classes [{}], got {name:?}",
            labels.names.join(", ")
        ))
    })
}

/// A class whose probability gates velocities.
struct ClassGate<'a> {
    training: &'a Training,
    labels: &'a Labels,
    class: usize,
    /// Outputs of the recording, velocities marked.
    outputs: Vec<OutputInfo>,
}

impl ClassGate<'_> {
    /// True for each output that is a velocity.
    fn gated(&self) -> Vec<bool> {
        self.outputs.iter().map(|o| o.is_velocity()).collect()
    }

    fn check_velocities(&self) -> Result<()> {
        if self.gated().contains(&true) {
            return Ok(());
        }
        let names: Vec<&str> = self.outputs.iter().map(|o| o.name.as_str()).collect();
        Err(Error::argument(format!(
            "gate: expected outputs that are velocities, which alone are gated, got [{}]; name them with --velocity",
            names.join(", ")
        )))
    }

    /// The gated decoder of `used`.
    fn run(
        &self,
        used: &Dataset,
        (options, plan): (&ClassOptions, TrainingPlan),
        (device, progress): (&Device, &dyn Progress),
    ) -> Result<(Trained, GateReport)> {
        let folds = self.training.folds;
        let search = plan.search.clone().unwrap_or(Search::scores_only(folds));
        let view = used.view();
        let cleaned = CleanData::new(&view, &plan.options)?;
        let clean = DatasetView {
            outputs: &self.outputs,
            ..cleaned.view(&view)
        };
        let found =
            validate::cross_validate_banks(device, &clean, &plan.options, &search, progress)?;
        let estimates = found.estimates.clone();
        let linear = validate::finish(&clean, &plan.options, &found, progress)?;
        let delay_steps = plan.options.delay_steps;
        let by_classes =
            self.classes(used, &linear.decoder, (options, plan), (device, progress))?;
        let gated = self.gated();
        let factors = Factors {
            data: clean,
            gated: &gated,
            estimates: &estimates,
            shares: (&by_classes.held_out, self.labels.classes(), self.class),
            delay_steps,
        };
        let (closed, slope) = factors.fit()?;
        let [r2_before, r2] = factors.r2(closed, slope)?;
        let report = GateReport {
            class: self.labels.names[self.class].clone(),
            closed,
            slope,
            r2_before,
            r2,
            classes: by_classes.report,
        };
        let gate = |classes, names| VelocityGate {
            classes,
            names,
            class: self.class as u32,
            closed,
            slope,
            gated: gated.clone(),
        };
        let trained = Trained {
            decoder: joined(linear.decoder, by_classes.trained.decoder, gate)?,
            artefacts: cleaned.artefacts,
            ran: linear.ran,
            gram_error: linear.gram_error,
        };
        Ok((trained, report))
    }

    /// The classes of `used`, by the bank of `linear`.
    fn classes(
        &self,
        used: &Dataset,
        linear: &Decoder,
        (options, mut plan): (&ClassOptions, TrainingPlan),
        (device, progress): (&Device, &dyn Progress),
    ) -> Result<TrainedClasses> {
        let training = Training {
            bank: Some(linear.bank().clone()),
            ridge: None,
            leave_out_silent: false,
            kinds: KindOptions {
                kinds: vec![crate::kinds::Kind::Linear],
                ..self.training.kinds.clone()
            },
            ..self.training.clone()
        };
        plan.options.bank = linear.bank().clone();
        plan.search = Some(Search {
            folds: training.folds,
            ..Search::ridge()
        });
        let indicators = self.labels.indicators(used);
        training.classes(
            &indicators,
            self.labels,
            (options, plan),
            (device, progress),
        )
    }
}

/// One engine for the outputs of `linear` and the latents of `classes`.
fn joined(
    linear: Decoder,
    classes: Decoder,
    gated: impl FnOnce(betz_runtime::model::Classes, Vec<String>) -> VelocityGate,
) -> Result<Decoder> {
    let (linear, classes) = (linear.into_parts(), classes.into_parts());
    let Head::Classes(head) = classes.head else {
        return Err(Error::new(
            ErrorKind::Internal,
            "gate: expected a decoder of classes, got another",
        ));
    };
    let (outputs, latents) = (linear.intercept.len(), classes.intercept.len());
    let rows = (linear.weights.chunks_exact(outputs)).zip(classes.weights.chunks_exact(latents));
    let names = classes
        .outputs
        .into_iter()
        .map(|output| output.name)
        .collect();
    checked(DecoderParts {
        weights: rows.flat_map(|(a, b)| a.iter().chain(b)).copied().collect(),
        intercept: linear
            .intercept
            .iter()
            .chain(&classes.intercept)
            .copied()
            .collect(),
        channel_mask: (linear.channel_mask.iter().zip(&classes.channel_mask))
            .map(|(a, b)| *a || *b)
            .collect(),
        head: Head::VelocityGate(gated(head, names)),
        attachments: Vec::new(),
        ..linear
    })
}

/// Velocities that are to be gated.
struct Factors<'a> {
    data: DatasetView<'a>,
    gated: &'a [bool],
    /// (step, output)
    estimates: &'a [f32],
    /// (step, class), number of classes, the class.
    shares: (&'a [f32], usize, usize),
    delay_steps: i64,
}

impl Factors<'_> {
    fn share(&self, step: usize) -> f64 {
        let (shares, classes, class) = self.shares;
        f64::from(shares[step * classes + class])
    }

    /// a and b of least squares over all gated outputs; v = a·v̂ + b·p·v̂.
    fn fit(&self) -> Result<(f64, f64)> {
        let outputs = self.gated.len();
        let (mut aa, mut ab, mut bb, mut av, mut bv) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for segment in self.data.segments {
            let Some((first, stop)) = paired_steps(segment, self.delay_steps) else {
                continue;
            };
            for step in first..stop {
                let (at, truth) = (
                    step as usize * outputs,
                    (step - self.delay_steps) as usize * outputs,
                );
                let p = self.share(step as usize);
                for (o, _) in self.gated.iter().enumerate().filter(|(_, gated)| **gated) {
                    let estimate = f64::from(self.estimates[at + o]);
                    let value = f64::from(self.data.behavior[truth + o]);
                    if !(estimate.is_finite() && p.is_finite()) {
                        continue;
                    }
                    let open = p * estimate;
                    aa += estimate * estimate;
                    ab += estimate * open;
                    bb += open * open;
                    av += estimate * value;
                    bv += open * value;
                }
            }
        }
        let determinant = aa * bb - ab * ab;
        if determinant.is_nan() || determinant <= 1e-9 * aa * bb {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "gate: expected estimates and probabilities that change, got others",
            ));
        }
        Ok((
            (bb * av - ab * bv) / determinant,
            (aa * bv - ab * av) / determinant,
        ))
    }

    /// Mean R² of the gated outputs without and with the gate.
    fn r2(&self, closed: f64, slope: f64) -> Result<[f64; 2]> {
        let outputs = self.gated.len();
        let mut through = self.estimates.to_vec();
        for (step, row) in through.chunks_exact_mut(outputs).enumerate() {
            let factor = (closed + slope * self.share(step)) as f32;
            for (value, _) in row.iter_mut().zip(self.gated).filter(|(_, gated)| **gated) {
                *value *= factor;
            }
        }
        let score = |estimates: &[f32]| {
            let scores = score_estimates(self.data, estimates, self.delay_steps)?.outputs;
            let own = scores
                .into_iter()
                .zip(self.gated)
                .filter(|(_, gated)| **gated);
            Ok(mean_r2(&own.map(|(score, _)| score).collect::<Vec<_>>()))
        };
        // A step without a probability is in neither.
        let mut plain = self.estimates.to_vec();
        for (plain, through) in plain.iter_mut().zip(&through) {
            if through.is_nan() {
                *plain = f32::NAN;
            }
        }
        Ok([score(&plain)?, score(&through)?])
    }
}
