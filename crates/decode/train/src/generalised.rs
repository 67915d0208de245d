//! The ridge of sums of which nothing is held out.

use super::search::COARSE;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_gram::gram::NormalEquations;
use betz_gram::solve::CentredEquations;
use betz_runtime::psc::FilterBank;

/// The ridge of ρ × mean diagonal of Γ_c, ρ from 10⁻⁷ to 10, for which generalised cross-validation
/// ([`CentredEquations::expected_r2`]) is best; the largest if there is too little data for any. Whole powers of ten are
/// compared first, then the halves and quarters of a power around the best.
///
/// Neighbouring steps share responses, so that they are worth fewer independent ones: residuals are taken to be
/// correlated over the time constant τ of the fastest filter (slower filters take up what lasts longer), which leaves
/// steps / (1 + 2τ / step).
///
/// # Errors
/// [`ErrorKind::NotPositiveDefinite`] if no response varies.
pub fn ridge(
    sums: &NormalEquations,
    centred: &CentredEquations,
    bank: &FilterBank,
    step_seconds: f64,
) -> Result<f64> {
    let unit = sums.mean_variance_sum();
    if unit <= 0.0 {
        return Err(Error::new(
            ErrorKind::NotPositiveDefinite,
            "solve: expected a channel whose response varies, got none",
        ));
    }
    let total = sums.output_total_squares();
    let times = bank.filters().iter().map(|f| f.tau_seconds);
    let sampled = bank.sampled().iter();
    let sampled = sampled.map(|f| f.samples().len() as f64 * step_seconds / 2.0);
    let memory = times.chain(sampled).fold(f64::INFINITY, f64::min);
    let steps = sums.steps as f64 / (1.0 + 2.0 * memory / step_seconds);
    let ridge_of = |power: f64| unit * float::powf(10.0, power);
    let score = |power: f64| {
        let r2 = centred.expected_r2(ridge_of(power), &total, steps)?;
        Some((power, r2))
    };
    let better = |a: (f64, f64), b: (f64, f64)| if b.1 > a.1 { b } else { a };
    let coarse = COARSE.map(f64::from);
    let Some(mut best) = coarse.filter_map(score).reduce(better) else {
        return Ok(ridge_of(f64::from(*COARSE.end())));
    };
    let range = f64::from(*COARSE.start())..=f64::from(*COARSE.end());
    for finer in [0.5, 0.25] {
        let middle = best.0;
        let beside = [middle - finer, middle + finer];
        let beside = beside.into_iter().filter(|power| range.contains(power));
        best = beside.filter_map(score).fold(best, better);
    }
    Ok(ridge_of(best.0))
}
