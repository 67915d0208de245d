//! Weights of a blend: a convex combination of estimates, by least squares on data that no member was trained on.
//!
//! ```text
//! minimise  wᵀCw + ρ·|w − p|²   over w ≥ 0, Σw = 1        C_ij = mean of e_i·e_j/σ²
//! ```
//!
//! e_i are the errors of member i and σ the standard deviation of an output. p is the prior that weights are drawn
//! towards: few held-out data say little about them.

use crate::kinds::Kind;
use betz_linear::{Mat, solve_general};

/// ρ.
const SHRINKAGE: f64 = 0.1;

/// A weight below this is left out.
const LEAST: f64 = 0.02;

/// The prior weight of a kind, before those of the members at hand are scaled to a sum of 1.
fn prior(kind: Kind) -> f64 {
    kind.traits().blend_prior.unwrap_or(0.0)
}

/// The prior weights of `kinds`: 0 for the linear one, unless it is alone.
pub(super) fn priors(kinds: &[Kind]) -> Vec<f64> {
    let sum: f64 = kinds.iter().copied().map(prior).sum();
    let each = 1.0 / kinds.len() as f64;
    let scaled = |&kind: &Kind| if sum > 0.0 { prior(kind) / sum } else { each };
    kinds.iter().map(scaled).collect()
}

/// C, row-major (member, member), of estimates, one list per member, of `truth`; all are (row, output). `None` if no output
/// changes.
pub(super) fn error_products(
    estimates: &[Vec<f64>],
    truth: &[f64],
    outputs: usize,
) -> Option<Vec<f64>> {
    let (members, rows) = (estimates.len(), truth.len() / outputs.max(1));
    let mut products = vec![0.0; members * members];
    let mut changing = 0;
    for o in 0..outputs {
        let column = |list: &'_ [f64]| -> Vec<f64> {
            list.iter().skip(o).step_by(outputs).copied().collect()
        };
        let truth = column(truth);
        let mean = truth.iter().sum::<f64>() / rows as f64;
        let variance = truth.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / rows as f64;
        let square = truth.iter().map(|x| x * x).sum::<f64>() / rows as f64;
        if rows == 0 || variance <= 1e-12 * square {
            continue;
        }
        changing += 1;
        let errors: Vec<Vec<f64>> = (estimates.iter())
            .map(|list| {
                column(list)
                    .iter()
                    .zip(&truth)
                    .map(|(y, x)| y - x)
                    .collect()
            })
            .collect();
        for i in 0..members {
            for j in 0..members {
                let both = errors[i].iter().zip(&errors[j]).map(|(a, b)| a * b);
                products[i * members + j] += both.sum::<f64>() / rows as f64 / variance;
            }
        }
    }
    products.iter_mut().for_each(|p| *p /= f64::from(changing));
    (changing > 0 && products.iter().all(|p| p.is_finite())).then_some(products)
}

/// All weight for the member whose own errors are smallest.
pub(super) fn best(products: &[f64], members: usize) -> Vec<f64> {
    let own = |i: usize| products[i * members + i];
    let best = (0..members).reduce(|a, b| if own(b) < own(a) { b } else { a });
    (0..members)
        .map(|i| f64::from(u8::from(Some(i) == best)))
        .collect()
}

/// The weights that minimise the criterion, exactly: the best of the solutions of all sets of members that have no
/// negative weight. Those below 0.02 are then left out.
pub(super) fn weights(products: &[f64], prior: &[f64]) -> Vec<f64> {
    let members = prior.len();
    let cost = |w: &[f64]| -> f64 {
        let mut cost = 0.0;
        for i in 0..members {
            cost += SHRINKAGE * (w[i] - prior[i]).powi(2);
            for j in 0..members {
                cost += w[i] * w[j] * products[i * members + j];
            }
        }
        cost
    };
    let mut best = (cost(prior), prior.to_vec());
    for set in 1_u32..1 << members {
        let chosen: Vec<usize> = (0..members).filter(|i| set & (1 << i) != 0).collect();
        let Some(found) = on_plane(products, prior, &chosen) else {
            continue;
        };
        let found_cost = cost(&found);
        if found.iter().all(|w| *w >= 0.0) && found_cost < best.0 {
            best = (found_cost, found);
        }
    }
    without_least(best.1)
}

/// The minimum where only `chosen` members have weights, of any sign, whose sum is 1.
fn on_plane(products: &[f64], prior: &[f64], chosen: &[usize]) -> Option<Vec<f64>> {
    let (members, n) = (prior.len(), chosen.len());
    let system = Mat::from_fn(n + 1, n + 1, |i, j| match (i < n, j < n) {
        (true, true) => {
            products[chosen[i] * members + chosen[j]] + if i == j { SHRINKAGE } else { 0.0 }
        }
        (false, false) => 0.0,
        _ => 1.0,
    });
    let right = Mat::from_fn(n + 1, 1, |i, _| {
        if i < n {
            SHRINKAGE * prior[chosen[i]]
        } else {
            1.0
        }
    });
    let solved = solve_general(system.as_ref(), right.as_ref());
    let mut found = vec![0.0; members];
    for (i, &member) in chosen.iter().enumerate() {
        found[member] = solved[(i, 0)];
    }
    found.iter().all(|w| w.is_finite()).then_some(found)
}

/// Leaves out weights below the least, and scales the others to a sum of 1.
fn without_least(mut weights: Vec<f64>) -> Vec<f64> {
    weights
        .iter_mut()
        .filter(|w| **w < LEAST)
        .for_each(|w| *w = 0.0);
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w /= sum);
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// The best of a fine grid of the simplex of three weights.
    fn grid(products: &[f64], prior: &[f64]) -> Vec<f64> {
        let mut best = (f64::INFINITY, vec![]);
        for a in 0..=200 {
            for b in 0..=200 - a {
                let w = [f64::from(a), f64::from(b), f64::from(200 - a - b)].map(|w| w / 200.0);
                let mut cost = 0.0;
                for i in 0..3 {
                    cost += 0.1 * (w[i] - prior[i]).powi(2);
                    for j in 0..3 {
                        cost += w[i] * w[j] * products[i * 3 + j];
                    }
                }
                if cost < best.0 {
                    best = (cost, w.to_vec());
                }
            }
        }
        best.1
    }

    #[test]
    fn weights_are_those_of_an_exhaustive_search() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..40 {
            let (rows, outputs) = (60, 2);
            let truth: Vec<f64> = (0..rows * outputs)
                .map(|_| random.random::<f64>())
                .collect();
            let estimates: Vec<Vec<f64>> = (0..3)
                .map(|_| {
                    let size = 0.1 + random.random::<f64>();
                    let off = |x: &f64| x + size * (random.random::<f64>() - 0.4);
                    truth.iter().map(off).collect()
                })
                .collect();
            let products = error_products(&estimates, &truth, outputs).unwrap();
            let prior = priors(&[Kind::Linear, Kind::Lift, Kind::Recurrent]);
            let (found, expected) = (weights(&products, &prior), grid(&products, &prior));
            assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 0.03, "{found} {expected}");
            }
        }
    }

    #[test]
    fn a_member_that_is_far_better_takes_all_and_equal_ones_the_prior() {
        let kinds = [Kind::Linear, Kind::Lift, Kind::Experts, Kind::Recurrent];
        let prior = priors(&kinds);
        assert_eq!(prior, [0.0, 0.25, 0.25, 0.5]);
        assert_eq!(priors(&kinds[..1]), [1.0]);
        assert_eq!(priors(&kinds[..3]), [0.0, 0.5, 0.5]);
        // Errors of the first are small, of the others large and the same.
        let size = [0.01, 30.0, 30.0, 30.0];
        let products: Vec<f64> = (0..16)
            .map(|k| f64::sqrt(size[k / 4] * size[k % 4]))
            .collect();
        let found = weights(&products, &prior);
        assert!(found[0] > 0.9, "{found:?}");
        let same = vec![0.3; 16];
        for (found, prior) in weights(&same, &prior).iter().zip(&prior) {
            assert!((found - prior).abs() < 1e-9);
        }
    }

    #[test]
    fn outputs_that_never_change_say_nothing() {
        let truth = vec![3.0; 20];
        assert_eq!(
            error_products(std::slice::from_ref(&truth), &truth, 2),
            None
        );
        let truth: Vec<f64> = (0..20)
            .map(|i| if i % 2 == 0 { 3.0 } else { i.into() })
            .collect();
        let found = error_products(&[vec![0.0; 20]], &truth, 2).unwrap();
        assert!(found[0] > 0.5 && found[0].is_finite(), "{found:?}");
    }
}
