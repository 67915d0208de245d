//! Channels taken away.

use betz_linear::{Cholesky, Mat, product};

use super::{StoredStatistics, mask_without};
use betz_base::error::{Error, ErrorKind, Result};
use betz_runtime::model::{Decoder, DecoderParts, Head};

/// A decoder whose system is factored, so that channels can be taken away within milliseconds, one set after
/// another, always from what it began with.
pub struct Remover {
    parts: DecoderParts,
    /// Features of channels that take part, ascending.
    kept: Vec<usize>,
    /// M = Γ_c + λI over `kept`.
    system: Mat<f64>,
    factor: Cholesky,
    /// Mean of each feature.
    mean: Vec<f64>,
}

impl Remover {
    /// Factors the system of `decoder`, whose sums `retained` are: features³/3 multiply-adds. Allocates
    /// twice its size.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for sums of other features; [`ErrorKind::NotPositiveDefinite`] when the system
    /// cannot be factored.
    pub fn new(decoder: &Decoder, retained: &StoredStatistics) -> Result<Self> {
        let sums = &retained.sums;
        if sums.features != decoder.features() {
            return Err(Error::mismatch(format!(
                "retained sums: expected {} features, those of the model, got {}",
                decoder.features(),
                sums.features
            )));
        }
        let (n, filters) = (sums.features, decoder.bank().len());
        let mask = decoder.channel_mask();
        let kept: Vec<usize> = (0..n).filter(|f| mask[f / filters]).collect();
        let mean = sums.feature_mean();
        let system = Mat::from_fn(kept.len(), kept.len(), |i, j| {
            let (a, b) = (kept[i], kept[j]);
            let centred = sums.gram[b * n + a] - sums.feature_sum[b] * mean[a];
            centred + if i == j { retained.ridge } else { 0.0 }
        });
        Ok(Self {
            factor: factored(&system)?,
            parts: decoder.clone().into_parts(),
            kept,
            system,
            mean,
        })
    }

    /// The decoder without `channels` (numbers of the model's channels, each once or more), as if it had
    /// been trained without them with the same ridge; what is behind latents stays as it is. Channels that
    /// are masked already count as removed.
    ///
    /// By the inverse's columns, 2·features² multiply-adds for each feature taken away, or by factoring what
    /// is left, whichever is less.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a channel that the model does not have, or when none would be left.
    pub fn without(&self, channels: &[usize]) -> Result<Decoder> {
        let filters = self.parts.bank.len();
        let mask = mask_without(&self.parts.channel_mask, channels, "drop")?;
        // Places in the system of what stays and of what goes.
        let (stay, go): (Vec<usize>, Vec<usize>) =
            (0..self.kept.len()).partition(|&i| mask[self.kept[i] / filters]);
        let lanes = self.parts.intercept.len();
        let row = |f: usize| &self.parts.weights[f * lanes..][..lanes];
        let phi = Mat::from_fn(self.kept.len(), lanes, |i, o| row(self.kept[i])[o]);
        let (n, s) = (self.kept.len() as f64, go.len() as f64);
        let solved = if 2.0 * s * n * n < (n - s).powi(3) / 3.0 {
            self.by_inverse(&phi, &stay, &go)?
        } else {
            self.by_rest(&phi, &stay)?
        };
        let mut weights = vec![0.0; self.parts.weights.len()];
        let mut intercept = self.parts.intercept.clone();
        for (f, mean) in self.mean.iter().enumerate() {
            for (c, w) in intercept.iter_mut().zip(row(f)) {
                *c += mean * w;
            }
        }
        for (i, &place) in stay.iter().enumerate() {
            let f = self.kept[place];
            for (o, intercept) in intercept.iter_mut().enumerate() {
                weights[f * lanes + o] = solved[(i, o)];
                *intercept -= self.mean[f] * solved[(i, o)];
            }
        }
        let mut parts = self.parts.clone();
        mask_blanking(&mut parts, &mask);
        parts.channel_mask = mask;
        parts.weights = weights;
        parts.intercept = intercept;
        Decoder::new(parts)
    }

    /// φ_R − P_RS P_SS⁻¹ φ_S, P's columns S from the factor.
    fn by_inverse(&self, phi: &Mat<f64>, stay: &[usize], go: &[usize]) -> Result<Mat<f64>> {
        let unit = Mat::from_fn(self.kept.len(), go.len(), |i, j| {
            f64::from(u8::from(i == go[j]))
        });
        let columns = self.factor.solve(unit.as_ref());
        let own = Mat::from_fn(go.len(), go.len(), |i, j| columns[(go[i], j)]);
        let gone = Mat::from_fn(go.len(), phi.ncols(), |i, o| phi[(go[i], o)]);
        let share = factored(&own)?.solve(gone.as_ref());
        let rows = Mat::from_fn(stay.len(), go.len(), |i, j| columns[(stay[i], j)]);
        let off = product(rows.as_ref(), share.as_ref());
        Ok(Mat::from_fn(stay.len(), phi.ncols(), |i, o| {
            phi[(stay[i], o)] - off[(i, o)]
        }))
    }

    #[cfg(test)]
    pub(super) fn both(
        &self,
        phi: &Mat<f64>,
        stay: &[usize],
        go: &[usize],
    ) -> (Mat<f64>, Mat<f64>) {
        let solved = (self.by_inverse(phi, stay, go), self.by_rest(phi, stay));
        match solved {
            (Ok(a), Ok(b)) => (a, b),
            other => panic!("{other:?}"),
        }
    }

    /// M_RR⁻¹(M φ)_R.
    fn by_rest(&self, phi: &Mat<f64>, stay: &[usize]) -> Result<Mat<f64>> {
        let right = product(self.system.as_ref(), phi.as_ref());
        let right = Mat::from_fn(stay.len(), phi.ncols(), |i, o| right[(stay[i], o)]);
        let rest = Mat::from_fn(stay.len(), stay.len(), |i, j| {
            self.system[(stay[i], stay[j])]
        });
        Ok(factored(&rest)?.solve(right.as_ref()))
    }
}

/// `decoder` without `channels`, from the sums that it retains ([`Remover`]). Of a blend, every member that was solved from
/// sums is as if it had been trained without them; a recurrent member hears nothing of them.
///
/// # Errors
/// As [`StoredStatistics::read`], [`Remover::new`] and [`Remover::without`].
pub fn drop_channels(decoder: &Decoder, channels: &[usize]) -> Result<Decoder> {
    let Head::ModelBlend(blend) = decoder.head() else {
        let retained = StoredStatistics::read(decoder)?;
        return Remover::new(decoder, &retained)?.without(channels);
    };
    let members = blend.decoders(decoder.parts())?.into_iter();
    let members = members.map(|member| match member.head() {
        Head::Recurrent(_) => {
            let rows = member.weights().to_vec();
            without_rows(
                &member,
                &rows,
                &mask_without(member.channel_mask(), channels, "drop")?,
            )
        }
        _ => drop_channels(&member, channels),
    });
    blend.joined(members.collect::<Result<_>>()?)
}

/// `decoder` with the weights `rows` of its linear engine for the channels for which `mask` is true, and none for the others.
///
/// # Errors
/// The errors of [`Decoder::new`].
pub(crate) fn without_rows(decoder: &Decoder, rows: &[f64], mask: &[bool]) -> Result<Decoder> {
    let mut parts = decoder.clone().into_parts();
    let width = parts.bank.len() * parts.latents();
    parts.weights.copy_from_slice(rows);
    for (row, takes_part) in parts.weights.chunks_exact_mut(width).zip(mask) {
        if !takes_part {
            row.fill(0.0);
        }
    }
    mask_blanking(&mut parts, mask);
    parts.channel_mask = mask.to_vec();
    Decoder::new(parts)
}

/// Limits for the channels that are left by `mask`, as a session makes them for channels that it masks.
pub(crate) fn mask_blanking(parts: &mut DecoderParts, mask: &[bool]) {
    let Some(blanking) = &mut parts.limits.blanking else {
        return;
    };
    let all = mask.iter().zip(&parts.channel_mask);
    let gone: f64 = (all.zip(&blanking.mean_counts))
        .filter(|((now, before), _)| **before && !**now)
        .map(|(_, mean)| mean)
        .sum();
    let gone = gone.floor() as u64;
    blanking.most = blanking.most.saturating_sub(gone);
    blanking.least = blanking.least.saturating_sub(gone).min(blanking.most);
    for (mean, takes_part) in blanking.mean_counts.iter_mut().zip(mask) {
        if !takes_part {
            *mean = 0.0;
        }
    }
}

pub(super) fn factored(system: &Mat<f64>) -> Result<Cholesky> {
    Cholesky::new(system.as_ref()).map_err(|_| {
        Error::new(
            ErrorKind::NotPositiveDefinite,
            "removing channels: expected a system that can be solved, got one that is singular; retain the sums of a decoder trained with a ridge",
        )
    })
}
