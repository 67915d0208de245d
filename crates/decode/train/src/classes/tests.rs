//! Training on labels, from end to end.

use super::*;
use betz_base::error::ErrorKind;
use betz_gram::cases;
use betz_recording::Segment;
use betz_recording::labels::UNLABELLED;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CHANNELS: usize = 8;
const STEPS: i64 = 4000;

/// Channels that fire more in class 1 (the first half of them) or in class 0; segments of 200 steps, states of 25.
pub(crate) fn recording(seed: u64) -> (Dataset, Labels) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let mut state = 0;
    let mut of_step = Vec::new();
    let mut spikes = Vec::new();
    for step in 0..STEPS {
        if step % 25 == 0 {
            state = i32::from(rng.random_bool(0.4));
        }
        of_step.push(state);
        for channel in 0..CHANNELS {
            let is_own = (channel < CHANNELS / 2) == (state == 1);
            if rng.random_bool(if is_own { 0.35 } else { 0.1 }) {
                spikes.push((step, channel as u32, 1));
            }
        }
    }
    let bounds: Vec<(i64, i64)> = (0..STEPS / 200).map(|i| (i * 200, (i + 1) * 200)).collect();
    let data = cases::dataset(
        CHANNELS,
        &bounds,
        spikes.iter().map(|s| (s.0, s.1)).collect(),
        1,
    );
    let labels = Labels {
        names: vec!["rest".into(), "go".into()],
        of_step,
    };
    (data, labels)
}

fn training() -> Training {
    Training {
        bank: Some(cases::bank(&[(5.0, 0), (20.0, 1)])),
        folds: 4,
        kinds: crate::kinds::KindOptions {
            latents: Some(4),
            units: Some(16),
            ..crate::kinds::KindOptions::linear()
        },
        ..Training::default()
    }
}

fn run(data: &Dataset, labels: &Labels) -> Result<(TrainingOutcome, ClassReport)> {
    training().run_classes(data, labels, &ClassOptions::default(), &Device::cpu(), &())
}

#[test]
fn classes_are_told_apart_on_another_recording() {
    let (data, labels) = recording(1);
    let (outcome, report) = run(&data, &labels).unwrap();
    assert_eq!(outcome.decoder.class_names(), ["rest", "go"]);
    let (other, truth) = recording(2);
    let scores = evaluate_classes(&outcome.decoder, &other, &truth).unwrap();
    assert!(scores.auc[1] > 0.9, "{scores:?}");
    assert!(scores.ece < 0.05, "{scores:?}");
    assert!((scores.auc[1] - report.scores.auc[1]).abs() < 0.05);
    let again = run(&data, &labels).unwrap();
    assert_eq!(again.0.decoder, outcome.decoder);
    let bytes = outcome.decoder.to_bytes().unwrap();
    assert_eq!(Decoder::from_bytes(&bytes).unwrap(), outcome.decoder);
}

#[test]
fn shuffled_labels_say_nothing() {
    let (data, labels) = recording(3);
    let (_, shuffled) = recording(4);
    let labels = Labels {
        of_step: shuffled.of_step,
        ..labels
    };
    let (_, report) = run(&data, &labels).unwrap();
    // 4,000 steps in 160 runs: an AUC by chance varies by about 0.04.
    assert!(
        (report.scores.auc[1] - 0.5).abs() < 0.1,
        "{}",
        report.scores.auc[1]
    );
}

/// The spikes of unlabelled steps enter no sum: with filters that have forgotten, they change nothing.
#[test]
fn steps_without_a_label_enter_no_sum() {
    let (data, mut labels) = recording(5);
    // Whole segments without labels.
    for segment in data.segments.iter().step_by(5) {
        labels.of_step[segment.start as usize..segment.stop as usize].fill(UNLABELLED);
    }
    let labelled: Vec<usize> = (0..data.segments.len()).filter(|i| i % 5 != 0).collect();
    let without = data.select(&labelled);
    let classes = |data: &Dataset| {
        let (outcome, report) = run(data, &labels).unwrap();
        (outcome.decoder.classes().cloned().unwrap(), report)
    };
    let ((a, all), (b, part)) = (classes(&data), classes(&without));
    assert_eq!(all.labelled, part.labelled);
    let near = |a: &[f32], b: &[f32]| {
        a.iter()
            .zip(b)
            .all(|(a, b)| (a - b).abs() < 0.05 * (1.0 + b.abs()))
    };
    assert!(near(&a.bias, &b.bias), "{:?} {:?}", a.bias, b.bias);
    assert!((all.scores.nll - part.scores.nll).abs() < 0.01);
}

#[test]
fn what_cannot_be_trained_on_is_refused_by_name() {
    let (data, labels) = recording(6);
    let one = Labels {
        of_step: vec![1; data.steps],
        ..labels.clone()
    };
    let error = run(&data, &one).unwrap_err();
    assert!(error.to_string().contains("only \"go\""), "{error}");
    let mut few = labels.clone();
    few.names.push("click".into());
    few.of_step[100..129].fill(2);
    let error = run(&data, &few).unwrap_err();
    assert!(error.to_string().contains("got 29 of \"click\""), "{error}");
    let priors = ClassOptions {
        priors: Some(vec![0.5, 0.6]),
        ..ClassOptions::default()
    };
    let error = training().run_classes(&data, &labels, &priors, &Device::cpu(), &());
    assert!(error.unwrap_err().to_string().contains("add up to 1.1"));
    let rates = ClassOptions {
        false_alarms: 0.0,
        ..ClassOptions::default()
    };
    let error = training().run_classes(&data, &labels, &rates, &Device::cpu(), &());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let gate = |class| {
        let with = (&labels, class);
        training().run_gated(&data, with, &ClassOptions::default(), &Device::cpu(), &())
    };
    let error = gate("go").unwrap_err();
    assert!(
        error.to_string().contains("outputs that are velocities"),
        "{error}"
    );
    let error = gate("walk").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("one of the classes [rest, go], got \"walk\""),
        "{error}"
    );
}

/// A softmax of few unknowns by Newton's method and by Böhning's bound is the same.
#[test]
fn both_ways_to_the_softmax_agree() {
    let rng = &mut ChaCha8Rng::seed_from_u64(7);
    let (n, width, classes) = (600, 4, 3);
    let mut values: Vec<f32> = (0..n * (width - 1))
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    let labels: Vec<u16> = (0..n)
        .map(|step| match (values[step], values[n + step]) {
            _ if rng.random_bool(0.2) => 2,
            (a, _) if a > 0.2 => 1,
            (_, b) if b > 0.0 => 2,
            _ => 0,
        })
        .collect();
    values.resize(n * width, 1.0);
    let samples = Samples {
        width,
        blocks: vec![features::Block {
            steps: (0..n).collect(),
            values,
            labels,
        }],
        steps: n,
    };
    let newton = Softmax::fit(&samples, classes, &()).unwrap();
    let bounded = softmax::fit_bounded(&samples, classes).unwrap();
    let (a, b) = (
        newton.scores(&samples.blocks[0]),
        bounded.scores(&samples.blocks[0]),
    );
    let difference = |scores: &[f64], step: usize| scores[step] - scores[n + step];
    for step in 0..n {
        let (a, b) = (difference(&a, step), difference(&b, step));
        assert!(
            (a - b).abs() < 0.05 * (1.0 + a.abs()),
            "step {step}: {a} and {b}"
        );
    }
}

#[test]
fn a_recording_decodes_as_a_stream_and_shares_add_up_to_1() {
    let (data, labels) = recording(8);
    let (outcome, report) = run(&data, &labels).unwrap();
    let decoded = decoded(&outcome.decoder, &data);
    assert_eq!(bits(&streamed(&outcome.decoder, &data)), bits(&decoded));
    // The confusion travels with the model.
    let counts = outcome.decoder.attachment(*b"conf").unwrap();
    let written: Vec<u64> = (counts.as_chunks::<8>().0.iter())
        .map(|count| u64::from_le_bytes(*count))
        .collect();
    assert_eq!(written, report.scores.confusion.concat());
    let Segment { start, stop } = data.segments[1];
    for step in start as usize..stop as usize {
        let sum: f32 = decoded[2 * step..2 * step + 2].iter().sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }
}

/// Counts of single steps have no memory, and states are slow: a hidden Markov model makes held-out labels likelier. A
/// recording decodes as a session steps through it, bit for bit, with the model and without.
#[test]
fn a_hidden_markov_model_helps_where_features_have_no_memory() {
    let (mut data, labels) = recording(1);
    // Steps that are too long for a filter of the latents.
    data.step_seconds = 1.0;
    let memoryless = Training {
        bank: Some(
            betz_runtime::psc::FilterBank::new(vec![betz_runtime::psc::Filter {
                tau_seconds: 0.05,
                order: 0,
            }])
            .unwrap(),
        ),
        ..training()
    };
    let run = |markov| {
        let options = ClassOptions {
            markov,
            ..ClassOptions::default()
        };
        let done = memoryless.run_classes(&data, &labels, &options, &Device::cpu(), &());
        done.unwrap()
    };
    let ((smoothed, with), (plain, without)) = (run(true), run(false));
    assert_eq!(without.kappa, None);
    assert!(
        with.kappa.is_some() && with.scores.nll < without.scores.nll,
        "{with:?}"
    );
    assert!(
        with.scores.auc[1] > without.scores.auc[1] + 0.02,
        "{with:?} {without:?}"
    );
    // Features with a memory hold the past already.
    assert_eq!(self::run(&recording(1).0, &labels).unwrap().1.kappa, None);
    for decoder in [smoothed.decoder, plain.decoder] {
        assert_eq!(
            bits(&streamed(&decoder, &data)),
            bits(&decoded(&decoder, &data))
        );
    }
}

/// Transitions are counted inside segments: trials that are next to each other in a file need not be so in time.
#[test]
fn no_transition_crosses_the_end_of_a_segment() {
    let (data, mut labels) = recording(1);
    for (k, segment) in data.segments.iter().enumerate() {
        let steps = segment.start as usize..segment.stop as usize;
        labels.of_step[steps].fill(k as i32 % 2);
    }
    let found = markov::from_labels(&labels, &data.view(), 0.5);
    let steps = (data.segments.len() / 2 * 199) as f64;
    let stays = (steps + 0.5) / (steps + 1.0);
    for (share, expected) in found
        .transitions
        .iter()
        .zip([stays, 1.0 - stays, 1.0 - stays, stays])
    {
        assert!((share - expected).abs() < 1e-12, "{found:?}");
    }
    assert_eq!(found.start, [0.5, 0.5]);
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn decoded(decoder: &Decoder, data: &Dataset) -> Vec<f32> {
    betz_gram::decode::decode(decoder, data).unwrap()
}

/// The outputs of a session that steps through `data`, which is all segments.
fn streamed(decoder: &Decoder, data: &Dataset) -> Vec<f32> {
    let config = betz_runtime::stream::SessionConfig::default();
    let mut session = betz_runtime::stream::Session::open(decoder, config).unwrap();
    let (mut out, mut all) = (vec![0.0; session.outputs()], Vec::new());
    for segment in &data.segments {
        session.reset();
        for step in segment.start..segment.stop {
            let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
            session.step_spikes(spikes, &mut out).unwrap();
            all.extend_from_slice(&out);
        }
    }
    all
}

/// Events of a recording are those of a session that steps through it.
#[test]
fn events_of_a_recording_are_those_of_a_session() {
    let (data, labels) = recording(1);
    let decoder = run(&data, &labels).unwrap().0.decoder;
    let (other, _) = recording(2);
    let events = class_events(&decoder, &other).unwrap();
    assert!(events.iter().any(|event| event.on));
    let config = betz_runtime::stream::SessionConfig::default();
    let mut session = betz_runtime::stream::Session::open(&decoder, config).unwrap();
    let mut room = [ClassEvent::default(); 8];
    let mut outputs = [0.0; 2];
    let mut streamed: Vec<ClassEvent> = Vec::new();
    for segment in &other.segments {
        session.reset();
        let count = session.events(&mut room);
        streamed.extend_from_slice(&room[..count]);
        for step in segment.start..segment.stop {
            let spikes = &other.spikes;
            let from = spikes.ticks.partition_point(|tick| *tick < step);
            let to = spikes.ticks.partition_point(|tick| *tick <= step);
            session
                .step_spikes(&spikes.channels[from..to], &mut outputs)
                .unwrap();
            let count = session.events(&mut room);
            streamed.extend_from_slice(&room[..count]);
        }
    }
    session.reset();
    let count = session.events(&mut room);
    streamed.extend_from_slice(&room[..count]);
    let kept = |events: &[ClassEvent]| -> Vec<(u32, bool)> {
        events.iter().map(|event| (event.class, event.on)).collect()
    };
    assert_eq!(kept(&events), kept(&streamed));
}

/// Steps that are long beside the filter of the latents have none, and no row depends on another.
#[test]
fn long_steps_have_no_filter() {
    let (mut data, labels) = recording(1);
    data.step_seconds = 1.0;
    let decoder = run(&data, &labels).unwrap().0.decoder;
    assert_eq!(decoder.classes().unwrap().tau_seconds, None);
    data.step_seconds = 0.1;
    let decoder = run(&data, &labels).unwrap().0.decoder;
    assert_eq!(decoder.classes().unwrap().tau_seconds, Some(0.1));
}

/// Onsets without probabilities, such as those in steps left out between folds, are neither found nor missed, and their
/// steps are no time in which alarms could have been false.
#[test]
fn onsets_that_were_not_decoded_do_not_count() {
    let steps = 4000;
    let data = cases::dataset(CHANNELS, &[(0, steps)], Vec::new(), 1);
    let is_go = |step: i64| step % 1000 >= 500;
    let labels = Labels {
        names: vec!["rest".into(), "go".into()],
        of_step: (0..steps).map(|step| i32::from(is_go(step))).collect(),
    };
    // The second onset, and most of what is around it, was left out.
    let left_out = 1100..1900;
    let go = |step: i64| match left_out.contains(&step) {
        true => f32::NAN,
        false => f32::from(u8::from(is_go(step))),
    };
    let probabilities: Vec<f32> = (0..steps)
        .flat_map(|step| [1.0 - go(step), go(step)])
        .collect();
    let judged = scores::Predictions {
        data: data.view(),
        labels: &labels,
        delay_steps: 0,
        probabilities: &probabilities,
    };
    let onsets = judged.onsets(1);
    assert_eq!(onsets.len(), 3);
    let rule = betz_runtime::model::EventRule {
        on: 0.5,
        off: 0.5,
        dwell: 1,
        refractory_seconds: 0.0,
    };
    let found = judged.event_scores(1, rule, &onsets).unwrap();
    assert_eq!((found.onsets, found.missed), (3, 0.0), "{found:?}");
    assert_eq!(found.latency, 0.0);
}
