//! Which configuration of a kind does best on what its readout was not trained on.
//!
//! The configurations share latents, and a basis, of the whole recording: one pass over the steps then gives the sums of
//! every part, and subtraction those of everything else. The configuration that is taken is scored afterwards with latents
//! and a basis that did not see what is held out.

use super::family::{Family, Trial, Truth};
use super::split::Fold;
use crate::folds::NOWHERE;
use crate::readout::{Pass, best_of, mean_of};
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
use betz_gram::NormalEquations;

/// Part of the score that regions are: three movements in a hundred are expected to be unlike all that
/// was trained on.
const UNSEEN: f64 = 0.03;

/// Most parts that are held out one by one: the sums of each are in memory.
const MOST_PARTS: usize = 10;

/// Parts of the steps that a race holds out one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    /// Part of each step; `count`: never held out; [`NOWHERE`]: not trained on.
    part_of: Vec<u16>,
    count: u16,
}

impl Parts {
    /// The first `held` folds of `fold_of`; some together, where they are more than [`MOST_PARTS`].
    pub(super) fn new(fold_of: &[u16], held: usize) -> Self {
        let count = held.min(MOST_PARTS) as u16;
        let part = |fold: u16| match fold {
            NOWHERE => NOWHERE,
            fold if usize::from(fold) < held => fold % count,
            _ => count,
        };
        Self {
            part_of: fold_of.iter().map(|&fold| part(fold)).collect(),
            count,
        }
    }

    /// Sums of `pass` over each part.
    fn sums(&self, pass: &Pass<'_>, progress: &dyn Progress) -> Result<Vec<NormalEquations>> {
        let of_part = |part| pass.sums(&|step| self.part_of[step] == part, progress);
        (0..self.count).map(of_part).collect()
    }
}

/// The best configuration of `family` behind at most `latents` latents, on `folds` of the training set `whole`. Where
/// there are `regions`, 3 % of the score are what it makes of those, so that one that only knows what it has seen
/// is not preferred.
///
/// # Errors
/// The same as for [`Family::trials`], and [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) without
/// a trial.
pub(super) fn race<F: Family>(
    family: &F,
    (whole, latents): (Fold<'_>, usize),
    (folds, regions): (&Parts, Option<&Parts>),
    progress: &dyn Progress,
) -> Result<F::Config> {
    let count = family.trial_count(latents) as u64;
    let mut done = 0;
    let mut best: Option<(F::Config, f64)> = None;
    family.trials(whole, latents, progress, &mut |trial| {
        progress.update("compare decoders", done, count);
        progress::check(progress, "training")?;
        done += 1;
        let scores = scores(trial, whole, (folds, regions), progress)?;
        // NaN never beats what is there.
        let better = scores.into_iter().filter(|(_, score)| !score.is_nan());
        best = best
            .into_iter()
            .chain(better)
            .reduce(|a, b| if b.1 > a.1 { b } else { a });
        Ok(())
    })?;
    let none = || Error::argument("cross-validation: expected configurations, got none");
    best.map(|(config, _)| config).ok_or_else(none)
}

/// Every configuration of `trial` with its score.
fn scores<C>(
    trial: &Trial<'_, C>,
    whole: Fold<'_>,
    (folds, regions): (&Parts, Option<&Parts>),
    progress: &dyn Progress,
) -> Result<Vec<(C, f64)>> {
    let walk = whole.walk(trial.latents)?;
    let mean = mean_of(walk, trial.basis, &whole.trains(), progress)?;
    let pass = Pass::new(walk, trial.basis, &mean, trial.filters);
    let parts = folds.sums(&pass, progress)?;
    let mut total = NormalEquations::zeros(pass.features(), walk.data.outputs.len());
    parts.iter().try_for_each(|part| total.add(part))?;
    let of_folds = r2(trial, &total, &parts)?;
    drop(parts);
    let of_regions = match regions {
        Some(regions) => Some(r2(trial, &total, &regions.sums(&pass, progress)?)?),
        None => None,
    };
    let configs = (0..trial.subsets.len())
        .flat_map(|subset| (trial.kappas.iter()).map(move |&kappa| (trial.config)(subset, kappa)));
    let scores = joined(of_folds, of_regions.as_deref());
    Ok(configs.zip(scores).collect())
}

/// Mean R² of every readout of `trial` over all `parts`, for each of them solved from the rest of `total`.
fn r2<C>(
    trial: &Trial<'_, C>,
    total: &NormalEquations,
    parts: &[NormalEquations],
) -> Result<Vec<f64>> {
    let mut residuals: Vec<Vec<f64>> = Vec::new();
    let mut truth: Option<Truth> = None;
    for part in parts {
        let mut train = total.clone();
        train.subtract(part)?;
        let left = best_of(&train, part, trial.subsets, trial.kappas)?;
        let Some(truth) = &mut truth else {
            residuals = left.into_iter().map(|left| left.residual).collect();
            truth = Some(Truth::new(part));
            continue;
        };
        truth.add(&Truth::new(part));
        for (sum, more) in residuals.iter_mut().zip(&left) {
            sum.iter_mut()
                .zip(&more.residual)
                .for_each(|(s, m)| *s += m);
        }
    }
    let r2 = |residual: &Vec<f64>| truth.as_ref().map_or(f64::NAN, |truth| truth.r2(residual));
    Ok(residuals.iter().map(r2).collect())
}

/// Scores of folds with those of regions.
fn joined(mut folds: Vec<f64>, regions: Option<&[f64]>) -> Vec<f64> {
    for (r2, regions) in folds.iter_mut().zip(regions.unwrap_or_default()) {
        *r2 += UNSEEN * (regions - *r2);
    }
    folds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_percent_of_the_score_are_of_regions() {
        let got = joined(vec![0.95, 0.94, 0.5], Some(&[0.45, 0.84, f64::NAN]));
        assert!((got[0] - 0.935).abs() < 1e-12 && (got[1] - 0.937).abs() < 1e-12);
        assert!(got[2].is_nan());
        assert_eq!(joined(vec![0.5], None), [0.5]);
    }

    #[test]
    fn many_folds_are_held_out_together() {
        let fold_of: Vec<u16> = (0..25).chain([NOWHERE]).collect();
        let parts = Parts::new(&fold_of, 23);
        assert_eq!(parts.count, 10);
        assert_eq!(parts.part_of[..3], [0, 1, 2]);
        assert_eq!(parts.part_of[20..], [0, 1, 2, 10, 10, NOWHERE]);
        assert_eq!(Parts::new(&fold_of, 4).part_of[3..6], [3, 4, 4]);
    }
}
