//! Choices made on held-out steps: calibration, hidden Markov model, rules of events.

use super::calibrate::Calibration;
use super::scores::{Predictions, label_at};
use super::{ClassOptions, ClassReport, events, markov, softmax_in_place};
use betz_base::error::Result;
use betz_base::float;
use betz_recording::DatasetView;
use betz_recording::labels::Labels;
use betz_runtime::model::{Classes, Cosines, EventRule, Head, Markov};

/// Scores of labelled steps that were held out.
#[derive(Default)]
pub(crate) struct HeldScores {
    /// (step, class) row-major.
    pub(crate) scores: Vec<f64>,
    /// Class of each of these steps.
    pub(crate) classes: Vec<usize>,
    /// Number of each of these steps in the recording.
    pub(crate) steps: Vec<usize>,
}

/// Choices made on held-out steps.
pub(crate) struct ClassChoice {
    calibration: Calibration,
    priors: Vec<f64>,
    events: Vec<Option<EventRule>>,
    markov: Option<Markov>,
}

/// Result of [`HeldScores::choose`].
pub(crate) struct ChoiceOutcome {
    pub(crate) choice: ClassChoice,
    pub(crate) report: ClassReport,
    /// Probabilities of held-out steps, (step, class); NaN elsewhere.
    pub(crate) probabilities: Vec<f32>,
}

/// Labels of the recording that holds the steps.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) data: DatasetView<'a>,
    pub(crate) labels: &'a Labels,
    pub(crate) delay_steps: i64,
}

/// Share of each class in `counts`.
pub(crate) fn shares(counts: &[usize]) -> Vec<f64> {
    let total: usize = counts.iter().sum();
    counts.iter().map(|&n| n as f64 / total as f64).collect()
}

impl<'a> Judge<'a> {
    /// The label that goes with the scores at `step`.
    pub(crate) fn label(self, step: usize) -> Option<usize> {
        label_at(self.labels, self.delay_steps, step)
    }

    fn predictions(self, probabilities: &'a [f32]) -> Predictions<'a> {
        Predictions {
            data: self.data,
            labels: self.labels,
            delay_steps: self.delay_steps,
            probabilities,
        }
    }
}

impl HeldScores {
    /// The probabilities of all steps of a recording of `steps` steps, (step, class); NaN where none was held out.
    fn probabilities(&self, steps: usize, calibration: Option<Calibration>) -> Vec<f32> {
        let classes = self.scores.len() / self.steps.len().max(1);
        let mut all = vec![f32::NAN; steps * classes];
        let mut row = vec![0.0; classes];
        for (scores, &step) in self.scores.chunks_exact(classes.max(1)).zip(&self.steps) {
            row.copy_from_slice(scores);
            if let Some(calibration) = calibration {
                calibration.apply(&mut row);
            }
            softmax_in_place(&mut row);
            for (all, p) in all[step * classes..].iter_mut().zip(&row) {
                *all = *p as f32;
            }
        }
        all
    }

    /// Mean −ln p of the labels with the most likely calibration.
    pub(crate) fn calibrated_loss(&self, classes: usize) -> f64 {
        let calibration = Calibration::fit(&self.scores, &self.classes, classes);
        let mut row = vec![0.0; classes];
        let rows = self.scores.chunks_exact(classes).zip(&self.classes);
        let losses = rows.map(|(scores, &label)| {
            row.copy_from_slice(scores);
            calibration.apply(&mut row);
            let own = row[label];
            softmax_in_place(&mut row) - own
        });
        losses.sum::<f64>() / self.classes.len() as f64
    }

    /// Chooses on these steps. `labelled` counts the training steps of each class, whose shares are `priors`.
    pub(crate) fn choose(
        &self,
        judge: Judge<'_>,
        (labelled, priors): (Vec<usize>, Vec<f64>),
        options: &ClassOptions,
    ) -> Result<ChoiceOutcome> {
        let classes = judge.labels.classes();
        let calibration = Calibration::fit(&self.scores, &self.classes, classes);
        let raw = self.probabilities(judge.data.steps, None);
        let ece_before = judge.predictions(&raw).scores(&priors).ece;
        let calibrated = self.probabilities(judge.data.steps, Some(calibration));
        let smoothed = match options.markov {
            true => markov::choose(judge.predictions(&calibrated), &priors),
            false => None,
        };
        let (markov, last) = match smoothed {
            Some((markov, probabilities)) => (Some(markov), probabilities),
            None => (None, calibrated),
        };
        let judged = judge.predictions(&last);
        let mut scores = judged.scores(&priors);
        let mut rules = Vec::with_capacity(classes);
        for class in 0..classes {
            let found = events::choose_rule(judged, class, options.false_alarms)?;
            scores.events[class] = found.map(|(_, scores)| scores);
            rules.push(found.map(|(rule, _)| rule));
        }
        let report = ClassReport {
            scores,
            ece_before,
            scale: calibration.scale,
            kappa: markov.as_ref().map(|m| m.kappa),
            labelled,
        };
        let choice = ClassChoice {
            calibration,
            priors,
            events: rules,
            markov,
        };
        Ok(ChoiceOutcome {
            choice,
            report,
            probabilities: last,
        })
    }
}

impl ClassChoice {
    /// The head with these choices, of `weights`, (feature, class), and `bias` before calibration. `priors` are the shares
    /// of the classes in use, if they differ from those in training.
    pub(crate) fn head(
        self,
        (weights, mut bias): (&[f64], Vec<f64>),
        (cosines, tau_seconds): (Cosines, Option<f64>),
        priors: Option<&Vec<f64>>,
    ) -> Head {
        self.calibration.apply(&mut bias);
        let scale = self.calibration.scale;
        let mut head = Classes {
            cosines,
            tau_seconds,
            weights: weights.iter().map(|w| (w * scale) as f32).collect(),
            bias: bias.iter().map(|b| *b as f32).collect(),
            priors: self.priors,
            markov: self.markov,
            events: self.events,
        };
        if let Some(priors) = priors {
            for ((bias, prior), before) in head.bias.iter_mut().zip(priors).zip(&head.priors) {
                *bias += float::ln(prior / before) as f32;
            }
            head.priors.clone_from(priors);
        }
        Head::Classes(head)
    }
}
