//! The linear engine adapts in closed form: its memories are sums that forget.

use super::adaptation::{Adaptation, FEWEST_STEPS};
use super::assemble::Trial;
use super::config::{TrainerConfig, check_speed};
use super::sums::{self, FadingSums, TrialSource, of_trial};
use crate::retained::{Refit, StoredStatistics};
use betz_base::error::{Error, Result};
use betz_base::wire::{Reader, Writer};
use betz_recording::SpikesView;
use betz_runtime::model::{Decoder, Head};

/// Memories at most, in saved bytes.
const MEMORIES: u64 = 16;

/// Kinds that adapt, for errors.
#[cfg(feature = "tuning")]
const KINDS: &str = "a linear model, a lift, experts or a recurrent one";
#[cfg(not(feature = "tuning"))]
const KINDS: &str = "a linear model, a lift or experts";

/// The linear engine, solved anew in closed form from sums that forget.
pub(super) struct ClosedForm {
    refit: Refit,
    /// The outputs of the sums are targets of latents.
    over_targets: bool,
    /// λ, that of training: what is known of the noise and of the weights does not depend on how much is
    /// remembered.
    ridge: f64,
    memories: Vec<FadingSums>,
}

impl ClosedForm {
    pub(super) fn new(decoder: &Decoder, config: &TrainerConfig) -> Result<Self> {
        config.check_cost(decoder)?;
        let retained = StoredStatistics::read(decoder)?;
        let over_targets = match decoder.head() {
            Head::Linear => false,
            Head::Lift(_) | Head::Experts(_) => {
                check_speed(decoder.outputs())?;
                true
            }
            _ => {
                return Err(Error::argument(format!(
                    "trainer: expected {KINDS}, got {}",
                    decoder.kind()
                )));
            }
        };
        let refit = Refit::new(decoder, &retained)?;
        let mut sums = FadingSums::new(retained.sums);
        if let Some(seconds) = config.prior_seconds {
            let there = sums.steps * decoder.step_seconds();
            sums.forget((seconds / there.max(f64::MIN_POSITIVE)).min(1.0));
        }
        Ok(Self {
            refit,
            over_targets,
            ridge: retained.ridge,
            memories: vec![sums],
        })
    }

    /// Features and outputs of the sums.
    fn size(&self) -> (usize, usize) {
        let (sums, _) = self.memories[0].parts();
        (sums.features, sums.outputs)
    }
}

impl Adaptation for ClosedForm {
    fn first(&self) -> Result<Decoder> {
        self.refit.first()
    }

    fn set_memories(&mut self, count: usize) {
        let first = self.memories[0].clone();
        self.memories.resize(count.max(1), first);
    }

    fn steps(&self, memory: usize) -> f64 {
        self.memories[memory].steps
    }

    fn learn(
        &mut self,
        trial: &Trial,
        spikes: SpikesView<'_>,
        decoder: &Decoder,
        kept: &[f64],
    ) -> Result<()> {
        let over = TrialSource {
            bank: decoder.bank(),
            low_pass: decoder.low_pass(),
            delay_steps: decoder.delay_steps(),
            targets: self.over_targets,
        };
        let sums = of_trial(trial, spikes, &over)?;
        for (memory, &share) in self.memories.iter_mut().zip(kept) {
            if share < 1.0 {
                memory.forget(share);
            }
            memory.add(&sums)?;
        }
        Ok(())
    }

    fn forget(&mut self, memory: usize, share: f64) {
        self.memories[memory].forget(share);
    }

    fn copy_memory(&mut self, from: usize, to: usize) {
        self.memories[to] = self.memories[from].clone();
    }

    fn solve(&mut self, memory: usize, _current: &Decoder) -> Result<Option<Decoder>> {
        let sums = self.memories[memory].whole();
        if sums.steps < FEWEST_STEPS {
            return Ok(None);
        }
        self.refit.solve(&sums, self.ridge).map(Some)
    }

    /// The sums that the model in use was made of are solved, which takes no label.
    fn leave_out(&mut self, current: &Decoder, ill: &[usize]) -> Result<Decoder> {
        let retained = StoredStatistics::read(current)?;
        self.refit.leave_out(ill)?;
        self.refit.solve(&retained.sums, retained.ridge)
    }

    /// Copies of the sums, their system, and the sums that the candidate retains.
    fn candidate_bytes(&self) -> usize {
        let (features, _) = self.size();
        let sums = 6_usize.saturating_mul(features).saturating_mul(features);
        sums.saturating_mul(size_of::<f64>())
    }

    fn learning_bytes(&self) -> usize {
        sums::bytes(self.size().0)
    }

    fn write(&self, to: &mut Writer) {
        to.u64(self.memories.len() as u64);
        for memory in &self.memories {
            let (sums, steps) = memory.parts();
            let mut sums = sums.clone();
            // Their number is `steps`.
            sums.steps = 1;
            let ridge = self.ridge;
            to.f64(steps);
            let bytes = StoredStatistics { sums, ridge }.to_bytes();
            to.u64(bytes.len() as u64);
            to.bytes.extend_from_slice(&bytes);
        }
    }

    fn read(&mut self, from: &mut Reader<'_>) -> Result<usize> {
        let count = from.u64()?;
        if !(1..=MEMORIES).contains(&count) {
            return Err(from.error(format_args!(
                "expected 1 to {MEMORIES} memories, got {count}"
            )));
        }
        let size = self.size();
        let mut memories = Vec::new();
        for _ in 0..count {
            let steps = from.f64()?;
            let length = from.u64()?;
            let sums = StoredStatistics::from_bytes(from.bytes(length)?)?.sums;
            if (sums.features, sums.outputs) != size || !(steps.is_finite() && steps >= 0.0) {
                return Err(from.error(format_args!(
                    "expected sums of (features, targets) {size:?} over at least 0 steps, got {:?} and {steps}",
                    (sums.features, sums.outputs)
                )));
            }
            memories.push(FadingSums::from_parts(sums, steps));
        }
        self.memories = memories;
        Ok(self.memories.len())
    }

    #[cfg(test)]
    fn sums(&self, memory: usize) -> betz_gram::NormalEquations {
        self.memories[memory].whole()
    }
}
