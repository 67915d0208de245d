//! The history against a plain loop over all steps, and its size.

use super::*;
use betz_runtime::stream::StepStatus;
use betz_testkit::Random;

/// A step as the plain loop remembers it.
#[derive(Clone)]
struct PlainStep {
    second: i64,
    spikes: usize,
    ns: u32,
    missed: bool,
    estimate: f32,
    truth: f32,
}

/// `seconds` of a session with `per_second` steps, and a pause of 40 s after a third of it.
fn session(seconds: i64, per_second: i64) -> (SessionHistory, Vec<PlainStep>) {
    let mut random = Random::new(3);
    let mut history = SessionHistory::new(4, 1);
    let mut steps = Vec::new();
    for i in 0..seconds * per_second {
        let second = i / per_second + if i > seconds * per_second / 3 { 40 } else { 0 };
        let truth = match random.below(5) {
            0 => f32::NAN,
            _ => (i as f32 * 0.01).sin(),
        };
        let step = PlainStep {
            second,
            spikes: random.below(6),
            ns: 64 << random.below(22) | random.below(64) as u32,
            missed: random.below(50) == 0,
            estimate: (i as f32 * 0.01).sin() + random.uniform() as f32 - 0.5,
            truth,
        };
        if history.over(second).is_some() {
            history.close();
        }
        history.step(&StepFacts {
            second,
            spikes: &vec![1; step.spikes],
            previous_latency_ns: step.ns,
            missed: step.missed,
            status: StepStatus::OK,
            estimates: &[step.estimate],
            truth: &[step.truth],
            losses: Losses {
                dropped: i as u64,
                ..Losses::default()
            },
        });
        steps.push(step);
    }
    history.close();
    (history, steps)
}

/// R² in two passes.
fn plain_r2(steps: &[&PlainStep]) -> Option<f64> {
    let known: Vec<(f64, f64)> = (steps.iter())
        .filter(|s| s.truth.is_finite())
        .map(|s| (f64::from(s.truth), f64::from(s.estimate)))
        .collect();
    let mean = known.iter().map(|k| k.0).sum::<f64>() / known.len() as f64;
    let around: f64 = known.iter().map(|k| (k.0 - mean).powi(2)).sum();
    let left: f64 = known.iter().map(|k| (k.0 - k.1).powi(2)).sum();
    (around > 0.0).then_some(1.0 - left / around)
}

fn assert_slot(slot: &Slot, all: &[PlainStep]) {
    let mine: Vec<&PlainStep> = (all.iter())
        .filter(|s| slot.at <= s.second && s.second < slot.at + slot.seconds)
        .collect();
    assert_eq!(slot.steps, mine.len() as u64, "second {}", slot.at);
    assert_eq!(
        slot.spikes,
        mine.iter().map(|s| s.spikes as u64).sum::<u64>()
    );
    assert_eq!(slot.misses, mine.iter().filter(|s| s.missed).count() as u64);
    assert_eq!(
        Some(slot.computing.longest_ns),
        mine.iter().map(|s| s.ns).max()
    );
    let mut sorted: Vec<u32> = mine.iter().map(|s| s.ns).collect();
    sorted.sort_unstable();
    for share in [0.5, 0.99] {
        let exact = sorted[((share * sorted.len() as f64).ceil() as usize).max(1) - 1];
        let told = slot.computing.percentile(share).unwrap();
        // The end of the bucket: at most a quarter of an octave above.
        assert!(
            exact <= told && f64::from(told) <= f64::from(exact) * 1.19 + 1.0,
            "{share} of second {}: {told} for {exact}",
            slot.at
        );
    }
    match (slot.fits[0].r2(), plain_r2(&mine)) {
        (Some(own), Some(plain)) => {
            assert!(
                (own - plain).abs() < 1e-9 * plain.abs().max(1.0),
                "second {}: {own} for {plain}",
                slot.at
            );
        }
        // One step with a true output, at the pause.
        (own, plain) => assert!(own.is_none() && plain.is_none() && mine.len() < 20),
    }
}

#[test]
fn every_slot_is_what_a_plain_loop_over_its_steps_finds() {
    // Three hours: seconds, tens of seconds and minutes are all there.
    let (history, steps) = session(3 * 3_600, 20);
    let slots: Vec<&Slot> = history.slots().collect();
    let lengths = [1, 10, 60].map(|n| slots.iter().filter(|s| s.seconds == n).count());
    assert!(lengths.iter().all(|n| *n > 1), "{lengths:?}");
    assert!(lengths[0] >= KEPT[0], "{lengths:?}");
    slots.iter().for_each(|slot| assert_slot(slot, &steps));
    assert_eq!(
        slots.iter().map(|s| s.steps).sum::<u64>(),
        steps.len() as u64
    );
    assert!(
        slots
            .windows(2)
            .all(|two| two[0].at + two[0].seconds <= two[1].at)
    );
    // Losses are differences of totals.
    assert_eq!(
        slots.iter().map(|s| s.losses.dropped).sum::<u64>(),
        steps.len() as u64 - 1
    );
    // R² is that of the half minute before.
    let end = steps[steps.len() - 1].second + 1;
    let recent: Vec<&PlainStep> = steps
        .iter()
        .filter(|s| s.second >= end - R2_SECONDS)
        .collect();
    let (own, plain) = (history.r2()[0].unwrap(), plain_r2(&recent).unwrap());
    assert!((own - plain).abs() < 1e-9);
    let json = history.json();
    let last = json["slots"].as_array().unwrap().last().unwrap();
    assert!((last["r2"][0].as_f64().unwrap() - plain).abs() < 1e-4);
    assert_eq!(json["slots"].as_array().unwrap().len(), slots.len());
}

#[test]
fn a_session_that_goes_on_has_the_seconds_of_its_file_too() {
    let (first, steps) = session(2 * 3_600, 20);
    let file: Value = serde_json::from_str(&first.to_file().to_string()).unwrap();
    // It is read before the first step, and after some.
    let later = |history: &mut SessionHistory, from: i64, to: i64| {
        for second in from..to {
            history.close();
            history.step(&StepFacts {
                second,
                spikes: &[1],
                previous_latency_ns: 100,
                missed: false,
                status: StepStatus::OK,
                estimates: &[0.0],
                truth: &[f32::NAN],
                losses: Losses::default(),
            });
        }
    };
    let end = first.end();
    let mut whole = SessionHistory::new(4, 1);
    later(&mut whole, end + 30, end + 40);
    whole.restore(&file).unwrap();
    later(&mut whole, end + 40, end + 50);
    whole.close();
    assert_eq!(
        whole.slots().map(|s| s.steps).sum::<u64>(),
        steps.len() as u64 + 20
    );
    let before = whole.slots().filter(|slot| slot.at + slot.seconds <= end);
    before.for_each(|slot| assert_slot(slot, &steps));
    let all: Vec<&Slot> = whole.slots().collect();
    assert!(
        all.windows(2)
            .all(|two| two[0].at + two[0].seconds <= two[1].at)
    );
    // Files of other sessions are refused, in words.
    let refusal = |file: &Value, outputs| {
        let refused = SessionHistory::new(4, outputs).restore(file).unwrap_err();
        refused.message().to_owned()
    };
    assert!(refusal(&file, 2).contains("expected version 1 of 2 outputs, got version 1 of 1"));
    assert!(refusal(&json!({}), 1).contains("got version null"));
    let mut odd = file.clone();
    odd["slots"][3]["at"] = json!(0);
    assert!(refusal(&odd, 1).contains("in the order of their time"));
    odd["slots"] = json!([{"at": 0}]);
    assert!(refusal(&odd, 1).contains("expected slots"));
    // Times at the ends of their range end no process.
    for (at, seconds) in [(i64::MAX, 1), (i64::MIN, 1), (0, i64::MAX), (0, 0)] {
        let mut far = file.clone();
        far["slots"][0]["at"] = at.into();
        far["slots"][0]["seconds"] = seconds.into();
        assert!(
            refusal(&far, 1).contains("in the order of their time"),
            "{at}, {seconds}"
        );
    }
}

#[test]
fn labels_that_come_late_count_in_the_second_of_their_step() {
    let mut history = SessionHistory::new(1, 1);
    for second in 0..700 {
        history.close();
        history.step(&StepFacts {
            second,
            spikes: &[],
            previous_latency_ns: 0,
            missed: false,
            status: StepStatus::OK,
            estimates: &[second as f32],
            truth: &[],
            losses: Losses::default(),
        });
    }
    assert_eq!(history.r2(), [None]);
    for second in [3, 650, 699, 5_000] {
        history.label(second, &[second as f32], &[second as f32 + 1.0]);
    }
    history.close();
    let rows: Vec<(i64, u64)> = (history.slots())
        .filter(|slot| slot.fits[0].rows > 0)
        .map(|slot| (slot.at, slot.fits[0].rows))
        .collect();
    assert_eq!(rows, [(0, 1), (650, 1), (699, 1)]);
}

#[test]
fn lists_of_channels_are_those_of_all_seconds_of_a_slot() {
    let mut history = SessionHistory::new(8, 0);
    for second in 0..2_000 {
        let silent = if second == 15 { vec![2, 5] } else { vec![5] };
        history.condition(&[silent, Vec::new()], 3, 7);
        history.close();
        history.step(&StepFacts {
            second,
            spikes: &[],
            previous_latency_ns: 0,
            missed: false,
            status: StepStatus::OK,
            estimates: &[],
            truth: &[],
            losses: Losses::default(),
        });
    }
    let old = history.slots().find(|slot| slot.at == 10).unwrap();
    assert_eq!((old.seconds, &old.condition.silent), (10, &vec![2, 5]));
    let next = history.slots().find(|slot| slot.at == 20).unwrap();
    assert_eq!(
        (
            &next.condition.silent,
            next.condition.masked,
            next.condition.model
        ),
        (&vec![5], 3, 7)
    );
}

#[test]
fn a_day_takes_no_more_than_its_bound() {
    // A week in steps of 1 s, 1,024 channels, 8 outputs, with other channels silent in every second.
    let mut history = SessionHistory::new(1_024, 8);
    let mut after_an_hour = 0;
    for second in 0..7 * 86_400_i64 {
        let silent = vec![(second % 1_024) as u32; 1];
        history.condition(&[silent.clone(), silent], 0, 1);
        history.close();
        let values = [second as f32; 8];
        history.step(&StepFacts {
            second,
            spikes: &[7],
            previous_latency_ns: 64 << (second % 20),
            missed: false,
            status: StepStatus::OK,
            estimates: &values,
            truth: &values,
            losses: Losses::default(),
        });
        if second == 3_600 {
            after_an_hour = history.bytes();
        }
    }
    assert!(
        after_an_hour < 2 << 20,
        "{after_an_hour} bytes after an hour"
    );
    let bytes = history.bytes();
    assert!(bytes < 20_000_000, "{bytes} bytes after a week");
    let slots: Vec<&Slot> = history.slots().collect();
    assert!(slots.len() <= KEPT.iter().sum());
    assert_eq!(slots.iter().map(|s| s.steps).sum::<u64>(), 7 * 86_400 - 1);
    println!("{after_an_hour} bytes after an hour, {bytes} after a week");
}

/// While the truth hardly moves, R² is far below zero; the score says how much of the usual variance is explained.
#[test]
fn a_score_is_r2_or_the_share_of_the_usual_variance() {
    let (history, steps) = session(60, 50);
    let end = steps[steps.len() - 1].second + 1;
    let recent: Vec<&PlainStep> = (steps.iter()).filter(|s| s.second >= end - 30).collect();
    let r2 = plain_r2(&recent).unwrap();
    let known = recent.iter().filter(|s| s.truth.is_finite());
    let squares: Vec<f64> = known
        .map(|s| (f64::from(s.truth) - f64::from(s.estimate)).powi(2))
        .collect();
    let error = squares.iter().sum::<f64>() / squares.len() as f64;
    let near = |variances: &[f64], expected: f64| {
        let score = history.score(variances).unwrap();
        assert!((score - expected).abs() < 1e-9, "{score} for {expected}");
    };
    // Of ten times the error, 0.9 is explained; of a variance below that of the half minute, R² is more.
    assert!(r2 < 0.9, "{r2}");
    near(&[10.0 * error], 0.9);
    near(&[error], r2);
    // An unknown variance leaves R².
    for unknown in [&[][..], &[f64::NAN], &[0.0]] {
        near(unknown, r2);
    }
    assert_eq!(SessionHistory::new(4, 1).score(&[1.0]), None);
}
