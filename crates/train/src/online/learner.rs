//! What is learned from each trial, and which model follows from it.

use std::collections::VecDeque;

use super::assemble::Trial;
use super::config::TrainerConfig;
use super::paired::{Errors, is_better, is_positive};
use super::sums::{Forgetting, Over, of_trial};
use crate::blank::Usual;
use crate::decode::decode;
use crate::gram::paired_steps;
use crate::retained::{Refit, Retained};
use betz_base::error::{Error, Result};
use betz_recording::{OutputInfo, Segment, Spikes};
use betz_runtime::model::{Blanking, Decoder, Head};

/// A candidate must reach this part of the best score there was: what decodes nothing is not better than a
/// decoder that is wrong, but a sign that the labels are.
const FLOOR: f64 = 0.5;

/// A candidate must err less than the model in use by this part.
const LEAST_GAIN: f64 = 0.02;

/// A model that took over is watched for this many trials, and not judged before so many.
const WATCH: usize = 10;
const FEWEST: usize = 5;

/// Sums of fewer steps are not solved.
const FEWEST_STEPS: u64 = 100;

/// What is left of the sums behind a model that was rolled back.
const AFTER_ROLL_BACK: f64 = 0.25;

/// Trials that say which steps are artefacts.
const RECENT: usize = 60;

/// What became of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It was learned from; the model stays.
    Learned,
    /// A candidate was no better on trials that neither had seen, and is forgotten.
    Refused {
        /// Mean R² over outputs of the model in use, on those trials.
        before: f64,
        /// That of the candidate.
        after: f64,
    },
    /// A candidate was better on trials that neither had seen, and is the model from here on.
    Accepted {
        /// Mean R² over outputs of the model that was in use, on those trials.
        before: f64,
        /// That of the candidate.
        after: f64,
    },
    /// The model in use turned out worse than the one before, which is back.
    RolledBack,
    /// Channels died, screamed or are well again: the model is, from here on, the one in use solved anew
    /// without those that are not well.
    Channels {
        /// How many are left out now.
        left_out: usize,
    },
}

/// Sums that forget at a pace of their own, and the models they make.
struct Memory {
    sums: Forgetting,
    /// Labelled seconds after which what was learned counts half; infinity: nothing is forgotten.
    half_life: f64,
    /// Solved before the trials of this batch.
    candidate: Option<Decoder>,
    /// Of its candidates.
    errors: Errors,
}

/// The model before, while the one in use is watched.
struct Watched {
    decoder: Decoder,
    /// What the one in use errs more, trial by trial.
    worse: Vec<f64>,
}

/// The worker's mind: deterministic, on one thread.
pub(super) struct Learner {
    refit: Refit,
    config: TrainerConfig,
    over_targets: bool,
    /// From the longest to the shortest.
    memories: Vec<Memory>,
    /// λ, that of training: what is known of the noise and of the weights does not depend on how much is
    /// remembered.
    ridge: f64,
    current: Decoder,
    /// Of the model in use, since it is.
    errors: Errors,
    previous: Option<Watched>,
    labels: Moments,
    recent: VecDeque<Usual>,
    /// True for channels that are left out since they died or scream.
    ill: Vec<bool>,
    best: f64,
    pub(super) trials: u64,
    pub(super) labelled_seconds: f64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) rolled_back: u64,
    /// Why the last system could not be solved.
    pub(super) failure: Option<String>,
}

impl Learner {
    /// # Errors
    /// As [`Retained::of`] and [`Refit::new`]; [`ErrorKind::InvalidArgument`](betz_base::ErrorKind) for a
    /// kind that has nothing to adapt, and outputs whose speed depends on the recording.
    pub(super) fn new(decoder: &Decoder, config: &TrainerConfig) -> Result<Self> {
        let retained = Retained::of(decoder)?;
        let over_targets = match decoder.head() {
            Head::Linear => false,
            Head::Lift(_) | Head::Experts(_) => {
                check_speed(decoder.outputs())?;
                true
            }
            _ => {
                return Err(Error::argument(format!(
                    "trainer: expected a linear model, a lift or experts, got {}",
                    decoder.kind()
                )));
            }
        };
        let refit = Refit::new(decoder, &retained)?;
        let mut sums = Forgetting::new(retained.sums);
        if let Some(seconds) = config.prior_seconds {
            let there = sums.steps * decoder.step_seconds();
            sums.forget((seconds / there.max(f64::MIN_POSITIVE)).min(1.0));
        }
        let known: Vec<f64> = (decoder.training().scores.iter())
            .map(|s| s.r2)
            .filter(|r| r.is_finite())
            .collect();
        let memories = config.half_lives().map(|half_life| Memory {
            sums: sums.clone(),
            half_life,
            candidate: None,
            errors: Errors::default(),
        });
        Ok(Self {
            refit,
            over_targets,
            memories: memories.collect(),
            ridge: retained.ridge,
            current: decoder.clone(),
            errors: Errors::default(),
            previous: None,
            labels: Moments::new(decoder.outputs().len()),
            recent: VecDeque::new(),
            ill: vec![false; decoder.channels()],
            best: known.iter().sum::<f64>() / known.len().max(1) as f64,
            config: config.clone(),
            trials: 0,
            labelled_seconds: 0.0,
            accepted: 0,
            refused: 0,
            rolled_back: 0,
            failure: None,
        })
    }

    /// The model in use.
    pub(super) fn current(&self) -> &Decoder {
        &self.current
    }

    /// The memory of the half-life that was asked for.
    fn asked_for(&self) -> &Memory {
        let of_it = |m: &&Memory| m.half_life == self.config.half_life_seconds;
        self.memories
            .iter()
            .find(of_it)
            .unwrap_or(&self.memories[0])
    }

    /// Steps that the sums of the half-life asked for count.
    pub(super) fn effective_steps(&self) -> f64 {
        self.asked_for().sums.steps
    }

    /// Scores the models on `trial`, which they have not seen, decides, then learns from it.
    ///
    /// # Errors
    /// Those of the sums: the trial is then not learned from.
    pub(super) fn take(&mut self, trial: &Trial) -> Result<Verdict> {
        self.trials += 1;
        self.labelled_seconds += trial.seconds();
        self.labels.add(trial);
        let of_current = self.error(&self.current, trial)?;
        self.errors.push(Some(of_current));
        for i in 0..self.memories.len() {
            let candidate = self.memories[i].candidate.as_ref();
            let error = candidate.map(|c| self.error(c, trial)).transpose()?;
            self.memories[i].errors.push(error);
        }
        let mut verdict = self.watch(of_current, trial)?;
        self.learn(trial)?;
        if self.trials.is_multiple_of(self.config.batch as u64) {
            if let Some(decided) = self.decide(trial)? {
                verdict = decided;
            }
            self.forget_what_changed();
            self.solve_candidates();
        }
        Ok(verdict)
    }

    fn solve_candidates(&mut self) {
        for i in 0..self.memories.len() {
            let solved = self.solve(&self.memories[i].sums);
            self.memories[i].candidate = match solved {
                Ok(decoder) => decoder,
                Err(error) => {
                    self.failure = Some(error.to_string());
                    None
                }
            };
        }
    }

    /// Leaves out the channels `ill` and takes all others back in: the model in use is solved anew from the
    /// sums that it was made of, which takes no label. What was learned stays; what was compared does not.
    ///
    /// # Errors
    /// As [`Refit::leave_out`] and [`Refit::solve`]; the model then stays.
    pub(super) fn leave_out(&mut self, ill: &[usize]) -> Result<Verdict> {
        let retained = Retained::of(&self.current)?;
        self.refit.leave_out(ill)?;
        self.ill.fill(false);
        ill.iter().for_each(|&channel| self.ill[channel] = true);
        self.current = self.finished(self.refit.solve(&retained.sums, retained.ridge)?)?;
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
            for memory in &mut self.memories {
                memory.candidate = None;
                memory.errors.clear();
                if memory.half_life.is_finite() {
                    memory.sums.forget(AFTER_ROLL_BACK);
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

    /// Whether a candidate takes over: of those that are better than the model in use, by the trials since
    /// each was solved and by those of its memory before it, the best on the newest batch.
    fn decide(&mut self, trial: &Trial) -> Result<Option<Verdict>> {
        let batch = self.config.batch;
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

    /// A memory that decodes worse than a shorter one remembers what is no longer so: it goes on from the
    /// shorter one's sums.
    fn forget_what_changed(&mut self) {
        for long in 0..self.memories.len() {
            let better = (long + 1..self.memories.len()).rev().find(|&short| {
                let (short, long) = (&self.memories[short], &self.memories[long]);
                is_better(&short.errors, &long.errors, self.config.batch, LEAST_GAIN)
            });
            if let Some(short) = better {
                self.memories[long].sums = self.memories[short].sums.clone();
                self.memories[long].errors.clear();
            }
        }
    }

    /// `decoder` is the model from here on, and watched.
    pub(super) fn take_over(&mut self, decoder: Decoder) {
        let old = std::mem::replace(&mut self.current, decoder);
        self.errors.clear();
        self.previous = Some(Watched {
            decoder: old,
            worse: Vec::new(),
        });
    }

    #[cfg(test)]
    pub(super) fn sums(&self) -> crate::NormalEquations {
        self.asked_for().sums.whole()
    }

    /// The model of `sums` as they are; `None` where there are too few steps.
    fn solve(&self, sums: &Forgetting) -> Result<Option<Decoder>> {
        let sums = sums.whole();
        if sums.steps < FEWEST_STEPS {
            return Ok(None);
        }
        let decoder = self.refit.solve(&sums, self.ridge)?;
        self.finished(decoder).map(Some)
    }

    /// `decoder` with the limits of what is usual of late.
    fn finished(&self, decoder: Decoder) -> Result<Decoder> {
        let blanking = self.blanking(&decoder);
        let mut parts = decoder.into_parts();
        if blanking.is_some() {
            parts.limits.blanking = blanking;
        }
        Decoder::new(parts)
    }

    /// Adds `trial` to the sums, artefacts in it as they are decoded.
    fn learn(&mut self, trial: &Trial) -> Result<()> {
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
        self.recent.push_back(Usual::of(&trial.data.view()));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let decoder = &self.current;
        let blanking = self.blanking(decoder);
        let blanking = blanking.or_else(|| decoder.limits().blanking.clone());
        let blanked = blanking.and_then(|b| blanked(trial, &b, decoder.channel_mask()));
        let spikes = blanked.as_ref().unwrap_or(&trial.data.spikes);
        let over = Over {
            bank: decoder.bank(),
            low_pass: decoder.low_pass(),
            delay_steps: decoder.delay_steps(),
            targets: self.over_targets,
        };
        let sums = of_trial(trial, spikes.view(), &over)?;
        for memory in &mut self.memories {
            if memory.half_life.is_finite() {
                memory
                    .sums
                    .forget((-trial.seconds() / memory.half_life).exp2());
            }
            memory.sums.add(&sums)?;
        }
        Ok(())
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

/// Steps of `trial` that are scored, each with the step whose label it estimates.
fn pairs(trial: &Trial, delay_steps: i64) -> impl Iterator<Item = (usize, usize)> {
    let runs = trial.labelled.iter().filter_map(move |run| {
        let (start, stop) = (run.start as i64, run.end as i64);
        paired_steps(&Segment { start, stop }, delay_steps)
    });
    runs.flat_map(move |(first, stop)| {
        (first..stop).map(move |step| (step as usize, (step - delay_steps) as usize))
    })
}

/// `trial`'s spikes with mean counts in the steps that `blanking` takes for artefacts; `None` without such.
fn blanked(trial: &Trial, blanking: &Blanking, mask: &[bool]) -> Option<Spikes> {
    let spikes = &trial.data.spikes;
    let mut totals = vec![0.0; trial.data.steps];
    for (i, (&tick, &channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
        if mask[channel as usize] {
            totals[tick as usize] += f64::from(spikes.weight(i));
        }
    }
    let usual = blanking.least as f64..=blanking.most as f64;
    if totals.iter().all(|total| usual.contains(total)) {
        return None;
    }
    let mut made = Spikes::default();
    for (step, total) in totals.iter().enumerate() {
        if usual.contains(total) {
            for i in spikes.range(step as i64, step as i64 + 1) {
                made.ticks.push(step as i64);
                made.channels.push(spikes.channels[i]);
                made.weights.push(spikes.weight(i));
            }
        } else {
            for (channel, &mean) in (0..).zip(&blanking.mean_counts) {
                made.ticks.push(step as i64);
                made.channels.push(channel);
                made.weights.push(mean as f32);
            }
        }
    }
    Some(made)
}

/// `spikes` without those of channels for which `gone` is true.
fn without(spikes: &Spikes, gone: &[bool]) -> Spikes {
    let mut made = Spikes::default();
    for (i, (&tick, &channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
        if !gone[channel as usize] {
            made.ticks.push(tick);
            made.channels.push(channel);
            if !spikes.weights.is_empty() {
                made.weights.push(spikes.weights[i]);
            }
        }
    }
    made
}

/// Speed is a target; where it adds outputs of several units, it depends on the recording.
fn check_speed(outputs: &[OutputInfo]) -> Result<()> {
    let is_velocity = |o: &&OutputInfo| o.unit.trim_end().ends_with("/s");
    let velocities: Vec<&OutputInfo> = outputs.iter().filter(is_velocity).collect();
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

/// Variance of all labels so far.
struct Moments {
    count: f64,
    sum: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    fn new(outputs: usize) -> Self {
        Self {
            count: 0.0,
            sum: vec![0.0; outputs],
            squares: vec![0.0; outputs],
        }
    }

    fn add(&mut self, trial: &Trial) {
        let n = self.sum.len();
        for step in trial.labelled.iter().cloned().flatten() {
            self.count += 1.0;
            let row = &trial.data.behavior[step * n..][..n];
            for ((sum, square), &x) in self.sum.iter_mut().zip(&mut self.squares).zip(row) {
                *sum += f64::from(x);
                *square += f64::from(x).powi(2);
            }
        }
    }

    fn variances(&self) -> impl Iterator<Item = f64> {
        let n = self.count.max(1.0);
        let both = self.sum.iter().zip(&self.squares);
        both.map(move |(sum, square)| (square / n - (sum / n).powi(2)).max(0.0))
    }
}
