//! Common parts of the nonlinear kinds: a basis behind the latents, and a ridge readout of it.

use std::rc::Rc;

use super::Kind;
use super::split::{Fold, Split};
use crate::readout::{Basis, Pass, Weights, mean_of, ridge_readout};
use betz_base::error::{Error, Result};
use betz_base::progress::{Phases, Progress};
use betz_gram::NormalEquations;

/// A kind of decoder that a search chooses the configuration of.
pub(crate) trait Family {
    /// A configuration.
    type Config: Copy + PartialEq + std::fmt::Debug;
    type Basis: Basis + 'static;
    const KIND: Kind;

    /// Cost of each pass over the steps, which together compare all there is to choose from, in multiply-adds per step.
    /// `latents` is the most that every fold has.
    fn costs(&self, latents: usize) -> Vec<u64>;

    /// Every configuration of `passes`, ascending, with the sums of squares that it leaves of what `fold` holds out,
    /// one per output; the same configurations in the same order for every fold.
    ///
    /// # Errors
    /// Returns the errors of the latents and of the sums, and
    /// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
    fn compare(
        &self,
        fold: Fold<'_>,
        latents: usize,
        passes: &[usize],
        progress: &dyn Progress,
    ) -> Result<Residuals<Self::Config>>;

    /// The basis of `config` as `fold`'s training steps make it.
    ///
    /// # Errors
    /// The same as for [`compare`](Self::compare).
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

/// Features of one pass over a fold's steps, as its training steps make them.
pub(crate) struct FoldFeatures {
    pub(crate) latents: usize,
    pub(crate) basis: Box<dyn Basis>,
    /// ḡ.
    pub(crate) mean: Vec<f64>,
    /// Seconds of the filters behind them.
    pub(crate) filters: Vec<f64>,
}

impl FoldFeatures {
    /// The features of `basis`, about their mean over `fold`'s training steps.
    ///
    /// # Errors
    /// The errors of [`mean_of`] and of [`Fold::walk`].
    pub(crate) fn new(
        fold: Fold<'_>,
        (latents, basis): (usize, impl Basis + 'static),
        filters: &[f64],
        progress: &dyn Progress,
    ) -> Result<Self> {
        let mean = mean_of(fold.walk(latents)?, &basis, &fold.trains(), progress)?;
        Ok(Self {
            latents,
            basis: Box::new(basis),
            mean,
            filters: filters.to_vec(),
        })
    }

    /// A pass over the steps of `fold`.
    ///
    /// # Errors
    /// The same as for [`Fold::walk`].
    pub(crate) fn pass<'a>(&'a self, fold: Fold<'a>) -> Result<Pass<'a>> {
        let walk = fold.walk(self.latents)?;
        Ok(Pass::new(walk, &*self.basis, &self.mean, &self.filters))
    }
}

/// A readout that was fitted to a fold's training steps, and what it reads.
#[derive(Clone)]
pub(crate) struct FoldReadout {
    pub(crate) features: Rc<FoldFeatures>,
    /// 0 for features that its configuration leaves out; `None` for a ridge that was too small.
    pub(crate) readout: Option<Weights>,
}

/// A configuration and what it leaves unexplained.
pub(crate) struct Residual<C> {
    /// The pass that compared it.
    pub(crate) pass: usize,
    pub(crate) config: C,
    /// Sum of squares, one per output.
    pub(crate) residual: Vec<f64>,
    /// Its readouts, one per fold that it was compared on.
    pub(crate) readouts: Vec<FoldReadout>,
}

/// Residuals of configurations on one fold, or on several.
pub(crate) struct Residuals<C> {
    pub(crate) left: Vec<Residual<C>>,
    /// Sums over the held-out steps that count.
    pub(crate) truth: Truth,
}

impl<C> Residuals<C> {
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) when there was nothing to
    /// compare.
    pub(crate) fn new(left: Vec<Residual<C>>, truth: Option<Truth>) -> Result<Self> {
        match truth {
            Some(truth) => Ok(Self { left, truth }),
            None => Err(Error::argument(
                "cross-validation: expected configurations to compare, got none",
            )),
        }
    }
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

    fn add(&mut self, other: &Self) {
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
    fn r2(&self, residual: &[f64]) -> f64 {
        let known: Vec<f64> = (0..self.sum.len())
            .filter_map(|o| {
                let about_mean = self.squares[o] - self.sum[o] * self.sum[o] / self.steps;
                (about_mean > 1e-12 * self.squares[o]).then(|| 1.0 - residual[o] / about_mean)
            })
            .collect();
        known.iter().sum::<f64>() / known.len() as f64
    }
}

/// Progress over passes, by their costs.
pub(crate) struct PassProgress<'a> {
    progress: &'a dyn Progress,
    costs: Vec<u64>,
    done: u64,
    total: u64,
}

impl<'a> PassProgress<'a> {
    /// Progress over `passes`; `costs` has the cost of every pass.
    pub(crate) fn new(costs: Vec<u64>, passes: &[usize], progress: &'a dyn Progress) -> Self {
        let total = passes.iter().map(|pass| costs[*pass]).sum();
        Self {
            progress,
            costs,
            done: 0,
            total,
        }
    }

    /// Tells that `pass` is over.
    pub(crate) fn finish(&mut self, pass: usize) {
        self.done += self.costs[pass];
        self.progress
            .update("compare decoders", self.done, self.total);
    }
}

/// Cost of the sums of a pass with so many features, in multiply-adds per step.
pub(crate) const fn cost_of_sums(features: usize) -> u64 {
    (features * features) as u64 / 2
}

/// Residuals of the configurations of `passes` with at most `latents` latents on the folds `folds` of `split`, added
/// up.
///
/// # Errors
/// The same as for [`Family::compare`].
pub(crate) fn compared<F: Family>(
    family: &F,
    (split, folds): (&Split<'_>, std::ops::Range<usize>),
    (latents, passes): (usize, &[usize]),
    progress: &dyn Progress,
) -> Result<Option<Residuals<F::Config>>> {
    let mut all: Option<Residuals<F::Config>> = None;
    let wanted = split.folds().take(folds.end).skip(folds.start);
    let count = split
        .stages
        .len()
        .min(folds.end)
        .saturating_sub(folds.start);
    let mut phases = Phases::new(progress, "compare decoders", count as u64);
    for fold in wanted {
        let more = family.compare(fold, latents, passes, &phases.next(1))?;
        match &mut all {
            None => all = Some(more),
            Some(all) => all.add(more),
        }
    }
    Ok(all)
}

impl<C: PartialEq> Residuals<C> {
    /// The same configurations over other folds as well.
    pub(crate) fn add(&mut self, other: Self) {
        self.truth.add(&other.truth);
        for (sum, more) in self.left.iter_mut().zip(other.left) {
            debug_assert!(sum.config == more.config);
            let both = sum.residual.iter_mut().zip(&more.residual);
            both.for_each(|(s, m)| *s += m);
            sum.readouts.extend(more.readouts);
        }
    }

    /// Mean R² of every configuration.
    pub(crate) fn r2(&self) -> impl Iterator<Item = f64> {
        self.left.iter().map(|left| self.truth.r2(&left.residual))
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
/// As [`Family::compare`] and [`ridge_readout`].
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

/// Estimates of every step that a fold of `split` holds out, (steps, outputs), by `readouts`, one per fold; NaN elsewhere.
///
/// # Errors
/// The errors of [`FoldFeatures::pass`] and [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
pub(crate) fn estimates_of(
    split: &Split<'_>,
    readouts: &[FoldReadout],
    progress: &dyn Progress,
) -> Result<Vec<f32>> {
    let data = split.data;
    let mut estimates = vec![f32::NAN; data.steps * data.outputs.len()];
    for (done, (fold, fitted)) in split.folds().zip(readouts).enumerate() {
        progress.update("decode folds", done as u64, split.stages.len() as u64);
        let Some(readout) = &fitted.readout else {
            continue;
        };
        let pass = fitted.features.pass(fold)?;
        let readout = (&readout.weights[..], &readout.intercept[..]);
        pass.estimate(readout, &fold.holds(), &mut estimates, progress)?;
    }
    Ok(estimates)
}

/// Estimates of every step that a fold of `split` holds out, (steps, outputs), by `family` in `config` fitted
/// to the fold's training set; NaN elsewhere.
///
/// # Errors
/// The same as for [`Family::compare`].
pub(crate) fn held_out<F: Family>(
    family: &F,
    split: &Split<'_>,
    config: &F::Config,
    progress: &dyn Progress,
) -> Result<Vec<f32>> {
    let mut readouts = Vec::new();
    for fold in split.folds() {
        let fitted = fit(family, fold, config, progress)?;
        let features = FoldFeatures {
            latents: fitted.plan.latents,
            basis: Box::new(fitted.basis),
            mean: fitted.mean,
            filters: fitted.plan.tau_seconds.into_iter().collect(),
        };
        readouts.push(FoldReadout {
            features: Rc::new(features),
            readout: Some(fitted.readout),
        });
    }
    estimates_of(split, &readouts, progress)
}
