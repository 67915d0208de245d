//! Dense linear algebra in f64: faer's, compiled here and nowhere else.
//!
//! faer is generic over the kind of number, so every crate that factors a matrix compiles all of it again, and its
//! tests once more: minutes of a core. What is here is not generic; other crates only call it.
//!
//! ```
//! use betz_linear::{Cholesky, Mat, product};
//!
//! let system = Mat::from_fn(2, 2, |i, j| [[4.0, 2.0], [2.0, 3.0]][i][j]);
//! let right = Mat::from_fn(2, 1, |i, _| [10.0, 8.0][i]);
//! let solved = Cholesky::new(system.as_ref())?.solve(right.as_ref());
//! let again = product(system.as_ref(), solved.as_ref());
//! assert!((again[(0, 0)] - 10.0).abs() < 1e-12 && (again[(1, 0)] - 8.0).abs() < 1e-12);
//! # Ok::<(), betz_linear::NotPositive>(())
//! ```

use faer::Side;
use faer::linalg::cholesky::llt::factor::LltError;
use faer::linalg::matmul::matmul;
use faer::linalg::solvers::{DenseSolveCore, Llt, PartialPivLu, Solve};
use faer::linalg::triangular_solve::solve_upper_triangular_in_place;
use faer::{Accum, MatMut, get_global_parallelism};

pub use faer::{Mat, MatRef};

/// A symmetric system that cannot be factored: its first pivot that is not positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotPositive {
    /// Row of the pivot.
    pub index: usize,
}

impl std::fmt::Display for NotPositive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected a positive pivot in row {}", self.index)
    }
}

impl std::error::Error for NotPositive {}

/// A = L Lᵀ, factored.
#[derive(Debug, Clone)]
pub struct Cholesky(Llt<f64>);

impl Cholesky {
    /// Factors a symmetric matrix of which the lower triangle is read: n³/3 multiply-adds, spread over rayon's pool.
    /// Allocates as much as the matrix takes.
    ///
    /// # Errors
    /// [`NotPositive`] when the matrix is not positive definite.
    pub fn new(matrix: MatRef<'_, f64>) -> Result<Self, NotPositive> {
        match Llt::new(matrix, Side::Lower) {
            Ok(factor) => Ok(Self(factor)),
            Err(LltError::NonPositivePivot { index }) => Err(NotPositive { index }),
        }
    }

    /// A⁻¹ B.
    ///
    /// # Panics
    /// When B has not as many rows as A.
    pub fn solve(&self, right: MatRef<'_, f64>) -> Mat<f64> {
        self.0.solve(right)
    }

    /// A⁻¹, explicitly.
    pub fn inverse(&self) -> Mat<f64> {
        self.0.inverse()
    }

    /// L.
    pub fn lower(&self) -> Mat<f64> {
        let lower = self.0.L();
        let n = lower.nrows();
        Mat::from_fn(n, n, |i, j| if i < j { 0.0 } else { lower[(i, j)] })
    }

    /// L⁻ᵀ B.
    ///
    /// # Panics
    /// When B has not as many rows as A.
    pub fn solve_transposed(&self, mut right: Mat<f64>) -> Mat<f64> {
        let upper = self.0.L().transpose();
        solve_upper_triangular_in_place(upper, right.as_mut(), get_global_parallelism());
        right
    }

    /// The pivots L_ii², in the order of the rows.
    pub fn pivots(&self) -> impl Iterator<Item = f64> + '_ {
        let lower = self.0.L();
        (0..lower.nrows()).map(move |i| lower[(i, i)] * lower[(i, i)])
    }
}

/// A⁻¹ B of a matrix without symmetry, by LU with partial pivoting; not finite where A is singular.
///
/// # Panics
/// When A is not square or B has not as many rows.
pub fn solve_general(matrix: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Mat<f64> {
    PartialPivLu::new(matrix).solve(right)
}

/// A B.
///
/// # Panics
/// When A has not as many columns as B has rows.
pub fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    a * b
}

/// c += A B, c row-major, by rayon's pool.
///
/// # Panics
/// Panics if the sides do not fit together.
pub fn add_product(c: &mut [f64], a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    let c = MatMut::from_row_major_slice_mut(c, a.nrows(), b.ncols());
    matmul(c, Accum::Add, a, b, 1.0, get_global_parallelism());
}

/// [`add_product`] in f32.
///
/// # Panics
/// As [`add_product`].
pub fn add_product_f32(c: &mut [f32], a: MatRef<'_, f32>, b: MatRef<'_, f32>) {
    let c = MatMut::from_row_major_slice_mut(c, a.nrows(), b.ncols());
    matmul(c, Accum::Add, a, b, 1.0, get_global_parallelism());
}

/// A = U diag(values) Uᵀ.
#[derive(Debug, Clone)]
pub struct Eigen {
    /// Eigenvectors, one per column.
    pub vectors: Mat<f64>,
    /// Eigenvalues, ascending.
    pub values: Vec<f64>,
}

/// Eigenvectors and eigenvalues of a symmetric matrix of which the lower triangle is read; `None` when the
/// iteration does not end.
pub fn eigen(matrix: MatRef<'_, f64>) -> Option<Eigen> {
    let eigen = matrix.self_adjoint_eigen(Side::Lower).ok()?;
    Some(Eigen {
        vectors: eigen.U().to_owned(),
        values: eigen.S().column_vector().iter().copied().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: &Mat<f64>, b: &Mat<f64>) -> bool {
        (a - b).norm_max() < 1e-12 * (1.0 + b.norm_max())
    }

    #[test]
    fn what_is_factored_is_put_together_again() {
        let a = Mat::from_fn(5, 3, |i, j| ((7 * i + 3 * j + i * j) % 11) as f64 - 4.0);
        let square = product(a.transpose(), a.as_ref());
        let factor = Cholesky::new(square.as_ref()).unwrap();
        let identity = Mat::<f64>::identity(3, 3);
        assert!(close(
            &product(square.as_ref(), factor.inverse().as_ref()),
            &identity
        ));
        assert_eq!(factor.pivots().count(), 3);
        assert!((factor.pivots().next().unwrap() - square[(0, 0)]).abs() < 1e-12);

        let eigen = eigen(square.as_ref()).unwrap();
        let scaled = Mat::from_fn(3, 3, |i, j| eigen.vectors[(i, j)] * eigen.values[j]);
        assert!(close(
            &product(scaled.as_ref(), eigen.vectors.transpose()),
            &square
        ));
        assert!(eigen.values.is_sorted());

        let general = Mat::from_fn(3, 3, |i, j| {
            [[0.0, 2.0, 1.0], [1.0, 0.0, 3.0], [4.0, 1.0, 0.0]][i][j]
        });
        let solved = solve_general(general.as_ref(), identity.as_ref());
        assert!(close(
            &product(general.as_ref(), solved.as_ref()),
            &identity
        ));
    }

    #[test]
    fn the_first_pivot_that_is_not_positive_is_named() {
        let twice = Mat::from_fn(3, 3, |i, j| f64::from(u8::from(i == j && i < 2)));
        assert_eq!(
            Cholesky::new(twice.as_ref()).unwrap_err(),
            NotPositive { index: 2 }
        );
    }
}
