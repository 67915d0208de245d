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
mod gates;
mod mixing;
mod pass;
pub(crate) mod product;
mod random;
mod real;
mod samples;
mod shape;
#[cfg(feature = "tuning")]
mod tuning;

use std::iter::once;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fit::checked;
use crate::kinds::options::KindOptions;
use crate::limits::limits;
use batch::{Batch, Recipe, Sequence};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_base::progress::{self, Progress};
use betz_device::{Device, Placement, Work as PlacedWork};
use betz_recording::DatasetView;
use betz_runtime::model::{
    Blend, Cell, Decoder, DecoderParts, Head, MAX_MEMBERS, MAX_OUTPUTS, Recurrent, RecurrentLayer,
    RecurrentMember, TrainingRecord, WeightPrecision,
};
use betz_runtime::psc::{Filter, FilterBank};
pub(crate) use entrant::{Entrant, scored_early};
use mixing::Mixer;
use pass::{Pass, Work};
use pulp::Arch;
use random::Random;
use rayon::prelude::*;
use samples::{Samples, Scaling};
use shape::{GATES, Layer, Shape};
#[cfg(feature = "tuning")]
pub(crate) use tuning::{TUNING_EPOCHS, check_tunable, tune, tuning_bytes, tuning_multiply_adds};

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

/// Most sequences that are estimated side by side.
const ESTIMATED_TOGETHER: usize = 256;

/// Numbers that networks trained on mixtures make of their inputs first: more of them fit the directions that training
/// saw, not those between.
const PROJECTED: usize = 16;

/// Part of the estimate by mixtures where it agrees with the usual one.
const MIXED_SHARE: f64 = 1.0 / 3.0;

/// Distance of the two estimates at which the usual one has half of its part, [`Blend::apart`].
const APART: f64 = 0.6;

/// Time constant of the low-pass on that distance.
const APART_SECONDS: f64 = 0.45;

/// The sizes of a recurrent decoder, and its seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Units of each layer.
    pub(crate) layers: Vec<usize>,
    /// Networks whose estimates are averaged; they differ by their seed alone.
    pub(crate) members: usize,
    /// Networks trained on mixtures of trials, which are averaged, too, and blended with the others.
    pub(crate) mixed: usize,
    /// Numbers that matrices are rounded to; `None`: bfloat16 in wide layers.
    pub(crate) precision: Option<WeightPrecision>,
    pub(crate) seed: u64,
}

impl Sizes {
    /// Sizes from `kinds`. By default trials have two layers of 64 units, one network, and another by mixtures
    /// if a decoder has room for it. Continuous recordings have one layer and one network.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for more networks than a decoder may have.
    fn new(data: &DatasetView<'_>, kinds: &KindOptions) -> Result<Self> {
        let has_trials = has_trials(data);
        let usual = if has_trials { vec![64, 64] } else { vec![64] };
        let layers = kinds.layers.clone().unwrap_or(usual);
        let members = kinds.members.unwrap_or(1);
        let most =
            (MAX_OUTPUTS / (GATES * layers.first().map_or(1, |&units| units))).min(MAX_MEMBERS);
        let mixed = match kinds.mixed {
            Some(mixed) => mixed,
            None => usize::from(has_trials && members < most),
        };
        if mixed > 0 && !has_trials {
            return Err(Error::argument(format!(
                "recurrent decoder: expected 0 networks by mixtures without {FEWEST_TRIALS} or more trials, got {mixed}"
            )));
        }
        if members + mixed > most {
            return Err(Error::argument(format!(
                "recurrent decoder: expected at most {most} networks with layers of so many units, got {}",
                members + mixed
            )));
        }
        Ok(Self {
            layers,
            members,
            mixed,
            precision: kinds.weights,
            seed: kinds.seed,
        })
    }

    fn describe(&self) -> String {
        let layers: Vec<String> = self.layers.iter().map(ToString::to_string).collect();
        let members = match self.members {
            1 => String::new(),
            several => format!(", {several} members"),
        };
        let mixed = match self.mixed {
            0 => String::new(),
            some => format!(", {some} by mixtures"),
        };
        let precision =
            (self.precision).map_or_else(String::new, |p| format!(", weights in {}", p.name()));
        format!(
            "layers of {} units{members}{mixed}{precision}",
            layers.join(", ")
        )
    }

    /// Networks of both sorts.
    fn networks(&self) -> usize {
        self.members + self.mixed
    }
}

/// True if the recording consists of many short runs.
pub(crate) fn has_trials(data: &DatasetView<'_>) -> bool {
    let count = data.segments.len();
    count >= FEWEST_TRIALS && data.steps_in_segments() <= LONGEST_TRIALS * count
}

/// Networks of one shape.
struct Networks {
    shape: Shape,
    /// The weights of each.
    weights: Vec<Vec<f32>>,
}

/// Members trained on the same runs.
struct Trained {
    scaling: Scaling,
    usual: Networks,
    /// Those trained on mixtures, and how their estimates are blended with the others'.
    mixed: Option<(Networks, Blend)>,
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
        cuda: cuda::expected_seconds(batches, threads, multiply_adds),
    };
    Placement::decide(device, work)
}

/// Refuses runs without a step that has labels.
fn check_labels(samples: &Samples<'_>, runs: &[Range<usize>]) -> Result<()> {
    let mut steps = runs.iter().cloned().flatten();
    match steps.any(|step| samples.labels(step).is_some()) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::InsufficientData,
            "recurrent decoder: expected steps with labels to train on, got none",
        )),
    }
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
    check_labels(samples, runs)?;
    let (channels, outputs) = (samples.data.channels(), samples.data.outputs.len());
    let scaling = samples.scaling(runs);
    let mixing = match sizes.mixed {
        0 => None,
        _ => Mixer::new(samples, &scaling, runs),
    };
    let mixed = if mixing.is_some() { sizes.mixed } else { 0 };
    let shapes = [None, Some(PROJECTED)]
        .map(|width| Shape::projected(channels, width, outputs, &sizes.layers));
    let mixtures = Recipe {
        mixing: Recipe::MIXTURES.mixing,
        ..*recipe
    };
    let networks: Result<Vec<fit::FitOutcome>> = (0..sizes.members + mixed)
        .into_par_iter()
        .map(|network| {
            let is_mixed = network >= sizes.members;
            let task = batch::Task {
                shape: &shapes[usize::from(is_mixed)],
                samples,
                scaling: &scaling,
                runs,
                recipe: if is_mixed { &mixtures } else { recipe },
                mixing: mixing.as_ref().filter(|_| is_mixed),
            };
            let random = || Random::new(sizes.seed, network as u64);
            if let Some(context) = placement.contexts().first() {
                let fitted = cuda::fit(&task, context, random(), &|| epochs.each());
                if let Some(fitted) = placement.or_cpu(fitted)? {
                    return Ok(fitted);
                }
            }
            fit::fit(&task, random(), &|| epochs.each())
        })
        .collect();
    let networks = networks?;
    let epochs = networks.iter().map(|m| m.epochs).min().unwrap_or(0);
    let mut weights: Vec<Vec<f32>> = networks.into_iter().map(|m| m.weights).collect();
    for (network, all) in weights.iter_mut().enumerate() {
        shapes[usize::from(network >= sizes.members)].round(sizes.precision, all);
    }
    let of_mixed = weights.split_off(sizes.members);
    let [usual, by_mixtures] = shapes;
    let mixed = (mixed > 0).then(|| {
        let networks = Networks {
            shape: by_mixtures,
            weights: of_mixed,
        };
        let bias = networks.bias(&scaling);
        (
            networks,
            blend(sizes, &scaling, bias, samples.data.step_seconds),
        )
    });
    Ok(Trained {
        scaling,
        usual: Networks {
            shape: usual,
            weights,
        },
        mixed,
        epochs,
    })
}

/// How estimates of networks trained on mixtures, whose bias is `bias`, are blended with those of the others.
fn blend(sizes: &Sizes, scaling: &Scaling, bias: Vec<f64>, step_seconds: f64) -> Blend {
    Blend {
        usual: sizes.members,
        share: MIXED_SHARE,
        apart: APART,
        kept: float::exp(-step_seconds / APART_SECONDS),
        deviations: scaling.label_deviations.clone(),
        bias,
    }
}

impl Networks {
    /// Mean estimates of every row of `batch`, standardised: (row, output).
    fn estimates(&self, batch: &Batch, work: &mut Work<f32>) -> Vec<f64> {
        let outputs = self.shape.outputs;
        let mut rows = vec![0.0; batch.steps.len() * outputs];
        for weights in &self.weights {
            self.pass(weights, batch).forward(work, None, None);
            let estimates = work.estimates.chunks_exact(self.shape.columns);
            for (row, estimates) in rows.chunks_exact_mut(outputs).zip(estimates) {
                for (sum, estimate) in row.iter_mut().zip(estimates) {
                    *sum += f64::from(*estimate) / self.weights.len() as f64;
                }
            }
        }
        rows
    }

    /// The same in the labels' units.
    fn scaled_estimates(&self, batch: &Batch, scaling: &Scaling, work: &mut Work<f32>) -> Vec<f64> {
        let mut rows = self.estimates(batch, work);
        for row in rows.chunks_exact_mut(self.shape.outputs) {
            for (o, value) in row.iter_mut().enumerate() {
                *value = *value * scaling.label_deviations[o] + scaling.label_means[o];
            }
        }
        rows
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

    /// The last step of `batch`, one sequence, at which a network tells whether it began from rest or from 0.5, and 1.
    fn longest_memory(&self, batch: &Batch) -> usize {
        let mut longest = 0;
        let (mut rest, mut other) = (Work::default(), Work::default());
        for weights in &self.weights {
            let pass = self.pass(weights, batch);
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
        longest
    }

    /// The bias of the mean of their readouts, in the labels' units.
    fn bias(&self, scaling: &Scaling) -> Vec<f64> {
        let mut bias = scaling.label_means.clone();
        for all in &self.weights {
            let share = 1.0 / self.weights.len() as f64;
            for (o, bias) in bias.iter_mut().enumerate() {
                let own = f64::from(all[self.shape.readout_bias.clone()][o]);
                *bias += own * share * scaling.label_deviations[o];
            }
        }
        bias
    }

    /// The weights of the first layer's gates by the scaled inputs, (channel, column), of the network of weights `all`.
    fn input_weights(&self, all: &[f32]) -> Vec<f64> {
        let first = &self.shape.layers[0];
        let rows = &all[first.input_weights.clone()];
        let Some(projection) = &self.shape.projection else {
            return rows.iter().map(|&weight| f64::from(weight)).collect();
        };
        let mut product = Vec::new();
        for projected in all[projection.weights.clone()].chunks_exact(projection.width) {
            let mut sums = vec![0.0; first.columns];
            for (&factor, row) in projected.iter().zip(rows.chunks_exact(first.columns)) {
                for (sum, &weight) in sums.iter_mut().zip(row) {
                    *sum += f64::from(factor) * f64::from(weight);
                }
            }
            product.extend(sums);
        }
        product
    }

    /// The network of weights `all` as a member of a decoder.
    fn member(&self, all: &[f32], scaling: &Scaling) -> RecurrentMember {
        let shape = &self.shape;
        let share = 1.0 / self.weights.len() as f64;
        let readout = &all[shape.readout.clone()];
        let readout = (0..shape.outputs).flat_map(|o| {
            let factor = share * scaling.label_deviations[o];
            let column = readout.iter().skip(o).step_by(shape.columns);
            column.map(move |&weight| (f64::from(weight) * factor) as f32)
        });
        RecurrentMember {
            layers: layers(shape, all),
            readout: readout.collect(),
        }
    }
}

impl Trained {
    /// Both sorts of networks.
    fn networks(&self) -> impl Iterator<Item = &Networks> {
        once(&self.usual).chain(self.mixed.iter().map(|(networks, _)| networks))
    }

    /// Estimates of the steps of `sequences`, each from rest: calls `each` with the step and its row, in the labels'
    /// units.
    fn estimate(
        &self,
        samples: &Samples<'_>,
        sequences: &[Sequence],
        mut each: impl FnMut(usize, &[f64]),
    ) {
        let (mut batch, mut work) = (Batch::default(), Work::default());
        let outputs = self.usual.shape.outputs;
        for sequences in sequences.chunks(ESTIMATED_TOGETHER) {
            batch.pack(sequences);
            batch.fill(samples, &self.scaling);
            let scaling = &self.scaling;
            let mut rows = self.usual.scaled_estimates(&batch, scaling, &mut work);
            let mixed = (self.mixed.as_ref())
                .map(|(mixed, blend)| (mixed.scaled_estimates(&batch, scaling, &mut work), blend));
            let mut distances = vec![0.0; sequences.len()];
            for (i, row) in rows.chunks_exact_mut(outputs).enumerate() {
                if let Some((mixed, blend)) = &mixed {
                    let distance = &mut distances[batch.sequence[i]];
                    blend.mix(distance, row, &mixed[i * outputs..][..outputs]);
                }
                each(batch.steps[i], row);
            }
        }
    }

    /// Steps after which estimates no longer tell how the states began, over the first steps of `runs`.
    fn memory_steps(&self, samples: &Samples<'_>, runs: &[Range<usize>]) -> u64 {
        let steps = runs.iter().cloned().flatten().take(MOST_MEMORY);
        let sequence: Sequence = steps.map(|step| step..step + 1).collect();
        let mut batch = Batch::default();
        batch.pack(&[sequence]);
        batch.fill(samples, &self.scaling);
        let longest = (self
            .networks()
            .map(|networks| networks.longest_memory(&batch)))
        .max();
        let of_blend = (self.mixed.as_ref()).map_or(0.0, |(_, blend)| {
            float::ln(f64::from(FORGOTTEN)) / float::ln(blend.kept)
        });
        longest.unwrap_or(0).max(of_blend.ceil() as usize) as u64 + 1
    }

    /// The head of a decoder, its engine's weights, (channel, latent), and its intercept.
    fn head(&self, sizes: &Sizes, memory_steps: u64) -> (Head, Vec<f64>, Vec<f64>) {
        let scaling = &self.scaling;
        let count: usize = self.networks().map(|networks| networks.weights.len()).sum();
        let Shape { inputs, layers, .. } = &self.usual.shape;
        let columns = layers[0].columns;
        let mut weights = vec![0.0; inputs * count * columns];
        let mut intercept = Vec::new();
        let mut members = Vec::new();
        for networks in self.networks() {
            let bias = &networks.shape.layers[0].input_bias;
            for all in &networks.weights {
                let rows = networks.input_weights(all);
                let engine = weights.chunks_exact_mut(count * columns);
                let rows = rows.chunks_exact(columns);
                for ((to, row), &factor) in engine.zip(rows).zip(&scaling.factors) {
                    let to = &mut to[members.len() * columns..];
                    for (to, weight) in to.iter_mut().zip(row) {
                        *to = weight * f64::from(factor);
                    }
                }
                intercept.extend(all[bias.clone()].iter().map(|&b| f64::from(b)));
                members.push(networks.member(all, scaling));
            }
        }
        let head = Head::Recurrent(Recurrent {
            cell: Cell::Gru,
            units: sizes.layers.clone(),
            members,
            bias: self.usual.bias(scaling),
            memory_steps,
            seed: sizes.seed,
            blend: self.mixed.as_ref().map(|(_, blend)| blend.clone()),
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

/// The layers of one member, whose weights are `all`.
fn layers(shape: &Shape, all: &[f32]) -> Vec<RecurrentLayer> {
    let layers = shape.layers.iter().enumerate();
    let layer = |(l, layer): (usize, &Layer)| {
        let of_input = |range: &Range<usize>| match l {
            0 => Vec::new(),
            _ => all[range.clone()].to_vec(),
        };
        debug_assert_eq!(layer.columns, GATES * layer.units);
        RecurrentLayer {
            input_weights: of_input(&layer.input_weights),
            input_bias: of_input(&layer.input_bias),
            state_weights: all[layer.state_weights.clone()].to_vec(),
            state_bias: all[layer.state_bias.clone()].to_vec(),
        }
    };
    layers.map(layer).collect()
}

#[cfg(test)]
mod tests;
