//! Spike-band power: the mean of |voltage| between 300 and 1000 Hz, a number a channel and bin (Nason et al. 2020).

use betz_base::{Error, Result};

use super::LANES;
use super::filter::{BandPass, band_pass};

/// The band.
pub(super) const LOW_HZ: f64 = 300.0;
pub(super) const HIGH_HZ: f64 = 1000.0;
/// Order of the filter at each edge.
pub(super) const ORDER: usize = 2;

/// Spike-band power at work: a feature for decoding that needs no threshold.
///
/// ```
/// use betz_sort::BandPower;
///
/// let mut power = BandPower::new(30_000.0, 0.195, 2, 600)?; // bins of 20 ms
/// let mut bins = 0;
/// for _ in 0..1200 {
///     bins += usize::from(power.step(&[0, 100]).is_some());
/// }
/// assert_eq!(bins, 2);
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BandPower {
    filter: BandPass,
    microvolts: f32,
    row: Vec<f32>,
    sums: Vec<f64>,
    bin: Vec<f32>,
    samples: usize,
    seen: usize,
}

impl BandPower {
    /// For rows of `channels` samples, `samples` of them a bin.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for no channels, a bin of no samples, or
    /// a rate that has no such band.
    pub fn new(rate_hz: f64, microvolts: f64, channels: usize, samples: usize) -> Result<Self> {
        if channels == 0 || channels > super::MAX_CHANNELS || samples == 0 {
            return Err(Error::argument(format!(
                "spike-band power: expected channels (at most {}) and samples of a bin, got {channels} and {samples}",
                super::MAX_CHANNELS
            )));
        }
        check_rate(rate_hz)?;
        let padded = channels.next_multiple_of(LANES);
        Ok(Self {
            filter: BandPass::new(&band_pass(ORDER, LOW_HZ, HIGH_HZ, rate_hz), padded)?,
            microvolts: microvolts as f32,
            row: vec![0.0; padded],
            sums: vec![0.0; channels],
            bin: vec![0.0; channels],
            samples,
            seen: 0,
        })
    }

    /// One sample of all channels; the bin, in microvolts, when it is full. Does not allocate.
    ///
    /// # Panics
    /// Panics if the row does not have one sample per channel.
    pub fn step(&mut self, row: &[i16]) -> Option<&[f32]> {
        assert_eq!(row.len(), self.sums.len(), "samples of a row");
        for (y, &sample) in self.row.iter_mut().zip(row) {
            *y = f32::from(sample) * self.microvolts;
        }
        self.filter.step(&mut self.row);
        for (sum, y) in self.sums.iter_mut().zip(&self.row) {
            *sum += f64::from(y.abs());
        }
        self.seen += 1;
        if self.seen < self.samples {
            return None;
        }
        self.seen = 0;
        for (bin, sum) in self.bin.iter_mut().zip(&mut self.sums) {
            *bin = (*sum / self.samples as f64) as f32;
            *sum = 0.0;
        }
        Some(&self.bin)
    }
}

/// Refuses a rate that has no such band.
pub(super) fn check_rate(rate_hz: f64) -> Result<()> {
    if rate_hz.is_finite() && rate_hz > 2.0 * HIGH_HZ {
        return Ok(());
    }
    Err(Error::argument(format!(
        "spike-band power: expected more than {} samples per second, got {rate_hz}",
        2.0 * HIGH_HZ
    )))
}
