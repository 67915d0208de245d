//! A running session from outside: models swapped in, masks and limits exchanged, what taps hear, and what other
//! threads may read of it.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use std::sync::{Arc, Mutex};

use betz_base::ErrorKind;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{
    Clamp, Input, Replay, Session, SessionConfig, Spike, Step, StepStatus, SwapOptions, SwapState,
    Tap, lend,
};

use crate::common::{close, counts, decoder, open, rng, run, spikes};

const BANK: &[(f64, u32)] = &[(0.02, 0), (0.05, 1), (0.03, 2), (0.2, 3), (0.4, 4)];
const CHANNELS: usize = 8;

fn model(seed: u64) -> Decoder {
    decoder(&mut rng(seed), CHANNELS, 2, BANK, None)
}

#[test]
fn a_swap_says_how_far_it_is_and_fades() {
    let (old, new) = (model(11), model(12));
    let counts = counts(&mut rng(13), 200, CHANNELS);
    let (alone, fresh) = (run(&mut open(&old), &counts), run(&mut open(&new), &counts));
    let mut session = open(&old);
    let mut swapper = session.swapper().unwrap();
    let running = swapper.progress().running;
    let options = SwapOptions {
        warm_up_steps: Some(50),
        cross_fade_steps: 10,
        ..SwapOptions::default()
    };
    swapper.swap_with(&new, &options).unwrap();
    assert_eq!(swapper.progress().state, SwapState::Pending);
    assert_eq!(swapper.progress().ticks_left, 60);
    for tick in 0..100 {
        let mut out = [0.0; 2];
        session
            .step_counts(&counts[tick * CHANNELS..][..CHANNELS], &mut out)
            .unwrap();
        let (a, b) = (&alone[2 * tick..][..2], &fresh[2 * tick..][..2]);
        let share = ((tick as f32 - 49.0).max(0.0) / 10.0).min(1.0);
        let expected = [a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])];
        assert!(close(&out, &expected, 1e-5), "{tick}: {out:?} {expected:?}");
        let progress = swapper.progress();
        assert_eq!(progress.ticks_left, 59_u64.saturating_sub(tick as u64));
        assert_eq!(
            session.status().contains(StepStatus::FADING),
            (50..60).contains(&tick)
        );
        assert_eq!(session.status().contains(StepStatus::SWAPPED), tick == 60);
        assert_eq!(progress.state == SwapState::TakenOver, tick >= 59);
        assert_eq!(progress.running == running, tick < 59);
        assert_eq!(
            (progress.ticks, session.stats().model_swaps),
            (60, u64::from(tick >= 59))
        );
    }
    swapper.roll_back().unwrap();
    assert_eq!(run(&mut session, &counts[100 * CHANNELS..]), alone[200..]);
    assert_eq!(swapper.progress().running, running);
}

#[test]
fn channels_match_by_position_on_request() {
    let old = model(14);
    let mut parts = model(15).into_parts();
    parts
        .channel_names
        .iter_mut()
        .for_each(|name| name.insert_str(0, "ch"));
    let new = Decoder::new(parts).unwrap();
    let mut session = open(&old);
    let mut swapper = session.swapper().unwrap();
    assert_eq!(swapper.swap(&new).unwrap_err().kind(), ErrorKind::Mismatch);
    let options = SwapOptions {
        by_position: true,
        warm_up_steps: Some(0),
        ..SwapOptions::default()
    };
    swapper.swap_with(&new, &options).unwrap();
    let counts = counts(&mut rng(16), 20, CHANNELS);
    assert_eq!(run(&mut session, &counts), run(&mut open(&new), &counts));
    let fewer = decoder(&mut rng(17), CHANNELS - 1, 2, BANK, None);
    assert!(swapper.swap_with(&fewer, &options).is_err());
}

/// With the last ticks' spikes replayed, a model takes over at once as if it had always run.
#[test]
fn replayed_spikes_warm_a_model_up() {
    let (old, new) = (model(18), model(19));
    let counts = counts(&mut rng(20), 400, CHANNELS);
    let expected = run(&mut open(&new), &counts);
    for gap in [0, 5] {
        // Nothing fires in the gap between the end of what is replayed and the take-over.
        let mut counts = counts.clone();
        counts[(300 - gap) * CHANNELS..300 * CHANNELS].fill(0);
        let expected = match gap {
            0 => expected.clone(),
            _ => run(&mut open(&new), &counts),
        };
        let mut session = open(&old);
        let mut swapper = session.swapper().unwrap();
        run(&mut session, &counts[..300 * CHANNELS]);
        let recorded: Vec<Spike> = (0..300 - gap)
            .flat_map(|tick| {
                let row = &counts[tick * CHANNELS..][..CHANNELS];
                let spike = move |channel| Spike {
                    tick: tick as i64,
                    channel,
                };
                spikes(row).into_iter().map(spike)
            })
            .collect();
        let options = SwapOptions {
            warm_up_steps: Some(0),
            replay: Some(Replay {
                spikes: &recorded,
                end_tick: (300 - gap) as i64,
            }),
            ..SwapOptions::default()
        };
        swapper.swap_with(&new, &options).unwrap();
        let got = run(&mut session, &counts[300 * CHANNELS..]);
        assert!(close(&got, &expected[600..], 1e-5), "gap of {gap}");
        let wrong = SwapOptions {
            replay: Some(Replay {
                spikes: &recorded,
                end_tick: 2,
            }),
            ..SwapOptions::default()
        };
        assert!(swapper.swap_with(&new, &wrong).is_err());
    }
}

#[test]
fn mask_and_clamp_change_while_it_runs() {
    let decoder = model(21);
    let counts = counts(&mut rng(22), 100, CHANNELS);
    let mut session = open(&decoder);
    let mut swapper = session.swapper().unwrap();
    let mut mask = vec![true; CHANNELS];
    mask[2] = false;
    swapper.set_mask(&decoder, Some(&mask)).unwrap();
    let config = SessionConfig {
        channel_mask: Some(mask),
        ..SessionConfig::default()
    };
    let mut masked = Session::open(&decoder, config).unwrap();
    assert_eq!(run(&mut session, &counts), run(&mut masked, &counts));
    assert_eq!(session.model().fingerprint(), masked.model().fingerprint());
    // The response to earlier spikes decays as before; new spikes are taken again.
    swapper.set_mask(&decoder, None).unwrap();
    let (mut a, mut b) = ([0.0; 2], [0.0; 2]);
    session.step_spikes(&[2], &mut a).unwrap();
    masked.step_spikes(&[], &mut b).unwrap();
    assert_ne!(a, b);
    assert!(swapper.set_mask(&model(23), None).is_err());
    let bounds = Clamp {
        low: 0.0,
        high: 0.25,
    };
    assert!(swapper.set_clamp(Some(vec![bounds])).is_err());
    swapper.set_clamp(Some(vec![bounds; 2])).unwrap();
    session.step_spikes(&[], &mut a).unwrap();
    assert!(a.iter().all(|x| (0.0..=0.25).contains(x)));
    swapper.set_clamp(None).unwrap();
    session.step_spikes(&[], &mut a).unwrap();
    assert!(a.iter().any(|x| !(0.0..=0.25).contains(x)));
    swapper.swap(&model(24)).unwrap();
    session.step_spikes(&[], &mut a).unwrap();
    assert!(swapper.set_mask(&decoder, None).is_err());
}

/// Tick, input, estimates, status, swap, latency of the step before.
type One = (i64, Vec<u32>, Vec<f32>, StepStatus, SwapState, u32);

/// Keeps all of what it hears.
#[derive(Clone, Default)]
struct StepList(Arc<Mutex<Vec<One>>>);

impl Tap for StepList {
    fn take(&mut self, step: &Step<'_>) {
        let input = match step.input {
            Input::Spikes(channels) => channels.to_vec(),
            Input::Counts(counts) => spikes(counts),
            other => panic!("{other:?}"),
        };
        let heard = (
            step.tick,
            input,
            step.estimates.to_vec(),
            step.status,
            step.swap,
            step.previous_latency_ns,
        );
        self.0.lock().unwrap().push(heard);
    }
}

#[test]
fn taps_hear_the_whole_step() {
    let mut session = open(&model(25));
    let mut swapper = session.swapper().unwrap();
    let (first, second, third) = (
        StepList::default(),
        StepList::default(),
        StepList::default(),
    );
    session.attach(Box::new(first.clone()), 0).unwrap();
    session.attach(Box::new(second.clone()), 1000).unwrap();
    let mut out = [0.0; 2];
    session.step_spikes(&[1, 77], &mut out).unwrap();
    let expected = out.to_vec();
    swapper.attach(Box::new(third.clone()), None).unwrap();
    session
        .step_counts(&[0, 0, 2, 0, 0, 0, 0, 0], &mut out)
        .unwrap();
    swapper.swap(&model(26)).unwrap();
    session.step_spikes(&[], &mut out).unwrap();
    let heard = first.0.lock().unwrap().clone();
    assert_eq!(
        (heard[0].0, &heard[0].1, &heard[0].2),
        (0, &vec![1, 77], &expected)
    );
    assert_eq!(
        (heard[0].3, heard[0].4, heard[0].5),
        (StepStatus::UNKNOWN, SwapState::Idle, 0)
    );
    assert_eq!(heard[1].1, [2, 2]);
    assert!(heard[1].5 > 0, "the step before took some time");
    assert_eq!((heard[2].4, heard.len()), (SwapState::WarmingUp, 3));
    let ticks =
        |heard: &StepList| -> Vec<i64> { heard.0.lock().unwrap().iter().map(|h| h.0).collect() };
    assert_eq!(ticks(&second), [1000, 1001, 1002]);
    assert_eq!(ticks(&third), [1, 2]);
    swapper.detach().unwrap();
    session.step_spikes(&[], &mut out).unwrap();
    assert!(swapper.take_tap().is_some() && swapper.take_tap().is_none());
    assert_eq!((session.taps(), ticks(&third).len()), (2, 2));
    while session.taps() < betz_runtime::stream::MAX_TAPS {
        session.attach(Box::new(third.clone()), 0).unwrap();
    }
    assert!(session.attach(Box::new(third.clone()), 0).is_err());
    let refused = swapper.attach(Box::new(third.clone()), None).unwrap_err();
    assert!(refused.message().contains("fewer than 8 taps"), "{refused}");
    // A place that one leaves is the next one's, before the session steps.
    assert!(session.detach().is_some());
    swapper.attach(Box::new(third.clone()), None).unwrap();
    assert!(swapper.attach(Box::new(third.clone()), None).is_err());
    assert!(session.attach(Box::new(third.clone()), 0).is_err());
    session.step_spikes(&[], &mut out).unwrap();
    assert_eq!(session.taps(), betz_runtime::stream::MAX_TAPS);
}

/// Owners open and close their taps again and again, on the session's thread and beside it: each is heard, and nothing
/// is left of it.
#[test]
fn a_closed_tap_leaves_its_place() {
    let mut session = open(&model(25));
    let mut swapper = session.swapper().unwrap();
    let mut out = [0.0; 2];
    for cycle in 0..100 {
        let heard = StepList::default();
        let (tap, lease) = lend(heard.clone());
        if cycle % 2 == 0 {
            session.attach(Box::new(tap), 0).unwrap();
        } else {
            swapper.attach(Box::new(tap), Some(0)).unwrap();
        }
        session.step_spikes(&[1], &mut out).unwrap();
        assert_eq!((session.taps(), heard.0.lock().unwrap().len()), (1, 1));
        drop(lease);
        assert_eq!((session.taps(), Arc::strong_count(&heard.0)), (0, 1));
        session.step_spikes(&[1], &mut out).unwrap();
        assert_eq!(heard.0.lock().unwrap().len(), 1);
    }
    // Closed before the session has taken it: the place is free as well.
    for _ in 0..3 {
        let (tap, lease) = lend(StepList::default());
        swapper.attach(Box::new(tap), None).unwrap();
        drop(lease);
    }
    let mut leases = Vec::new();
    for _ in 0..betz_runtime::stream::MAX_TAPS {
        let (tap, lease) = lend(StepList::default());
        session.attach(Box::new(tap), 0).unwrap();
        leases.push(lease);
    }
    for _ in 0..3 {
        session.step_spikes(&[1], &mut out).unwrap();
    }
    assert_eq!(session.taps(), betz_runtime::stream::MAX_TAPS);
    // Detached by the session, and not closed: the place is free.
    let kept = session.detach().unwrap();
    let (tap, _lease) = lend(StepList::default());
    session.attach(Box::new(tap), 0).unwrap();
    drop(kept);
}

#[test]
fn health_and_checkpoints_are_had_from_another_thread() {
    let decoder = model(27);
    let mut session = open(&decoder);
    let reader = session.health();
    let mut swapper = session.swapper().unwrap();
    let mut out = [0.0; 2];
    session.step_spikes(&[1, 2, 300], &mut out).unwrap();
    session.skip(9);
    session.step_spikes(&[1], &mut out).unwrap();
    let health = std::thread::spawn(move || reader.read()).join().unwrap();
    assert_eq!((health.tick, health.ticks, health.skipped), (10, 2, 9));
    assert_eq!((health.spikes, health.unknown_channel_spikes), (3, 1));
    assert_eq!(
        (health.status, health.swap),
        (StepStatus::OK, SwapState::Idle)
    );
    assert_eq!(health.model, session.model().fingerprint());
    assert!(health.latency_ns > 0 && health.longest_ns >= health.latency_ns);
    swapper.request_checkpoint().unwrap();
    assert!(swapper.take_checkpoint().is_none());
    // It is taken before the next step.
    let expected = session.checkpoint().unwrap();
    session.step_spikes(&[4], &mut out).unwrap();
    assert_eq!(swapper.take_checkpoint().unwrap(), expected);
    let mut other = open(&decoder);
    other.restore(&expected).unwrap();
    let mut there = [0.0; 2];
    other.step_spikes(&[4], &mut there).unwrap();
    assert_eq!(out, there);
    assert!(swapper.take_checkpoint().is_none());
}
