//! The candidates of cross-validation.

use crate::presets::Preset;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_recording::DatasetView;
use betz_runtime::psc::FilterBank;

/// The coarse grid of relative ridges, in powers of ten.
pub(super) const COARSE: std::ops::RangeInclusive<i32> = -7..=1;

/// Steps, in powers of ten, from the best of the coarse grid to what is tried beside it.
pub(super) const REFINED: [f64; 2] = [-0.5, 0.5];

/// Most ridges that are tried side by side.
pub(super) const MOST_RIDGES: usize = (*COARSE.end() - *COARSE.start() + 1) as usize;

/// Tries relative ridges on the coarse grid, and then beside its best one. `attempt` returns R² of each output, NaN if
/// it is unknown, and a value; the result is the ridge with the largest mean, and its value. `what` names the data.
///
/// # Errors
/// The errors of `attempt`, but a ridge that is too small to solve with (`NotPositiveDefinite`) is passed over unless
/// all are; `InsufficientData` if no R² is known.
pub(super) fn best_ridge<T>(
    what: &str,
    mut attempt: impl FnMut(f64) -> Result<(Vec<f64>, T)>,
) -> Result<(f64, T)> {
    let insufficient =
        |text: &str| Error::new(ErrorKind::InsufficientData, format!("{what}: {text}"));
    let mut best: Option<(f64, f64, T)> = None;
    let mut refused = None;
    let mut compare = |rho: f64| -> Result<Option<f64>> {
        let (scores, value) = match attempt(rho) {
            Err(e) if e.kind() == ErrorKind::NotPositiveDefinite => {
                refused = Some(e);
                return Ok(None);
            }
            tried => tried?,
        };
        let known: Vec<f64> = scores.into_iter().filter(|r2| !r2.is_nan()).collect();
        if known.is_empty() {
            return Err(insufficient("expected an output that changes, got none"));
        }
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        if best.as_ref().is_none_or(|(most, ..)| mean > *most) {
            best = Some((mean, rho, value));
            return Ok(Some(rho));
        }
        Ok(None)
    };
    let mut chosen = None;
    for power in COARSE {
        chosen = compare(10_f64.powi(power))?.or(chosen);
    }
    if let Some(rho) = chosen {
        for step in REFINED {
            compare(rho * float::powf(10.0, step))?;
        }
    }
    match best {
        Some((_, rho, value)) => Ok((rho, value)),
        None => Err(refused.unwrap_or_else(|| insufficient("no ridge was tried"))),
    }
}

/// The candidates of cross-validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// Number of folds, 2 or more.
    pub folds: usize,
    /// Banks to choose from; none: [`TrainOptions::bank`](super::TrainOptions::bank) alone.
    pub banks: Vec<FilterBank>,
    /// Choose the ridge, λ = ρ × mean of the diagonal of the centred Γ, ρ from 1e-7 to 10: one that is too
    /// small to solve with is passed over, whatever [`TrainOptions::mask`](super::TrainOptions::mask),
    /// which holds for the training on the whole. Otherwise
    /// [`TrainOptions::ridge`](super::TrainOptions::ridge) holds (a fixed λ for the whole, and in
    /// proportion for the steps of a fold's training set).
    pub ridge: bool,
}

impl Search {
    /// Five folds; the ridge, and the bank among the presets that suit `data`
    /// ([`Preset::candidates`]).
    ///
    /// # Errors
    /// The same as for [`Preset::bank`].
    pub fn presets<'d>(data: impl Into<DatasetView<'d>>) -> Result<Self> {
        let data = &data.into();
        let banks = Preset::candidates(data).into_iter().map(Preset::bank);
        Ok(Self {
            banks: banks.collect::<Result<_>>()?,
            ..Self::ridge()
        })
    }

    /// Five folds; the ridge alone.
    pub const fn ridge() -> Self {
        Self {
            folds: 5,
            banks: Vec::new(),
            ridge: true,
        }
    }

    /// `folds` folds to score what the options say, with nothing to choose.
    pub const fn scores_only(folds: usize) -> Self {
        Self {
            folds,
            banks: Vec::new(),
            ridge: false,
        }
    }

    /// Systems that are solved for a fold, with a bank: one for each ridge that is tried, and one to
    /// score by.
    pub(super) fn solutions(&self) -> usize {
        1 + if self.ridge {
            COARSE.count() + REFINED.len()
        } else {
            1
        }
    }
}
