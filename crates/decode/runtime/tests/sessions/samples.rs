//! Samples of the amplifier through the queue to the estimate, by a clock that may change while it runs.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use super::common::{decoder, rng};
use betz_base::ErrorKind;
use betz_runtime::stream::{
    EstimateSamples, LateSpikes, Resync, SampleClock, SampledSpike, Session, SessionConfig, Spike,
    spike_queue,
};

fn session() -> Session {
    let decoder = decoder(&mut rng(0), 4, 1, &[(0.05, 1)], None);
    Session::open(&decoder, SessionConfig::default()).unwrap()
}

fn spike(sample: i64, channel: u32) -> SampledSpike {
    SampledSpike { sample, channel }
}

#[test]
fn the_clock_is_exact_at_every_rate() {
    for rate in [1.0, 1.5, 29.97, 30.0, 30.003, 1000.1, 0.1 * 333.0, 1e9] {
        let clock = SampleClock::new(-17, 5, rate).unwrap();
        for tick in (-40..40).chain([-1_000_003, 1_000_003]) {
            let (first, last) = (clock.first_sample(tick), clock.last_sample(tick));
            assert!(first <= last || rate < 2.0, "{rate} {tick}");
            assert_eq!(clock.tick_of(first), tick, "{rate} {tick}");
            assert_eq!(clock.tick_of(last), tick, "{rate} {tick}");
            assert_eq!(clock.tick_of(first - 1), tick - 1, "{rate} {tick}");
        }
        assert_eq!(clock.first_sample(5), -17);
    }
    for rate in [0.0, 0.99, -30.0, 2e9, f64::NAN, f64::INFINITY] {
        let error = SampleClock::new(0, 0, rate).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{rate}");
    }
    // Nothing overflows at the ends.
    let clock = SampleClock::new(i64::MIN, i64::MAX, 1.0).unwrap();
    let _ = (clock.tick_of(i64::MAX), clock.first_sample(i64::MIN));
}

#[test]
fn samples_travel_to_the_estimate() {
    let (mut producer, mut consumer) = spike_queue(64, LateSpikes::Take).unwrap();
    let mut session = session();
    let mut out = [0.0];
    assert_eq!(session.estimate_time(), None);
    let error = producer.push_samples(&[spike(0, 0)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(producer.mark_sample(0).is_err());
    // A counter that has run for days: more than 32 bits.
    let start = (7 << 32) - 40;
    producer.set_clock(SampleClock::new(start, 0, 30.0).unwrap());
    let pushed = producer.push_samples(&[
        spike(start + 3, 1),
        spike(start + 29, 2),
        spike(start + 45, 0),
    ]);
    assert_eq!(pushed.unwrap(), 3);
    producer.mark_sample(start + 28).unwrap();
    assert!(!consumer.is_ready(), "one sample of tick 0 is to come");
    producer.mark_sample(start + 29).unwrap();
    assert!(consumer.is_ready());
    consumer.step(&mut session, &mut out).unwrap();
    let time = session.estimate_time().unwrap();
    assert_eq!((time.tick, time.behavior_tick), (0, 0));
    let first = EstimateSamples {
        first: start,
        last: start + 29,
        behavior: start + 29,
        newest_spike: Some(start + 29),
    };
    assert_eq!(time.samples, Some(first));
    assert_eq!(session.stats().spikes, 2);
    // Warming up changes nothing.
    consumer.warm(&mut session);
    assert_eq!(session.estimate_time(), Some(time));
    // The amplifier is faster than its nominal rate. The spike that waits keeps its tick and its sample.
    producer.set_clock(SampleClock::new(start + 31, 1, 31.0).unwrap());
    producer.mark_sample(start + 61).unwrap();
    consumer.step(&mut session, &mut out).unwrap();
    let time = session.estimate_time().unwrap();
    let second = EstimateSamples {
        first: start + 31,
        last: start + 61,
        behavior: start + 61,
        newest_spike: Some(start + 45),
    };
    assert_eq!((time.tick, time.samples), (1, Some(second)));
    // It restarts and counts from 0; the session goes on at tick 100.
    producer.set_clock(SampleClock::new(0, 100, 30.0).unwrap());
    consumer.resync(&mut session, 100, Resync::Decay).unwrap();
    producer.push_samples(&[spike(12, 3)]).unwrap();
    producer.mark_sample(29).unwrap();
    consumer.step(&mut session, &mut out).unwrap();
    let time = session.estimate_time().unwrap();
    let samples = time.samples.unwrap();
    assert_eq!(
        (time.tick, samples.first, samples.newest_spike),
        (100, 0, Some(12))
    );
    // A step without spikes, and one without the queue.
    consumer.step(&mut session, &mut out).unwrap();
    let samples = session.estimate_time().unwrap().samples.unwrap();
    assert_eq!((samples.first, samples.newest_spike), (30, None));
    session.step_spikes(&[], &mut out).unwrap();
    let time = session.estimate_time().unwrap();
    assert_eq!((time.tick, time.samples), (102, None));
}

#[test]
fn samples_give_the_estimates_of_their_ticks() {
    let (mut by_sample, mut consumer) = spike_queue(64, LateSpikes::Take).unwrap();
    let (mut by_tick, mut reference) = spike_queue(64, LateSpikes::Take).unwrap();
    let (mut session, mut other) = (session(), session());
    by_sample.set_clock(SampleClock::new(1000, 0, 29.97).unwrap());
    let clock = by_sample.clock().unwrap();
    let (mut out, mut expected) = ([0.0], [0.0]);
    for tick in 0..500 {
        let samples = [clock.first_sample(tick), clock.last_sample(tick)];
        let channel = (tick % 4) as u32;
        by_sample
            .push_samples(&samples.map(|sample| spike(sample, channel)))
            .unwrap();
        by_sample.mark_sample(samples[1]).unwrap();
        by_tick.push(&[Spike { tick, channel }; 2]);
        by_tick.mark(tick);
        consumer.step(&mut session, &mut out).unwrap();
        reference.step(&mut other, &mut expected).unwrap();
        assert_eq!(
            (out, session.status()),
            (expected, other.status()),
            "{tick}"
        );
    }
    assert!(session.status().is_ok() && session.stats().spikes == 1000);
}
