//! Sums that forget by labelled time.

use super::assemble::Trial;
use crate::latents::targets;
use betz_base::error::Result;
use betz_gram::NormalEquations;
use betz_gram::gram::{GramPath, normal_equations};
use betz_recording::{DatasetView, Segment, SpikesView};
use betz_runtime::psc::{FilterBank, LowPass};

/// Sums in which older steps count less.
#[derive(Clone)]
pub(super) struct FadingSums {
    sums: NormalEquations,
    /// Steps that are left of those that were added.
    pub(super) steps: f64,
}

/// The data of a trial's sums.
pub(super) struct TrialSource<'a> {
    pub(super) bank: &'a FilterBank,
    pub(super) low_pass: Option<LowPass>,
    pub(super) delay_steps: i64,
    /// The outputs are targets of latents, made of the labels.
    pub(super) targets: bool,
}

impl FadingSums {
    pub(super) fn new(sums: NormalEquations) -> Self {
        Self {
            steps: sums.steps as f64,
            sums,
        }
    }

    /// Those that [`parts`](Self::parts) gave.
    pub(super) fn from_parts(sums: NormalEquations, steps: f64) -> Self {
        Self { sums, steps }
    }

    /// The sums, whose own number of steps means nothing, and the steps that they count.
    pub(super) fn parts(&self) -> (&NormalEquations, f64) {
        (&self.sums, self.steps)
    }

    /// Multiplies the weight of everything added before by `share`.
    pub(super) fn forget(&mut self, share: f64) {
        self.steps *= share;
        let sums = &mut self.sums;
        let lists = [
            &mut sums.gram,
            &mut sums.upsilon,
            &mut sums.feature_sum,
            &mut sums.output_sum,
            &mut sums.output_sq_sum,
        ];
        for list in lists {
            list.iter_mut().for_each(|v| *v *= share);
        }
    }

    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for sums of another shape.
    pub(super) fn add(&mut self, trial: &NormalEquations) -> Result<()> {
        self.sums.steps = 0;
        self.sums.add(trial)?;
        self.steps += trial.steps as f64;
        Ok(())
    }

    /// The sums with a whole number of steps, all scaled alike: what they are solved to is the same at a
    /// ridge that is scaled too.
    pub(super) fn whole(&self) -> NormalEquations {
        let steps = self.steps.round().max(1.0);
        let mut copy = Self {
            sums: self.sums.clone(),
            steps: self.steps,
        };
        copy.forget(steps / self.steps.max(f64::MIN_POSITIVE));
        copy.sums.steps = steps as u64;
        copy.sums
    }
}

/// The sums over the labelled steps of `trial` with the spikes `spikes`: of each run, those up to its end
/// without those up to its begin, so that filters remember what was before.
///
/// # Errors
/// As [`normal_equations`].
pub(super) fn of_trial(
    trial: &Trial,
    spikes: SpikesView<'_>,
    over: &TrialSource<'_>,
) -> Result<NormalEquations> {
    let runs: Vec<Segment> = (trial.labelled.iter())
        .map(|run| Segment {
            start: run.start as i64,
            stop: run.end as i64,
        })
        .collect();
    let labels = DatasetView {
        spikes,
        segments: &runs,
        ..trial.data.view()
    };
    let made = over.targets.then(|| targets(&labels));
    let view = made.as_ref().map_or(labels, |made| made.view(&labels));
    let features = view.channels() * over.bank.len();
    let mut sums = NormalEquations::zeros(features, view.outputs.len());
    let shift = over.delay_steps.unsigned_abs();
    for run in &runs {
        if run.stop.abs_diff(run.start) <= shift {
            continue;
        }
        let up_to = |stop: i64| {
            let segment = [Segment { start: 0, stop }];
            let view = DatasetView {
                segments: &segment,
                ..view
            };
            let (low_pass, delay) = (over.low_pass, over.delay_steps);
            normal_equations(view, over.bank, low_pass, delay, GramPath::Auto, &()).map(|s| s.0)
        };
        sums.add(&up_to(run.stop)?)?;
        let before = run.start.saturating_add_unsigned(shift);
        // From rest, pairs that lie outside the trial are left out by themselves.
        if run.start > 0 {
            sums.subtract(&up_to(before)?)?;
        }
    }
    Ok(sums)
}
