//! Gains of channels whose slope on the other channels does not fit their rate: another unit fires there now.
//!
//! Each channel c is regressed on the prediction of it from the others, a = P_c. With the rates' gains g, and inverse
//! gains applied to the others in the window:
//!
//! ```text
//! slope_c = (Γ_w,c·a_w / a_wᵀΓ_w a_w) / (Γ_c·a_0 / a_0ᵀΓ a_0)    ρ_c = slope_c / g_c, scaled to a median of 1
//! ```
//!
//! A channel with ρ below 0.4 or above 2.5 is odd: its gain is its slope, and it predicts no other channel.

use betz_linear::{Mat, product};

/// Rounds in which odd channels are found.
const ROUNDS: usize = 4;
/// Least share of its variance that the others explain in training.
const LEAST_R2: f64 = 0.05;
/// Channels of a smaller gain have no slope, and those of a gain below the second predict no other channel.
const LEAST_GAIN: f64 = 0.05;
const LEAST_PREDICTOR_GAIN: f64 = 0.1;
/// Slopes over gains of channels that are not odd.
const EVEN: std::ops::RangeInclusive<f64> = 0.4..=2.5;

/// Channels of training and of a window.
pub(super) struct ChannelSlopes<'a> {
    /// Covariances in training and in the window, (channel, channel).
    pub(super) training: &'a Mat<f64>,
    pub(super) window: &'a Mat<f64>,
    /// Weights of each channel in the prediction of others, (predicted, predictor); 0 on the diagonal.
    pub(super) predictions: &'a Mat<f64>,
}

impl ChannelSlopes<'_> {
    /// Gains of the channels, those of rates but for odd channels, and which are odd. Gains are at most `most`.
    pub(super) fn correct(&self, rates: &[f64], most: f64) -> (Vec<f64>, Vec<bool>) {
        let n = rates.len();
        let explained = self.explained();
        let (mut gains, mut odd) = (rates.to_vec(), vec![false; n]);
        for _ in 0..ROUNDS {
            let inverse: Vec<f64> = (gains.iter().zip(&odd))
                .map(|(g, odd)| match *odd || *g <= LEAST_PREDICTOR_GAIN {
                    true => 0.0,
                    false => g.recip(),
                })
                .collect();
            let kept: Vec<f64> = inverse.iter().map(|w| f64::from(*w > 0.0)).collect();
            let before = slopes(self.training, self.predictions, &kept);
            let now = slopes(self.window, self.predictions, &inverse);
            let ratio: Vec<f64> = now.iter().zip(before).map(|(a, b)| a / b).collect();
            let has_slope: Vec<bool> = (0..n)
                .map(|c| ratio[c].is_finite() && explained[c] > LEAST_R2 && rates[c] > LEAST_GAIN)
                .collect();
            let mut common: Vec<f64> = (0..n)
                .filter(|&c| has_slope[c])
                .map(|c| ratio[c] / rates[c])
                .collect();
            common.sort_unstable_by(f64::total_cmp);
            let Some(middle) = common.get(common.len() / 2).filter(|m| **m > 0.0) else {
                break;
            };
            for c in 0..n {
                let slope = ratio[c] / middle;
                odd[c] = has_slope[c] && !EVEN.contains(&(slope / rates[c]));
                gains[c] = match odd[c] {
                    true => slope.clamp(0.0, most),
                    false => rates[c],
                };
            }
        }
        (gains, odd)
    }

    /// Share of each channel's variance in training that its prediction explains.
    fn explained(&self) -> Vec<f64> {
        let turned = product(self.predictions.as_ref(), self.training.as_ref());
        (0..turned.nrows())
            .map(|c| {
                let own: f64 = (0..turned.ncols())
                    .map(|j| turned[(c, j)] * self.predictions[(c, j)])
                    .sum();
                turned[(c, c)].powi(2) / (own * self.training[(c, c)]).max(1e-12)
            })
            .collect()
    }
}

/// Slope of each channel on its prediction, whose weights are multiplied by those of the predictors; NaN without one.
fn slopes(covariance: &Mat<f64>, predictions: &Mat<f64>, weights: &[f64]) -> Vec<f64> {
    let n = weights.len();
    let weighted = Mat::from_fn(n, n, |c, j| predictions[(c, j)] * weights[j]);
    let turned = product(weighted.as_ref(), covariance.as_ref());
    let slope = |c: usize| {
        let variance: f64 = (0..n).map(|j| turned[(c, j)] * weighted[(c, j)]).sum();
        match variance > 0.0 {
            true => turned[(c, c)] / variance,
            false => f64::NAN,
        }
    };
    (0..n).map(slope).collect()
}
