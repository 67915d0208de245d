//! Sums of filtered features among themselves, out of those of filtered with plain ones.
//!
//! With s_t = ρs_(t−1) + γg_t, γ = 1 − ρ, from rest at a segment's start, the sums over steps in a row from there on are
//!
//! Σ s s′ᵀ = (γ′ Σ s gᵀ + γ Σ g s′ᵀ − γγ′ Σ g gᵀ − ρρ′ Σ s s′ᵀ at last steps) / (1 − ρρ′),
//!
//! for any two filters: s_(t−1) is (s_t − γg_t)/ρ, and shifting the sum of s_(t−1) s′_(t−1)ᵀ by a step leaves out the last
//! one. A product of two filtered features is then a few operations in place of one per step.

use rayon::prelude::*;

use betz_gram::gram::product::LowerProduct;

pub(super) struct FilteredSums {
    /// Features before filters.
    width: usize,
    /// ρ of each filter.
    kept: Vec<f64>,
    /// True for the last step of a segment that counts.
    is_last: Vec<bool>,
    product: LowerProduct,
    values: Vec<f32>,
    /// Sums over last steps: lower triangle of (filtered feature, filtered feature).
    last: Vec<f64>,
}

impl FilteredSums {
    pub(super) fn new(width: usize, kept: Vec<f64>, is_last: Vec<bool>) -> Self {
        let rows = width * kept.len();
        Self {
            width,
            kept,
            is_last,
            product: LowerProduct::new(rows),
            values: Vec::new(),
            last: vec![0.0; rows * rows],
        }
    }

    /// Adds the last steps among `steps`, whose features are `values`, (feature, step).
    pub(super) fn add_last(&mut self, steps: &[usize], values: &[f32]) {
        let lasts = steps.iter().enumerate();
        let columns: Vec<usize> = lasts
            .filter(|(_, step)| self.is_last[**step])
            .map(|(column, _)| column)
            .collect();
        if columns.is_empty() {
            return;
        }
        self.values.clear();
        for row in values.chunks_exact(steps.len()).skip(self.width) {
            self.values
                .extend(columns.iter().map(|&column| row[column]));
        }
        self.product.multiply(&self.values);
        self.product.add_to(&mut self.last);
    }

    /// Fills in the lower triangle of `gram` from its first `width` columns.
    pub(super) fn complete(&self, gram: &mut [f64]) {
        let (width, rows) = (self.width, self.width * self.kept.len());
        let features = width + rows;
        let (plain, filtered) = gram.split_at_mut(width * features);
        // Σ s gᵀ, (filtered feature, feature), and its transpose.
        let mut mixed = vec![0.0; rows * width];
        for (to, row) in mixed
            .chunks_exact_mut(width)
            .zip(filtered.chunks_exact(features))
        {
            to.copy_from_slice(&row[..width]);
        }
        let of_plain = |i: usize, j: usize| plain[i.max(j) * features + i.min(j)];
        let lines = filtered.par_chunks_exact_mut(features).enumerate();
        lines.for_each(|(row, line)| {
            let (a, i) = (row / width, row % width);
            let kept = self.kept[a];
            for (column, to) in line[width..=width + row].iter_mut().enumerate() {
                let (b, j) = (column / width, column % width);
                let other = self.kept[b];
                let (gain, of_other) = (1.0 - kept, 1.0 - other);
                let sum = of_other * mixed[row * width + j] + gain * mixed[column * width + i]
                    - gain * of_other * of_plain(i, j)
                    - kept * other * self.last[row * rows + column];
                *to = sum / (1.0 - kept * other);
            }
        });
    }
}
