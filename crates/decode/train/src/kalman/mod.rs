//! A Kalman filter of the outputs in its steady state, from sums.
//!
//! xₜ = A·xₜ₋₁ + w, yₜ = C·xₜ + q, all about their means, with A and C by least squares and W and Q the
//! covariances of what they leave (Wu et al. 2003). With N = Q⁻¹C and S = CᵀN the Riccati recursion
//! P⁻ = A·P·Aᵀ + W, P = P⁻(I + S·P⁻)⁻¹ runs on as many numbers as there are outputs, however many features are
//! observed; at its end K = P·Nᵀ and M = (I − P·S)·A.
//!
//! ReFIT (Gilja et al. 2012) learns C and Q from what the subject is taken to have intended, and keeps the A and W of
//! how it moved.

mod enter;
mod intent;
mod repeated;

use betz_linear::{Cholesky, Mat, product, solve_general};

use crate::folds::Part;
use betz_base::error::{Error, ErrorKind, Result};
use betz_gram::NormalEquations;
use betz_gram::gram::paired_steps;
use betz_recording::DatasetView;

pub(crate) use enter::Entrant;

/// Steps of the Riccati recursion after which it must have settled.
const MOST_STEPS: usize = 100_000;

/// Change of P, relative to its largest element, at which it has.
const SETTLED: f64 = 1e-13;

/// Added to the covariance of standardised outputs, so that outputs that follow from others can be told
/// apart.
const TINY: f64 = 1e-9;

/// Sums over neighbouring steps of the outputs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dynamics {
    outputs: usize,
    steps: f64,
    pairs: f64,
    sum: Vec<f64>,
    /// Σ x xᵀ.
    squares: Vec<f64>,
    /// Of pairs: Σ xₜ₋₁, Σ xₜ, Σ xₜ₋₁xₜ₋₁ᵀ, Σ xₜxₜ₋₁ᵀ, Σ xₜxₜᵀ.
    before: Vec<f64>,
    after: Vec<f64>,
    before_before: Vec<f64>,
    after_before: Vec<f64>,
    after_after: Vec<f64>,
}

impl Dynamics {
    fn zeros(outputs: usize) -> Self {
        let (vector, matrix) = (vec![0.0; outputs], vec![0.0; outputs * outputs]);
        Self {
            outputs,
            steps: 0.0,
            pairs: 0.0,
            sum: vector.clone(),
            squares: matrix.clone(),
            before: vector.clone(),
            after: vector,
            before_before: matrix.clone(),
            after_before: matrix.clone(),
            after_after: matrix,
        }
    }

    /// The sums over the paired steps of `parts`.
    pub(crate) fn new(data: &DatasetView<'_>, parts: &[Part], delay_steps: i64) -> Self {
        let n = data.outputs.len();
        let mut sums = Self::zeros(n);
        for part in parts {
            let Some((first, stop)) = paired_steps(&part.segment, delay_steps) else {
                continue;
            };
            let row = |step: i64| {
                let at = (step - delay_steps) as usize * n;
                &data.behavior[at..at + n]
            };
            for step in first..stop {
                let x = row(step);
                sums.steps += 1.0;
                add(&mut sums.sum, x);
                add_product(&mut sums.squares, x, x);
                if step > first {
                    let before = row(step - 1);
                    sums.pairs += 1.0;
                    add(&mut sums.before, before);
                    add(&mut sums.after, x);
                    add_product(&mut sums.before_before, before, before);
                    add_product(&mut sums.after_before, x, before);
                    add_product(&mut sums.after_after, x, x);
                }
            }
        }
        sums
    }

    /// `self` and `sign` times `other`.
    pub(crate) fn plus(mut self, other: &Self, sign: f64) -> Self {
        self.steps += sign * other.steps;
        self.pairs += sign * other.pairs;
        for (mine, theirs) in [
            (&mut self.sum, &other.sum),
            (&mut self.squares, &other.squares),
            (&mut self.before, &other.before),
            (&mut self.after, &other.after),
            (&mut self.before_before, &other.before_before),
            (&mut self.after_before, &other.after_before),
            (&mut self.after_after, &other.after_after),
        ] {
            mine.iter_mut()
                .zip(theirs)
                .for_each(|(a, b)| *a += sign * b);
        }
        self
    }
}

fn add(sum: &mut [f64], x: &[f32]) {
    sum.iter_mut().zip(x).for_each(|(s, x)| *s += f64::from(*x));
}

fn add_product(sum: &mut [f64], a: &[f32], b: &[f32]) {
    for (row, a) in sum.chunks_exact_mut(b.len()).zip(a) {
        row.iter_mut()
            .zip(b)
            .for_each(|(s, b)| *s += f64::from(*a) * f64::from(*b));
    }
}

/// A filter in its steady state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SteadyKalman {
    /// Kᵀ, (feature, output) row-major.
    pub(crate) gain: Vec<f64>,
    /// −K·μ, one per output.
    pub(crate) offset: Vec<f64>,
    /// M, (output, output) row-major.
    pub(crate) transition: Vec<f64>,
    /// Mean of each output.
    pub(crate) mean: Vec<f64>,
}

impl SteadyKalman {
    /// The filter that observes the features of `sums`, which follow the outputs of `labels`, and whose outputs
    /// move as those of `movement`; `ridge` is added to the diagonal of T·Q.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] without pairs of steps or where no output changes;
    /// [`ErrorKind::NotPositiveDefinite`] when Q is singular; [`ErrorKind::NonFinite`] when the recursion
    /// does not settle.
    pub(crate) fn fit(
        sums: &NormalEquations,
        labels: &Dynamics,
        movement: &Dynamics,
        ridge: f64,
    ) -> Result<Self> {
        let (n, m) = (sums.features, labels.outputs);
        let steps = labels.steps;
        if movement.pairs < 2.0 || sums.outputs != m {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "kalman: expected neighbouring steps with behaviour, got {} pairs",
                    movement.pairs
                ),
            ));
        }
        let mean: Vec<f64> = labels.sum.iter().map(|s| s / steps).collect();
        let scale = output_scales(labels);
        if scale.iter().all(|s| *s == 0.0) {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "kalman: expected outputs that change, got none",
            ));
        }
        let state = centred(&labels.squares, (&labels.sum, &labels.sum), steps, &scale);
        let (a, w) = transition(movement, &scale)?;
        // C, and T·Q = Γ_c − Υ_c X⁻¹ Υ_cᵀ.
        let upsilon = sums.centred_upsilon();
        let upsilon = Mat::from_fn(n, m, |f, o| upsilon[f * m + o] * scale[o]);
        let c = factored(&state)?
            .solve(upsilon.transpose())
            .transpose()
            .to_owned();
        let feature_mean = sums.feature_mean();
        let explained = product(c.as_ref(), upsilon.transpose());
        let noise = Mat::from_fn(n, n, |i, j| {
            let centred = sums.gram[j * n + i] - sums.feature_sum[j] * feature_mean[i];
            let symmetric = (explained[(i, j)] + explained[(j, i)]) / 2.0;
            centred - symmetric + if i == j { ridge } else { 0.0 }
        });
        let weighted = factored(&noise)?.solve(c.as_ref());
        let weighted = Mat::from_fn(n, m, |f, o| weighted[(f, o)] * steps);
        let information = product(c.transpose(), weighted.as_ref());
        let p = settle(&a, &w, &information)?;
        let gain = product(p.as_ref(), weighted.transpose());
        let seen = product(p.as_ref(), information.as_ref());
        let kept = Mat::<f64>::identity(m, m) - seen;
        let m_matrix = product(kept.as_ref(), a.as_ref());
        let unscale = |i: usize| if scale[i] > 0.0 { 1.0 / scale[i] } else { 0.0 };
        let gain: Vec<f64> = (0..n)
            .flat_map(|f| (0..m).map(move |o| (f, o)))
            .map(|(f, o)| gain[(o, f)] * unscale(o))
            .collect();
        let mut offset = vec![0.0; m];
        for (row, mean) in gain.chunks_exact(m).zip(&feature_mean) {
            offset.iter_mut().zip(row).for_each(|(c, k)| *c -= k * mean);
        }
        let transition = (0..m)
            .flat_map(|i| (0..m).map(move |j| (i, j)))
            .map(|(i, j)| m_matrix[(i, j)] * unscale(i) * scale[j]);
        Ok(Self {
            transition: transition.collect(),
            gain,
            offset,
            mean,
        })
    }
}

/// One over the standard deviation of each output; 0 for one that does not change.
fn output_scales(labels: &Dynamics) -> Vec<f64> {
    let m = labels.outputs;
    let scale = |i: usize| {
        let mean = labels.sum[i] / labels.steps;
        let variance = labels.squares[i * m + i] / labels.steps - mean * mean;
        if variance > 1e-12 * mean * mean {
            variance.sqrt().recip()
        } else {
            0.0
        }
    };
    (0..m).map(scale).collect()
}

/// Σ(a − ā)(b − b̄)ᵀ of scaled values, with [`TINY`] of their number on the diagonal.
fn centred(product: &[f64], (a, b): (&[f64], &[f64]), count: f64, scale: &[f64]) -> Mat<f64> {
    let m = scale.len();
    Mat::from_fn(m, m, |i, j| {
        let about_mean = product[i * m + j] - a[i] * b[j] / count;
        let tiny = if i == j { TINY * count } else { 0.0 };
        about_mean * scale[i] * scale[j] + tiny
    })
}

/// A and W of scaled outputs.
fn transition(dynamics: &Dynamics, scale: &[f64]) -> Result<(Mat<f64>, Mat<f64>)> {
    let (m, pairs) = (dynamics.outputs, dynamics.pairs);
    let (before, after) = (&dynamics.before, &dynamics.after);
    let before_before = centred(&dynamics.before_before, (before, before), pairs, scale);
    let after_before = centred(&dynamics.after_before, (after, before), pairs, scale);
    let after_after = centred(&dynamics.after_after, (after, after), pairs, scale);
    let a = factored(&before_before)?
        .solve(after_before.transpose())
        .transpose()
        .to_owned();
    let explained = product(a.as_ref(), after_before.transpose());
    let w = Mat::from_fn(m, m, |i, j| {
        let symmetric = (explained[(i, j)] + explained[(j, i)]) / 2.0;
        (after_after[(i, j)] - symmetric) / pairs
    });
    Ok((a, w))
}

/// P at the end of the Riccati recursion from W.
fn settle(a: &Mat<f64>, w: &Mat<f64>, information: &Mat<f64>) -> Result<Mat<f64>> {
    let m = w.nrows();
    let identity = Mat::<f64>::identity(m, m);
    let mut p = w.clone();
    for _ in 0..MOST_STEPS {
        let moved = product(a.as_ref(), p.as_ref());
        let ahead = product(moved.as_ref(), a.transpose()) + w;
        // P = P⁻(I + S P⁻)⁻¹, as ((I + P⁻ S)⁻¹ P⁻).
        let system = &identity + product(ahead.as_ref(), information.as_ref());
        let next = solve_general(system.as_ref(), ahead.as_ref());
        let next = Mat::from_fn(m, m, |i, j| (next[(i, j)] + next[(j, i)]) / 2.0);
        let (mut change, mut size) = (0.0_f64, 0.0_f64);
        for i in 0..m {
            for j in 0..m {
                change = change.max((next[(i, j)] - p[(i, j)]).abs());
                size = size.max(next[(i, j)].abs());
            }
        }
        p = next;
        if !size.is_finite() {
            break;
        }
        if change <= SETTLED * size {
            return Ok(p);
        }
    }
    Err(Error::new(
        ErrorKind::NonFinite,
        "kalman: expected a filter that comes to a steady state, got one that does not",
    ))
}

fn factored(matrix: &Mat<f64>) -> Result<Cholesky> {
    Cholesky::new(matrix.as_ref()).map_err(|_| {
        Error::new(
            ErrorKind::NotPositiveDefinite,
            "kalman: expected a covariance that can be solved with, got one that is singular",
        )
    })
}

#[cfg(test)]
mod tests;
