//! The ridge of sums of which nothing is held out.

use super::search::COARSE;
use betz_base::error::Result;
use betz_gram::gram::NormalEquations;
use betz_gram::solve::CentredEquations;
use betz_runtime::psc::FilterBank;

/// Grid of relative ridges per power of ten.
const PER_POWER: i32 = 4;

/// The ridge of ρ × mean diagonal of Γ_c, ρ from 10⁻⁷ to 10, for which generalised cross-validation
/// ([`expected_r2`](betz_gram::solve::Spectrum::expected_r2)) is best; the largest if there is too little data for any.
///
/// Neighbouring steps share responses, so that they are worth fewer independent ones: residuals are taken to be
/// correlated over the time constant τ of the fastest filter (slower filters take up what lasts longer), which leaves
/// steps / (1 + 2τ / step).
///
/// # Errors
/// Passes on the errors of [`spectrum`](CentredEquations::spectrum).
pub(crate) fn ridge(
    sums: &NormalEquations,
    centred: &CentredEquations,
    bank: &FilterBank,
    step_seconds: f64,
) -> Result<f64> {
    let spectrum = centred.spectrum()?;
    let unit = sums.mean_variance_sum();
    let total = sums.output_total_squares();
    let times = bank.filters().iter().map(|f| f.tau_seconds);
    let memory = times.fold(f64::INFINITY, f64::min);
    let steps = sums.steps as f64 / (1.0 + 2.0 * memory / step_seconds);
    let grid = COARSE.start() * PER_POWER..=COARSE.end() * PER_POWER;
    let ridges = grid.map(|power| unit * 10_f64.powf(f64::from(power) / f64::from(PER_POWER)));
    let scored = ridges.filter_map(|ridge| {
        let r2 = spectrum.expected_r2(ridge, &total, steps)?;
        Some((ridge, r2))
    });
    let best = scored.reduce(|a, b| if b.1 > a.1 { b } else { a });
    let largest = unit * 10_f64.powi(*COARSE.end());
    Ok(best.map_or(largest, |(ridge, _)| ridge))
}
