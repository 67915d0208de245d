//! Decoders of a given kind and size for measurements. Weights are random: arithmetic takes as long whatever they are.

use betz::model::Limits;
use betz::model::{
    Cell, Classes, Cosines, Decoder, DecoderParts, EventRule, Experts, FilteredReadout, Gate, Head,
    Kalman, Lift, Markov, Place, Recurrent, RecurrentLayer, RecurrentMember,
};
use betz::psc::{Filter, FilterBank};
use betz::recording::OutputInfo;
use betz::train::Preset;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

pub(crate) const OUTPUTS: usize = 4;
pub(crate) const STEP_SECONDS: f64 = 1e-3;
/// Latents of a lift and of experts.
const LATENTS: usize = 12;
/// Radius at which latents are clipped.
const RADIUS: f64 = 6.0;

/// Kind of a decoder, and the size of its readout.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(dead_code, reason = "each program measures some of the kinds")]
pub(crate) enum Kind {
    Linear,
    /// Number of cosines.
    Lift(usize),
    /// Number of experts.
    Experts(usize),
    /// Units of each layer, and whether weights are rounded to bfloat16.
    Recurrent(&'static [usize], bool),
    Kalman,
    /// Cells along each of two axes.
    Place(usize),
    /// Number of classes, with [`UNITS`] cosines and a hidden Markov model.
    Classes(usize),
}

/// Cosines of classes: as many as training takes.
const UNITS: usize = 128;

/// The bank that training gives a recurrent decoder: the counts of a step by themselves.
pub(crate) fn counts_of_a_step() -> betz::Result<FilterBank> {
    FilterBank::new(vec![Filter {
        tau_seconds: STEP_SECONDS / 40.0,
        order: 0,
    }])
}

/// The bank called `name`.
pub(crate) fn preset(name: &str) -> betz::Result<FilterBank> {
    Preset::named(name)
        .ok_or_else(|| betz::Error::argument(format!("expected a bank, got {name:?}")))?
        .bank()
}

/// A decoder of `kind` behind `bank`, for [`OUTPUTS`] outputs in steps of [`STEP_SECONDS`].
pub(crate) fn decoder(
    rng: &mut ChaCha8Rng,
    channels: usize,
    bank: FilterBank,
    kind: Kind,
) -> betz::Result<Decoder> {
    let latents = match kind {
        Kind::Linear | Kind::Kalman => OUTPUTS,
        Kind::Lift(_) | Kind::Experts(_) | Kind::Classes(_) => LATENTS,
        Kind::Recurrent(units, _) => Cell::Gru.gates() * units[0],
        Kind::Place(side) => side * side,
    };
    let outputs = match kind {
        Kind::Classes(classes) => classes,
        _ => OUTPUTS,
    };
    let mut limits = Limits::default();
    if let Kind::Recurrent(..) = kind {
        limits.count_caps = vec![20.0; channels];
    }
    let output = |o| OutputInfo {
        name: format!("output {o}"),
        unit: "mm".into(),
    };
    let names = (0..channels).map(|c| format!("channel {c}")).collect();
    let weights = numbers(rng, channels * bank.len() * latents, 0.05);
    let outputs = (0..outputs).map(output).collect();
    Decoder::new(DecoderParts {
        weights,
        intercept: vec![0.0; latents],
        head: head(rng, kind),
        limits,
        ..DecoderParts::linear(STEP_SECONDS, bank, names, outputs)
    })
}

fn head(rng: &mut ChaCha8Rng, kind: Kind) -> Head {
    match kind {
        Kind::Linear => Head::Linear,
        Kind::Lift(size) => Head::Lift(Lift {
            cosines: Cosines {
                radius: RADIUS,
                frequencies: short(rng, LATENTS * size, 0.05),
                phases: short(rng, size, 0.5),
            },
            readout: readout(rng, LATENTS + size),
            seed: 1,
        }),
        Kind::Experts(size) => Head::Experts(Experts {
            gate: Gate {
                radius: RADIUS,
                weights: short(rng, 2 * LATENTS * size, 0.1),
                bias: short(rng, size, 0.1),
            },
            readout: readout(rng, LATENTS + size + size * LATENTS),
            seed: 1,
        }),
        Kind::Recurrent(units, rounded) => recurrent(rng, units, rounded),
        Kind::Kalman => Head::Kalman(Kalman {
            transition: (0..OUTPUTS * OUTPUTS)
                .map(|i| if i % (OUTPUTS + 1) == 0 { 0.95 } else { 0.01 })
                .collect(),
            mean: numbers(rng, OUTPUTS, 2.0),
        }),
        Kind::Place(side) => Head::Place(Place {
            shape: vec![side as u64; 2],
            cells: (0..(side * side) as u64).collect(),
            start: vec![1.0 / (side * side) as f64; side * side],
            walk: vec![0.6, 0.15, 0.05],
            jump: 1e-3,
            values: numbers(rng, side * side * OUTPUTS, 50.0),
        }),
        Kind::Classes(classes) => Head::Classes(self::classes(rng, classes)),
    }
}

fn classes(rng: &mut ChaCha8Rng, classes: usize) -> Classes {
    let rule = EventRule {
        on: 0.6,
        off: 0.4,
        dwell: 2,
        refractory_seconds: 0.1,
    };
    let share = 1.0 / classes as f64;
    Classes {
        cosines: Cosines {
            radius: RADIUS,
            frequencies: short(rng, LATENTS * UNITS, 0.05),
            phases: short(rng, UNITS, 0.5),
        },
        tau_seconds: Some(0.1),
        weights: short(rng, (2 * LATENTS + UNITS) * classes, 0.5),
        bias: short(rng, classes, 0.5),
        priors: vec![share; classes],
        markov: Some(Markov {
            kappa: 0.4,
            transitions: vec![share; classes * classes],
            start: vec![share; classes],
        }),
        events: vec![Some(rule); classes],
    }
}

fn recurrent(rng: &mut ChaCha8Rng, units: &[usize], rounded: bool) -> Head {
    let mut weights = |n: usize| {
        let mut weights = short(rng, n, 0.3);
        if rounded {
            let round = |w: f32| f32::from_bits(w.to_bits() & 0xFFFF_0000);
            weights.iter_mut().for_each(|w| *w = round(*w));
        }
        weights
    };
    let mut below = None;
    let mut layers = Vec::new();
    for &units in units {
        let columns = Cell::Gru.gates() * units;
        layers.push(RecurrentLayer {
            input_weights: weights(below.map_or(0, |below| below * columns)),
            input_bias: weights(below.map_or(0, |_| columns)),
            state_weights: weights(units * columns),
            state_bias: weights(columns),
        });
        below = Some(units);
    }
    let top = units[units.len() - 1];
    Head::Recurrent(Recurrent {
        cell: Cell::Gru,
        units: units.to_vec(),
        members: vec![RecurrentMember {
            layers,
            readout: short(rng, OUTPUTS * top, 1.0),
        }],
        bias: vec![0.0; OUTPUTS],
        memory_steps: 40,
        seed: 1,
        blend: None,
    })
}

fn readout(rng: &mut ChaCha8Rng, features: usize) -> FilteredReadout {
    FilteredReadout {
        tau_seconds: Some(0.1),
        centre: numbers(rng, features, 0.5),
        direct: numbers(rng, features * OUTPUTS, 1.0),
        filtered: numbers(rng, features * OUTPUTS, 1.0),
        intercept: numbers(rng, OUTPUTS, 2.0),
    }
}

fn numbers(rng: &mut ChaCha8Rng, n: usize, most: f64) -> Vec<f64> {
    (0..n).map(|_| rng.random_range(-most..most)).collect()
}

fn short(rng: &mut ChaCha8Rng, n: usize, most: f32) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-most..most)).collect()
}
