//! Factors: matrices that give blocks of themselves.

use std::ops::Range;

use betz_base::error::{Error, Result};
use rayon::prelude::*;

/// A matrix that can be read block by block, from several threads.
pub trait MatrixSource<T>: Sync {
    /// Number of rows.
    fn rows(&self) -> usize;

    /// Number of columns.
    fn columns(&self) -> usize;

    /// Writes a block, row-major without gaps, to `target`, which holds as many values.
    ///
    /// # Errors
    /// The errors of the file, if the values are in one.
    fn read(&self, rows: Range<usize>, columns: Range<usize>, target: &mut [T]) -> Result<()>;
}

/// A matrix in memory with any strides: element (i, j) is value i · `row_stride` + j · `column_stride`.
#[derive(Debug, Clone, Copy)]
pub struct StridedMatrix<'a, T> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a, T> StridedMatrix<'a, T> {
    /// A matrix of `rows` × `columns` with these strides, in values.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if an element lies beyond the values.
    pub fn new(
        values: &'a [T],
        (rows, columns): (usize, usize),
        (row_stride, column_stride): (usize, usize),
    ) -> Result<Self> {
        let last = |count: usize, stride: usize| count.saturating_sub(1).checked_mul(stride);
        let end = last(rows, row_stride)
            .zip(last(columns, column_stride))
            .and_then(|(row, column)| row.checked_add(column)?.checked_add(1));
        let needed = if rows == 0 || columns == 0 {
            Some(0)
        } else {
            end
        };
        if needed.is_none_or(|needed| needed > values.len()) {
            return Err(Error::mismatch(format!(
                "matrix of {rows} × {columns}, strides {row_stride} and {column_stride}: expected its last element among {} values",
                values.len()
            )));
        }
        Ok(Self {
            values,
            rows,
            columns,
            row_stride,
            column_stride,
        })
    }

    /// A matrix row by row, without gaps.
    ///
    /// # Errors
    /// As [`StridedMatrix::new`].
    pub fn row_major(values: &'a [T], rows: usize, columns: usize) -> Result<Self> {
        Self::new(values, (rows, columns), (columns, 1))
    }
}

impl<T: Copy + Send + Sync> MatrixSource<T> for StridedMatrix<'_, T> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn read(&self, rows: Range<usize>, columns: Range<usize>, target: &mut [T]) -> Result<()> {
        let width = columns.len().max(1);
        let least = (1 << 16) / width + 1;
        let (values, step) = (self.values, self.column_stride);
        (target.par_chunks_mut(width).zip(rows).with_min_len(least)).for_each(|(target, row)| {
            let start = row * self.row_stride + columns.start * step;
            match step {
                1 => target.copy_from_slice(&values[start..start + target.len()]),
                _ => {
                    for (i, value) in target.iter_mut().enumerate() {
                        *value = values[start + i * step];
                    }
                }
            }
        });
        Ok(())
    }
}

/// The transpose of a matrix.
#[derive(Clone, Copy)]
pub struct Transpose<'a, T>(pub &'a dyn MatrixSource<T>);

impl<T> std::fmt::Debug for Transpose<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transpose({} × {})", self.rows(), self.columns())
    }
}

impl<T> Transpose<'_, T> {
    fn rows(&self) -> usize {
        self.0.columns()
    }

    fn columns(&self) -> usize {
        self.0.rows()
    }
}

impl<T: Copy + Default + Send + Sync> MatrixSource<T> for Transpose<'_, T> {
    fn rows(&self) -> usize {
        self.0.columns()
    }

    fn columns(&self) -> usize {
        self.0.rows()
    }

    fn read(&self, rows: Range<usize>, columns: Range<usize>, target: &mut [T]) -> Result<()> {
        let mut block = vec![T::default(); rows.len() * columns.len()];
        self.0.read(columns.clone(), rows.clone(), &mut block)?;
        transpose(&block, columns.len(), rows.len(), target);
        Ok(())
    }
}

/// The transpose of `rows` × `columns` values, row-major.
pub(super) fn transposed<T: Copy + Default + Send + Sync>(
    values: &[T],
    rows: usize,
    columns: usize,
) -> Vec<T> {
    let mut target = vec![T::default(); values.len()];
    transpose(values, rows, columns, &mut target);
    target
}

/// Writes the transpose of `rows` × `columns` values to `target`, in tiles that stay in the cache.
fn transpose<T: Copy + Send + Sync>(values: &[T], rows: usize, columns: usize, target: &mut [T]) {
    const TILE: usize = 32;
    if rows == 0 || columns == 0 {
        return;
    }
    (target.par_chunks_mut(TILE * rows).enumerate()).for_each(|(tile, target)| {
        let first = tile * TILE;
        for from in (0..rows).step_by(TILE) {
            for (j, line) in target.chunks_exact_mut(rows).enumerate() {
                let until = rows.min(from + TILE);
                for (i, value) in (from..until).zip(&mut line[from..until]) {
                    *value = values[i * columns + first + j];
                }
            }
        }
    });
}
