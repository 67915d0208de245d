//! Sums as whole numbers of 2⁻⁶⁴, whose addition is exact.

use betz_base::error::{Error, Result};
use betz_gram::gram::NormalEquations;

/// One over the unit: 2⁶⁴.
const PER_ONE: f64 = 18_446_744_073_709_551_616.0;

/// Largest number of units one recording's sum may have: room for 8 of such recordings. Merging refuses more.
const MOST: f64 = PER_ONE * (1_u64 << 60) as f64;

/// Least sum of squares, other than 0, that is known to nine digits.
const LEAST: f64 = 1.0 / (1_u64 << 34) as f64;

/// Number of values for `features` and `outputs`; `None` for more than can be counted.
pub(crate) fn len(features: usize, outputs: usize) -> Option<usize> {
    let lower = features.checked_mul(features.checked_add(1)?)? / 2;
    lower
        .checked_add(features.checked_mul(outputs.checked_add(1)?)?)?
        .checked_add(outputs.checked_mul(2)?)
}

/// Sums of squares of each feature and output.
pub(crate) fn squares_of(sums: &NormalEquations) -> impl Iterator<Item = (&'static str, f64)> {
    let features = (0..sums.features).map(|f| sums.gram[f * (sums.features + 1)]);
    let outputs = sums.output_sq_sum.iter().copied();
    named(features, outputs)
}

/// The same of whole numbers.
pub(crate) fn squares_in(
    values: &[i128],
    (features, outputs): (usize, usize),
) -> impl Iterator<Item = (&'static str, f64)> {
    let units = |&v: &i128| value_of(v);
    let diagonal = (0..features).filter_map(move |f| values.get(f * (f + 3) / 2).map(units));
    let last = values.len().saturating_sub(outputs);
    named(diagonal, values[last..].iter().map(units))
}

fn named(
    features: impl Iterator<Item = f64>,
    outputs: impl Iterator<Item = f64>,
) -> impl Iterator<Item = (&'static str, f64)> {
    let features = features.map(|square| ("responses", square));
    features.chain(outputs.map(|square| ("behaviour", square)))
}

/// Refuses sums of squares of which one is too small to be known to nine digits.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for one below [`LEAST`] that is not 0.
pub(crate) fn check_squares(squares: impl Iterator<Item = (&'static str, f64)>) -> Result<()> {
    for (what, square) in squares {
        if square != 0.0 && square < LEAST {
            return Err(Error::argument(format!(
                "sums: expected {what} whose squares sum to 0 or to at least {LEAST:.1e}, got {square:.1e}; give them in a smaller unit"
            )));
        }
    }
    Ok(())
}

/// Each value rounded to the unit once.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for values beyond [`MOST`].
pub(crate) fn units(sums: &NormalEquations) -> Result<Vec<i128>> {
    let mut values = Vec::new();
    let count = len(sums.features, sums.outputs).unwrap_or(usize::MAX);
    (values.try_reserve_exact(count))
        .map_err(|_| Error::no_memory("sums", count.saturating_mul(16)))?;
    for units in each_unit(sums) {
        values.push(units?);
    }
    Ok(values)
}

/// The same, one after the other.
pub(crate) fn each_unit(sums: &NormalEquations) -> impl Iterator<Item = Result<i128>> {
    let n = sums.features;
    let lower = (0..n).flat_map(move |i| &sums.gram[i * n..][..=i]);
    let rest = [
        &sums.feature_sum,
        &sums.upsilon,
        &sums.output_sum,
        &sums.output_sq_sum,
    ];
    (lower.chain(rest.into_iter().flatten())).map(|&value| unit_of(value))
}

/// `value` rounded to the unit.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for one beyond [`MOST`].
pub(crate) fn unit_of(value: f64) -> Result<i128> {
    let units = (value * PER_ONE).round_ties_even();
    if units.is_nan() || units.abs() > MOST {
        return Err(Error::argument(format!(
            "sums: expected values of at most {:.1e}, got {value:.1e}; give responses or behaviour in a larger unit",
            MOST / PER_ONE
        )));
    }
    Ok(units as i128)
}

/// The value of `units`.
pub(crate) const fn value_of(units: i128) -> f64 {
    units as f64 / PER_ONE
}

/// The values in f64, each rounded once.
pub(crate) fn to_equations(values: &[i128], (n, m): (usize, usize), steps: u64) -> NormalEquations {
    let mut values = values.iter().map(|&v| value_of(v));
    let mut gram = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let value = values.next().unwrap_or(0.0);
            gram[i * n + j] = value;
            gram[j * n + i] = value;
        }
    }
    let mut take = |count: usize| values.by_ref().take(count).collect::<Vec<f64>>();
    NormalEquations {
        features: n,
        outputs: m,
        steps,
        gram,
        feature_sum: take(n),
        upsilon: take(n * m),
        output_sum: take(m),
        output_sq_sum: take(m),
    }
}
