//! Learning from each trial, and the choice of the next model.

mod saved;

pub use saved::MAGIC;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::adaptation::Adaptation;
use super::assemble::Trial;
use super::blend::BlendMembers;
use super::closed_form::ClosedForm;
use super::config::TrainerConfig;
use super::paired::{Errors, is_better, is_positive};
use super::trial::{Moments, blanked, pairs, without};
use crate::centre::values_for;
use crate::limits::{range, with_members};
use crate::usual_counts::UsualCounts;
use betz_base::error::Result;
use betz_base::float;
use betz_gram::decode::decode;
use betz_runtime::model::{Blanking, Decoder, Head};

/// A candidate must reach this part of the best score there was: what decodes nothing is not better than a
/// decoder that is wrong, but a sign that the labels are.
const FLOOR: f64 = 0.5;

/// A candidate must err less than the model in use by this part.
const LEAST_GAIN: f64 = 0.02;

/// A model that took over is watched for this many trials, and not judged before so many.
const WATCH: usize = 10;
const FEWEST: usize = 5;

/// Remaining share of what the memories behind a model that was rolled back know.
const AFTER_ROLL_BACK: f64 = 0.25;

/// Trials that say which steps are artefacts.
const RECENT: usize = 60;

/// Result of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It was learned from; the model stays.
    Learned,
    /// A candidate was no better on trials that neither had seen, and is forgotten.
    Refused {
        /// Mean R² over outputs of the model in use, on those trials.
        before: f64,
        /// Mean R² of the candidate.
        after: f64,
    },
    /// A candidate was better on trials that neither had seen, and is the model from here on.
    Accepted {
        /// Mean R² over outputs of the model that was in use, on those trials.
        before: f64,
        /// Mean R² of the candidate.
        after: f64,
    },
    /// The model in use turned out worse than the one before, which is back.
    RolledBack,
    /// Channels died, screamed or are well again: the model is, from here on, the one in use solved anew
    /// without those that are not well.
    Channels {
        /// Number of channels that are left out now.
        left_out: usize,
    },
}

/// A memory's pace, and the models that it makes. What it knows is in the learner's [`Adaptation`].
struct Memory {
    /// Labelled seconds after which what was learned counts half; infinity: nothing is forgotten.
    half_life: f64,
    /// Solved before the trials of this batch.
    candidate: Option<Decoder>,
    /// Errors of its candidates.
    errors: Errors,
}

impl Memory {
    /// One that forgets nothing.
    fn new() -> Self {
        Self {
            half_life: f64::INFINITY,
            candidate: None,
            errors: Errors::default(),
        }
    }
}

/// The model before, while the one in use is watched.
struct PreviousModel {
    decoder: Decoder,
    /// Additional error of the model in use, one value per trial.
    worse: Vec<f64>,
}

/// The learning part of the worker: deterministic, on one thread.
pub(super) struct Learner {
    adaptation: Box<dyn Adaptation>,
    config: TrainerConfig,
    /// From the longest to the shortest, as many as the adaptation has.
    memories: Vec<Memory>,
    current: Decoder,
    /// Of the model in use, since it is.
    errors: Errors,
    previous: Option<PreviousModel>,
    labels: Moments,
    recent: VecDeque<UsualCounts>,
    /// True for channels that are left out since they died or scream.
    ill: Vec<bool>,
    best: f64,
    /// Trials since candidates were solved last, and the newest of them.
    since: usize,
    newest: Option<Trial>,
    pub(super) trials: u64,
    pub(super) labelled_seconds: f64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) rolled_back: u64,
    /// Mean R² of the model in use and of the best candidate when they were compared last.
    pub(super) scores: Option<(f64, f64)>,
    /// Candidates that were not solved because memory was short.
    pub(super) unsolved: u64,
    /// Reason why the last system could not be solved.
    pub(super) failure: Option<String>,
    pub(super) has_room: fn(usize) -> bool,
    /// Nobody waits for what is being solved any more.
    pub(super) abandoned: Arc<AtomicBool>,
}

impl Learner {
    /// # Errors
    /// As [`adaptation`].
    pub(super) fn new(decoder: &Decoder, config: &TrainerConfig) -> Result<Self> {
        let known: Vec<f64> = (decoder.training().scores.iter())
            .map(|s| s.r2)
            .filter(|r| r.is_finite())
            .collect();
        let mut learner = Self {
            adaptation: adaptation(decoder, config)?,
            memories: vec![Memory::new()],
            current: decoder.clone(),
            errors: Errors::default(),
            previous: None,
            labels: Moments::new(decoder.outputs().len()),
            recent: VecDeque::new(),
            ill: vec![false; decoder.channels()],
            best: known.iter().sum::<f64>() / known.len().max(1) as f64,
            config: config.clone(),
            since: 0,
            newest: None,
            trials: 0,
            labelled_seconds: 0.0,
            accepted: 0,
            refused: 0,
            rolled_back: 0,
            scores: None,
            unsolved: 0,
            failure: None,
            has_room: super::has_room,
            abandoned: Arc::default(),
        };
        learner.set_half_life(config.half_life_seconds);
        Ok(learner)
    }

    /// The model in use.
    pub(super) fn current(&self) -> &Decoder {
        &self.current
    }

    /// The memory of the half-life that was asked for.
    fn asked_for(&self) -> usize {
        let of_it = |m: &Memory| m.half_life == self.config.half_life_seconds;
        self.memories.iter().position(of_it).unwrap_or(0)
    }

    /// Steps that the memory of the half-life asked for counts.
    pub(super) fn effective_steps(&self) -> f64 {
        self.adaptation.steps(self.asked_for())
    }

    /// Scores the models on `trial`, which they have not seen, decides, then learns from it.
    ///
    /// # Errors
    /// Returns the errors of the sums; the trial is then not learned from.
    pub(super) fn take(&mut self, trial: Trial) -> Result<Verdict> {
        self.trials += 1;
        self.labelled_seconds += trial.seconds();
        self.labels.add(&trial);
        let of_current = self.error(&self.current, &trial)?;
        self.errors.push(Some(of_current));
        for i in 0..self.memories.len() {
            let candidate = self.memories[i].candidate.as_ref();
            let error = candidate.map(|c| self.error(c, &trial)).transpose()?;
            self.memories[i].errors.push(error);
        }
        let verdict = self.watch(of_current, &trial)?;
        self.learn(&trial)?;
        self.newest = Some(trial);
        self.since += 1;
        if self.since < self.config.batch {
            return Ok(verdict);
        }
        Ok(self.end_batch()?.unwrap_or(verdict))
    }

    /// Decides on the candidates, as far as the trials do, and solves the next from all that was learned. `None`
    /// where nothing was learned since the last were solved, or the trials do not decide.
    ///
    /// # Errors
    /// Returns the errors of decoding.
    pub(super) fn end_batch(&mut self) -> Result<Option<Verdict>> {
        let since = std::mem::take(&mut self.since);
        if since == 0 {
            return Ok(None);
        }
        let newest = self.newest.take();
        let decided = match newest.filter(|_| since >= FEWEST.min(self.config.batch)) {
            Some(trial) => self.decide(&trial, since)?,
            None => None,
        };
        self.forget_what_changed(since.max(FEWEST.min(self.config.batch)));
        self.solve_candidates();
        Ok(decided)
    }

    /// From now on what was learned counts half after so many labelled seconds. Sums stay as they are; a memory
    /// that there was not begins as the longest.
    pub(super) fn set_half_life(&mut self, seconds: f64) {
        self.config.half_life_seconds = seconds;
        let half_lives: Vec<f64> = self.config.half_lives().collect();
        self.adaptation.set_memories(half_lives.len());
        self.memories.resize_with(half_lives.len(), Memory::new);
        for (memory, half_life) in self.memories.iter_mut().zip(half_lives) {
            memory.half_life = half_life;
        }
    }

    /// True where there is memory to make one more candidate.
    pub(super) fn has_room(&self) -> bool {
        (self.has_room)(self.adaptation.candidate_bytes())
    }

    /// Bytes that learning from one trial takes, besides the trial's own.
    pub(super) fn learning_bytes(&self) -> usize {
        self.adaptation.learning_bytes()
    }

    fn solve_candidates(&mut self) {
        for i in 0..self.memories.len() {
            self.memories[i].candidate = None;
            if self.abandoned.load(Ordering::Relaxed) {
                continue;
            }
            if !self.has_room() {
                self.unsolved += 1;
                continue;
            }
            self.memories[i].candidate = match self.candidate(i) {
                Ok(decoder) => decoder,
                Err(error) => {
                    self.failure = Some(error.to_string());
                    None
                }
            };
        }
    }

    /// Leaves out the channels `ill` and takes all others back in, which takes no label. What was learned stays; what was
    /// compared does not.
    ///
    /// # Errors
    /// As [`Adaptation::leave_out`]; the model then stays.
    pub(super) fn leave_out(&mut self, ill: &[usize]) -> Result<Verdict> {
        let decoder = self.adaptation.leave_out(&self.current, ill)?;
        self.ill.fill(false);
        ill.iter().for_each(|&channel| self.ill[channel] = true);
        self.current = self.finished(decoder)?;
        self.errors.clear();
        self.previous = None;
        self.memories.iter_mut().for_each(|m| m.errors.clear());
        self.solve_candidates();
        Ok(Verdict::Channels {
            left_out: ill.len(),
        })
    }

    /// Rolls back where the model in use is worse than the one before, by more than chance, over the trials
    /// since it took over.
    fn watch(&mut self, of_current: f64, trial: &Trial) -> Result<Verdict> {
        let Some(mut watched) = self.previous.take() else {
            return Ok(Verdict::Learned);
        };
        let of_previous = self.error(&watched.decoder, trial)?;
        watched.worse.push(of_current - of_previous);
        if watched.worse.len() >= FEWEST && is_positive(&watched.worse) {
            self.current = watched.decoder;
            self.errors.clear();
            for (i, memory) in self.memories.iter_mut().enumerate() {
                memory.candidate = None;
                memory.errors.clear();
                if memory.half_life.is_finite() {
                    self.adaptation.forget(i, AFTER_ROLL_BACK);
                }
            }
            self.rolled_back += 1;
            return Ok(Verdict::RolledBack);
        }
        if watched.worse.len() < WATCH {
            self.previous = Some(watched);
        }
        Ok(Verdict::Learned)
    }

    /// Decides on the candidates. A candidate qualifies if it scores better than the model in use on the newest
    /// `batch` trials, and if its memory's candidates are also better beyond chance ([`is_better`]). The best one
    /// takes over.
    fn decide(&mut self, trial: &Trial, batch: usize) -> Result<Option<Verdict>> {
        let score = |errors: &Errors| errors.mean_of_newest(batch).map(|e| 1.0 - e);
        let Some(before) = score(&self.errors) else {
            return Ok(None);
        };
        let scores = self.memories.iter().map(|m| score(&m.errors));
        let scores: Vec<Option<f64>> = scores.collect();
        let Some(highest) = scores.iter().copied().flatten().reduce(f64::max) else {
            return Ok(None);
        };
        self.best = self.best.max(before.min(1.0));
        self.scores = Some((before, highest));
        let (mut taken, mut best) = (None, f64::NEG_INFINITY);
        for (memory, after) in self.memories.iter().zip(scores) {
            let (Some(candidate), Some(after)) = (&memory.candidate, after) else {
                continue;
            };
            let better = after > best.max(before).max(FLOOR * self.best)
                && is_better(&memory.errors, &self.errors, batch, LEAST_GAIN);
            if better
                && (self.config.max_change <= 0.0
                    || self.change(candidate, trial)? <= self.config.max_change)
            {
                (taken, best) = (Some(candidate.clone()), after);
            }
        }
        let Some(candidate) = taken else {
            self.refused += 1;
            let after = highest;
            return Ok(Some(Verdict::Refused { before, after }));
        };
        self.take_over(candidate);
        self.accepted += 1;
        Ok(Some(Verdict::Accepted {
            before,
            after: best,
        }))
    }

    /// A memory that decodes worse than a shorter one remembers what is no longer so: it goes on from what the
    /// shorter one knows.
    fn forget_what_changed(&mut self, batch: usize) {
        for long in 0..self.memories.len() {
            let better = (long + 1..self.memories.len()).rev().find(|&short| {
                let (short, long) = (&self.memories[short], &self.memories[long]);
                is_better(&short.errors, &long.errors, batch, LEAST_GAIN)
            });
            if let Some(short) = better {
                self.adaptation.copy_memory(short, long);
                self.memories[long].errors.clear();
            }
        }
    }

    /// `decoder` is the model from here on, and watched.
    pub(super) fn take_over(&mut self, decoder: Decoder) {
        let old = std::mem::replace(&mut self.current, decoder);
        self.errors.clear();
        self.previous = Some(PreviousModel {
            decoder: old,
            worse: Vec::new(),
        });
    }

    #[cfg(test)]
    pub(super) fn sums(&self) -> betz_gram::NormalEquations {
        self.adaptation.sums(self.asked_for())
    }

    #[cfg(test)]
    pub(super) fn half_lives(&self) -> Vec<f64> {
        self.memories.iter().map(|m| m.half_life).collect()
    }

    /// The model that a memory makes; `None` where it knows too few steps.
    fn candidate(&mut self, memory: usize) -> Result<Option<Decoder>> {
        let decoder = self.adaptation.solve(memory, &self.current)?;
        decoder.map(|decoder| self.finished(decoder)).transpose()
    }

    /// `decoder`, and every other member of a blend, with the limits of what is usual of late, and of all labels.
    fn finished(&self, decoder: Decoder) -> Result<Decoder> {
        let blanking = self.blanking(&decoder);
        let mut parts = decoder.into_parts();
        parts.head = with_members(parts.head, |member| self.finished(member))?;
        if blanking.is_some() {
            parts.limits.blanking = blanking;
        }
        // Labels beyond the range of training are what the model is for, too.
        let ranges = parts.limits.ranges.iter_mut();
        for (mine, labels) in ranges.zip(self.labels.extremes.iter().map(|e| range(*e))) {
            if labels.low.is_finite() && labels.high.is_finite() {
                mine.low = mine.low.min(labels.low);
                mine.high = mine.high.max(labels.high);
            }
        }
        Decoder::new(parts)
    }

    /// Adds `trial` to the memories, artefacts in it as they are decoded.
    fn learn(&mut self, trial: &Trial) -> Result<()> {
        let whole = trial;
        let well;
        let trial = if self.ill.contains(&true) {
            let mut data = trial.data.clone();
            data.spikes = without(&data.spikes, &self.ill);
            well = Trial {
                data,
                labelled: trial.labelled.clone(),
            };
            &well
        } else {
            trial
        };
        self.recent.push_back(UsualCounts::new(&trial.data.view()));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let decoder = &self.current;
        let share = |memory: &Memory| match memory.half_life.is_finite() {
            true => float::exp2(-trial.seconds() / memory.half_life),
            false => 1.0,
        };
        let kept: Vec<f64> = self.memories.iter().map(share).collect();
        if let Some(values) = values_for(decoder, &whole.data.view())? {
            // A channel that is left out stays at its mean.
            let values = without(&values, &self.ill);
            return (self.adaptation).learn(trial, values.view(), decoder, &kept);
        }
        let blanking = self.blanking(decoder);
        let blanking = blanking.or_else(|| decoder.limits().blanking.clone());
        let blanked = blanking.and_then(|b| blanked(trial, &b, decoder.channel_mask()));
        let spikes = blanked.as_ref().unwrap_or(&trial.data.spikes);
        (self.adaptation).learn(trial, spikes.view(), decoder, &kept)
    }

    /// Limits of what is usual in the trials of late; `None` where they do not tell.
    fn blanking(&self, decoder: &Decoder) -> Option<Blanking> {
        decoder.limits().blanking.as_ref()?;
        let mut all = self.recent.front()?.clone();
        self.recent.iter().skip(1).for_each(|usual| all.add(usual));
        all.blanking(decoder.channel_mask())
    }

    /// Mean over outputs of the mean squared error of `decoder` over the variance of labels.
    fn error(&self, decoder: &Decoder, trial: &Trial) -> Result<f64> {
        let estimates = decode(decoder, &trial.data)?;
        let n = trial.data.outputs.len();
        let mut squares = vec![0.0; n];
        let mut steps = 0_u64;
        for (step, truth) in pairs(trial, decoder.delay_steps()) {
            steps += 1;
            for (o, square) in squares.iter_mut().enumerate() {
                let estimate = f64::from(estimates[step * n + o]);
                *square += (estimate - f64::from(trial.data.behavior[truth * n + o])).powi(2);
            }
        }
        let parts = squares.iter().zip(self.labels.variances());
        let known: Vec<f64> = parts
            .filter(|(_, v)| *v > 0.0)
            .map(|(s, v)| s / steps.max(1) as f64 / v)
            .collect();
        Ok(known.iter().sum::<f64>() / known.len().max(1) as f64)
    }

    /// Root mean square of the change of outputs on `trial`, over the labels' standard deviations.
    fn change(&self, candidate: &Decoder, trial: &Trial) -> Result<f64> {
        let before = decode(&self.current, &trial.data)?;
        let after = decode(candidate, &trial.data)?;
        let n = trial.data.outputs.len();
        let variances: Vec<f64> = self.labels.variances().collect();
        let (mut sum, mut count) = (0.0, 0.0_f64);
        for (row, (a, b)) in before.chunks(n).zip(after.chunks(n)).enumerate() {
            if trial.labelled.iter().any(|run| run.contains(&row)) {
                for ((a, b), v) in a.iter().zip(b).zip(&variances).filter(|(_, v)| **v > 0.0) {
                    sum += f64::from(a - b).powi(2) / v;
                    count += 1.0;
                }
            }
        }
        Ok((sum / count.max(1.0)).sqrt())
    }
}

/// The adaptation that suits the kind of `decoder`.
///
/// # Errors
/// As [`StoredStatistics::read`] and [`Refit::new`]; [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument)
/// for a kind that has nothing to adapt, a model that one core cannot keep up with, and outputs whose speed depends on the recording.
fn adaptation(decoder: &Decoder, config: &TrainerConfig) -> Result<Box<dyn Adaptation>> {
    match decoder.head() {
        #[cfg(feature = "tuning")]
        Head::Recurrent(_) => Ok(Box::new(super::tuning::NetworkTuner::new(decoder, config)?)),
        Head::ModelBlend(blend) => Ok(Box::new(BlendMembers::new(decoder, blend, config)?)),
        _ => Ok(Box::new(ClosedForm::new(decoder, config)?)),
    }
}
