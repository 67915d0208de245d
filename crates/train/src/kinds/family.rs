//! Common parts of the nonlinear kinds: a basis behind the latents, and a ridge readout of it.

use super::Kind;
use super::split::{Fold, Split};
use crate::readout::{Basis, Pass, Weights, mean_of, ridge_readout};
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_gram::NormalEquations;

/// A kind of decoder that a search chooses the configuration of.
pub(crate) trait Family {
    /// A configuration.
    type Config: Copy + PartialEq + std::fmt::Debug;
    type Basis: Basis;
    const KIND: Kind;

    /// Bases that are worth trying behind at most `latents` latents.
    fn trial_count(&self, latents: usize) -> usize;

    /// Hands every basis that is worth trying behind at most `latents` latents to `each`, as `fold`'s training steps
    /// make it.
    ///
    /// # Errors
    /// Returns the errors of the latents and of `each`, and
    /// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
    fn trials(
        &self,
        fold: Fold<'_>,
        latents: usize,
        progress: &dyn Progress,
        each: &mut dyn FnMut(&Trial<'_, Self::Config>) -> Result<()>,
    ) -> Result<()>;

    /// The basis of `config` as `fold`'s training steps make it.
    ///
    /// # Errors
    /// The same as for [`trials`](Self::trials), without those of `each`.
    fn basis(
        &self,
        fold: Fold<'_>,
        config: &Self::Config,
        progress: &dyn Progress,
    ) -> Result<Self::Basis>;

    /// Latents, time constants of the filters behind the features, and ridge of a configuration.
    fn plan(config: &Self::Config) -> Plan;

    /// The configuration in words.
    fn describe(config: &Self::Config) -> String;

    /// Multiply-adds of a step behind the latents.
    fn multiply_adds(config: &Self::Config, outputs: usize) -> f64;
}

/// Readout of the features of a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    pub(crate) latents: usize,
    pub(crate) tau_seconds: Option<f64>,
    /// Ridge as a part of the mean of the centred sums' diagonal.
    pub(crate) kappa: f64,
}

impl Plan {
    /// Filter and ridge in words.
    pub(crate) fn describe(&self) -> String {
        let filter = match self.tau_seconds {
            Some(tau) => format!("filter {tau} s"),
            None => "no filter".to_owned(),
        };
        format!("{filter}, ridge {:.0e}", self.kappa)
    }
}

/// A basis behind latents, and the readouts of it that are compared.
pub(crate) struct Trial<'a, C> {
    pub(crate) latents: usize,
    pub(crate) basis: &'a dyn Basis,
    /// Seconds of the filters behind the features.
    pub(crate) filters: &'a [f64],
    /// Columns of [features; features behind the first filter; …], one list per readout.
    pub(crate) subsets: &'a [Vec<usize>],
    pub(crate) kappas: &'a [f64],
    /// The configuration of a subset and a ridge.
    pub(crate) config: &'a dyn Fn(usize, f64) -> C,
}

/// Sums of the outputs over steps that count.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Truth {
    steps: f64,
    sum: Vec<f64>,
    squares: Vec<f64>,
}

impl Truth {
    pub(crate) fn new(sums: &NormalEquations) -> Self {
        Self {
            steps: sums.steps as f64,
            sum: sums.output_sum.clone(),
            squares: sums.output_sq_sum.clone(),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        let pairs = [
            (&mut self.sum, &other.sum),
            (&mut self.squares, &other.squares),
        ];
        for (mine, theirs) in pairs {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        }
    }

    /// Mean R² over the outputs that change; NaN where none does.
    pub(crate) fn r2(&self, residual: &[f64]) -> f64 {
        let known: Vec<f64> = (0..self.sum.len())
            .filter_map(|o| {
                let about_mean = self.squares[o] - self.sum[o] * self.sum[o] / self.steps;
                (about_mean > 1e-12 * self.squares[o]).then(|| 1.0 - residual[o] / about_mean)
            })
            .collect();
        known.iter().sum::<f64>() / known.len() as f64
    }
}

/// A kind fitted to a training set.
pub(crate) struct FamilyFit<B> {
    pub(crate) basis: B,
    pub(crate) plan: Plan,
    /// Longest norm of latents that is not clipped.
    pub(crate) radius: f64,
    /// ḡ.
    pub(crate) mean: Vec<f64>,
    /// Of the features, then of the filtered features if there is a filter.
    pub(crate) readout: Weights,
}

/// `family` in `config` fitted to `fold`'s training set.
///
/// # Errors
/// As [`Family::basis`] and [`ridge_readout`].
pub(crate) fn fit<F: Family>(
    family: &F,
    fold: Fold<'_>,
    config: &F::Config,
    progress: &dyn Progress,
) -> Result<FamilyFit<F::Basis>> {
    let plan = F::plan(config);
    let walk = fold.walk(plan.latents)?;
    let basis = family.basis(fold, config, progress)?;
    let trains = fold.trains();
    let mean = mean_of(walk, &basis, &trains, progress)?;
    let sums = {
        let pass = Pass::new(walk, &basis, &mean, plan.tau_seconds.as_slice());
        pass.sums(&trains, progress)?
    };
    let every: Vec<usize> = (0..sums.features).collect();
    let readout = ridge_readout(&sums, &every, plan.kappa)?;
    Ok(FamilyFit {
        basis,
        plan,
        radius: walk.radius,
        mean,
        readout,
    })
}

/// Estimates of every step that a fold of `split` holds out, (steps, outputs), by `family` in `config` fitted
/// to the fold's training set; NaN elsewhere.
///
/// # Errors
/// The same as for [`fit`].
pub(crate) fn held_out<F: Family>(
    family: &F,
    split: &Split<'_>,
    config: &F::Config,
    progress: &dyn Progress,
) -> Result<Vec<f32>> {
    let data = split.data;
    let mut estimates = vec![f32::NAN; data.steps * data.outputs.len()];
    for (done, fold) in split.folds().enumerate() {
        progress.update("decode folds", done as u64, split.stages.len() as u64);
        let fitted = fit(family, fold, config, progress)?;
        let walk = fold.walk(fitted.plan.latents)?;
        let filters = fitted.plan.tau_seconds;
        let pass = Pass::new(walk, &fitted.basis, &fitted.mean, filters.as_slice());
        let readout = (&fitted.readout.weights[..], &fitted.readout.intercept[..]);
        pass.estimate(readout, &fold.holds(), &mut estimates, progress)?;
    }
    Ok(estimates)
}
