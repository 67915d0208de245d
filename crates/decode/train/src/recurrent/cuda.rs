//! Training one network on a CUDA device by `recurrent_train.cu`: [`fit`](super::fit::fit) with the same random numbers,
//! so that every batch has the same inputs; sums are in another order. Data and weights stay on the device; an epoch
//! takes to it which steps its batches show, and gives back one number.

mod places;
mod plan;

use std::sync::Arc;

use super::batch::Task;
use super::fit::{self, FIRST_DECAY, FitOutcome, OptimiserRates, SECOND_DECAY, StepFactors};
use super::mixing::Mixer;
use super::random::Random;
use super::shape::{GATES, Layer};
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_kernels::recurrent::{
    PRODUCT_THREADS, RecurrentBackward, RecurrentBelow, RecurrentForward, RecurrentGradients,
    RecurrentInputSide, RecurrentInputs, RecurrentLoss, RecurrentSquares, RecurrentUpdate, THREADS,
    TILE, layer_threads,
};
use places::{WorkPlaces, gradient_jobs, work_places};
use plan::{Plan, plan};

/// Blocks that sum the squares of a gradient; the threads of one block add their sums up.
const PARTS: usize = 128;

/// Rows of a block that takes one per warp.
const ROWS: usize = THREADS as usize / 32;

/// Kernels of one layer, which are compiled for its number of units.
struct LayerKernels {
    forward: Kernel,
    backward: Kernel,
}

struct Kernels {
    inputs: Kernel,
    input_side: Kernel,
    below: Kernel,
    loss: Kernel,
    gradients: Kernel,
    squares: Kernel,
    update: Kernel,
    layers: Vec<LayerKernels>,
}

/// Dropout as the kernels take it: a threshold for 16 bits, −1 for none, and the factor of what is kept.
fn dropout(probability: f32) -> (i32, f32) {
    if probability > 0.0 {
        ((probability * 65_536.0) as i32, 1.0 / (1.0 - probability))
    } else {
        (-1, 1.0)
    }
}

/// A network in training on one device.
struct OnCuda<'a> {
    task: &'a Task<'a>,
    kernels: Kernels,
    places: WorkPlaces,
    entries: Buffer<u32>,
    entry_channels: Buffer<u32>,
    entry_counts: Buffer<f32>,
    factors: Buffer<f32>,
    caps: Buffer<f32>,
    labels: Buffer<f32>,
    /// Means of inputs and of labels that mixtures need; one number without.
    mean_inputs: Buffer<f32>,
    mean_labels: Buffer<f32>,
    jobs: Buffer<u32>,
    work: Buffer<f32>,
    weights: Buffer<f32>,
    gradient: Buffer<f32>,
    mean: Buffer<f32>,
    first: Buffer<f32>,
    second: Buffer<f32>,
    squares: Buffer<f64>,
    overflows: Buffer<u32>,
}

/// [`fit`](super::fit::fit) on a device.
///
/// # Errors
/// The errors of [`fit`](super::fit::fit) and of the device; [`ErrorKind::DeviceMemory`] with the bytes it takes.
pub(super) fn fit(
    task: &Task<'_>,
    context: &Arc<Context>,
    mut random: Random,
    each_epoch: &dyn Fn() -> Result<()>,
) -> Result<FitOutcome> {
    let recipe = task.recipe;
    // A batch keeps a tenth of a device busy: networks are trained side by side, each on a stream.
    let context = &context.beside()?;
    let mut network = OnCuda::new(task, context, &fit::initial(task.shape, &mut random))?;
    let steps = recipe.sequences.batches(task.runs, recipe.epochs);
    let rates = OptimiserRates::of(recipe);
    let mut step = 0;
    let mut epochs = 0;
    let (mut plans, mut host_numbers) = plan(task, &mut random);
    while epochs < recipe.epochs {
        match each_epoch() {
            Err(stop) if epochs == 0 || stop.kind() != ErrorKind::Interrupted => return Err(stop),
            Err(_) => break,
            Ok(()) => {}
        }
        let numbers = context.upload(&host_numbers)?;
        for plan in plans.iter().filter(|plan| plan.factor.is_finite()) {
            network.differentiate(plan, &numbers)?;
            step += 1;
            network.update(&StepFactors::new(step, steps, rates))?;
        }
        epochs += 1;
        // The next epoch is planned beside this one, for which the download waits.
        if epochs < recipe.epochs {
            (plans, host_numbers) = plan(task, &mut random);
        }
        let overflows = context.download_range(&network.overflows, 1..2)?;
        fit::check_overflows(overflows[0] as usize)?;
    }
    Ok(FitOutcome {
        weights: context.download(&network.mean, task.shape.weights)?,
        epochs,
    })
}

impl<'a> OnCuda<'a> {
    fn new(task: &'a Task<'a>, context: &Context, weights: &[f32]) -> Result<Self> {
        let (shape, samples, scaling) = (task.shape, task.samples, task.scaling);
        let rows = task.recipe.sequences.most_steps(task.runs);
        let places = work_places(shape, rows);
        let end = places.end;
        int(end)?;
        let entries = samples.channels.len();
        let labels = samples.data.steps * shape.outputs;
        let needed =
            4 * (end + 5 * shape.weights + 3 * entries + labels + samples.first.len()) as u64;
        let (needed, room) = (needed + needed / 16, context.available_memory()?);
        if needed > room {
            return Err(Error::device_memory(
                "training a recurrent decoder",
                needed,
                room,
            ));
        }
        let jobs = gradient_jobs(shape, &places);
        let jobs = jobs.iter().flatten().map(|&number| number as u32);
        let means = |of: fn(&Mixer) -> &[f32]| context.upload(task.mixing.map_or(&[0.0], of));
        let mut labels = Vec::new();
        (0..samples.data.steps).for_each(|step| samples.extend_targets(step, scaling, &mut labels));
        let first: Vec<u32> = samples.first.iter().map(|&entry| entry as u32).collect();
        int(entries)?;
        Ok(Self {
            task,
            kernels: Kernels::load(context, &shape.layers)?,
            places,
            entries: context.upload(&first)?,
            entry_channels: context.upload(&samples.channels)?,
            entry_counts: context.upload(&samples.counts)?,
            factors: context.upload(&scaling.factors)?,
            caps: context.upload(&scaling.caps)?,
            labels: context.upload(&labels)?,
            mean_inputs: means(|mixing| &mixing.mean_inputs)?,
            mean_labels: means(|mixing| &mixing.mean_labels)?,
            jobs: context.upload(&jobs.collect::<Vec<_>>())?,
            work: context.alloc(end)?,
            weights: context.upload(weights)?,
            gradient: context.zeros(weights.len())?,
            mean: context.upload(weights)?,
            first: context.zeros(weights.len())?,
            second: context.zeros(weights.len())?,
            squares: context.zeros(PARTS)?,
            overflows: context.zeros(2)?,
        })
    }

    /// The gradient of a batch, in `self.gradient`.
    fn differentiate(&mut self, plan: &Plan, numbers: &Buffer<u32>) -> Result<()> {
        self.fill(plan, numbers)?;
        self.forward(plan, numbers)?;
        self.losses(plan, numbers)?;
        self.backward(plan, numbers)?;
        self.gradients(int(plan.rows)?)
    }

    /// The outputs of all layers.
    fn forward(&mut self, plan: &Plan, numbers: &Buffer<u32>) -> Result<()> {
        let shape = self.task.shape;
        let (threshold, kept) = dropout(self.task.recipe.dropout);
        let [first, count, ..] = plan.lists.map(|list| numbers.read().skip(list));
        if let (Some(projection), Some([projected, _])) = (&shape.projection, self.places.projected)
        {
            let (weights, width) = (projection.weights.start, projection.width);
            self.multiply(
                (weights, false),
                [0, projected],
                [plan.rows, shape.inputs, width],
            )?;
        }
        for (l, layer) in shape.layers.iter().enumerate() {
            self.multiply(
                (layer.input_weights.start, true),
                [self.places.input(l), self.places.layers[l].of_input],
                [plan.rows, layer.inputs, layer.columns],
            )?;
            let place = &self.places.layers[l];
            self.kernels.layers[l].forward.launch(
                (plan.sequences as u32, 1, 1),
                layer_threads(layer.units as u32),
                RecurrentForward {
                    first,
                    count,
                    steps: int(plan.time_steps)?,
                    weights: self.weights.read(),
                    at: int(layer.state_weights.start)?,
                    of_input: int(place.of_input)?,
                    gates: int(place.gates)?,
                    before: int(place.before)?,
                    after: int(place.after)?,
                    random: plan.dropouts[l],
                    threshold,
                    kept,
                    work: self.work.update(),
                },
            )?;
        }
        Ok(())
    }

    /// Derivatives of the loss by the estimates and by the outputs of the last layer.
    fn losses(&mut self, plan: &Plan, numbers: &Buffer<u32>) -> Result<()> {
        let shape = self.task.shape;
        let [_, _, steps, _, _, _, _, mixes] = plan.lists.map(|list| numbers.read().skip(list));
        let Some(top) = self.places.layers.last() else {
            return Ok(());
        };
        self.kernels.loss.launch(
            (plan.rows.div_ceil(ROWS) as u32, 1, 1),
            THREADS,
            RecurrentLoss {
                weights: self.weights.read(),
                at: int(shape.readout.start)?,
                labels: self.labels.read(),
                means: self.mean_labels.read(),
                steps,
                mixes,
                is_mixed: i32::from(self.task.mixing.is_some()),
                rows: int(plan.rows)?,
                units: int(shape.top())?,
                outputs: int(shape.outputs)?,
                columns: int(shape.columns)?,
                factor: plan.factor,
                top: int(top.after)?,
                by_estimate: int(self.places.by_estimate)?,
                by_top: int(top.by_output)?,
                work: self.work.update(),
            },
        )
    }

    /// Derivatives by the inputs of all layers.
    fn backward(&mut self, plan: &Plan, numbers: &Buffer<u32>) -> Result<()> {
        let (threshold, kept) = dropout(self.task.recipe.dropout);
        let [first, count, ..] = plan.lists.map(|list| numbers.read().skip(list));
        for (l, layer) in self.task.shape.layers.iter().enumerate().rev() {
            let place = &self.places.layers[l];
            self.kernels.layers[l].backward.launch(
                (plan.sequences as u32, 1, 1),
                layer_threads(layer.units as u32),
                RecurrentBackward {
                    first,
                    count,
                    steps: int(plan.time_steps)?,
                    weights: self.weights.read(),
                    at: int(layer.state_weights.start)?,
                    gates: int(place.gates)?,
                    before: int(place.before)?,
                    by_output: int(place.by_output)?,
                    by_input: int(place.of_input)?,
                    by_state: int(place.by_state)?,
                    random: plan.dropouts[l],
                    threshold,
                    kept,
                    work: self.work.update(),
                },
            )?;
            let below = match l {
                0 => self.places.projected.map(|[_, by_projected]| by_projected),
                _ => Some(self.places.layers[l - 1].by_output),
            };
            if let Some(below) = below {
                self.below((l, below), layer, plan.rows)?;
            }
        }
        Ok(())
    }

    /// The disturbed inputs of a batch.
    fn fill(&mut self, plan: &Plan, numbers: &Buffer<u32>) -> Result<()> {
        let recipe = self.task.recipe;
        let (threshold, kept) = dropout(recipe.input_dropout);
        let [_, _, steps, sequences, bases, thinned, lost, mixes] =
            plan.lists.map(|list| numbers.read().skip(list));
        self.kernels.inputs.launch(
            (plan.rows.div_ceil(ROWS) as u32, 1, 1),
            THREADS,
            RecurrentInputs {
                entries: self.entries.read(),
                entry_channels: self.entry_channels.read(),
                entry_counts: self.entry_counts.read(),
                factors: self.factors.read(),
                caps: self.caps.read(),
                means: self.mean_inputs.read(),
                steps,
                sequences,
                bases,
                thinned,
                lost,
                mixes,
                is_mixed: i32::from(self.task.mixing.is_some()),
                rows: int(plan.rows)?,
                channels: int(self.task.shape.inputs)?,
                noise: recipe.noise,
                threshold,
                kept,
                inputs: self.work.update(),
            },
        )
    }

    /// Multiplies values of the work memory by the weights that begin at `at`, and adds the bias behind them if there is one.
    fn multiply(
        &mut self,
        (at, has_bias): (usize, bool),
        [from, to]: [usize; 2],
        [rows, inputs, columns]: [usize; 3],
    ) -> Result<()> {
        self.kernels.input_side.launch(
            tiles(rows, columns, 1),
            PRODUCT_THREADS,
            RecurrentInputSide {
                weights: self.weights.read(),
                at: int(at)?,
                has_bias: i32::from(has_bias),
                from: int(from)?,
                to: int(to)?,
                rows: int(rows)?,
                inputs: int(inputs)?,
                columns: int(columns)?,
                work: self.work.update(),
            },
        )
    }

    /// Derivatives by the input of layer `l`, to place `to`.
    fn below(&mut self, (l, to): (usize, usize), layer: &Layer, rows: usize) -> Result<()> {
        self.kernels.below.launch(
            tiles(rows, layer.inputs, 1),
            PRODUCT_THREADS,
            RecurrentBelow {
                weights: self.weights.read(),
                at: int(layer.input_weights.start)?,
                from: int(self.places.layers[l].of_input)?,
                to: int(to)?,
                rows: int(rows)?,
                inputs: int(layer.inputs)?,
                columns: int(layer.columns)?,
                work: self.work.update(),
            },
        )
    }

    /// Derivatives by all weights.
    fn gradients(&mut self, rows: i32) -> Result<()> {
        let shape = self.task.shape;
        let jobs = gradient_jobs(shape, &self.places);
        let [height, columns] = [5, 3].map(|k| jobs.iter().map(|job| job[k]).max().unwrap_or(0));
        self.kernels.gradients.launch(
            tiles(height, columns, jobs.len()),
            PRODUCT_THREADS,
            RecurrentGradients {
                jobs: self.jobs.read(),
                work: self.work.read(),
                rows,
                gradient: self.gradient.update(),
            },
        )
    }

    /// One step of the optimiser.
    fn update(&mut self, factors: &StepFactors) -> Result<()> {
        let length = int(self.task.shape.weights)?;
        self.kernels.squares.launch(
            (PARTS as u32, 1, 1),
            THREADS,
            RecurrentSquares {
                gradient: self.gradient.read(),
                length,
                squares: self.squares.write(),
            },
        )?;
        self.kernels.update.launch(
            (
                self.task.shape.weights.div_ceil(THREADS as usize) as u32,
                1,
                1,
            ),
            THREADS,
            RecurrentUpdate {
                squares: self.squares.read(),
                parts: PARTS as i32,
                gradient: self.gradient.read(),
                length,
                longest: fit::LONGEST_GRADIENT,
                overflow: fit::OVERFLOW,
                first_decay: FIRST_DECAY as f32,
                second_decay: SECOND_DECAY as f32,
                first_part: factors.first_part,
                second_part: factors.second_part,
                kept: factors.kept,
                mean_kept: factors.mean_kept,
                tiny: fit::TINY,
                weights: self.weights.update(),
                mean: self.mean.update(),
                first: self.first.update(),
                second: self.second.update(),
                overflows: self.overflows.update(),
            },
        )
    }
}

impl Kernels {
    fn load(context: &Context, layers: &[Layer]) -> Result<Self> {
        let of_layer = |layer: &Layer| {
            debug_assert_eq!(layer.columns, GATES * layer.units);
            let options = [format!("-DUNITS={}", layer.units)];
            Ok(LayerKernels {
                forward: context.load::<RecurrentForward<'_>>(&options, 0)?,
                backward: context.load::<RecurrentBackward<'_>>(&options, 0)?,
            })
        };
        // All of one module, that of the first layer.
        let options = layers
            .first()
            .map(|layer| format!("-DUNITS={}", layer.units));
        let options: Vec<String> = options.into_iter().collect();
        Ok(Self {
            inputs: context.load::<RecurrentInputs<'_>>(&options, 0)?,
            input_side: context.load::<RecurrentInputSide<'_>>(&options, 0)?,
            below: context.load::<RecurrentBelow<'_>>(&options, 0)?,
            loss: context.load::<RecurrentLoss<'_>>(&options, 0)?,
            gradients: context.load::<RecurrentGradients<'_>>(&options, 0)?,
            squares: context.load::<RecurrentSquares<'_>>(&options, 0)?,
            update: context.load::<RecurrentUpdate<'_>>(&options, 0)?,
            layers: layers.iter().map(of_layer).collect::<Result<_>>()?,
        })
    }
}

/// Blocks of a product's tiles: rows, columns, products.
fn tiles(rows: usize, columns: usize, products: usize) -> (u32, u32, u32) {
    let tiles = |numbers: usize| numbers.div_ceil(TILE as usize) as u32;
    (tiles(rows), tiles(columns), products as u32)
}

/// Numbers as kernels take them.
fn int(number: usize) -> Result<i32> {
    i32::try_from(number).map_err(|_| {
        Error::argument(format!(
            "training a recurrent decoder on a device: expected batches and weights of fewer than 2^31 numbers, got {number}; train on the CPU"
        ))
    })
}

/// Seconds that training takes on an open device: its launches and its arithmetic. An H100 takes 2.7e-4 s for a batch of two
/// layers of 64 units, and a third of that per network where three or more are trained side by side
/// (`cargo bench -p betz --bench gpu_train -- recurrent`, `betz train --decoder recurrent`). The arithmetic is a guess.
pub(super) fn expected_seconds(batches: usize, side_by_side: f64, multiply_adds: f64) -> f64 {
    const SECONDS_PER_BATCH: f64 = 2.7e-4;
    const MULTIPLY_ADDS_PER_SECOND: f64 = 1e12;
    batches as f64 * SECONDS_PER_BATCH / side_by_side.min(3.0)
        + multiply_adds / MULTIPLY_ADDS_PER_SECOND
}

#[cfg(test)]
mod tests;
