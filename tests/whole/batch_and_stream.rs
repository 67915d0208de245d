//! A session gives tick by tick the estimates that batch decoding gives at once.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use betz::model::decode;
use betz::psc::{Filter, FilterBank, LowPass};
use betz::recording::{Dataset, Segment};
use betz::simulate::population::{PopulationConfig, simulate};
use betz::stream::{Session, SessionConfig};
use betz::train::{RidgeChoice, TrainOptions, train};

fn trials() -> Dataset {
    let config = PopulationConfig {
        neurons: 24,
        train_seconds: 12.0,
        test_seconds: 1.0,
        ..PopulationConfig::default()
    };
    let mut data = simulate(&config, 7).unwrap().train.align(0.002).unwrap();
    // Trials of different lengths with gaps between them.
    data.segments = [(0, 1500), (1500, 1501), (1700, 4000), (4010, 6000)]
        .map(|(start, stop)| Segment { start, stop })
        .to_vec();
    data
}

fn stream(session: &mut Session, data: &Dataset) -> Vec<f32> {
    let width = session.outputs();
    let mut streamed = vec![f32::NAN; data.steps * width];
    for segment in &data.segments {
        session.reset();
        for step in segment.start..segment.stop {
            let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
            let row = step as usize * width;
            let out = &mut streamed[row..row + width];
            session.step_spikes(spikes, out).unwrap();
        }
    }
    streamed
}

#[test]
fn a_session_equals_batch_decoding_for_every_bank_low_pass_and_delay() {
    let data = trials();
    let filter = |tau_seconds, order| Filter { tau_seconds, order };
    let banks = [
        vec![filter(0.02, 0)],
        vec![filter(0.01, 1)],
        vec![filter(0.005, 4), filter(0.05, 2), filter(0.3, 3)],
        vec![filter(0.0005, 1), filter(2.0, 1)],
    ];
    let low_pass = LowPass {
        order: 3,
        cutoff_hz: 20.0,
    };
    for bank in banks {
        for (low_pass, delay_steps) in [(None, 0), (Some(low_pass), 7), (None, -5)] {
            let options = TrainOptions {
                low_pass,
                delay_steps,
                ridge: RidgeChoice::Fixed(1e-3),
                ..TrainOptions::new(FilterBank::new(bank.clone()).unwrap())
            };
            let decoder = train(&data, &options, &()).unwrap();
            let batch = decode(&decoder, &data).unwrap();
            let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
            let streamed = stream(&mut session, &data);
            let largest = batch
                .iter()
                .filter(|v| !v.is_nan())
                .fold(0.0_f32, |m, v| m.max(v.abs()));
            assert!(largest > 0.1, "the decoder says nothing");
            for (i, (b, s)) in batch.iter().zip(&streamed).enumerate() {
                assert_eq!(b.is_nan(), s.is_nan(), "value {i}");
                if !b.is_nan() {
                    let error = (b - s).abs() / largest;
                    assert!(error <= 1e-5, "value {i}: batch {b}, stream {s}, {bank:?}");
                }
            }
        }
    }
}
