//! Folds whose latents were made without what they hold out.

use crate::latents::{Latents, quantile_of_norms};
use crate::readout::Walk;
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::Placement;
use betz_recording::DatasetView;

/// Of the norms of latents in training, the quantile beyond which they are clipped.
const WITHIN: f64 = 0.999;

/// Marks a step that no fold has: outside segments, or between two pieces of one.
pub(crate) const NOWHERE: u16 = u16::MAX;

/// Latents of every step, made from a training set.
pub(crate) struct Stage {
    pub(crate) latents: Latents,
    /// (step, latent) row-major; NaN outside segments.
    pub(crate) z: Vec<f32>,
}

/// Training sets with what each holds out.
pub(crate) struct Split<'a> {
    pub(crate) data: DatasetView<'a>,
    pub(crate) delay_steps: i64,
    pub(crate) placement: &'a Placement,
    /// The fold that each step is held out of, or [`NOWHERE`].
    pub(crate) fold_of: Vec<u16>,
    /// One per fold, in the folds' order.
    pub(crate) stages: Vec<Stage>,
}

/// One training set at work.
#[derive(Clone, Copy)]
pub(crate) struct Fold<'a> {
    data: DatasetView<'a>,
    delay_steps: i64,
    placement: &'a Placement,
    stage: &'a Stage,
    fold_of: &'a [u16],
    /// `None`: all steps train, none is held out.
    held: Option<u16>,
}

impl<'a> Split<'a> {
    pub(crate) fn folds(&self) -> impl Iterator<Item = Fold<'_>> {
        self.stages.iter().enumerate().map(|(k, stage)| Fold {
            data: self.data,
            delay_steps: self.delay_steps,
            placement: self.placement,
            stage,
            fold_of: &self.fold_of,
            held: Some(k as u16),
        })
    }

    /// Latents that every fold has.
    pub(crate) fn latents(&self) -> usize {
        self.stages
            .iter()
            .map(|s| s.latents.count)
            .min()
            .unwrap_or(0)
    }
}

impl<'a> Fold<'a> {
    /// All steps of segments as one training set.
    pub(crate) fn whole(
        data: DatasetView<'a>,
        (delay_steps, placement): (i64, &'a Placement),
        stage: &'a Stage,
        fold_of: &'a [u16],
    ) -> Self {
        Self {
            data,
            delay_steps,
            placement,
            stage,
            fold_of,
            held: None,
        }
    }

    /// True if a step is trained on.
    pub(crate) fn trains(&self) -> impl Fn(usize) -> bool + Sync + 'a {
        let (fold_of, held) = (self.fold_of, self.held.unwrap_or(NOWHERE));
        move |step| fold_of[step] != NOWHERE && fold_of[step] != held
    }

    /// True if a step is held out.
    pub(crate) fn holds(&self) -> impl Fn(usize) -> bool + Sync + 'a {
        let (fold_of, held) = (self.fold_of, self.held);
        move |step| fold_of[step] != NOWHERE && Some(fold_of[step]) == held
    }

    pub(crate) fn data(&self) -> DatasetView<'a> {
        self.data
    }

    pub(crate) fn delay_steps(&self) -> i64 {
        self.delay_steps
    }

    /// The first `latents` latents, clipped as training saw them.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] without a step to train on.
    pub(crate) fn walk(&self, latents: usize) -> Result<Walk<'a>> {
        let row = self.stage.latents.count;
        let radius = quantile_of_norms(&self.stage.z, (row, latents), self.trains(), WITHIN);
        match radius {
            Some(radius) if radius > 0.0 => Ok(Walk {
                data: self.data,
                latents,
                row,
                z: &self.stage.z,
                delay_steps: self.delay_steps,
                radius,
                placement: Some(self.placement),
            }),
            _ => Err(Error::new(
                ErrorKind::InsufficientData,
                "latents: expected steps to train on whose latents differ from 0, got none",
            )),
        }
    }
}
