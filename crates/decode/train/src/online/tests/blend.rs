//! Members of a blend adapt, and lose channels, each as it would alone.

use super::*;
use crate::kinds::{Kind, KindOptions};
use crate::retained::{Remover, StoredStatistics, drop_channels};
use crate::{Training, TrainingOutcome};
use betz_device::Device;
use betz_runtime::model::{BlendMember, Head, ModelBlend};

fn training(kinds: &[Kind]) -> Training {
    Training {
        bank: Some(options().bank),
        folds: 3,
        retain: Some(1 << 24),
        kinds: KindOptions {
            latents: Some(4),
            units: Some(24),
            experts: Some(3),
            layers: Some(vec![16]),
            mixed: Some(0),
            epochs: Some(6),
            ..KindOptions::among(kinds)
        },
        ..Training::default()
    }
}

fn trained(kinds: &[Kind], data: &Dataset) -> Decoder {
    let outcome: TrainingOutcome = training(kinds).run(data, &Device::cpu(), &()).unwrap();
    outcome.decoder
}

/// A linear member, a lift, and a recurrent one.
fn blend(data: &Dataset) -> Decoder {
    let [lift, linear, recurrent] =
        [Kind::Lift, Kind::Linear, Kind::Recurrent].map(|kind| trained_alone(kind, data));
    let parts = lift.into_parts();
    let member = |decoder| BlendMember {
        weight: 0.25,
        decoder,
    };
    let head = ModelBlend {
        own: Box::new(parts.head.clone()),
        weight: 0.5,
        members: vec![member(linear), member(recurrent)],
    };
    Decoder::new(betz_runtime::model::DecoderParts {
        head: Head::ModelBlend(head),
        ..parts
    })
    .unwrap()
}

fn trained_alone(kind: Kind, data: &Dataset) -> Decoder {
    let mut training = training(&[kind]);
    if kind == Kind::Recurrent {
        training.retain = None;
    }
    training.run(data, &Device::cpu(), &()).unwrap().decoder
}

#[test]
fn a_blend_learns_exchanged_channels_and_its_state_is_saved() {
    let model = trained(
        &[Kind::Linear, Kind::Lift, Kind::Experts, Kind::Blend],
        &trials(5, 60),
    );
    assert_eq!(model.kind(), "blend");
    let config = TrainerConfig {
        half_life_seconds: 24.0,
        ..TrainerConfig::default()
    };
    let test = trials(7, 40);
    let (before, lost) = (score(&model, &test), score(&model, &exchanged(&test)));
    let mut rig = Rig::new(&model, config.clone());
    let drifted = exchanged(&trials(8, 60));
    rig.run(&drifted, &in_order(&drifted));
    let adapted = rig.worker.model();
    let found = score(adapted, &exchanged(&test));
    assert!(
        lost < 0.3 && found > 0.85 * before,
        "{lost} {found} {before}"
    );
    assert_eq!(adapted.kind(), "blend");
    let weights = |decoder: &Decoder| match decoder.head() {
        Head::ModelBlend(blend) => blend.weights().collect::<Vec<f64>>(),
        _ => Vec::new(),
    };
    assert_eq!(weights(adapted), weights(&model));
    // A worker that goes on knows the same.
    let bytes = rig.worker.to_bytes().unwrap();
    let (_, _, mut other) = Worker::open(&model, config).unwrap();
    other.restore(&bytes).unwrap();
    assert_eq!(other.model(), rig.worker.model());
    assert_eq!(other.learner_sums(), rig.worker.learner_sums());
}

#[test]
fn a_network_in_a_blend_stays_and_loses_channels() {
    let data = trials(20, 60);
    let model = blend(&data);
    let network = |decoder: &Decoder| match decoder.head() {
        Head::ModelBlend(blend) => blend.members[1].decoder.clone(),
        _ => panic!("{}", decoder.kind()),
    };
    let mut rig = Rig::new(&model, TrainerConfig::default());
    let drifted = exchanged(&trials(21, 40));
    rig.run(&drifted, &in_order(&drifted));
    assert_eq!(
        network(rig.worker.model()).weights(),
        network(&model).weights()
    );
    let dropped = drop_channels(&model, &[2, 5]).unwrap();
    let Head::ModelBlend(members) = dropped.head() else {
        panic!()
    };
    for (decoder, whole) in
        members
            .decoders(dropped.parts())
            .unwrap()
            .iter()
            .zip(match model.head() {
                Head::ModelBlend(blend) => blend.decoders(model.parts()).unwrap(),
                _ => Vec::new(),
            })
    {
        assert!(!decoder.channel_mask()[2] && !decoder.channel_mask()[5]);
        match decoder.head() {
            Head::Recurrent(_) => {
                let width = decoder.bank().len() * decoder.latents();
                for (channel, row) in decoder.weights().chunks(width).enumerate() {
                    let whole = &whole.weights()[channel * width..][..width];
                    match channel {
                        2 | 5 => assert!(row.iter().all(|w| *w == 0.0)),
                        _ => assert_eq!(row, whole),
                    }
                }
            }
            _ => {
                let retained = StoredStatistics::read(&whole).unwrap();
                let alone = Remover::new(&whole, &retained).unwrap().without(&[2, 5]);
                assert_eq!(*decoder, alone.unwrap());
            }
        }
    }
    // The channels can be anything now.
    let test = trials(22, 20);
    let mut other = test.clone();
    for channel in &mut other.spikes.channels {
        *channel = if *channel == 2 { 5 } else { *channel };
    }
    assert_eq!(score(&dropped, &test), score(&dropped, &other));
    assert!(drop_channels(&model, &(0..CHANNELS).collect::<Vec<_>>()).is_err());
}

#[test]
fn a_blend_that_retains_nothing_does_not_adapt() {
    let data = trials(23, 40);
    let mut members = training(&[Kind::Linear, Kind::Lift, Kind::Experts, Kind::Blend]);
    members.retain = None;
    let model = members.run(&data, &Device::cpu(), &()).unwrap().decoder;
    let error = Worker::open(&model, TrainerConfig::default())
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::InsufficientData, "{error}");
}
