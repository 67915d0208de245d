//! From sums to a decoder, at a ridge that is given, follows from noise, or is the best on sums held back.

use super::{Form, Sums};
use crate::fit;
use crate::generalised;
use crate::limits::range;
use crate::options::RidgeChoice;
use crate::retained::StoredStatistics;
use crate::search::{COARSE, REFINED};
use betz_base::error::{Error, ErrorKind, Result};
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
    /// As [`train`](crate::fit::train): [`ErrorKind::InvalidArgument`] for a ridge or noise that is negative or
    /// not finite, [`ErrorKind::NotPositiveDefinite`], [`ErrorKind::InsufficientData`].
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
    /// As [`solve`](Self::solve); [`ErrorKind::Mismatch`] for sums of another form, or of a recording that
    /// is in these; [`ErrorKind::InsufficientData`] when no output changes in what is held back.
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
        let (equations, aside) = (self.equations(), held_back.equations());
        let centred = CentredEquations::new(&equations)?;
        let unit = equations.mean_variance_sum();
        let mut best: Option<(f64, f64, Solution, Vec<OutputScore>)> = None;
        let mut refused = None;
        let mut attempt = |rho: f64| -> Result<Option<f64>> {
            let ridge = rho * unit;
            let solution = match centred.solve(ridge, options.solver, options.mask, self.names()) {
                // A ridge too small is passed over.
                Err(e) if e.kind() == ErrorKind::NotPositiveDefinite => {
                    refused = Some(e);
                    return Ok(None);
                }
                solved => solved?,
            };
            let outputs = self.scores(&aside, &solution);
            let known: Vec<f64> = outputs
                .iter()
                .map(|o| o.r2)
                .filter(|r| !r.is_nan())
                .collect();
            if known.is_empty() {
                return Err(Error::new(
                    ErrorKind::InsufficientData,
                    "sums held back: expected an output that changes, got none",
                ));
            }
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            if best.as_ref().is_none_or(|(most, ..)| mean > *most) {
                best = Some((mean, ridge, solution, outputs));
                return Ok(Some(rho));
            }
            Ok(None)
        };
        let mut chosen = None;
        for power in COARSE {
            chosen = attempt(10_f64.powi(power))?.or(chosen);
        }
        if let Some(rho) = chosen {
            for step in REFINED {
                attempt(rho * 10_f64.powf(step))?;
            }
        }
        let Some((_, ridge, solution, outputs)) = best else {
            return Err(refused.unwrap_or_else(|| {
                Error::new(ErrorKind::InsufficientData, "sums: no ridge was tried")
            }));
        };
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
        self.sample.attach(decoder)
    }
}
