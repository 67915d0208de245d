//! False discovery rate.

/// Benjamini and Hochberg's adjusted p-values ("q-values"), in the order given: for q_i ≤ α, the
/// list of all such i has an expected share of false discoveries of at most α, if the tests are
/// independent or positively dependent (Benjamini & Hochberg 1995; Benjamini & Yekutieli 2001).
///
/// q_(k) = min over j ≥ k of min(1, m·p_(j)/j), for the m values in ascending order.
///
/// ```
/// let q = betz_episode::significance::benjamini_hochberg(&[0.01, 0.04, 0.03]);
/// for (q, expected) in q.iter().zip([0.03, 0.04, 0.04]) {
///     assert!((q - expected).abs() < 1e-12);
/// }
/// ```
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut q = vec![1.0; p.len()];
    let mut least = 1.0_f64;
    for (rank, &i) in order.iter().enumerate().rev() {
        least = least.min(p[i] * p.len() as f64 / (rank + 1) as f64);
        q[i] = least;
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_values_by_hand() {
        // m·p/rank: 0.05, 0.05, 0.0667, 0.05, 0.9 in rank order; minima from the right.
        let p = [0.9, 0.01, 0.04, 0.02, 0.04];
        let q = benjamini_hochberg(&p);
        for (got, want) in q.iter().zip([0.9, 0.05, 0.05, 0.05, 0.05]) {
            assert!((got - want).abs() < 1e-12, "{q:?}");
        }
        assert!(benjamini_hochberg(&[]).is_empty());
        assert_eq!(benjamini_hochberg(&[1.0, 1.0]), [1.0, 1.0]);
    }

    #[test]
    fn the_list_at_a_level_is_the_step_up_procedures() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(8);
        for m in 1..60_usize {
            let p: Vec<f64> = (0..m).map(|_| rng.random::<f64>().powi(3)).collect();
            let q = benjamini_hochberg(&p);
            for alpha in [0.01, 0.05, 0.2] {
                let mut sorted = p.clone();
                sorted.sort_by(f64::total_cmp);
                let accepted = (1..=m)
                    .rev()
                    .find(|&k| sorted[k - 1] * m as f64 / k as f64 <= alpha)
                    .unwrap_or(0);
                assert_eq!(q.iter().filter(|&&x| x <= alpha).count(), accepted);
            }
        }
    }
}
