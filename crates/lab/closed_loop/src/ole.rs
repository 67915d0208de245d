use betz_base::{Error, Result};
use betz_linear::Mat;

use crate::Decoder;
use crate::data::TrainingData;
use crate::linear::regress;

/// Optimal linear estimator: velocity as a weighted sum of exponentially smoothed counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Ole {
    keep: f64,
    /// (channel and constant, coordinate).
    weights: Mat<f64>,
    state: Option<Vec<f64>>,
}

impl Ole {
    /// Trains on counts smoothed with time constant `tau_s`; the ridge is this part of each channel's
    /// sum of squares about its mean.
    ///
    /// # Errors
    /// `InvalidArgument` for a smoothing or ridge that is none; `InsufficientData`; `NotPositiveDefinite`
    /// for channels without a spike and no ridge.
    pub fn train(data: &TrainingData, tau_s: f64, ridge: f64) -> Result<Self> {
        let channels = data.channels()?;
        if !(tau_s.is_finite() && tau_s >= 0.0 && ridge.is_finite() && ridge >= 0.0) {
            return Err(Error::argument(format!(
                "OLE: expected a smoothing from 0 s and a ridge from 0, got {tau_s} and {ridge}"
            )));
        }
        let keep = if tau_s == 0.0 {
            0.0
        } else {
            (-data.bin_s / tau_s).exp()
        };
        let mut ole = Self {
            keep,
            weights: Mat::zeros(channels + 1, 2),
            state: None,
        };
        let mut rows = Vec::with_capacity(data.bins.len());
        for bin in &data.bins {
            ole.smooth(&bin.counts);
            let mut row = ole.state.clone().unwrap_or_default();
            row.push(1.0);
            rows.push(row);
        }
        let n = rows.len() as f64;
        let mut ridges: Vec<f64> = (0..channels)
            .map(|c| {
                let mean = rows.iter().map(|r| r[c]).sum::<f64>() / n;
                let spread: f64 = rows.iter().map(|r| (r[c] - mean).powi(2)).sum();
                // A silent channel has no spread, but must not make the system singular.
                ridge * (spread + 1e-9 * n)
            })
            .collect();
        ridges.push(0.0);
        let pairs = rows.iter().zip(&data.bins);
        let pairs = pairs.map(|(row, bin)| (row.as_slice(), bin.velocity.as_slice()));
        ole.weights = regress(pairs, channels + 1, 2, &ridges)?;
        ole.reset();
        Ok(ole)
    }

    fn smooth(&mut self, counts: &[u32]) {
        match &mut self.state {
            Some(state) => {
                for (s, c) in state.iter_mut().zip(counts) {
                    *s = self.keep * *s + (1.0 - self.keep) * f64::from(*c);
                }
            }
            None => self.state = Some(counts.iter().map(|c| f64::from(*c)).collect()),
        }
    }
}

impl Decoder for Ole {
    fn reset(&mut self) {
        self.state = None;
    }

    fn step(&mut self, counts: &[u32], _: [f64; 2]) -> [f64; 2] {
        self.smooth(counts);
        let state = self.state.as_deref().unwrap_or_default();
        let constant = self.weights.nrows() - 1;
        [0, 1].map(|i| {
            let weighted = state
                .iter()
                .enumerate()
                .map(|(c, s)| s * self.weights[(c, i)]);
            weighted.sum::<f64>() + self.weights[(constant, i)]
        })
    }
}
