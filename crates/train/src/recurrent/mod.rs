//! The recurrent decoder in training: layers of gated units on the counts of a bin, trained without a reset
//! between trials, with thinned and lost channels.
//!
//! A network that is reset at every trial's start in training goes astray in a session, which is never reset; so
//! runs are joined. Its inputs are linear in the counts up to a cap, so that a session adds rows of weights as
//! spikes come.

mod batch;
mod cuda;
mod entrant;
mod fit;
mod pass;
mod product;
mod random;
mod real;
mod samples;
mod shape;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fit::checked;
use crate::limits::limits;
use batch::{Batch, Recipe, Sequence};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress};
use betz_device::{Device, Placement, Work as PlacedWork};
use betz_recording::DatasetView;
use betz_runtime::model::{
    Cell, Decoder, DecoderParts, Head, Recurrent, RecurrentLayer, RecurrentMember, TrainingRecord,
};
use betz_runtime::psc::{Filter, FilterBank};
pub(crate) use entrant::Entrant;
use pass::{Pass, Work};
use pulp::Arch;
use random::Random;
use rayon::prelude::*;
use samples::{Samples, Scaling};
use shape::{GATES, Layer, Shape};

/// Units of a layer are multiples of this: whole vectors.
pub(crate) const UNITS_MULTIPLE: usize = product::COLUMNS;

/// Fewest runs that are taken for trials.
const FEWEST_TRIALS: usize = 20;

/// Longest mean of runs, in steps, that are taken for trials.
const LONGEST_TRIALS: usize = 200;

/// A τ of so many parts of a step leaves of an order-0 filter the bin itself.
const PARTS: f64 = 40.0;

/// Largest difference of estimates, in standard deviations of the labels, of states that have forgotten how they
/// began.
const FORGOTTEN: f32 = 1e-4;

/// Most steps over which it is measured when states have forgotten.
const MOST_MEMORY: usize = 1000;

/// Multiply-adds per second of training on one thread, about.
const MULTIPLY_ADDS_PER_SECOND: f64 = 4e10;

/// Layers of at least so many units have bfloat16 weights: they would not fit in the first cache otherwise.
const ROUNDED_UNITS: usize = 128;

/// Most sequences that are estimated side by side.
const ESTIMATED_TOGETHER: usize = 256;

/// The sizes of a recurrent decoder, and its seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Units of each layer.
    pub(crate) layers: Vec<usize>,
    /// Networks whose estimates are averaged; they differ by their seed alone.
    pub(crate) members: usize,
    pub(crate) seed: u64,
}

impl Sizes {
    /// Two layers of 64 for trials, one for continuous recordings.
    fn usual(data: &DatasetView<'_>, seed: u64) -> Self {
        Self {
            layers: if has_trials(data) {
                vec![64, 64]
            } else {
                vec![64]
            },
            members: 1,
            seed,
        }
    }

    fn describe(&self) -> String {
        let layers: Vec<String> = self.layers.iter().map(ToString::to_string).collect();
        let members = match self.members {
            1 => String::new(),
            several => format!(", {several} members"),
        };
        format!("layers of {} units{members}", layers.join(", "))
    }
}

/// True if the recording consists of many short runs.
fn has_trials(data: &DatasetView<'_>) -> bool {
    let count = data.segments.len();
    count >= FEWEST_TRIALS && data.steps_in_segments() <= LONGEST_TRIALS * count
}

/// Members trained on the same runs.
struct Trained {
    shape: Shape,
    scaling: Scaling,
    /// One list per member.
    members: Vec<Vec<f32>>,
    /// Epochs that every member went through.
    epochs: usize,
}

/// Counts epochs of all networks in training, and passes on a request to stop.
struct Epochs<'a> {
    progress: &'a dyn Progress,
    done: AtomicU64,
    total: u64,
}

impl Epochs<'_> {
    fn each(&self) -> Result<()> {
        progress::check(self.progress, "recurrent decoder")?;
        let done = self.done.fetch_add(1, Ordering::Relaxed);
        self.progress.update("train networks", done, self.total);
        Ok(())
    }
}

/// Places the training of all members on all folds and on the whole: on a device if it takes less time there.
fn place(
    device: &Device,
    samples: &Samples<'_>,
    runs: &[Range<usize>],
    (sizes, recipe): (&Sizes, &Recipe),
    networks: usize,
) -> Placement {
    let shape = Shape::new(
        samples.data.channels(),
        samples.data.outputs.len(),
        &sizes.layers,
    );
    let steps: usize = runs.iter().map(Range::len).sum();
    // Forward, and twice as much back.
    let multiply_adds = (3 * shape.weights * steps * recipe.epochs * networks) as f64;
    let batches = recipe.sequences.batches(runs, recipe.epochs) * networks;
    let threads = rayon::current_num_threads().min(networks) as f64;
    let work = PlacedWork::Seconds {
        cpu: multiply_adds / (MULTIPLY_ADDS_PER_SECOND * threads),
        cuda: cuda::expected_seconds(batches, multiply_adds),
    };
    Placement::decide(device, work)
}

/// Trains the members of `sizes` on `runs`, each on a thread: the same weights for any number of threads. On a request
/// to stop after the first epoch, keeps the weights so far.
fn train(
    samples: &Samples<'_>,
    runs: &[Range<usize>],
    (sizes, recipe): (&Sizes, &Recipe),
    epochs: &Epochs<'_>,
    placement: &Placement,
) -> Result<Trained> {
    if !runs
        .iter()
        .cloned()
        .flatten()
        .any(|step| samples.labels(step).is_some())
    {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            "recurrent decoder: expected steps with labels to train on, got none",
        ));
    }
    let shape = Shape::new(
        samples.data.channels(),
        samples.data.outputs.len(),
        &sizes.layers,
    );
    let scaling = samples.scaling(runs);
    let members: Result<Vec<fit::FitOutcome>> = (0..sizes.members as u64)
        .into_par_iter()
        .map(|member| {
            let task = fit::Task {
                shape: &shape,
                samples,
                scaling: &scaling,
                runs,
                recipe,
            };
            let random = || Random::new(sizes.seed, member);
            if let Some(context) = placement.contexts().first() {
                let fitted = cuda::fit(&task, context, random(), &|| epochs.each());
                if let Some(fitted) = placement.or_cpu(fitted)? {
                    return Ok(fitted);
                }
            }
            fit::fit(&task, random(), &|| epochs.each())
        })
        .collect();
    let members = members?;
    Ok(Trained {
        epochs: members.iter().map(|m| m.epochs).min().unwrap_or(0),
        members: members.into_iter().map(|m| m.weights).collect(),
        shape,
        scaling,
    })
}

impl Trained {
    /// Estimates of the steps of `sequences`, each from rest: calls `each` with the step and its row, in the labels'
    /// units.
    fn estimate(
        &self,
        samples: &Samples<'_>,
        sequences: &[Sequence],
        mut each: impl FnMut(usize, &[f64]),
    ) {
        let (mut batch, mut work) = (Batch::default(), Work::default());
        let outputs = self.shape.outputs;
        let mut rows = Vec::new();
        for sequences in sequences.chunks(ESTIMATED_TOGETHER) {
            batch.pack(sequences);
            batch.fill(samples, &self.scaling);
            rows.clear();
            rows.resize(batch.steps.len() * outputs, 0.0);
            for weights in &self.members {
                self.pass(weights, &batch).forward(&mut work, None, None);
                let estimates = work.estimates.chunks_exact(self.shape.columns);
                for (row, estimates) in rows.chunks_exact_mut(outputs).zip(estimates) {
                    for (sum, estimate) in row.iter_mut().zip(estimates) {
                        *sum += f64::from(*estimate) / self.members.len() as f64;
                    }
                }
            }
            for (row, &step) in rows.chunks_exact_mut(outputs).zip(&batch.steps) {
                for (o, value) in row.iter_mut().enumerate() {
                    let deviation = self.scaling.label_deviations[o];
                    *value = *value * deviation + self.scaling.label_means[o];
                }
                each(step, row);
            }
        }
    }

    fn pass<'a>(&'a self, weights: &'a [f32], batch: &'a Batch) -> Pass<'a, f32> {
        Pass {
            arch: Arch::new(),
            shape: &self.shape,
            weights,
            packing: &batch.packing,
            inputs: &batch.inputs,
        }
    }

    /// Steps after which estimates no longer tell how the states began, over the first steps of `runs`.
    fn memory_steps(&self, samples: &Samples<'_>, runs: &[Range<usize>]) -> u64 {
        let steps = runs.iter().cloned().flatten().take(MOST_MEMORY);
        let sequence: Sequence = steps.map(|step| step..step + 1).collect();
        let mut batch = Batch::default();
        batch.pack(&[sequence]);
        batch.fill(samples, &self.scaling);
        let mut longest = 0;
        let (mut rest, mut other) = (Work::default(), Work::default());
        for weights in &self.members {
            let pass = self.pass(weights, &batch);
            pass.forward(&mut rest, None, None);
            let start: Vec<Vec<f32>> = (self.shape.layers.iter())
                .map(|layer| vec![0.5; layer.units])
                .collect();
            pass.forward(&mut other, None, Some(&start));
            let pairs = rest.estimates.iter().zip(&other.estimates);
            let apart = pairs
                .map(|(a, b)| (a - b).abs() > FORGOTTEN)
                .collect::<Vec<bool>>();
            let last = apart.iter().rposition(|&apart| apart);
            longest = longest.max(last.map_or(0, |i| i / self.shape.columns + 1));
        }
        longest as u64 + 1
    }

    /// The head of a decoder, its engine's weights, (channel, latent), and its intercept.
    fn head(&self, sizes: &Sizes, memory_steps: u64) -> (Head, Vec<f64>, Vec<f64>) {
        let (shape, scaling) = (&self.shape, &self.scaling);
        let count = self.members.len();
        let columns = shape.layers[0].columns;
        let mut weights = vec![0.0; shape.inputs * count * columns];
        let mut intercept = Vec::new();
        let mut bias = scaling.label_means.clone();
        let mut members = Vec::new();
        for (m, all) in self.members.iter().enumerate() {
            let first = &shape.layers[0];
            let rows = all[first.input_weights.clone()].chunks_exact(columns);
            let engine = weights.chunks_exact_mut(count * columns);
            for ((to, row), &factor) in engine.zip(rows).zip(&scaling.factors) {
                for (to, weight) in to[m * columns..].iter_mut().zip(row) {
                    *to = f64::from(*weight) * f64::from(factor);
                }
            }
            intercept.extend(all[first.input_bias.clone()].iter().map(|&b| f64::from(b)));
            let share = 1.0 / count as f64;
            for (o, bias) in bias.iter_mut().enumerate() {
                let own = f64::from(all[shape.readout_bias.clone()][o]);
                *bias += own * share * scaling.label_deviations[o];
            }
            let readout = &all[shape.readout.clone()];
            let readout = (0..shape.outputs).flat_map(|o| {
                let factor = share * scaling.label_deviations[o];
                let column = readout.iter().skip(o).step_by(shape.columns);
                column.map(move |&weight| (f64::from(weight) * factor) as f32)
            });
            members.push(RecurrentMember {
                layers: layers(shape, all),
                readout: readout.collect(),
            });
        }
        let head = Head::Recurrent(Recurrent {
            cell: Cell::Gru,
            units: sizes.layers.clone(),
            members,
            bias,
            memory_steps,
            seed: sizes.seed,
        });
        (head, weights, intercept)
    }

    /// The decoder of these networks, trained on `runs` of `samples`.
    fn decoder(
        &self,
        samples: &Samples<'_>,
        runs: &[Range<usize>],
        sizes: &Sizes,
        (delay_steps, mut record): (i64, TrainingRecord),
    ) -> Result<Decoder> {
        let data = &samples.data;
        let memory_steps = self.memory_steps(samples, runs);
        let (head, weights, intercept) = self.head(sizes, memory_steps);
        let steps = runs.iter().cloned().flatten();
        record.steps = steps.filter(|&step| samples.labels(step).is_some()).count() as u64;
        let mask: Vec<bool> = self.scaling.factors.iter().map(|&f| f > 0.0).collect();
        let mut limits = limits(data, &mask, false);
        limits.count_caps.clone_from(&self.scaling.caps);
        let bank = FilterBank::new(vec![Filter {
            tau_seconds: data.step_seconds / PARTS,
            order: 0,
        }])?;
        checked(DecoderParts {
            delay_steps,
            channel_mask: mask,
            weights,
            intercept,
            head,
            limits,
            training: record,
            ..DecoderParts::linear(
                data.step_seconds,
                bank,
                data.channel_names.to_vec(),
                data.outputs.to_vec(),
            )
        })
    }
}

/// The nearest bfloat16 number, of two the even one.
fn to_bfloat16(value: f32) -> f32 {
    let bits = value.to_bits();
    let up = 0x7FFF + (bits >> 16 & 1);
    f32::from_bits(bits.wrapping_add(up) & 0xFFFF_0000)
}

/// The layers of one member, whose weights are `all`.
fn layers(shape: &Shape, all: &[f32]) -> Vec<RecurrentLayer> {
    let layers = shape.layers.iter().enumerate();
    let layer = |(l, layer): (usize, &Layer)| {
        let of_input = |range: &Range<usize>| match l {
            0 => Vec::new(),
            _ => all[range.clone()].to_vec(),
        };
        debug_assert_eq!(layer.columns, GATES * layer.units);
        let rounded = |weights: Vec<f32>| match layer.units >= ROUNDED_UNITS {
            true => weights.into_iter().map(to_bfloat16).collect(),
            false => weights,
        };
        RecurrentLayer {
            input_weights: rounded(of_input(&layer.input_weights)),
            input_bias: of_input(&layer.input_bias),
            state_weights: rounded(all[layer.state_weights.clone()].to_vec()),
            state_bias: all[layer.state_bias.clone()].to_vec(),
        }
    };
    layers.map(layer).collect()
}

#[cfg(test)]
mod tests;
