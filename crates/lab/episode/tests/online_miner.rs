//! The miner on its thread: nothing lost unnoticed, counts as offline, feeding never allocates.

#![allow(clippy::unwrap_used)] // tests stop where something fails

#[path = "../../../decode/runtime/tests/common/mod.rs"]
mod common;

use std::time::Duration;

use assert_no_alloc::{AllocDisabler, assert_no_alloc};
use betz_episode::count::count;
use betz_episode::online::{
    MinerConfig, MinerHandle, OnlineMiner, OnlineStats, ReminingOptions, open,
};
use betz_episode::{Alphabet, Clock, Events, Interval, Pattern};
use betz_runtime::stream::{LateSpikes, Session, SessionConfig, Spike, spike_queue};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Ends the process when something inside `assert_no_alloc` allocates or frees.
#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const SYMBOLS: u32 = 16;

fn patterns(count: usize) -> Vec<Pattern> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let edge = |rng: &mut ChaCha8Rng| {
        let low = rng.random_range(0..40);
        Interval::new(low, low + rng.random_range(1..80)).unwrap()
    };
    (0..count)
        .map(|i| {
            let size = 1 + i % 4;
            let symbols = (0..size).map(|_| rng.random_range(0..SYMBOLS)).collect();
            let intervals = (1..size).map(|_| edge(&mut rng)).collect();
            Pattern::new(symbols, intervals).unwrap()
        })
        .collect()
}

/// Events in time order, with ties.
fn stream(length: usize) -> Vec<(i64, u32)> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut tick = 0;
    (0..length)
        .map(|_| {
            tick += rng.random_range(0..12);
            (tick, rng.random_range(0..SYMBOLS))
        })
        .collect()
}

fn offline(events: &[(i64, u32)], patterns: &[Pattern]) -> Vec<u64> {
    let labels = (0..SYMBOLS).map(|s| s.to_string()).collect();
    let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(1e-3).unwrap()).unwrap();
    let (ticks, symbols): (Vec<i64>, Vec<u32>) = events.iter().copied().unzip();
    let events = Events::new(alphabet, &ticks, &symbols).unwrap();
    count(&events, patterns).unwrap()
}

/// Counts so far, in the list's order.
fn counts(handle: &MinerHandle) -> Vec<u64> {
    handle.read(|miner| miner.counts().collect())
}

fn config(count: usize, capacity: usize) -> MinerConfig {
    MinerConfig {
        capacity,
        idle: Duration::from_micros(50),
        ..MinerConfig::new(SYMBOLS as usize, patterns(count))
    }
}

#[test]
fn feeding_does_not_allocate_and_what_finds_no_room_is_counted() {
    let (mut feed, handle) = open(config(20, 64)).unwrap();
    let counts: Vec<u16> = (0..SYMBOLS as u16).map(|c| c % 3).collect();
    let pairs = [(0, 1); 100];
    let (mut taken, mut given) = (0, 0);
    assert_no_alloc(|| {
        for tick in 0..5_000 {
            taken += usize::from(feed.push(tick, 3));
            taken += feed.push_spikes(tick, &[0, 1, 2, 1]);
            taken += feed.push_counts(tick, &counts);
            given += 1 + 4 + 10;
            if tick == 0 {
                taken += feed.push_events(&pairs);
                given += pairs.len();
            }
        }
    });
    assert!(feed.dropped() > 0);
    assert_eq!(taken + feed.dropped() as usize, given);
    handle.flush().unwrap();
    let snapshot = handle.snapshot();
    assert_eq!(snapshot.summary.dropped, feed.dropped());
    assert_eq!(snapshot.summary.stats.events as usize, taken);
    assert_eq!(
        handle.close().unwrap().stats().events as usize,
        taken,
        "closing loses nothing"
    );
}

#[test]
fn whatever_was_taken_is_counted_as_offline() {
    let patterns = patterns(200);
    let stream = stream(100_000);
    let (mut feed, handle) = open(config(200, 500)).unwrap();
    let mut taken = Vec::new();
    for chunk in stream.chunks(73) {
        let room = feed.push_events(chunk);
        taken.extend_from_slice(&chunk[..room]);
        if room < chunk.len() {
            handle.flush().unwrap();
        }
        if chunk[0].0 % 10 == 0 {
            // Reading does not disturb what is taken.
            assert_eq!(counts(&handle).len(), 200);
        }
    }
    assert_eq!(taken.len() as u64 + feed.dropped(), stream.len() as u64);
    handle.flush().unwrap();
    // There is room now; the tick is refused where it would be counted.
    assert!(feed.push(0, 0));
    handle.flush().unwrap();
    let counts = counts(&handle);
    assert_eq!(counts, offline(&taken, &patterns));
    let miner = handle.close().unwrap();
    assert_eq!(miner.counts().collect::<Vec<_>>(), counts);
    assert_eq!(
        (miner.stats().late, miner.stats().events),
        (1, taken.len() as u64)
    );
}

#[test]
fn closing_does_not_wait_for_a_feeder_that_goes_on() {
    use std::sync::atomic::{AtomicBool, Ordering};
    // So many episodes that feeding is quicker than counting.
    let (mut feed, handle) = open(config(5_000, 4096)).unwrap();
    let closed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0_i64.. {
                feed.push(i / 4, (i % i64::from(SYMBOLS)) as u32);
                if closed.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        while handle.summary().stats.events < 10_000 {
            std::thread::yield_now();
        }
        let miner = handle.close().unwrap();
        closed.store(true, Ordering::Release);
        assert!(miner.stats().events >= 10_000);
        assert_eq!(miner.patterns().len(), 5_000);
    });
}

#[test]
fn background_mining_follows_the_recent_past() {
    let edge = Interval::new(0, 5).unwrap();
    let mut config = MinerConfig::new(4, Vec::new());
    config.idle = Duration::from_micros(50);
    config.remining = Some(ReminingOptions {
        window_ticks: 400,
        window_events: 1000,
        every_ticks: 100,
        intervals: vec![edge],
        threshold: 8,
        min_size: 2,
        max_size: 3,
        max_episodes: 10,
    });
    let (mut feed, handle) = open(config).unwrap();
    let mut events = Vec::new();
    let mut seen = Vec::new();
    // 0 then 1, later 2 then 3, until the list has followed.
    for i in 0..1_000_000_i64 {
        let s = if seen.is_empty() { 0 } else { 2 };
        for event in [(i * 20, s), (i * 20 + 3, s + 1)] {
            assert!(feed.push(event.0, event.1));
            events.push(event);
        }
        handle.flush().unwrap();
        let top = handle.read(|miner| miner.top(1));
        let wanted = Pattern::uniform(vec![s, s + 1], edge).unwrap();
        if top.first().is_some_and(|w| w.pattern == wanted) {
            let first = events.partition_point(|e| top[0].since.is_some_and(|t| e.0 < t));
            assert_eq!(vec![top[0].count], offline(&events[first..], &[wanted]));
            seen.push(top);
            if seen.len() == 2 {
                break;
            }
        }
    }
    assert_eq!(seen.len(), 2, "the watch list did not follow");
    let snapshot = handle.snapshot();
    assert!(snapshot.summary.remined >= 2, "{snapshot:?}");
    assert_eq!(
        (snapshot.summary.remining_failures, snapshot.summary.dropped),
        (0, 0)
    );
    drop(handle);
    // Nobody listens any more: the ring fills up, and the rest is counted.
    while feed.push(i64::MAX, 0) {}
    assert_eq!(feed.dropped(), 1);
}

#[test]
fn refusals_reach_the_statistics() {
    let (mut feed, handle) = open(config(3, 64)).unwrap();
    for (tick, symbol) in [(5, 0), (4, 0), (5, SYMBOLS), (i64::MIN, 0), (6, 1)] {
        assert!(feed.push(tick, symbol));
    }
    handle.flush().unwrap();
    let stats = OnlineStats {
        events: 2,
        late: 1,
        invalid: 2,
        forgotten: 0,
    };
    assert_eq!(handle.summary().stats, stats);
    assert!(open(config(3, 0)).is_err());
    assert!(OnlineMiner::new(1, &patterns(40)).is_err());
}

/// The events that a session's steps hand on, in the tap's own ticks.
fn stepped(
    session: &mut Session,
    ticks: &[Vec<u32>],
    first: i64,
    as_counts: bool,
) -> Vec<(i64, u32)> {
    let mut estimates = [0.0; 2];
    let mut counts = [0_u16; SYMBOLS as usize];
    let mut events = Vec::new();
    for (tick, channels) in (first..).zip(ticks) {
        counts.fill(0);
        for &channel in channels {
            counts[channel as usize] += 1;
        }
        assert_no_alloc(|| {
            let step = if as_counts {
                session.step_counts(&counts, &mut estimates)
            } else {
                session.step_spikes(channels, &mut estimates)
            };
            assert!(step.is_ok());
        });
        events.extend(channels.iter().map(|&c| (tick, c)));
    }
    events
}

#[test]
fn an_attached_miner_counts_what_the_steps_take_in() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let ticks: Vec<Vec<u32>> = (0..20_000)
        .map(|_| {
            let fired = random.random_range(0..3);
            (0..fired)
                .map(|_| random.random_range(0..SYMBOLS))
                .collect()
        })
        .collect();
    let model = common::decoder(&mut random, SYMBOLS as usize, 2, &[(0.05, 1)], None);
    let mut session = Session::open(&model, SessionConfig::default()).unwrap();
    let mut plain = session.clone();
    let (feed, handle) = open(config(50, 1 << 20)).unwrap();
    session.attach(Box::new(feed), 100).unwrap();
    let (second, _) = open(config(1, 1)).unwrap();
    session.attach(Box::new(second), 0).unwrap();
    assert!(session.detach().is_some());

    // A reset before the first step moves nothing; a later one puts 60 s of 10 ms ticks in between.
    session.reset();
    let mut events = stepped(&mut session, &ticks, 100, false);
    session.reset();
    session.reset();
    let second_trial = 100 + ticks.len() as i64 + 6000;
    events.extend(stepped(&mut session, &ticks[..5000], second_trial, true));
    // A refused step hands on nothing, and its tick is the next one's.
    assert!(session.step_spikes(&[1], &mut []).is_err());
    events.extend(stepped(
        &mut session,
        &[vec![3]],
        second_trial + 5000,
        false,
    ));

    handle.flush().unwrap();
    assert_eq!(counts(&handle), offline(&events, &patterns(50)));
    let snapshot = handle.snapshot();
    assert_eq!(
        snapshot.summary.stats.late + snapshot.summary.stats.invalid + snapshot.summary.dropped,
        0
    );

    // The estimates are those of a session without a miner.
    let (mut with, mut without) = ([0.0; 2], [0.0; 2]);
    session.reset();
    plain.reset();
    for channels in &ticks[..100] {
        session.step_spikes(channels, &mut with).unwrap();
        plain.step_spikes(channels, &mut without).unwrap();
        assert_eq!(with, without);
    }
    assert!(session.detach().is_some() && session.detach().is_none());
    assert!(session.clone().detach().is_none());
}

#[test]
fn a_queue_tells_the_miner_its_ticks_and_a_full_ring_delays_nothing() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let model = common::decoder(&mut random, SYMBOLS as usize, 2, &[(0.05, 1)], None);
    let mut session = Session::open(&model, SessionConfig::default()).unwrap();
    let patterns = [Pattern::uniform(vec![0, 1], Interval::new(4, 5).unwrap()).unwrap()];
    let slow = MinerConfig {
        capacity: 8,
        ..MinerConfig::new(SYMBOLS as usize, patterns.to_vec())
    };
    let (feed, handle) = open(slow).unwrap();
    session.attach(Box::new(feed), 0).unwrap();
    let (mut send, mut take) = spike_queue(64, LateSpikes::Take).unwrap();
    let mut estimates = [0.0; 2];
    for (tick, channel) in [(1_000, 0), (1_005, 1)] {
        send.push(&[Spike { tick, channel }]);
        take.set_tick(tick).unwrap();
        take.step(&mut session, &mut estimates).unwrap();
    }
    handle.flush().unwrap();
    assert_eq!(counts(&handle), [1], "five ticks lie between the two steps");

    // The lock is held: the ring is not emptied, and the steps go on.
    let stepped = handle.read(|_| {
        for _ in 0..1000 {
            session.step_spikes(&[2, 3], &mut estimates).unwrap();
        }
        2 + 2000
    });
    handle.flush().unwrap();
    let snapshot = handle.snapshot();
    assert!(snapshot.summary.dropped > 0);
    assert_eq!(
        snapshot.summary.stats.events + snapshot.summary.dropped,
        stepped
    );
}
