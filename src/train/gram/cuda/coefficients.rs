//! What the event kernel multiplies states with, computed here in f64.
//!
//! For filters h_a of a later spike and h_b of an earlier one, l steps before,
//! Σ_{m<w} h_a[m]·h_b[m+l] = Σ_i K_abi(w) · x^i e^(−x) with x = l/τ_b, where w counts the steps that
//! are left of the segment and K_abi(w) = s_a s_b C(n_b, i) Σ_{m<w} (m/τ_a)^n_a (m/τ_b)^(n_b−i)
//! e^(−m/τ_a − m/τ_b) (MATHS of the event-driven Γ: the binomial of (m + l)^n_b). K grows with w to
//! a limit, so a table up to where it stops changing serves every step of every segment.

use rayon::prelude::*;

pub(super) use crate::psc::cuda::{Shape, shapes};

/// What may be missing from K's limit, relative to it.
const TAIL: f64 = 1e-10;

/// K for every pair of filters of a bank.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Coefficients {
    /// K_abi(w) at `[a][w][b][i]`, w in `0..=reach`, i in `0..=order`.
    pub(super) table: Vec<f64>,
    /// Steps after which K no longer changes, or the longest that is asked for.
    pub(super) reach: usize,
    /// Largest order in the bank.
    pub(super) order: usize,
}

impl Coefficients {
    /// The table for segments of at most `longest` steps.
    pub(super) fn new(shapes: &[Shape], longest: usize) -> Self {
        let order = shapes.iter().map(|s| s.order).max().unwrap_or(0) as usize;
        let reach = shapes
            .iter()
            .flat_map(|a| shapes.iter().map(move |b| saturation(a, b)))
            .max()
            .unwrap_or(0)
            .min(longest);
        let columns = shapes.len() * (order + 1);
        let mut table = vec![0.0; shapes.len() * (reach + 1) * columns];
        table
            .par_chunks_exact_mut((reach + 1) * columns)
            .zip(shapes)
            .for_each(|(part, a)| {
                for (b, shape) in shapes.iter().enumerate() {
                    for i in 0..=shape.order as usize {
                        let mut sum = 0.0;
                        for (w, row) in part.chunks_exact_mut(columns).enumerate() {
                            row[b * (order + 1) + i] = sum;
                            sum += term(a, shape, i as u32, w);
                        }
                    }
                }
            });
        Self {
            table,
            reach,
            order,
        }
    }
}

/// The m-th term of K_abi.
fn term(a: &Shape, b: &Shape, i: u32, m: usize) -> f64 {
    let m = m as f64;
    a.scale
        * b.scale
        * binomial(b.order, i)
        * (m * a.rate).powi(a.order as i32)
        * (m * b.rate).powi((b.order - i) as i32)
        * (-m * (a.rate + b.rate)).exp()
}

/// Steps after which less than [`TAIL`] of every K_abi is missing.
fn saturation(a: &Shape, b: &Shape) -> usize {
    let rate = a.rate + b.rate;
    // The slowest to settle has the highest power, n_a + n_b: an Erlang tail.
    let power = f64::from(a.order + b.order);
    let mut x = 1.0 + power;
    // e^(−x) Σ_{k<=p} x^k/k! bounds what is left; with x steps of 1/rate.
    let left = |x: f64| {
        let (mut term, mut sum) = (1.0, 1.0);
        for k in 1..=(power as u32) {
            term *= x / f64::from(k);
            sum += term;
        }
        sum * (-x).exp()
    };
    while left(x) > TAIL {
        x += 0.5;
    }
    (x / rate).ceil() as usize + 2
}

fn binomial(n: u32, k: u32) -> f64 {
    (0..k).fold(1.0, |c, i| c * f64::from(n - i) / f64::from(i + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::cases;

    /// Σ_i K_abi(w) x^i e^(−x) is the sum it stands for, for every pair, distance and rest.
    #[test]
    fn the_table_gives_the_product_sums() {
        let banks = [
            cases::bank(&[(3.0, 0), (5.0, 1), (20.0, 2), (8.0, 3), (15.0, 4)]),
            cases::bank(&[(0.2, 0), (0.3, 2), (0.01, 1), (40.0, 1)]),
        ];
        for bank in banks {
            let shapes = shapes(&bank, 1e-3);
            let coefficients = Coefficients::new(&shapes, 3000);
            let columns = shapes.len() * (coefficients.order + 1);
            for (a, &fa) in bank.filters().iter().enumerate() {
                for (b, &fb) in bank.filters().iter().enumerate() {
                    let (ha, hb) = (fa.impulse(1e-3, 4000), fb.impulse(1e-3, 4000));
                    let scale: f64 = (ha.iter().map(|h| h * h).sum::<f64>()
                        * hb.iter().map(|h| h * h).sum::<f64>())
                    .sqrt();
                    for l in [0usize, 1, 2, 7, 40] {
                        for w in [0usize, 1, 2, 5, 30, 300, 3000] {
                            let expected: f64 = (0..w).map(|m| ha[m] * hb[m + l]).sum();
                            let at = w.min(coefficients.reach);
                            let row = (a * (coefficients.reach + 1) + at) * columns
                                + b * (coefficients.order + 1);
                            let x = l as f64 * shapes[b].rate;
                            let got: f64 = (0..=fb.order as usize)
                                .map(|i| {
                                    coefficients.table[row + i] * x.powi(i as i32) * (-x).exp()
                                })
                                .sum();
                            assert!(
                                (got - expected).abs() <= 1e-8 * scale,
                                "filters {a}, {b}, l {l}, w {w}: {got:e}, expected {expected:e}"
                            );
                        }
                    }
                }
            }
        }
    }
}
