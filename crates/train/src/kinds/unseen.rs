//! Scores of kinds on movements to regions that they never saw, where networks compete with other kinds.

use super::regions::regions;
use crate::fit::train;
use crate::folds::Folds;
use crate::options::{RidgeChoice, TrainOptions};
use crate::validate::BankChoice;
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_gram::decode::decode;
use betz_gram::score::{mean_r2, score_estimates};
use betz_recording::{DatasetView, Segment};

/// Regions that are held out one by one.
const REGIONS: usize = 2;

/// Regions of a recording, the largest ones of which are held out.
pub(crate) struct UnseenRegions<'a> {
    data: DatasetView<'a>,
    options: &'a TrainOptions,
    regions: Folds,
}

impl<'a> UnseenRegions<'a> {
    /// `None` where the ends of segments do not tell regions apart.
    pub(super) fn find(
        data: DatasetView<'a>,
        options: &'a TrainOptions,
        seed: u64,
    ) -> Option<Self> {
        let regions = regions(&data, seed)?;
        Some(Self {
            data,
            options,
            regions,
        })
    }

    /// All regions, of which the first ones are held out, and their number.
    pub(crate) fn folds(&self) -> (&Folds, usize) {
        (&self.regions, REGIONS.min(self.regions.folds.len()))
    }

    fn segments(&self, is_held: impl Fn(usize) -> bool) -> Vec<Segment> {
        let parts = self.regions.folds.iter().enumerate();
        let parts = parts.filter(|(region, _)| is_held(*region));
        let mut segments: Vec<Segment> = parts
            .flat_map(|(_, parts)| parts)
            .map(|part| part.segment)
            .collect();
        segments.sort_unstable_by_key(|segment| segment.start);
        segments
    }

    /// Mean R² of `estimates`, (steps, outputs), on the regions that are held out.
    ///
    /// # Errors
    /// The same as for [`score_estimates`].
    pub(super) fn r2(&self, estimates: &[f32]) -> Result<f64> {
        let held = self.segments(|region| region < self.folds().1);
        let held = self.data.with_segments(&held);
        let scores = score_estimates(held, estimates, self.options.delay_steps)?;
        Ok(mean_r2(&scores.outputs))
    }

    /// The same of the linear decoder that was found.
    ///
    /// # Errors
    /// The errors of training and of decoding.
    pub(super) fn linear_r2(&self, found: &BankChoice, progress: &dyn Progress) -> Result<f64> {
        let options = TrainOptions {
            bank: found.validation.bank.clone(),
            ridge: RidgeChoice::Fixed(found.validation.ridge),
            retain: None,
            ..self.options.clone()
        };
        let mut estimates = vec![f32::NAN; self.data.steps * self.data.outputs.len()];
        for region in 0..self.folds().1 {
            let rest = self.segments(|other| other != region);
            let decoder = train(self.data.with_segments(&rest), &options, progress)?;
            let held = self.segments(|other| other == region);
            let decoded = decode(&decoder, self.data.with_segments(&held))?;
            for (to, estimate) in estimates.iter_mut().zip(decoded) {
                if !estimate.is_nan() {
                    *to = estimate;
                }
            }
        }
        self.r2(&estimates)
    }
}
