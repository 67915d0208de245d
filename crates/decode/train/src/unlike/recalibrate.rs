//! Recalibration without labels: the gain of each channel from its rate, and stage 1 solved again for channels of these
//! gains.
//!
//! With g the gains, Γ_c and Υ_c the centred sums that the model retains, and m and Γ_w the mean and covariance of the
//! features in the window:
//!
//! ```text
//! g = clip(m/μ, 0, 1.5)    D = diag(g) Γ_c diag(g) + (Γ_w − diag(g) Γ_c diag(g))₊ of each channel's own filters
//! φ = (D + λI)⁻¹ (g ∘ Υ_c)
//! ```
//!
//! The second part of D is the noise that thinned spikes add. A channel whose slope on the others does not fit its rate
//! gets its slope as its gain ([`super::slopes`]). What a user does changes rates, too: the change is
//! compared with the directions in which rates change together in training (their first principal components). Only a
//! change that lies mostly outside of them counts as drift; in all other cases nothing is suggested.

use super::slopes::ChannelSlopes;
use crate::retained::{Refit, StoredStatistics};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_base::progress::Progress;
use betz_gram::NormalEquations;
use betz_gram::gram::{GramPath, normal_equations};
use betz_linear::{Cholesky, Mat, eigen, product};
use betz_recording::{Dataset, DatasetView};
use betz_runtime::model::Decoder;

/// Shortest window, in seconds.
pub const LEAST_SECONDS: f64 = 100.0;
/// Least change of rates that behaviour does not explain: root mean square of the relative changes that are left.
const LEAST_UNEXPLAINED: f64 = 0.2;
/// Largest share of the change of rates that behaviour explains.
const MOST_EXPLAINED: f64 = 0.6;
/// Least variance of a latent in the window, as a share of that expected: a window of few targets has less.
const LEAST_COVERAGE: f64 = 0.5;
/// Largest gain.
const MOST_GAIN: f64 = 1.5;
/// Principal components of the rates, and channels in use per component.
const COMPONENTS: usize = 12;
const CHANNELS_PER_COMPONENT: usize = 4;
/// Residual beyond which a channel's relative change counts less (Huber).
const HUBER: f64 = 0.15;
/// Ridge of the fit of changes, for components of variance 1.
const FIT_RIDGE: f64 = 0.3;
const FIT_STEPS: usize = 30;
/// Largest relative change of a rate that counts.
const MOST_CHANGE: f64 = 3.0;
/// A channel with a gain below this is silent; if more than half of the channels in use are, nothing is suggested.
const SILENT: f64 = 0.05;
/// The filter whose time to its peak is nearest to this gives the rates' common changes.
const PEAK_SECONDS: f64 = 0.3;

/// Report of a window without labels.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Recalibration {
    /// Length of the window, in seconds.
    pub seconds: f64,
    /// Share of the change of rates that lies where rates change together in training: what behaviour explains.
    pub explained: f64,
    /// Root mean square of the relative changes of rates that are left.
    pub unexplained: f64,
    /// Least variance of a latent in the window over that expected of the recalibrated decoder.
    pub coverage: f64,
    /// Gain of each channel; 1 for channels that take no part.
    pub gains: Vec<f64>,
    /// Channels whose gain is their slope on the other channels, because it does not fit their rate; in ascending order.
    /// Empty if the rates suggest nothing.
    pub odd: Vec<usize>,
    /// Reason for which nothing is suggested; `None` if the recalibrated decoder is.
    pub refusal: Option<String>,
}

/// Recalibrates `decoder` for the channels of `window`, which needs no behaviour, if the rule above takes the window
/// for drift. The decoder is `None` if nothing is suggested: keep the one that there is.
///
/// Start from the decoder as it was trained, not from a recalibrated one: slow drift is compared with training.
///
/// # Errors
/// [`ErrorKind::InsufficientData`] if the decoder does not retain its sums, or has too few channels;
/// [`ErrorKind::Mismatch`] for a window of other channels; the errors of [`Refit`].
pub fn recalibrate(
    decoder: &Decoder,
    window: &Dataset,
    progress: &dyn Progress,
) -> Result<(Recalibration, Option<Decoder>)> {
    let retained = StoredStatistics::read(decoder)?;
    if !decoder.channel_means().is_empty() {
        let reason = "the model decodes a signal, whose channels have no rates";
        return Ok((Recalibration::refused(reason.to_owned()), None));
    }
    if window.channel_names.as_slice() != decoder.channel_names() {
        return Err(Error::mismatch(format!(
            "recalibrate: expected a window of the model's {} channels, in their order, got {}",
            decoder.channels(),
            window.channel_names.len()
        )));
    }
    let view = DatasetView {
        outputs: &[],
        behavior: &[],
        ..window.view()
    };
    let (bank, low_pass) = (decoder.bank(), decoder.low_pass());
    let (sums, _) = normal_equations(view, bank, low_pass, 0, GramPath::Auto, progress)?;
    let mut shift = RateShift::new(decoder, &retained.sums, &sums)?;
    let encoding = shift.encoding()?;
    let (explained, unexplained) = shift.explain(&encoding.changes);
    let mut found = Recalibration {
        seconds: sums.steps as f64 * decoder.step_seconds(),
        explained,
        unexplained,
        coverage: f64::NAN,
        gains: shift.gains.clone(),
        odd: Vec::new(),
        refusal: None,
    };
    found.refusal = found.refuse_by_rates().or_else(|| shift.refuse_silence());
    if found.refusal.is_some() {
        return Ok((found, None));
    }
    found.odd = shift.correct_by_slopes(&encoding.predictions);
    found.gains.clone_from(&shift.gains);
    let expected = shift.expected_sums()?;
    let solved = Refit::new(decoder, &retained)?.solve(&expected, retained.ridge)?;
    found.coverage = coverage(&solved, &expected, &sums);
    if found.coverage.is_nan() || found.coverage <= LEAST_COVERAGE {
        found.refusal = Some(format!(
            "a latent varies {:.2} times as much as expected (more than {LEAST_COVERAGE} is needed): the window has too few \
             kinds of movement",
            found.coverage
        ));
        return Ok((found, None));
    }
    Ok((found, Some(solved)))
}

impl Recalibration {
    /// The report of a window that could not be looked at.
    pub(super) fn refused(reason: String) -> Self {
        Self {
            seconds: 0.0,
            explained: f64::NAN,
            unexplained: f64::NAN,
            coverage: f64::NAN,
            gains: Vec::new(),
            odd: Vec::new(),
            refusal: Some(reason),
        }
    }

    fn refuse_by_rates(&self) -> Option<String> {
        let Self {
            seconds,
            explained,
            unexplained,
            ..
        } = self;
        if *seconds < LEAST_SECONDS {
            return Some(format!(
                "the window has {seconds:.0} s, at least {LEAST_SECONDS} s are needed"
            ));
        }
        if unexplained.is_nan() || *unexplained < LEAST_UNEXPLAINED {
            return Some(format!(
                "rates changed by {:.0} % beyond behaviour, at least {:.0} % are needed",
                100.0 * unexplained,
                100.0 * LEAST_UNEXPLAINED
            ));
        }
        (explained.is_nan() || *explained >= MOST_EXPLAINED).then(|| {
            format!(
                "behaviour explains {:.0} % of the change of rates, less than {:.0} % is needed",
                100.0 * explained,
                100.0 * MOST_EXPLAINED
            )
        })
    }
}

/// Prediction of each channel in use from the principal components of all other channels.
struct Encoding {
    /// Relative change of each channel per unit of each component, (channel, component).
    changes: Mat<f64>,
    /// Weights of the other channels, (channel, other).
    predictions: Mat<f64>,
}

/// Means of features in training and in a window.
struct RateShift<'a> {
    training: &'a NormalEquations,
    window: &'a NormalEquations,
    filters: usize,
    /// The filter that stands for a channel.
    filter: usize,
    /// Channels that take part and fired in training.
    used: Vec<usize>,
    mean: Vec<f64>,
    window_mean: Vec<f64>,
    gains: Vec<f64>,
}

impl<'a> RateShift<'a> {
    fn new(
        decoder: &Decoder,
        training: &'a NormalEquations,
        window: &'a NormalEquations,
    ) -> Result<Self> {
        let bank = decoder.bank();
        let distance = |i: usize| float::ln(bank.peak_seconds(i) / PEAK_SECONDS).abs();
        let filter = (0..bank.len()).min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        let (filter, filters) = (filter.unwrap_or(0), bank.len());
        let (mean, window_mean) = (training.feature_mean(), window.feature_mean());
        let used: Vec<usize> = (decoder.channel_mask().iter().enumerate())
            .filter(|(channel, used)| **used && mean[channel * filters + filter] > 0.0)
            .map(|(channel, _)| channel)
            .collect();
        if used.len() < 2 * CHANNELS_PER_COMPONENT {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "recalibrate: expected at least {} channels in use, got {}",
                    2 * CHANNELS_PER_COMPONENT,
                    used.len()
                ),
            ));
        }
        let mut gains = vec![1.0; decoder.channels()];
        for &channel in &used {
            let feature = channel * filters + filter;
            gains[channel] = (window_mean[feature] / mean[feature]).clamp(0.0, MOST_GAIN);
        }
        Ok(Self {
            training,
            window,
            filters,
            filter,
            used,
            mean,
            window_mean,
            gains,
        })
    }

    fn feature(&self, channel: usize) -> usize {
        channel * self.filters + self.filter
    }

    /// Covariance of two features in training.
    fn covariance(&self, a: usize, b: usize) -> f64 {
        let sums = self.training;
        sums.gram[a * sums.features + b] / sums.steps as f64 - self.mean[a] * self.mean[b]
    }

    /// Covariance of two features in the window.
    fn window_covariance(&self, a: usize, b: usize) -> f64 {
        let sums = self.window;
        let product = sums.gram[a * sums.features + b] / sums.steps as f64;
        product - self.window_mean[a] * self.window_mean[b]
    }

    /// Covariances of the channels in use.
    fn covariances(&self, of: impl Fn(usize, usize) -> f64) -> Mat<f64> {
        let n = self.used.len();
        Mat::from_fn(n, n, |i, j| {
            of(self.feature(self.used[i]), self.feature(self.used[j]))
        })
    }

    fn refuse_silence(&self) -> Option<String> {
        let silent = (self.used.iter())
            .filter(|&&channel| self.gains[channel] < SILENT)
            .count();
        let used = self.used.len();
        (2 * silent > used)
            .then(|| format!("{silent} of {used} channels are silent, at most half may be"))
    }

    /// Takes the slopes of odd channels for their gains; returns the numbers of these channels.
    fn correct_by_slopes(&mut self, predictions: &Mat<f64>) -> Vec<usize> {
        let training = self.covariances(|a, b| self.covariance(a, b));
        let window = self.covariances(|a, b| self.window_covariance(a, b));
        let slopes = ChannelSlopes {
            training: &training,
            window: &window,
            predictions,
        };
        let rates: Vec<f64> = self
            .used
            .iter()
            .map(|&channel| self.gains[channel])
            .collect();
        let (gains, odd) = slopes.correct(&rates, MOST_GAIN);
        for (&channel, gain) in self.used.iter().zip(gains) {
            self.gains[channel] = gain;
        }
        let odd = self.used.iter().zip(odd).filter(|(_, odd)| *odd);
        odd.map(|(&channel, _)| channel).collect()
    }

    /// Share of the relative changes of rates that the channels' common changes in training explain, and the root mean
    /// square of the rest.
    fn explain(&self, encoding: &Mat<f64>) -> (f64, f64) {
        let n = self.used.len();
        let change = |&channel: &usize| {
            let f = self.feature(channel);
            (self.window_mean[f] / self.mean[f] - 1.0).clamp(-MOST_CHANGE, MOST_CHANGE)
        };
        let changes: Vec<f64> = self.used.iter().map(change).collect();
        let k = encoding.ncols();
        let mut weights = vec![1.0; n];
        let mut rest = changes.clone();
        for _ in 0..FIT_STEPS {
            let system = Mat::from_fn(k, k, |i, j| {
                let sum: f64 = (0..n)
                    .map(|c| weights[c] * encoding[(c, i)] * encoding[(c, j)])
                    .sum();
                sum + if i == j { FIT_RIDGE } else { 0.0 }
            });
            let right = Mat::from_fn(k, 1, |i, _| {
                (0..n)
                    .map(|c| weights[c] * encoding[(c, i)] * changes[c])
                    .sum::<f64>()
            });
            let Ok(factor) = Cholesky::new(system.as_ref()) else {
                break;
            };
            let fitted = product(encoding.as_ref(), factor.solve(right.as_ref()).as_ref());
            for (c, (rest, weight)) in rest.iter_mut().zip(&mut weights).enumerate() {
                *rest = changes[c] - fitted[(c, 0)];
                *weight = (HUBER / rest.abs().max(1e-9)).min(1.0);
            }
        }
        let squares = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>();
        let all = squares(&changes);
        let explained = if all > 0.0 {
            1.0 - squares(&rest) / all
        } else {
            1.0
        };
        (explained, (squares(&rest) / n as f64).sqrt())
    }

    /// The prediction of each channel in use from the first principal components of all *other* channels.
    fn encoding(&self) -> Result<Encoding> {
        let n = self.used.len();
        let k = COMPONENTS.min(n / CHANNELS_PER_COMPONENT);
        let covariance = self.covariances(|a, b| self.covariance(a, b));
        let deviation: Vec<f64> = (0..n)
            .map(|i| covariance[(i, i)].max(0.0).sqrt() + 1e-9)
            .collect();
        let correlation = Mat::from_fn(n, n, |i, j| {
            covariance[(i, j)] / (deviation[i] * deviation[j])
        });
        let own = eigen(correlation.as_ref()).ok_or_else(|| {
            Error::new(
                ErrorKind::NonFinite,
                "recalibrate: expected finite stored statistics, got NaN or infinity",
            )
        })?;
        // Eigenvalues ascend; components have variance 1.
        let components = Mat::from_fn(n, k, |i, j| {
            let at = n - 1 - j;
            own.vectors[(i, at)] / (deviation[i] * own.values[at].max(1e-9).sqrt())
        });
        let mut changes = Mat::<f64>::zeros(n, k);
        let mut predictions = Mat::<f64>::zeros(n, n);
        for c in 0..n {
            let others = Mat::from_fn(n, k, |i, j| if i == c { 0.0 } else { components[(i, j)] });
            let turned = product(covariance.as_ref(), others.as_ref());
            let inner = product(others.transpose(), turned.as_ref());
            let trace: f64 = (0..k).map(|i| inner[(i, i)]).sum();
            let ridge = 1e-3 * trace / k as f64 + 1e-12;
            let system = Mat::from_fn(k, k, |i, j| {
                inner[(i, j)] + if i == j { ridge } else { 0.0 }
            });
            let right = Mat::from_fn(k, 1, |i, _| turned[(c, i)]);
            let Ok(factor) = Cholesky::new(system.as_ref()) else {
                continue;
            };
            let slopes = factor.solve(right.as_ref());
            let mean = self.mean[self.feature(self.used[c])];
            for j in 0..k {
                changes[(c, j)] = slopes[(j, 0)] / mean;
            }
            let weights = product(others.as_ref(), slopes.as_ref());
            for other in 0..n {
                predictions[(c, other)] = weights[(other, 0)];
            }
        }
        Ok(Encoding {
            changes,
            predictions,
        })
    }

    /// The sums that training would have had with channels of these gains, and the window's mean.
    fn expected_sums(&self) -> Result<NormalEquations> {
        let (from, n, filters) = (self.training, self.training.features, self.filters);
        let (steps, outputs) = (from.steps as f64, from.outputs);
        let gain = |feature: usize| self.gains[feature / filters];
        let mut sums = from.clone();
        for i in 0..n {
            for j in 0..n {
                let scaled = gain(i) * gain(j) * self.covariance(i, j);
                sums.gram[i * n + j] = steps * (scaled + self.window_mean[i] * self.window_mean[j]);
            }
            sums.feature_sum[i] = steps * self.window_mean[i];
            for o in 0..outputs {
                let at = i * outputs + o;
                let mean = from.output_sum[o] / steps;
                let centred = from.upsilon[at] - from.feature_sum[i] * mean;
                sums.upsilon[at] = gain(i) * centred + sums.feature_sum[i] * mean;
            }
        }
        for &channel in &self.used {
            self.add_noise(channel, &mut sums)?;
        }
        Ok(sums)
    }

    /// Adds the variance that the gain does not explain to the own block of `channel`: the positive part of the
    /// difference.
    fn add_noise(&self, channel: usize, sums: &mut NormalEquations) -> Result<()> {
        let (n, filters, steps) = (sums.features, self.filters, sums.steps as f64);
        let (first, gain) = (channel * filters, self.gains[channel]);
        let difference = Mat::from_fn(filters, filters, |i, j| {
            let (a, b) = (first + i, first + j);
            self.window_covariance(a, b) - gain * gain * self.covariance(a, b)
        });
        let Some(own) = eigen(difference.as_ref()) else {
            return Err(Error::new(
                ErrorKind::NonFinite,
                "recalibrate: expected finite features in the window, got NaN or infinity",
            ));
        };
        for i in 0..filters {
            for j in 0..filters {
                let positive: f64 = (0..filters)
                    .map(|e| own.values[e].max(0.0) * own.vectors[(i, e)] * own.vectors[(j, e)])
                    .sum();
                sums.gram[(first + i) * n + first + j] += steps * positive;
            }
        }
        Ok(())
    }
}

/// The sums that training would have had if its channels had changed from those of `training` to those of `window`.
#[cfg(test)]
pub(super) fn expected_from(
    decoder: &Decoder,
    training: &NormalEquations,
    window: &NormalEquations,
) -> Result<NormalEquations> {
    RateShift::new(decoder, training, window)?.expected_sums()
}

/// The least variance of a latent of `decoder` over `window` as a share of that over `expected`.
fn coverage(decoder: &Decoder, expected: &NormalEquations, window: &NormalEquations) -> f64 {
    let k = decoder.latents();
    let variances = |sums: &NormalEquations| {
        let (mean, steps) = (sums.feature_mean(), sums.steps as f64);
        let turned = sums.gram_times(decoder.weights(), k);
        let mut variances = vec![0.0; k];
        let mut means = vec![0.0; k];
        for ((row, turned), mean) in (decoder.weights().chunks_exact(k))
            .zip(turned.chunks_exact(k))
            .zip(mean)
        {
            for i in 0..k {
                variances[i] += row[i] * turned[i] / steps;
                means[i] += row[i] * mean;
            }
        }
        (variances.iter().zip(means))
            .map(|(v, m)| v - m * m)
            .collect::<Vec<f64>>()
    };
    let (there, here) = (variances(expected), variances(window));
    (here.iter().zip(there))
        .filter(|(_, there)| *there > 0.0)
        .map(|(here, there)| here / there)
        .fold(f64::INFINITY, f64::min)
}
