//! A guess at the number of channels from the samples.

use betz_base::Result;
use betz_sort::Voltage;

/// Rows that [`likely_channels`] looks at, and channels up to which it does.
const LOOKED_AT: usize = 1 << 13;
const MOST_LOOKED_AT: usize = 512;
/// Correlation by which another number of channels must excel.
const EXCELS: f64 = 0.3;

/// The number of channels that the samples seem to have, if it is not the one that they are read with.
///
/// A channel's next sample resembles this one more than those of other channels do. The distance at which the
/// interleaved samples are most alike is therefore the number of channels; one is named only if it excels by far.
///
/// # Errors
/// The reader's errors are passed on.
pub fn likely_channels(voltage: &mut dyn Voltage) -> Result<Option<usize>> {
    let channels = voltage.channels();
    let rows = voltage.rows().min(LOOKED_AT as u64) as usize;
    if channels > MOST_LOOKED_AT || rows < LOOKED_AT / 16 {
        return Ok(None);
    }
    let mut samples = vec![0; rows * channels];
    let rows = voltage.read(0, &mut samples)?;
    let mut scaled: Vec<f64> = samples[..rows * channels]
        .iter()
        .map(|s| f64::from(*s))
        .collect();
    for c in 0..channels {
        let of = scaled.iter().skip(c).step_by(channels);
        let (sum, squares) = of.fold((0.0, 0.0), |(sum, squares), v| (sum + v, squares + v * v));
        let mean = sum / rows as f64;
        let deviation = (squares / rows as f64 - mean * mean).max(0.0).sqrt();
        for value in scaled.iter_mut().skip(c).step_by(channels) {
            *value = if deviation > 0.0 {
                (*value - mean) / deviation
            } else {
                0.0
            };
        }
    }
    let alike = |lag: usize| {
        let pairs = scaled.iter().zip(&scaled[lag..]);
        pairs.map(|(a, b)| a * b).sum::<f64>() / (scaled.len() - lag) as f64
    };
    let mut best = (channels, alike(channels) + EXCELS);
    for lag in 1..=(2 * channels).min(scaled.len() / 2) {
        let found = alike(lag);
        if found > best.1 {
            best = (lag, found);
        }
    }
    Ok((best.0 != channels).then_some(best.0))
}
