//! Multinomial logistic regression with a ridge: deterministic, from 0, without a random choice.
//!
//! Few unknowns: Newton's method with step halving. Many: the Hessian is bounded by that of the worst case (Böhning
//! 1992), H ⪯ ½UᵀU ⊗ I, whose one Cholesky factor preconditions L-BFGS (Nocedal and Wright 2006, algorithm 7.4).

use std::collections::VecDeque;

use super::features::{Block, Samples};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_base::progress::{self, Progress};
use betz_gram::gram::product::LowerProduct;
use betz_linear::{Cholesky, Mat, MatRef};

/// Ridge per step on every weight but the constants.
const RIDGE: f64 = 1e-4;
/// Ridge per step on the constants.
const CONSTANT_RIDGE: f64 = 1e-9;
/// Most unknowns for Newton's method.
const MOST_UNKNOWNS: usize = 300;
const NEWTON_STEPS: usize = 30;
/// Most steps of L-BFGS, and changes that it remembers.
const LBFGS_STEPS: usize = 150;
const CHANGES: usize = 10;
/// Part of the decrease that the slope promises which a step must reach (Armijo), and the shortest step.
const DECREASE: f64 = 1e-4;
const SHORTEST: f64 = 1e-4;
/// A step that lowers the loss by less than this part ends the search.
const TOLERANCE: f64 = 1e-9;
const LBFGS_TOLERANCE: f64 = 1e-4;

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
                loss += float::ln_1p(float::exp(-towards.abs())) + (-towards).max(0.0);
                *score = 1.0 / (1.0 + float::exp(-*score));
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
        let precondition = |gradient: &[f64]| -> Vec<f64> {
            let step = factor.solve(
                MatRef::from_row_major_slice(gradient, d, m)
                    .to_owned()
                    .as_ref(),
            );
            (0..d * m).map(|i| step[(i / m, i % m)]).collect()
        };
        let mut weights = vec![0.0; d * m];
        let mut gradient = weights.clone();
        let mut after = weights.clone();
        let mut loss = self.loss(&weights, Some(&mut gradient), |_, _| {});
        let mut changes = VecDeque::new();
        for _ in 0..LBFGS_STEPS {
            progress::check(progress, "classes")?;
            let step = step_of(&changes, &gradient, precondition);
            let slope = dot(&step, &gradient);
            let mut length = 1.0;
            let (next, reached) = loop {
                let next: Vec<f64> = (weights.iter().zip(&step))
                    .map(|(w, step)| w - length * step)
                    .collect();
                let reached = self.loss(&next, Some(&mut after), |_, _| {});
                if reached <= loss - DECREASE * length * slope || length <= SHORTEST {
                    break (next, reached);
                }
                length /= 2.0;
            };
            // NaN is not lower.
            if reached.is_nan() || reached > loss {
                break;
            }
            changes.push_back(Change::new(
                &step,
                length,
                (&gradient, &after),
                precondition,
            ));
            if changes.len() > CHANGES {
                changes.pop_front();
            }
            std::mem::swap(&mut gradient, &mut after);
            let gained = loss - reached;
            (weights, loss) = (next, reached);
            if gained <= LBFGS_TOLERANCE * loss {
                break;
            }
        }
        Ok(weights)
    }
}

/// A step of L-BFGS and what it did to the gradient.
struct Change {
    weights: Vec<f64>,
    gradient: Vec<f64>,
    /// Product of the two; above 0, since the loss is convex.
    product: f64,
    /// Product of the change of the gradient with itself, preconditioned.
    square: f64,
}

impl Change {
    fn new(
        step: &[f64],
        length: f64,
        (before, after): (&[f64], &[f64]),
        precondition: impl Fn(&[f64]) -> Vec<f64>,
    ) -> Self {
        let weights: Vec<f64> = step.iter().map(|s| -length * s).collect();
        let gradient: Vec<f64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
        Self {
            product: dot(&weights, &gradient),
            square: dot(&gradient, &precondition(&gradient)),
            weights,
            gradient,
        }
    }
}

/// The step against `gradient` that `changes`, the newest one last, suggest.
fn step_of(
    changes: &VecDeque<Change>,
    gradient: &[f64],
    precondition: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let add = |to: &mut [f64], factor: f64, of: &[f64]| {
        to.iter_mut()
            .zip(of)
            .for_each(|(to, of)| *to += factor * of);
    };
    let mut left = gradient.to_vec();
    let mut shares = Vec::with_capacity(changes.len());
    for change in changes.iter().rev() {
        let share = dot(&change.weights, &left) / change.product;
        add(&mut left, -share, &change.gradient);
        shares.push(share);
    }
    let mut step = precondition(&left);
    if let Some(newest) = changes.back() {
        let scale = newest.product / newest.square;
        step.iter_mut().for_each(|s| *s *= scale);
    }
    for (change, share) in changes.iter().zip(shares.iter().rev()) {
        let other = dot(&change.gradient, &step) / change.product;
        add(&mut step, share - other, &change.weights);
    }
    step
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
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
