//! Least squares for decoders.

use betz_base::{Error, ErrorKind, Result};
use betz_linear::{Cholesky, Mat};

/// Least squares: for rows x of `xs` and y of `ys`, the W (columns of x, columns of y) that minimises
/// Σ |y − xᵀ W|² + Σ ridge_i |W_i|².
pub(crate) fn regress<'a>(
    rows: impl Iterator<Item = (&'a [f64], &'a [f64])>,
    n: usize,
    m: usize,
    ridge: &[f64],
) -> Result<Mat<f64>> {
    let (mut gram, mut cross) = (Mat::zeros(n, n), Mat::zeros(n, m));
    for (x, y) in rows {
        for i in (0..n).filter(|i| x[*i] != 0.0) {
            for j in 0..n {
                gram[(i, j)] += x[i] * x[j];
            }
            for j in 0..m {
                cross[(i, j)] += x[i] * y[j];
            }
        }
    }
    for (i, ridge) in ridge.iter().enumerate() {
        gram[(i, i)] += ridge;
    }
    let factor = Cholesky::new(gram.as_ref()).map_err(|e| {
        Error::new(
            ErrorKind::NotPositiveDefinite,
            format!("a decoder's system: {e}: a silent or doubled unit without a ridge?"),
        )
    })?;
    Ok(factor.solve(cross.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_system_and_a_singular_one() {
        // y = 2 + 3 x, without noise.
        let rows = [[1.0, 0.0], [1.0, 1.0], [1.0, 4.0]];
        let values = [[2.0], [5.0], [14.0]];
        let pairs = || rows.iter().zip(&values).map(|(x, y)| (&x[..], &y[..]));
        let fit = regress(pairs(), 2, 1, &[0.0; 2]).unwrap();
        assert!((fit[(0, 0)] - 2.0).abs() < 1e-12 && (fit[(1, 0)] - 3.0).abs() < 1e-12);
        let error = regress(pairs().take(1), 2, 1, &[0.0; 2]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotPositiveDefinite);
    }
}
