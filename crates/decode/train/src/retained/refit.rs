//! The linear engine solved anew: at another ridge, or from other sums over the same features and targets.
//!
//! Latents of a lift or of experts keep their meaning. They were made of the weights W of many targets as
//! W·turn, so what training turned by is found again, a least-squares solution of W·turn = φ, and
//! whatever is solved later is turned by the same: what is behind the latents needs no data.

use betz_linear::{Mat, MatRef, product};

use super::remove::{factored, mask_blanking};
use super::{StoredStatistics, mask_without};
use betz_base::error::{Error, ErrorKind, Result};
use betz_gram::NormalEquations;
use betz_runtime::model::{Decoder, DecoderParts, Head};

/// Threshold of the remaining length of a column of W, relative to the longest: a shorter column depends on
/// the others.
const RANK: f64 = 1e-10;

/// Largest distance of W·turn from the existing weights, relative to them.
const CLOSE: f64 = 1e-5;

/// Sums whose steps may count in part.
#[derive(Clone, Copy)]
pub(crate) struct SumsView<'a> {
    pub(crate) outputs: usize,
    pub(crate) steps: f64,
    pub(crate) gram: &'a [f64],
    pub(crate) upsilon: &'a [f64],
    pub(crate) feature_sum: &'a [f64],
    pub(crate) output_sum: &'a [f64],
}

impl<'a> From<&'a NormalEquations> for SumsView<'a> {
    fn from(sums: &'a NormalEquations) -> Self {
        Self {
            outputs: sums.outputs,
            steps: sums.steps as f64,
            gram: &sums.gram,
            upsilon: &sums.upsilon,
            feature_sum: &sums.feature_sum,
            output_sum: &sums.output_sum,
        }
    }
}

/// A decoder whose linear engine can be solved from other sums.
pub struct Refit {
    parts: DecoderParts,
    /// Channels that take part in what is solved.
    mask: Vec<bool>,
    /// Their features, ascending.
    kept: Vec<usize>,
    targets: usize,
    /// (target, latent); `None` where latents are the outputs.
    turn: Option<Mat<f64>>,
    /// Mean of the head's latents in training, x̄ where latents are the outputs.
    latent_mean: Vec<f64>,
}

impl Refit {
    /// Finds what the latents of `decoder` are of the targets of `retained`, its sums. For a nonlinear
    /// decoder that takes solving them once, features³/3 multiply-adds.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for sums that the decoder was not solved from;
    /// [`ErrorKind::NotPositiveDefinite`] when they cannot be solved.
    pub fn new(decoder: &Decoder, retained: &StoredStatistics) -> Result<Self> {
        let sums = &retained.sums;
        if sums.features != decoder.features() {
            return Err(Error::mismatch(format!(
                "retained sums: expected {} features, those of the model, got {}",
                decoder.features(),
                sums.features
            )));
        }
        let (filters, mask) = (decoder.bank().len(), decoder.channel_mask());
        let latents = decoder.latents();
        let mean = sums.feature_mean();
        let mut latent_mean = decoder.intercept().to_vec();
        for (mean, row) in mean.iter().zip(decoder.weights().chunks_exact(latents)) {
            for (sum, w) in latent_mean.iter_mut().zip(row) {
                *sum += mean * w;
            }
        }
        let mut refit = Self {
            parts: decoder.clone().into_parts(),
            mask: mask.to_vec(),
            kept: (0..sums.features).filter(|f| mask[f / filters]).collect(),
            targets: sums.outputs,
            turn: None,
            latent_mean,
        };
        let linear = *decoder.head() == Head::Linear;
        if linear && sums.outputs != latents {
            return Err(Error::mismatch(format!(
                "retained sums: expected those of the model's {latents} outputs, got {}",
                sums.outputs
            )));
        }
        if !linear {
            let solved = refit.solve_targets(sums.into(), retained.ridge)?;
            refit.turn = Some(refit.turn_of(&solved)?);
        }
        Ok(refit)
    }

    /// The decoder that this is of.
    ///
    /// # Errors
    /// The same as for [`Decoder::new`].
    pub(crate) fn first(&self) -> Result<Decoder> {
        Decoder::new(self.parts.clone())
    }

    /// From now on what is solved does without `channels`, as if it had been trained without them; those left
    /// out before are back.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a channel that the model does not have, or when none would be
    /// left; nothing has changed then.
    pub fn leave_out(&mut self, channels: &[usize]) -> Result<()> {
        let mask = mask_without(&self.parts.channel_mask, channels, "leave out")?;
        let filters = self.parts.bank.len();
        let features = (0..mask.len() * filters).filter(|f| mask[f / filters]);
        self.kept = features.collect();
        self.mask = mask;
        Ok(())
    }

    /// The decoder solved anew from `sums`, over the features and targets of those that it retains, at
    /// `ridge`; its sums are kept beside it where it had some.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a ridge below 0 or not finite; [`ErrorKind::Mismatch`] for sums of
    /// other sizes; [`ErrorKind::NotPositiveDefinite`].
    pub fn solve(&self, sums: &NormalEquations, ridge: f64) -> Result<Decoder> {
        let features = self.parts.channel_names.len() * self.parts.bank.len();
        if (sums.features, sums.outputs) != (features, self.targets) {
            return Err(Error::mismatch(format!(
                "sums: expected {features} features and {} targets, got {} and {}",
                self.targets, sums.features, sums.outputs
            )));
        }
        let mut parts = self.solve_view(sums.into(), ridge)?;
        parts.training.steps = sums.steps;
        if parts.attachments.iter().any(|a| a.tag == super::TAG) {
            parts.attachments.retain(|a| a.tag != super::TAG);
            let sums = sums.clone();
            parts
                .attachments
                .push(StoredStatistics { sums, ridge }.attachment());
        }
        Decoder::new(parts)
    }

    /// Parts of a decoder solved from `sums` at `ridge`; its attachments stay the same.
    pub(crate) fn solve_view(&self, sums: SumsView<'_>, ridge: f64) -> Result<DecoderParts> {
        let solved = self.solve_targets(sums, ridge)?;
        let latents = self.latent_mean.len();
        let turned = match &self.turn {
            Some(turn) => &solved * turn,
            None => solved,
        };
        let mut weights = vec![0.0; self.parts.weights.len()];
        let mut intercept: Vec<f64> = match self.turn {
            Some(_) => self.latent_mean.clone(),
            None => sums.output_sum.iter().map(|s| s / sums.steps).collect(),
        };
        for (i, &f) in self.kept.iter().enumerate() {
            let mean = sums.feature_sum[f] / sums.steps;
            for (o, intercept) in intercept.iter_mut().enumerate() {
                weights[f * latents + o] = turned[(i, o)];
                *intercept -= mean * turned[(i, o)];
            }
        }
        let mut parts = self.parts.clone();
        mask_blanking(&mut parts, &self.mask);
        parts.channel_mask.clone_from(&self.mask);
        parts.weights = weights;
        parts.intercept = intercept;
        parts.training.ridge = ridge;
        Ok(parts)
    }

    /// W of the features that are kept.
    fn solve_targets(&self, sums: SumsView<'_>, ridge: f64) -> Result<Mat<f64>> {
        if !(ridge.is_finite() && ridge >= 0.0) {
            return Err(Error::argument(format!(
                "ridge: expected a finite number >= 0, got {ridge}"
            )));
        }
        let (n, m) = (sums.feature_sum.len(), sums.outputs);
        let (kept, steps) = (&self.kept, sums.steps);
        let system = Mat::from_fn(kept.len(), kept.len(), |i, j| {
            let (a, b) = (kept[i], kept[j]);
            let off = sums.feature_sum[b] * (sums.feature_sum[a] / steps);
            sums.gram[b * n + a] - off + if i == j { ridge } else { 0.0 }
        });
        let right = Mat::from_fn(kept.len(), m, |i, o| {
            let f = kept[i];
            sums.upsilon[f * m + o] - sums.feature_sum[f] * (sums.output_sum[o] / steps)
        });
        let solved = factored(&system)?.solve(right.as_ref());
        if !finite(solved.as_ref()) {
            return Err(Error::new(
                ErrorKind::NonFinite,
                "solve: expected finite weights, got NaN or infinity",
            ));
        }
        Ok(solved)
    }

    /// Matrix that turns `solved`, W of the sums in training, into the decoder's weights.
    fn turn_of(&self, solved: &Mat<f64>) -> Result<Mat<f64>> {
        let latents = self.latent_mean.len();
        let weights = &self.parts.weights;
        let phi = Mat::from_fn(self.kept.len(), latents, |i, o| {
            weights[self.kept[i] * latents + o]
        });
        let unlike = || {
            Error::mismatch(
                "retained sums: expected those that the model's latents were made of, got others",
            )
        };
        let turn = least_squares(solved.as_ref(), phi.as_ref());
        let off = product(solved.as_ref(), turn.as_ref()) - &phi;
        if !finite(turn.as_ref()) || off.norm_l2() > CLOSE * phi.norm_l2() {
            return Err(unlike());
        }
        Ok(turn)
    }
}

/// X of A·X ≈ B, least squares: A's columns are made orthogonal to each other, the longest first (Gram and
/// Schmidt, once more where it is used), and those that say nothing new have weight 0.
fn least_squares(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let m = a.ncols();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let take = |from: &mut [f64], share: f64, direction: &[f64]| {
        (from.iter_mut().zip(direction)).for_each(|(x, d)| *x -= share * d);
    };
    let mut left: Vec<Vec<f64>> = (0..m).map(|j| a.col(j).iter().copied().collect()).collect();
    let mut columns: Vec<usize> = Vec::new();
    let mut directions: Vec<Vec<f64>> = Vec::new();
    // (direction, column)
    let mut shares = Mat::<f64>::zeros(m, m);
    let mut longest = 0.0_f64;
    for k in 0..m {
        let rest = (0..m).filter(|j| !columns.contains(j));
        let lengths = rest.map(|j| (j, dot(&left[j], &left[j]).sqrt()));
        let Some((column, _)) = lengths.max_by(|a, b| a.1.total_cmp(&b.1)) else {
            break;
        };
        let mut direction = std::mem::take(&mut left[column]);
        for (i, before) in directions.iter().enumerate() {
            let share = dot(before, &direction);
            shares[(i, column)] += share;
            take(&mut direction, share, before);
        }
        let length = dot(&direction, &direction).sqrt();
        longest = longest.max(length);
        if length.is_nan() || length <= RANK * longest {
            break;
        }
        direction.iter_mut().for_each(|d| *d /= length);
        shares[(k, column)] = length;
        columns.push(column);
        for j in (0..m).filter(|j| !columns.contains(j)) {
            let share = dot(&direction, &left[j]);
            shares[(k, j)] += share;
            take(&mut left[j], share, &direction);
        }
        directions.push(direction);
    }
    let mut found = Mat::<f64>::zeros(m, b.ncols());
    for o in 0..b.ncols() {
        let mut rest: Vec<f64> = b.col(o).iter().copied().collect();
        let mut parts = Vec::new();
        for direction in &directions {
            let part = dot(direction, &rest);
            take(&mut rest, part, direction);
            parts.push(part);
        }
        for (k, &column) in columns.iter().enumerate().rev() {
            let later = columns[k + 1..].iter();
            let known: f64 = later.map(|&j| shares[(k, j)] * found[(j, o)]).sum();
            found[(column, o)] = (parts[k] - known) / shares[(k, column)];
        }
    }
    found
}

fn finite(m: MatRef<'_, f64>) -> bool {
    (0..m.ncols()).all(|j| m.col(j).iter().all(|v| v.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{KindOptions, train_kinds_on};
    use crate::options::TrainOptions;
    use crate::search::Search;
    use betz_device::Device;
    use betz_gram::cases;

    #[test]
    fn least_squares_leave_what_is_orthogonal_to_all_columns() {
        let wave = |i: usize, k: f64| (i as f64 * k).sin();
        // The fourth column is the sum of the first two, the fifth 0.
        let a = Mat::from_fn(40, 5, |i, j| match j {
            3 => wave(i, 0.3) + 1e3 * wave(i, 0.7),
            4 => 0.0,
            1 => 1e3 * wave(i, 0.7),
            _ => wave(i, [0.3, 0.0, 1.1][j]),
        });
        let b = Mat::from_fn(40, 2, |i, o| wave(i, 0.31 + o as f64) + 0.1);
        let x = least_squares(a.as_ref(), b.as_ref());
        let left = &b - product(a.as_ref(), x.as_ref());
        let off = product(a.transpose(), left.as_ref());
        for o in 0..2 {
            for j in 0..5 {
                assert!(off[(j, o)].abs() < 1e-8, "{j} {o}: {}", off[(j, o)]);
            }
            assert_eq!(x[(4, o)], 0.0);
        }
        // Columns in their span are reproduced exactly.
        let inside = product(a.as_ref(), x.as_ref());
        let again = least_squares(a.as_ref(), inside.as_ref());
        let off = product(a.as_ref(), again.as_ref()) - &inside;
        assert!(off.norm_l2() < 1e-11 * inside.norm_l2());
    }

    /// Ridge 7 after ridge 0.5 is training at ridge 7, of the linear decoder; and of latents, whose turn is
    /// kept, what the definition says.
    #[test]
    fn another_ridge_is_training_at_that_ridge() {
        let data = cases::dataset(
            10,
            &[(0, 900), (910, 2000)],
            cases::random_spikes(3, 10, 2000, 6000),
            2,
        );
        let options = |ridge| TrainOptions {
            ridge: crate::options::RidgeChoice::Fixed(ridge),
            retain: Some(1 << 20),
            ..TrainOptions::new(cases::bank(&[(0.01, 0), (0.03, 1)]))
        };
        let [soft, hard] = [0.5, 7.0].map(|r| crate::fit::train(&data, &options(r), &()).unwrap());
        let retained = StoredStatistics::read(&soft).unwrap();
        let refit = Refit::new(&soft, &retained).unwrap();
        let again = refit.solve(&retained.sums, 7.0).unwrap();
        let size = hard.weights().iter().fold(0.0, |s: f64, w| s.max(w.abs()));
        let same = |a: &[f64], b: &[f64], tolerance: f64| {
            for (a, b) in a.iter().zip(b) {
                assert!((a - b).abs() <= tolerance * size, "{a} and {b}");
            }
        };
        same(again.weights(), hard.weights(), 1e-9);
        same(again.intercept(), hard.intercept(), 1e-9);
        assert_eq!(StoredStatistics::read(&again).unwrap().ridge, 7.0);
        assert!(refit.solve(&retained.sums, -1.0).is_err());
        // Without channels it is what taking them away leaves, and with them again what it was.
        let mut refit = refit;
        refit.leave_out(&[2, 7]).unwrap();
        let without = refit.solve(&retained.sums, retained.ridge).unwrap();
        let remover = crate::retained::Remover::new(&soft, &retained).unwrap();
        let removed = remover.without(&[2, 7]).unwrap();
        same(without.weights(), removed.weights(), 1e-9);
        same(without.intercept(), removed.intercept(), 1e-9);
        assert_eq!(without.channel_mask(), removed.channel_mask());
        assert_eq!(without.limits(), removed.limits());
        let all: Vec<usize> = (0..10).collect();
        assert!(refit.leave_out(&all).is_err() && refit.leave_out(&[10]).is_err());
        refit.leave_out(&[]).unwrap();
        let whole = refit.solve(&retained.sums, 7.0).unwrap();
        assert_eq!(whole.weights(), again.weights());

        let kinds = KindOptions {
            latents: Some(3),
            units: Some(16),
            ..KindOptions::among(&[crate::kinds::Kind::Lift])
        };
        let search = Search::scores_only(2);
        let lift = train_kinds_on(&Device::cpu(), &data, &options(0.5), &search, &kinds, &());
        let lift = lift.unwrap().0.decoder;
        assert_eq!(lift.kind(), "lift");
        let retained = StoredStatistics::read(&lift).unwrap();
        let refit = Refit::new(&lift, &retained).unwrap();
        let same_ridge = refit.solve(&retained.sums, retained.ridge).unwrap();
        let size = lift.weights().iter().fold(0.0, |s: f64, w| s.max(w.abs()));
        for (a, b) in same_ridge.weights().iter().zip(lift.weights()) {
            assert!((a - b).abs() <= 1e-7 * size, "{a} and {b}");
        }
        assert_eq!(same_ridge.head(), lift.head());
        let other = refit.solve(&retained.sums, 100.0).unwrap();
        assert_ne!(other.weights(), lift.weights());
        // Sums of other targets are told.
        let mut unlike = retained;
        unlike.sums.upsilon.iter_mut().for_each(|u| *u = u.cos());
        let refused = Refit::new(&lift, &unlike).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Mismatch);
    }
}
