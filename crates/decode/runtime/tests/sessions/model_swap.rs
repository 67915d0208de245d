//! A swap gives exactly what the module says it gives, at every tick.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use std::sync::{Arc, Mutex};

use super::common::{self, counts, decoder, open, rng};
use betz_base::ErrorKind;
use betz_runtime::model::DecoderParts;
use betz_runtime::model::{Decoder, LowPass};
use betz_runtime::stream::{
    PreparedModel, Session, SessionConfig, Step, SwapOptions, SwapState, Tap,
};

const CHANNELS: usize = 12;
const TICKS: usize = 600;

fn warming(steps: u64) -> SwapOptions<'static> {
    SwapOptions {
        warm_up_steps: Some(steps),
        ..SwapOptions::default()
    }
}

fn models() -> (Decoder, Decoder, Vec<u16>) {
    let rng = &mut rng(0);
    let old = decoder(rng, CHANNELS, 2, &[(0.05, 1)], None);
    let low_pass = LowPass {
        order: 3,
        cutoff_hz: 8.0,
    };
    let new = decoder(rng, CHANNELS, 2, &[(0.02, 0), (0.08, 2)], Some(low_pass));
    (old, new, counts(rng, TICKS, CHANNELS))
}

/// Ticks `range` of `counts` through `session`.
fn run(session: &mut Session, counts: &[u16], range: std::ops::Range<usize>) -> Vec<f32> {
    common::run(
        session,
        &counts[range.start * CHANNELS..range.end * CHANNELS],
    )
}

#[test]
fn the_old_model_speaks_until_the_new_one_has_caught_up() {
    let (old, new, counts) = models();
    let always_old = run(&mut open(&old), &counts, 0..TICKS);
    let always_new = run(&mut open(&new), &counts, 0..TICKS);
    let asked = 100;
    let new_from_then = run(&mut open(&new), &counts, asked..TICKS);

    let mut session = open(&old);
    let mut swapper = session.swapper().unwrap();
    let mut got = run(&mut session, &counts, 0..asked);
    swapper.swap(&new).unwrap();
    assert_eq!(swapper.state(), SwapState::Pending);
    got.extend(run(&mut session, &counts, asked..asked + 1));
    assert_eq!(swapper.state(), SwapState::WarmingUp);
    got.extend(run(&mut session, &counts, asked + 1..TICKS));
    assert_eq!(swapper.state(), SwapState::TakenOver);
    assert_eq!(session.stats().model_swaps, 1);

    let warm_up = PreparedModel::new(&new, None).unwrap().memory_steps() as usize;
    let taken_over = asked + warm_up;
    assert!(taken_over < TICKS - 100, "warm-up of {warm_up} ticks");
    assert_eq!(got[..2 * taken_over], always_old[..2 * taken_over]);
    assert_eq!(got[2 * taken_over..], new_from_then[2 * warm_up..]);
    for (got, always) in got.iter().zip(&always_new).skip(2 * taken_over) {
        assert!((got - always).abs() < 1e-5, "{got}, expected {always}");
    }
}

#[test]
fn a_warm_up_of_ones_own_choice() {
    let (old, new, counts) = models();
    let always_old = run(&mut open(&old), &counts, 0..TICKS);
    for warm_up in [0, 1, 2, 37] {
        let mut session = open(&old);
        let mut swapper = session.swapper().unwrap();
        let mut got = run(&mut session, &counts, 0..50);
        let model = Arc::new(PreparedModel::new(&new, None).unwrap());
        swapper
            .swap_prepared_with(model, &warming(warm_up))
            .unwrap();
        got.extend(run(&mut session, &counts, 50..TICKS));
        let then = 50 + warm_up as usize;
        let new_from_then = run(&mut open(&new), &counts, 50..TICKS);
        assert_eq!(got[..2 * then], always_old[..2 * then]);
        assert_eq!(got[2 * then..], new_from_then[2 * (then - 50)..]);
    }
}

#[test]
fn rolling_back_is_as_if_nothing_had_been() {
    let (old, new, counts) = models();
    let always_old = run(&mut open(&old), &counts, 0..TICKS);
    // Called off while warming up, and taken back long after.
    for back_at in [60, 500] {
        let mut session = open(&old);
        let mut swapper = session.swapper().unwrap();
        let none = swapper.roll_back().unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidArgument);
        run(&mut session, &counts, 0..50);
        swapper.swap(&new).unwrap();
        run(&mut session, &counts, 50..back_at);
        swapper.roll_back().unwrap();
        let got = run(&mut session, &counts, back_at..TICKS);
        assert_eq!(got, always_old[2 * back_at..]);
        assert_eq!(swapper.state(), SwapState::Idle);
        assert_eq!(swapper.reclaim(), 1);
        assert!(swapper.roll_back().is_err());
    }
}

#[test]
fn release_retires_the_model_that_stands_by() {
    let (old, new, counts) = models();
    let mut session = open(&old);
    let mut swapper = session.swapper().unwrap();
    swapper.swap(&new).unwrap();
    swapper.release().unwrap(); // still warming up by then: left alone
    run(&mut session, &counts, 0..500);
    assert_eq!(swapper.state(), SwapState::TakenOver);
    swapper.release().unwrap();
    run(&mut session, &counts, 500..501);
    assert_eq!((swapper.state(), swapper.reclaim()), (SwapState::Idle, 1));
    let expected = PreparedModel::new(&new, None).unwrap().fingerprint();
    assert_eq!(session.model().fingerprint(), expected);
}

#[test]
fn reset_ends_a_warm_up() {
    let (old, new, counts) = models();
    let mut session = open(&old);
    let mut swapper = session.swapper().unwrap();
    swapper.swap(&new).unwrap();
    run(&mut session, &counts, 0..5);
    session.reset();
    assert_eq!(swapper.state(), SwapState::TakenOver);
    let got = run(&mut session, &counts, 5..100);
    assert_eq!(got, run(&mut open(&new), &counts, 5..100));
}

#[test]
fn a_clone_in_mid_swap_goes_on_alike() {
    let (old, new, counts) = models();
    let mut session = open(&old);
    let mut swapper = session.swapper().unwrap();
    swapper.swap(&new).unwrap();
    run(&mut session, &counts, 0..10);
    let mut clone = session.clone();
    assert_eq!(
        run(&mut clone, &counts, 10..TICKS),
        run(&mut session, &counts, 10..TICKS)
    );
    assert!(clone.swapper().is_ok());
    let second = session.swapper().unwrap_err();
    assert_eq!(second.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_sessions_mask_holds_for_models_swapped_in() {
    let (old, new, counts) = models();
    let mut mask = vec![true; CHANNELS];
    mask[3] = false;
    let config = SessionConfig {
        channel_mask: Some(mask),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&old, config.clone()).unwrap();
    session.swapper().unwrap().swap(&new).unwrap();
    run(&mut session, &counts, 0..1);
    session.reset();
    let got = run(&mut session, &counts, 0..50);
    let mut expected = Session::open(&new, config).unwrap();
    assert_eq!(got, run(&mut expected, &counts, 0..50));
}

#[test]
fn a_model_that_does_not_fit_is_refused() {
    type Spoil = fn(&mut DecoderParts);
    let cases: &[(&str, Spoil)] = &[
        ("step", |d| d.step_seconds = 0.02),
        ("channel 2", |d| d.channel_names[2] = "other".into()),
        ("12 channels", |d| {
            d.channel_names.push("more".into());
            d.channel_mask.push(true);
            d.weights.extend([0.0; 4]);
        }),
        ("output 1", |d| d.outputs[1].name = "other".into()),
    ];
    let (old, new, counts) = models();
    let mut session = open(&old);
    let mut swapper = session.swapper().unwrap();
    for (expected, spoil) in cases {
        let mut wrong = new.clone().into_parts();
        spoil(&mut wrong);
        let error = swapper.swap(&Decoder::new(wrong).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.message().contains(expected), "{error}");
    }
    assert_eq!(swapper.state(), SwapState::Idle);
    // A session that does not step takes nothing; one that is gone never will.
    let untaken = (0..100).find_map(|_| swapper.swap(&new).err()).unwrap();
    assert!(untaken.message().contains("untaken"), "{untaken}");
    run(&mut session, &counts, 0..10);
    swapper.swap(&new).unwrap();
    drop(session);
    let gone = swapper.swap(&new).unwrap_err();
    assert!(gone.message().contains("closed"), "{gone}");
}

/// Swaps from another thread while the session steps: nothing is lost, every model sent is either
/// running, standing by, or was handed back.
#[test]
fn swaps_from_another_thread() {
    let (old, new, counts) = models();
    let mut session = open(&old);
    let mut swapper = session.swapper().unwrap();
    let models = [&old, &new].map(|d| Arc::new(PreparedModel::new(d, None).unwrap()));
    let requests = 200;
    let stepping = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut retired = 0;
            for i in 0..requests {
                let model = &models[i % 2];
                while (swapper.swap_prepared_with(Arc::clone(model), &warming(3))).is_err() {
                    std::thread::yield_now();
                }
                retired += swapper.reclaim();
            }
            (swapper, retired)
        });
        let mut ticks = 0;
        while !sender.is_finished() {
            run(&mut session, &counts, ticks % TICKS..ticks % TICKS + 1);
            ticks += 1;
        }
        sender.join().unwrap()
    });
    let (mut swapper, _) = stepping;
    run(&mut session, &counts, 0..50);
    assert_eq!(swapper.state(), SwapState::TakenOver);
    swapper.release().unwrap();
    run(&mut session, &counts, 0..1);
    swapper.reclaim();
    drop(swapper);
    let running = session.model();
    assert!(Arc::ptr_eq(running, &models[(requests - 1) % 2]));
    // Ours and the session's: every other engine was freed.
    assert_eq!(models.iter().map(Arc::strong_count).sum::<usize>(), 3);
}

/// Keeps what it hears of the second model.
#[derive(Clone, Default)]
struct Second(Arc<Mutex<Vec<Vec<f32>>>>);

impl Tap for Second {
    fn take(&mut self, step: &Step<'_>) {
        let beside = step.beside.iter().map(|&v| v as f32).collect();
        self.0.lock().unwrap().push(beside);
    }
}

#[test]
fn a_tap_hears_both_models_of_a_swap() {
    let (old, new, counts) = models();
    let asked = 100;
    let always_old = run(&mut open(&old), &counts, 0..TICKS);
    let new_from_then = run(&mut open(&new), &counts, asked..TICKS);
    let warm_up = PreparedModel::new(&new, None).unwrap().memory_steps() as usize;

    let (mut session, heard) = (open(&old), Second::default());
    let mut swapper = session.swapper().unwrap();
    session.attach(Box::new(heard.clone()), 0).unwrap();
    run(&mut session, &counts, 0..asked);
    swapper.swap(&new).unwrap();
    run(&mut session, &counts, asked..TICKS - 10);
    swapper.release().unwrap();
    run(&mut session, &counts, TICKS - 10..TICKS);

    let heard = heard.0.lock().unwrap();
    assert_eq!(heard.len(), TICKS);
    // At the last tick of the warm-up the new model has taken over already: the old one is the second.
    let taken_over = asked + warm_up - 1;
    for (tick, beside) in heard.iter().enumerate() {
        if tick < asked || tick >= TICKS - 10 {
            assert!(beside.is_empty(), "one model runs at tick {tick}");
        } else if tick < taken_over {
            assert_eq!(beside[..], new_from_then[2 * (tick - asked)..][..2]);
        } else {
            assert_eq!(beside[..], always_old[2 * tick..][..2], "tick {tick}");
        }
    }
}
