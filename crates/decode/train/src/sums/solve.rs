//! From sums to a decoder, at a ridge that is given, follows from noise, or is the best on sums held back.

use super::{Form, Sums};
use crate::centre::with_means;
use crate::fit;
use crate::generalised;
use crate::limits::range;
use crate::masked;
use crate::options::RidgeChoice;
use crate::retained::StoredStatistics;
use crate::search::best_ridge;
use betz_base::error::{Error, Result};
use betz_gram::gram::NormalEquations;
use betz_gram::solve::{CentredEquations, FeatureNames, MaskPolicy, Solution, Solver};
use betz_runtime::model::{Decoder, DecoderParts, Limits, OutputScore, TrainingRecord};

/// Options for solving sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolveOptions {
    /// The ridge.
    pub ridge: RidgeChoice,
    /// Solver of the linear system.
    pub solver: Solver,
    /// Treatment of dead and duplicated channels.
    pub mask: MaskPolicy,
    /// Keep the sums in the decoder, of at most so many bytes.
    pub retain: Option<usize>,
}

impl SolveOptions {
    /// By Cholesky factorisation at `ridge`; channels without information of their own are masked, and no
    /// sums kept.
    pub const fn with(ridge: RidgeChoice) -> Self {
        Self {
            ridge,
            solver: Solver::Cholesky,
            mask: MaskPolicy::Mask,
            retain: None,
        }
    }
}

/// Scores of a decoder on sums that were held back.
#[derive(Debug, Clone, PartialEq)]
pub struct RidgeScore {
    /// λ.
    pub ridge: f64,
    /// Scores on what was held back; `nrmse_range` is NaN.
    pub outputs: Vec<OutputScore>,
}

impl Form {
    /// Of the squares that are `left` of each output's `total` over so many steps.
    pub(super) fn scores(&self, left: &[f64], total: &[f64], steps: u64) -> Vec<OutputScore> {
        let outputs = self.outputs.iter().zip(left.iter().zip(total));
        outputs
            .map(|(output, (&left, &total))| {
                let part = if total > 0.0 { left / total } else { f64::NAN };
                OutputScore {
                    name: output.name.clone(),
                    unit: output.unit.clone(),
                    r2: 1.0 - part,
                    rmse: (left / steps.max(1) as f64).sqrt(),
                    nrmse_range: f64::NAN,
                    nrmse_std: part.sqrt(),
                }
            })
            .collect()
    }
}

impl Sums {
    /// The linear decoder of these sums.
    ///
    /// # Errors
    /// As [`train`](crate::fit::train): `InvalidArgument` for a ridge or noise that is negative or
    /// not finite, `NotPositiveDefinite`, `InsufficientData`.
    pub fn solve(&self, options: &SolveOptions) -> Result<Decoder> {
        let equations = self.equations();
        let centred = CentredEquations::new(&equations)?;
        let ridge = match options.ridge {
            RidgeChoice::Generalised => {
                let (bank, step_seconds) = (&self.form.bank, self.form.step_seconds);
                generalised::ridge(&equations, &centred, bank, step_seconds)?
            }
            given => fit::ridge_by(given, self.steps, || self.largest)?,
        };
        let solution = centred.solve(ridge, options.solver, options.mask, self.names())?;
        self.decoder(&equations, ridge, options, solution)
    }

    /// The decoder whose ridge, of ρ × mean diagonal of Γ_c with ρ from 10⁻⁷ to 10, leaves least
    /// unexplained of `held_back`: the mean of R² over outputs is largest. The second number is what it
    /// scores there.
    ///
    /// # Errors
    /// As [`solve`](Self::solve); `Mismatch` for sums of another form, or of a recording that
    /// is in these; `InsufficientData` when no output changes in what is held back.
    pub fn solve_held_back(
        &self,
        held_back: &Self,
        options: &SolveOptions,
    ) -> Result<(Decoder, RidgeScore)> {
        self.form().same(held_back.form())?;
        if self.shares(held_back) {
            return Err(Error::mismatch(
                "sums held back: expected those of recordings that are not trained on, got sums that are",
            ));
        }
        let equations = self.equations();
        let aside = held_back.equations_without(self.means().as_deref());
        let centred = CentredEquations::new(&equations)?;
        let unit = equations.mean_variance_sum();
        let (rho, (solution, outputs)) = best_ridge("sums held back", |rho| {
            let solution = centred.solve(rho * unit, options.solver, options.mask, self.names())?;
            let outputs = self.scores(&aside, &solution);
            let r2 = outputs.iter().map(|o| o.r2).collect();
            Ok((r2, (solution, outputs)))
        })?;
        let ridge = rho * unit;
        let decoder = self.decoder(&equations, ridge, options, solution)?;
        Ok((decoder, RidgeScore { ridge, outputs }))
    }

    /// Scores of `decoder`, linear and of this form, on these sums, to about six digits, before its outputs are
    /// clipped to their range.
    fn scores(&self, aside: &NormalEquations, solution: &Solution) -> Vec<OutputScore> {
        let left = aside.residual_squares(&solution.weights, &solution.intercept);
        let total = aside.output_total_squares();
        self.form().scores(&left, &total, aside.steps)
    }

    /// A warning that names the channels which `decoder`, solved from these sums, leaves out, and why; `None` if it has
    /// weights for all that are not silent.
    pub fn masked_warning(&self, decoder: &Decoder) -> Option<String> {
        let mask = decoder.channel_mask();
        if mask.iter().all(|&takes_part| takes_part) {
            return None;
        }
        let (names, filters) = (&self.form.channel_names, self.form.bank.len());
        masked::warning_of_sums(names, filters, &self.equations(), mask)
    }

    pub(super) fn names(&self) -> FeatureNames<'_> {
        FeatureNames {
            channels: &self.form.channel_names,
            bank: &self.form.bank,
        }
    }

    pub(super) fn decoder(
        &self,
        equations: &NormalEquations,
        ridge: f64,
        options: &SolveOptions,
        mut solution: Solution,
    ) -> Result<Decoder> {
        let form = &self.form;
        let of_a_channel = form.bank.len() * form.outputs.len();
        for (channel, takes_part) in solution.channel_mask.iter_mut().enumerate() {
            *takes_part &= !fit::silent(equations, channel, form.bank.len());
            if !*takes_part {
                solution.weights[channel * of_a_channel..][..of_a_channel].fill(0.0);
            }
        }
        let training = TrainingRecord {
            betz_version: env!("CARGO_PKG_VERSION").into(),
            steps: self.steps,
            segments: self.segments,
            spikes: self.spikes,
            ridge,
            gram_path: self.path.clone(),
            solver: options.solver.name().into(),
            folds: 0,
            scores: Vec::new(),
        };
        let (bank, names) = (form.bank.clone(), form.channel_names.clone());
        let decoder = fit::checked(DecoderParts {
            low_pass: form.low_pass,
            delay_steps: form.delay_steps,
            limits: Limits {
                blanking: self.usual.blanking(&solution.channel_mask),
                ranges: self.extremes.iter().copied().map(range).collect(),
                ..Limits::default()
            },
            weights: solution.weights,
            intercept: solution.intercept,
            channel_mask: solution.channel_mask,
            training,
            ..DecoderParts::linear(form.step_seconds, bank, names, form.outputs.clone())
        })?;
        let decoder = StoredStatistics::kept_in(decoder, equations, options.retain)?;
        let decoder = match self.means() {
            Some(means) => with_means(decoder, &means)?,
            None => decoder,
        };
        self.sample.attach(decoder)
    }
}
