//! Ridges compared without data held out, by generalised cross-validation.

use super::{CentredEquations, PIVOT_TOLERANCE};
use betz_linear::Cholesky;

impl CentredEquations {
    /// Generalised cross-validation (Golub, Heath & Wahba 1979): the mean over outputs of the share of variance that
    /// the ridge decoder is expected to explain of data it has not seen. `total_squares` are those of each output about
    /// its mean, over steps that are worth `steps` independent ones. `None` for a ridge that rounding makes meaningless,
    /// for as many degrees of freedom as steps, or if no output changes.
    ///
    /// The ridge decoder is W = (Γ_c + λ)⁻¹Υ_c. It explains Υ_cᵀW + λWᵀW of each output's squares with
    /// n − λ tr (Γ_c + λ)⁻¹ degrees of freedom. Takes about features³ multiply-adds and allocates two more Γ.
    pub fn expected_r2(&self, ridge: f64, total_squares: &[f64], steps: f64) -> Option<f64> {
        let features = self.gram.nrows();
        let trace: f64 = (0..features).map(|i| self.gram[(i, i)]).sum();
        if ridge < PIVOT_TOLERANCE * trace {
            return None;
        }
        let mut regular = self.gram.clone();
        for i in 0..features {
            regular[(i, i)] += ridge;
        }
        let factor = Cholesky::new(regular.as_ref()).ok()?;
        drop(regular);
        let weights = factor.solve(self.upsilon.as_ref());
        let inverse = factor.inverse();
        let unused: f64 = (0..features).map(|i| inverse[(i, i)]).sum();
        let degrees = 1.0 + features as f64 - ridge * unused;
        let free = 1.0 - degrees / steps;
        let left = total_squares.iter().enumerate().map(|(o, total)| {
            let explained = (0..features).map(|i| {
                let weight = weights[(i, o)];
                weight * (self.upsilon[(i, o)] + ridge * weight)
            });
            total - explained.sum::<f64>()
        });
        let shares: Vec<f64> = (left.zip(total_squares))
            .filter(|(_, total)| **total > 0.0)
            .map(|(left, total)| 1.0 - left.max(0.0) / total / free.powi(2))
            .collect();
        (free > 0.0 && !shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use crate::cases;
    use crate::gram::oracle;
    use crate::solve::{CentredEquations, FeatureNames, MaskPolicy, Solver};

    #[test]
    fn the_expected_r2_is_that_of_residuals_and_the_trace_of_the_hat_matrix() {
        let data = cases::dataset(
            4,
            &[(0, 700), (710, 1500)],
            cases::random_spikes(11, 4, 1500, 4000),
            2,
        );
        let bank = cases::bank(&[(20.0, 1), (60.0, 0)]);
        let sums = oracle::normal_equations(&data, &bank, None, 0).unwrap();
        let centred = CentredEquations::new(&sums).unwrap();
        let total = sums.output_total_squares();
        let names = FeatureNames {
            channels: &data.channel_names,
            bank: &bank,
        };
        let (n, steps) = (sums.features, sums.steps as f64);
        for relative in [1e-3, 0.1, 3.0] {
            let ridge = relative * sums.mean_variance_sum();
            let solve = |centred: &CentredEquations| {
                centred
                    .solve(ridge, Solver::Cholesky, MaskPolicy::Refuse, names)
                    .unwrap()
            };
            let solution = solve(&centred);
            let left = sums.residual_squares(&solution.weights, &solution.intercept);
            // Column by column, (Γ_c + λ)⁻¹Γ_c, whose trace are the degrees of freedom.
            let mut degrees = 1.0;
            let mean = sums.feature_mean();
            for (column, &mean) in mean.iter().enumerate() {
                let mut of = sums.clone();
                of.outputs = 1;
                of.upsilon = (0..n).map(|i| sums.gram[i * n + column]).collect();
                of.output_sum = vec![sums.feature_sum[column]];
                of.output_sq_sum = vec![sums.gram[column * n + column]];
                assert_eq!(of.output_mean(), [mean]);
                degrees += solve(&CentredEquations::new(&of).unwrap()).weights[column];
            }
            let free = (1.0 - degrees / steps).powi(2);
            let shares = left
                .iter()
                .zip(&total)
                .map(|(left, total)| 1.0 - left / total / free);
            let expected = shares.sum::<f64>() / total.len() as f64;
            let got = centred.expected_r2(ridge, &total, steps).unwrap();
            assert!(
                (got - expected).abs() < 1e-9,
                "{relative}: {got}, expected {expected}"
            );
            assert_eq!(centred.expected_r2(ridge, &total, 1.0), None);
        }
        assert_eq!(centred.expected_r2(0.0, &total, steps), None);
    }
}
