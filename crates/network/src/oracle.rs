//! The measures as plain f64 loops over the samples of one window: obviously right, and what every
//! faster way is tested against. The Pearson correlation here also decides the edges that a faster
//! way finds close to the threshold.

use crate::spec::Taper;

/// Tolerance of thresholds: a value this far below one still reaches it. Four units in the last place of 1.
/// A correlation of ±1 does not always come out as ±1 in f64.
pub const TIE: f64 = 4.0 * f64::EPSILON;

/// True when `value` reaches `threshold`: `value ≥ threshold`, to within [`TIE`]; with `strict`,
/// `value > threshold` by more than that.
#[inline]
pub fn reaches(value: f64, threshold: f64, strict: bool) -> bool {
    if strict {
        value > threshold + TIE
    } else {
        value >= threshold - TIE
    }
}

/// The reason that a node has no correlation in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UndefinedReason {
    /// All its samples in the window are equal, or differ so little that the sum of their squared
    /// deviations is 0 in f64.
    Constant,
    /// One of its samples in the window is NaN or infinite, or the sum of squares is infinite in f64.
    NonFinite,
}

/// Mean and sum of squared deviations from it.
///
/// # Errors
/// The reason that the node has no correlation in the window.
pub fn moments(x: &[f64]) -> Result<(f64, f64), UndefinedReason> {
    if x.iter().any(|v| !v.is_finite()) {
        return Err(UndefinedReason::NonFinite);
    }
    if x.windows(2).all(|pair| pair[0] == pair[1]) {
        return Err(UndefinedReason::Constant);
    }
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let squares: f64 = x.iter().map(|v| (v - mean) * (v - mean)).sum();
    if !squares.is_finite() {
        return Err(UndefinedReason::NonFinite);
    }
    if squares == 0.0 {
        return Err(UndefinedReason::Constant);
    }
    Ok((mean, squares))
}

/// Pearson correlation Σ(x−x̄)(y−ȳ) / √(Σ(x−x̄)² Σ(y−ȳ)²), within [−1, 1]; `None` when one of the two
/// is undefined ([`UndefinedReason`]).
pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let ((mx, sx), (my, sy)) = (moments(x).ok()?, moments(y).ok()?);
    let products: f64 = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum();
    Some((products / (sx.sqrt() * sy.sqrt())).clamp(-1.0, 1.0))
}

/// Pearson correlation of samples weighted by a taper, Σw(x−x̄)(y−ȳ) / √(Σw(x−x̄)² Σw(y−ȳ)²) with
/// x̄ = Σwx/Σw; `None` when one of the two is undefined without weights ([`UndefinedReason`]), or its weighted
/// deviations are 0 in f64.
pub fn tapered(x: &[f64], y: &[f64], taper: Taper) -> Option<f64> {
    if moments(x).is_err() || moments(y).is_err() {
        return None;
    }
    let weights = taper.weights(x.len());
    let total: f64 = weights.iter().sum();
    let mean = |x: &[f64]| x.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>() / total;
    let (mx, my) = (mean(x), mean(y));
    let (mut sx, mut sy, mut products) = (0.0, 0.0, 0.0);
    for ((x, y), w) in x.iter().zip(y).zip(&weights) {
        sx += w * (x - mx) * (x - mx);
        sy += w * (y - my) * (y - my);
        products += w * (x - mx) * (y - my);
    }
    let r = products / (sx.sqrt() * sy.sqrt());
    r.is_finite().then(|| r.clamp(-1.0, 1.0))
}

/// Ranks from 1, equal values at the mean of theirs. NaN is not expected.
pub fn ranks(x: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|a, b| x[*a].total_cmp(&x[*b]));
    let mut ranks = vec![0.0; x.len()];
    let mut from = 0;
    while from < order.len() {
        let equal = order[from..]
            .iter()
            .take_while(|at| x[**at] == x[order[from]])
            .count();
        for at in &order[from..from + equal] {
            ranks[*at] = from as f64 + (equal as f64 + 1.0) / 2.0;
        }
        from += equal;
    }
    ranks
}

/// Spearman correlation: Pearson's of the [`ranks`]; `None` when one of the two is undefined.
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.iter().chain(y).any(|v| !v.is_finite()) {
        return None;
    }
    pearson(&ranks(x), &ranks(y))
}

/// Covariance Σ(x−x̄)(y−ȳ)/(W−1); `None` when a sample is not finite. 0 for a constant node.
pub fn covariance(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.iter().chain(y).any(|v| !v.is_finite()) {
        return None;
    }
    let w = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / w, y.iter().sum::<f64>() / w);
    let products: f64 = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum();
    Some(products / (w - 1.0)).filter(|v| v.is_finite())
}

/// Euclidean distance √Σ(x−y)²; `None` when a sample is not finite.
pub fn distance(x: &[f64], y: &[f64]) -> Option<f64> {
    let squares: f64 = x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum();
    Some(squares.sqrt()).filter(|v| v.is_finite())
}

/// Mutual information of two Gaussians with correlation r, −½ ln(1 − r²), in nats.
pub(crate) fn gaussian_information(r: f64) -> f64 {
    -0.5 * (-r * r).ln_1p()
}

/// Mean of e^{i(φx−φy)} (real and imaginary part) of phases in radians; `None` when one is not finite.
pub(crate) fn phase_difference(x: &[f64], y: &[f64]) -> Option<(f64, f64)> {
    if x.iter().chain(y).any(|v| !v.is_finite()) {
        return None;
    }
    let (mut re, mut im) = (0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        re += (x - y).cos();
        im += (x - y).sin();
    }
    Some((re / x.len() as f64, im / x.len() as f64))
}

/// Phase-locking value |P|, P the mean of e^{i(φx−φy)} (Lachaux et al. 1999).
pub(crate) fn phase_locking(x: &[f64], y: &[f64]) -> Option<f64> {
    let (re, im) = phase_difference(x, y)?;
    Some(re.hypot(im).min(1.0))
}

/// Corrected imaginary phase-locking value |Im P|/√(1 − (Re P)²) (Bruña et al. 2018); `None` where
/// the phases are equal throughout, to within rounding ((Re P)² ≥ 1 − 10⁻¹²).
pub(crate) fn imaginary_phase_locking(x: &[f64], y: &[f64]) -> Option<f64> {
    let (re, im) = phase_difference(x, y)?;
    let rest = 1.0 - re * re;
    (rest > 1e-12).then(|| (im.abs() / rest.sqrt()).min(1.0))
}

/// Pairwise phase consistency (W·|P|² − 1)/(W − 1) (Vinck et al. 2010).
pub(crate) fn phase_consistency(x: &[f64], y: &[f64]) -> Option<f64> {
    let (re, im) = phase_difference(x, y)?;
    let w = x.len() as f64;
    Some((w * (re * re + im * im) - 1.0) / (w - 1.0))
}

/// The lag ℓ, |ℓ| ≤ `lags`, at which x(start + t) and y(start + t + ℓ), t in 0..w, correlate most
/// strongly by `size`, and the correlation there. Of equal ones the smallest |ℓ|, then the negative
/// one. `None` when every lag is undefined.
pub fn lagged(
    x: &[f64],
    y: &[f64],
    (start, w): (usize, usize),
    lags: usize,
    size: impl Fn(f64) -> f64,
) -> Option<(f64, i16)> {
    let mut best: Option<(f64, i16)> = None;
    for step in 0..=2 * lags {
        // 0, −1, 1, −2, 2 …
        let lag = (step as i64 + 1) / 2 * if step % 2 == 1 { -1 } else { 1 };
        let from = start as i64 + lag;
        let Ok(from) = usize::try_from(from) else {
            continue;
        };
        let (Some(x), Some(y)) = (x.get(start..start + w), y.get(from..from + w)) else {
            continue;
        };
        if let Some(r) = pearson(x, y)
            && best.is_none_or(|(b, _)| size(r) > size(b) + TIE)
        {
            best = Some((r, lag as i16));
        }
    }
    best
}
