//! Networks of a decoder, trained further on trials that came after its training.

use std::ops::Range;

use super::batch::{Recipe, Sequences, Task};
use super::fit::fit_from;
use super::mixing::Mixer;
use super::product::COLUMNS;
use super::random::Random;
use super::samples::{LARGEST_INPUT, Samples, Scaling};
use super::shape::Shape;
use super::{LONGEST_TRIALS, Networks, PARTS, Sizes, Trained, check_labels};
use betz_base::error::{Error, Result};
use betz_recording::Dataset;
use betz_runtime::model::{
    Cell, Decoder, DecoderParts, Head, MAX_MEMBERS, Recurrent, RecurrentMember,
};

/// Passes over the trials that train a network further.
pub(crate) const TUNING_EPOCHS: usize = 16;

/// Sequences of a batch.
const BATCH: usize = 8;

impl Recipe {
    /// Recipe for few trials that came after training, or for the parts of a long run.
    const fn further(has_trials: bool, is_mixed: bool) -> Self {
        let usual = match (has_trials, is_mixed) {
            (true, false) => Self::TRIALS,
            (true, true) => Self::MIXTURES,
            (false, _) => Self::CONTINUOUS,
        };
        let sequences = match usual.sequences {
            Sequences::Joined { joined, most, .. } => Sequences::Joined {
                joined,
                most,
                batch: BATCH,
            },
            windows @ Sequences::Windows { .. } => windows,
        };
        Self {
            epochs: TUNING_EPOCHS,
            learning_rate: 1e-3,
            mean_decay: 0.98,
            sequences,
            ..usual
        }
    }
}

/// The networks of `decoder`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for networks that cannot be trained here.
fn recurrent(decoder: &Decoder) -> Result<&Recurrent> {
    let Head::Recurrent(head) = decoder.head() else {
        return Err(Error::argument(format!(
            "trainer: expected a recurrent decoder, got {}",
            decoder.kind()
        )));
    };
    Ok(head)
}

/// Refuses decoders whose networks cannot be trained here: other programs made them.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument).
pub(crate) fn check_tunable(decoder: &Decoder) -> Result<()> {
    let head = recurrent(decoder)?;
    let refuse = |expected: &str, got: String| {
        Err(Error::argument(format!(
            "trainer: expected networks of {expected}, got {got}"
        )))
    };
    if head.cell != Cell::Gru {
        return refuse("gated recurrent units (GRU)", head.cell.name().into());
    }
    if let Some(units) = head
        .units
        .iter()
        .find(|units| !units.is_multiple_of(COLUMNS))
    {
        return refuse(
            &format!("layers whose units are a multiple of {COLUMNS}"),
            format!("{units} units"),
        );
    }
    // A filter that hands on a bin's counts, and nothing of the bins before.
    let step = decoder.step_seconds();
    let of_bins = match decoder.bank().filters() {
        [filter] if decoder.bank().len() == 1 => {
            filter.order == 0 && filter.tau_seconds <= 1.5 * step / PARTS
        }
        _ => false,
    };
    if !of_bins || decoder.low_pass().is_some() {
        return refuse("the counts of bins", "others".into());
    }
    Ok(())
}

/// Multiply-adds of one step of one pass over trials, of all networks, forward and back.
pub(crate) fn tuning_multiply_adds(decoder: &Decoder) -> f64 {
    let Head::Recurrent(head) = decoder.head() else {
        return 0.0;
    };
    let shape = Shape::new(decoder.channels(), decoder.outputs().len(), &head.units);
    (3 * shape.weights * head.members.len()) as f64
}

/// Bytes that [`tune`] takes at most for trials of `longest` steps: weights, moments and gradients of a network, and the
/// values of a batch.
pub(crate) fn tuning_bytes(decoder: &Decoder, longest: usize) -> usize {
    let Head::Recurrent(head) = decoder.head() else {
        return 0;
    };
    let shape = Shape::new(decoder.channels(), decoder.outputs().len(), &head.units);
    let recipe = Recipe::further(longest <= LONGEST_TRIALS, false);
    let rows = recipe
        .sequences
        .most_steps(std::slice::from_ref(&(0..longest)));
    let units: usize = head.units.iter().sum();
    let each = decoder.channels() + 24 * units + 4 * shape.columns;
    let numbers = (8 * shape.weights).saturating_add(rows.saturating_mul(each));
    numbers.saturating_mul(size_of::<f32>())
}

/// `decoder` with its networks trained further on `runs` of `data`, ascending, whose segments are the labelled steps. The
/// random numbers of training follow from the decoder's seed and `draw`. Runs on the thread that calls.
///
/// # Errors
/// As [`check_tunable`]; [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) without labels;
/// [`ErrorKind::NonFinite`](betz_base::ErrorKind::NonFinite) when gradients overflow.
pub(crate) fn tune(
    decoder: &Decoder,
    data: &Dataset,
    runs: &[Range<usize>],
    draw: u64,
) -> Result<Decoder> {
    check_tunable(decoder)?;
    let head = recurrent(decoder)?;
    let samples = Samples::new(data.view(), decoder.delay_steps());
    check_labels(&samples, runs)?;
    let mut trained = networks_of(decoder, &samples, runs)?;
    let mixer = match trained.mixed {
        Some(_) => Mixer::new(&samples, &trained.scaling, runs),
        None => None,
    };
    let steps: usize = runs.iter().map(Range::len).sum();
    let has_trials = steps <= LONGEST_TRIALS * runs.len();
    let Trained {
        scaling,
        usual,
        mixed,
        ..
    } = &mut trained;
    let groups = [Some(usual), mixed.as_mut().map(|(networks, _)| networks)];
    let mut network = draw.wrapping_mul(MAX_MEMBERS as u64);
    for (is_mixed, networks) in [false, true].into_iter().zip(groups) {
        let Some(networks) = networks else { continue };
        let recipe = Recipe::further(has_trials, is_mixed);
        let task = Task {
            shape: &networks.shape,
            samples: &samples,
            scaling: &*scaling,
            runs,
            recipe: &recipe,
            mixing: mixer.as_ref().filter(|_| is_mixed && has_trials),
        };
        for weights in &mut networks.weights {
            network = network.wrapping_add(1);
            let random = Random::new(head.seed, network);
            let fitted = fit_from(&task, std::mem::take(weights), random, &|| Ok(()))?;
            *weights = fitted.weights;
            networks.shape.round(None, weights);
        }
    }
    if let Some((networks, blend)) = &mut trained.mixed {
        blend.bias = networks.bias(&trained.scaling);
    }
    let sizes = Sizes {
        layers: head.units.clone(),
        members: trained.usual.weights.len(),
        mixed: trained
            .mixed
            .as_ref()
            .map_or(0, |(networks, _)| networks.weights.len()),
        precision: None,
        seed: head.seed,
    };
    let (head, weights, intercept) = trained.head(&sizes, head.memory_steps);
    Decoder::new(DecoderParts {
        weights,
        intercept,
        head,
        ..decoder.clone().into_parts()
    })
}

/// The networks of `decoder`, as training has them. Labels are standardised as in `runs` of `samples`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for another kind of decoder.
pub(super) fn networks_of(
    decoder: &Decoder,
    samples: &Samples<'_>,
    runs: &[Range<usize>],
) -> Result<Trained> {
    let head = recurrent(decoder)?;
    Ok(Trained::of(decoder, head, samples.scaling(runs)))
}

impl Trained {
    /// The networks of `decoder`, as training has them. Labels are standardised as `scaling` says; how inputs are scaled
    /// follows from the decoder's caps.
    fn of(decoder: &Decoder, head: &Recurrent, mut scaling: Scaling) -> Self {
        let caps = &decoder.limits().count_caps;
        for (channel, &takes_part) in decoder.channel_mask().iter().enumerate() {
            let cap = caps.get(channel).copied().unwrap_or(f32::INFINITY);
            scaling.caps[channel] = cap;
            scaling.factors[channel] = match (takes_part, cap.is_finite() && cap > 0.0) {
                (false, _) => 0.0,
                (true, true) => LARGEST_INPUT as f32 / cap,
                (true, false) => 1.0,
            };
        }
        let members = head.members.len();
        let usual = head.blend.as_ref().map_or(members, |blend| blend.usual);
        let networks = |range: Range<usize>, bias: &[f64]| {
            let shape = Shape::new(decoder.channels(), decoder.outputs().len(), &head.units);
            let share = 1.0 / range.len() as f64;
            let weights = range.map(|m| {
                let member = (m, &head.members[m]);
                member_weights(decoder, &shape, member, (share, bias), &scaling)
            });
            Networks {
                weights: weights.collect(),
                shape,
            }
        };
        let mixed = head
            .blend
            .as_ref()
            .map(|blend| (networks(usual..members, &blend.bias), blend.clone()));
        Self {
            usual: networks(0..usual, &head.bias),
            mixed,
            scaling,
            epochs: 0,
        }
    }
}

/// The weights of member `m` in one list: the reverse of [`Networks::member`]. `share` is its part of the mean, `bias` that
/// of the mean.
fn member_weights(
    decoder: &Decoder,
    shape: &Shape,
    (m, member): (usize, &RecurrentMember),
    (share, bias): (f64, &[f64]),
    scaling: &Scaling,
) -> Vec<f32> {
    let mut all = vec![0.0; shape.weights];
    let (latents, columns) = (decoder.latents(), shape.layers[0].columns);
    let first = &shape.layers[0];
    let rows = all[first.input_weights.clone()].chunks_exact_mut(columns);
    let engine = decoder.weights().chunks_exact(latents);
    for ((row, engine), &factor) in rows.zip(engine).zip(&scaling.factors) {
        if factor > 0.0 {
            for (to, weight) in row.iter_mut().zip(&engine[m * columns..]) {
                *to = (weight / f64::from(factor)) as f32;
            }
        }
    }
    let intercept = &decoder.intercept()[m * columns..][..columns];
    for (to, bias) in all[first.input_bias.clone()].iter_mut().zip(intercept) {
        *to = *bias as f32;
    }
    for (l, (layer, from)) in shape.layers.iter().zip(&member.layers).enumerate() {
        if l > 0 {
            all[layer.input_weights.clone()].copy_from_slice(&from.input_weights);
            all[layer.input_bias.clone()].copy_from_slice(&from.input_bias);
        }
        all[layer.state_weights.clone()].copy_from_slice(&from.state_weights);
        all[layer.state_bias.clone()].copy_from_slice(&from.state_bias);
    }
    for o in 0..shape.outputs {
        let deviation = scaling.label_deviations[o];
        let readout = &member.readout[o * shape.top()..][..shape.top()];
        for (unit, weight) in readout.iter().enumerate() {
            let standardised = f64::from(*weight) / (share * deviation);
            all[shape.readout.start + unit * shape.columns + o] = standardised as f32;
        }
        let standardised = (bias[o] - scaling.label_means[o]) / deviation;
        all[shape.readout_bias.start + o] = standardised as f32;
    }
    all
}
