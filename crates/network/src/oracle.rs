//! The measures as plain f64 loops over the samples of one window: obviously right, and what every
//! faster way is tested against. The Pearson correlation here also decides the edges that a faster
//! way finds close to the threshold.

/// How far below a threshold a value still counts as reaching it: four units in the last place of 1.
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

/// Why a node has no correlation in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Undefined {
    /// All its samples in the window are equal, or differ so little that the sum of their squared
    /// deviations is 0 in f64.
    Constant,
    /// One of its samples in the window is NaN or infinite, or the sum of squares is infinite in f64.
    NonFinite,
}

/// Mean and sum of squared deviations from it.
///
/// # Errors
/// Why the node has no correlation in the window.
pub fn moments(x: &[f64]) -> Result<(f64, f64), Undefined> {
    if x.iter().any(|v| !v.is_finite()) {
        return Err(Undefined::NonFinite);
    }
    if x.windows(2).all(|pair| pair[0] == pair[1]) {
        return Err(Undefined::Constant);
    }
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let squares: f64 = x.iter().map(|v| (v - mean) * (v - mean)).sum();
    if !squares.is_finite() {
        return Err(Undefined::NonFinite);
    }
    if squares == 0.0 {
        return Err(Undefined::Constant);
    }
    Ok((mean, squares))
}

/// Pearson correlation Σ(x−x̄)(y−ȳ) / √(Σ(x−x̄)² Σ(y−ȳ)²), within [−1, 1]; `None` when one of the two
/// is undefined ([`Undefined`]).
pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let ((mx, sx), (my, sy)) = (moments(x).ok()?, moments(y).ok()?);
    let products: f64 = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum();
    Some((products / (sx.sqrt() * sy.sqrt())).clamp(-1.0, 1.0))
}
