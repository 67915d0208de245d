//! Steps, bins and windows through the thread and at a session: the edges of the same bins offline.

use std::ops::Range;
use std::time::Duration;

use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::{Session, SessionConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::graph::leiden::Leiden;
use crate::{NetworkSpec, Plan, Signal, SpikeTrains, Threshold};

const CHANNELS: usize = 20;
const BIN: u32 = 4;

fn spec() -> LiveSpec {
    LiveSpec {
        channels: CHANNELS,
        window: Window::new(12, 2),
        threshold: 0.3,
        sign: Sign::Both,
        strict: false,
        max_edges: usize::MAX,
    }
}

/// Spikes step by step, in groups that fire together.
fn spikes(steps: usize) -> Vec<Vec<u32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    (0..steps)
        .map(|_| {
            let group = rng.random_range(0..4_u32);
            let mut fired = Vec::new();
            for c in (0..CHANNELS as u32).filter(|c| c % 4 == group) {
                for _ in 0..rng.random_range(0..3) {
                    fired.push(c);
                }
            }
            fired
        })
        .collect()
}

/// The network of the same spikes from a recording with these segments of steps.
fn offline(steps: &[Vec<u32>], segments: &[Range<u64>]) -> crate::Network {
    let (times, of): (Vec<u64>, Vec<u32>) = (0..)
        .zip(steps)
        .flat_map(|(t, fired)| fired.iter().map(move |c| (t, *c)))
        .unzip();
    let trains = SpikeTrains::new(&times, &of, CHANNELS, steps.len() as u64).unwrap();
    let binned = trains.counts_within(segments, BIN.into()).unwrap();
    let signal = Signal::new(&binned.counts, CHANNELS)
        .unwrap()
        .with_segments(binned.segments)
        .unwrap();
    let LiveSpec {
        window,
        threshold,
        sign,
        ..
    } = spec();
    let spec = NetworkSpec::pearson(window)
        .threshold(Threshold::Absolute(threshold))
        .sign(sign);
    let plan = Plan::new(&spec, &signal).unwrap();
    plan.run(&signal, &()).unwrap()
}

fn same(newest: Option<LiveWindow<'_>>, expected: &crate::Network) {
    let newest = newest.unwrap();
    let expected = expected.window(newest.edges.index).unwrap();
    assert!(!expected.i.is_empty());
    assert_eq!(newest.edges.start, expected.start);
    assert_eq!((newest.edges.i, newest.edges.j), (expected.i, expected.j));
    assert_eq!(newest.found, expected.i.len());
    assert_eq!(newest.edges.undefined, expected.undefined);
    for (a, b) in newest.edges.r.iter().zip(expected.r) {
        assert!((a - b).abs() <= 1e-5);
    }
}

fn session() -> Session {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.1,
        order: 1,
    }])
    .unwrap();
    let names = (0..CHANNELS).map(|c| c.to_string()).collect();
    let outputs = vec!["x".into()];
    let decoder = Decoder::new(DecoderParts {
        weights: vec![0.5; CHANNELS],
        ..DecoderParts::linear(0.005, bank, names, outputs)
    })
    .unwrap();
    Session::open(&decoder, SessionConfig::default()).unwrap()
}

/// Two trials of which the first ends within a bin; counts of every kind and lists give the same.
#[test]
fn a_session_keeps_the_network_of_its_channels() {
    let steps = spikes(400);
    let expected = offline(&steps, &[0..201, 201..400]);
    for kind in 0..4 {
        let (feed, handle) = open(LiveConfig::new(spec(), BIN)).unwrap();
        let mut session = session();
        session.attach(Box::new(feed), 1000).unwrap();
        let (mut out, mut windows) = ([0.0], 0);
        for (at, fired) in steps.iter().enumerate() {
            if at == 201 {
                session.reset();
            }
            let mut counts = [0_u16; CHANNELS];
            fired.iter().for_each(|c| counts[*c as usize] += 1);
            match kind {
                0 => session.step_spikes(fired, &mut out).unwrap(),
                1 => session.step_counts(&counts, &mut out).unwrap(),
                2 => {
                    let counts = counts.map(|c| c as u8);
                    session.step_counts_u8(&counts, &mut out).unwrap();
                }
                _ => {
                    let counts = counts.map(f32::from);
                    session.step_counts_f32(&counts, &mut out).unwrap();
                }
            }
            handle.flush().unwrap();
            let stats = handle.stats();
            if stats.counts.windows > windows {
                windows = stats.counts.windows;
                handle.read(|newest| same(newest, &expected));
            }
            if at == 12 * BIN as usize - 1 {
                handle.read(|newest| assert_eq!(newest.unwrap().ticks, (1000, 1048)));
            }
        }
        // 60 s of silence lie between the trials.
        let begin = 1000 + 200 + 12_000 + 1;
        // The last bin but one ends the last window.
        let end = begin + 48 * 4;
        handle.read(|newest| assert_eq!(newest.unwrap().ticks, (end - 48, end)));
        let stats = handle.close().unwrap();
        assert_eq!(windows as usize, expected.len());
        let counts = LiveCounts {
            steps: 400,
            bins: 50 + 49,
            windows,
            gaps: 1,
            partial_steps: 1,
            ..LiveCounts::default()
        };
        assert_eq!((stats.counts, stats.updates), (counts, 99));
        assert_eq!((stats.lost_steps, stats.waiting_steps), (0, 0));
        assert!(stats.update_max_us >= stats.update_p50_us && stats.update_p50_us > 0.0);
        // A tap is found by its name.
        assert!(session.detach_named("miner").is_none());
        assert!(session.detach_named("network").is_some() && session.taps() == 0);
    }
}

/// A thread that is held up loses whole steps, says so, and finds the right edges behind the gap.
#[test]
fn what_finds_no_room_is_a_gap() {
    let steps = spikes(600);
    let config = LiveConfig {
        capacity: 200,
        ..LiveConfig::new(spec(), BIN)
    };
    let (mut feed, handle) = open(config).unwrap();
    let (mut lost, mut taken) = (Vec::new(), 0);
    handle.read(|_| {
        // A reader that does not let go: the thread takes a batch at most and cannot hand it over.
        for (tick, fired) in steps.iter().enumerate().take(300) {
            if feed.push_spikes(tick as i64, fired) {
                taken += 1;
            } else {
                lost.push(tick);
            }
        }
    });
    assert!(!lost.is_empty());
    handle.flush().unwrap();
    for (tick, fired) in steps.iter().enumerate().skip(300) {
        assert!(feed.push_spikes(tick as i64, fired));
        taken += 1;
        handle.flush().unwrap();
    }
    assert_eq!(feed.lost(), lost.len() as u64);
    let first = lost.last().unwrap() + 1;
    let expected = offline(&steps, &[0..0, first as u64..600]);
    handle.read(|newest| {
        let newest = newest.unwrap();
        let behind = newest.ticks.0 - first as i64;
        let index = behind as usize / (BIN as usize * 2);
        let expected = expected.window(index).unwrap();
        assert_eq!((newest.edges.i, newest.edges.j), (expected.i, expected.j));
        assert_eq!(index, expected_last(600 - first));
    });
    let stats = handle.close().unwrap();
    assert_eq!((stats.lost_steps, stats.counts.steps), (feed.lost(), taken));
    assert!(stats.counts.gaps >= 1);
}

fn expected_last(steps: usize) -> usize {
    (steps / BIN as usize - 12) / 2
}

#[test]
fn what_is_not_counted_is_told() {
    let spec = LiveSpec {
        channels: 3,
        window: Window::new(2, 1),
        ..spec()
    };
    let (mut feed, handle) = open(LiveConfig::new(spec, 2)).unwrap();
    feed.push_spikes(5, &[0, 1, 3, u32::MAX, u32::MAX - 1]);
    feed.push_counts(6, &[65_535, 1, 0]);
    // Not the step after: what was begun has no second bin.
    feed.push_counts(8, &[1, 2, 3]);
    feed.push_counts(9, &[1, 2, 3]);
    feed.push_counts(10, &[1, 2, 3]);
    feed.push_counts(3, &[1, 2, 3]);
    handle.flush().unwrap();
    let counts = handle.stats().counts;
    let expected = LiveCounts {
        steps: 6,
        bins: 2,
        gaps: 2,
        partial_steps: 1,
        unknown: 3,
        // 65,536 in a bin.
        altered: 1,
        ..LiveCounts::default()
    };
    assert_eq!(counts, expected);
    assert!(handle.read(|newest| newest.is_none()));
    // The feed outlives the thread.
    drop(handle);
    assert!(feed.push_spikes(4, &[0]));
}

#[test]
fn communities_are_followed() {
    let config = LiveConfig {
        communities: Some(Leiden::default()),
        ..LiveConfig::new(
            LiveSpec {
                sign: Sign::Positive,
                ..spec()
            },
            BIN,
        )
    };
    let (mut feed, handle) = open(config).unwrap();
    let mut known = Vec::new();
    for tick in 0..400_i64 {
        // Channels of the same remainder by 4 fire together, and alone for one bin of four.
        let group = (tick / i64::from(BIN)) % 4;
        let fired: Vec<u32> = (0..CHANNELS as u32)
            .filter(|c| i64::from(c % 4) == group)
            .collect();
        feed.push_spikes(tick, &fired);
        handle.flush().unwrap();
        handle.read(|newest| {
            let Some(newest) = newest else { return };
            if known.is_empty() {
                known = newest.communities.to_vec();
                for c in 0..CHANNELS {
                    assert_eq!(known[c], known[c % 4]);
                }
                assert_eq!(known[..4], [0, 1, 2, 3]);
            }
            assert_eq!(newest.communities, known);
            assert!(newest.events.is_empty());
        });
    }
    assert!(!known.is_empty());
}

#[test]
fn what_cannot_be_opened_is_refused() {
    let config = LiveConfig::new(spec(), BIN);
    let none = LiveConfig {
        communities: Some(Leiden {
            restarts: 0,
            ..Leiden::default()
        }),
        ..config.clone()
    };
    let refused = [
        LiveConfig::new(spec(), 0),
        LiveConfig::new(
            LiveSpec {
                channels: 0,
                ..spec()
            },
            1,
        ),
        LiveConfig {
            capacity: CHANNELS,
            ..config.clone()
        },
        LiveConfig {
            capacity: usize::MAX,
            ..config.clone()
        },
        none,
    ];
    for config in refused {
        assert!(open(config.clone()).is_err(), "{config:?}");
    }
    let quick = LiveConfig {
        idle: Duration::ZERO,
        ..config
    };
    let (_feed, handle) = open(quick).unwrap();
    assert!(handle.is_running() && handle.channels() == CHANNELS);
}
