//! The Kalman filter in cross-validation: what it observes, and how it does.

use super::{Dynamics, SteadyKalman};
use crate::TrainOptions;
use crate::folds::Part;
use crate::gram::NormalEquations;
use crate::latents::{Latents, run};
use crate::validate::{BankSums, Found, Study};
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_recording::DatasetView;
use betz_runtime::psc::{Filter, FilterBank};

/// Of the mean variance of counts, what is added to the diagonal of their noise covariance.
const COUNT_RIDGE: f64 = 1e-3;

/// A τ of so many parts of a step leaves of an order-0 filter the bin itself, of an order-1 filter the bin
/// before it.
const PARTS: f64 = 40.0;

/// What a filter may observe, with sums fold by fold and over all.
pub(crate) struct Entrant {
    /// In words.
    pub(crate) configuration: String,
    pub(crate) bank: FilterBank,
    pub(crate) ridge: f64,
    /// Of everything held out, (steps, outputs); NaN elsewhere.
    pub(crate) estimates: Vec<f32>,
    total: NormalEquations,
}

impl Entrant {
    /// Filters that observe the counts of the bin, those of the bin before it, and the features of the bank that
    /// was found.
    ///
    /// # Errors
    /// Those of the sums and of [`SteadyKalman::fit`].
    pub(crate) fn all(
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &Found,
        progress: &dyn Progress,
    ) -> Result<Vec<Self>> {
        let tau_seconds = data.step_seconds / PARTS;
        let counts = |order| FilterBank::new(vec![Filter { tau_seconds, order }]);
        let study = Study {
            placement: &found.placement,
            data: *data,
            options,
            search_ridge: false,
            progress,
        };
        let mut entrants = Vec::new();
        for (configuration, bank) in [
            ("counts of the bin", counts(0)?),
            ("counts of the bin before", counts(1)?),
        ] {
            // By the path that suited the bank that was found.
            let sums = BankSums::new(&study, &bank, found.bank.paths, &found.split, &|_| {})?;
            let ridge = COUNT_RIDGE * sums.total.mean_variance_sum();
            let of = (configuration.to_owned(), bank, ridge);
            entrants.push(Self::new(
                data,
                options,
                found,
                of,
                (&sums.folds, sums.total.clone()),
            )?);
        }
        let bank = found.validation.bank.clone();
        let of = (
            format!("{} filters", bank.len()),
            bank,
            found.validation.ridge,
        );
        let sums = (&found.bank.folds[..], found.bank.total.clone());
        entrants.push(Self::new(data, options, found, of, sums)?);
        Ok(entrants)
    }

    fn new(
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &Found,
        (configuration, bank, ridge): (String, FilterBank, f64),
        (folds, total): (&[NormalEquations], NormalEquations),
    ) -> Result<Self> {
        let parts = &found.split.folds;
        let delay = options.delay_steps;
        let dynamics: Vec<Dynamics> = parts.iter().map(|p| Dynamics::of(data, p, delay)).collect();
        let zeros = Dynamics::zeros(data.outputs.len());
        let all = dynamics.iter().fold(zeros, |sum, d| sum.plus(d, 1.0));
        let mut estimates = vec![f32::NAN; data.steps * data.outputs.len()];
        for ((fold, parts), own) in folds.iter().zip(parts).zip(&dynamics) {
            let mut rest = total.clone();
            rest.subtract(fold)?;
            let share = rest.steps as f64 / total.steps as f64;
            let filter = SteadyKalman::fit(&rest, &all.clone().plus(own, -1.0), ridge * share)?;
            filter.estimate(data, options, (&bank, parts), &mut estimates)?;
        }
        Ok(Self {
            configuration,
            bank,
            ridge,
            estimates,
            total,
        })
    }

    /// The filter of the whole recording. (Where one segment was cut into folds, without the guards between
    /// them.)
    ///
    /// # Errors
    /// As [`SteadyKalman::fit`].
    pub(crate) fn whole(
        &self,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &Found,
    ) -> Result<SteadyKalman> {
        let parts: Vec<Part> = found.split.folds.iter().flatten().copied().collect();
        let dynamics = Dynamics::of(data, &parts, options.delay_steps);
        SteadyKalman::fit(&self.total, &dynamics, self.ridge)
    }

    /// Steps that [`whole`](Self::whole) is trained on.
    pub(crate) fn steps(&self) -> u64 {
        self.total.steps
    }
}

impl SteadyKalman {
    /// Estimates at the steps of `parts`; the filter runs from the start of each part's segment.
    fn estimate(
        &self,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        (bank, parts): (&FilterBank, &[Part]),
        estimates: &mut [f32],
    ) -> Result<()> {
        let m = self.mean.len();
        let latents = Latents {
            count: m,
            weights: self.gain.clone(),
            intercept: self.offset.clone(),
            variances: Vec::new(),
        };
        let innovations = run(&latents, data, bank, options.low_pass)?;
        for part in parts {
            let of = |s: &&betz_recording::Segment| {
                s.start <= part.segment.start && part.segment.stop <= s.stop
            };
            let Some(segment) = data.segments.iter().find(of) else {
                continue;
            };
            let mut state = vec![0.0; m];
            for step in segment.start..part.segment.stop {
                let row = step as usize * m..(step as usize + 1) * m;
                let mut next: Vec<f64> = innovations[row.clone()]
                    .iter()
                    .map(|u| f64::from(*u))
                    .collect();
                for (next, row) in next.iter_mut().zip(self.transition.chunks_exact(m)) {
                    *next += row.iter().zip(&state).map(|(m, s)| m * s).sum::<f64>();
                }
                state = next;
                if step >= part.segment.start {
                    let both = state.iter().zip(&self.mean);
                    estimates[row]
                        .iter_mut()
                        .zip(both)
                        .for_each(|(e, (s, mean))| *e = (s + mean) as f32);
                }
            }
        }
        Ok(())
    }
}
