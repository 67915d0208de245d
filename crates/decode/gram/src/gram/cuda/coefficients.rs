//! Coefficients by which the event kernel multiplies states, computed in f64.
//!
//! For filters h_a of a later spike and h_b of an earlier one, l steps before,
//! Σ_{m<w} h_a[m]·h_b[m+l] = Σ_i K_abi(w) · x^i e^(−x) with x = l/τ_b, where w counts the steps that
//! are left of the segment and K_abi(w) = s_a s_b C(n_b, i) Σ_{m<w} (m/τ_a)^n_a (m/τ_b)^(n_b−i)
//! e^(−m/τ_a − m/τ_b) (MATHS of the event-driven Γ: the binomial of (m + l)^n_b). K grows with w to
//! a limit, the later the slower both filters are; every pair's table ends where it stops changing and
//! serves every step of every segment.

use betz_base::float;
use betz_kernels::Pair;
use rayon::prelude::*;

pub(super) use crate::psc::cuda::{Shape, shapes};

/// Largest part of K's limit that may be cut off.
const TAIL: f64 = 1e-10;

/// K for every pair of filters of a bank.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Coefficients {
    /// The pairs' tables one after another: K_abi(w) at `[w][i]`, w in `0..=reach`, i in `0..=order`.
    pub(super) table: Vec<f64>,
    /// Of the pair (a, b), at `a · filters + b`: where its table begins, and its reach (steps after
    /// which K no longer changes, or the longest that is asked for).
    pub(super) pairs: Vec<Pair>,
    /// Largest order in the bank.
    pub(super) order: usize,
}

impl Coefficients {
    /// The tables for segments of at most `longest` steps.
    pub(super) fn new(shapes: &[Shape], longest: usize) -> Self {
        let order = shapes.iter().map(|s| s.order).max().unwrap_or(0) as usize;
        let both = |at: usize| (&shapes[at / shapes.len()], &shapes[at % shapes.len()]);
        let mut length = 0;
        let pairs: Vec<Pair> = (0..shapes.len() * shapes.len())
            .map(|at| {
                let (a, b) = both(at);
                let reach = saturation(a, b).min(longest);
                let first = length;
                length += (reach + 1) * (order + 1);
                Pair {
                    first: first as u64,
                    reach: reach as u64,
                }
            })
            .collect();
        let mut table = vec![0.0; length];
        let mut rest = table.as_mut_slice();
        let parts: Vec<_> = (0..)
            .zip(&pairs)
            .map(|(at, pair)| {
                let (part, after) =
                    std::mem::take(&mut rest).split_at_mut((pair.reach as usize + 1) * (order + 1));
                rest = after;
                (both(at), part)
            })
            .collect();
        parts.into_par_iter().for_each(|((a, b), part)| {
            for i in 0..=b.order {
                let mut sum = 0.0;
                for (w, row) in part.chunks_exact_mut(order + 1).enumerate() {
                    row[i as usize] = sum;
                    sum += term(a, b, i, w);
                }
            }
        });
        Self {
            table,
            pairs,
            order,
        }
    }

    /// Bytes of the tables and of where they are.
    pub(super) fn bytes(&self) -> u64 {
        8 * (self.table.len() + 2 * self.pairs.len()) as u64
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
        * float::exp(-m * (a.rate + b.rate))
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
        sum * float::exp(-x)
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
    use crate::cases;

    /// Only pairs of slow filters have long tables: at 0.25 ms those of a bank with lifetimes up to 3 s
    /// take some tens of megabytes.
    #[test]
    fn pairs_are_tabled_as_far_as_they_reach() {
        let bank = cases::bank(&[
            (10.0, 0),
            (10.0, 1),
            (50.0, 1),
            (50.0, 3),
            (100.0, 0),
            (100.0, 1),
            (100.0, 2),
            (100.0, 4),
            (200.0, 2),
            (300.0, 1),
            (800.0, 0),
            (3000.0, 0),
        ]);
        let shapes = shapes(&bank, 0.25e-3);
        let coefficients = Coefficients::new(&shapes, 400_000);
        let reaches: Vec<u64> = coefficients.pairs.iter().map(|pair| pair.reach).collect();
        assert!(coefficients.bytes() < 80 << 20, "{}", coefficients.bytes());
        assert!(*reaches.iter().max().unwrap() > 100_000);
        assert!(*reaches.iter().min().unwrap() < 1_000);
        let last = coefficients.pairs.len() - 1;
        let end = coefficients.pairs[last].first + (reaches[last] + 1) * 5;
        assert_eq!(end as usize, coefficients.table.len());
        let short = Coefficients::new(&shapes, 10);
        assert!(short.pairs.iter().all(|pair| pair.reach == 10));
    }

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
            for (a, &fa) in bank.filters().iter().enumerate() {
                for (b, &fb) in bank.filters().iter().enumerate() {
                    let (ha, hb) = (fa.impulse(1e-3, 4000), fb.impulse(1e-3, 4000));
                    let scale: f64 = (ha.iter().map(|h| h * h).sum::<f64>()
                        * hb.iter().map(|h| h * h).sum::<f64>())
                    .sqrt();
                    for l in [0usize, 1, 2, 7, 40] {
                        for w in [0usize, 1, 2, 5, 30, 300, 3000] {
                            let expected: f64 = (0..w).map(|m| ha[m] * hb[m + l]).sum();
                            let Pair { first, reach } = coefficients.pairs[a * shapes.len() + b];
                            let at = w.min(reach as usize);
                            let row = first as usize + at * (coefficients.order + 1);
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
