//! Scores of decoded outputs trial by trial, against chance, and by channel.
//!
//! ```
//! use betz_device::Device;
//! use betz_gram::decode::decode;
//! use betz_train::Training;
//! use betz_train::trials::TrialPairs;
//!
//! # fn main() -> betz_base::Result<()> {
//! let data = betz_simulate::poisson(10, 20.0, 5_000, 0.01, 1)?;
//! let model = Training::default().run(&data, &Device::cpu(), &())?.decoder;
//! let decoded = decode(&model, &data)?;
//! let pairs = TrialPairs::new(&data, &decoded, model.delay_steps(), 0)?;
//! let chance = pairs.chance(100, 1, &|_| {});
//! assert!(chance.r2_95 < 1.0);
//! # Ok(())
//! # }
//! ```

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
use betz_base::text::count;
use betz_device::Device;
use betz_gram::decode::decode_on;
use betz_recording::{Dataset, DatasetView};
use betz_runtime::model::Decoder;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Draws of trials behind an interval.
const DRAWS: usize = 1000;

/// True and decoded values of one output, trial by trial, at the steps that have both.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialPairs {
    /// Half-open ranges of `truth`, one per trial that has a pair.
    pub trials: Vec<Range<usize>>,
    /// Segment of each trial.
    pub segments: Vec<usize>,
    /// Length of a step in seconds.
    pub step_seconds: f64,
    /// Time of each pair's truth in seconds: the end of its step.
    pub seconds: Vec<f64>,
    /// True values.
    pub truth: Vec<f64>,
    /// Decoded values.
    pub estimate: Vec<f64>,
}

/// Scores of one trial.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TrialScore {
    /// Segment of the trial.
    pub segment: usize,
    /// Start of the trial in seconds.
    pub start_seconds: f64,
    /// Explained part of the variance.
    pub r2: f64,
    /// Root of the mean square error.
    pub rmse: f64,
    /// Pearson's correlation.
    pub correlation: f64,
}

/// Scores against shifted behaviour.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ChanceLevel {
    /// Number of shifts.
    pub shifts: u32,
    /// Mean R² over shifts.
    pub r2_mean: f64,
    /// R² that 95 of 100 shifts stay below.
    pub r2_95: f64,
    /// Magnitude of the correlation that 95 of 100 shifts stay below.
    pub correlation_95: f64,
}

/// Loss of an output when one channel carries no information.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ChannelLoss {
    /// Name of the channel.
    pub channel: String,
    /// R² (mean error taken off) that is lost without it.
    pub r2_lost: f64,
}

impl TrialPairs {
    /// Pairs of output `output` of `data` with `decoded` (steps × outputs), which estimates step t at step
    /// t + `delay_steps`. Pairs whose ends lie in different segments do not count.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for an output that `data` lacks, or estimates
    /// of another shape.
    pub fn new(data: &Dataset, decoded: &[f32], delay_steps: i64, output: usize) -> Result<Self> {
        let width = data.outputs.len();
        if output >= width || [decoded.len(), data.behavior.len()] != [data.steps * width; 2] {
            return Err(Error::mismatch(format!(
                "trials: expected {} steps of {width} outputs, among them number {output}, got {} estimates",
                data.steps,
                decoded.len()
            )));
        }
        let mut pairs = Self {
            trials: Vec::new(),
            segments: Vec::new(),
            step_seconds: data.step_seconds,
            seconds: Vec::new(),
            truth: Vec::new(),
            estimate: Vec::new(),
        };
        for (number, s) in data.segments.iter().enumerate() {
            let first = pairs.truth.len();
            for t in s.start..s.stop {
                let emitted = t.saturating_add(delay_steps);
                if !(s.start..s.stop).contains(&emitted) {
                    continue;
                }
                let at = |step: i64| step as usize * width + output;
                pairs.truth.push(f64::from(data.behavior[at(t)]));
                pairs.estimate.push(f64::from(decoded[at(emitted)]));
                pairs.seconds.push((t + 1) as f64 * data.step_seconds);
            }
            if pairs.truth.len() > first {
                pairs.trials.push(first..pairs.truth.len());
                pairs.segments.push(number);
            }
        }
        Ok(pairs)
    }

    fn sums(&self, range: Range<usize>) -> PairSums {
        let mut sums = PairSums::default();
        for i in range {
            sums.add(self.truth[i], self.estimate[i]);
        }
        sums
    }

    fn all(&self) -> PairSums {
        self.sums(0..self.truth.len())
    }

    /// Pearson's correlation over all pairs; NaN if the truth never changes.
    pub fn correlation(&self) -> f64 {
        self.all().correlation()
    }

    /// R² with the mean error taken off: the part that the course alone explains.
    pub(crate) fn r2_of_course(&self) -> f64 {
        self.all().r2_of_course()
    }

    /// Scores of every trial.
    pub fn scores(&self) -> Vec<TrialScore> {
        let one = |(range, &segment): (&Range<usize>, &usize)| {
            let sums = self.sums(range.clone());
            TrialScore {
                segment,
                start_seconds: self.seconds[range.start] - self.step_seconds,
                r2: sums.r2(),
                rmse: (sums.error / sums.n).sqrt(),
                correlation: sums.correlation(),
            }
        };
        self.trials.iter().zip(&self.segments).map(one).collect()
    }

    /// Bounds of R² in 95 of 100 draws of as many trials; `None` with fewer than three trials.
    pub fn r2_interval(&self, seed: u64) -> Option<[f64; 2]> {
        let trials: Vec<PairSums> = self.trials.iter().map(|t| self.sums(t.clone())).collect();
        if trials.len() < 3 {
            return None;
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drawn = (0..DRAWS).map(|_| {
            let mut sums = PairSums::default();
            for _ in 0..trials.len() {
                sums.join(&trials[rng.random_range(0..trials.len())]);
            }
            sums.r2()
        });
        let drawn = sorted(drawn);
        Some([quantile(&drawn, 0.025), quantile(&drawn, 0.975)])
    }

    /// Scores against the truth shifted, end to begin, by at least a twentieth of its length. Calls
    /// `progress` with the number of shifts that are done.
    pub fn chance(&self, shifts: u32, seed: u64, progress: &dyn Fn(u32)) -> ChanceLevel {
        let n = self.truth.len();
        let least = n / 20;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let scores: Vec<PairSums> = (0..shifts)
            .map(|done| {
                progress(done);
                let by = if n > 2 {
                    rng.random_range(least.max(1)..(n - least).max(least + 2))
                } else {
                    0
                };
                let mut sums = PairSums::default();
                for (i, &y) in self.estimate.iter().enumerate() {
                    sums.add(self.truth[(i + by) % n], y);
                }
                sums
            })
            .collect();
        let r2 = sorted(scores.iter().map(PairSums::r2));
        let correlations = sorted(scores.iter().map(|s| s.correlation().abs()));
        ChanceLevel {
            shifts,
            r2_mean: r2.iter().sum::<f64>() / r2.len() as f64,
            r2_95: quantile(&r2, 0.95),
            correlation_95: quantile(&correlations, 0.95),
        }
    }
}

/// Loss of every output of `model` on `data`, given as `pairs`, when each channel in turn carries only its
/// mean. One list per output, the most important channel first; one decoding per channel.
///
/// # Errors
/// As [`decode_on`] and [`TrialPairs::new`]; those of `progress`.
pub fn channel_importance(
    device: &Device,
    model: &Decoder,
    data: &Dataset,
    pairs: &[TrialPairs],
    progress: &dyn Progress,
) -> Result<Vec<Vec<ChannelLoss>>> {
    let width = model.bank().len() * model.latents();
    let whole: Vec<f64> = pairs.iter().map(TrialPairs::r2_of_course).collect();
    let mut lost: Vec<Vec<ChannelLoss>> = pairs.iter().map(|_| Vec::new()).collect();
    let used: Vec<usize> = (0..model.channels())
        .filter(|&c| model.channel_mask()[c])
        .collect();
    for (done, &channel) in used.iter().enumerate() {
        progress.update("leaving channels out", done as u64, used.len() as u64);
        progress::check(progress, "leaving channels out")?;
        let mut parts = model.parts().clone();
        parts.weights[channel * width..(channel + 1) * width].fill(0.0);
        let without = Decoder::new(parts)?;
        let decoded = decode_on(device, &without, data)?;
        for (o, lost) in lost.iter_mut().enumerate() {
            let left = TrialPairs::new(data, &decoded.estimates, model.delay_steps(), o)?;
            lost.push(ChannelLoss {
                channel: model.channel_names()[channel].clone(),
                r2_lost: whole[o] - left.r2_of_course(),
            });
        }
    }
    for lost in &mut lost {
        lost.sort_by(|a, b| b.r2_lost.total_cmp(&a.r2_lost));
    }
    Ok(lost)
}

/// Sums behind R² and correlation.
#[derive(Clone, Copy, Default)]
struct PairSums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
    /// Σ (x − y)².
    error: f64,
}

impl PairSums {
    fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.yy += y * y;
        self.xy += x * y;
        self.error += (x - y) * (x - y);
    }

    fn join(&mut self, other: &Self) {
        self.n += other.n;
        self.x += other.x;
        self.y += other.y;
        self.xx += other.xx;
        self.yy += other.yy;
        self.xy += other.xy;
        self.error += other.error;
    }

    fn squares(&self) -> f64 {
        let squares = self.xx - self.x * self.x / self.n;
        // Rounding alone is no change.
        if squares > 1e-12 * self.xx {
            squares
        } else {
            f64::NAN
        }
    }

    fn r2(&self) -> f64 {
        1.0 - self.error / self.squares()
    }

    fn correlation(&self) -> f64 {
        let own = self.yy - self.y * self.y / self.n;
        (self.xy - self.x * self.y / self.n) / (self.squares() * own).sqrt()
    }

    /// R² with the mean error taken off: what the course alone explains.
    fn r2_of_course(&self) -> f64 {
        let mean = (self.x - self.y) / self.n;
        1.0 - (self.error - self.n * mean * mean) / self.squares()
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((q * last as f64).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// Fewest segments that count as trials.
const LEAST_TRIALS: u64 = 5;

/// Segments so many times as long, or as short, are no trials of the same kind.
const OTHER_LENGTH: f64 = 10.0;

/// A warning for data whose segments are far longer or shorter than those that `decoder` was trained on: filters start
/// from rest with each segment, so that estimates are off where trials are missing. `None` if they are alike.
pub fn length_warning<'d>(decoder: &Decoder, data: impl Into<DatasetView<'d>>) -> Option<String> {
    let data = &data.into();
    let trained = decoder.training();
    if trained.segments.max(data.segments.len() as u64) < LEAST_TRIALS
        || trained.segments == 0
        || data.segments.is_empty()
    {
        return None;
    }
    let there = trained.steps as f64 / trained.segments as f64;
    let here = data.steps_in_segments() as f64 / data.segments.len() as f64;
    if here < OTHER_LENGTH * there && there < OTHER_LENGTH * here {
        return None;
    }
    Some(format!(
        "expected trials of about {there:.0} steps each, as the decoder was trained on ({}), got {} of {here:.0} steps: \
         filters start from rest with each trial, so give the trials here, too, or train without them",
        count(u128::from(trained.segments), "trial"),
        count(data.segments.len() as u128, "segment"),
    ))
}

/// A warning for trials most of which are a single step: labels that recur, or are no numbers, cut a recording so.
/// `None` if trials are longer.
pub(crate) fn single_step_warning<'d>(data: impl Into<DatasetView<'d>>) -> Option<String> {
    let segments = data.into().segments;
    let single = segments.iter().filter(|s| s.len() == 1).count();
    (segments.len() as u64 >= LEAST_TRIALS && 2 * single > segments.len()).then(|| {
        format!(
            "expected trials of several steps, got {} of one step among {}: filters start from rest with each, so \
             nothing is left of what they remember; sort steps by trial, and give each trial one label",
            count(single as u128, "trial"),
            segments.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::train;
    use crate::options::TrainOptions;
    use betz_gram::cases;
    use betz_recording::{Segment, Spikes};

    #[test]
    fn segments_of_another_length_than_those_trained_on_are_warned_of() {
        let spikes = cases::random_spikes(5, 4, 2000, 3000);
        let data = |bounds: &[(i64, i64)]| cases::dataset(4, bounds, spikes.clone(), 1);
        let every = |apart: i64, long: i64| -> Vec<(i64, i64)> {
            (0..20).map(|i| (i * apart, i * apart + long)).collect()
        };
        let (trials, others, whole) = (
            data(&every(100, 20)),
            data(&every(100, 60)),
            data(&[(0, 2000)]),
        );
        let options = TrainOptions::new(cases::bank(&[(20.0, 1)]));
        let by_trials = train(&trials, &options, &()).unwrap();
        assert_eq!(length_warning(&by_trials, &trials), None);
        assert_eq!(length_warning(&by_trials, &others), None);
        let warning = length_warning(&by_trials, &whole).unwrap();
        for words in [
            "trials of about 20 steps",
            "(20 trials)",
            "1 segment of 2000 steps",
        ] {
            assert!(warning.contains(words), "{warning}");
        }
        let by_all = train(&whole, &options, &()).unwrap();
        assert_eq!(length_warning(&by_all, &whole), None);
        assert!(length_warning(&by_all, &trials).is_some());
        assert_eq!(single_step_warning(&trials), None);
        let warning = single_step_warning(&data(&every(2, 1))).unwrap();
        assert!(
            warning.contains("20 trials of one step among 20"),
            "{warning}"
        );
    }

    fn pairs(noise: f64) -> TrialPairs {
        let steps = 600;
        let truth: Vec<f32> = (0..steps)
            .map(|t| (t as f32 * 0.13).sin() + (t as f32 * 0.031).cos())
            .collect();
        let dataset = Dataset {
            step_seconds: 0.1,
            steps,
            channel_names: vec!["a".into()],
            spikes: Spikes::default(),
            segments: (0..6)
                .map(|i| Segment {
                    start: i * 100,
                    stop: i * 100 + 100,
                })
                .collect(),
            outputs: vec!["x".into()],
            behavior: truth.clone(),
        };
        // Emitted two steps late.
        let decoded: Vec<f32> = (0..steps)
            .map(|t| truth[t.saturating_sub(2)] + (noise * ((t * t) as f64 * 0.7).sin()) as f32)
            .collect();
        TrialPairs::new(&dataset, &decoded, 2, 0).unwrap()
    }

    #[test]
    fn a_perfect_decoder_scores_one_and_chance_far_less() {
        let perfect = pairs(0.0);
        assert_eq!(perfect.truth.len(), 6 * 98);
        assert!((perfect.correlation() - 1.0).abs() < 1e-9);
        assert!(
            perfect
                .scores()
                .iter()
                .all(|t| t.r2 > 0.999_999 && t.rmse < 1e-6)
        );
        let shifted = perfect.chance(100, 1, &|_| {});
        assert!(
            shifted.r2_mean < 0.3 && shifted.r2_95 < 0.98,
            "{}",
            shifted.r2_mean
        );
        let noisy = pairs(0.4);
        let [low, high] = noisy.r2_interval(1).unwrap();
        let r2 = noisy.all().r2();
        assert!(low < r2 && r2 < high && low > 0.5, "{low} {r2} {high}");
        assert_eq!(noisy.r2_interval(1), noisy.r2_interval(1));
    }

    #[test]
    fn a_truth_that_stands_still_has_no_score() {
        let mut still = pairs(0.1);
        still.truth.fill(3.7);
        assert!(still.correlation().is_nan());
        let mut one = pairs(0.1);
        one.trials.truncate(2);
        assert!(one.r2_interval(1).is_none());
    }
}
