//! Recurrent decoders: against the equations of PyTorch's layers in plain f64, and as sessions.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::ErrorKind;
use betz_runtime::model::{
    Blend, Cell, Decoder, DecoderParts, Head, Limits, Recurrent, RecurrentLayer, RecurrentMember,
};
use betz_runtime::stream::Session;
use rand::RngExt;

use crate::common::{self, Rng, counts, goes_on_bit_for_bit, open, oracle, rng, run};

const CHANNELS: usize = 7;
const OUTPUTS: usize = 2;

/// A filter that hands on the counts of its step.
const BIN: &[(f64, u32)] = &[(0.01 / 40.0, 0)];

fn weights(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-0.6..0.6)).collect()
}

fn recurrent(rng: &mut Rng, cell: Cell, units: &[usize], members: usize) -> Recurrent {
    let member = |rng: &mut Rng| {
        let layers = units.iter().enumerate().map(|(l, &own)| {
            let columns = cell.gates() * own;
            let below = l.checked_sub(1).map(|below| units[below]);
            RecurrentLayer {
                input_weights: weights(rng, below.unwrap_or(0) * columns),
                input_bias: weights(rng, below.map_or(0, |_| columns)),
                state_weights: weights(rng, own * columns),
                state_bias: weights(rng, columns),
            }
        });
        RecurrentMember {
            layers: layers.collect(),
            readout: weights(rng, OUTPUTS * units.last().unwrap()),
        }
    };
    Recurrent {
        cell,
        units: units.to_vec(),
        members: (0..members).map(|_| member(rng)).collect(),
        bias: vec![0.5, -2.0],
        memory_steps: 40,
        seed: 3,
        blend: None,
    }
}

/// Of three members, the last decodes by mixtures.
fn blend() -> Blend {
    Blend {
        usual: 2,
        share: 0.25,
        apart: 3.0,
        kept: 0.8,
        deviations: vec![2.0, 0.5],
        bias: vec![-0.3, 0.1],
    }
}

fn with_head(seed: u64, head: Recurrent) -> Decoder {
    let latents = head.members.len() * head.cell.gates() * head.units[0];
    let linear = common::decoder(&mut rng(seed), CHANNELS, latents, BIN, None).into_parts();
    Decoder::new(DecoderParts {
        outputs: ["x", "y"].map(Into::into).to_vec(),
        // Biases of the size of a network's.
        intercept: linear.intercept.iter().map(|b| 0.1 * b).collect(),
        head: Head::Recurrent(head),
        ..linear
    })
    .unwrap()
}

pub(crate) fn decoders() -> Vec<Decoder> {
    let rng = &mut rng(90);
    let shapes: [(Cell, &[usize], usize); 6] = [
        (Cell::Gru, &[16], 1),
        (Cell::Gru, &[32, 16], 1),
        (Cell::Gru, &[5, 9, 3], 2),
        (Cell::Gru, &[1], 3),
        (Cell::Lstm, &[16], 1),
        (Cell::Lstm, &[6, 11], 2),
    ];
    let heads = shapes.map(|(cell, units, members)| recurrent(rng, cell, units, members));
    let mut packed = recurrent(rng, Cell::Gru, &[32, 64], 1);
    let weights = packed.members.iter_mut().flat_map(|m| &mut m.layers);
    for weight in weights.flat_map(|l| l.input_weights.iter_mut().chain(&mut l.state_weights)) {
        // Small enough that so many units forget within `memory_steps`.
        *weight = f32::from_bits((0.2 * *weight).to_bits() & 0xFFFF_0000);
    }
    let mut blended = recurrent(rng, Cell::Gru, &[16, 8], 3);
    blended.blend = Some(blend());
    (91..)
        .zip(heads.into_iter().chain([packed, blended]))
        .map(|(seed, head)| with_head(seed, head))
        .collect()
}

fn head(decoder: &Decoder) -> &Recurrent {
    match decoder.head() {
        Head::Recurrent(head) => head,
        other => panic!("{other:?}"),
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `bias` + Σ `values`·`rows`, rows of as many columns as `bias`.
fn affine(values: &[f64], rows: &[f32], bias: Vec<f64>) -> Vec<f64> {
    let columns = bias.len();
    let mut sums = bias;
    for (value, row) in values.iter().zip(rows.chunks(columns)) {
        for (sum, weight) in sums.iter_mut().zip(row) {
            *sum += value * f64::from(*weight);
        }
    }
    sums
}

/// The equations of the layers, in f64.
fn formula(decoder: &Decoder, counts: &[u16]) -> Vec<f64> {
    let network = head(decoder);
    let latents = oracle(decoder, counts);
    let columns = network.cell.gates() * network.units[0];
    let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
    let mut states: Vec<Vec<(Vec<f64>, Vec<f64>)>> = (network.members.iter())
        .map(|_| {
            network
                .units
                .iter()
                .map(|&u| (vec![0.0; u], vec![0.0; u]))
                .collect()
        })
        .collect();
    let mut estimates = Vec::new();
    let mut distance = 0.0;
    for latents in latents.chunks(columns * network.members.len()) {
        let mut out = network.bias.clone();
        let mut by_mixtures = network.blend.clone().map(|blend| blend.bias);
        let members = network.members.iter().zip(&mut states).enumerate();
        for ((m, (member, states)), latents) in members.zip(latents.chunks(columns)) {
            let mut below = Vec::new();
            for (l, (layer, (h, c))) in member.layers.iter().zip(states).enumerate() {
                let of_input = match l {
                    0 => latents.to_vec(),
                    _ => affine(&below, &layer.input_weights, wide(&layer.input_bias)),
                };
                let of_state = affine(h, &layer.state_weights, wide(&layer.state_bias));
                let units = h.len();
                for j in 0..units {
                    let sum = |gate: usize| of_input[gate * units + j] + of_state[gate * units + j];
                    match network.cell {
                        Cell::Gru => {
                            let (r, z) = (sigmoid(sum(0)), sigmoid(sum(1)));
                            let own = of_state[2 * units + j];
                            let n = (of_input[2 * units + j] + r * own).tanh();
                            h[j] = (1.0 - z) * n + z * h[j];
                        }
                        _ => {
                            let (i, f) = (sigmoid(sum(0)), sigmoid(sum(1)));
                            c[j] = f * c[j] + i * sum(2).tanh();
                            h[j] = sigmoid(sum(3)) * c[j].tanh();
                        }
                    }
                }
                below.clone_from(h);
            }
            let out = match (&network.blend, &mut by_mixtures) {
                (Some(blend), Some(by_mixtures)) if m >= blend.usual => by_mixtures,
                _ => &mut out,
            };
            for (o, out) in out.iter_mut().enumerate() {
                let row = &member.readout[o * below.len()..][..below.len()];
                *out += below
                    .iter()
                    .zip(row)
                    .map(|(h, w)| h * f64::from(*w))
                    .sum::<f64>();
            }
        }
        if let (Some(blend), Some(by_mixtures)) = (&network.blend, by_mixtures) {
            let standard = |o: usize| (out[o] - by_mixtures[o]) / blend.deviations[o];
            let now = standard(0).powi(2) + standard(1).powi(2);
            distance = blend.kept * distance + (1.0 - blend.kept) * now;
            let part = 1.0 / (1.0 + (distance / blend.apart).powi(4));
            let both: Vec<f64> = (out.iter().zip(&by_mixtures))
                .map(|(g, m)| (1.0 - blend.share) * g + blend.share * m)
                .collect();
            out = (both.iter().zip(&by_mixtures))
                .map(|(b, m)| part * b + (1.0 - part) * m)
                .collect();
        }
        estimates.extend(out);
    }
    estimates
}

#[test]
fn sessions_follow_the_equations() {
    let counts = counts(&mut rng(92), 150, CHANNELS);
    for decoder in decoders() {
        let got = run(&mut open(&decoder), &counts);
        let expected = formula(&decoder, &counts);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert!(
                (f64::from(*got) - expected).abs() < 2e-5,
                "{:?}, estimate {i}: {got} {expected}",
                head(&decoder).units
            );
        }
    }
}

#[test]
fn checkpoints_clones_and_files_go_on_bit_for_bit() {
    let counts = counts(&mut rng(93), 120, CHANNELS);
    let (first, second) = counts.split_at(60 * CHANNELS);
    for decoder in decoders() {
        goes_on_bit_for_bit(&decoder, first, second);
    }
}

/// Steps by lists of spikes and by counts of every type.
fn by_all_inputs(decoder: &Decoder, counts: &[u16]) -> [Vec<f32>; 4] {
    let mut sessions: [Session; 4] = std::array::from_fn(|_| open(decoder));
    let mut estimates: [Vec<f32>; 4] = Default::default();
    let mut out = [0.0; OUTPUTS];
    for row in counts.chunks(CHANNELS) {
        let bytes: Vec<u8> = row.iter().map(|&c| c as u8).collect();
        let floats: Vec<f32> = row.iter().map(|&c| f32::from(c)).collect();
        let [a, b, c, d] = &mut sessions;
        a.step_counts(row, &mut out).unwrap();
        estimates[0].extend(out);
        b.step_spikes(&common::spikes(row), &mut out).unwrap();
        estimates[1].extend(out);
        c.step_counts_u8(&bytes, &mut out).unwrap();
        estimates[2].extend(out);
        d.step_counts_f32(&floats, &mut out).unwrap();
        estimates[3].extend(out);
    }
    estimates
}

#[test]
fn counts_above_their_caps_are_taken_for_the_caps() {
    let mut counts = counts(&mut rng(94), 80, CHANNELS);
    for row in counts.chunks_mut(CHANNELS).skip(20).step_by(3) {
        row[4] = 40;
    }
    for decoder in decoders() {
        let caps = vec![2.0, 3.0, 1.5, 2.0, 4.0, 1e9, 2.0];
        let capped = Decoder::new(DecoderParts {
            limits: Limits {
                count_caps: caps.clone(),
                ..Limits::default()
            },
            ..decoder.clone().into_parts()
        })
        .unwrap();
        let again = Decoder::from_bytes(&capped.to_bytes().unwrap()).unwrap();
        assert_eq!(again.limits().count_caps, caps);
        let mut plain = open(&decoder);
        let mut out = [0.0; OUTPUTS];
        let mut expected = Vec::new();
        for row in counts.chunks(CHANNELS) {
            let row: Vec<f32> = row
                .iter()
                .zip(&caps)
                .map(|(&c, cap)| f32::from(c).min(*cap))
                .collect();
            plain.step_counts_f32(&row, &mut out).unwrap();
            expected.extend(out);
        }
        for got in by_all_inputs(&capped, &counts) {
            assert_eq!(got, expected);
        }
        assert_ne!(by_all_inputs(&decoder, &counts)[0], expected);
    }
}

#[test]
fn networks_that_make_no_sense_are_refused() {
    let good = recurrent(&mut rng(95), Cell::Gru, &[8, 4], 2);
    let parts = with_head(96, good.clone()).into_parts();
    type Spoil = fn(&mut Recurrent);
    let cases: [(&str, Spoil); 17] = [
        ("layers: expected 1 to 8, got 0", |r| r.units.clear()),
        ("units of layer 1: expected 1 to 1024", |r| r.units[1] = 0),
        ("units of layer 0", |r| r.units[0] = 2000),
        ("members: expected 1 to 16, got 0", |r| r.members.clear()),
        ("latents: expected", |r| r.members.truncate(1)),
        ("bias: expected 2", |r| r.bias.push(0.0)),
        ("bias[1]: expected a finite", |r| r.bias[1] = f64::NAN),
        ("member 1: layers: expected 2", |r| {
            r.members[1].layers.pop();
        }),
        ("member 0: layer 1: input_weights: expected 96", |r| {
            r.members[0].layers[1].input_weights.pop();
        }),
        ("member 0: layer 0: input_bias: expected 0", |r| {
            r.members[0].layers[0].input_bias.push(0.0);
        }),
        (
            "member 1: layer 0: state_weights[5]: expected a finite",
            |r| {
                r.members[1].layers[0].state_weights[5] = f32::INFINITY;
            },
        ),
        ("member 1: readout: expected 8", |r| {
            r.members[1].readout.pop();
        }),
        ("blend: expected 1 to 1 usual members, got 2", |r| {
            r.blend = Some(blend());
        }),
        ("blend: share: expected 0 to 1, got 2", |r| {
            r.blend = Some(Blend {
                usual: 1,
                share: 2.0,
                ..blend()
            });
        }),
        ("blend: kept: expected 0", |r| {
            r.blend = Some(Blend {
                usual: 1,
                kept: 1.0,
                ..blend()
            });
        }),
        ("blend: deviation: expected", |r| {
            r.blend = Some(Blend {
                usual: 1,
                deviations: vec![1.0, 0.0],
                ..blend()
            });
        }),
        ("bias of the blend[0]: expected a finite value", |r| {
            r.blend = Some(Blend {
                usual: 1,
                bias: vec![f64::NAN, 0.0],
                ..blend()
            });
        }),
    ];
    for (expected, spoil) in cases {
        let mut head = good.clone();
        spoil(&mut head);
        let head = Head::Recurrent(head);
        let error = Decoder::new(DecoderParts {
            head,
            ..parts.clone()
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidModel, "{expected}");
        assert!(error.message().contains(expected), "{expected}: {error}");
    }
}

#[test]
fn caps_of_counts_that_make_no_sense_are_refused() {
    let network = recurrent(&mut rng(95), Cell::Gru, &[8, 4], 2);
    let parts = with_head(96, network).into_parts();
    for (expected, caps) in [
        ("count_caps: expected 7 values", vec![1.0; 6]),
        (
            "count_caps[2]: expected a count above 0",
            vec![1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0],
        ),
        (
            "count_caps[6]",
            vec![1.0, 1.0, 1.0, 1.0, 1.0, 1.0, f32::NAN],
        ),
    ] {
        let limits = Limits {
            count_caps: caps,
            ..Limits::default()
        };
        let error = Decoder::new(DecoderParts {
            limits,
            ..parts.clone()
        })
        .unwrap_err();
        assert!(error.message().contains(expected), "{expected}: {error}");
    }
}

#[test]
fn floods_of_spikes_leave_estimates_finite() {
    for decoder in decoders() {
        let mut session = open(&decoder);
        let mut out = [0.0; OUTPUTS];
        for count in [u16::MAX, 0, 60_000] {
            session.step_counts(&[count; CHANNELS], &mut out).unwrap();
            assert!(out.iter().all(|v| v.is_finite()));
        }
        session.step_values(&[1e15; CHANNELS], &mut out).unwrap();
        assert!(out.iter().all(|v| v.is_finite()));
    }
}

#[test]
fn networks_take_over_warm_and_are_rolled_back() {
    let all = decoders();
    let counts = counts(&mut rng(97), 200, CHANNELS);
    for (from, to) in all.iter().zip(all.iter().skip(1)) {
        let (alone, fresh) = (run(&mut open(from), &counts), run(&mut open(to), &counts));
        let mut session = open(from);
        let mut swapper = session.swapper().unwrap();
        swapper.swap(to).unwrap();
        let warm_up = open(to).model().memory_steps() as usize;
        let (taken, back) = (warm_up * CHANNELS, (warm_up + 30) * CHANNELS);
        let [at, end] = [warm_up, warm_up + 30].map(|step| step * OUTPUTS);
        assert_eq!(run(&mut session, &counts[..taken]), alone[..at]);
        assert_eq!(run(&mut session, &counts[taken..back]), fresh[at..end]);
        swapper.roll_back().unwrap();
        assert_eq!(run(&mut session, &counts[back..]), alone[end..]);
    }
}
