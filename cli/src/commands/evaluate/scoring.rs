//! Scores beyond R² and RMSE: correlation, by trial, against chance, by channel.

use betz::recording::Dataset;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Draws of as many trials, for intervals.
const DRAWS: usize = 1000;

/// True and decoded values of one output, trial after trial, on steps that have both.
pub(crate) struct Pairs {
    /// Half-open ranges of `truth`, one per trial that has a pair.
    pub(crate) trials: Vec<std::ops::Range<usize>>,
    /// Number of each trial's segment.
    pub(crate) segments: Vec<usize>,
    /// Length of a step.
    pub(crate) step_seconds: f64,
    /// Seconds at which the truth was so: the ends of steps.
    pub(crate) seconds: Vec<f64>,
    pub(crate) truth: Vec<f64>,
    pub(crate) estimate: Vec<f64>,
}

impl Pairs {
    /// Output `output` of `dataset`, whose step t `decoded` (steps × outputs) estimates at t + delay.
    pub(crate) fn new(dataset: &Dataset, decoded: &[f32], delay: i64, output: usize) -> Self {
        let width = dataset.outputs.len();
        let mut pairs = Self {
            trials: Vec::new(),
            segments: Vec::new(),
            step_seconds: dataset.step_seconds,
            seconds: Vec::new(),
            truth: Vec::new(),
            estimate: Vec::new(),
        };
        for (number, s) in dataset.segments.iter().enumerate() {
            let first = pairs.truth.len();
            for t in s.start..s.stop {
                let emitted = t.saturating_add(delay);
                if !(s.start..s.stop).contains(&emitted) {
                    continue;
                }
                let at = |step: i64| step as usize * width + output;
                pairs.truth.push(f64::from(dataset.behavior[at(t)]));
                pairs.estimate.push(f64::from(decoded[at(emitted)]));
                pairs.seconds.push((t + 1) as f64 * dataset.step_seconds);
            }
            if pairs.truth.len() > first {
                pairs.trials.push(first..pairs.truth.len());
                pairs.segments.push(number);
            }
        }
        pairs
    }

    fn sums(&self, range: std::ops::Range<usize>) -> Sums {
        let mut sums = Sums::default();
        for i in range {
            sums.add(self.truth[i], self.estimate[i]);
        }
        sums
    }
}

/// Sums from which R² and correlation follow.
#[derive(Clone, Copy, Default)]
struct Sums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
    /// Σ (x − y)².
    error: f64,
}

impl Sums {
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

/// One trial's scores.
#[derive(Serialize)]
pub(crate) struct Trial {
    /// Number of the segment, among those that were scored.
    pub(crate) segment: usize,
    pub(crate) start_seconds: f64,
    pub(crate) r2: f64,
    pub(crate) rmse: f64,
    pub(crate) correlation: f64,
}

/// Scores against shifted behaviour.
#[derive(Serialize)]
pub(crate) struct Chance {
    pub(crate) shifts: u32,
    /// Mean, and what 95 of 100 shifts stay below.
    pub(crate) r2_mean: f64,
    pub(crate) r2_95: f64,
    pub(crate) correlation_95: f64,
}

/// Loss of an output when a channel is held at its mean.
#[derive(Serialize)]
pub(crate) struct ChannelImportance {
    pub(crate) channel: String,
    pub(crate) r2_lost: f64,
}

/// Everything more about one output.
#[derive(Serialize)]
pub(crate) struct More {
    pub(crate) name: String,
    pub(crate) correlation: f64,
    /// R² in 95 of 100 draws of as many trials lies between these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) r2_interval: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) trials: Vec<Trial>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chance: Option<Chance>,
    /// Most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) importance: Vec<ChannelImportance>,
}

pub(crate) fn correlation(pairs: &Pairs) -> f64 {
    pairs.sums(0..pairs.truth.len()).correlation()
}

/// R² with the mean error taken off.
pub(crate) fn r2_of_course(pairs: &Pairs) -> f64 {
    pairs.sums(0..pairs.truth.len()).r2_of_course()
}

pub(crate) fn trials(pairs: &Pairs) -> Vec<Trial> {
    let one = |(range, &segment): (&std::ops::Range<usize>, &usize)| {
        let sums = pairs.sums(range.clone());
        Trial {
            segment,
            start_seconds: pairs.seconds[range.start] - pairs.step_seconds,
            r2: sums.r2(),
            rmse: (sums.error / sums.n).sqrt(),
            correlation: sums.correlation(),
        }
    };
    pairs.trials.iter().zip(&pairs.segments).map(one).collect()
}

/// R² between which 95 of 100 draws of as many trials lie; `None` with fewer than three trials.
pub(crate) fn interval(pairs: &Pairs, seed: u64) -> Option<[f64; 2]> {
    let trials: Vec<Sums> = pairs.trials.iter().map(|t| pairs.sums(t.clone())).collect();
    if trials.len() < 3 {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let drawn = (0..DRAWS).map(|_| {
        let mut sums = Sums::default();
        for _ in 0..trials.len() {
            sums.join(&trials[rng.random_range(0..trials.len())]);
        }
        sums.r2()
    });
    let drawn = sorted(drawn);
    Some([quantile(&drawn, 0.025), quantile(&drawn, 0.975)])
}

/// Scores against the truth shifted, end to begin, by at least a twentieth of its length.
pub(crate) fn chance(pairs: &Pairs, shifts: u32, seed: u64, told: &dyn Fn(u32)) -> Chance {
    let n = pairs.truth.len();
    let least = n / 20;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let scores: Vec<Sums> = (0..shifts)
        .map(|done| {
            told(done);
            let by = if n > 2 {
                rng.random_range(least.max(1)..(n - least).max(least + 2))
            } else {
                0
            };
            let mut sums = Sums::default();
            for (i, &y) in pairs.estimate.iter().enumerate() {
                sums.add(pairs.truth[(i + by) % n], y);
            }
            sums
        })
        .collect();
    let r2 = sorted(scores.iter().map(Sums::r2));
    Chance {
        shifts,
        r2_mean: r2.iter().sum::<f64>() / r2.len() as f64,
        r2_95: quantile(&r2, 0.95),
        correlation_95: quantile(&sorted(scores.iter().map(|s| s.correlation().abs())), 0.95),
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

#[cfg(test)]
mod tests {
    use super::*;
    use betz::recording::{Segment, Spikes};

    fn pairs(noise: f64) -> Pairs {
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
        Pairs::new(&dataset, &decoded, 2, 0)
    }

    #[test]
    fn a_perfect_decoder_scores_one_and_chance_far_less() {
        let perfect = pairs(0.0);
        assert_eq!(perfect.truth.len(), 6 * 98);
        assert!((correlation(&perfect) - 1.0).abs() < 1e-9);
        assert!(
            trials(&perfect)
                .iter()
                .all(|t| t.r2 > 0.999_999 && t.rmse < 1e-6)
        );
        let shifted = chance(&perfect, 100, 1, &|_| {});
        assert!(
            shifted.r2_mean < 0.3 && shifted.r2_95 < 0.98,
            "{}",
            shifted.r2_mean
        );
        let noisy = pairs(0.4);
        let [low, high] = interval(&noisy, 1).unwrap();
        let r2 = noisy.sums(0..noisy.truth.len()).r2();
        assert!(low < r2 && r2 < high && low > 0.5, "{low} {r2} {high}");
        assert_eq!(interval(&noisy, 1), interval(&noisy, 1));
    }

    #[test]
    fn a_truth_that_stands_still_has_no_score() {
        let mut still = pairs(0.1);
        still.truth.fill(3.7);
        assert!(correlation(&still).is_nan());
        let mut one = pairs(0.1);
        one.trials.truncate(2);
        assert!(interval(&one, 1).is_none());
    }
}
