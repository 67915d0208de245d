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

/// Spearman correlation: Pearson's of the [`ranks`]; `None` when one of the two is constant or not finite. All sums are of
/// whole numbers: twice the ranks' deviations from their mean.
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.iter().chain(y).any(|v| !v.is_finite()) {
        return None;
    }
    let twice = |x: &[f64]| -> Vec<f64> {
        let mean = (x.len() as f64 + 1.0) / 2.0;
        ranks(x).iter().map(|rank| 2.0 * (rank - mean)).collect()
    };
    let (x, y) = (twice(x), twice(y));
    let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let (a, b) = (sum(&x, &x), sum(&y, &y));
    (a > 0.0 && b > 0.0).then(|| rank_value(sum(&x, &y), a, b))
}

/// Kendall's τ-b (1945): Σ sgn(xₜ − xᵤ)·sgn(yₜ − yᵤ) over all pairs of samples, over the root of the numbers of pairs in
/// which x, and y, differ. `None` when one of the two is constant or not finite.
pub fn kendall(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.iter().chain(y).any(|v| !v.is_finite()) {
        return None;
    }
    let sign = |a: f64, b: f64| f64::from(i8::from(a > b) - i8::from(a < b));
    let (mut sum, mut a, mut b) = (0.0, 0.0, 0.0);
    for t in 0..x.len() {
        for u in 0..t {
            let (x, y) = (sign(x[t], x[u]), sign(y[t], y[u]));
            sum += x * y;
            a += x * x;
            b += y * y;
        }
    }
    (a > 0.0 && b > 0.0).then(|| rank_value(sum, a, b))
}

/// The value of a rank measure from its sum of products and the two sums of squares, whole numbers all.
pub(crate) fn rank_value(products: f64, a: f64, b: f64) -> f64 {
    (products / (a * b).sqrt()).clamp(-1.0, 1.0)
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

/// Radius of the earth in metres: the sphere of WGS84's mean radius.
const EARTH: f64 = 6_371_008.8;

/// The distance of two places: in their unit, or along a great circle from latitudes and longitudes in degrees (the
/// haversine formula), in metres.
pub fn place_distance(a: [f64; 3], b: [f64; 3], earth: bool) -> f64 {
    if !earth {
        let squares = (0..3).map(|axis| (a[axis] - b[axis]) * (a[axis] - b[axis]));
        return squares.sum::<f64>().sqrt();
    }
    let half = |a: f64, b: f64| ((a - b).to_radians() / 2.0).sin();
    let (north, east) = (half(a[0], b[0]), half(a[1], b[1]));
    let along = a[0].to_radians().cos() * b[0].to_radians().cos() * east * east;
    2.0 * EARTH * (north * north + along).sqrt().min(1.0).asin()
}

/// A place on the sphere in metres, from latitude and longitude in degrees.
pub(crate) fn on_sphere(place: [f64; 3]) -> [f64; 3] {
    let (latitude, longitude) = (place[0].to_radians(), place[1].to_radians());
    let out = EARTH * latitude.cos();
    [
        out * longitude.cos(),
        out * longitude.sin(),
        EARTH * latitude.sin(),
    ]
}

/// The straight distance of two places on the sphere that are so far apart along a great circle.
pub(crate) fn chord(along: f64) -> f64 {
    2.0 * EARTH
        * (along / (2.0 * EARTH))
            .min(std::f64::consts::FRAC_PI_2)
            .sin()
}

/// Makes the samples of a window those that are warped: with `normalised` about their mean, by their standard deviation.
///
/// # Errors
/// The reason that there are none.
pub(crate) fn warped_samples(x: &mut [f64], normalised: bool) -> Result<(), UndefinedReason> {
    if !normalised {
        let finite = x.iter().all(|v| v.is_finite());
        return if finite {
            Ok(())
        } else {
            Err(UndefinedReason::NonFinite)
        };
    }
    let (mean, squares) = moments(x)?;
    let deviation = (squares / x.len() as f64).sqrt();
    x.iter_mut().for_each(|v| *v = (*v - mean) / deviation);
    Ok(())
}

/// Dynamic time warping within a band: the root of the least Σ(xₛ − yₜ)² along a path from (0, 0) to the last samples by
/// steps of 1 in s, in t or in both, |s − t| ≤ `band`; `None` when one of the two is undefined.
pub fn warping(x: &[f64], y: &[f64], band: usize, normalised: bool) -> Option<f64> {
    let (mut x, mut y) = (x.to_vec(), y.to_vec());
    warped_samples(&mut x, normalised).ok()?;
    warped_samples(&mut y, normalised).ok()?;
    let width = y.len() + 1;
    let mut sums = vec![f64::INFINITY; (x.len() + 1) * width];
    sums[0] = 0.0;
    for s in 0..x.len() {
        for t in 0..y.len() {
            if s.abs_diff(t) <= band {
                let at = (s + 1) * width + t + 1;
                let before = sums[at - width - 1].min(sums[at - width]).min(sums[at - 1]);
                sums[at] = before + (x[s] - y[t]) * (x[s] - y[t]);
            }
        }
    }
    sums.last().map(|sum| sum.sqrt())
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

/// Weights of a segment's samples: Hann's, (1 − cos(2πt/n))/2.
pub(crate) fn segment_weights(segment: usize) -> Vec<f64> {
    let turn = std::f64::consts::TAU / segment as f64;
    (0..segment)
        .map(|t| 0.5 - 0.5 * (turn * t as f64).cos())
        .collect()
}

/// A frequency at which a node's segments have no more power than this has none: what is left there is rounding. `total`: the
/// sum of squares of all segments' weighted samples.
pub(crate) fn least_power(total: f64, segment: usize) -> f64 {
    1e-24 * total * segment as f64
}

/// Magnitude-squared coherence by Welch's method (1967): |Σ X Y*|² / (Σ|X|² Σ|Y|²) at each of the frequencies of k cycles in
/// a segment, k from `first` to `last`; its mean over them, or the largest if `peak`. X and Y are the transforms of
/// segments, each half over the one before, without their mean and weighted by Hann's window. A frequency at which one of the two has no power counts as 0. `None`
/// when one of the two is constant or not finite, or has no power in the band.
pub fn coherence(
    x: &[f64],
    y: &[f64],
    (segment, first, last): (usize, usize, usize),
    peak: bool,
) -> Option<f64> {
    if moments(x).is_err() || moments(y).is_err() {
        return None;
    }
    let weights = segment_weights(segment);
    let transforms = |x: &[f64]| {
        let (mut total, mut bins) = (0.0, vec![Vec::new(); last + 1 - first]);
        let mut start = 0;
        while start + segment <= x.len() {
            let own = &x[start..start + segment];
            let mean = own.iter().sum::<f64>() / segment as f64;
            let weighted: Vec<f64> = (own.iter().zip(&weights))
                .map(|(x, w)| (x - mean) * w)
                .collect();
            total += weighted.iter().map(|v| v * v).sum::<f64>();
            for (bin, k) in bins.iter_mut().zip(first..) {
                let (mut re, mut im) = (0.0, 0.0);
                for (t, v) in weighted.iter().enumerate() {
                    let angle = std::f64::consts::TAU * (k * t % segment) as f64 / segment as f64;
                    re += v * angle.cos();
                    im -= v * angle.sin();
                }
                bin.push((re, im));
            }
            start += segment - segment / 2;
        }
        let least = least_power(total, segment);
        let power = |bin: &Vec<(f64, f64)>| bin.iter().map(|(re, im)| re * re + im * im).sum();
        let powers: Vec<f64> = bins.iter().map(power).collect();
        let powers: Vec<f64> = (powers.into_iter())
            .map(|p| if p > least && p.is_finite() { p } else { 0.0 })
            .collect();
        (bins, powers)
    };
    let ((x, px), (y, py)) = (transforms(x), transforms(y));
    if px.iter().all(|p| *p == 0.0) || py.iter().all(|p| *p == 0.0) {
        return None;
    }
    let values = (0..x.len()).map(|bin| {
        if px[bin] == 0.0 || py[bin] == 0.0 {
            return 0.0;
        }
        let (mut re, mut im) = (0.0, 0.0);
        for ((a, b), (c, d)) in x[bin].iter().zip(&y[bin]) {
            re += a * c + b * d;
            im += b * c - a * d;
        }
        (re * re + im * im) / (px[bin] * py[bin])
    });
    let value = if peak {
        values.fold(0.0, f64::max)
    } else {
        values.sum::<f64>() / (last + 1 - first) as f64
    };
    Some(value.min(1.0))
}
