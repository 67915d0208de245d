//! A discriminant of one recording: the sums of most of it, calibrated on the rest.

use super::Sums;
use crate::blank::Artefacts;
use crate::classes::{ClassOptions, ClassReport};
use crate::device::Trained;
use crate::options::TrainOptions;
use crate::training::{Training, TrainingOutcome};
use crate::validate::train_validated_on;
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::Device;
use betz_recording::labels::{Labels, UNLABELLED};
use betz_recording::{Dataset, Segment};
use std::ops::Range;

impl Training {
    /// Trains a decoder of the classes of `labels` by linear discriminant analysis ([`Sums::solve_classes`]). Of `folds` equal
    /// parts of the labelled steps, all but the last are summed, and the last one calibrates; trials are kept whole if there
    /// are at least as many. Bank and delay are those of the configuration. Without a bank, it is the one whose linear decoder
    /// predicts the labels best.
    ///
    /// # Errors
    /// The errors of [`run_classes`](Self::run_classes) and of [`Sums::solve_classes`].
    pub fn run_discriminant(
        &self,
        data: &Dataset,
        labels: &Labels,
        options: &ClassOptions,
        device: &Device,
        progress: &dyn Progress,
    ) -> Result<(TrainingOutcome, ClassReport)> {
        let (outcome, report) =
            self.run_labels(data, labels, options, (device, progress), |used, plan| {
                let bank = match (&self.bank, &plan.search) {
                    (None, Some(search)) => {
                        train_validated_on(device, used, &plan.options, search, progress)?
                            .decoder
                            .bank()
                            .clone()
                    }
                    _ => plan.options.bank.clone(),
                };
                let train = TrainOptions {
                    bank,
                    ..plan.options
                };
                let last = begin_of_last(used, labels, self.folds);
                let (summed, of_summed) = part(used, labels, 0..last);
                let (kept, of_kept) = part(used, labels, last..used.steps as i64);
                let sums = Sums::over_labels(device, &summed, &of_summed, &train, progress)?;
                let (decoder, found) = sums.solve_classes((&kept, &of_kept), options)?;
                let trained = Trained {
                    decoder,
                    ran: sums.ran().cloned().unwrap_or_default(),
                    gram_error: None,
                    artefacts: Artefacts::default(),
                };
                Ok((trained, found))
            })?;
        Ok((outcome.with_sample(data)?, report))
    }
}

/// The step at which the last of `folds` equal parts of the labelled steps begins: the start of a segment if there are at least
/// `folds` of them.
fn begin_of_last(data: &Dataset, labels: &Labels, folds: usize) -> i64 {
    let labelled: usize = labels.counts().iter().sum();
    let before = labelled - labelled / folds.max(1);
    let mut seen = 0;
    let begin = (0..data.steps).find(|&step| {
        seen += usize::from(labels.get(step).is_some());
        seen > before
    });
    let begin = begin.unwrap_or(data.steps) as i64;
    let of = data.segments.partition_point(|s| s.stop <= begin);
    match data.segments.get(of) {
        Some(segment) if of > 0 && data.segments.len() >= folds => segment.start,
        _ => begin,
    }
}

/// `steps` of `data`, with their labels.
fn part(data: &Dataset, labels: &Labels, steps: Range<i64>) -> (Dataset, Labels) {
    let mut own = labels.clone();
    for (step, class) in own.of_step.iter_mut().enumerate() {
        if !steps.contains(&(step as i64)) {
            *class = UNLABELLED;
        }
    }
    let inside = data.segments.iter().map(|s| Segment {
        start: s.start.max(steps.start),
        stop: s.stop.min(steps.end),
    });
    let segments = inside.filter(|s| s.start < s.stop).collect();
    (
        Dataset {
            segments,
            ..data.clone()
        },
        own,
    )
}
