//! Faults that a controller has to survive, and the status of the session in each: wrong clocks, missing
//! data, overflowing numbers, pauses.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::ErrorKind;
use betz_runtime::model::{Blanking, Decoder, DecoderParts, Limits, LowPass};
use betz_runtime::stream::{
    Clamp, Hold, LateSpikes, QueueConfig, Resync, Session, SessionConfig, Spike, StepStatus,
    spike_queue, spike_queue_with,
};

use crate::common::{close, counts, decoder, open, rng, run, spikes};

const BANK: &[(f64, u32)] = &[(0.02, 0), (0.05, 1), (0.03, 2), (0.2, 3), (0.4, 4)];
const CHANNELS: usize = 8;

fn model(seed: u64) -> Decoder {
    decoder(&mut rng(seed), CHANNELS, 2, BANK, None)
}

#[test]
fn one_spike_far_ahead_holds_up_nothing() {
    let mut session = open(&model(1));
    let (mut producer, mut consumer) = spike_queue(64, LateSpikes::Take).unwrap();
    let spike = |tick, channel| Spike { tick, channel };
    producer.push(&[spike(1 << 40, 0)]);
    let mut out = [0.0; 2];
    for tick in 0..100 {
        producer.push(&[spike(tick, 1), spike(tick, 2)]);
        producer.mark(tick);
        consumer.step(&mut session, &mut out).unwrap();
        let future = session.status().contains(StepStatus::FUTURE);
        assert_eq!(future, tick == 0, "{}", session.status());
    }
    let stats = session.stats();
    assert_eq!((stats.spikes, stats.future, stats.dropped), (200, 1, 0));
    // 10 s of 10 ms steps ahead: 1,000 may wait, 1,001 may not.
    producer.push(&[spike(100 + 1001, 0), spike(100 + 1000, 0)]);
    consumer.step(&mut session, &mut out).unwrap();
    assert_eq!((session.stats().future, consumer.waiting()), (2, 1));
    let narrow = QueueConfig {
        ahead_seconds: 0.05,
        ..QueueConfig::default()
    };
    let (mut producer, mut consumer) = spike_queue_with(narrow).unwrap();
    producer.push(&[spike(6, 0), spike(5, 0)]);
    consumer.step(&mut session, &mut out).unwrap();
    assert_eq!((session.stats().future, consumer.waiting()), (3, 1));
    for wrong in [0.0, -1.0, f64::NAN] {
        let config = QueueConfig {
            ahead_seconds: wrong,
            ..QueueConfig::default()
        };
        assert!(spike_queue_with(config).is_err());
    }
}

#[test]
fn a_queue_can_be_cleared_and_set_right() {
    let decoder = model(2);
    let mut session = open(&decoder);
    let (mut producer, mut consumer) = spike_queue(64, LateSpikes::Discard).unwrap();
    let mut out = [0.0; 2];
    let spike = |tick| Spike { tick, channel: 3 };
    producer.push(&[spike(0), spike(0), spike(7)]);
    producer.mark(0);
    consumer.step(&mut session, &mut out).unwrap();
    assert!(session.status().is_ok());
    assert_eq!((consumer.clear(), consumer.waiting()), (1, 0));
    let refused = consumer.set_tick(i64::MAX).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(consumer.tick(), 1);
    // After a pause the filters have decayed by what passed.
    let mut alone = open(&decoder);
    alone.step_spikes(&[3, 3], &mut out).unwrap();
    alone.skip(99);
    consumer.resync(&mut session, 100, Resync::Decay).unwrap();
    let mut expected = [0.0; 2];
    alone.step_spikes(&[], &mut expected).unwrap();
    producer.mark(100);
    consumer.step(&mut session, &mut out).unwrap();
    assert_eq!(out, expected);
    assert!(session.status().contains(StepStatus::DROPPED));
    assert_eq!((session.stats().dropped, session.stats().skipped), (1, 99));
    // Or they start anew; a tick that lies back always does.
    let mut fresh = open(&decoder);
    fresh.step_spikes(&[], &mut expected).unwrap();
    for (tick, how) in [(500, Resync::Reset), (3, Resync::Decay)] {
        consumer.resync(&mut session, tick, how).unwrap();
        consumer.step(&mut session, &mut out).unwrap();
        assert_eq!((out, consumer.tick()), (expected, tick + 1));
    }
    assert_eq!(consumer.lag(), Some(100 - 4 + 1));
}

/// Against so many steps without a spike; the sum of what differs is rounding.
#[test]
fn skipped_ticks_are_ticks_without_spikes() {
    let low = LowPass {
        order: 5,
        cutoff_hz: 8.0,
    };
    for low_pass in [None, Some(low)] {
        let decoder = decoder(&mut rng(3), CHANNELS, 3, BANK, low_pass);
        let counts = counts(&mut rng(4), 50, CHANNELS);
        for ticks in [0_u64, 1, 2, 3, 7, 64, 100, 1000, 12_345] {
            let (mut skipping, mut stepping) = (open(&decoder), open(&decoder));
            run(&mut skipping, &counts);
            run(&mut stepping, &counts);
            let (mut a, mut b) = ([0.0; 3], [0.0; 3]);
            skipping.skip(ticks);
            for _ in 0..ticks {
                stepping.step_spikes(&[], &mut b).unwrap();
            }
            for tick in 0..20 {
                skipping.step_spikes(&[tick % 8], &mut a).unwrap();
                stepping.step_spikes(&[tick % 8], &mut b).unwrap();
                assert!(close(&a, &b, 1e-6), "{ticks}, {low_pass:?}: {a:?} {b:?}");
            }
            assert_eq!(skipping.stats().skipped, ticks);
            assert_eq!(skipping.tick(), stepping.tick());
        }
        // For ever is rest, and the clock does not overflow.
        let mut session = open(&decoder);
        run(&mut session, &counts);
        session.skip(u64::MAX);
        let (mut out, mut rest) = ([0.0; 3], [0.0; 3]);
        session.step_spikes(&[2], &mut out).unwrap();
        open(&decoder).step_spikes(&[2], &mut rest).unwrap();
        assert_eq!(out, rest);
    }
}

#[test]
fn data_that_stop_are_held_and_then_come_to_rest() {
    let decoder = model(5);
    let counts = counts(&mut rng(6), 100, CHANNELS);
    let config = SessionConfig {
        hold: Some(Hold {
            hold_seconds: 0.05,
            decay_seconds: 0.1,
            patience_steps: 2,
            rest: Some(vec![1.0, -3.0]),
        }),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&decoder, config.clone()).unwrap();
    let (mut producer, mut consumer) = spike_queue(1024, LateSpikes::Take).unwrap();
    let mut out = [0.0; 2];
    for (tick, row) in counts.chunks(CHANNELS).enumerate() {
        let tick = tick as i64;
        let spikes: Vec<Spike> = (spikes(row).into_iter())
            .map(|channel| Spike { tick, channel })
            .collect();
        producer.push(&spikes);
        producer.mark(tick);
        consumer.step(&mut session, &mut out).unwrap();
        assert!(session.status().is_ok(), "{}", session.status());
    }
    // Nothing comes any more, and the controller steps on.
    let last = out;
    for step in 1..=40 {
        consumer.step(&mut session, &mut out).unwrap();
        let status = session.status();
        assert!(status.contains(StepStatus::STALE | StepStatus::HELD));
        let way = ((step - 5).max(0) as f32 / 10.0).min(1.0);
        let expected = [
            last[0] + way * (1.0 - last[0]),
            last[1] + way * (-3.0 - last[1]),
        ];
        assert!(close(&out, &expected, 1e-6), "{step}: {out:?} {expected:?}");
        assert_eq!(status.contains(StepStatus::AT_REST), step >= 15);
    }
    // The first good step ends it, with the estimates of filters that have known silence.
    let mut alone = open(&decoder);
    run(&mut alone, &counts);
    alone.skip(40);
    let mut expected = [0.0; 2];
    alone.step_spikes(&[1], &mut expected).unwrap();
    producer.push(&[Spike {
        tick: 140,
        channel: 1,
    }]);
    producer.mark(140);
    consumer.step(&mut session, &mut out).unwrap();
    assert!(session.status().is_ok() && close(&out, &expected, 1e-6));
    // Without a queue, the caller says that nothing came.
    session.step_stale(&mut out).unwrap();
    assert!(session.status().contains(StepStatus::HELD) && close(&out, &expected, 1e-6));
    // A checkpoint in the middle goes on as it would have.
    let bytes = session.checkpoint().unwrap();
    let mut other = Session::open(&decoder, config).unwrap();
    other.restore(&bytes).unwrap();
    let mut there = [0.0; 2];
    for _ in 0..20 {
        session.step_stale(&mut out).unwrap();
        other.step_stale(&mut there).unwrap();
        assert_eq!((out, session.status()), (there, other.status()));
    }
    // Without a policy, the same steps are flagged, and that is all.
    let mut plain = open(&decoder);
    plain.step_stale(&mut out).unwrap();
    assert_eq!(plain.status(), StepStatus::STALE);
}

#[test]
fn an_acquisition_that_never_begins_is_stale_and_held() {
    let config = SessionConfig {
        hold: Some(Hold::default()),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&model(4), config).unwrap();
    let (mut producer, mut consumer) = spike_queue(64, LateSpikes::Take).unwrap();
    let mut out = [0.0; 2];
    for _ in 0..100 {
        consumer.step(&mut session, &mut out).unwrap();
        let held = StepStatus::STALE | StepStatus::HELD;
        assert!(session.status().contains(held), "{}", session.status());
    }
    producer.mark(consumer.tick());
    consumer.step(&mut session, &mut out).unwrap();
    assert!(session.status().is_ok(), "{}", session.status());
}

/// A slew limit would hold an output outside bounds that were tightened, held outputs would rest there.
#[test]
fn bounds_hold_for_whatever_is_given_out() {
    let config = SessionConfig {
        slew: Some(vec![0.001; 2]),
        hold: Some(Hold {
            rest: Some(vec![50.0, -50.0]),
            ..Hold::default()
        }),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&model(5), config).unwrap();
    let mut swapper = session.swapper().unwrap();
    let mut out = [0.0; 2];
    session.step_spikes(&[1, 2], &mut out).unwrap();
    let low = out[0].max(out[1]) + 10.0;
    let bounds = Clamp {
        low,
        high: low + 1.0,
    };
    swapper.set_clamp(Some(vec![bounds; 2])).unwrap();
    for step in 0..300 {
        if step < 100 {
            session.step_spikes(&[3], &mut out).unwrap();
        } else {
            session.step_stale(&mut out).unwrap();
        }
        assert!(out.iter().all(|v| (low..=low + 1.0).contains(v)), "{out:?}");
    }
    assert!(session.status().contains(StepStatus::CLAMPED));
}

#[test]
fn bounds_that_let_only_an_infinity_through_are_refused() {
    for (low, high) in [
        (f32::INFINITY, f32::INFINITY),
        (f32::NEG_INFINITY, f32::NEG_INFINITY),
        (f32::NAN, 1.0),
        (2.0, 1.0),
    ] {
        let config = SessionConfig {
            clamp: Some(vec![Clamp { low, high }; 2]),
            ..SessionConfig::default()
        };
        let error = Session::open(&model(6), config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{low} {high}");
    }
}

#[test]
fn flagged_steps_are_believed_for_a_while() {
    let parts = model(7).into_parts();
    let decoder = Decoder::new(DecoderParts {
        limits: Limits {
            blanking: Some(Blanking {
                least: 0,
                most: 20,
                mean_counts: vec![0.5; CHANNELS],
            }),
            ..Limits::default()
        },
        ..parts
    })
    .unwrap();
    let config = SessionConfig {
        hold: Some(Hold::default()),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&decoder, config).unwrap();
    let mut out = [0.0; 2];
    session.step_counts(&[1; CHANNELS], &mut out).unwrap();
    let good = out;
    for step in 1..=4 {
        session.step_counts(&[3; CHANNELS], &mut out).unwrap();
        let status = session.status();
        assert!(status.contains(StepStatus::BLANKED));
        assert_eq!(status.contains(StepStatus::HELD), step > 2);
        assert_eq!(out == good, step > 2);
    }
    for (what, hold) in [
        (
            "0 to 1e9",
            Hold {
                hold_seconds: -1.0,
                ..Hold::default()
            },
        ),
        (
            "0 to 1e9",
            Hold {
                decay_seconds: f64::NAN,
                ..Hold::default()
            },
        ),
        (
            "2 values",
            Hold {
                rest: Some(vec![0.0]),
                ..Hold::default()
            },
        ),
        (
            "finite",
            Hold {
                rest: Some(vec![0.0, f32::NAN]),
                ..Hold::default()
            },
        ),
    ] {
        let config = SessionConfig {
            hold: Some(hold),
            ..SessionConfig::default()
        };
        let error = Session::open(&decoder, config).unwrap_err();
        assert!(error.message().contains(what), "{error}");
    }
}

#[test]
fn what_is_not_finite_never_comes_out_unsaid() {
    let mut parts = model(8).into_parts();
    parts.weights.iter_mut().for_each(|w| *w = 3.4e38);
    let huge = Decoder::new(parts).unwrap();
    let mut session = open(&huge);
    let mut out = [0.0; 2];
    for step in 0..50 {
        session
            .step_counts(&[u16::MAX; CHANNELS], &mut out)
            .unwrap();
        assert!(out.iter().all(|x| x.is_finite()), "{out:?}");
        assert!(session.status().contains(StepStatus::NON_FINITE) || step == 0);
    }
    session.skip(1 << 30);
    session.step_counts(&[0; CHANNELS], &mut out).unwrap();
    assert!(
        session.status().is_ok(),
        "it does not last: {}",
        session.status()
    );
    // Bounds are told from the rest.
    let bounds = Clamp {
        low: -0.5,
        high: 0.5,
    };
    let config = SessionConfig {
        clamp: Some(vec![bounds; 2]),
        ..SessionConfig::default()
    };
    let mut clamped = Session::open(&model(8), config).unwrap();
    clamped.step_counts(&[5; CHANNELS], &mut out).unwrap();
    assert_eq!(clamped.status(), StepStatus::CLAMPED);
    // And spikes that nobody knows.
    let mut session = open(&model(8));
    session.step_spikes(&[0, 99], &mut out).unwrap();
    assert_eq!(session.status(), StepStatus::UNKNOWN);
    assert_eq!(session.status().to_string(), "unknown channels");
}

#[test]
fn counts_of_other_types_are_the_same_counts() {
    let decoder = model(9);
    let counts = counts(&mut rng(10), 60, CHANNELS);
    let (mut a, mut b, mut c) = (open(&decoder), open(&decoder), open(&decoder));
    let mut out = [[0.0; 2]; 3];
    for row in counts.chunks(CHANNELS) {
        let bytes: Vec<u8> = row.iter().map(|&c| c as u8).collect();
        let floats: Vec<f32> = row.iter().map(|&c| f32::from(c)).collect();
        a.step_counts(row, &mut out[0]).unwrap();
        b.step_counts_u8(&bytes, &mut out[1]).unwrap();
        c.step_counts_f32(&floats, &mut out[2]).unwrap();
        assert!(out[0] == out[1] && out[0] == out[2]);
    }
    assert!(a.stats().spikes == b.stats().spikes && a.stats().spikes == c.stats().spikes);
    // Half a spike is half as much.
    let (mut whole, mut half) = (open(&decoder), open(&decoder));
    whole.step_counts(&[2; CHANNELS], &mut out[0]).unwrap();
    half.step_counts_f32(&[0.5; CHANNELS], &mut out[1]).unwrap();
    for ((whole, half), intercept) in out[0].iter().zip(&out[1]).zip(decoder.intercept()) {
        let intercept = *intercept as f32;
        assert!((whole - intercept - 4.0 * (half - intercept)).abs() < 1e-5);
    }
    for wrong in [-1.0, f32::NAN, f32::INFINITY, 65_536.0] {
        let mut counts = [0.0; CHANNELS];
        counts[3] = wrong;
        let error = half.step_counts_f32(&counts, &mut out[0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("channel 3"), "{error}");
    }
    assert!(half.step_counts_u8(&[0; 3], &mut out[0]).is_err());
    assert_eq!(half.stats().ticks, 1);
}

#[test]
fn outputs_change_by_no_more_than_the_slew_limit_and_steps_say_so() {
    let decoder = model(31);
    let counts = counts(&mut rng(32), 300, CHANNELS);
    let free = run(&mut open(&decoder), &counts);
    let most = [0.05, f32::INFINITY];
    let config = SessionConfig {
        slew: Some(most.to_vec()),
        hold: Some(Hold {
            rest: Some(vec![2.0, -1.0]),
            ..Hold::default()
        }),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&decoder, config.clone()).unwrap();
    let (mut out, mut there, mut slewed) = ([0.0; 2], [0.0; 2], 0);
    let mut given: Option<[f32; 2]> = None;
    let mut other = None;
    for (step, row) in counts.chunks(CHANNELS).enumerate() {
        session.step_counts(row, &mut out).unwrap();
        let free = &free[2 * step..][..2];
        let expected = given.map_or(free[0], |g| free[0].clamp(g[0] - most[0], g[0] + most[0]));
        assert_eq!(out, [expected, free[1]]);
        let said = session.status().contains(StepStatus::SLEWED);
        assert_eq!(said, expected != free[0], "{step}");
        slewed += usize::from(said);
        given = Some(out);
        // A checkpoint goes on as it would have.
        if step == 150 {
            let bytes = session.checkpoint().unwrap();
            let mut made = Session::open(&decoder, config.clone()).unwrap();
            made.restore(&bytes).unwrap();
            assert!(open(&decoder).restore(&bytes).is_err());
            other = Some(made);
        } else if let Some(other) = &mut other {
            other.step_counts(row, &mut there).unwrap();
            assert_eq!((there, other.status()), (out, session.status()));
        }
    }
    assert!((30..300).contains(&slewed), "{slewed}");
    // Held outputs move to rest no faster.
    for _ in 0..200 {
        let before = out;
        session.step_stale(&mut out).unwrap();
        assert!((out[0] - before[0]).abs() <= most[0] * 1.0001);
        assert!(session.status().contains(StepStatus::HELD));
    }
    assert!(close(&out, &[2.0, -1.0], 1e-6), "{out:?}");
    // From a reset on it is free again.
    session.reset();
    session.step_counts(&counts[..CHANNELS], &mut out).unwrap();
    assert_eq!(out, free[..2]);
    for wrong in [vec![1.0], vec![1.0, 0.0], vec![f32::NAN, 1.0]] {
        let config = SessionConfig {
            slew: Some(wrong),
            ..SessionConfig::default()
        };
        assert!(Session::open(&decoder, config).is_err());
    }
}
