//! The same operations by loops of one order: the bits of a result do not depend on the processor's vectors, its caches
//! or its number of cores. No operation is fused, and every sum goes upwards by one index.
//!
//! Matrices are column by column, so that the inner loops run over a column: of that, compilers make vectors without
//! changing an order.

use faer::{Mat, MatRef};

use crate::{Eigen, NotPositive};

/// Sweeps over all pairs after which [`eigen`] gives up; matrices that are finite take about ten.
const SWEEPS: usize = 60;

/// A matrix, column by column.
#[derive(Debug, Clone)]
struct Columns {
    rows: usize,
    values: Vec<f64>,
}

impl Columns {
    fn from(matrix: MatRef<'_, f64>) -> Self {
        let (rows, columns) = (matrix.nrows(), matrix.ncols());
        let values = (0..columns).flat_map(|j| (0..rows).map(move |i| matrix[(i, j)]));
        Self {
            rows,
            values: values.collect(),
        }
    }

    fn identity(rows: usize) -> Self {
        let mut values = vec![0.0; rows * rows];
        values.iter_mut().step_by(rows + 1).for_each(|v| *v = 1.0);
        Self { rows, values }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.values[j * self.rows + i]
    }

    fn column(&self, j: usize) -> &[f64] {
        &self.values[j * self.rows..][..self.rows]
    }

    fn column_mut(&mut self, j: usize) -> &mut [f64] {
        &mut self.values[j * self.rows..][..self.rows]
    }

    /// Two columns, the first one of them to be changed.
    fn pair_mut(&mut self, changed: usize, read: usize) -> (&mut [f64], &[f64]) {
        let rows = self.rows;
        let (low, high) = (changed.min(read), changed.max(read));
        let (before, behind) = self.values.split_at_mut(high * rows);
        let (low, high) = (&mut before[low * rows..][..rows], &mut behind[..rows]);
        if changed < read {
            (low, high)
        } else {
            (high, low)
        }
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        let rows = self.rows.max(1);
        for column in self.values.chunks_exact_mut(rows) {
            column.swap(a, b);
        }
    }

    fn to_mat(&self) -> Mat<f64> {
        let columns = self.values.len() / self.rows.max(1);
        Mat::from_fn(self.rows, columns, |i, j| self.at(i, j))
    }
}

/// to −= factor · from.
fn subtract(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to -= factor * from;
    }
}

/// L of A = L Lᵀ.
#[derive(Debug, Clone)]
pub(crate) struct Factor(Columns);

impl Factor {
    /// Reads the lower triangle.
    pub(crate) fn new(matrix: MatRef<'_, f64>) -> Result<Self, NotPositive> {
        let mut lower = Columns::from(matrix);
        let n = lower.rows;
        for j in 0..n {
            for k in 0..j {
                let factor = lower.at(j, k);
                let (to, from) = lower.pair_mut(j, k);
                subtract(&mut to[j..], factor, &from[j..]);
            }
            let column = lower.column_mut(j);
            let pivot = column[j];
            // NaN is no positive pivot, either.
            if pivot.is_nan() || pivot <= 0.0 || pivot == f64::INFINITY {
                return Err(NotPositive { index: j });
            }
            let root = pivot.sqrt();
            column[..j].fill(0.0);
            column[j] = root;
            column[j + 1..].iter_mut().for_each(|value| *value /= root);
        }
        Ok(Self(lower))
    }

    pub(crate) fn lower(&self) -> Mat<f64> {
        self.0.to_mat()
    }

    /// L_ii.
    pub(crate) fn diagonal(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.0.rows).map(|i| self.0.at(i, i))
    }

    /// x becomes L⁻¹ x.
    fn forward(&self, x: &mut [f64]) {
        for k in 0..self.0.rows {
            let column = self.0.column(k);
            x[k] /= column[k];
            let value = x[k];
            subtract(&mut x[k + 1..], value, &column[k + 1..]);
        }
    }

    /// x becomes L⁻ᵀ x.
    fn back(&self, x: &mut [f64]) {
        for k in (0..self.0.rows).rev() {
            let column = self.0.column(k);
            let terms = column[k + 1..].iter().zip(&x[k + 1..]);
            let known = terms.fold(0.0, |sum, (l, x)| sum + l * x);
            x[k] = (x[k] - known) / column[k];
        }
    }

    fn solved(&self, mut right: Columns) -> Mat<f64> {
        for x in right.values.chunks_exact_mut(self.0.rows.max(1)) {
            self.forward(x);
            self.back(x);
        }
        right.to_mat()
    }

    pub(crate) fn solve(&self, right: MatRef<'_, f64>) -> Mat<f64> {
        assert_eq!(right.nrows(), self.0.rows, "rows of the right side");
        self.solved(Columns::from(right))
    }

    pub(crate) fn inverse(&self) -> Mat<f64> {
        self.solved(Columns::identity(self.0.rows))
    }

    pub(crate) fn solve_transposed(&self, right: MatRef<'_, f64>) -> Mat<f64> {
        assert_eq!(right.nrows(), self.0.rows, "rows of the right side");
        let mut right = Columns::from(right);
        for x in right.values.chunks_exact_mut(self.0.rows.max(1)) {
            self.back(x);
        }
        right.to_mat()
    }
}

/// A⁻¹ B by Gauss' elimination with partial pivoting.
pub(crate) fn solve_general(matrix: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Mat<f64> {
    assert_eq!(matrix.nrows(), matrix.ncols(), "a square matrix");
    assert_eq!(right.nrows(), matrix.nrows(), "rows of the right side");
    let (mut a, mut b) = (Columns::from(matrix), Columns::from(right));
    let n = a.rows;
    for k in 0..n {
        let largest = |best: usize, i: usize| {
            if a.at(i, k).abs() > a.at(best, k).abs() {
                i
            } else {
                best
            }
        };
        let pivot = (k + 1..n).fold(k, largest);
        a.swap_rows(k, pivot);
        b.swap_rows(k, pivot);
        let root = a.at(k, k);
        a.column_mut(k)[k + 1..]
            .iter_mut()
            .for_each(|value| *value /= root);
        for j in k + 1..n {
            let factor = a.at(k, j);
            let (to, from) = a.pair_mut(j, k);
            subtract(&mut to[k + 1..], factor, &from[k + 1..]);
        }
        for x in b.values.chunks_exact_mut(n) {
            let factor = x[k];
            subtract(&mut x[k + 1..], factor, &a.column(k)[k + 1..]);
        }
    }
    for x in b.values.chunks_exact_mut(n.max(1)) {
        for k in (0..n).rev() {
            x[k] /= a.at(k, k);
            let value = x[k];
            subtract(&mut x[..k], value, &a.column(k)[..k]);
        }
    }
    b.to_mat()
}

/// A B.
pub(crate) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    assert_eq!(a.ncols(), b.nrows(), "columns and rows of a product");
    let a = Columns::from(a);
    let mut c = Columns {
        rows: a.rows,
        values: vec![0.0; a.rows * b.ncols()],
    };
    for j in 0..b.ncols() {
        let to = c.column_mut(j);
        for k in 0..b.nrows() {
            let factor = b[(k, j)];
            for (to, from) in to.iter_mut().zip(a.column(k)) {
                *to += factor * from;
            }
        }
    }
    if a.rows == 0 {
        return Mat::zeros(0, b.ncols());
    }
    c.to_mat()
}

/// Eigenvectors and eigenvalues of a symmetric matrix by Jacobi's rotations, pair after pair; each vector's largest
/// entry is positive.
pub(crate) fn eigen(matrix: MatRef<'_, f64>) -> Option<Eigen> {
    let n = matrix.nrows();
    let mut a = Columns::from(matrix);
    for j in 0..n {
        for i in 0..j {
            a.values[j * n + i] = a.at(j, i);
        }
    }
    if a.values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let largest = (a.values.iter()).fold(0.0, |most: f64, value| most.max(value.abs()));
    let silence = largest * f64::EPSILON / 64.0;
    let mut vectors = Columns::identity(n);
    let mut done = false;
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                rotated |= rotate(&mut a, &mut vectors, (p, q), silence);
            }
        }
        if !rotated {
            done = true;
            break;
        }
    }
    if !done {
        return None;
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a.at(i, i).total_cmp(&a.at(j, j)));
    let sign = |column: &[f64]| {
        let largest = column.iter().fold(0.0, |best: f64, &value| {
            if value.abs() > best.abs() {
                value
            } else {
                best
            }
        });
        if largest < 0.0 { -1.0 } else { 1.0 }
    };
    Some(Eigen {
        vectors: Mat::from_fn(n, n, |i, j| {
            let column = vectors.column(order[j]);
            sign(column) * column[i]
        }),
        values: order.iter().map(|&i| a.at(i, i)).collect(),
    })
}

/// Turns rows and columns p and q until a_pq is zero; `false` if it is not above `silence`: a turn would change nothing.
fn rotate(a: &mut Columns, vectors: &mut Columns, (p, q): (usize, usize), silence: f64) -> bool {
    let n = a.rows;
    let (of_p, of_q, both) = (a.at(p, p), a.at(q, q), a.at(q, p));
    if both.abs() <= silence {
        return false;
    }
    let ratio = (of_q - of_p) / (2.0 * both);
    let tangent = 1.0 / (ratio.abs() + (ratio * ratio + 1.0).sqrt());
    let tangent = if ratio < 0.0 { -tangent } else { tangent };
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    let turn = |columns: &mut Columns| {
        let (before, behind) = columns.values.split_at_mut(q * n);
        let pairs = before[p * n..][..n].iter_mut().zip(&mut behind[..n]);
        for (x, y) in pairs {
            (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
        }
    };
    turn(a);
    turn(vectors);
    // The rows are the columns again: the matrix stays symmetric.
    for i in 0..n {
        if i != p && i != q {
            a.values[i * n + p] = a.values[p * n + i];
            a.values[i * n + q] = a.values[q * n + i];
        }
    }
    a.values[p * n + p] = of_p - tangent * both;
    a.values[q * n + q] = of_q + tangent * both;
    a.values[p * n + q] = 0.0;
    a.values[q * n + p] = 0.0;
    true
}
