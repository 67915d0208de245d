//! Data that maps are trained on.

use betz_base::{Error, Result};

/// Samples of equal length, borrowed: (samples, dims), row by row, finite.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    values: &'a [f32],
    dims: usize,
}

impl<'a> Samples<'a> {
    /// Samples of `dims` numbers each.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for no samples, samples of no
    /// numbers, numbers that make no whole sample, and one that is not finite, with its place.
    pub fn new(values: &'a [f32], dims: usize) -> Result<Self> {
        if dims == 0 || values.is_empty() || !values.len().is_multiple_of(dims) {
            return Err(Error::argument(format!(
                "samples: expected one or more of {dims} numbers each, got {} numbers",
                values.len()
            )));
        }
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::argument(format!(
                "sample {}, number {}: expected a finite number, got {}",
                at / dims,
                at % dims,
                values[at]
            ))
            .with_position(at));
        }
        Ok(Self { values, dims })
    }

    /// Number of samples.
    pub fn count(&self) -> usize {
        self.values.len() / self.dims
    }

    /// Numbers of each.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// All numbers, sample by sample.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// One sample.
    pub fn row(&self, sample: usize) -> &'a [f32] {
        &self.values[sample * self.dims..][..self.dims]
    }

    /// All samples.
    pub fn rows(&self) -> impl Iterator<Item = &'a [f32]> {
        self.values.chunks_exact(self.dims)
    }

    /// The mean of each number.
    pub(crate) fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.dims];
        for row in self.rows() {
            for (sum, &value) in mean.iter_mut().zip(row) {
                *sum += f64::from(value);
            }
        }
        let count = self.count() as f64;
        mean.iter_mut().for_each(|sum| *sum /= count);
        mean
    }
}

/// A shift and a scale (a power of two) that bring data near 0 and within 1: products in f32 then neither
/// overflow nor lose what a large mean would take.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Centre {
    mean: Vec<f64>,
    scale: f64,
}

impl Centre {
    pub(crate) fn of(samples: Samples<'_>) -> Self {
        let mean = samples.mean();
        let far = |row: &[f32]| {
            let apart = row
                .iter()
                .zip(&mean)
                .map(|(v, m)| (f64::from(*v) - m).abs());
            apart.fold(0.0, f64::max)
        };
        let most = samples.rows().map(far).fold(0.0, f64::max);
        let scale = if most > 0.0 {
            2_f64.powi(most.log2().ceil() as i32)
        } else {
            1.0
        };
        Self { mean, scale }
    }

    /// No shift and no scale.
    pub(crate) fn none(dims: usize) -> Self {
        Self {
            mean: vec![0.0; dims],
            scale: 1.0,
        }
    }

    pub(crate) fn scale(&self) -> f64 {
        self.scale
    }

    /// Rows as products are made of them.
    pub(crate) fn inward(&self, values: &[f32]) -> Vec<f32> {
        let mut inward = Vec::with_capacity(values.len());
        for row in values.chunks_exact(self.mean.len()) {
            let one = |(v, m): (&f32, &f64)| ((f64::from(*v) - m) / self.scale) as f32;
            inward.extend(row.iter().zip(&self.mean).map(one));
        }
        inward
    }

    /// Back again.
    pub(crate) fn outward(&self, values: &[f32], to: &mut [f32]) {
        let dims = self.mean.len();
        for (to, row) in to.chunks_exact_mut(dims).zip(values.chunks_exact(dims)) {
            for ((to, v), m) in to.iter_mut().zip(row).zip(&self.mean) {
                *to = (f64::from(*v) * self.scale + m) as f32;
            }
        }
    }
}
