//! Band-limited white noise.

use betz_fourier::{Complex, Real};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use betz_base::error::{Error, Result};

/// Gaussian noise of `samples` samples, `step_seconds` apart, whose power is flat above 0 and up to
/// `band_hz` and zero elsewhere; its mean is 0 and its standard deviation over the samples is
/// exactly `std`.
///
/// Made as the inverse FFT of a spectrum that is cut at the band. The Fourier coefficients of white
/// Gaussian noise are themselves independent and Gaussian, so the ones inside the band are drawn
/// directly and those outside never exist. The signal is periodic in its own length.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) when the step or the
/// standard deviation is not finite and positive, the band is not below half the sampling rate, or
/// the signal is shorter than one period of the band's edge.
pub fn band_limited_noise<R: Rng>(
    samples: usize,
    step_seconds: f64,
    band_hz: f64,
    std: f64,
    rng: &mut R,
) -> Result<Vec<f64>> {
    for (name, value) in [
        ("step", step_seconds),
        ("band", band_hz),
        ("standard deviation", std),
    ] {
        if !(value.is_finite() && value > 0.0) {
            return Err(Error::argument(format!(
                "band-limited noise: expected a finite {name} > 0, got {value}"
            )));
        }
    }
    if band_hz >= 0.5 / step_seconds {
        return Err(Error::argument(format!(
            "band-limited noise: expected a band below half the sampling rate ({} Hz), got {band_hz} Hz",
            0.5 / step_seconds
        )));
    }
    let highest = (band_hz * step_seconds * samples as f64 * (1.0 + 1e-12)).floor() as usize;
    if highest == 0 {
        return Err(Error::argument(format!(
            "band-limited noise: {} s are shorter than one period of {band_hz} Hz",
            samples as f64 * step_seconds
        )));
    }
    let inverse = f64::inverse(samples);
    let mut spectrum = inverse.make_input_vec();
    for bin in &mut spectrum[1..=highest] {
        *bin = Complex::new(StandardNormal.sample(rng), StandardNormal.sample(rng));
    }
    // Each bin stands for itself and its conjugate (Parseval).
    let power: f64 = spectrum.iter().map(|c| 2.0 * c.norm_sqr()).sum();
    let scale = std / power.sqrt();
    for bin in &mut spectrum[1..=highest] {
        *bin *= scale;
    }
    let mut signal = inverse.make_output_vec();
    inverse.process(&mut spectrum, &mut signal).map_err(|e| {
        Error::new(
            betz_base::error::ErrorKind::Internal,
            format!("inverse FFT: {e}"),
        )
    })?;
    Ok(signal)
}
