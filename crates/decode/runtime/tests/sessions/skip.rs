//! Pauses of any length, for every kind of decoder: as so many steps without a spike.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_runtime::model::{Decoder, DecoderParts, Head, Kalman, Place};
use betz_runtime::stream::StepStatus;

use crate::common::{self, close, counts, open, rng, run};
use crate::{heads, recurrent};

/// Five cells of a grid of 3 × 3; `jump` says how soon the past is forgotten.
fn place(jump: f64) -> Head {
    Head::Place(Place {
        shape: vec![3, 3],
        cells: vec![0, 3, 6, 7, 8],
        start: vec![0.5, 0.125, 0.125, 0.25, 0.0],
        walk: vec![0.6, 0.2, 0.05],
        jump,
        values: (0..15).map(|i| f64::from(i * i % 11)).collect(),
    })
}

fn kalman() -> Decoder {
    let linear = common::decoder(&mut rng(7), 6, 3, &[(0.05, 0)], None).into_parts();
    Decoder::new(DecoderParts {
        head: Head::Kalman(Kalman {
            transition: vec![0.98, 0.1, 0.0, -0.1, 0.98, 0.05, 0.0, 0.0, 0.999],
            mean: vec![1.0, -2.0, 3.0],
        }),
        ..linear
    })
    .unwrap()
}

/// One of every kind with a head, and several of some.
pub(crate) fn decoders() -> Vec<Decoder> {
    let mut all: Vec<Decoder> = (heads::heads().into_iter())
        .chain([1e-9, 0.01, 0.5].map(place))
        .map(|head| heads::with_head(3, head))
        .collect();
    all.extend(recurrent::decoders());
    all.push(kalman());
    all
}

#[test]
fn a_pause_is_so_many_steps_without_a_spike() {
    let all = decoders();
    // These keep the phase of their strides for ever.
    #[cfg(feature = "layers")]
    let all = [all, crate::layers::decoders()].concat();
    for decoder in all {
        let channels = decoder.channels();
        let counts = counts(&mut rng(4), 50, channels);
        for ticks in [0, 1, 7, 64, 300, 1000, 3000, 10_000_u64] {
            let (mut skipping, mut stepping) = (open(&decoder), open(&decoder));
            run(&mut skipping, &counts);
            run(&mut stepping, &counts);
            let mut a = vec![0.0; decoder.outputs().len()];
            let mut b = a.clone();
            skipping.skip(ticks);
            for _ in 0..ticks {
                stepping.step_spikes(&[], &mut b).unwrap();
            }
            let (mut tick, mut good) = (0, 0);
            while good < 20 {
                skipping.step_spikes(&[tick % 6], &mut a).unwrap();
                stepping.step_spikes(&[tick % 6], &mut b).unwrap();
                tick += 1;
                // Steps that one call cannot make are made up for.
                if skipping.status().contains(StepStatus::STALE) {
                    assert!(tick < 2000);
                    continue;
                }
                good += 1;
                let name = decoder.head().name();
                assert!(close(&a, &b, 2e-6), "{name}, {ticks}: {a:?} {b:?}");
            }
        }
    }
}

#[test]
fn a_pause_that_outlasts_all_memory_leaves_nothing_of_what_was_before() {
    for decoder in decoders() {
        let counts = counts(&mut rng(5), 50, decoder.channels());
        let (mut one, mut other) = (open(&decoder), open(&decoder));
        run(&mut one, &counts);
        run(&mut other, &counts[decoder.channels()..]);
        let mut a = vec![0.0; decoder.outputs().len()];
        let mut b = a.clone();
        for ticks in [1 << 50, u64::MAX] {
            one.skip(ticks);
            other.skip(ticks);
            one.step_spikes(&[2], &mut a).unwrap();
            other.step_spikes(&[2], &mut b).unwrap();
            assert_eq!(a, b, "{}", decoder.head().name());
        }
    }
}
