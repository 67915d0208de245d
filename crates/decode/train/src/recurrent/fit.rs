//! Training one network: AdamW on the squared error of standardised labels, and the exponential mean of the
//! weights that it goes through.

use super::batch::{Batch, Recipe, Task};
use super::pass::{Dropout, Pass, Work};
use super::random::Random;
use super::shape::Shape;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use pulp::{Arch, Simd, WithSimd};

pub(super) const FIRST_DECAY: f64 = 0.9;
pub(super) const SECOND_DECAY: f64 = 0.999;
pub(super) const TINY: f32 = 1e-8;

/// The gradient is shortened to this norm.
pub(super) const LONGEST_GRADIENT: f64 = 1.0;

/// A batch whose gradient's squared norm is not below this is left out.
pub(super) const OVERFLOW: f64 = 1e30;

/// Number of consecutive skipped batches that ends training.
const MOST_OVERFLOWS: usize = 10;

/// A trained network.
pub(super) struct FitOutcome {
    /// The exponential mean of the weights that training went through.
    pub(super) weights: Vec<f32>,
    /// Epochs that training went through: fewer than the recipe's if it was asked to stop.
    pub(super) epochs: usize,
}

/// Trains a network from random weights. `each_epoch` says whether to go on; if it does not after the first epoch,
/// the weights so far are kept.
///
/// # Errors
/// [`ErrorKind::NonFinite`] when gradients overflow ten batches in a row; those of `each_epoch`, before the first epoch.
pub(super) fn fit(
    task: &Task<'_>,
    mut random: Random,
    each_epoch: &dyn Fn() -> Result<()>,
) -> Result<FitOutcome> {
    let weights = initial(task.shape, &mut random);
    fit_from(task, weights, random, each_epoch)
}

/// As [`fit`], from `weights` in place of random ones.
///
/// # Errors
/// The same as for [`fit`].
pub(super) fn fit_from(
    task: &Task<'_>,
    weights: Vec<f32>,
    mut random: Random,
    each_epoch: &dyn Fn() -> Result<()>,
) -> Result<FitOutcome> {
    let (recipe, arch) = (task.recipe, Arch::new());
    let mut optimiser = Optimiser::new(weights, recipe, {
        recipe.sequences.batches(task.runs, recipe.epochs)
    });
    let (mut batch, mut work) = (Batch::default(), Work::default());
    let mut gradient = vec![0.0; task.shape.weights];
    let mut overflows = 0;
    let mut epochs = 0;
    while epochs < recipe.epochs {
        match each_epoch() {
            Err(stop) if epochs == 0 || stop.kind() != ErrorKind::Interrupted => return Err(stop),
            Err(_) => break,
            Ok(()) => {}
        }
        let mixes = (task.mixing).map(|mixing| mixing.draw(recipe.mixing, &mut random));
        for sequences in recipe.sequences.epoch(task.runs, &mut random) {
            batch.pack(&sequences);
            batch.fill_disturbed(task, mixes.as_ref(), &mut random);
            let pass = Pass {
                arch,
                shape: task.shape,
                weights: &optimiser.weights,
                packing: &batch.packing,
                inputs: &batch.inputs,
            };
            let dropout = Dropout {
                probability: recipe.dropout,
                random: &mut random,
            };
            pass.forward(&mut work, Some(dropout), None);
            if !differentiate(task, &batch, &mut work) {
                continue;
            }
            gradient.fill(0.0);
            pass.backward(&mut work, &mut gradient);
            if optimiser.step(arch, &gradient) {
                overflows = 0;
                continue;
            }
            overflows += 1;
            check_overflows(overflows)?;
        }
        epochs += 1;
    }
    Ok(FitOutcome {
        weights: optimiser.mean,
        epochs,
    })
}

/// Ends training whose gradients overflowed in so many batches in a row.
pub(super) fn check_overflows(in_a_row: usize) -> Result<()> {
    if in_a_row < MOST_OVERFLOWS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NonFinite,
        format!(
            "recurrent decoder: the gradients of {MOST_OVERFLOWS} batches in a row overflowed; expected labels and counts of ordinary size"
        ),
    ))
}

/// Fills in the loss's derivatives by the estimates: the loss is the mean, over steps with labels, of the squared
/// errors of standardised labels. False for a batch without labels.
pub(super) fn differentiate(task: &Task<'_>, batch: &Batch, work: &mut Work<f32>) -> bool {
    let (columns, outputs) = (task.shape.columns, task.shape.outputs);
    let targets = batch.targets.chunks_exact(outputs);
    let labelled = targets.clone().filter(|row| !row[0].is_nan());
    let factor = 2.0 / labelled.count() as f32;
    work.estimate_gradient.clear();
    work.estimate_gradient
        .resize(batch.steps.len() * columns, 0.0);
    let rows = work.estimates.chunks_exact(columns);
    let gradients = work.estimate_gradient.chunks_exact_mut(columns);
    for ((targets, estimates), gradients) in targets.zip(rows).zip(gradients) {
        if targets[0].is_nan() {
            continue;
        }
        for ((gradient, estimate), target) in gradients.iter_mut().zip(estimates).zip(targets) {
            *gradient = factor * (estimate - target);
        }
    }
    factor.is_finite()
}

/// Uniform in ±1/√units, as PyTorch begins; the readout's bias 0.
pub(super) fn initial(shape: &Shape, random: &mut Random) -> Vec<f32> {
    let mut weights = vec![0.0; shape.weights];
    let mut draw = |values: &mut [f32], units: usize| {
        let most = 1.0 / (units as f32).sqrt();
        values
            .iter_mut()
            .for_each(|v| *v = (2.0 * random.uniform() - 1.0) * most);
    };
    if let Some(projection) = &shape.projection {
        // Of the inputs' own size: three inputs in a hundred are as large as one.
        draw(
            &mut weights[projection.weights.clone()],
            shape.inputs.div_ceil(3),
        );
    }
    for layer in &shape.layers {
        let all = layer.input_weights.start..layer.state_bias.end;
        draw(&mut weights[all], layer.units);
    }
    let rows = weights[shape.readout.clone()].chunks_exact_mut(shape.columns);
    rows.for_each(|row| draw(&mut row[..shape.outputs], shape.top()));
    weights
}

/// AdamW (Loshchilov and Hutter 2019) with a cosine schedule, and the mean of the weights.
struct Optimiser {
    weights: Vec<f32>,
    mean: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    rates: OptimiserRates,
    /// Steps of the schedule.
    steps: usize,
    step: usize,
}

impl Optimiser {
    fn new(weights: Vec<f32>, recipe: &Recipe, steps: usize) -> Self {
        Self {
            mean: weights.clone(),
            first: vec![0.0; weights.len()],
            second: vec![0.0; weights.len()],
            rates: OptimiserRates::of(recipe),
            steps,
            step: 0,
            weights,
        }
    }

    /// One step against `gradient`; false, and nothing else, where that overflowed.
    fn step(&mut self, arch: Arch, gradient: &[f32]) -> bool {
        let square = arch.dispatch(|| square_of(gradient));
        self.step += 1;
        if square.is_nan() || square >= OVERFLOW {
            return false;
        }
        let shorten = (LONGEST_GRADIENT / (square.sqrt() + 1e-6)).min(1.0) as f32;
        let StepFactors {
            first_part,
            second_part,
            kept,
            mean_kept,
        } = StepFactors::new(self.step, self.steps, self.rates);
        arch.dispatch(Update {
            weights: &mut self.weights,
            mean: &mut self.mean,
            first: &mut self.first,
            second: &mut self.second,
            gradient,
            factors: [shorten, first_part, second_part, kept, mean_kept],
        });
        true
    }
}

/// Σg², in eight sums side by side.
#[inline(always)]
fn square_of(gradient: &[f32]) -> f64 {
    let (eights, rest) = gradient.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for eight in eights {
        for (sum, &g) in sums.iter_mut().zip(eight) {
            *sum += f64::from(g) * f64::from(g);
        }
    }
    let rest = rest.iter().map(|&g| f64::from(g) * f64::from(g));
    sums.into_iter().chain(rest).sum()
}

/// Factors of one step of the optimiser.
pub(super) struct StepFactors {
    /// Of the first moment and of the second.
    pub(super) first_part: f32,
    pub(super) second_part: f32,
    /// Part of a weight that stays, and of the mean of weights.
    pub(super) kept: f32,
    pub(super) mean_kept: f32,
}

/// OptimiserRates of the optimiser.
#[derive(Debug, Clone, Copy)]
pub(super) struct OptimiserRates {
    /// Learning rate of the first step.
    learning: f64,
    /// Decay of the weights.
    weight_decay: f64,
    /// Decay of the mean of the weights.
    mean_decay: f64,
}

impl OptimiserRates {
    pub(super) const fn of(recipe: &Recipe) -> Self {
        Self {
            learning: recipe.learning_rate,
            weight_decay: recipe.weight_decay,
            mean_decay: recipe.mean_decay,
        }
    }
}

impl StepFactors {
    /// The factors of step `step` of `steps`, counted from 1.
    pub(super) fn new(step: usize, steps: usize, rates: OptimiserRates) -> Self {
        let step = step as f64;
        let part = (step / steps as f64).min(1.0);
        let rate = rates.learning * 0.5 * (1.0 + float::cos(std::f64::consts::PI * part));
        Self {
            first_part: (rate / (1.0 - float::powf(FIRST_DECAY, step))) as f32,
            second_part: (1.0 / (1.0 - float::powf(SECOND_DECAY, step))) as f32,
            kept: (1.0 - rate * rates.weight_decay) as f32,
            mean_kept: rates.mean_decay.min((1.0 + step) / (10.0 + step)) as f32,
        }
    }
}

/// A step of the optimiser over all weights.
struct Update<'a> {
    weights: &'a mut [f32],
    mean: &'a mut [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
    gradient: &'a [f32],
    /// Of the gradient, both moments, what stays of a weight, and of the mean.
    factors: [f32; 5],
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let [shorten, first_part, second_part, kept, mean_kept] = self.factors;
        let (first_decay, second_decay) = (FIRST_DECAY as f32, SECOND_DECAY as f32);
        let length = self.gradient.len();
        let (weights, mean) = (&mut self.weights[..length], &mut self.mean[..length]);
        let (first, second) = (&mut self.first[..length], &mut self.second[..length]);
        for i in 0..length {
            let gradient = self.gradient[i] * shorten;
            first[i] = first_decay * first[i] + (1.0 - first_decay) * gradient;
            second[i] = second_decay * second[i] + (1.0 - second_decay) * gradient * gradient;
            let along = first_part * first[i] / ((second[i] * second_part).sqrt() + TINY);
            weights[i] = weights[i] * kept - along;
            mean[i] = mean_kept * mean[i] + (1.0 - mean_kept) * weights[i];
        }
    }
}
