#![allow(clippy::unwrap_used)]

use betz_recording::OutputInfo;
use betz_runtime::model::DecoderParts;
use betz_runtime::psc::{Filter, FilterBank};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::feed::FeedStep;
use crate::frame::Counters;
use crate::hub::{FrameBuilder, Shape};

const TAU_SECONDS: f64 = 0.02;
const CHANNELS: usize = 6;
const WEIGHTS: [f64; 2 * CHANNELS] = [
    1.0, -0.5, 2.0, 0.25, -1.5, 0.0, 0.5, 1.0, 0.0, -2.0, 0.75, 1.25,
];

fn decoder() -> Decoder {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: TAU_SECONDS,
        order: 0,
    }])
    .unwrap();
    let names = (0..CHANNELS).map(|c| format!("ch{c}")).collect();
    let output = |name: &str| OutputInfo {
        name: name.into(),
        unit: "mm".into(),
    };
    let outputs = vec![output("x"), output("y")];
    Decoder::new(DecoderParts {
        weights: WEIGHTS.to_vec(),
        ..DecoderParts::linear(0.001, bank, names, outputs)
    })
    .unwrap()
}

/// Spikes and truth of one step on the page's clock.
struct TestStep {
    tick: i64,
    trial: bool,
    spikes: Vec<u32>,
    truth: Vec<f32>,
}

/// 3 s in two trials, with a hole in the second.
fn made() -> Vec<TestStep> {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let ticks = (0..3_000i64).filter(|t| !(2_000..2_037).contains(t));
    let steps = ticks.map(|tick| {
        let t = tick as f64 * 0.001;
        let truth = [(t * 9.0).sin(), (t * 5.0).cos()];
        let chance = |c: usize| 0.03 * (1.0 + 0.9 * WEIGHTS[2 * c].signum() * truth[0]);
        let spikes = (0..CHANNELS)
            .filter(|&c| random.random::<f64>() < chance(c))
            .map(|c| c as u32)
            .collect();
        TestStep {
            tick,
            trial: tick == 1_100,
            spikes,
            truth: truth.map(|v| v as f32).to_vec(),
        }
    });
    steps.collect()
}

/// Frames of about 17 steps each, as the hub makes them; without the truth if not `told`.
fn frames(steps: &[TestStep], told: bool) -> Vec<Bytes> {
    let shape = Shape {
        channels: CHANNELS as u32,
        outputs: 2,
        ticks_a_second: 1_000.0,
        deadline_ns: None,
    };
    let (mut gathering, mut frames) = (FrameBuilder::new(shape), Vec::new());
    for (i, step) in steps.iter().enumerate() {
        let taken = FeedStep {
            tick: step.tick,
            trial_begins: step.trial,
            estimates: vec![0.0; 2],
            spikes: step.spikes.clone(),
            ..FeedStep::default()
        };
        gathering.push(&taken, if told { &step.truth } else { &[] });
        if i % 17 == 16 || i + 1 == steps.len() {
            let frame = gathering.finish(&Counters::default(), None);
            frames.extend(frame.map(|f| f.bytes));
        }
    }
    frames
}

/// The plain sum over all spikes of a trial: weight × scale × e^(−age/τ), over the channels that are not in `off`.
fn oracle(steps: &[TestStep], off: &[usize], scale: f64) -> Vec<[f64; 2]> {
    let decay = (-0.001 / TAU_SECONDS).exp();
    let mut estimates = Vec::new();
    for (i, now) in steps.iter().enumerate() {
        let begins = steps[..=i].iter().rposition(|s| s.trial).unwrap_or(0);
        let mut sum = [0.0; 2];
        for step in &steps[begins..=i] {
            let age = now.tick - step.tick;
            for &c in step
                .spikes
                .iter()
                .filter(|&&c| !off.contains(&(c as usize)))
            {
                for (o, sum) in sum.iter_mut().enumerate() {
                    *sum += WEIGHTS[2 * c as usize + o] * scale * decay.powi(age as i32);
                }
            }
        }
        estimates.push(sum);
    }
    estimates
}

fn r2(reference: &[f64], estimate: &[f64]) -> f64 {
    let mean = reference.iter().sum::<f64>() / reference.len() as f64;
    let around: f64 = reference.iter().map(|r| (r - mean).powi(2)).sum();
    let left = reference.iter().zip(estimate);
    1.0 - left.map(|(r, e)| (r - e).powi(2)).sum::<f64>() / around
}

fn told(off: &[usize], frames: &[Bytes]) -> Value {
    of_mask(&decoder(), off, frames, || false).unwrap().unwrap()
}

/// Contribution of one spike of channel 0 to x at its own step, measured with the runtime: the scale of its filter.
fn scale() -> f64 {
    let mut session = Session::open(&decoder(), SessionConfig::default()).unwrap();
    let mut out = [0.0; 2];
    session.step_spikes(&[0], &mut out).unwrap();
    f64::from(out[0]) / WEIGHTS[0]
}

#[test]
fn a_mask_costs_what_a_batch_without_its_spikes_says() {
    let (steps, off) = (made(), [1usize, 2, 2]);
    let scale = scale();
    let (all, without) = (oracle(&steps, &[], scale), oracle(&steps, &off, scale));
    let memory = PreparedModel::new(&decoder(), None).unwrap().memory_steps() as usize;
    assert!((100..1_000).contains(&memory), "{memory}");
    let column = |of: &[[f64; 2]], o: usize| of[memory..].iter().map(|r| r[o]).collect::<Vec<_>>();
    let truth: Vec<[f64; 2]> = (steps.iter())
        .map(|s| [f64::from(s.truth[0]), f64::from(s.truth[1])])
        .collect();

    let against_truth = told(&off, &frames(&steps, true));
    let against_all = told(&off, &frames(&steps, false));
    assert_eq!(against_truth["against"], "truth");
    assert_eq!(against_all["against"], "estimate");
    for answer in [&against_truth, &against_all] {
        assert_eq!(answer["channels"], 2);
        assert_eq!(answer["steps"], steps.len() - memory);
        assert_eq!(answer["warm_up_steps"], memory);
    }
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() < 1e-5, "{value}, not {expected}");
    };
    for o in 0..2 {
        let (truth, all, without) = (column(&truth, o), column(&all, o), column(&without, o));
        near(&against_truth["outputs"][o]["now"], r2(&truth, &all));
        near(&against_truth["outputs"][o]["masked"], r2(&truth, &without));
        assert_eq!(against_all["outputs"][o]["now"], Value::Null);
        near(&against_all["outputs"][o]["masked"], r2(&all, &without));
    }
}

#[test]
fn no_mask_costs_nothing() {
    let answer = told(&[], &frames(&made(), false));
    assert_eq!(answer["outputs"][0]["masked"], 1.0);
    let answer = told(&[], &frames(&made(), true));
    for output in answer["outputs"].as_array().unwrap() {
        assert_eq!(output["now"], output["masked"]);
    }
}

/// An output without known truth has no R², although the truth of another output is known.
#[test]
fn unknown_truth_is_left_out_of_the_sums() {
    let mut steps = made();
    for (i, step) in steps.iter_mut().enumerate() {
        step.truth[1] = f32::NAN;
        if i % 2 == 0 {
            step.truth[0] = f32::NAN;
        }
    }
    let answer = told(&[0], &frames(&steps, true));
    assert_eq!(answer["against"], "truth");
    let rows = answer["outputs"][0]["rows"].as_u64().unwrap();
    let of = answer["steps"].as_u64().unwrap();
    assert!(rows.abs_diff(of / 2) <= 1, "{rows} of {of}");
    assert_eq!(answer["outputs"][1]["rows"], 0);
    assert_eq!(answer["outputs"][1]["masked"], Value::Null);
}

#[test]
fn what_cannot_be_said_is_refused_in_words() {
    let (steps, model) = (made(), decoder());
    let refused = |off: &[usize], frames: &[Bytes]| {
        let error = of_mask(&model, off, frames, || false).unwrap_err();
        (error.kind(), error.message().to_owned())
    };
    let whole = frames(&steps, true);
    let (kind, words) = refused(&[CHANNELS], &whole);
    assert!(kind == ErrorKind::InvalidArgument && words.contains("channels 0 to 5"));
    for few in [&whole[..0], &whole[..3]] {
        let (kind, words) = refused(&[0], few);
        assert!(kind == ErrorKind::InsufficientData, "{words}");
        assert!(words.contains("expected 100 steps"), "{words}");
    }
    let silent: Vec<TestStep> = (steps.into_iter())
        .map(|step| TestStep {
            spikes: Vec::new(),
            ..step
        })
        .collect();
    assert_eq!(
        refused(&[0], &frames(&silent, true)).0,
        ErrorKind::InsufficientData
    );
    let mut cells = crate::frame::Writer::new(crate::frame::Kind::Step, 0, 6, 0, 500, 64);
    cells.bytes(Section::CELLS, &[1, 0, 1, 0, 1, 0, 0, 0, 9]);
    let (kind, words) = refused(&[0], &[cells.finish()]);
    assert!(
        kind == ErrorKind::Mismatch && words.contains("got counts"),
        "{words}"
    );
    let mut foreign = crate::frame::Writer::new(crate::frame::Kind::Step, 0, 6, 0, 500, 64);
    foreign.f32(Section::ESTIMATE, &[0.0; 500]);
    let (kind, words) = refused(&[0], &[foreign.finish()]);
    assert!(
        kind == ErrorKind::Mismatch && words.contains("expected 1000 estimates"),
        "{words}"
    );
}

#[test]
fn who_hangs_up_stops_the_work() {
    let whole = frames(&made(), true);
    assert!(
        of_mask(&decoder(), &[0], &whole, || true)
            .unwrap()
            .is_none()
    );
}
