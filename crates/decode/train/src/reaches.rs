//! Simulated reaches, for tests.

use std::f64::consts::TAU;

use betz_gram::cases;
use betz_recording::{Dataset, Spikes};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Trials of a movement in two dimensions at 20 ms, from the middle and, as `path` says, back, and of channels tuned to
/// where it is.
pub(crate) struct Reaches {
    pub(crate) channels: usize,
    /// Steps of a trial.
    pub(crate) steps: i64,
    /// Direction of a trial in radians, from a uniform number.
    pub(crate) angle: fn(f64) -> f64,
    /// Distance from the middle at a share of the trial.
    pub(crate) path: fn(f64) -> f64,
    /// Probability of a spike, at a share of the trial and a place along the direction that the channel prefers.
    pub(crate) chance: fn(f64, f64) -> f64,
    /// Share of a channel's spikes that are kept.
    pub(crate) kept: fn(u32) -> f64,
}

impl Default for Reaches {
    /// 16 channels, trials of 1.2 s that go out and back in every direction.
    fn default() -> Self {
        Self {
            channels: 16,
            steps: 60,
            angle: |uniform| uniform * TAU,
            path: |share| (1.0 - (share * TAU).cos()) / 2.0,
            chance: |_, along| 0.3 + 0.28 * along,
            kept: |_| 1.0,
        }
    }
}

impl Reaches {
    pub(crate) fn trials(&self, seed: u64, count: i64) -> Dataset {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut spikes, mut behavior) = (Spikes::default(), Vec::new());
        for trial in 0..count {
            let angle = (self.angle)(random.random());
            for step in 0..self.steps {
                let share = step as f64 / self.steps as f64;
                let reach = (self.path)(share);
                let place = [reach * angle.cos(), reach * angle.sin()];
                behavior.extend(place.map(|x| x as f32));
                for channel in 0..self.channels as u32 {
                    let (sin, cos) = (f64::from(channel) * 2.4).sin_cos();
                    let chance = (self.chance)(share, place[0] * cos + place[1] * sin);
                    let kept = (self.kept)(channel);
                    if random.random::<f64>() < chance
                        && (kept == 1.0 || random.random::<f64>() < kept)
                    {
                        spikes.ticks.push(trial * self.steps + step);
                        spikes.channels.push(channel);
                    }
                }
            }
        }
        let segments: Vec<(i64, i64)> = (0..count)
            .map(|t| (t * self.steps, (t + 1) * self.steps))
            .collect();
        Dataset {
            step_seconds: 0.02,
            spikes,
            behavior,
            ..cases::dataset(self.channels, &segments, Vec::new(), 2)
        }
    }
}
