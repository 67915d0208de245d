//! Recurrent decoders: networks that are trained further beside the session.

use std::sync::OnceLock;

use super::*;
use betz_runtime::model::{Cell, DecoderParts, Head};

/// A small network of the usual trials.
fn network() -> &'static Decoder {
    static NETWORK: OnceLock<Decoder> = OnceLock::new();
    NETWORK.get_or_init(|| {
        let kinds = crate::kinds::KindOptions {
            layers: Some(vec![16]),
            mixed: Some(0),
            epochs: Some(40),
            ..crate::kinds::KindOptions::among(&[crate::kinds::Kind::Recurrent])
        };
        let options = TrainOptions {
            retain: None,
            ..options()
        };
        let search = crate::search::Search::scores_only(2);
        let device = betz_device::Device::cpu();
        let data = trials(60, 60);
        let trained = crate::kinds::train_kinds_on(&device, &data, &options, &search, &kinds, &());
        trained.unwrap().0.decoder
    })
}

fn config() -> TrainerConfig {
    TrainerConfig {
        half_life_seconds: 24.0,
        ..TrainerConfig::default()
    }
}

#[test]
fn networks_learn_exchanged_channels_and_no_shuffled_labels() {
    let model = network();
    let (usual, test) = (trials(61, 20), trials(62, 30));
    let before = score(model, &test);
    assert!(before > 0.65, "{before}");
    // Labels of other trials: nothing is accepted.
    let mut rig = Rig::new(model, config());
    let mut shuffled = in_order(&usual);
    shuffled.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
    rig.run(&usual, &shuffled);
    let state = rig.worker.state();
    assert_eq!((state.accepted, state.trials), (0, 20));
    assert_eq!(rig.worker.model(), model);
    // Channels heard as others.
    let drifted = exchanged(&trials(63, 80));
    let lost = score(model, &exchanged(&test));
    let run = |count: usize| {
        let some = drifted.select(&(0..count).collect::<Vec<_>>());
        let mut rig = Rig::new(model, config());
        rig.run(&some, &in_order(&some));
        rig
    };
    let rig = run(80);
    let found = score(rig.worker.model(), &exchanged(&test));
    assert!(
        lost < 0.3 && found > 0.8 * before,
        "{lost} {found} {before}"
    );
    assert!(rig.worker.state().effective_steps > 0.0);
    // The same trials make the same candidates.
    assert_eq!(run(15).worker.state(), run(15).worker.state());
}

#[test]
fn networks_that_turn_out_worse_are_rolled_back() {
    let mut rig = Rig::new(
        network(),
        TrainerConfig {
            batch: 100,
            ..config()
        },
    );
    let mut parts = network().clone().into_parts();
    parts.weights.iter_mut().for_each(|w| *w = -*w);
    rig.worker.learner_take_over(Decoder::new(parts).unwrap());
    let data = trials(64, 10);
    rig.run(&data, &in_order(&data));
    assert_eq!(rig.worker.state().rolled_back, 1);
    assert_eq!(rig.worker.model().weights(), network().weights());
}

#[test]
fn channels_that_die_are_left_out_of_networks_and_come_back() {
    let model = network();
    let config = TrainerConfig {
        batch: 10_000,
        ..config()
    };
    let mut rig = Rig::new(model, config);
    let rules = betz_runtime::stream::ChannelRules::default();
    let watch = rig.session.watch_channels(model, rules).unwrap();
    rig.worker.watch(watch);
    let run = |rig: &mut Rig, data: &Dataset| {
        for segment in &data.segments {
            rig.session.reset();
            rig.step(data, segment, |_| None);
            rig.work();
        }
    };
    let data = trials(65, 60);
    run(&mut rig, &data);
    assert_eq!(rig.verdicts, []);
    run(
        &mut rig,
        &silenced(&data.select(&(0..30).collect::<Vec<_>>()), &[2, 5]),
    );
    assert_eq!(
        rig.verdicts.last(),
        Some(&Verdict::Channels { left_out: 2 })
    );
    let row = model.latents();
    for (channel, takes_part) in rig.worker.model().channel_mask().iter().enumerate() {
        let is_well = ![2, 5].contains(&channel);
        assert_eq!(*takes_part, is_well);
        let of = |decoder: &Decoder| decoder.weights()[channel * row..][..row].to_vec();
        let expected = if is_well { of(model) } else { vec![0.0; row] };
        assert_eq!(of(rig.worker.model()), expected);
    }
    run(&mut rig, &data);
    assert_eq!(
        rig.verdicts.last(),
        Some(&Verdict::Channels { left_out: 0 })
    );
    assert_eq!(rig.worker.model(), model);
}

#[test]
fn a_saved_trainer_of_networks_goes_on_with_its_model() {
    let drifted = exchanged(&trials(66, 40));
    let mut rig = Rig::new(network(), config());
    rig.run(&drifted, &in_order(&drifted));
    assert!(rig.worker.state().accepted > 0);
    let bytes = rig.worker.to_bytes().unwrap();
    let mut again = Rig::new(network(), config());
    again.worker.restore(&bytes).unwrap();
    assert_eq!(again.worker.model(), rig.worker.model());
    let (state, before) = (again.worker.state(), rig.worker.state());
    assert_eq!(
        (state.trials, state.accepted, state.effective_steps),
        (before.trials, before.accepted, 0.0)
    );
    assert!(again.worker.restore(&bytes[..bytes.len() - 1]).is_err());
    again.run(&drifted, &in_order(&drifted));
    assert!(again.worker.state().trials > before.trials);
}

#[test]
fn networks_that_are_not_trained_here_are_refused() {
    let refused = |spoil: &dyn Fn(&mut DecoderParts)| {
        let mut parts = network().clone().into_parts();
        spoil(&mut parts);
        let decoder = Decoder::new(parts).unwrap();
        Worker::open(&decoder, config()).err().unwrap().to_string()
    };
    let bank = refused(&|parts| parts.bank = cases::bank(&[(40.0, 0)]));
    assert!(bank.contains("the counts of bins"), "{bank}");
    let lstm = refused(&|parts| {
        let Head::Recurrent(head) = &mut parts.head else {
            panic!()
        };
        // Four gates in place of three.
        head.cell = Cell::Lstm;
        head.blend = None;
        for member in &mut head.members {
            member.layers[0].state_weights.resize(16 * 64, 0.0);
            member.layers[0].state_bias.resize(64, 0.0);
        }
        let latents = 64 * head.members.len();
        parts.weights = vec![0.0; CHANNELS * latents];
        parts.intercept = vec![0.0; latents];
    });
    assert!(lstm.contains("GRU") && lstm.contains("lstm"), "{lstm}");
}
