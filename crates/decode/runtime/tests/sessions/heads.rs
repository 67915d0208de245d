//! Decoders with a head: against their formulas in plain f64, and as sessions.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::ErrorKind;
use betz_runtime::model::{
    Attachment, Blanking, Cosines, Decoder, DecoderParts, Experts, FilteredReadout, Gate, Head,
    Lift, Limits, LogVariance, OutputRange,
};
use betz_runtime::stream::{Session, SessionConfig, StepStatus};
use rand::RngExt;

use crate::common::{self, Rng, close, counts, oracle, rng, run};

const BANK: &[(f64, u32)] = &[(0.05, 0), (0.1, 2)];
const CHANNELS: usize = 6;
const LATENTS: usize = 5;
const OUTPUTS: usize = 3;
const STEP_SECONDS: f64 = 0.01;

fn numbers(rng: &mut Rng, n: usize, most: f64) -> Vec<f64> {
    (0..n).map(|_| rng.random_range(-most..most)).collect()
}

fn short(rng: &mut Rng, n: usize, most: f32) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-most..most)).collect()
}

fn readout(rng: &mut Rng, features: usize, tau_seconds: Option<f64>) -> FilteredReadout {
    let filtered = tau_seconds.map_or(0, |_| features * OUTPUTS);
    FilteredReadout {
        tau_seconds,
        centre: numbers(rng, features, 0.5),
        direct: numbers(rng, features * OUTPUTS, 1.0),
        filtered: numbers(rng, filtered, 1.0),
        intercept: numbers(rng, OUTPUTS, 2.0),
    }
}

fn lift(rng: &mut Rng, units: usize, radius: f64, tau: Option<f64>) -> Lift {
    Lift {
        cosines: Cosines {
            radius,
            frequencies: short(rng, LATENTS * units, 0.2),
            phases: short(rng, units, 0.5),
        },
        readout: readout(rng, LATENTS + units, tau),
        seed: 7,
    }
}

fn experts(rng: &mut Rng, n: usize, radius: f64, tau: Option<f64>) -> Experts {
    let inputs = LATENTS * (1 + usize::from(tau.is_some()));
    Experts {
        gate: Gate {
            radius,
            weights: short(rng, inputs * n, 0.7),
            bias: short(rng, n, 0.7),
        },
        readout: readout(rng, LATENTS + n + n * LATENTS, tau),
        seed: 8,
    }
}

/// A decoder whose linear engine has as many latents as `head` takes.
pub(crate) fn with_head(seed: u64, head: Head) -> Decoder {
    let linear = common::decoder(&mut rng(seed), CHANNELS, LATENTS, BANK, None).into_parts();
    Decoder::new(DecoderParts {
        outputs: ["x", "y", "z"].map(Into::into).to_vec(),
        head,
        ..linear
    })
    .unwrap()
}

pub(crate) fn heads() -> Vec<Head> {
    let rng = &mut rng(40);
    vec![
        Head::Lift(lift(rng, 40, 6.0, Some(0.1))),
        Head::Lift(lift(rng, 16, 9.0, None)),
        Head::Lift(lift(rng, 1, 1e6, Some(3.0))),
        Head::Experts(experts(rng, 7, 6.0, Some(0.1))),
        Head::Experts(experts(rng, 1, 1e6, None)),
        Head::Experts(experts(rng, 24, 4.0, Some(0.02))),
    ]
}

/// The formulas, in f64 and one feature at a time.
fn formula(decoder: &Decoder, counts: &[u16]) -> Vec<f64> {
    let latents = oracle(decoder, counts);
    let (readout, radius) = match decoder.head() {
        Head::Lift(lift) => (&lift.readout, lift.cosines.radius),
        Head::Experts(experts) => (&experts.readout, experts.gate.radius),
        other => panic!("{other:?}"),
    };
    let rho = readout.tau_seconds.map(|tau| (-STEP_SECONDS / tau).exp());
    let mut slow = [0.0; LATENTS];
    let mut state = [0.0; OUTPUTS];
    let mut estimates = Vec::new();
    for z in latents.chunks(LATENTS) {
        let norm = z.iter().map(|z| z * z).sum::<f64>().sqrt();
        let z: Vec<f64> = z.iter().map(|z| z * (radius / norm).min(1.0)).collect();
        let mut features = z.clone();
        match decoder.head() {
            Head::Lift(lift) => {
                let units = lift.cosines.phases.len();
                features.extend((0..units).map(|unit| {
                    let turns: f64 = (0..LATENTS)
                        .map(|k| z[k] * f64::from(lift.cosines.frequencies[k * units + unit]))
                        .sum();
                    let turns = turns + f64::from(lift.cosines.phases[unit]);
                    (std::f64::consts::TAU * turns).cos()
                }));
            }
            Head::Experts(experts) => {
                let mut input = z.clone();
                if let Some(rho) = rho {
                    for (slow, z) in slow.iter_mut().zip(&z) {
                        *slow = rho * *slow + (1.0 - rho) * z;
                    }
                    input.extend(slow);
                }
                let n = experts.gate.bias.len();
                let scores: Vec<f64> = (0..n)
                    .map(|k| {
                        let sum: f64 = (input.iter().enumerate())
                            .map(|(i, u)| u * f64::from(experts.gate.weights[i * n + k]))
                            .sum();
                        (sum + f64::from(experts.gate.bias[k])).exp()
                    })
                    .collect();
                let total: f64 = scores.iter().sum();
                let shares: Vec<f64> = scores.iter().map(|s| s / total).collect();
                features.extend(&shares);
                for share in shares {
                    features.extend(z.iter().map(|z| share * z));
                }
            }
            other => panic!("{other:?}"),
        }
        for o in 0..OUTPUTS {
            let read = |weights: &[f64]| -> f64 {
                (features.iter().zip(&readout.centre).enumerate())
                    .map(|(i, (g, centre))| (g - centre) * weights[i * OUTPUTS + o])
                    .sum()
            };
            let direct = read(&readout.direct);
            if let Some(rho) = rho {
                state[o] = rho * state[o] + (1.0 - rho) * read(&readout.filtered);
            }
            estimates.push(direct + state[o] + readout.intercept[o]);
        }
    }
    estimates
}

fn open(decoder: &Decoder) -> Session {
    Session::open(decoder, SessionConfig::default()).unwrap()
}

#[test]
fn sessions_follow_the_formulas() {
    let counts = counts(&mut rng(41), 300, CHANNELS);
    for head in heads() {
        let decoder = with_head(42, head);
        let got = run(&mut open(&decoder), &counts);
        let expected = formula(&decoder, &counts);
        let largest = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert!(
                (f64::from(*got) - expected).abs() < 1e-5 * largest,
                "{}, value {i}: {got} against {expected}",
                decoder.kind()
            );
        }
    }
}

/// A trainer gets the same features that a session computes.
#[test]
fn features_are_the_sessions() {
    let mut lift = lift(&mut rng(43), 20, 4.0, None);
    // A readout that hands on one cosine.
    let unit = 11;
    lift.readout.centre.fill(0.0);
    lift.readout.direct.fill(0.0);
    lift.readout.direct[(LATENTS + unit) * OUTPUTS] = 1.0;
    lift.readout.intercept.fill(0.0);
    let cosines = lift.cosines.clone();
    let decoder = with_head(44, Head::Lift(lift));
    let latents = Decoder::new(DecoderParts {
        head: Head::Linear,
        outputs: ["a", "b", "c", "d", "e"].map(Into::into).to_vec(),
        ..decoder.clone().into_parts()
    })
    .unwrap();
    let counts = counts(&mut rng(45), 50, CHANNELS);
    let got = run(&mut open(&decoder), &counts);
    let latents = run(&mut open(&latents), &counts);
    let mut features = vec![0.0; LATENTS + 20];
    for (z, got) in latents.chunks(LATENTS).zip(got.chunks(OUTPUTS)) {
        let mut z: Vec<f64> = z.iter().map(|z| f64::from(*z)).collect();
        cosines.features(&mut z, &mut features);
        assert!((features[LATENTS + unit] - got[0]).abs() < 2e-6);
        assert!(z.iter().map(|z| z * z).sum::<f64>() <= 16.0 * (1.0 + 1e-12));
    }
}

#[test]
fn the_clip_flags_and_bounds() {
    for head in heads() {
        let radius = match &head {
            Head::Lift(lift) => lift.cosines.radius,
            Head::Experts(experts) => experts.gate.radius,
            other => panic!("{other:?}"),
        };
        let mut session = open(&with_head(46, head));
        let mut out = [0.0; OUTPUTS];
        let mut largest = 0.0f32;
        for _ in 0..100 {
            session.step_counts(&[60_000; CHANNELS], &mut out).unwrap();
            assert!(out.iter().all(|x| x.is_finite()));
            largest = out.iter().fold(largest, |m, x| m.max(x.abs()));
        }
        if radius < 10.0 {
            assert!(session.status().contains(StepStatus::OUT_OF_RANGE));
            assert!(largest < 1000.0, "{largest}");
        }
        session.reset();
        session.step_counts(&[0; CHANNELS], &mut out).unwrap();
        assert!(!session.status().contains(StepStatus::OUT_OF_RANGE) || radius < 20.0);
    }
}

#[test]
fn checkpoints_clones_and_resets_go_on_bit_for_bit() {
    let counts = counts(&mut rng(47), 120, CHANNELS);
    let (first, second) = counts.split_at(60 * CHANNELS);
    for head in heads() {
        let decoder = with_head(48, head);
        let mut session = open(&decoder);
        let start = run(&mut session, first);
        let bytes = session.checkpoint().unwrap();
        let mut copy = session.clone();
        let expected = run(&mut session, second);
        let mut other = open(&decoder);
        other.restore(&bytes).unwrap();
        assert_eq!(run(&mut other, second), expected);
        assert_eq!(run(&mut copy, second), expected);
        session.reset();
        assert_eq!(run(&mut session, first), start);
    }
}

#[test]
fn a_linear_model_and_a_lift_swap_and_roll_back() {
    let head = heads().remove(0);
    let old = with_head(49, head);
    let new = common::decoder(&mut rng(50), CHANNELS, OUTPUTS, BANK, None).into_parts();
    let new = Decoder::new(DecoderParts {
        outputs: old.outputs().to_vec(),
        ..new
    })
    .unwrap();
    let counts = counts(&mut rng(51), 900, CHANNELS);
    for (from, to) in [(&old, &new), (&new, &old)] {
        let (alone, fresh) = (run(&mut open(from), &counts), run(&mut open(to), &counts));
        let mut session = open(from);
        let mut swapper = session.swapper().unwrap();
        swapper.swap(to).unwrap();
        let warm_up = session_memory(to);
        let cut = warm_up * CHANNELS;
        let at = warm_up * OUTPUTS;
        assert_eq!(run(&mut session, &counts[..cut]), alone[..at]);
        assert_eq!(
            run(&mut session, &counts[cut..cut + 30 * CHANNELS]),
            fresh[at..at + 30 * OUTPUTS]
        );
        swapper.roll_back().unwrap();
        assert_eq!(
            run(&mut session, &counts[cut + 30 * CHANNELS..]),
            alone[at + 30 * OUTPUTS..]
        );
    }
}

fn session_memory(decoder: &Decoder) -> usize {
    open(decoder).model().memory_steps() as usize
}

fn blanked(session: &Session) -> bool {
    session.status().contains(StepStatus::BLANKED)
}

#[test]
fn an_artefact_is_decoded_as_the_mean() {
    let mean_counts = vec![0.5, 0.25, 2.0, 0.0, 1.0, 0.125];
    let parts = common::decoder(&mut rng(52), CHANNELS, 2, BANK, None).into_parts();
    let plain = Decoder::new(parts.clone()).unwrap();
    let blanking = |least, most| Limits {
        blanking: Some(Blanking {
            least,
            most,
            mean_counts: mean_counts.clone(),
        }),
        ..Limits::default()
    };
    let limited = Decoder::new(DecoderParts {
        limits: blanking(1, 30),
        ..parts.clone()
    })
    .unwrap();
    let mut counts = counts(&mut rng(53), 40, CHANNELS);
    // Inside the limits nothing changes but the empty steps.
    counts.chunks_mut(CHANNELS).for_each(|c| c[2] = 1);
    assert_eq!(
        run(&mut open(&limited), &counts),
        run(&mut open(&plain), &counts)
    );
    // An artefact in the middle, by counts or by spikes, is eight times an eighth of the mean.
    let (mut by_counts, mut by_spikes) = (open(&limited), open(&limited));
    let mut out = [[0.0; 2]; 3];
    let flood: Vec<u32> = (0..31).map(|i| i % 6).collect();
    let flooded: Vec<u16> = (0..6)
        .map(|c| flood.iter().filter(|f| **f == c).count() as u16)
        .collect();
    let eighths: Vec<f64> = mean_counts.iter().map(|m| m * 8.0).collect();
    let scaled = Decoder::new(DecoderParts {
        weights: parts.weights.iter().map(|w| w / 8.0).collect(),
        intercept: parts.intercept.clone(),
        ..parts.clone()
    })
    .unwrap();
    let mut oracle = open(&scaled);
    for step in 0..40 {
        let artefact = step % 7 == 3;
        let row = &counts[step * CHANNELS..][..CHANNELS];
        let eight: Vec<u16> = match artefact {
            true => eighths.iter().map(|m| *m as u16).collect(),
            false => row.iter().map(|c| c * 8).collect(),
        };
        oracle.step_counts(&eight, &mut out[0]).unwrap();
        if artefact {
            by_counts.step_counts(&flooded, &mut out[1]).unwrap();
            by_spikes.step_spikes(&flood, &mut out[2]).unwrap();
        } else {
            by_counts.step_counts(row, &mut out[1]).unwrap();
            by_spikes
                .step_spikes(&common::spikes(row), &mut out[2])
                .unwrap();
        }
        assert_eq!([blanked(&by_counts), blanked(&by_spikes)], [artefact; 2]);
        for (o, expected) in out[0].iter().enumerate() {
            assert!((expected - out[1][o]).abs() < 1e-5 && (expected - out[2][o]).abs() < 1e-5);
        }
    }
    // A channel that the session masks neither counts nor is missed.
    let mut mask = vec![true; CHANNELS];
    mask[2] = false;
    let config = SessionConfig {
        channel_mask: Some(mask),
        ..SessionConfig::default()
    };
    let mut masked = Session::open(&limited, config).unwrap();
    masked.step_spikes(&[2; 40], &mut out[0]).unwrap();
    assert!(!blanked(&masked));
    masked.step_spikes(&[1; 29], &mut out[0]).unwrap();
    assert!(blanked(&masked));
    (masked.step_counts(&[0, 0, 40, 0, 0, 0], &mut out[0])).unwrap();
    assert!(!blanked(&masked));
    (masked.step_counts(&[0, 29, 0, 0, 0, 0], &mut out[0])).unwrap();
    assert!(blanked(&masked));
}

#[test]
fn heads_that_make_no_sense_are_refused() {
    let rng = &mut rng(54);
    let (l, e) = (
        lift(rng, 8, 5.0, Some(0.1)),
        experts(rng, 4, 5.0, Some(0.1)),
    );
    let lift = |spoil: fn(&mut Lift)| {
        let mut l = l.clone();
        spoil(&mut l);
        Head::Lift(l)
    };
    let experts = |spoil: fn(&mut Experts)| {
        let mut e = e.clone();
        spoil(&mut e);
        Head::Experts(e)
    };
    let cases = [
        ("intercept, in a linear", Head::Linear),
        ("radius", lift(|l| l.cosines.radius = 0.0)),
        ("radius", lift(|l| l.cosines.radius = f64::NAN)),
        ("phases: expected 1", lift(|l| l.cosines.phases.clear())),
        (
            "frequencies: expected 40",
            lift(|l| l.cosines.frequencies.truncate(39)),
        ),
        (
            "frequencies[3]",
            lift(|l| l.cosines.frequencies[3] = f32::NAN),
        ),
        ("turns", lift(|l| l.cosines.frequencies[3] = 1e6)),
        ("readout.centre", lift(|l| l.readout.centre.truncate(1))),
        (
            "readout.direct: expected 39",
            lift(|l| l.readout.direct.push(0.0)),
        ),
        (
            "readout.direct[0]",
            lift(|l| l.readout.direct[0] = f64::INFINITY),
        ),
        ("output 0", lift(|l| l.readout.direct[0] = 3e38)),
        (
            "readout.filtered: expected 0",
            lift(|l| l.readout.tau_seconds = None),
        ),
        ("tau", lift(|l| l.readout.tau_seconds = Some(0.0))),
        (
            "readout.intercept",
            lift(|l| l.readout.intercept.truncate(2)),
        ),
        ("gate.bias", experts(|e| e.gate.bias.clear())),
        (
            "gate.weights: expected 40",
            experts(|e| e.gate.weights.truncate(8)),
        ),
        (
            "gate.weights[1]",
            experts(|e| e.gate.weights[1] = f32::INFINITY),
        ),
        ("scores", experts(|e| e.gate.weights[0] = 9e29)),
        ("experts: ", experts(|e| e.gate.radius = -1.0)),
    ];
    for (expected, head) in cases {
        let parts = with_head(55, heads().remove(0)).into_parts();
        let error = Decoder::new(DecoderParts { head, ..parts }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidModel, "{expected}");
        assert!(error.message().contains(expected), "{expected}: {error}");
    }
}

#[test]
fn outputs_stay_within_the_range_of_training() {
    let plain = common::decoder(&mut rng(61), CHANNELS, 2, BANK, None);
    let counts = counts(&mut rng(62), 200, CHANNELS);
    let free = run(&mut open(&plain), &counts);
    let mut first: Vec<f32> = free.iter().copied().step_by(2).collect();
    first.sort_by(f32::total_cmp);
    let between = |i: usize| 0.5 * (first[i - 1] + first[i]);
    let (low, high) = (between(20), between(180));
    let ranges = vec![
        OutputRange { low, high },
        OutputRange {
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
        },
    ];
    let limits = Limits {
        ranges: ranges.clone(),
        ..Limits::default()
    };
    let parts = plain.into_parts();
    let bounded = Decoder::new(DecoderParts { limits, ..parts }).unwrap();
    let mut session = open(&bounded);
    let mut out = [0.0; 2];
    let mut beyond = 0;
    for (row, free) in counts.chunks_exact(CHANNELS).zip(free.chunks_exact(2)) {
        session.step_counts(row, &mut out).unwrap();
        assert_eq!(out, [free[0].clamp(low, high), free[1]]);
        let flagged = session.status().contains(StepStatus::OUT_OF_RANGE);
        assert_eq!(flagged, out[0] != free[0]);
        beyond += usize::from(flagged);
    }
    assert_eq!(beyond, 40);
    // Bounds that make no sense, and of other outputs.
    let with = |ranges: Vec<OutputRange>| {
        let mut parts = bounded.clone().into_parts();
        parts.limits.ranges = ranges;
        Decoder::new(parts)
    };
    assert!(with(ranges[..1].to_vec()).is_err());
    for (low, high) in [(1.0, 0.0), (f32::NAN, 0.0), (0.0, f32::NAN)] {
        let error = with(vec![OutputRange { low, high }; 2]).unwrap_err();
        assert!(error.message().contains("range of output 0"), "{error}");
    }
}

/// A head of the same features whose outputs are log-variances says the same as the one beside the head, and
/// estimates stay as they are.
#[test]
fn variances_are_a_readout_of_the_same_features() {
    let counts = counts(&mut rng(71), 120, CHANNELS);
    for (seed, head) in (72..).zip(heads()) {
        let plain = with_head(seed, head.clone());
        let mut logs = head.clone();
        let (Head::Lift(Lift { readout, .. }) | Head::Experts(Experts { readout, .. })) = &mut logs
        else {
            unreachable!("lifts and experts")
        };
        let rng = &mut rng(seed + 100);
        readout.direct = numbers(rng, readout.direct.len(), 0.2);
        readout.filtered = numbers(rng, readout.filtered.len(), 0.2);
        readout.intercept = numbers(rng, readout.intercept.len(), 3.0);
        let variance = LogVariance {
            readout: readout.clone(),
        };
        let told = |parts: DecoderParts| Decoder::new(parts).unwrap();
        let decoder = told(DecoderParts {
            attachments: vec![variance.attachment()],
            ..plain.clone().into_parts()
        });
        assert_eq!(LogVariance::of(&decoder).unwrap(), Some(variance));
        // They travel in the file.
        let decoder = Decoder::from_bytes(&decoder.to_bytes().unwrap()).unwrap();
        let logs = told(DecoderParts {
            head: logs,
            ..plain.clone().into_parts()
        });
        let (mut session, mut one, mut other) = (open(&decoder), open(&plain), open(&logs));
        let (mut out, mut expected, mut log) = ([0.0; 3], [0.0; 3], [0.0; 3]);
        let mut variances = [0.0; 3];
        session.variances(&mut variances).unwrap();
        assert_eq!(variances, [f32::INFINITY; 3]);
        assert!(one.variances(&mut variances).is_err() && !one.model().tells_variances());
        assert!(session.variances(&mut [0.0; 2]).is_err());
        for row in counts.chunks(CHANNELS) {
            session.step_counts(row, &mut out).unwrap();
            one.step_counts(row, &mut expected).unwrap();
            other.step_counts(row, &mut log).unwrap();
            session.variances(&mut variances).unwrap();
            assert!(close(&out, &expected, 1e-5), "{out:?} {expected:?}");
            for (variance, log) in variances.iter().zip(&log) {
                let expected = f64::from(*log).exp();
                assert!((f64::from(*variance) - expected).abs() <= 1e-4 * expected);
            }
        }
        // A checkpoint goes on bit for bit, variances too.
        let mut there = open(&decoder);
        there.restore(&session.checkpoint().unwrap()).unwrap();
        session.step_counts(&counts[..CHANNELS], &mut out).unwrap();
        there
            .step_counts(&counts[..CHANNELS], &mut expected)
            .unwrap();
        let mut more = [0.0; 3];
        session.variances(&mut variances).unwrap();
        there.variances(&mut more).unwrap();
        assert_eq!((out, variances), (expected, more));
        session.reset();
        session.variances(&mut variances).unwrap();
        assert_eq!(variances, [f32::INFINITY; 3]);
    }
}

#[test]
fn variances_that_do_not_fit_are_refused() {
    let head = heads().remove(0);
    let Head::Lift(lift) = &head else {
        unreachable!("a lift comes first")
    };
    let refused = |attachment: Attachment, head: &Head| {
        let parts = with_head(90, head.clone()).into_parts();
        let decoder = Decoder::new(DecoderParts {
            attachments: vec![attachment],
            ..parts
        });
        let config = SessionConfig::default();
        let error = Session::open(&decoder.unwrap(), config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidModel, "{error}");
    };
    let with = |spoil: fn(&mut FilteredReadout)| {
        let mut readout = lift.readout.clone();
        spoil(&mut readout);
        LogVariance { readout }.attachment()
    };
    refused(with(|r| r.centre[3] += 1.0), &head);
    refused(with(|r| r.tau_seconds = None), &head);
    refused(with(|r| r.intercept.truncate(2)), &head);
    refused(with(|r| r.direct.truncate(6)), &head);
    refused(with(|r| r.direct[4] = f64::NAN), &head);
    refused(with(|r| r.intercept[0] = f64::INFINITY), &head);
    let whole = with(|_| ());
    let mut cut = whole.clone();
    cut.bytes.pop();
    refused(cut, &head);
    let mut longer = whole.clone();
    longer.bytes.push(0);
    refused(longer, &head);
    let linear = Decoder::new(DecoderParts {
        attachments: vec![whole],
        ..common::decoder(&mut rng(91), CHANNELS, OUTPUTS, BANK, None).into_parts()
    });
    assert!(Session::open(&linear.unwrap(), SessionConfig::default()).is_err());
}
