//! Decoders of classes: against their formulas in plain f64, their events against a slow reference, and the gate.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::ErrorKind;
use betz_runtime::model::{
    Blanking, Classes, Cosines, Decoder, DecoderParts, EventRule, Head, Limits, Markov,
    VelocityGate,
};
use betz_runtime::stream::{
    ChannelRules, ClassEvent, EVENT_ROOM, EventDetector, LateSpikes, Session, SessionConfig, Spike,
    StepStatus, spike_queue,
};
use rand::RngExt;

use crate::common::{self, Rng, counts, oracle, rng, run};

const BANK: &[(f64, u32)] = &[(0.05, 0), (0.1, 2)];
const CHANNELS: usize = 6;
const LATENTS: usize = 5;
const CLASSES: usize = 3;
const STEP_SECONDS: f64 = 0.01;

fn short(rng: &mut Rng, n: usize, most: f32) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-most..most)).collect()
}

pub(crate) fn classes(seed: u64, units: usize, tau: Option<f64>, kappa: Option<f64>) -> Classes {
    let rng = &mut rng(seed);
    let features = LATENTS * (1 + usize::from(tau.is_some())) + units;
    let rule = EventRule {
        on: 0.4,
        off: 0.35,
        dwell: 2,
        refractory_seconds: 0.05,
    };
    Classes {
        cosines: Cosines {
            radius: 6.0,
            frequencies: short(rng, LATENTS * units, 0.2),
            phases: short(rng, units, 0.5),
        },
        tau_seconds: tau,
        weights: short(rng, features * CLASSES, 0.7),
        bias: short(rng, CLASSES, 0.7),
        priors: vec![0.5, 0.3, 0.2],
        markov: kappa.map(|kappa| Markov {
            kappa,
            transitions: vec![0.8, 0.1, 0.1, 0.2, 0.7, 0.1, 0.25, 0.25, 0.5],
            start: vec![0.2, 0.3, 0.5],
        }),
        events: vec![Some(rule), None, Some(rule)],
    }
}

pub(crate) fn decoders() -> Vec<Decoder> {
    all().iter().map(decoder).collect()
}

fn all() -> Vec<Classes> {
    vec![
        classes(60, 20, Some(0.1), None),
        classes(61, 0, None, None),
        classes(62, 16, Some(0.02), Some(0.4)),
        classes(63, 0, None, Some(1.0)),
    ]
}

fn decoder(classes: &Classes) -> Decoder {
    let linear = common::decoder(&mut rng(42), CHANNELS, LATENTS, BANK, None).into_parts();
    Decoder::new(DecoderParts {
        outputs: ["rest", "left", "right"].map(Into::into).to_vec(),
        head: Head::Classes(classes.clone()),
        ..linear
    })
    .unwrap()
}

fn open(decoder: &Decoder) -> Session {
    Session::open(decoder, SessionConfig::default()).unwrap()
}

/// The formulas, in f64 and one feature at a time.
fn formula(decoder: &Decoder, classes: &Classes, counts: &[u16]) -> Vec<f64> {
    let (units, radius) = (classes.cosines.units(), classes.cosines.radius);
    let (mut slow, mut alpha) = ([0.0; LATENTS], None);
    let mut out = Vec::new();
    for z in oracle(decoder, counts).chunks(LATENTS) {
        let norm = z.iter().map(|z| z * z).sum::<f64>().sqrt();
        let z: Vec<f64> = z.iter().map(|z| z * (radius / norm).min(1.0)).collect();
        let mut features = z.clone();
        if let Some(tau) = classes.tau_seconds {
            let rho = (-STEP_SECONDS / tau).exp();
            for (slow, z) in slow.iter_mut().zip(&z) {
                *slow = rho * *slow + (1.0 - rho) * z;
            }
            features.extend(slow);
        }
        features.extend((0..units).map(|unit| {
            let turns: f64 = (0..LATENTS)
                .map(|k| z[k] * f64::from(classes.cosines.frequencies[k * units + unit]))
                .sum();
            (std::f64::consts::TAU * (turns + f64::from(classes.cosines.phases[unit]))).cos()
        }));
        let score = |k: usize| {
            let weights = classes.weights.iter().skip(k).step_by(CLASSES);
            let sum: f64 = (features.iter().zip(weights))
                .map(|(u, w)| u * f64::from(*w))
                .sum();
            sum + f64::from(classes.bias[k])
        };
        let shares = |p: Vec<f64>| -> Vec<f64> {
            let sum: f64 = p.iter().sum();
            p.iter().map(|p| p / sum).collect()
        };
        let mut p = shares((0..CLASSES).map(|k| score(k).exp()).collect());
        if let Some(markov) = &classes.markov {
            let before = match &alpha {
                None => markov.start.clone(),
                Some(alpha) => {
                    let alpha: &Vec<f64> = alpha;
                    let share = |from: usize, to: usize| markov.transitions[from * CLASSES + to];
                    (0..CLASSES)
                        .map(|to| (0..CLASSES).map(|i| alpha[i] * share(i, to)).sum())
                        .collect()
                }
            };
            let evidence = p
                .iter()
                .zip(&classes.priors)
                .map(|(p, prior)| (p / prior).powf(markov.kappa));
            p = shares(before.iter().zip(evidence).map(|(a, e)| a * e).collect());
            p = shares(p.iter().map(|p| p.max(1e-9)).collect());
            alpha = Some(p.clone());
        }
        out.extend(p);
    }
    out
}

#[test]
fn sessions_follow_the_formulas_and_add_up_to_1() {
    let counts = counts(&mut rng(41), 300, CHANNELS);
    for classes in all() {
        let decoder = decoder(&classes);
        let got = run(&mut open(&decoder), &counts);
        let expected = formula(&decoder, &classes, &counts);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert!(
                (f64::from(*got) - expected).abs() < 2e-5,
                "value {i}: {got} against {expected}"
            );
        }
        for row in got.chunks(CLASSES) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
        }
        let mut session = open(&decoder);
        let mut p = [9.0; CLASSES];
        session.classes(&mut p).unwrap();
        assert_eq!(p, [0.0; CLASSES]);
        session
            .step_counts(&counts[..CHANNELS], &mut [0.0; CLASSES])
            .unwrap();
        session.classes(&mut p).unwrap();
        assert_eq!(p, got[..CLASSES]);
        assert_eq!(
            session.classes(&mut [0.0; 2]).unwrap_err().kind(),
            ErrorKind::Mismatch
        );
    }
}

#[test]
fn huge_scores_give_a_certain_class() {
    for (sign, expected) in [(1.0, [0.0, 1.0, 0.0]), (-1.0, [0.5, 0.0, 0.5])] {
        let mut classes = classes(61, 0, None, None);
        classes.weights.fill(0.0);
        classes.bias = vec![0.0, sign * 9e29, 0.0];
        let mut out = [0.0; CLASSES];
        open(&decoder(&classes))
            .step_counts(&[1; CHANNELS], &mut out)
            .unwrap();
        assert_eq!(out, expected);
    }
}

#[test]
fn files_checkpoints_and_clones_go_on_bit_for_bit() {
    let counts = counts(&mut rng(47), 400, CHANNELS);
    let (first, second) = counts.split_at(200 * CHANNELS);
    let mut compared = 0;
    for mut classes in all() {
        // A threshold that the probabilities cross.
        let p = run(&mut open(&decoder(&classes)), &counts);
        for (class, rule) in classes.events.iter_mut().enumerate() {
            let mut own: Vec<f32> = p.iter().skip(class).step_by(CLASSES).copied().collect();
            own.sort_unstable_by(f32::total_cmp);
            if let Some(rule) = rule {
                (rule.on, rule.off) = (own[own.len() / 2].max(1e-20), own[own.len() / 4]);
            }
        }
        let decoder = decoder(&classes);
        let read = Decoder::from_bytes(&decoder.to_bytes().unwrap()).unwrap();
        assert_eq!(read, decoder);
        let mut session = open(&decoder);
        run(&mut session, first);
        let mut room = [ClassEvent::default(); EVENT_ROOM];
        session.events(&mut room);
        let checkpoint = session.checkpoint().unwrap();
        let mut restored = open(&read);
        restored.restore(&checkpoint).unwrap();
        let mut clone = session.clone();
        let expected = run(&mut session, second);
        let count = session.events(&mut room);
        compared += count;
        for other in [&mut restored, &mut clone] {
            assert_eq!(run(other, second), expected);
            let mut own = [ClassEvent::default(); EVENT_ROOM];
            assert_eq!(other.events(&mut own), count);
            assert_eq!(own[..count], room[..count]);
        }
        session.reset();
        assert_eq!(run(&mut session, first), run(&mut open(&decoder), first));
    }
    assert!(compared > 10, "{compared} events");
}

/// One class after another over the whole list, as the prototype does it.
fn slow_events(p: &[f64], rule: EventRule, refractory: i64) -> Vec<(i64, bool)> {
    let (mut events, mut is_on, mut run, mut last) = (Vec::new(), false, 0, i64::MIN / 2);
    for (t, &p) in (0..).zip(p) {
        let p = p as f32;
        if is_on {
            if p < rule.off {
                is_on = false;
                events.push((t, false));
            }
            continue;
        }
        run = if p >= rule.on { run + 1 } else { 0 };
        if run >= rule.dwell && t - last >= refractory {
            (is_on, run, last) = (true, 0, t);
            events.push((t, true));
        }
    }
    events
}

#[test]
fn events_are_those_of_a_slow_reference() {
    let rng = &mut rng(64);
    for case in 0..300 {
        let rule = EventRule {
            on: rng.random_range(0.2..0.9),
            off: rng.random_range(0.05..0.2),
            dwell: rng.random_range(1..4),
            refractory_seconds: STEP_SECONDS * f64::from(rng.random_range(0..12_u32)),
        };
        let refractory = (rule.refractory_seconds / STEP_SECONDS).round() as i64;
        let p: Vec<f64> = (0..200).map(|_| rng.random_range(0.0..1.0)).collect();
        let mut detector = EventDetector::new(&[Some(rule)], STEP_SECONDS).unwrap();
        for (tick, &p) in (0..).zip(&p) {
            detector.step(tick, &[p]);
        }
        let mut room = [ClassEvent::default(); EVENT_ROOM];
        let count = detector.read(&mut room);
        let got: Vec<(i64, bool)> = room[..count].iter().map(|e| (e.tick, e.on)).collect();
        assert_eq!(
            got,
            slow_events(&p, rule, refractory),
            "case {case}: {rule:?}"
        );
    }
}

#[test]
fn events_that_nobody_reads_are_lost_and_counted() {
    let rule = EventRule {
        on: 0.5,
        off: 0.5,
        dwell: 1,
        refractory_seconds: 0.0,
    };
    let mut detector = EventDetector::new(&[Some(rule)], STEP_SECONDS).unwrap();
    for tick in 0..EVENT_ROOM as i64 + 10 {
        detector.step(tick, &[(tick % 2) as f64]);
    }
    let mut room = [ClassEvent::default(); EVENT_ROOM + 1];
    assert_eq!(detector.read(&mut room), EVENT_ROOM);
    // Tick 0 is no event; 265 others, of which 256 are kept.
    assert_eq!((detector.lost(), room[0].tick), (9, 10));
}

#[test]
fn a_session_counts_the_events_that_nobody_read() {
    let mut classes = classes(61, 0, None, None);
    let counts = counts(&mut rng(65), 3000, CHANNELS);
    let mut first: Vec<f32> = run(&mut open(&decoder(&classes)), &counts)
        .into_iter()
        .step_by(CLASSES)
        .collect();
    first.sort_unstable_by(f32::total_cmp);
    let median = first[first.len() / 2];
    let rule = EventRule {
        on: median,
        off: median,
        dwell: 1,
        refractory_seconds: 0.0,
    };
    classes.events = vec![Some(rule), None, None];
    let decoder = decoder(&classes);
    let (mut read, mut unread) = (open(&decoder), open(&decoder));
    let (mut room, mut all) = ([ClassEvent::default(); EVENT_ROOM], 0);
    for row in counts.chunks(CHANNELS) {
        for session in [&mut read, &mut unread] {
            session.step_counts(row, &mut [0.0; CLASSES]).unwrap();
        }
        all += read.events(&mut room);
    }
    assert!(all > EVENT_ROOM, "{all} events");
    assert_eq!(read.stats().events_lost, 0);
    assert_eq!(unread.stats().events_lost, (all - EVENT_ROOM) as u64);
    unread.clear_stats();
    assert_eq!(unread.stats().events_lost, 0);
}

/// Two linear outputs, of which the second is gated by class 1.
fn gated(closed: f64, slope: f64) -> (Decoder, Decoder) {
    let linear = common::decoder(&mut rng(42), CHANNELS, 2 + LATENTS, BANK, None).into_parts();
    let names = |n: usize| ["x", "vx"].map(Into::into)[..n].to_vec();
    let of_outputs = |weights: &[f64]| -> Vec<f64> {
        weights
            .chunks(2 + LATENTS)
            .flat_map(|row| row[..2].to_vec())
            .collect()
    };
    let plain = Decoder::new(DecoderParts {
        outputs: names(2),
        weights: of_outputs(&linear.weights),
        intercept: linear.intercept[..2].to_vec(),
        ..linear.clone()
    })
    .unwrap();
    let gate = VelocityGate {
        classes: classes(65, 8, Some(0.1), None),
        names: ["rest", "go", "turn"].map(String::from).to_vec(),
        class: 1,
        closed,
        slope,
        gated: vec![false, true],
    };
    let decoder = Decoder::new(DecoderParts {
        outputs: names(2),
        head: Head::VelocityGate(gate),
        ..linear
    })
    .unwrap();
    (plain, decoder)
}

#[test]
fn a_gate_that_is_open_changes_no_bit() {
    let counts = counts(&mut rng(66), 200, CHANNELS);
    let (plain, decoder) = gated(1.0, 0.0);
    assert_eq!(decoder.class_names(), ["rest", "go", "turn"]);
    assert_eq!(
        Decoder::from_bytes(&decoder.to_bytes().unwrap()).unwrap(),
        decoder
    );
    assert_eq!(
        run(&mut open(&decoder), &counts),
        run(&mut open(&plain), &counts)
    );
}

#[test]
fn a_gate_follows_its_class() {
    let counts = counts(&mut rng(67), 200, CHANNELS);
    let (plain, decoder) = gated(0.1, 0.9);
    let free = run(&mut open(&plain), &counts);
    let (mut session, mut out, mut p) = (open(&decoder), [0.0; 2], [0.0; CLASSES]);
    for (counts, free) in counts.chunks(CHANNELS).zip(free.chunks(2)) {
        session.step_counts(counts, &mut out).unwrap();
        session.classes(&mut p).unwrap();
        assert_eq!(out[0], free[0]);
        assert!((p.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        let expected = (0.1 + 0.9 * p[1]) * free[1];
        assert!(
            (out[1] - expected).abs() <= 1e-5 * (1.0 + expected.abs()),
            "{out:?} {expected}"
        );
    }
    let mut warm = session.clone();
    warm.warm();
    let mut after = [0.0; CLASSES];
    warm.classes(&mut after).unwrap();
    assert_eq!(after, p);
}

/// Dead channels may close a gate for ever: it opens when the session knows that they are gone.
#[test]
fn a_gate_opens_when_channels_are_gone() {
    let (plain, decoder) = gated(0.0, 0.0);
    // The usual rate of each channel, one spike per step.
    let decoder = Decoder::new(DecoderParts {
        limits: Limits {
            blanking: Some(Blanking {
                least: 0,
                most: 1_000_000,
                mean_counts: vec![1.0; CHANNELS],
            }),
            ..Limits::default()
        },
        ..decoder.into_parts()
    })
    .unwrap();
    let mut session = open(&decoder);
    let mut free = open(&plain);
    let rules = ChannelRules {
        window_seconds: 0.1,
        silent_spikes: 5.0,
        ..ChannelRules::default()
    };
    session.watch_itself(&decoder, rules).unwrap();
    let (mut out, mut expected) = ([0.0; 2], [0.0; 2]);
    let mut was_closed = false;
    for step in 0..200 {
        let mut counts = [1; CHANNELS];
        if step >= 50 {
            counts[0] = 0;
        }
        session.step_counts(&counts, &mut out).unwrap();
        free.step_counts(&counts, &mut expected).unwrap();
        if session.status().contains(StepStatus::CHANNELS) {
            assert_eq!(out, expected);
        } else {
            assert_eq!(out, [expected[0], 0.0]);
            was_closed = true;
        }
    }
    assert!(was_closed && session.status().contains(StepStatus::CHANNELS));
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let sound = classes(60, 20, Some(0.1), Some(0.4));
    let refused = |change: &dyn Fn(&mut Classes), part: &str| {
        let mut classes = sound.clone();
        change(&mut classes);
        let parts = DecoderParts {
            head: Head::Classes(classes),
            ..decoder(&sound).into_parts()
        };
        let error = Decoder::new(parts).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidModel);
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(
        &|c| c.priors[0] = 0.6,
        "priors: expected shares from 0 to 1 that add up to 1",
    );
    refused(&|c| c.weights[3] = f32::NAN, "weights[3]");
    refused(&|c| c.bias[0] = 2e30, "bias[0]");
    refused(
        &|c| {
            c.weights.pop();
        },
        "weights: expected 90 values",
    );
    refused(&|c| c.tau_seconds = Some(0.0), "tau_seconds");
    refused(&|c| c.markov.as_mut().unwrap().kappa = 1.5, "markov.kappa");
    refused(
        &|c| c.markov.as_mut().unwrap().transitions[0] = 0.9,
        "markov.transitions",
    );
    refused(
        &|c| c.events[0].as_mut().unwrap().off = 0.9,
        "events of class 0",
    );
    refused(
        &|c| c.events[0].as_mut().unwrap().dwell = 0,
        "events of class 0",
    );
    refused(
        &|c| {
            c.events.pop();
        },
        "events, one per class",
    );
    let (plain, gate) = gated(0.1, 0.9);
    assert!(plain.class_names().is_empty());
    assert_eq!(
        open(&plain).classes(&mut []).unwrap_err().kind(),
        ErrorKind::InsufficientData
    );
    let Head::VelocityGate(mut head) = gate.head().clone() else {
        panic!("{}", gate.kind());
    };
    head.class = 3;
    let error = Decoder::new(DecoderParts {
        head: Head::VelocityGate(head),
        ..gate.into_parts()
    })
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("class: expected one of 3, got 3"),
        "{error}"
    );
}

/// A decoder of movement and one of classes read one queue, and decode as if each had its own.
#[test]
fn one_queue_feeds_two_sessions() {
    let rng = &mut rng(80);
    let movement = common::decoder(rng, CHANNELS, 2, BANK, None);
    let states = decoder(&classes(60, 20, Some(0.1), None));
    let (mut first, mut second) = (open(&movement), open(&states));
    let (mut alone, mut also_alone) = (open(&movement), open(&states));
    let (mut producer, mut consumer) = spike_queue(256, LateSpikes::Take).unwrap();
    let counts = counts(rng, 200, CHANNELS);
    let (mut moved, mut shares) = ([0.0; 2], [0.0; CLASSES]);
    let (mut own_moved, mut own_shares) = ([0.0; 2], [0.0; CLASSES]);
    for (tick, counts) in (0..).zip(counts.chunks(CHANNELS)) {
        let fired: Vec<u32> = (0..)
            .zip(counts)
            .flat_map(|(channel, &count)| std::iter::repeat_n(channel, count.into()))
            .collect();
        for &channel in &fired {
            producer.push(&[Spike { tick, channel }]);
        }
        // Every tenth tick is not marked in time: both sessions are told that its data are stale.
        let stale = tick % 10 == 9;
        if !stale {
            producer.mark(tick);
        }
        consumer.step(&mut first, &mut moved).unwrap();
        consumer.step_again(&mut second, &mut shares).unwrap();
        alone.step_spikes(&fired, &mut own_moved).unwrap();
        also_alone.step_spikes(&fired, &mut own_shares).unwrap();
        assert_eq!((moved, shares), (own_moved, own_shares), "tick {tick}");
        assert_eq!((first.tick(), second.tick()), (tick + 1, tick + 1));
        for session in [&first, &second] {
            assert_eq!(session.status().contains(StepStatus::STALE), stale);
        }
    }
    // A late spike is counted once.
    producer.push(&[Spike {
        tick: 3,
        channel: 1,
    }]);
    consumer.step(&mut first, &mut moved).unwrap();
    consumer.step_again(&mut second, &mut shares).unwrap();
    assert_eq!((first.stats().late, second.stats().late), (1, 0));
}
