//! Features of a recording that has fewer steps than features, in as many coordinates as steps.
//!
//! The responses A − μ (steps × features) of all steps span no more dimensions than there are steps. With the kernel
//! K = (A − μ)(A − μ)ᵀ + εI = L Lᵀ, row t of L holds the coordinates of step t in an orthonormal basis Q = (A − μ)ᵀL⁻ᵀ of that
//! space. A ridge does not care which basis features have, so sums over rows of L lead to the same decoders as sums over
//! responses: φ = Q w. Systems have as many rows as steps, not as features, which is what Woodbury's identity
//! saves. ε counts as an additional ridge, and is far below every ridge that is tried.

use std::ops::Range;

use crate::folds::Part;
use crate::options::TrainOptions;
use betz_base::error::{Error, ErrorKind, Result};
use betz_gram::NormalEquations;
use betz_gram::gram::paired_steps;
use betz_gram::psc::{Block, Responses};
use betz_gram::solve::Solution;
use betz_linear::{Cholesky, Mat, MatRef, product};
use betz_recording::DatasetView;
use betz_runtime::psc::FilterBank;

/// ε, a part of the mean variance sum of the features. The least ridge that is tried is 1e-7 of it.
const JITTER: f64 = 1e-10;

/// The coordinates of every step, and what leads back to features.
pub(crate) struct Rotation {
    /// Number of features.
    pub(crate) features: usize,
    filters: usize,
    /// The steps that have a row, ascending.
    steps: Vec<usize>,
    /// μ, over all of them.
    mean: Vec<f64>,
    /// A − μ, (step, feature).
    centred: Mat<f64>,
    factor: Cholesky,
    /// L.
    rows: Mat<f64>,
}

impl Rotation {
    /// The coordinates of `data`'s features by `bank`; `None` where that saves nothing, or no response varies.
    ///
    /// # Errors
    /// Returns the errors of the responses, and [`ErrorKind::OutOfMemory`].
    pub(crate) fn new(
        data: &DatasetView<'_>,
        bank: &FilterBank,
        options: &TrainOptions,
    ) -> Result<Option<Self>> {
        let features = data.channels() * bank.len();
        let count = super::all_steps(data, options.delay_steps) as usize;
        if count == 0 || count >= features {
            return Ok(None);
        }
        betz_base::memory::plan(
            format_args!("responses of {features} features at {count} steps"),
            (2 * features as u128 + 5 * count as u128) * count as u128 * 8,
        )?;
        let mut block = Block::<f64>::default();
        let responses = Responses::new(*data, bank, options.low_pass)?;
        responses
            .paired(options.delay_steps)
            .next_block(count, &mut block);
        let mut mean = Vec::with_capacity(features);
        for row in block.values.chunks_exact_mut(count) {
            let own = row.iter().sum::<f64>() / count as f64;
            row.iter_mut().for_each(|value| *value -= own);
            mean.push(own);
        }
        let centred = MatRef::from_column_major_slice(&block.values, count, features).to_owned();
        drop(block.values);
        let mut kernel = product(centred.as_ref(), centred.transpose());
        let all: f64 = (0..count).map(|t| kernel[(t, t)]).sum();
        if !(all.is_finite() && all > 0.0) {
            return Ok(None);
        }
        for t in 0..count {
            kernel[(t, t)] += JITTER * all / features as f64;
        }
        // Numbers so far apart that f64 does not hold their squares go the usual way.
        let Ok(factor) = Cholesky::new(kernel.as_ref()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            features,
            filters: bank.len(),
            steps: block.steps,
            mean,
            centred,
            rows: factor.lower(),
            factor,
        }))
    }

    /// Sums of the coordinates and of the outputs of `data` over `parts`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`] for parts of another recording.
    pub(crate) fn sums_of(
        &self,
        data: &DatasetView<'_>,
        delay_steps: i64,
        parts: &[Part],
    ) -> Result<NormalEquations> {
        let paired = parts
            .iter()
            .filter_map(|p| paired_steps(&p.segment, delay_steps));
        let rows: Result<Vec<Range<usize>>> = paired.map(|steps| self.rows_of(steps)).collect();
        let rows: Vec<usize> = rows?.into_iter().flatten().collect();
        let (n, m) = (self.steps.len(), data.outputs.len());
        let z = Mat::from_fn(rows.len(), n, |i, j| self.rows[(rows[i], j)]);
        let label = |row: usize, o: usize| {
            let step = (self.steps[row] as i64 - delay_steps) as usize;
            f64::from(data.behavior[step * m + o])
        };
        // A column of ones gives the sums of the coordinates.
        let x = Mat::from_fn(rows.len(), m + 1, |i, o| {
            if o < m { label(rows[i], o) } else { 1.0 }
        });
        let gram = product(z.transpose(), z.as_ref());
        let upsilon = product(z.transpose(), x.as_ref());
        let mut sums = NormalEquations::zeros(n, m);
        sums.steps = rows.len() as u64;
        for i in 0..n {
            for j in 0..n {
                sums.gram[i * n + j] = gram[(i, j)];
            }
            for o in 0..m {
                sums.upsilon[i * m + o] = upsilon[(i, o)];
            }
            sums.feature_sum[i] = upsilon[(i, m)];
        }
        for o in 0..m {
            sums.output_sum[o] = x.col(o).iter().sum();
            sums.output_sq_sum[o] = x.col(o).iter().map(|x| x * x).sum();
        }
        Ok(sums)
    }

    /// Sums over all of `data`.
    ///
    /// # Errors
    /// The same as for [`sums_of`](Self::sums_of).
    pub(crate) fn sums(&self, data: &DatasetView<'_>, delay_steps: i64) -> Result<NormalEquations> {
        let part = |segment: &betz_recording::Segment| Part {
            segment: *segment,
            from: segment.start,
        };
        let parts: Vec<Part> = data.segments.iter().map(part).collect();
        self.sums_of(data, delay_steps, &parts)
    }

    fn rows_of(&self, (first, stop): (i64, i64)) -> Result<Range<usize>> {
        let at = |step: i64| self.steps.partition_point(|&s| (s as i64) < step);
        let rows = at(first)..at(stop);
        if rows.len() as i64 == stop - first {
            return Ok(rows);
        }
        Err(Error::new(
            ErrorKind::InvalidRecording,
            format!(
                "cross-validation: expected segments that were there when it began, got steps {first} to {stop}"
            ),
        ))
    }

    /// The weights by features, (feature, column) row-major, of `weights` by coordinates; what they add to every step
    /// for the means' sake is taken off `intercept`.
    pub(crate) fn restore(&self, weights: &[f64], intercept: &mut [f64]) -> Vec<f64> {
        let (n, m) = (self.steps.len(), intercept.len());
        let by_coordinates = Mat::from_fn(n, m, |i, o| weights[i * m + o]);
        let by_steps = self.factor.solve_transposed(by_coordinates);
        let by_features = product(self.centred.transpose(), by_steps.as_ref());
        let mut restored = vec![0.0; self.features * m];
        for (f, row) in restored.chunks_exact_mut(m.max(1)).enumerate() {
            for (o, weight) in row.iter_mut().enumerate() {
                *weight = by_features[(f, o)];
                intercept[o] -= *weight * self.mean[f];
            }
        }
        restored
    }

    /// `solution` by features.
    pub(crate) fn restore_solution(&self, solution: &Solution) -> Solution {
        let mut intercept = solution.intercept.clone();
        Solution {
            weights: self.restore(&solution.weights, &mut intercept),
            intercept,
            channel_mask: self.varying_channels(),
        }
    }

    /// False for a channel without any response.
    pub(crate) fn varying_channels(&self) -> Vec<bool> {
        let responds =
            |f: usize| self.mean[f] != 0.0 || self.centred.col(f).iter().any(|value| *value != 0.0);
        (0..self.features / self.filters)
            .map(|channel| (channel * self.filters..(channel + 1) * self.filters).any(responds))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folds::folds;
    use crate::search::Search;
    use crate::validate::{cross_validate_banks, finish};
    use betz_device::Device;
    use betz_gram::cases;
    use betz_gram::solve::{FeatureNames, MaskPolicy, Solver};

    /// The data of every case that has fewer steps than features behind its bank, repeated for more filters.
    fn wide() -> Vec<(String, betz_recording::Dataset, FilterBank, i64)> {
        let bank = cases::bank(&[(0.5, 0), (1.5, 1), (4.0, 2), (9.0, 0), (20.0, 1), (40.0, 3)]);
        let mut found = Vec::new();
        for case in cases::all() {
            let (data, delay) = (case.data, case.delay_steps);
            let steps = super::super::all_steps(&data.view(), delay) as usize;
            if steps > 3 && steps < data.channels() * bank.len() {
                found.push((case.name.to_string(), data, bank.clone(), delay));
            }
        }
        found
    }

    #[test]
    fn the_solution_by_coordinates_is_that_by_features() {
        let mut compared = 0;
        for (name, data, bank, delay_steps) in wide() {
            let options = TrainOptions {
                delay_steps,
                ..TrainOptions::new(bank.clone())
            };
            let Some(rotation) = Rotation::new(&data.view(), &bank, &options).unwrap() else {
                continue;
            };
            let sums = betz_gram::gram::oracle::normal_equations(&data, &bank, None, delay_steps);
            let sums = sums.unwrap();
            let rotated = rotation.sums(&data.view(), delay_steps).unwrap();
            assert_eq!(rotated.steps, sums.steps, "{name}");
            let unit = sums.mean_variance_sum();
            let also = rotated.mean_variance_sum() * rotated.features as f64;
            assert!(
                (also / (unit * sums.features as f64) - 1.0).abs() < 1e-6,
                "{name}"
            );
            let names = FeatureNames {
                channels: &data.channel_names,
                bank: &bank,
            };
            let one = cases::bank(&[(1.0, 0)]);
            let coordinates = FeatureNames {
                channels: &[],
                bank: &one,
            };
            for rho in [1e-4, 1e-2, 1.0] {
                let (solver, mask) = (Solver::Cholesky, MaskPolicy::Mask);
                let solve = |sums, names| {
                    betz_gram::solve::solve(sums, rho * unit, solver, mask, names).unwrap()
                };
                let plain = solve(&sums, names);
                let restored = rotation.restore_solution(&solve(&rotated, coordinates));
                let size = plain.weights.iter().fold(1e-12, |s: f64, w| s.max(w.abs()));
                for (got, expected) in restored.weights.iter().zip(&plain.weights) {
                    assert!(
                        (got - expected).abs() < 1e-5 * size,
                        "{name} {rho}: {got} {expected}"
                    );
                }
                for (got, expected) in restored.intercept.iter().zip(&plain.intercept) {
                    let near = 1e-5 * (1.0 + expected.abs());
                    assert!(
                        (got - expected).abs() < near,
                        "{name} {rho}: {got} {expected}"
                    );
                }
                compared += 1;
            }
        }
        assert!(compared >= 3, "{compared}");
    }

    #[test]
    fn cross_validation_of_few_steps_finds_the_same_decoder_either_way() {
        let seconds = 12.0;
        let data = betz_simulate::poisson(40, 20.0, (seconds / 0.05) as usize, 0.05, 3).unwrap();
        let bank = cases::bank(&[
            (100.0, 0),
            (200.0, 1),
            (400.0, 2),
            (1500.0, 0),
            (150.0, 3),
            (600.0, 1),
            (60.0, 0),
        ]);
        let options = TrainOptions::new(bank);
        let retaining = TrainOptions {
            retain: Some(1 << 30),
            ..options.clone()
        };
        let by = |options: &TrainOptions| {
            let view = data.view();
            let cpu = Device::cpu();
            let found = cross_validate_banks(&cpu, &view, options, &Search::ridge(), &()).unwrap();
            let is_rotated = found.bank.rotation.is_some();
            let r2 = found.validation.bank_r2[0];
            (
                is_rotated,
                r2,
                finish(&view, options, &found, &()).unwrap().decoder,
            )
        };
        let (rotated, plain) = (by(&options), by(&retaining));
        assert!(rotated.0 && !plain.0);
        assert!(
            (rotated.1 - plain.1).abs() < 1e-3,
            "{} {}",
            rotated.1,
            plain.1
        );
        let decode = |decoder| betz_gram::decode::decode(decoder, &data).unwrap();
        let (a, b) = (decode(&rotated.2), decode(&plain.2));
        let apart: f64 = a
            .iter()
            .zip(&b)
            .map(|(a, b)| f64::from(a - b).powi(2))
            .sum();
        let all: f64 = b.iter().map(|b| f64::from(*b).powi(2)).sum();
        assert!(apart < 1e-4 * all, "{apart} {all}");
    }

    #[test]
    fn parts_that_began_later_are_refused() {
        let data = betz_simulate::poisson(40, 20.0, 100, 0.05, 3).unwrap();
        let bank = cases::bank(&[(100.0, 0), (200.0, 1), (400.0, 2)]);
        let options = TrainOptions::new(bank.clone());
        let rotation = Rotation::new(&data.view(), &bank, &options)
            .unwrap()
            .unwrap();
        let split = folds(&data.segments, 4, 0, 0).unwrap();
        assert!(rotation.sums_of(&data.view(), 0, &split.folds[0]).is_ok());
        let beyond = betz_recording::Segment {
            start: 90,
            stop: 120,
        };
        let beyond = [Part {
            segment: beyond,
            from: 90,
        }];
        let refused = rotation.sums_of(&data.view(), 0, &beyond).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidRecording);
    }
}
