//! The queue between acquisition and decoding: what goes in comes out, or is counted.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use std::thread;

use super::common::{counts, decoder, rng, spikes};
use betz_base::ErrorKind;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{
    LateSpikes, Session, SessionConfig, Spike, UnknownChannels, spike_queue,
};

const CHANNELS: usize = 16;

fn model() -> Decoder {
    decoder(&mut rng(0), CHANNELS, 2, &[(0.05, 1)], None)
}

fn open(decoder: &Decoder) -> Session {
    Session::open(decoder, SessionConfig::default()).unwrap()
}

fn tick_of(counts: &[u16], tick: usize) -> Vec<Spike> {
    (spikes(&counts[tick * CHANNELS..][..CHANNELS]).into_iter())
        .map(|channel| Spike {
            tick: tick as i64,
            channel,
        })
        .collect()
}

/// Across two threads, as fast as they go: the estimates are those of a session fed directly.
#[test]
fn two_threads_give_the_same_bits_as_one() {
    let ticks = 5000;
    let decoder = model();
    let counts = counts(&mut rng(1), ticks, CHANNELS);
    let (mut producer, mut consumer) = spike_queue(100, LateSpikes::Take).unwrap();
    let got = thread::scope(|scope| {
        scope.spawn(|| {
            for tick in 0..ticks {
                let spikes = tick_of(&counts, tick);
                let mut rest = &spikes[..];
                while !rest.is_empty() {
                    // One at a time where there is little room, so that nothing is dropped.
                    let room = rest.len().min(1);
                    let before = producer.dropped();
                    rest = &rest[producer.push(&rest[..room])..];
                    if producer.dropped() > before {
                        thread::yield_now();
                    }
                }
                producer.mark(tick as i64);
            }
        });
        let mut session = open(&decoder);
        let mut out = [0.0; 2];
        let mut got = Vec::new();
        while got.len() < ticks {
            if consumer.is_ready() {
                consumer.step(&mut session, &mut out).unwrap();
                got.push(out);
            } else {
                thread::yield_now();
            }
        }
        assert_eq!(session.stats().late, 0);
        got
    });
    let mut session = open(&decoder);
    let mut out = [0.0; 2];
    for (tick, got) in got.iter().enumerate() {
        let list = spikes(&counts[tick * CHANNELS..][..CHANNELS]);
        session.step_spikes(&list, &mut out).unwrap();
        assert_eq!(*got, out, "tick {tick}");
    }
}

/// Both threads at full speed, the ring too small: taken and dropped add up, whoever counts.
#[test]
fn drops_are_counted_exactly() {
    let ticks = 20_000u64;
    let decoder = model();
    let (mut producer, mut consumer) = spike_queue(7, LateSpikes::Take).unwrap();
    let (pushed, accepted, session) = thread::scope(|scope| {
        let acquisition = scope.spawn(|| {
            let (mut pushed, mut accepted) = (0, 0);
            for tick in 0..ticks as i64 {
                let spikes: Vec<Spike> = (0..(tick % 11) as u32)
                    .map(|channel| Spike { tick, channel })
                    .collect();
                pushed += spikes.len() as u64;
                accepted += producer.push(&spikes) as u64;
                producer.mark(tick);
            }
            assert_eq!(producer.dropped(), pushed - accepted);
            (pushed, accepted)
        });
        let mut session = open(&decoder);
        let mut out = [0.0; 2];
        while consumer.newest_tick() != Some(ticks as i64 - 1) {
            consumer
                .set_tick(consumer.newest_tick().unwrap_or(0))
                .unwrap();
            consumer.step(&mut session, &mut out).unwrap();
        }
        consumer.set_tick(ticks as i64).unwrap();
        consumer.step(&mut session, &mut out).unwrap();
        let (pushed, accepted) = acquisition.join().unwrap();
        (pushed, accepted, session)
    });
    let stats = session.stats();
    assert_eq!((consumer.waiting(), stats.spikes), (0, accepted));
    assert_eq!(
        (stats.dropped, consumer.dropped()),
        (pushed - accepted, stats.dropped)
    );
}

#[test]
fn spikes_wait_for_their_tick_and_late_ones_are_counted() {
    let decoder = model();
    for policy in [LateSpikes::Take, LateSpikes::Discard] {
        let (mut producer, mut consumer) = spike_queue(10, policy).unwrap();
        let mut session = open(&decoder);
        let mut out = [0.0; 2];
        consumer.set_tick(100).unwrap();
        let spike = |tick, channel| Spike { tick, channel };
        assert_eq!(
            producer.push(&[spike(99, 1), spike(100, 2), spike(102, 3)]),
            3
        );
        consumer.step(&mut session, &mut out).unwrap();
        let taken = if policy == LateSpikes::Take { 2 } else { 1 };
        assert_eq!((session.stats().spikes, session.stats().late), (taken, 1));
        consumer.step(&mut session, &mut out).unwrap();
        assert_eq!((session.stats().spikes, consumer.waiting()), (taken, 1));
        consumer.step(&mut session, &mut out).unwrap();
        assert_eq!((session.stats().spikes, consumer.waiting()), (taken + 1, 0));
        assert_eq!((consumer.tick(), session.stats().ticks), (103, 3));
        // A late spike is taken as if it were of this tick.
        let mut direct = open(&decoder);
        let late: &[u32] = if policy == LateSpikes::Take {
            &[1, 2]
        } else {
            &[2]
        };
        let mut expected = [0.0; 2];
        for list in [late, &[], &[3]] {
            direct.step_spikes(list, &mut expected).unwrap();
        }
        assert_eq!(out, expected);
    }
}

#[test]
fn marks_and_age() {
    let (mut producer, mut consumer) = spike_queue(10, LateSpikes::Take).unwrap();
    assert_eq!(
        (consumer.newest_tick(), consumer.newest_age()),
        (None, None)
    );
    assert!(!consumer.is_ready());
    producer.mark(-5);
    assert_eq!(consumer.newest_tick(), Some(-5));
    assert!(!consumer.is_ready() && consumer.newest_age().is_some());
    producer.mark(3);
    producer.mark(1); // goes back: the newest stays the newest
    assert_eq!(consumer.newest_tick(), Some(3));
    producer.mark(1 << 40); // a fault, and the clock again
    producer.mark(3);
    assert_eq!(consumer.newest_tick(), Some(3));
    consumer.set_tick(3).unwrap();
    assert!(consumer.is_ready());
    let age = consumer.newest_age().unwrap();
    assert!(consumer.newest_age().unwrap() >= age);
    assert!(consumer.is_connected() && producer.is_connected());
    drop(producer);
    assert!(!consumer.is_connected());
}

#[test]
fn a_step_that_is_refused_counts_its_spikes_as_dropped() {
    let config = SessionConfig {
        unknown_channels: UnknownChannels::Refuse,
        ..SessionConfig::default()
    };
    let mut session = Session::open(&model(), config).unwrap();
    let (mut producer, mut consumer) = spike_queue(10, LateSpikes::Take).unwrap();
    let spike = |tick, channel| Spike { tick, channel };
    producer.push(&[spike(0, 1), spike(0, 99), spike(1, 2)]);
    let mut out = [7.0; 2];
    let error = consumer.step(&mut session, &mut out).unwrap_err();
    assert_eq!((error.kind(), out), (ErrorKind::Mismatch, [7.0; 2]));
    assert_eq!((consumer.tick(), consumer.waiting()), (0, 1));
    assert_eq!((session.stats().dropped, session.stats().ticks), (2, 0));
    consumer.step(&mut session, &mut out).unwrap();
    consumer.step(&mut session, &mut out).unwrap();
    assert_eq!((session.stats().spikes, session.stats().ticks), (1, 2));
}

#[test]
fn a_capacity_of_nothing_is_refused() {
    let error = spike_queue(0, LateSpikes::Take).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
