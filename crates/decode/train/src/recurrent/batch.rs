//! Sequences of an epoch, and what training does to their counts: a network that has met thinned, lost and noisy
//! channels goes on when they come.

use std::iter::once;
use std::ops::Range;

use super::mixing::{Mixer, Mixes};
use super::pass::Packing;
use super::random::Random;
use super::samples::{Samples, Scaling};
use super::shape::Shape;
use pulp::Arch;

/// Runs of steps that are gone through without a reset between them.
pub(super) type Sequence = Vec<Range<usize>>;

/// Recipe of training: the way in which the steps of a recording are presented to a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recipe {
    pub(super) epochs: usize,
    pub(super) sequences: Sequences,
    /// Probability that an input of a step is left out.
    pub(super) input_dropout: f32,
    /// Probability that a unit's output of a step is left out.
    pub(super) dropout: f32,
    /// Standard deviation of noise on the scaled counts.
    pub(super) noise: f32,
    /// Each sequence loses its spikes with a probability up to this.
    pub(super) thinning: f32,
    /// Half the sequences lose each channel with a probability up to this.
    pub(super) lost_channels: f32,
    /// Learning rate of the first step.
    pub(super) learning_rate: f64,
    /// Decoupled decay of weights (AdamW).
    pub(super) weight_decay: f64,
    /// Probability that a run is mixed with another.
    pub(super) mixing: f32,
    /// Decay of the exponential mean of the weights.
    pub(super) mean_decay: f64,
}

/// Gradient steps below which trials are few: those of 64 trials.
const FEW_STEPS: usize = 300;

/// Training task: the network's sizes and its runs of steps.
pub(super) struct Task<'a> {
    pub(super) shape: &'a Shape,
    pub(super) samples: &'a Samples<'a>,
    pub(super) scaling: &'a Scaling,
    pub(super) runs: &'a [Range<usize>],
    pub(super) recipe: &'a Recipe,
    /// Partners for mixtures, if the recipe has any.
    pub(super) mixing: Option<&'a Mixer>,
}

/// Source of one training sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sequences {
    /// Whole runs in random order, up to `most` of them joined without a reset, each with the probability `joined`.
    /// A batch holds about as many steps as `batch` runs.
    Joined {
        joined: f32,
        most: usize,
        batch: usize,
    },
    /// Windows of so many steps from random moments, `batch` at a time.
    Windows { steps: usize, batch: usize },
}

impl Recipe {
    /// For many short runs: trials.
    pub(super) const TRIALS: Self = Self {
        epochs: 140,
        sequences: Sequences::Joined {
            joined: 0.7,
            most: 4,
            batch: 32,
        },
        input_dropout: 0.05,
        dropout: 0.1,
        noise: 0.2,
        thinning: 0.3,
        lost_channels: 0.25,
        learning_rate: 3e-3,
        weight_decay: 1e-2,
        mixing: 0.0,
        mean_decay: 0.998,
    };

    /// For few trials, over which [`TRIALS`](Self::TRIALS) takes fewer than [`FEW_STEPS`] gradient steps: more passes,
    /// and more is left out of each.
    pub(super) const FEW_TRIALS: Self = Self {
        epochs: 400,
        input_dropout: 0.3,
        dropout: 0.3,
        noise: 0.4,
        ..Self::TRIALS
    };

    /// For trials whose mixtures are to be decoded, too: directions between those of training.
    pub(super) const MIXTURES: Self = Self {
        mixing: 0.8,
        ..Self::TRIALS
    };

    /// Recipe for few long runs.
    pub(super) const CONTINUOUS: Self = Self {
        epochs: 150,
        sequences: Sequences::Windows {
            steps: 100,
            batch: 8,
        },
        input_dropout: 0.2,
        dropout: 0.3,
        noise: 0.2,
        thinning: 0.3,
        lost_channels: 0.0,
        learning_rate: 3e-3,
        weight_decay: 3e-2,
        mixing: 0.0,
        mean_decay: 0.99,
    };
}

impl Recipe {
    /// The recipe for trials that are these runs.
    pub(super) fn of_trials(runs: &[Range<usize>]) -> Self {
        let usual = Self::TRIALS;
        match usual.sequences.batches(runs, usual.epochs) < FEW_STEPS {
            true => Self::FEW_TRIALS,
            false => usual,
        }
    }

    /// This recipe with at least as many gradient steps over `runs` as it takes over `whole`.
    pub(super) fn as_many_steps(&self, whole: &[Range<usize>], runs: &[Range<usize>]) -> Self {
        let wanted = self.sequences.batches(whole, self.epochs);
        Self {
            epochs: wanted.div_ceil(self.sequences.batches(runs, 1)),
            ..*self
        }
    }
}

impl Sequences {
    /// The sequences of one epoch over `runs`, each a list of steps in a row, cut into batches.
    pub(super) fn epoch(self, runs: &[Range<usize>], random: &mut Random) -> Vec<Vec<Sequence>> {
        let steps: usize = runs.iter().map(Range::len).sum();
        match self {
            Self::Joined {
                joined,
                most,
                batch,
            } => {
                let mut order: Vec<usize> = (0..runs.len()).collect();
                random.shuffle(&mut order);
                let mut sequences: Vec<Sequence> = Vec::new();
                let mut goes_on = false;
                for run in order {
                    match sequences.last_mut() {
                        Some(last) if goes_on => last.push(runs[run].clone()),
                        _ => sequences.push(vec![runs[run].clone()]),
                    }
                    let length = sequences.last().map_or(0, Vec::len);
                    goes_on = length < most && random.uniform() < joined;
                }
                let most_steps = batch * steps / runs.len().max(1);
                in_batches(sequences, most_steps)
            }
            Self::Windows {
                steps: window,
                batch,
            } => {
                let windows = (steps / window).max(1);
                let sequences = (0..windows).map(|_| {
                    // Every step of the recording is as likely to be in a window as any other.
                    let mut at = random.below(steps);
                    let run = runs.iter().find(|run| match at.checked_sub(run.len()) {
                        Some(rest) => {
                            at = rest;
                            false
                        }
                        None => true,
                    });
                    let run = run.cloned().unwrap_or_default();
                    let length = window.min(run.len());
                    let start = run.start + at.min(run.len() - length);
                    once(start..start + length).collect()
                });
                let sequences: Vec<_> = sequences.collect();
                sequences.chunks(batch).map(<[_]>::to_vec).collect()
            }
        }
    }

    /// Most steps of a batch of [`epoch`](Self::epoch).
    pub(super) fn most_steps(self, runs: &[Range<usize>]) -> usize {
        let steps: usize = runs.iter().map(Range::len).sum();
        match self {
            Self::Joined { most, batch, .. } => {
                let longest = runs.iter().map(Range::len).max().unwrap_or(0);
                batch * steps / runs.len().max(1) + most * longest
            }
            Self::Windows { steps, batch } => steps * batch,
        }
    }

    /// Number of batches of `epochs` epochs, about: the schedule's length.
    pub(super) fn batches(self, runs: &[Range<usize>], epochs: usize) -> usize {
        let steps: usize = runs.iter().map(Range::len).sum();
        let per_epoch = match self {
            Self::Joined { batch, .. } => runs.len().div_ceil(batch),
            Self::Windows {
                steps: window,
                batch,
            } => (steps / window).max(1).div_ceil(batch),
        };
        per_epoch.max(1) * epochs
    }
}

/// `sequences` in order, as many to a batch as reach `most_steps`.
fn in_batches(sequences: Vec<Sequence>, most_steps: usize) -> Vec<Vec<Sequence>> {
    let mut batches = vec![Vec::new()];
    let mut steps = 0;
    for sequence in sequences {
        if steps >= most_steps {
            batches.push(Vec::new());
            steps = 0;
        }
        steps += sequence.iter().map(Range::len).sum::<usize>();
        if let Some(batch) = batches.last_mut() {
            batch.push(sequence);
        }
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Sequences packed for a pass.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) packing: Packing,
    /// The step of the recording that each row shows.
    pub(super) steps: Vec<usize>,
    /// (row, channel).
    pub(super) inputs: Vec<f32>,
    /// The sequence of each row, in the order of packing.
    pub(super) sequence: Vec<usize>,
    /// Standardised labels, (row, output), NaN for a row without.
    pub(super) targets: Vec<f32>,
}

/// Spikes and channels that the sequences of a batch lose.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// True for a channel that is lost, (sequence, channel).
    pub(super) lost: Vec<bool>,
    /// Probability with which each sequence loses a spike.
    pub(super) thinned: Vec<f32>,
}

impl Batch {
    /// Packs `sequences`, the longest first; those of one length stay in order.
    pub(super) fn pack(&mut self, sequences: &[Sequence]) {
        let mut flat: Vec<Vec<usize>> = sequences
            .iter()
            .map(|runs| runs.iter().cloned().flatten().collect())
            .collect();
        flat.sort_by_key(|steps| std::cmp::Reverse(steps.len()));
        let lengths: Vec<usize> = flat.iter().map(Vec::len).collect();
        self.packing = Packing::new(&lengths);
        self.steps.clear();
        self.sequence.clear();
        for (step, &count) in self.packing.count.iter().enumerate() {
            self.steps
                .extend(flat[..count].iter().map(|steps| steps[step]));
            self.sequence.extend(0..count);
        }
    }

    /// Writes every row's scaled counts, as a session sees them.
    pub(super) fn fill(&mut self, samples: &Samples<'_>, scaling: &Scaling) {
        let channels = samples.data.channels();
        self.inputs.clear();
        self.inputs.resize(self.steps.len() * channels, 0.0);
        let rows = self.inputs.chunks_exact_mut(channels.max(1));
        for (row, &step) in rows.zip(&self.steps) {
            for (channel, count) in samples.counts(step) {
                row[channel] = scaling.input(channel, count);
            }
        }
    }

    /// Draws which channels and what part of the spikes each sequence loses.
    pub(super) fn draw_losses(
        &self,
        samples: &Samples<'_>,
        recipe: &Recipe,
        random: &mut Random,
    ) -> Losses {
        let channels = samples.data.channels();
        let sequences = self.packing.count.first().copied().unwrap_or(0);
        let mut lost = vec![false; sequences * channels];
        let mut thinned = vec![0.0; sequences];
        let thinning = if samples.are_counts {
            recipe.thinning
        } else {
            0.0
        };
        for (thinned, lost) in thinned.iter_mut().zip(lost.chunks_mut(channels.max(1))) {
            *thinned = thinning * random.uniform();
            if recipe.lost_channels > 0.0 && random.uniform() < 0.5 {
                let probability = recipe.lost_channels * random.uniform();
                lost.iter_mut()
                    .for_each(|lost| *lost = random.uniform() < probability);
            }
        }
        Losses { lost, thinned }
    }

    /// Writes every row's scaled counts as `recipe` disturbs them: lost channels, thinned spikes, noise, inputs
    /// left out.
    pub(super) fn fill_disturbed(
        &mut self,
        task: &Task<'_>,
        mixes: Option<&Mixes<'_>>,
        random: &mut Random,
    ) {
        let (samples, scaling, recipe) = (task.samples, task.scaling, task.recipe);
        let channels = samples.data.channels();
        let Losses { lost, thinned } = self.draw_losses(samples, recipe, random);
        self.inputs.clear();
        self.inputs.resize(self.steps.len() * channels, 0.0);
        self.targets.clear();
        let rows = self.inputs.chunks_exact_mut(channels.max(1));
        let mut mask = vec![0.0; channels];
        let arch = Arch::new();
        let mut thinning = SpikeLoss::default();
        for ((row, &step), &sequence) in rows.zip(&self.steps).zip(&self.sequence) {
            let lost = &lost[sequence * channels..][..channels];
            let mut add = |step: usize, part: f32, row: &mut [f32]| {
                let left = samples.counts(step).filter(|(channel, _)| !lost[*channel]);
                thinning.thin(left, thinned[sequence], (arch, &mut *random));
                for &(channel, count) in &thinning.counts {
                    row[channel] += part * scaling.input(channel, count);
                }
            };
            match mixes.and_then(|mixes| mixes.of(step)) {
                None => {
                    add(step, 1.0, row);
                    samples.extend_targets(step, scaling, &mut self.targets);
                }
                Some(mix) => {
                    add(step, mix.parts[0], row);
                    add(mix.partner, mix.parts[1], row);
                    mix.add_mean(row, lost);
                    mix.extend_targets(samples, scaling, &mut self.targets);
                }
            }
            if recipe.noise > 0.0 {
                random.add_noise(arch, row, recipe.noise);
            }
            if recipe.input_dropout > 0.0 {
                let kept = 1.0 / (1.0 - recipe.input_dropout);
                random.drop_out(arch, &mut mask, recipe.input_dropout, [0.0, kept]);
                row.iter_mut()
                    .zip(&mask)
                    .for_each(|(input, mask)| *input *= mask);
            }
        }
    }
}

/// Counts of a step of which spikes are lost.
#[derive(Debug, Default)]
struct SpikeLoss {
    /// Rest of each channel's count.
    counts: Vec<(usize, f32)>,
    numbers: Vec<u64>,
    before: Vec<u32>,
}

impl SpikeLoss {
    /// Keeps `counts` without the spikes that are lost, each with `probability`. Draws one number per spike.
    fn thin(
        &mut self,
        counts: impl Iterator<Item = (usize, f32)>,
        probability: f32,
        (arch, random): (Arch, &mut Random),
    ) {
        self.counts.clear();
        self.counts.extend(counts);
        if probability <= 0.0 {
            return;
        }
        let spikes = self.counts.iter().map(|(_, count)| *count as u32 as usize);
        self.numbers.resize(spikes.sum(), 0);
        random.fill(arch, &mut self.numbers);
        // A uniform number below the probability, in units of 2⁻²⁴.
        let least = (probability * (1 << 24) as f32).ceil() as u64;
        // Kept spikes before each one: short loops over each channel's spikes would be guessed wrongly.
        self.before.clear();
        self.before.push(0);
        self.before
            .extend(self.numbers.iter().scan(0, |kept, &bits| {
                *kept += u32::from((bits >> 40) >= least);
                Some(*kept)
            }));
        let mut end = 0;
        for (_, count) in &mut self.counts {
            let start = end;
            end += *count as u32 as usize;
            *count = (self.before[end] - self.before[start]) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_of_joined_runs_holds_each_once() {
        let runs = [0..5, 7..10, 10..22, 30..31];
        let sequences = Sequences::Joined {
            joined: 0.7,
            most: 3,
            batch: 2,
        };
        let mut random = Random::new(1, 0);
        for _ in 0..50 {
            let epoch = sequences.epoch(&runs, &mut random);
            assert!(epoch.iter().flatten().all(|sequence| sequence.len() <= 3));
            let mut all: Vec<Range<usize>> = epoch.concat().concat();
            all.sort_by_key(|run| run.start);
            assert_eq!(all, runs);
        }
    }

    #[test]
    fn windows_lie_inside_runs() {
        let runs = [3..8, 20..220, 300..310];
        let sequences = Sequences::Windows {
            steps: 50,
            batch: 3,
        };
        let mut random = Random::new(1, 0);
        for _ in 0..50 {
            let epoch = sequences.epoch(&runs, &mut random);
            assert_eq!(epoch.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
            for window in epoch.concat().concat() {
                assert!(window.len() <= 50 && !window.is_empty());
                assert!(
                    runs.iter()
                        .any(|r| r.start <= window.start && window.end <= r.end)
                );
            }
        }
    }

    #[test]
    fn packing_keeps_every_step_in_its_order() {
        let mut batch = Batch::default();
        let whole = |run| once(run).collect::<Sequence>();
        batch.pack(&[whole(0..2), vec![10..13, 20..22], whole(30..33)]);
        assert_eq!(batch.packing.count, [3, 3, 2, 1, 1]);
        assert_eq!(batch.steps, [10, 30, 0, 11, 31, 1, 12, 32, 20, 21]);
    }

    #[test]
    fn thinning_keeps_the_expected_part() {
        let mut random = Random::new(5, 2);
        let mut thinning = SpikeLoss::default();
        let mut kept = 0.0;
        for _ in 0..10_000 {
            let counts = [(0, 5.0), (3, 0.0), (7, 5.0)];
            let mut single = random.clone();
            thinning.thin(counts.into_iter(), 0.3, (Arch::new(), &mut random));
            for ((_, got), (_, count)) in thinning.counts.iter().zip(counts) {
                let left = (0..count as u32).filter(|_| single.uniform() >= 0.3);
                assert_eq!(*got, left.count() as f32);
                kept += got;
            }
            assert_eq!(single.state(), random.state());
        }
        assert!((kept / 100_000.0 - 0.7).abs() < 0.01);
        thinning.thin([(2, 5.0)].into_iter(), 0.0, (Arch::new(), &mut random));
        assert_eq!(thinning.counts, [(2, 5.0)]);
    }
}
