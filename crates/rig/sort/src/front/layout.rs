//! The channels that a front end works on.

use betz_base::{Error, Result};

use crate::settings::Reference;

/// Most channels of a recording.
pub const MAX_CHANNELS: usize = 1 << 14;

/// The channels of a recording, their places and their noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Channels of a row of samples.
    pub row_channels: usize,
    /// The channels that are used, in the order that the front end keeps them.
    pub used: Vec<u32>,
    /// Places of these, (x, y) in micrometres.
    pub places: Vec<[f32; 2]>,
    /// Standard deviation of the noise of each, in microvolts after filter and reference.
    pub noise: Vec<f32>,
    /// Standard deviation of what the channels around each see together (`Settings::focus_um`), 1 where their noise is
    /// independent.
    pub focused: Vec<f32>,
    /// For [`Reference::Regression`]: what each channel (first) adds to what is subtracted from each (second).
    pub regression: Vec<f32>,
}

impl Layout {
    /// All channels of a row with the same noise in microvolts, and no known places: each far from the others.
    pub fn with_noise(row_channels: usize, noise: f32) -> Self {
        let used = 0..row_channels.min(MAX_CHANNELS + 1) as u32;
        Self {
            row_channels,
            places: used.clone().map(|c| [1e4 * c as f32, 0.0]).collect(),
            noise: vec![noise; used.len()],
            focused: vec![1.0; used.len()],
            regression: Vec::new(),
            used: used.collect(),
        }
    }

    /// Number of channels that are used.
    pub fn channels(&self) -> usize {
        self.used.len()
    }

    pub(crate) fn check(&self, reference: Reference) -> Result<()> {
        let n = self.used.len();
        if n == 0 || self.row_channels > MAX_CHANNELS {
            return Err(Error::argument(format!(
                "channels: expected 1 to {MAX_CHANNELS} with one in use at least, got {} of {}",
                n, self.row_channels
            )));
        }
        let regressed = match reference {
            Reference::Regression => n * n,
            _ => 0,
        };
        if n > self.row_channels
            || self.places.len() != n
            || self.noise.len() != n
            || self.focused.len() != n
            || self.regression.len() != regressed
        {
            return Err(Error::mismatch(format!(
                "channels: expected places, noise, focused noise and regression of {n} channels out of {}, got {}, {}, {} and {}",
                self.row_channels,
                self.places.len(),
                self.noise.len(),
                self.focused.len(),
                self.regression.len()
            )));
        }
        for (i, &channel) in self.used.iter().enumerate() {
            let noise = self.noise[i];
            let place = self.places[i];
            if channel as usize >= self.row_channels {
                return Err(Error::argument(format!(
                    "channels: expected numbers below {}, got {channel}",
                    self.row_channels
                )));
            }
            let focused = self.focused[i];
            if !(focused.is_finite() && focused > 0.0) {
                return Err(Error::argument(format!(
                    "channel {channel}: expected focused noise above 0, got {focused}"
                ))
                .with_channel(channel as usize));
            }
            if !(noise.is_finite() && noise > 0.0 && place.iter().all(|p| p.is_finite())) {
                return Err(Error::argument(format!(
                    "channel {channel}: expected noise above 0 and a finite place, got {noise} µV at {place:?}"
                ))
                .with_channel(channel as usize));
            }
        }
        if self.regression.iter().any(|w| !w.is_finite()) {
            return Err(Error::argument("regression: expected finite weights"));
        }
        Ok(())
    }

    pub(crate) fn distance(&self, a: usize, b: usize) -> f32 {
        let ([ax, ay], [bx, by]) = (self.places[a], self.places[b]);
        (ax - bx).hypot(ay - by)
    }
}
