//! The batches of an epoch as the device takes them.

use std::iter::once;

use super::super::batch::{Batch, Losses, Task};
use super::super::mixing::Mixes;
use super::super::random::Random;

/// A batch as the device takes it: places in the list of an epoch's numbers.
pub(super) struct Plan {
    pub(super) rows: usize,
    pub(super) sequences: usize,
    pub(super) time_steps: usize,
    /// Start of each list: first, count, steps, sequences, bases, thinned, lost, mixes.
    pub(super) lists: [usize; 8],
    /// State of the random numbers before each layer's dropout.
    pub(super) dropouts: Vec<u64>,
    /// 2 over the number of rows with labels; infinite without any.
    pub(super) factor: f32,
}

/// The batches of the next epoch, and the numbers that they point to. Takes from `random` what the CPU takes.
pub(super) fn plan(task: &Task<'_>, random: &mut Random) -> (Vec<Plan>, Vec<u32>) {
    let (mut batch, mut plans, mut numbers) = (Batch::default(), Vec::new(), Vec::new());
    let mixes = (task.mixing).map(|mixing| mixing.draw(task.recipe.mixing, random));
    for sequences in task.recipe.sequences.epoch(task.runs, random) {
        batch.pack(&sequences);
        plans.push(plan_batch(
            task,
            &batch,
            mixes.as_ref(),
            random,
            &mut numbers,
        ));
    }
    (plans, numbers)
}

/// Draws that a batch takes for its steps, and the labelled ones among them.
#[derive(Default)]
struct StepDraws {
    /// State of the random numbers before each step, two numbers each.
    bases: Vec<u32>,
    /// Four numbers per step of mixtures: partner, shares and time; empty without.
    mixed: Vec<u32>,
    labelled: usize,
}

impl StepDraws {
    fn of(
        task: &Task<'_>,
        batch: &Batch,
        Losses { lost, thinned }: &Losses,
        mixes: Option<&Mixes<'_>>,
        random: &mut Random,
    ) -> Self {
        let (samples, recipe, inputs) = (task.samples, task.recipe, task.shape.inputs);
        let per_row = if recipe.noise > 0.0 { inputs } else { 0 }
            + match recipe.input_dropout > 0.0 {
                true => inputs.div_ceil(4),
                false => 0,
            };
        let mut draws = Self::default();
        for (&step, &sequence) in batch.steps.iter().zip(&batch.sequence) {
            let state = random.state();
            draws.bases.extend([state as u32, (state >> 32) as u32]);
            let mix = mixes.and_then(|mixes| mixes.of(step));
            let shown = once(step).chain(mix.as_ref().map(|mix| mix.partner));
            if thinned[sequence] > 0.0 {
                let lost = &lost[sequence * inputs..][..inputs];
                let counts = shown.clone().flat_map(|step| samples.counts(step));
                let counts = counts.filter(|(channel, _)| !lost[*channel]);
                random.skip(counts.map(|(_, count)| count as u64).sum());
            }
            draws.labelled += usize::from(shown.clone().all(|step| samples.labels(step).is_some()));
            if mixes.is_some() {
                draws.mixed.extend(mix.map_or([u32::MAX; 4], |mix| {
                    let [own, other] = mix.parts.map(f32::to_bits);
                    [mix.partner as u32, own, other, mix.time as u32]
                }));
            }
            random.skip(per_row as u64);
        }
        draws
    }
}

fn plan_batch(
    task: &Task<'_>,
    batch: &Batch,
    mixes: Option<&Mixes<'_>>,
    random: &mut Random,
    numbers: &mut Vec<u32>,
) -> Plan {
    let (recipe, rows) = (task.recipe, batch.steps.len());
    let losses = batch.draw_losses(task.samples, recipe, random);
    let draws = StepDraws::of(task, batch, &losses, mixes, random);
    let dropouts = (task.shape.layers.iter())
        .map(|layer| {
            let state = random.state();
            if recipe.dropout > 0.0 {
                random.skip((rows * layer.units).div_ceil(4) as u64);
            }
            state
        })
        .collect();
    let mut lists = [0; 8];
    let mut next = lists.iter_mut();
    let mut add = |list: &mut dyn Iterator<Item = u32>| {
        if let Some(place) = next.next() {
            *place = numbers.len();
        }
        numbers.extend(list);
    };
    add(&mut batch.packing.first.iter().map(|&first| first as u32));
    add(&mut batch.packing.count.iter().map(|&count| count as u32));
    add(&mut batch.steps.iter().map(|&step| step as u32));
    add(&mut batch.sequence.iter().map(|&sequence| sequence as u32));
    add(&mut draws.bases.into_iter());
    add(&mut losses.thinned.iter().map(|share| share.to_bits()));
    add(&mut losses.lost.iter().map(|&lost| u32::from(lost)));
    add(&mut draws.mixed.into_iter());
    Plan {
        rows,
        sequences: losses.thinned.len(),
        time_steps: batch.packing.first.len(),
        lists,
        dropouts,
        factor: 2.0 / draws.labelled as f32,
    }
}
