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

mod plain;

use std::sync::atomic::{AtomicBool, Ordering};

use faer::Side;
use faer::linalg::cholesky::llt::factor::LltError;
use faer::linalg::matmul::matmul;
use faer::linalg::solvers::{DenseSolveCore, Llt, PartialPivLu, Solve};
use faer::linalg::triangular_solve::solve_upper_triangular_in_place;
use faer::{Accum, MatMut, get_global_parallelism};

pub use faer::{Mat, MatRef};

/// True if [`use_one_order`] was called.
static ONE_ORDER: AtomicBool = AtomicBool::new(false);

/// From now on, every factor, solution, product and eigenvector of this process comes from plain loops in one order, whose
/// bits are the same on every processor and system. They use one core, and take several times as long as faer's for
/// hundreds of unknowns. The sums of [`add_product`] and [`add_product_f32`] stay faer's.
pub fn use_one_order() {
    ONE_ORDER.store(true, Ordering::Relaxed);
}

/// True if [`use_one_order`] was called.
pub fn has_one_order() -> bool {
    ONE_ORDER.load(Ordering::Relaxed)
}

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
pub struct Cholesky(Factor);

#[derive(Debug, Clone)]
enum Factor {
    Blocked(Llt<f64>),
    Plain(plain::Factor),
}

impl Cholesky {
    /// Factors a symmetric matrix of which the lower triangle is read: n³/3 multiply-adds, spread over rayon's pool.
    /// Allocates as much as the matrix takes.
    ///
    /// # Errors
    /// [`NotPositive`] when the matrix is not positive definite.
    pub fn new(matrix: MatRef<'_, f64>) -> Result<Self, NotPositive> {
        if has_one_order() {
            return plain::Factor::new(matrix).map(|factor| Self(Factor::Plain(factor)));
        }
        match Llt::new(matrix, Side::Lower) {
            Ok(factor) => Ok(Self(Factor::Blocked(factor))),
            Err(LltError::NonPositivePivot { index }) => Err(NotPositive { index }),
        }
    }

    /// A⁻¹ B.
    ///
    /// # Panics
    /// When B has not as many rows as A.
    pub fn solve(&self, right: MatRef<'_, f64>) -> Mat<f64> {
        match &self.0 {
            Factor::Blocked(factor) => factor.solve(right),
            Factor::Plain(factor) => factor.solve(right),
        }
    }

    /// A⁻¹, explicitly.
    pub fn inverse(&self) -> Mat<f64> {
        match &self.0 {
            Factor::Blocked(factor) => factor.inverse(),
            Factor::Plain(factor) => factor.inverse(),
        }
    }

    /// L.
    pub fn lower(&self) -> Mat<f64> {
        match &self.0 {
            Factor::Blocked(factor) => {
                let lower = factor.L();
                let n = lower.nrows();
                Mat::from_fn(n, n, |i, j| if i < j { 0.0 } else { lower[(i, j)] })
            }
            Factor::Plain(factor) => factor.lower(),
        }
    }

    /// L⁻ᵀ B.
    ///
    /// # Panics
    /// When B has not as many rows as A.
    pub fn solve_transposed(&self, mut right: Mat<f64>) -> Mat<f64> {
        match &self.0 {
            Factor::Blocked(factor) => {
                let upper = factor.L().transpose();
                solve_upper_triangular_in_place(upper, right.as_mut(), get_global_parallelism());
                right
            }
            Factor::Plain(factor) => factor.solve_transposed(right.as_ref()),
        }
    }

    /// The pivots L_ii², in the order of the rows.
    pub fn pivots(&self) -> impl Iterator<Item = f64> + '_ {
        let diagonal: Vec<f64> = match &self.0 {
            Factor::Blocked(factor) => {
                let lower = factor.L();
                (0..lower.nrows()).map(|i| lower[(i, i)]).collect()
            }
            Factor::Plain(factor) => factor.diagonal().collect(),
        };
        diagonal.into_iter().map(|value| value * value)
    }
}

/// A⁻¹ B of a matrix without symmetry, by LU with partial pivoting; not finite where A is singular.
///
/// # Panics
/// When A is not square or B has not as many rows.
pub fn solve_general(matrix: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Mat<f64> {
    if has_one_order() {
        return plain::solve_general(matrix, right);
    }
    PartialPivLu::new(matrix).solve(right)
}

/// A B.
///
/// # Panics
/// When A has not as many columns as B has rows.
pub fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    if has_one_order() {
        return plain::product(a, b);
    }
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
    if has_one_order() {
        return plain::eigen(matrix);
    }
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

    fn symmetric(n: usize) -> Mat<f64> {
        let value = |i: usize, j: usize| ((7 * i * j + 3 * (i + j)) % 23) as f64 / 23.0 - 0.5;
        let part = Mat::from_fn(n, n + 3, |i, j| value(i, j) + f64::from(u8::from(i == j)));
        part.as_ref() * part.transpose()
    }

    #[test]
    fn plain_loops_find_what_blocks_find() {
        for n in [1, 2, 7, 33, 60] {
            let a = symmetric(n);
            let right = Mat::from_fn(n, 3, |i, j| ((5 * i + j) % 7) as f64 - 3.0);
            let blocked = Cholesky::new(a.as_ref()).unwrap();
            let plain = plain::Factor::new(a.as_ref()).unwrap();
            assert!(close(&plain.lower(), &blocked.lower()));
            let scale = 1.0 + blocked.inverse().norm_max();
            let near = |x: &Mat<f64>, y: &Mat<f64>| (x - y).norm_max() < 1e-11 * scale * scale;
            let solved = blocked.solve(right.as_ref());
            assert!(near(&plain.solve(right.as_ref()), &solved));
            assert!(near(&plain.inverse(), &blocked.inverse()));
            let turned = blocked.solve_transposed(right.clone());
            assert!(near(&plain.solve_transposed(right.as_ref()), &turned));
            // Rows in reverse, so that pivots are looked for.
            let general = Mat::from_fn(n, n, |i, j| a[(n - 1 - i, j)]);
            let right = Mat::from_fn(n, 3, |i, j| right[(n - 1 - i, j)]);
            assert!(near(
                &plain::solve_general(general.as_ref(), right.as_ref()),
                &solved
            ));
            let rectangle = Mat::from_fn(n, 4, |i, j| (i + 2 * j) as f64);
            let c = plain::product(general.as_ref(), rectangle.as_ref());
            assert!(close(&c, &(general.as_ref() * rectangle.as_ref())));

            let (few, many) = (
                plain::eigen(a.as_ref()).unwrap(),
                eigen(a.as_ref()).unwrap(),
            );
            let scaled = Mat::from_fn(n, n, |i, j| few.vectors[(i, j)] * few.values[j]);
            assert!(close(&(scaled.as_ref() * few.vectors.transpose()), &a));
            let identity = Mat::<f64>::identity(n, n);
            assert!(close(
                &(few.vectors.transpose() * few.vectors.as_ref()),
                &identity
            ));
            let most = many.values.last().copied().unwrap_or(0.0);
            for (one, other) in few.values.iter().zip(&many.values) {
                assert!((one - other).abs() < 1e-12 * (1.0 + most), "{one} {other}");
            }
        }
    }

    #[test]
    fn plain_loops_name_the_first_pivot_that_is_not_positive() {
        let twice = Mat::from_fn(3, 3, |i, j| f64::from(u8::from(i == j && i < 2)));
        let error = plain::Factor::new(twice.as_ref()).unwrap_err();
        assert_eq!(error, NotPositive { index: 2 });
        let unknown = Mat::from_fn(2, 2, |_, _| f64::NAN);
        assert!(plain::Factor::new(unknown.as_ref()).is_err());
        assert!(plain::eigen(unknown.as_ref()).is_none());
        // Zero, and one of rank 1: eigenvalues that are zero.
        let zero = Mat::<f64>::zeros(3, 3);
        assert_eq!(plain::eigen(zero.as_ref()).unwrap().values, [0.0; 3]);
        let ones = Mat::from_fn(3, 3, |_, _| 1.0);
        let values = plain::eigen(ones.as_ref()).unwrap().values;
        assert!((values[2] - 3.0).abs() < 1e-12 && values[0].abs() < 1e-12);
    }
}
