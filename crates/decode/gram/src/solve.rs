//! From the sums to weights and intercept: (Γ_c + λI) φ = Υ_c.
//!
//! Γ_c and Υ_c are taken about the means, so the intercept c = x̄ − φᵀμ is not itself shrunk.
//! With neural noise of standard deviation σ on each feature, λ = σ²T (Eliasmith & Anderson 2003).
//! Everything here is f64.

pub mod cuda;
mod generalised;

use betz_linear::{Cholesky, Mat, MatRef, product};

use crate::gram::NormalEquations;
use crate::parts::{FACTOR, INVERSE, WEIGHTS};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress};
use betz_runtime::psc::FilterBank;

/// A pivot below this part of its diagonal element counts as zero: the feature is a combination of
/// earlier ones to within what f32 products can tell apart.
pub const PIVOT_TOLERANCE: f64 = 1e-9;

/// A response whose variance is below this part of its mean square never varies: what is left is rounding. f32 has no
/// finer steps.
const VARIANCE_TOLERANCE: f64 = 1e-14;

/// Solver of the linear system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Solver {
    /// Cholesky factorisation and two triangular solves.
    #[default]
    Cholesky,
    /// The explicit inverse φ = Γ⁻¹Υ (Galbraith 2010, eq. 5.3): slower and less accurate, kept for
    /// comparison.
    Inverse,
}

impl Solver {
    /// `cholesky` or `inverse`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cholesky => "cholesky",
            Self::Inverse => "inverse",
        }
    }
}

/// Treatment of a channel without information of its own (dead, or a copy of another).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaskPolicy {
    /// An error that names it. A ridge above zero leaves nothing to refuse.
    #[default]
    Refuse,
    /// It takes no part: zero weights, `false` in the decoder's channel mask. Of two copies the
    /// later one goes.
    Mask,
}

/// Weights and intercept of a linear decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// φ, features × outputs, row-major.
    pub weights: Vec<f64>,
    /// One intercept per output.
    pub intercept: Vec<f64>,
    /// False for a channel that was masked; one entry per channel.
    pub channel_mask: Vec<bool>,
}

/// Names of features in messages.
#[derive(Debug, Clone, Copy)]
pub struct FeatureNames<'a> {
    /// One name per channel.
    pub channels: &'a [String],
    /// The filters of every channel.
    pub bank: &'a FilterBank,
}

impl FeatureNames<'_> {
    fn channel_of(&self, feature: usize) -> usize {
        feature / self.bank.len()
    }

    fn describe(&self, feature: usize) -> String {
        let (channel, filter) = (self.channel_of(feature), feature % self.bank.len());
        let name = self.channels.get(channel).map_or("", String::as_str);
        let shape = self.bank.describe(filter);
        format!("channel {channel} ('{name}'), filter {filter} ({shape})")
    }
}

/// Γ_c and Υ_c, ready to be solved for any number of ridges.
#[derive(Debug, Clone)]
pub struct CentredEquations {
    gram: Mat<f64>,
    upsilon: Mat<f64>,
    feature_mean: Vec<f64>,
    output_mean: Vec<f64>,
    steps: u64,
}

impl CentredEquations {
    /// Centres `sums`. Allocates one more Γ.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] without features, outputs or steps;
    /// [`ErrorKind::NonFinite`] when a sum is not finite.
    pub fn new(sums: &NormalEquations) -> Result<Self> {
        if sums.features == 0 || sums.outputs == 0 || sums.steps == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "solve: expected at least one feature, output and paired step, got {} features, {} outputs, {} steps",
                    sums.features, sums.outputs, sums.steps
                ),
            ));
        }
        let (mean, n) = (sums.feature_mean(), sums.features);
        let varies: Vec<bool> = (0..n)
            .map(|i| {
                let square = sums.gram[i * n + i];
                square - sums.feature_sum[i] * mean[i] > VARIANCE_TOLERANCE * square
                    || !square.is_finite()
            })
            .collect();
        let gram = Mat::from_fn(n, n, |i, j| match varies[i] && varies[j] {
            // Symmetric: row j is read where column j is asked for, so that reads are contiguous.
            true => sums.gram[j * n + i] - sums.feature_sum[j] * mean[i],
            false => 0.0,
        });
        let centred = sums.centred_upsilon();
        let upsilon = Mat::from_fn(n, sums.outputs, |i, o| match varies[i] {
            true => centred[i * sums.outputs + o],
            false => 0.0,
        });
        let finite = |m: &Mat<f64>| (0..m.ncols()).all(|j| m.col(j).iter().all(|v| v.is_finite()));
        if !finite(&gram) || !finite(&upsilon) {
            return Err(Error::new(
                ErrorKind::NonFinite,
                "solve: expected finite sums over responses and behaviour, got NaN or infinity",
            ));
        }
        Ok(Self {
            gram,
            upsilon,
            feature_mean: mean,
            output_mean: sums.output_mean(),
            steps: sums.steps,
        })
    }

    /// Solves with ridge λ = `ridge`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] unless the ridge is finite and ≥ 0;
    /// [`ErrorKind::InsufficientData`] when there are not more steps than features and no ridge;
    /// [`ErrorKind::NotPositiveDefinite`], naming channel and filter, at the first pivot that is
    /// not positive ([`PIVOT_TOLERANCE`]) under [`MaskPolicy::Refuse`], or when every channel
    /// would be masked.
    pub fn solve(
        &self,
        ridge: f64,
        solver: Solver,
        mask: MaskPolicy,
        names: FeatureNames<'_>,
    ) -> Result<Solution> {
        self.solve_timed(ridge, solver, mask, names, &())
    }

    /// [`solve`](Self::solve), whose parts are told to `progress`: [`FACTOR`], [`INVERSE`] and [`WEIGHTS`].
    ///
    /// # Errors
    /// The errors of [`solve`](Self::solve).
    pub fn solve_timed(
        &self,
        ridge: f64,
        solver: Solver,
        mask: MaskPolicy,
        names: FeatureNames<'_>,
        progress: &dyn Progress,
    ) -> Result<Solution> {
        let features = self.gram.nrows();
        if !(ridge.is_finite() && ridge >= 0.0) {
            return Err(Error::argument(format!(
                "ridge: expected a finite number >= 0, got {ridge}"
            )));
        }
        if ridge == 0.0 && self.steps <= features as u64 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "solve: expected more steps than features where the ridge is 0, got {} steps for {features} features; give a ridge",
                    self.steps
                ),
            ));
        }
        let mut channel_mask = vec![true; features / names.bank.len()];
        if mask == MaskPolicy::Mask {
            // A channel that never varies is found at once, rather than pivot by pivot.
            for feature in 0..features {
                if self.gram[(feature, feature)] <= 0.0 {
                    channel_mask[names.channel_of(feature)] = false;
                }
            }
        }
        loop {
            let kept: Vec<usize> = (0..features)
                .filter(|&f| channel_mask[names.channel_of(f)])
                .collect();
            if kept.is_empty() {
                return Err(Error::new(
                    ErrorKind::NotPositiveDefinite,
                    "solve: expected a channel that is neither dead nor a copy of another, got none; use a longer part of the recording",
                ));
            }
            match progress::time(progress, FACTOR, || self.factor(&kept, ridge)) {
                Ok(factor) => {
                    let by = (&factor, solver);
                    return Ok(self.finish(by, &kept, channel_mask, progress));
                }
                Err(pivot) if mask == MaskPolicy::Mask => {
                    channel_mask[names.channel_of(kept[pivot])] = false;
                }
                Err(pivot) => return Err(self.refusal(kept[pivot], names)),
            }
        }
    }

    /// Factors Γ_c + λI of the kept features, or says which pivot is not positive.
    fn factor(&self, kept: &[usize], ridge: f64) -> std::result::Result<Cholesky, usize> {
        let n = kept.len();
        // Column by column: an unoptimised build takes ten times as long element by element.
        let mut system = Vec::with_capacity(n * n);
        for &j in kept {
            let column = self.gram.col_as_slice(j);
            system.extend(kept.iter().map(|&i| column[i]));
        }
        system.iter_mut().step_by(n + 1).for_each(|d| *d += ridge);
        let factor = Cholesky::new(MatRef::from_column_major_slice(&system, n, n));
        let factor = factor.map_err(|e| e.index)?;
        let tiny = |(pivot, d): (f64, &f64)| pivot.is_nan() || pivot <= PIVOT_TOLERANCE * d;
        let found = factor
            .pivots()
            .zip(system.iter().step_by(n + 1))
            .position(tiny);
        found.map_or(Ok(factor), Err)
    }

    fn finish(
        &self,
        (factor, solver): (&Cholesky, Solver),
        kept: &[usize],
        channel_mask: Vec<bool>,
        progress: &dyn Progress,
    ) -> Solution {
        let outputs = self.upsilon.ncols();
        let right = Mat::from_fn(kept.len(), outputs, |i, o| self.upsilon[(kept[i], o)]);
        let solved = match solver {
            Solver::Cholesky => progress::time(progress, WEIGHTS, || factor.solve(right.as_ref())),
            Solver::Inverse => {
                let inverse = progress::time(progress, INVERSE, || factor.inverse());
                progress::time(progress, WEIGHTS, || {
                    product(inverse.as_ref(), right.as_ref())
                })
            }
        };
        let mut weights = vec![0.0; self.gram.nrows() * outputs];
        let mut intercept = self.output_mean.clone();
        for (i, &feature) in kept.iter().enumerate() {
            for o in 0..outputs {
                weights[feature * outputs + o] = solved[(i, o)];
                intercept[o] -= solved[(i, o)] * self.feature_mean[feature];
            }
        }
        Solution {
            weights,
            intercept,
            channel_mask,
        }
    }

    fn refusal(&self, feature: usize, names: FeatureNames<'_>) -> Error {
        let why = if self.gram[(feature, feature)] <= 0.0 {
            "its response never varies (a dead channel?)"
        } else {
            "its response is a combination of earlier features (a duplicated channel?)"
        };
        Error::new(
            ErrorKind::NotPositiveDefinite,
            format!(
                "solve: expected a positive pivot at feature {feature}, {}, but {why}; mask such channels or give a ridge",
                names.describe(feature)
            ),
        )
        .with_position(feature)
        .with_channel(names.channel_of(feature))
        .with_filter(feature % names.bank.len())
    }
}

/// Solves `sums` with ridge λ = `ridge`: [`CentredEquations::new`], then
/// [`CentredEquations::solve`].
///
/// # Errors
/// The errors of [`CentredEquations::new`] and [`CentredEquations::solve`].
pub fn solve(
    sums: &NormalEquations,
    ridge: f64,
    solver: Solver,
    mask: MaskPolicy,
    names: FeatureNames<'_>,
) -> Result<Solution> {
    CentredEquations::new(sums)?.solve(ridge, solver, mask, names)
}
