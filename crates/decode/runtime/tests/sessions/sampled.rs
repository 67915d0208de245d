//! Sessions with filters of samples.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::ErrorKind;
use betz_runtime::model::{Decoder, LowPass};
use betz_runtime::psc::{FilterBank, SampledFilter};
use betz_runtime::stream::{PreparedModel, Session, SessionConfig};

use crate::common::{
    close, counts, decoder, goes_on_bit_for_bit, open, oracle, rng, run, sampled, with_sampled,
};
use crate::{heads, skip};

const LOW_PASS: LowPass = LowPass {
    order: 3,
    cutoff_hz: 8.0,
};

/// Short and long filters, alone and behind recursive ones, with and without a low-pass.
fn decoders() -> Vec<Decoder> {
    let rng = &mut rng(5);
    let mut all = Vec::new();
    for (outputs, recursive, lengths, low_pass) in [
        (1, &[(0.05, 1)][..], &[(3, 0)][..], None),
        (2, &[(0.05, 1), (0.1, 0)], &[(40, 7)], None),
        (3, &[(0.05, 2)], &[(400, 0), (11, 90)], Some(LOW_PASS)),
        (4, &[(0.02, 0)], &[(600, 3)], None),
    ] {
        let filters = lengths.iter().map(|&(l, start)| sampled(rng, l, start));
        let filters: Vec<SampledFilter> = filters.collect();
        let linear = decoder(rng, 6, outputs, recursive, low_pass);
        all.push(with_sampled(rng, linear, filters));
    }
    // None but a sampled filter.
    let mut parts = decoder(rng, 6, 2, &[(0.05, 1)], None).into_parts();
    parts.bank = FilterBank::with_sampled(Vec::new(), vec![sampled(rng, 250, 0)]).unwrap();
    all.push(Decoder::new(parts).unwrap());
    all
}

#[test]
fn gives_what_the_decoder_means() {
    for (case, decoder) in decoders().iter().enumerate() {
        let counts = counts(&mut rng(2), 900, decoder.channels());
        let expected = oracle(decoder, &counts);
        let largest = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        let got = run(&mut open(decoder), &counts);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let error = (f64::from(*got) - expected).abs() / largest;
            assert!(
                error < 2e-7,
                "case {case}, value {i}: {got}, expected {expected}"
            );
        }
    }
}

#[test]
fn goes_on_bit_for_bit_after_a_checkpoint() {
    for decoder in decoders() {
        let counts = counts(&mut rng(3), 700, decoder.channels());
        for cut in [0, 1, 64, 333, 650] {
            let (first, second) = counts.split_at(cut * decoder.channels());
            goes_on_bit_for_bit(&decoder, first, second);
        }
    }
}

#[test]
fn a_warm_call_leaves_no_trace() {
    for decoder in decoders() {
        let counts = counts(&mut rng(3), 300, decoder.channels());
        let expected = run(&mut open(&decoder), &counts);
        let mut session = open(&decoder);
        let mut got = Vec::new();
        for tick in counts.chunks_exact(decoder.channels()) {
            session.warm();
            got.extend(run(&mut session, tick));
        }
        assert_eq!(got, expected);
    }
}

#[test]
fn a_pause_is_so_many_steps_without_a_spike() {
    let behind_heads = heads::heads().into_iter().map(|head| {
        let linear = heads::with_head(3, head);
        with_sampled(&mut rng(9), linear, vec![sampled(&mut rng(8), 200, 0)])
    });
    for decoder in decoders().into_iter().chain(behind_heads) {
        let counts = counts(&mut rng(4), 50, decoder.channels());
        for ticks in [0, 1, 7, 64, 300, 1000, 3000, 100_000_u64] {
            let (mut skipping, mut stepping) = (open(&decoder), open(&decoder));
            run(&mut skipping, &counts);
            run(&mut stepping, &counts);
            skipping.skip(ticks);
            let silence = vec![0; decoder.channels() * ticks.min(5000) as usize];
            run(&mut stepping, &silence);
            let (a, b) = (run(&mut skipping, &counts), run(&mut stepping, &counts));
            assert!(close(&a, &b, 1e-4), "{ticks} ticks");
        }
    }
    assert!(!skip::decoders().is_empty());
}

/// However long the pause, and however long a filter beside them remembers.
#[test]
fn a_pause_takes_no_more_steps_than_sampled_filters_remember() {
    let slow = decoder(&mut rng(1), 4, 2, &[(1e9, 0)], Some(LOW_PASS));
    let decoder = with_sampled(&mut rng(2), slow, vec![sampled(&mut rng(3), 60, 0)]);
    let mut session = open(&decoder);
    run(&mut session, &counts(&mut rng(4), 50, 4));
    session.skip(1 << 35);
    let after = run(&mut session, &[0; 4]);
    assert!(after.iter().all(|estimate| estimate.is_finite()));
}

#[test]
fn a_filter_that_looks_ahead_is_refused_with_the_way_out() {
    let linear = decoder(&mut rng(1), 4, 2, &[(0.05, 1)], None);
    let ahead = SampledFilter::new("gauss:30ms", vec![0.25; 4], 0.01, -3).unwrap();
    let decoder = with_sampled(&mut rng(1), linear, vec![ahead]);
    let error = Session::open(&decoder, SessionConfig::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let message = error.message();
    assert!(
        message.contains("gauss:30ms") && message.contains("@0.03s"),
        "{message}"
    );
    assert!(PreparedModel::new(&decoder, None).is_err());
}

#[test]
fn a_filter_of_another_step_or_twice_the_same_makes_no_decoder() {
    let mut parts = decoder(&mut rng(1), 4, 2, &[(0.05, 1)], None).into_parts();
    let other = SampledFilter::new("k.csv", vec![1.0, 2.0], 0.001, 0).unwrap();
    parts.bank = FilterBank::with_sampled(Vec::new(), vec![other.clone()]).unwrap();
    let error = Decoder::new(parts).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidModel);
    assert!(error.message().contains("k.csv") && error.message().contains("0.001"));
    let twice = FilterBank::with_sampled(Vec::new(), vec![other.clone(), other]).unwrap_err();
    assert!(twice.message().contains("already"), "{twice}");
}
