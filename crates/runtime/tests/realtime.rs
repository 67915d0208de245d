//! No step allocates or frees, whatever it is given and whatever happens beside it.
//!
//! Nor does one lock or call the system: a step holds no mutex, and the only clock it reads is the
//! time-stamp counter, or where there is none that can be trusted, the monotonic clock, which Linux
//! answers in user space (vDSO).

#![allow(clippy::unwrap_used)] // tests stop where something fails

mod common;

use std::time::Duration;

use assert_no_alloc::{AllocDisabler, assert_no_alloc};
use betz_runtime::model::LowPass;
use betz_runtime::stream::{
    Clamp, Hold, LateSpikes, Session, SessionConfig, Spike, SwapState, UnknownChannels, spike_queue,
};
use common::{counts, decoder, rng, spikes};

/// Ends the process when something inside `assert_no_alloc` allocates or frees.
#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const BANK: &[(f64, u32)] = &[(0.02, 0), (0.05, 1), (0.1, 2), (0.2, 3), (0.4, 4)];

fn config(outputs: usize) -> SessionConfig {
    let clamp = Clamp {
        low: -10.0,
        high: 10.0,
    };
    SessionConfig {
        clamp: Some(vec![clamp; outputs]),
        channel_mask: Some(vec![true; 50]),
        unknown_channels: UnknownChannels::Ignore,
        statistics: true,
        deadline: Some(Duration::from_nanos(1)),
        hold: Some(Hold::default()),
    }
}

#[test]
fn steps_do_not_allocate() {
    let rng = &mut rng(0);
    let low_pass = LowPass {
        order: 5,
        cutoff_hz: 10.0,
    };
    for (outputs, bank, low_pass) in [
        (2, &BANK[1..2], None),
        (2, BANK, Some(low_pass)),
        (7, BANK, None),
    ] {
        let decoder = decoder(rng, 50, outputs, bank, low_pass);
        let counts = counts(rng, 300, 50);
        let lists: Vec<Vec<u32>> = (counts.chunks(50))
            .map(|tick| {
                let mut list = spikes(tick);
                list.extend([50, 1000, u32::MAX]);
                list
            })
            .collect();
        let mut out = vec![0.0; outputs];
        let mut session = Session::open(&decoder, config(outputs)).unwrap();
        let mut bytes = vec![0; session.checkpoint_len()];
        assert_no_alloc(|| {
            for (counts, list) in counts.chunks(50).zip(&lists) {
                session.step_counts(counts, &mut out).unwrap();
                session.step_spikes(list, &mut out).unwrap();
                session.checkpoint_into(&mut bytes).unwrap();
                session.restore(&bytes).unwrap();
            }
            for _ in 0..10_000 {
                session.step_spikes(&[], &mut out).unwrap();
            }
            session.run_counts(&counts[..50], &mut out).unwrap();
            session.reset();
        });
        let stats = assert_no_alloc(|| session.stats());
        assert_eq!(stats.ticks, 10_601);
        assert_eq!(stats.unknown_channel_spikes, 900);
        assert_no_alloc(|| session.clear_stats());
    }
}

#[test]
fn steps_through_a_queue_do_not_allocate() {
    let rng = &mut rng(1);
    let decoder = decoder(rng, 50, 2, BANK, None);
    let mut session = Session::open(&decoder, config(2)).unwrap();
    let (mut producer, mut consumer) = spike_queue(64, LateSpikes::Take).unwrap();
    let mut out = [0.0; 2];
    assert_no_alloc(|| {
        for tick in 0..1000 {
            for channel in 0..(tick % 100) as u32 {
                let late = i64::from(channel % 7 == 0);
                producer.push(&[Spike {
                    tick: tick - late,
                    channel,
                }]);
            }
            producer.mark(tick);
            assert!(consumer.is_ready() && consumer.newest_age().is_some());
            consumer.step(&mut session, &mut out).unwrap();
        }
    });
    let stats = session.stats();
    assert!(stats.dropped > 0 && stats.late > 0 && stats.unknown_channel_spikes > 0);
}

#[test]
fn a_model_swap_does_not_allocate_or_free_in_a_step() {
    let rng = &mut rng(2);
    let first = decoder(rng, 50, 2, BANK, None);
    let second = decoder(rng, 50, 2, &BANK[1..2], None);
    let mut session = Session::open(&first, config(2)).unwrap();
    let mut swapper = session.swapper().unwrap();
    let mut out = [0.0; 2];
    let mut steps = |n: u64| {
        assert_no_alloc(|| {
            for _ in 0..n {
                session.step_spikes(&[1, 2, 60], &mut out).unwrap();
            }
        });
        session.stats().model_swaps
    };
    swapper.swap(&second).unwrap();
    assert_eq!(steps(1), 0);
    assert_eq!(swapper.state(), SwapState::WarmingUp);
    assert_eq!(steps(10_000), 1);
    assert_eq!(swapper.state(), SwapState::TakenOver);
    swapper.roll_back().unwrap();
    assert_eq!(steps(1), 2);
    assert_eq!((swapper.state(), swapper.reclaim()), (SwapState::Idle, 1));
    swapper.swap(&second).unwrap();
    steps(1);
    swapper.swap(&first).unwrap(); // supersedes the one that was warming up
    assert_eq!(steps(10_000), 3);
    assert_eq!(swapper.reclaim(), 1);
    swapper.release().unwrap();
    steps(1);
    assert_eq!((swapper.state(), swapper.reclaim()), (SwapState::Idle, 1));
}
