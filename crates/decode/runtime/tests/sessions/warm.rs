//! A warm call leaves no trace.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use betz_runtime::model::{Decoder, Limits, LowPass};
use betz_runtime::stream::{
    Clamp, Hold, LateSpikes, Session, SessionConfig, Spike, Step, SwapOptions, Tap, spike_queue,
};

use crate::common::{self, counts, rng, spikes};
use crate::skip;

struct Counter(Arc<AtomicU64>);

impl Tap for Counter {
    fn take(&mut self, _: &Step<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn config(outputs: usize) -> SessionConfig {
    let clamp = Clamp {
        low: -3.0,
        high: 3.0,
    };
    SessionConfig {
        clamp: Some(vec![clamp; outputs]),
        hold: Some(Hold::default()),
        slew: Some(vec![0.5; outputs]),
        ..SessionConfig::default()
    }
}

fn decoders() -> Vec<Decoder> {
    let low_pass = LowPass {
        order: 3,
        cutoff_hz: 8.0,
    };
    let bank = &[(0.02, 0), (0.05, 1), (0.1, 4)];
    let mut all = skip::decoders();
    all.push(common::decoder(&mut rng(1), 70, 2, bank, Some(low_pass)));
    let mut parts = common::decoder(&mut rng(2), 70, 2, bank, None).into_parts();
    parts.limits = Limits {
        count_caps: vec![2.0; 70],
        ..Limits::default()
    };
    all.push(Decoder::new(parts).unwrap());
    all
}

/// One step, in another form each time.
fn step(session: &mut Session, tick: usize, counts: &[u16], out: &mut [f32]) {
    match tick % 5 {
        0 => session.step_counts(counts, out),
        1 => session.step_spikes(&spikes(counts), out),
        2 => {
            let bytes: Vec<u8> = counts.iter().map(|&count| count as u8).collect();
            session.step_counts_u8(&bytes, out)
        }
        3 => {
            let floats: Vec<f32> = counts.iter().map(|&count| f32::from(count)).collect();
            session.step_counts_f32(&floats, out)
        }
        _ => session.step_stale(out),
    }
    .unwrap();
}

#[test]
fn a_warm_call_changes_no_bit_no_counter_and_no_tap() {
    for decoder in decoders() {
        let (channels, outputs) = (decoder.channels(), decoder.outputs().len());
        let mut warmed = Session::open(&decoder, config(outputs)).unwrap();
        let mut plain = Session::open(&decoder, config(outputs)).unwrap();
        let heard = Arc::new(AtomicU64::new(0));
        warmed
            .attach(Box::new(Counter(Arc::clone(&heard))), 0)
            .unwrap();
        let health = warmed.health();
        // Fades into itself from the third step on, and stands by when it is through.
        let options = SwapOptions {
            warm_up_steps: Some(10),
            cross_fade_steps: 20,
            ..SwapOptions::default()
        };
        let mut swappers = [warmed.swapper().unwrap(), plain.swapper().unwrap()];
        let (mut a, mut b) = (vec![0.0; outputs], vec![0.0; outputs]);
        let ticks = counts(&mut rng(3), 100, channels);
        for (tick, counts) in ticks.chunks(channels).enumerate() {
            if tick == 3 {
                for swapper in &mut swappers {
                    swapper.swap_with(&decoder, &options).unwrap();
                }
            }
            warmed.warm();
            step(&mut warmed, tick, counts, &mut a);
            let told = health.read();
            warmed.warm();
            step(&mut plain, tick, counts, &mut b);
            assert_eq!(a, b, "{}, {tick}", decoder.head().name());
            assert_eq!(warmed.status(), plain.status());
            assert_eq!(warmed.tick(), plain.tick());
            assert_eq!((health.read(), told.ticks), (told, tick as u64 + 1));
            assert_eq!(swappers[0].state(), swappers[1].state());
        }
        assert_eq!(warmed.checkpoint().unwrap(), plain.checkpoint().unwrap());
        assert_eq!(heard.load(Ordering::Relaxed), 100);
        let (warmed, plain) = (warmed.stats(), plain.stats());
        assert_eq!(warmed.latency.steps, 100);
        assert_eq!((warmed.ticks, warmed.spikes), (plain.ticks, plain.spikes));
        assert_eq!(warmed.model_swaps, plain.model_swaps);
    }
}

#[test]
fn requests_wait_for_a_step() {
    let decoder = &decoders()[0];
    let mut session = Session::open(decoder, SessionConfig::default()).unwrap();
    let mut swapper = session.swapper().unwrap();
    swapper.request_checkpoint().unwrap();
    session.warm();
    assert!(swapper.take_checkpoint().is_none());
    let mut out = vec![0.0; decoder.outputs().len()];
    session.step_spikes(&[], &mut out).unwrap();
    assert!(swapper.take_checkpoint().is_some());
}

#[test]
fn a_warm_call_of_a_queue_takes_no_spike() {
    let decoder = &decoders()[0];
    let mut session = Session::open(decoder, SessionConfig::default()).unwrap();
    let (mut producer, mut consumer) = spike_queue(8, LateSpikes::Take).unwrap();
    let mut out = vec![0.0; decoder.outputs().len()];
    for tick in 0..20 {
        producer.push(&[
            Spike { tick, channel: 1 },
            Spike {
                tick: tick + 1,
                channel: 2,
            },
        ]);
        producer.mark(tick);
        let waiting = consumer.waiting();
        consumer.warm(&mut session);
        assert_eq!((consumer.waiting(), consumer.tick()), (waiting, tick));
        consumer.step(&mut session, &mut out).unwrap();
        assert!(session.status().is_ok(), "{}", session.status());
    }
    assert_eq!(session.stats().spikes, 39);
}
