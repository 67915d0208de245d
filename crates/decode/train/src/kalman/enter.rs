//! The Kalman filter in cross-validation: what it observes, and how it does.

use super::intent::intended;
use super::{Dynamics, SteadyKalman, repeated};
use crate::folds::Part;
use crate::latents::{Latents, filter_latents};
use crate::options::TrainOptions;
use crate::validate::{BankChoice, BankSums, Study};
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_base::text::count;
use betz_gram::gram::NormalEquations;
use betz_recording::DatasetView;
use betz_runtime::psc::{Filter, FilterBank};

/// Of the mean variance of counts, what is added to the diagonal of their noise covariance.
const COUNT_RIDGE: f64 = 1e-3;

/// A τ of so many parts of a step leaves of an order-0 filter the bin itself, of an order-1 filter the bin
/// before it.
const PARTS: f64 = 40.0;

/// An observation that a filter may use, with sums per fold and over all.
pub(crate) struct Entrant {
    /// In words.
    pub(crate) configuration: String,
    pub(crate) bank: FilterBank,
    pub(crate) ridge: f64,
    /// Of everything held out, (steps, outputs); NaN elsewhere.
    pub(crate) estimates: Vec<f32>,
    total: NormalEquations,
    /// Labels that the filter learned to observe, (step, output), if they differ from the outputs.
    labels: Option<Vec<f32>>,
}

impl Entrant {
    /// Filters that observe the counts of the bin, those of the bin before it, and the features of the bank that
    /// was found. With `refit` they learn what these say of what was intended, not of what was done.
    ///
    /// # Errors
    /// Returns the errors of the sums and of [`SteadyKalman::fit`], and with `refit` those of [`intended`];
    /// `InvalidArgument` for an output that follows from others.
    pub(crate) fn all(
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &BankChoice,
        refit: bool,
        progress: &dyn Progress,
    ) -> Result<Vec<Self>> {
        let labels = refit.then(|| intended(data)).transpose()?;
        let labelled = labelled(data, labels.as_deref());
        let parts: Vec<Part> = found.split.folds.iter().flatten().copied().collect();
        let moved = Dynamics::new(data, &parts, options.delay_steps);
        repeated::refuse(&moved, data.outputs)?;
        let tau_seconds = data.step_seconds / PARTS;
        let counts = |order| FilterBank::new(vec![Filter { tau_seconds, order }]);
        let study = Study {
            placement: &found.placement,
            data: labelled,
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
            let sums = BankSums::new(
                &study,
                (&bank, None),
                found.bank.paths,
                &found.split,
                &|_| {},
            )?;
            let ridge = COUNT_RIDGE * sums.total.mean_variance_sum();
            let of = (configuration.to_owned(), bank, ridge);
            let sums = (&sums.folds[..], sums.total.clone());
            entrants.push(Self::new(data, options, found, of, sums, labels.clone())?);
        }
        let bank = found.validation.bank.clone();
        let of = (
            count(bank.len() as u128, "filter"),
            bank,
            found.validation.ridge,
        );
        let own;
        // A filter observes the features themselves.
        let sums = if refit || found.bank.rotation.is_some() {
            let paths = found.bank.paths.taken(found.bank.path);
            own = BankSums::new(&study, (&of.1, None), paths, &found.split, &|_| {})?;
            &own
        } else {
            &found.bank
        };
        let sums = (&sums.folds[..], sums.total.clone());
        entrants.push(Self::new(data, options, found, of, sums, labels)?);
        Ok(entrants)
    }

    fn new(
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &BankChoice,
        (configuration, bank, ridge): (String, FilterBank, f64),
        (folds, total): (&[NormalEquations], NormalEquations),
        labels: Option<Vec<f32>>,
    ) -> Result<Self> {
        let parts = &found.split.folds;
        let labelled = labelled(data, labels.as_deref());
        let dynamics_of = |data: &DatasetView<'_>| {
            let of = |p: &Vec<Part>| Dynamics::new(data, p, options.delay_steps);
            let dynamics: Vec<Dynamics> = parts.iter().map(of).collect();
            let zeros = Dynamics::zeros(data.outputs.len());
            let all = dynamics.iter().fold(zeros, |sum, d| sum.plus(d, 1.0));
            (dynamics, all)
        };
        let (movements, movement) = dynamics_of(data);
        let (of_labels, of_all_labels) = dynamics_of(&labelled);
        let mut estimates = vec![f32::NAN; data.steps * data.outputs.len()];
        for (k, (fold, parts)) in folds.iter().zip(parts).enumerate() {
            let mut rest = total.clone();
            rest.subtract(fold)?;
            let share = rest.steps as f64 / total.steps as f64;
            let labels = of_all_labels.clone().plus(&of_labels[k], -1.0);
            let movement = movement.clone().plus(&movements[k], -1.0);
            let filter = SteadyKalman::fit(&rest, &labels, &movement, ridge * share)?;
            filter.estimate(data, options, (&bank, parts), &mut estimates)?;
        }
        Ok(Self {
            configuration,
            bank,
            ridge,
            estimates,
            total,
            labels,
        })
    }

    /// The filter of the whole recording. (Where one segment was cut into folds, without the guards between
    /// them.)
    ///
    /// # Errors
    /// The same as for [`SteadyKalman::fit`].
    pub(crate) fn whole(
        &self,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &BankChoice,
    ) -> Result<SteadyKalman> {
        let parts: Vec<Part> = found.split.folds.iter().flatten().copied().collect();
        let movement = Dynamics::new(data, &parts, options.delay_steps);
        let labelled = labelled(data, self.labels.as_deref());
        let labels = Dynamics::new(&labelled, &parts, options.delay_steps);
        SteadyKalman::fit(&self.total, &labels, &movement, self.ridge)
    }

    /// Steps that [`whole`](Self::whole) is trained on.
    pub(crate) fn steps(&self) -> u64 {
        self.total.steps
    }
}

/// `data` with `labels` for outputs, where there are some.
fn labelled<'a>(data: &DatasetView<'a>, labels: Option<&'a [f32]>) -> DatasetView<'a> {
    DatasetView {
        behavior: labels.unwrap_or(data.behavior),
        ..*data
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
        let innovations = filter_latents(&latents, data, bank, options.low_pass)?;
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
