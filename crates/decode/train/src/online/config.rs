//! Configuration of an online trainer, and its limits.

use std::time::Duration;

use betz_base::error::{Error, Result};
use betz_recording::OutputInfo;
use betz_runtime::model::Decoder;

/// Multiply-adds per second that one core is trusted with, half of what it makes in matrices of some size.
const ONE_CORE: f64 = 2e9;

/// A trial is taken to last at least so long, for what candidates cost.
pub(super) const SHORT_TRIAL_SECONDS: f64 = 1.0;

/// Configuration of an online trainer.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainerConfig {
    /// After so many seconds *with labels*, what was learned counts half, in one of the memories that compete;
    /// another is three times as short, and one forgets nothing. Infinity: that one alone.
    pub half_life_seconds: f64,
    /// Seconds of data that the sums of the first model count for, at most; `None`: all of them. A recurrent decoder has no
    /// sums: it begins with its weights.
    pub prior_seconds: Option<f64>,
    /// Trials from one candidate to the next: as many as it is scored on before it may take over.
    pub batch: usize,
    /// Refuse candidates that change outputs by more than this, root mean square over the labels' standard
    /// deviation; 0: by whatever.
    pub max_change: f64,
    /// Longest trial that is learned from.
    pub longest_trial_seconds: f64,
    /// Steps and spikes that the ring between the loop and the worker holds at least (8 bytes each; a step counts
    /// twice), and values of labels (16 bytes each).
    pub capacity: usize,
    /// Time that the worker sleeps when it is idle.
    pub idle: Duration,
}

impl Default for TrainerConfig {
    /// A half-life of two minutes, candidates every five trials, trials of up to a minute, 2¹⁸ steps and spikes (2 MB; and 4 MB for labels),
    /// 5 ms of sleep.
    fn default() -> Self {
        Self {
            half_life_seconds: 120.0,
            prior_seconds: None,
            batch: 5,
            max_change: 0.0,
            longest_trial_seconds: 60.0,
            capacity: 1 << 18,
            idle: Duration::from_millis(5),
        }
    }
}

impl TrainerConfig {
    /// Refuses numbers that make no sense.
    pub(super) fn check(&self) -> Result<()> {
        let positive = |what: &str, value: f64, infinite: bool| {
            if value > 0.0 && (value.is_finite() || infinite) {
                return Ok(());
            }
            Err(Error::argument(format!(
                "trainer: expected {what} above 0 s, got {value}"
            )))
        };
        positive("a half-life", self.half_life_seconds, true)?;
        positive("a longest trial", self.longest_trial_seconds, false)?;
        if let Some(seconds) = self.prior_seconds {
            positive("a prior", seconds, false)?;
        }
        if !(2..=10_000).contains(&self.batch) {
            return Err(Error::argument(format!(
                "trainer: expected a candidate every 2 to 10,000 trials, got {}",
                self.batch
            )));
        }
        if !(self.max_change.is_finite() && self.max_change >= 0.0) {
            return Err(Error::argument(format!(
                "trainer: expected a largest change of at least 0, got {}",
                self.max_change
            )));
        }
        Ok(())
    }

    /// Half-lives of the memories, from the longest to the shortest: nothing is forgotten, that asked for,
    /// and a third of it.
    pub(super) fn half_lives(&self) -> impl Iterator<Item = f64> {
        let half_life = self.half_life_seconds;
        let finite = [half_life, half_life / 3.0];
        let finite = finite.into_iter().filter(|h| h.is_finite());
        std::iter::once(f64::INFINITY).chain(finite)
    }

    /// Refuses models whose sums and solutions one core cannot keep up with: Γ from the spikes (spikes ×
    /// features × filters × states per second) or from the steps (features² / 2 each), whichever is less, and
    /// features³ / 3 for each candidate.
    pub(super) fn check_cost(&self, decoder: &Decoder) -> Result<()> {
        let features = decoder.features() as f64;
        let states = decoder.bank().step_cost();
        let record = decoder.training();
        let seconds = record.steps as f64 * decoder.step_seconds();
        let spikes = record.spikes as f64 / seconds.max(f64::MIN_POSITIVE);
        let by_spikes = 2.0 * spikes * features * states;
        let by_steps = features * features / 2.0 / decoder.step_seconds();
        let gram = if spikes > 0.0 {
            by_spikes.min(by_steps)
        } else {
            by_steps
        };
        let solving = features.powi(3) / 3.0 / (self.batch as f64 * SHORT_TRIAL_SECONDS);
        if gram + solving > ONE_CORE {
            return Err(Error::argument(format!(
                "trainer: expected at most {ONE_CORE:.0e} multiply-adds per second, what one core keeps up with, got {:.0e} for {features} features ({:.0e} to sum, {:.0e} to solve every {} trials); use fewer filters, or larger batches",
                gram + solving,
                gram,
                solving,
                self.batch
            )));
        }
        Ok(())
    }
}

/// Speed is a target; where it adds outputs of several units, it depends on the recording.
pub(super) fn check_speed(outputs: &[OutputInfo]) -> Result<()> {
    let velocities: Vec<&OutputInfo> = outputs.iter().filter(|o| o.is_velocity()).collect();
    let used = if velocities.is_empty() {
        outputs.iter().collect()
    } else {
        velocities
    };
    match used.split_first() {
        Some((first, rest)) if rest.iter().any(|o| o.unit != first.unit) => {
            Err(Error::argument(format!(
                "trainer: expected velocities (or else outputs) of one unit, of which a lift's and experts' latents know the speed, got '{}' in '{}' and others",
                first.name, first.unit
            )))
        }
        _ => Ok(()),
    }
}
