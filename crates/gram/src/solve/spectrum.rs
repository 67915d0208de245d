//! Ridges compared without data held out, from the eigenvalues of Γ_c.

use super::{CentredEquations, PIVOT_TOLERANCE};
use betz_base::error::{Error, ErrorKind, Result};
use betz_linear::{eigen, product};

/// Eigenvalues of Γ_c, and Υ_c along its eigenvectors.
#[derive(Debug, Clone)]
pub struct Spectrum {
    /// Eigenvalues above what rounding leaves, ascending.
    values: Vec<f64>,
    /// Squares of Υ_c along each eigenvector, (eigenvalue, output) row-major.
    squares: Vec<f64>,
    outputs: usize,
    /// Least ridge that the rounding of Γ_c leaves meaningful.
    least_ridge: f64,
}

impl CentredEquations {
    /// The spectrum of these equations: about 10 features³ multiply-adds. Allocates two more Γ.
    ///
    /// # Errors
    /// [`ErrorKind::NonFinite`] when the iteration does not end; [`ErrorKind::NotPositiveDefinite`] when no response
    /// varies.
    pub fn spectrum(&self) -> Result<Spectrum> {
        let found = eigen(self.gram.as_ref()).ok_or_else(|| {
            Error::new(
                ErrorKind::NonFinite,
                "solve: expected eigenvalues of Γ, got none after the most iterations; give a ridge",
            )
        })?;
        let largest = found.values.last().copied().unwrap_or(0.0);
        if largest <= 0.0 {
            return Err(Error::new(
                ErrorKind::NotPositiveDefinite,
                "solve: expected a channel whose response varies, got none",
            ));
        }
        let least_ridge = PIVOT_TOLERANCE * largest;
        let along = product(found.vectors.transpose(), self.upsilon.as_ref());
        let first = found.values.partition_point(|value| *value <= least_ridge);
        let outputs = self.upsilon.ncols();
        let kept = first..found.values.len();
        Ok(Spectrum {
            squares: kept
                .clone()
                .flat_map(|i| (0..outputs).map(move |o| (i, o)))
                .map(|at| along[at] * along[at])
                .collect(),
            values: found.values[kept].to_vec(),
            outputs,
            least_ridge,
        })
    }
}

impl Spectrum {
    /// Generalised cross-validation (Golub, Heath & Wahba 1979): the mean over outputs of the share of variance that
    /// the ridge decoder is expected to explain of data it has not seen. `total_squares` are those of each output about
    /// its mean, over steps that are worth `steps` independent ones. `None` for a ridge that rounding makes meaningless,
    /// for as many degrees of freedom as steps, or if no output changes.
    pub fn expected_r2(&self, ridge: f64, total_squares: &[f64], steps: f64) -> Option<f64> {
        if ridge < self.least_ridge {
            return None;
        }
        let mut left = total_squares.to_vec();
        let mut degrees = 1.0;
        for (&value, squares) in self
            .values
            .iter()
            .zip(self.squares.chunks_exact(self.outputs))
        {
            degrees += value / (value + ridge);
            let explained = (value + 2.0 * ridge) / (value + ridge).powi(2);
            left.iter_mut()
                .zip(squares)
                .for_each(|(left, square)| *left -= explained * square);
        }
        let free = 1.0 - degrees / steps;
        let shares: Vec<f64> = (left.iter().zip(total_squares))
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
        let spectrum = centred.spectrum().unwrap();
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
            let got = spectrum.expected_r2(ridge, &total, steps).unwrap();
            assert!(
                (got - expected).abs() < 1e-9,
                "{relative}: {got}, expected {expected}"
            );
            assert_eq!(spectrum.expected_r2(ridge, &total, 1.0), None);
        }
        assert_eq!(spectrum.expected_r2(0.0, &total, steps), None);
    }
}
