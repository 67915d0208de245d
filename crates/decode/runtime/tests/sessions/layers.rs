//! Chains of layers: against their equations in plain f64, and as sessions.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::ErrorKind;
use betz_runtime::model::{
    Activation, Cell, Decoder, DecoderParts, Head, Layer, Layers, RecurrentLayer,
};
use rand::RngExt;

use crate::common::{self, Rng, counts, goes_on_bit_for_bit, open, oracle, rng, run};

const CHANNELS: usize = 7;

/// A filter that hands on the counts of its step.
const BIN: &[(f64, u32)] = &[(0.01 / 40.0, 0)];

fn numbers(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-0.5..0.5)).collect()
}

fn linear(rng: &mut Rng, inputs: usize, outputs: usize) -> Layer {
    Layer::Linear {
        weights: numbers(rng, inputs * outputs),
        bias: numbers(rng, outputs),
    }
}

fn gated(rng: &mut Rng, cell: Cell, inputs: usize, units: usize, initial: usize) -> Layer {
    let columns = cell.gates() * units;
    Layer::Gated {
        cell,
        layer: RecurrentLayer {
            input_weights: numbers(rng, inputs * columns),
            input_bias: numbers(rng, columns),
            state_weights: numbers(rng, units * columns),
            state_bias: numbers(rng, columns),
        },
        initial: numbers(rng, initial),
    }
}

fn norm(rng: &mut Rng, values: usize) -> Layer {
    Layer::Norm {
        scale: numbers(rng, values),
        shift: numbers(rng, values),
        epsilon: 1e-5,
    }
}

const fn window(length: usize, apart: usize, stride: usize, first: usize) -> Layer {
    Layer::Window {
        length,
        apart,
        stride,
        first,
    }
}

fn chains() -> [Layers; 5] {
    let rng = &mut rng(70);
    let chain = |inputs: usize, layers: Vec<Layer>| Layers {
        inputs,
        layers,
        memory_steps: 150,
    };
    let causal = vec![
        window(3, 2, 1, 1),
        linear(rng, 15, 6),
        Layer::Activation(Activation::Relu),
        norm(rng, 6),
        gated(rng, Cell::Gru, 6, 4, 4),
        linear(rng, 4, 2),
    ];
    // Windows on windows: one per three steps, then one per six of these.
    let strides = vec![
        Layer::Activation(Activation::Softsign),
        window(4, 1, 3, 4),
        linear(rng, 16, 5),
        Layer::Activation(Activation::Silu),
        window(2, 1, 2, 2),
        gated(rng, Cell::Lstm, 10, 3, 0),
        linear(rng, 3, 2),
        Layer::Activation(Activation::Tanh),
    ];
    let mut packed = vec![
        linear(rng, 6, 32),
        Layer::Activation(Activation::Gelu),
        gated(rng, Cell::Gru, 32, 32, 0),
        gated(rng, Cell::Gru, 32, 64, 64),
        linear(rng, 64, 2),
        Layer::Activation(Activation::Elu),
    ];
    for layer in &mut packed {
        let short = |v: &mut f32| *v = f32::from_bits((0.25 * *v).to_bits() & 0xFFFF_0000);
        match layer {
            Layer::Linear { weights, .. } => weights.iter_mut().for_each(short),
            Layer::Gated { layer, .. } => {
                let both = layer
                    .input_weights
                    .iter_mut()
                    .chain(&mut layer.state_weights);
                both.for_each(short);
            }
            _ => {}
        }
    }
    // Whole numbers times 2⁻⁹, with the whole range in the first row.
    let mut bytes = vec![
        linear(rng, 6, 64),
        gated(rng, Cell::Gru, 64, 64, 0),
        linear(rng, 64, 2),
    ];
    for layer in &mut bytes {
        let matrices = match layer {
            Layer::Linear { weights, bias } => vec![(weights, bias.len())],
            Layer::Gated { layer, .. } => vec![
                (&mut layer.input_weights, 3 * 64),
                (&mut layer.state_weights, 3 * 64),
            ],
            other => panic!("{other:?}"),
        };
        for (matrix, columns) in matrices {
            for (i, weight) in matrix.iter_mut().enumerate() {
                let whole = (64.0 * *weight).round();
                *weight = if i < columns { 127.0 } else { whole } / 512.0;
            }
        }
    }
    let one = vec![linear(rng, 3, 2), Layer::Activation(Activation::Sigmoid)];
    [
        chain(5, causal),
        chain(4, strides),
        chain(6, packed),
        chain(6, bytes),
        chain(3, one),
    ]
}

fn with_chain(seed: u64, chain: Layers) -> Decoder {
    let linear = common::decoder(&mut rng(seed), CHANNELS, chain.inputs, BIN, None).into_parts();
    Decoder::new(DecoderParts {
        outputs: ["x", "y"].map(Into::into).to_vec(),
        intercept: linear.intercept.iter().map(|b| 0.1 * b).collect(),
        head: Head::Layers(chain),
        ..linear
    })
    .unwrap()
}

pub(crate) fn decoders() -> Vec<Decoder> {
    (71..)
        .zip(chains())
        .map(|(seed, chain)| with_chain(seed, chain))
        .collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// x·Φ(x), Φ by Simpson's rule.
fn gelu(x: f64) -> f64 {
    const PARTS: i32 = 2000;
    let step = x / f64::from(PARTS);
    let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let sum: f64 = (0..PARTS)
        .map(|i| {
            let t = f64::from(i) * step;
            density(t) + 4.0 * density(t + step / 2.0) + density(t + step)
        })
        .sum();
    x * (0.5 + sum * step / 6.0)
}

fn activate(function: Activation, x: f64) -> f64 {
    match function {
        Activation::Relu => x.max(0.0),
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigmoid(x),
        Activation::Softsign => x / (1.0 + x.abs()),
        Activation::Silu => x * sigmoid(x),
        Activation::Gelu => gelu(x),
        Activation::Elu if x > 0.0 => x,
        Activation::Elu => x.exp() - 1.0,
        other => panic!("{other:?}"),
    }
}

fn affine(values: &[f64], rows: &[f32], bias: &[f32]) -> Vec<f64> {
    let mut sums: Vec<f64> = bias.iter().map(|&b| f64::from(b)).collect();
    for (value, row) in values.iter().zip(rows.chunks(bias.len())) {
        (sums.iter_mut().zip(row)).for_each(|(sum, w)| *sum += value * f64::from(*w));
    }
    sums
}

/// Values behind one layer, of those that come in one after another; each with the step at which it comes.
fn behind(layer: &Layer, rows: &[(usize, Vec<f64>)]) -> Vec<(usize, Vec<f64>)> {
    let each = |function: &mut dyn FnMut(&[f64]) -> Vec<f64>| {
        rows.iter()
            .map(|(step, row)| (*step, function(row)))
            .collect()
    };
    match layer {
        Layer::Linear { weights, bias } => each(&mut |row| affine(row, weights, bias)),
        Layer::Activation(f) => each(&mut |row| row.iter().map(|&x| activate(*f, x)).collect()),
        Layer::Norm {
            scale,
            shift,
            epsilon,
        } => each(&mut |row| {
            let n = row.len() as f64;
            let mean = row.iter().sum::<f64>() / n;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            (row.iter().zip(scale).zip(shift))
                .map(|((x, a), b)| {
                    (x - mean) / (variance + epsilon).sqrt() * f64::from(*a) + f64::from(*b)
                })
                .collect()
        }),
        Layer::Window {
            length,
            apart,
            stride,
            first,
        } => (first - 1..rows.len())
            .step_by(*stride)
            .map(|at| {
                let values = (0..*length)
                    .rev()
                    .flat_map(|k| match at.checked_sub(k * apart) {
                        Some(at) => rows[at].1.clone(),
                        None => vec![0.0; rows[0].1.len()],
                    });
                (rows[at].0, values.collect())
            })
            .collect(),
        Layer::Gated {
            cell,
            layer,
            initial,
        } => {
            let units = layer.state_bias.len() / cell.gates();
            let mut states: Vec<f64> = initial.iter().map(|&h| f64::from(h)).collect();
            states.resize(2 * units, 0.0);
            each(&mut |row| {
                let (h, c) = states.split_at_mut(units);
                let a = affine(row, &layer.input_weights, &layer.input_bias);
                let b = affine(h, &layer.state_weights, &layer.state_bias);
                for j in 0..units {
                    let sum = |gate: usize| a[gate * units + j] + b[gate * units + j];
                    if *cell == Cell::Gru {
                        let n = 2 * units + j;
                        let n = (a[n] + sigmoid(sum(0)) * b[n]).tanh();
                        h[j] = n + sigmoid(sum(1)) * (h[j] - n);
                    } else {
                        c[j] = sigmoid(sum(1)) * c[j] + sigmoid(sum(0)) * sum(2).tanh();
                        h[j] = sigmoid(sum(3)) * c[j].tanh();
                    }
                }
                h.to_vec()
            })
        }
        other => panic!("{other:?}"),
    }
}

/// The estimates after each step, in f64: those of the last window that was handed on.
fn formula(decoder: &Decoder, counts: &[u16]) -> Vec<f64> {
    let Head::Layers(chain) = decoder.head() else {
        panic!()
    };
    let latents = oracle(decoder, counts);
    let mut rows: Vec<(usize, Vec<f64>)> = (latents.chunks(chain.inputs).enumerate())
        .map(|(step, row)| (step, row.to_vec()))
        .collect();
    for layer in &chain.layers {
        rows = behind(layer, &rows);
    }
    let mut estimates = Vec::new();
    let mut next = rows.into_iter().peekable();
    let mut held = vec![0.0; 2];
    for step in 0..counts.len() / CHANNELS {
        if let Some((_, row)) = next.next_if(|(at, _)| *at == step) {
            held = row;
        }
        estimates.extend_from_slice(&held);
    }
    estimates
}

#[test]
fn chains_follow_the_equations() {
    let counts = counts(&mut rng(75), 150, CHANNELS);
    for (chain, decoder) in decoders().iter().enumerate() {
        let got = run(&mut open(decoder), &counts);
        let expected = formula(decoder, &counts);
        assert_eq!(got.len(), expected.len());
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert!(
                (f64::from(*got) - expected).abs() < 3e-6,
                "chain {chain}, estimate {i}: {got} {expected}"
            );
        }
    }
}

#[test]
fn chains_go_on_bit_for_bit_from_checkpoints_clones_and_files() {
    let counts = counts(&mut rng(76), 120, CHANNELS);
    // In the middle of a stride.
    let (first, second) = counts.split_at(62 * CHANNELS);
    for decoder in decoders() {
        goes_on_bit_for_bit(&decoder, first, second);
    }
}

/// The phase of a stride is as after so many steps, however long the silence.
#[test]
fn windows_are_handed_on_in_time_after_any_silence() {
    let decoder = &decoders()[1];
    for ticks in [5u64, 150, 151, 400, 2000, 2001, 1_000_000, 1_000_003] {
        let mut session = open(decoder);
        run(&mut session, &counts(&mut rng(77), 20, CHANNELS));
        session.skip(ticks);
        // Every sixth step from the seventh on.
        let mut out = [0.0; 2];
        let mut before = out;
        for step in 20 + ticks + 1..20 + ticks + 40 {
            session
                .step_counts(&[(step % 5) as u16; CHANNELS], &mut out)
                .unwrap();
            if step > 20 + ticks + 1 {
                let is_new = step >= 7 && (step - 7).is_multiple_of(6);
                assert_eq!(out != before, is_new, "{ticks} silent, step {step}");
            }
            before = out;
        }
    }
}

#[test]
fn chains_that_make_no_sense_are_refused() {
    let good = chains()[1].clone();
    let parts = with_chain(78, good.clone()).into_parts();
    let refused = |chain: Layers| {
        let head = Head::Layers(chain);
        let error = Decoder::new(DecoderParts {
            head,
            ..parts.clone()
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidModel);
        error.message().to_owned()
    };
    type Spoil = fn(&mut Layers);
    let cases: [(&str, Spoil); 12] = [
        ("expected 1 to 64 layers, got 0", |c| c.layers.clear()),
        ("latents: expected", |c| c.inputs = 3),
        ("the last layer: expected 2 values, got 3", |c| {
            c.layers.truncate(6)
        }),
        ("layer 1: weights: expected", |c| {
            c.layers.remove(1);
        }),
        ("layer 0: expected 1 to 65536 values, got 80000", |c| {
            c.layers[0] = window(20_000, 1, 1, 1);
        }),
        ("layer 1: window: expected dilation", |c| {
            c.layers[1] = window(4, 1, 0, 1)
        }),
        ("layer 1: window", |c| c.layers[1] = window(4, 1, 1, 0)),
        ("keep at most", |c| c.layers[1] = window(4, 1 << 19, 1, 1)),
        ("windows: expected", |c| {
            c.layers[1] = window(4, 1, 1 << 20, 1 << 20);
            c.layers[4] = window(2, 1, 1 << 20, 1 << 20);
            c.layers.push(window(1, 1, 1 << 20, 1 << 20));
        }),
        ("layer 2: bias[0]: expected a finite", |c| {
            if let Layer::Linear { bias, .. } = &mut c.layers[2] {
                bias[0] = f32::NAN;
            }
        }),
        ("epsilon: expected", |c| {
            c.layers[0] = Layer::Norm {
                scale: vec![1.0; 4],
                shift: vec![0.0; 4],
                epsilon: 0.0,
            };
        }),
        ("layer 5: state_weights: expected", |c| {
            if let Layer::Gated { layer, .. } = &mut c.layers[5] {
                layer.state_weights.pop();
            }
        }),
    ];
    for (expected, spoil) in cases {
        let mut chain = good.clone();
        spoil(&mut chain);
        let message = refused(chain);
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn floods_of_spikes_leave_the_estimates_of_chains_finite() {
    for decoder in decoders() {
        let mut session = open(&decoder);
        let mut out = [0.0; 2];
        for values in [[1e15f32; CHANNELS], [0.0; CHANNELS], [-1e15; CHANNELS]] {
            for _ in 0..8 {
                session.step_values(&values, &mut out).unwrap();
                assert!(out.iter().all(|v| v.is_finite()), "{out:?}");
            }
        }
    }
}
