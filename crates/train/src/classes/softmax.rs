//! Multinomial logistic regression with a ridge: deterministic, from 0, without a random choice.
//!
//! Few unknowns: Newton's method with step halving. Many: the Hessian is bounded by that of the worst case (Böhning
//! 1992), H ⪯ ½UᵀU ⊗ I, whose one Cholesky factor preconditions accelerated gradient steps (Nesterov 1983, restarted
//! when the loss grows).

use super::features::{Block, Samples};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress};
use betz_gram::gram::product::LowerProduct;
use betz_linear::{Cholesky, Mat};

/// Ridge per step on every weight but the constants.
const RIDGE: f64 = 1e-4;
/// Ridge per step on the constants.
const CONSTANT_RIDGE: f64 = 1e-9;
/// Most unknowns for Newton's method.
const MOST_UNKNOWNS: usize = 300;
const NEWTON_STEPS: usize = 30;
const NESTEROV_STEPS: usize = 150;
/// A step that lowers the loss by less than this part ends the search.
const TOLERANCE: f64 = 1e-9;
const NESTEROV_TOLERANCE: f64 = 1e-6;

/// Weights of the features and constants, (feature, class); the last feature is 1.
pub(super) struct Softmax {
    pub(super) weights: Vec<f64>,
    pub(super) classes: usize,
}

impl Softmax {
    /// Fits `samples` of `classes` classes.
    ///
    /// # Errors
    /// [`ErrorKind::NonFinite`] for features that are not finite; [`ErrorKind::Interrupted`].
    pub(super) fn fit(samples: &Samples, classes: usize, progress: &dyn Progress) -> Result<Self> {
        let problem = Problem {
            samples,
            classes,
            columns: if classes == 2 { 1 } else { classes },
        };
        let weights = if problem.columns * samples.width <= MOST_UNKNOWNS {
            problem.newton(progress)?
        } else {
            problem.bounded(progress)?
        };
        if !weights.iter().all(|w| w.is_finite()) {
            return Err(Error::new(
                ErrorKind::NonFinite,
                "classes: expected finite weights, got NaN or infinity; check the recording for extreme values",
            ));
        }
        let weights = match classes {
            // One difference of scores, shared evenly.
            2 => weights.iter().flat_map(|w| [-w / 2.0, w / 2.0]).collect(),
            _ => weights,
        };
        Ok(Self { weights, classes })
    }

    /// Scores of a block, (class, step).
    pub(super) fn scores(&self, block: &Block) -> Vec<f64> {
        block.scores(&self.weights, self.classes)
    }
}

/// The loss: Σ −ln p(label) + ½Σ ridge·w². Two classes have one column, the difference of their scores.
struct Problem<'a> {
    samples: &'a Samples,
    classes: usize,
    columns: usize,
}

impl Problem<'_> {
    fn ridge(&self, feature: usize) -> f64 {
        let is_constant = feature + 1 == self.samples.width;
        let ridge = if is_constant { CONSTANT_RIDGE } else { RIDGE };
        // A ridge on two opposite weights of w/2 each is half of one on w.
        let share = if self.columns == 1 { 0.5 } else { 1.0 };
        ridge * share * self.samples.steps as f64
    }

    fn penalty(&self, weights: &[f64]) -> f64 {
        let rows = weights.chunks_exact(self.columns).enumerate();
        rows.map(|(f, row)| 0.5 * self.ridge(f) * row.iter().map(|w| w * w).sum::<f64>())
            .sum()
    }

    /// Turns a block's scores, (column, step), into probabilities, and returns its loss.
    fn probabilities(&self, block: &Block, scores: &mut [f64]) -> f64 {
        let n = block.steps.len();
        let mut loss = 0.0;
        if self.columns == 1 {
            for (score, &label) in scores.iter_mut().zip(&block.labels) {
                let towards = if label == 1 { *score } else { -*score };
                loss += (-towards.abs()).exp().ln_1p() + (-towards).max(0.0);
                *score = 1.0 / (1.0 + (-*score).exp());
            }
            return loss;
        }
        let mut row = vec![0.0; self.classes];
        for (step, &label) in block.labels.iter().enumerate() {
            for (k, value) in row.iter_mut().enumerate() {
                *value = scores[k * n + step];
            }
            let of_label = row[label as usize];
            loss += super::softmax_in_place(&mut row) - of_label;
            for (k, value) in row.iter().enumerate() {
                scores[k * n + step] = *value;
            }
        }
        loss
    }

    /// Loss at `weights`; with `gradient`, also its gradient, and for each block its probabilities.
    fn loss(
        &self,
        weights: &[f64],
        mut gradient: Option<&mut [f64]>,
        mut each: impl FnMut(&Block, &[f64]),
    ) -> f64 {
        let mut loss = self.penalty(weights);
        if let Some(gradient) = &mut gradient {
            for (f, (g, w)) in (gradient.chunks_exact_mut(self.columns))
                .zip(weights.chunks_exact(self.columns))
                .enumerate()
            {
                (g.iter_mut().zip(w)).for_each(|(g, w)| *g = self.ridge(f) * w);
            }
        }
        for block in &self.samples.blocks {
            let mut scores = block.scores(weights, self.columns);
            loss += self.probabilities(block, &mut scores);
            let Some(gradient) = &mut gradient else {
                continue;
            };
            each(block, &scores);
            let n = block.steps.len();
            for (step, &label) in block.labels.iter().enumerate() {
                match self.columns {
                    1 => scores[step] -= f64::from(label),
                    _ => scores[label as usize * n + step] -= 1.0,
                }
            }
            block.add_products(&scores, self.columns, gradient);
        }
        loss
    }

    fn newton(&self, progress: &dyn Progress) -> Result<Vec<f64>> {
        let (d, m) = (self.samples.width, self.columns);
        let unknowns = d * m;
        let mut weights = vec![0.0; unknowns];
        let mut gradient = vec![0.0; unknowns];
        let mut product = LowerProduct::new(d);
        let mut loss = f64::INFINITY;
        for _ in 0..NEWTON_STEPS {
            progress::check(progress, "classes")?;
            let mut hessian = Mat::<f64>::zeros(unknowns, unknowns);
            let now = self.loss(&weights, Some(&mut gradient), |block, p| {
                self.add_hessian((block, p), &mut product, &mut hessian);
            });
            for f in 0..d {
                for c in 0..m {
                    // The classes share one degree of freedom per feature: a little more than the ridge.
                    hessian[(c * d + f, c * d + f)] +=
                        self.ridge(f) + 1e-6 * self.samples.steps as f64 * f64::from(m > 1);
                }
            }
            loss = loss.min(now);
            let right = Mat::from_fn(unknowns, 1, |i, _| gradient[(i % d) * m + i / d]);
            let factor = Cholesky::new(hessian.as_ref()).map_err(|_| lacking())?;
            let step = factor.solve(right.as_ref());
            let moved = |length: f64| -> Vec<f64> {
                let each = (0..unknowns).map(|i| (i / m, i % m));
                each.map(|(f, c)| weights[f * m + c] - length * step[(c * d + f, 0)])
                    .collect()
            };
            // NaN is not lower.
            let is_lower = |reached: f64| reached <= loss;
            let mut length = 1.0;
            let mut next = moved(length);
            let mut reached = self.loss(&next, None, |_, _| {});
            while !is_lower(reached) && length > 1e-4 {
                length /= 2.0;
                next = moved(length);
                reached = self.loss(&next, None, |_, _| {});
            }
            if !is_lower(reached) {
                break;
            }
            weights = next;
            if loss - reached <= TOLERANCE * loss {
                break;
            }
            loss = reached;
        }
        Ok(weights)
    }

    /// Adds the second derivatives of one block, (column, feature) by (column, feature), the lower half.
    fn add_hessian(
        &self,
        (block, p): (&Block, &[f64]),
        product: &mut LowerProduct,
        hessian: &mut Mat<f64>,
    ) {
        let (n, d, m) = (block.steps.len(), self.samples.width, self.columns);
        let mut scaled = vec![0.0; block.values.len()];
        let mut gram = vec![0.0; d * d];
        for a in 0..m {
            for b in 0..=a {
                let (pa, pb) = (&p[a * n..][..n], &p[b * n..][..n]);
                let (sign, roots): (f64, Vec<f32>) = if a == b {
                    (
                        1.0,
                        pa.iter()
                            .map(|p| (p * (1.0 - p)).max(0.0).sqrt() as f32)
                            .collect(),
                    )
                } else {
                    (
                        -1.0,
                        pa.iter()
                            .zip(pb)
                            .map(|(a, b)| (a * b).sqrt() as f32)
                            .collect(),
                    )
                };
                for (to, row) in scaled.chunks_exact_mut(n).zip(block.values.chunks_exact(n)) {
                    for ((to, value), root) in to.iter_mut().zip(row).zip(&roots) {
                        *to = value * root;
                    }
                }
                gram.fill(0.0);
                product.multiply(&scaled);
                product.add_to(&mut gram);
                for i in 0..d {
                    for j in 0..=i {
                        let value = sign * gram[i * d + j];
                        hessian[(a * d + i, b * d + j)] += value;
                        if a != b && i != j {
                            hessian[(a * d + j, b * d + i)] += value;
                        }
                    }
                }
            }
        }
    }

    fn bounded(&self, progress: &dyn Progress) -> Result<Vec<f64>> {
        let (d, m) = (self.samples.width, self.columns);
        let mut product = LowerProduct::new(d);
        let mut gram = vec![0.0; d * d];
        for block in &self.samples.blocks {
            product.multiply(&block.values);
            product.add_to(&mut gram);
        }
        // Two classes as one column: p(1 − p) ≤ ¼.
        let most = if m == 1 { 0.25 } else { 0.5 };
        let bound = Mat::from_fn(d, d, |i, j| {
            let value = gram[i.max(j) * d + i.min(j)] * most;
            if i == j { value + self.ridge(i) } else { value }
        });
        let factor = Cholesky::new(bound.as_ref()).map_err(|_| lacking())?;
        let mut weights = vec![0.0; d * m];
        let mut ahead = weights.clone();
        let mut gradient = vec![0.0; d * m];
        let (mut momentum, mut last) = (1.0_f64, f64::INFINITY);
        let mut still = 0;
        for _ in 0..NESTEROV_STEPS {
            progress::check(progress, "classes")?;
            let loss = self.loss(&ahead, Some(&mut gradient), |_, _| {});
            if loss > last {
                // Overshot: forget the momentum, go on from the last weights.
                momentum = 1.0;
                ahead.copy_from_slice(&weights);
                last = f64::INFINITY;
                continue;
            }
            still = if last - loss <= NESTEROV_TOLERANCE * loss {
                still + 1
            } else {
                0
            };
            if still >= 3 {
                break;
            }
            last = loss;
            let right = Mat::from_fn(d, m, |f, c| gradient[f * m + c]);
            let step = factor.solve(right.as_ref());
            let next: Vec<f64> = (ahead.iter().enumerate())
                .map(|(i, w)| w - step[(i / m, i % m)])
                .collect();
            let grown = (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt()) / 2.0;
            let share = (momentum - 1.0) / grown;
            for ((ahead, next), weight) in ahead.iter_mut().zip(&next).zip(&weights) {
                *ahead = next + share * (next - weight);
            }
            (momentum, weights) = (grown, next);
        }
        Ok(weights)
    }
}

fn lacking() -> Error {
    Error::new(
        ErrorKind::InsufficientData,
        "classes: expected finite features that differ over the labelled steps, got others",
    )
}

/// The same by the bound, however few unknowns there are.
#[cfg(test)]
pub(super) fn fit_bounded(samples: &Samples, classes: usize) -> Result<Softmax> {
    let problem = Problem {
        samples,
        classes,
        columns: classes,
    };
    Ok(Softmax {
        weights: problem.bounded(&())?,
        classes,
    })
}
