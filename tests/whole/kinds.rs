//! Decoders of every kind, from training through a model file to a session.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use betz::device::Device;
use betz::model::{Decoder, decode};
use betz::psc::{Filter, FilterBank};
use betz::recording::{Dataset, Segment};
use betz::simulate::population::{PopulationConfig, simulate};
use betz::stream::{Session, SessionConfig};
use betz::train::{Kind, KindOptions, Search, TrainOptions, train_kinds_on};

/// 20 s of a population in trials of 1 s, with an artefact that all channels see.
fn trials() -> Dataset {
    let config = PopulationConfig {
        neurons: 30,
        train_seconds: 20.0,
        test_seconds: 1.0,
        ..PopulationConfig::default()
    };
    let mut data = simulate(&config, 3).unwrap().train.align(0.02).unwrap();
    data.segments = (0..20)
        .map(|i| Segment {
            start: i * 50,
            stop: i * 50 + 48,
        })
        .collect();
    let mut spikes: Vec<(i64, u32)> = (data.spikes.ticks.iter().copied())
        .zip(data.spikes.channels.iter().copied())
        .collect();
    spikes.extend((0..30).flat_map(|channel| [(407, channel); 40]));
    spikes.sort_unstable();
    data.spikes.ticks = spikes.iter().map(|s| s.0).collect();
    data.spikes.channels = spikes.iter().map(|s| s.1).collect();
    data
}

fn train_model(data: &Dataset, kind: Kind) -> Decoder {
    let filter = |tau_seconds, order| Filter { tau_seconds, order };
    let bank = FilterBank::new(vec![filter(0.02, 0), filter(0.05, 1), filter(0.2, 1)]).unwrap();
    let search = Search {
        folds: 3,
        ..Search::ridge()
    };
    let kinds = KindOptions {
        units: Some(40),
        experts: Some(4),
        layers: Some(vec![16]),
        epochs: Some(5),
        ..KindOptions::among(&[kind])
    };
    let options = TrainOptions::new(bank);
    let (trained, comparison) =
        train_kinds_on(&Device::cpu(), data, &options, &search, &kinds, &()).unwrap();
    let decoder = trained.decoder;
    assert_eq!((decoder.kind(), comparison.artefacts), (kind.name(), 1));
    Decoder::from_bytes(&decoder.to_bytes().unwrap()).unwrap()
}

#[test]
fn every_kind_streams_what_it_decodes_in_batch() {
    let data = trials();
    for kind in [
        Kind::Linear,
        Kind::Lift,
        Kind::Experts,
        Kind::Place,
        Kind::Recurrent,
    ] {
        let decoder = train_model(&data, kind);
        let batch = decode(&decoder, &data).unwrap();
        let width = decoder.outputs().len();
        let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
        let mut out = vec![0.0; width];
        for segment in &data.segments {
            session.reset();
            for step in segment.start..segment.stop {
                let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
                session.step_spikes(spikes, &mut out).unwrap();
                let expected = &batch[step as usize * width..][..width];
                for (got, expected) in out.iter().zip(expected) {
                    assert_eq!(
                        got.to_bits(),
                        expected.to_bits(),
                        "{} at step {step}",
                        kind.name()
                    );
                }
            }
        }
        // The artefact is not decoded: estimates stay among those of other steps.
        let range = |skip: bool| {
            let steps = data.segments.iter().flat_map(|s| s.start..s.stop);
            let steps = steps.filter(|s| !skip || !(407..448).contains(s));
            steps.fold(0.0_f32, |most, s| most.max(batch[s as usize * width].abs()))
        };
        assert!(range(false) <= 1.5 * range(true), "{}", kind.name());
    }
}
