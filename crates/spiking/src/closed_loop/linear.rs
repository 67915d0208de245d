//! Small dense systems: Cholesky's factorisation, plainly.

use betz_base::{Error, ErrorKind, Result};

/// Solves A X = B for a symmetric positive definite A (n, n) and B (n, m), both row-major.
///
/// # Errors
/// `NotPositiveDefinite` with the row where it shows.
pub(super) fn solve(a: &[f64], b: &[f64], n: usize) -> Result<Vec<f64>> {
    let m = b.len() / n.max(1);
    let mut l = a.to_vec();
    for j in 0..n {
        for i in j..n {
            let dot: f64 = (0..j).map(|k| l[i * n + k] * l[j * n + k]).sum();
            let rest = a[i * n + j] - dot;
            if i == j {
                if !(rest > 0.0 && rest.is_finite()) {
                    return Err(Error::new(
                        ErrorKind::NotPositiveDefinite,
                        format!(
                            "a decoder's system: expected a positive pivot in row {j}, got {rest}: a silent or doubled unit without a ridge?"
                        ),
                    ));
                }
                l[j * n + j] = rest.sqrt();
            } else {
                l[i * n + j] = rest / l[j * n + j];
            }
        }
    }
    let mut x = b.to_vec();
    for c in 0..m {
        for i in 0..n {
            let dot: f64 = (0..i).map(|k| l[i * n + k] * x[k * m + c]).sum();
            x[i * m + c] = (x[i * m + c] - dot) / l[i * n + i];
        }
        for i in (0..n).rev() {
            let dot: f64 = (i + 1..n).map(|k| l[k * n + i] * x[k * m + c]).sum();
            x[i * m + c] = (x[i * m + c] - dot) / l[i * n + i];
        }
    }
    Ok(x)
}

/// Least squares: for rows x of `xs` and y of `ys`, the W (columns of x, columns of y) that minimises
/// Σ |y − xᵀ W|² + Σ ridge_i |W_i|².
pub(super) fn regress<'a>(
    rows: impl Iterator<Item = (&'a [f64], &'a [f64])>,
    n: usize,
    m: usize,
    ridge: &[f64],
) -> Result<Vec<f64>> {
    let mut gram = vec![0.0; n * n];
    let mut cross = vec![0.0; n * m];
    for (x, y) in rows {
        for i in 0..n {
            if x[i] == 0.0 {
                continue;
            }
            for j in 0..n {
                gram[i * n + j] += x[i] * x[j];
            }
            for j in 0..m {
                cross[i * m + j] += x[i] * y[j];
            }
        }
    }
    for (i, ridge) in ridge.iter().enumerate() {
        gram[i * n + i] += ridge;
    }
    solve(&gram, &cross, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_system_and_a_singular_one() {
        let x = solve(&[4.0, 2.0, 2.0, 3.0], &[10.0, 8.0], 2).unwrap();
        assert!((x[0] - 1.75).abs() < 1e-12 && (x[1] - 1.5).abs() < 1e-12);
        let error = solve(&[1.0, 1.0, 1.0, 1.0], &[1.0, 1.0], 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotPositiveDefinite);
    }
}
