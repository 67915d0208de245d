use serde::{Deserialize, Serialize};

use betz_spiking::random::{Purpose, Sequence};

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The target, in cm.
    pub target: [f64; 2],
    /// True if the target was held within the time limit.
    pub success: bool,
    /// Seconds from the trial's beginning to that of the hold that succeeded; the limit otherwise.
    pub time_to_target_s: f64,
    /// Seconds from first touching the target to the beginning of the hold that succeeded: what was
    /// lost by overshooting. Only of trials that succeed.
    pub dial_in_s: Option<f64>,
    /// Straight way over way gone, until the target was first touched; 0 where it never was.
    pub path_efficiency: f64,
    /// Difficulty log2(1 + distance / (2 radius)) in bits (Fitts), if it succeeded, over the time.
    pub bits_per_s: f64,
    /// Mean angle in degrees between the cursor's movement and the way to the target, outside it.
    pub angular_error_deg: f64,
}

/// A mean and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Means over trials with intervals by the bootstrap over trials (Efron 1979), 2,000 draws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Part of the trials that succeed.
    pub success: Interval,
    /// Time to the target, failed trials at their limit.
    pub time_to_target_s: Interval,
    /// Dial-in time of the trials that succeed.
    pub dial_in_s: Interval,
    /// Path efficiency.
    pub path_efficiency: Interval,
    /// Fitts throughput.
    pub bits_per_s: Interval,
    /// Angular error.
    pub angular_error_deg: Interval,
}

/// Draws of the bootstrap.
const DRAWS: usize = 2_000;

impl Scores {
    /// Of `trials`; `seed` draws the bootstrap.
    pub(crate) fn of(trials: &[Trial], seed: u64) -> Self {
        let of = |value: &dyn Fn(&Trial) -> Option<f64>| {
            let values: Vec<f64> = trials.iter().filter_map(value).collect();
            bootstrap(&values, seed)
        };
        Self {
            success: of(&|t| Some(f64::from(u8::from(t.success)))),
            time_to_target_s: of(&|t| Some(t.time_to_target_s)),
            dial_in_s: of(&|t| t.dial_in_s),
            path_efficiency: of(&|t| Some(t.path_efficiency)),
            bits_per_s: of(&|t| Some(t.bits_per_s)),
            angular_error_deg: of(&|t| Some(t.angular_error_deg)),
        }
    }
}

/// The mean of `values` and its interval; NaN without any.
fn bootstrap(values: &[f64], seed: u64) -> Interval {
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    if n == 0 {
        return Interval {
            mean,
            low: f64::NAN,
            high: f64::NAN,
        };
    }
    let mut chance = Sequence::new(seed, Purpose::Loop, 3);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn = (0..n).map(|_| values[chance.below(n as u32) as usize]);
            drawn.sum::<f64>() / n as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Interval {
        mean,
        low: means[DRAWS / 40],
        high: means[DRAWS - 1 - DRAWS / 40],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_covers_what_theory_says() {
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 20)).collect();
        let interval = bootstrap(&values, 1);
        // Standard error of the mean: 5.77 / 20.
        assert!((interval.mean - 9.5).abs() < 1e-12);
        assert!((interval.high - interval.low - 2.0 * 1.96 * 0.288).abs() < 0.15);
        assert!(bootstrap(&[], 1).mean.is_nan());
    }
}
