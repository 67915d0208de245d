//! Recurrent decoders adapt by gradient descent: their networks are trained further on trials that came lately.
//!
//! A memory is a list of trials whose weights fade. A candidate is the model in use, trained further on trials that are
//! drawn from one memory by their weights.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::adaptation::{Adaptation, FEWEST_STEPS};
use super::assemble::Trial;
use super::config::{SHORT_TRIAL_SECONDS, TrainerConfig};
use crate::recurrent::{TUNING_EPOCHS, check_tunable, tune, tuning_bytes, tuning_multiply_adds};
use crate::retained::{mask_blanking, mask_without};
use betz_base::error::{Error, Result};
use betz_base::wire::{Reader, Writer};
use betz_recording::{Dataset, Segment, Spikes, SpikesView};
use betz_runtime::model::Decoder;

/// Trials that a memory holds at most.
const MOST_TRIALS: usize = 256;

/// A trial of less weight is forgotten.
const LEAST_WEIGHT: f64 = 1.0 / 64.0;

/// Trials that a candidate is trained on, at most and at least.
const MOST_DRAWN: usize = 64;
const FEWEST_DRAWN: usize = 8;

/// Multiply-adds per second of training that one core is trusted with: a quarter of what it makes of them.
const ONE_CORE: f64 = 1e10;

/// Trials whose weights fade. The oldest come first.
#[derive(Clone, Default)]
struct FadingTrials(VecDeque<(Arc<Trial>, f64)>);

impl FadingTrials {
    fn steps(&self) -> f64 {
        let steps = |trial: &Trial| trial.labelled.iter().map(Range::len).sum::<usize>() as f64;
        self.0
            .iter()
            .map(|(trial, weight)| weight * steps(trial))
            .sum()
    }

    fn forget(&mut self, share: f64) {
        self.0.iter_mut().for_each(|(_, weight)| *weight *= share);
        while self
            .0
            .front()
            .is_some_and(|(_, weight)| *weight < LEAST_WEIGHT)
        {
            self.0.pop_front();
        }
    }

    fn add(&mut self, trial: Arc<Trial>) {
        if self.0.len() == MOST_TRIALS {
            self.0.pop_front();
        }
        self.0.push_back((trial, 1.0));
    }

    /// At most `most` trials, each as often as its weight says: those at equal distances along the sum of weights, from
    /// `begin`, 0 to 1, of the first distance.
    fn drawn(&self, most: usize, begin: f64) -> Vec<&Trial> {
        let count = most.min(self.0.len());
        let all: f64 = self.0.iter().map(|(_, weight)| weight).sum();
        let apart = all / count.max(1) as f64;
        let (mut next, mut sum) = (begin * apart, 0.0);
        let mut drawn: Vec<&Trial> = Vec::with_capacity(count);
        for (trial, weight) in &self.0 {
            sum += weight;
            while next < sum && drawn.len() < count {
                drawn.push(trial);
                next += apart;
            }
        }
        drawn
    }
}

/// The networks of a recurrent decoder, trained further beside the session.
pub(super) struct NetworkTuner {
    first: Decoder,
    /// Weights of the linear engine, (channel, filter, latent); those of channels that are left out as they were last.
    rows: Vec<f64>,
    memories: Vec<FadingTrials>,
    /// Trials that a candidate is trained on at most.
    most_drawn: usize,
    /// Number of candidates so far.
    candidates: u64,
}

impl NetworkTuner {
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for networks that cannot be trained here, and
    /// for those that one core cannot keep up with.
    pub(super) fn new(decoder: &Decoder, config: &TrainerConfig) -> Result<Self> {
        check_tunable(decoder)?;
        // Per second, of one drawn trial for each memory. Longer trials cost as much more as they last.
        let steps = 1.0 / decoder.step_seconds();
        let each = tuning_multiply_adds(decoder) * steps * TUNING_EPOCHS as f64;
        let memories = config.half_lives().count() as f64;
        let drawn = ONE_CORE * config.batch as f64 * SHORT_TRIAL_SECONDS / (each * memories);
        if drawn < FEWEST_DRAWN as f64 {
            return Err(Error::argument(format!(
                "trainer: expected networks of which one core trains {FEWEST_DRAWN} trials further every {} trials, got some of which it trains {drawn:.1}; use fewer units, or larger batches",
                config.batch
            )));
        }
        Ok(Self {
            rows: decoder.weights().to_vec(),
            first: decoder.clone(),
            memories: vec![FadingTrials::default()],
            most_drawn: (drawn as usize).min(MOST_DRAWN),
            candidates: 0,
        })
    }
}

impl Adaptation for NetworkTuner {
    fn first(&self) -> Result<Decoder> {
        Ok(self.first.clone())
    }

    fn set_memories(&mut self, count: usize) {
        let first = self.memories[0].clone();
        self.memories.resize(count.max(1), first);
    }

    fn steps(&self, memory: usize) -> f64 {
        self.memories[memory].steps()
    }

    fn learn(
        &mut self,
        trial: &Trial,
        spikes: SpikesView<'_>,
        _decoder: &Decoder,
        kept: &[f64],
    ) -> Result<()> {
        let data = Dataset {
            spikes: Spikes {
                ticks: spikes.ticks.to_vec(),
                channels: spikes.channels.to_vec(),
                weights: spikes.weights.to_vec(),
            },
            ..trial.data.clone()
        };
        let trial = Arc::new(Trial {
            data,
            labelled: trial.labelled.clone(),
        });
        for (memory, &share) in self.memories.iter_mut().zip(kept) {
            memory.forget(share);
            memory.add(Arc::clone(&trial));
        }
        Ok(())
    }

    fn forget(&mut self, memory: usize, share: f64) {
        self.memories[memory].forget(share);
    }

    fn copy_memory(&mut self, from: usize, to: usize) {
        self.memories[to] = self.memories[from].clone();
    }

    fn solve(&mut self, memory: usize, current: &Decoder) -> Result<Option<Decoder>> {
        self.candidates += 1;
        if self.memories[memory].steps() < FEWEST_STEPS as f64 {
            return Ok(None);
        }
        // Begins spread evenly, whatever the number of candidates.
        let begin = (self.candidates as f64 * 0.618_033_988_749_895).fract();
        let trials = self.memories[memory].drawn(self.most_drawn, begin);
        let (data, runs) = joined(current, &trials);
        tune(current, &data, &runs, self.candidates).map(Some)
    }

    fn leave_out(&mut self, current: &Decoder, ill: &[usize]) -> Result<Decoder> {
        let mask = mask_without(self.first.channel_mask(), ill, "leave out")?;
        let mut parts = current.clone().into_parts();
        let row = parts.bank.len() * parts.latents();
        let rows = parts.weights.chunks_exact_mut(row);
        let kept = self.rows.chunks_exact_mut(row);
        for (channel, (row, kept)) in rows.zip(kept).enumerate() {
            match (parts.channel_mask[channel], mask[channel]) {
                (true, false) => {
                    kept.copy_from_slice(row);
                    row.fill(0.0);
                }
                (false, true) => row.copy_from_slice(kept),
                _ => {}
            }
        }
        parts
            .limits
            .blanking
            .clone_from(&self.first.limits().blanking);
        parts.channel_mask = self.first.channel_mask().to_vec();
        mask_blanking(&mut parts, &mask);
        parts.channel_mask = mask;
        Decoder::new(parts)
    }

    fn candidate_bytes(&self) -> usize {
        let longest = self.memories[0].0.iter().map(|(trial, _)| trial.data.steps);
        tuning_bytes(&self.first, longest.max().unwrap_or(0))
    }

    fn learning_bytes(&self) -> usize {
        0
    }

    /// Trials are not kept: what was learned from them is in the model.
    fn write(&self, _to: &mut Writer) {}

    fn read(&mut self, _from: &mut Reader<'_>) -> Result<usize> {
        self.memories = vec![FadingTrials::default()];
        Ok(1)
    }

    #[cfg(test)]
    fn sums(&self, _memory: usize) -> betz_gram::NormalEquations {
        betz_gram::NormalEquations::zeros(0, 0)
    }
}

/// `trials` one after another as a dataset whose segments are their labelled steps, and the steps of each.
fn joined(decoder: &Decoder, trials: &[&Trial]) -> (Dataset, Vec<Range<usize>>) {
    let mut data = Dataset {
        step_seconds: decoder.step_seconds(),
        steps: 0,
        channel_names: decoder.channel_names().to_vec(),
        spikes: Spikes::default(),
        segments: Vec::new(),
        outputs: decoder.outputs().to_vec(),
        behavior: Vec::new(),
    };
    let weighted = trials
        .iter()
        .any(|trial| !trial.data.spikes.weights.is_empty());
    let mut runs = Vec::with_capacity(trials.len());
    for trial in trials {
        let (begin, from) = (data.steps, &trial.data);
        let ticks = from.spikes.ticks.iter().map(|tick| tick + begin as i64);
        data.spikes.ticks.extend(ticks);
        data.spikes.channels.extend(&from.spikes.channels);
        if weighted {
            let weights = (0..from.spikes.ticks.len()).map(|i| from.spikes.weight(i));
            data.spikes.weights.extend(weights);
        }
        data.segments
            .extend(trial.labelled.iter().map(|run| Segment {
                start: (begin + run.start) as i64,
                stop: (begin + run.end) as i64,
            }));
        data.behavior.extend(&from.behavior);
        data.steps += from.steps;
        runs.push(begin..data.steps);
    }
    (data, runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_gram::cases;

    fn trial(steps: i64) -> Arc<Trial> {
        Arc::new(Trial {
            data: cases::dataset(2, &[(0, steps)], vec![(1, 0), (steps - 1, 1)], 1),
            labelled: std::iter::once(1..steps as usize).collect(),
        })
    }

    #[test]
    fn trials_are_drawn_as_often_as_their_weights_say() {
        let mut memory = FadingTrials::default();
        for (steps, share) in [(5, 1.0), (6, 0.25), (7, 0.5)] {
            memory.forget(share);
            memory.add(trial(steps));
        }
        // Weights of 1/8, 1/2 and 1.
        assert_eq!(memory.steps(), 0.125 * 4.0 + 0.5 * 5.0 + 6.0);
        let mut drawn = [0; 8];
        for i in 0..1000 {
            for trial in memory.drawn(3, f64::from(i) / 1000.0) {
                drawn[trial.data.steps] += 1;
            }
        }
        for (steps, weight) in [(5, 0.125), (6, 0.5), (7, 1.0)] {
            let expected = 3000.0 * weight / 1.625;
            assert!(
                (f64::from(drawn[steps]) - expected).abs() < 4.0,
                "{drawn:?}"
            );
        }
        memory.forget(0.1);
        assert_eq!(memory.0.len(), 2);
        (0..300).for_each(|_| memory.add(trial(4)));
        assert_eq!(memory.0.len(), MOST_TRIALS);
        assert_eq!(memory.drawn(64, 0.5).len(), 64);
    }
}
