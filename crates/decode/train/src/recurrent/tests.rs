//! Networks trained on data whose answer is known.

mod controls;

use super::samples::runs;
use super::*;
use crate::kinds::KindOptions;
use betz_recording::{Dataset, Segment, Spikes};
use betz_runtime::stream::{Session, SessionConfig};

const CHANNELS: usize = 12;

/// Trials in which half the channels fire with a slow wave and half against it; the outputs are the wave and its
/// change. One channel never fires.
pub(super) fn wave(trials: usize) -> Dataset {
    let (length, steps) = (30, trials * 30);
    let mut random = Random::new(11, 0);
    let (mut ticks, mut channels, mut behavior) = (Vec::new(), Vec::new(), Vec::new());
    for trial in 0..trials {
        let phase = 6.3 * random.uniform();
        for t in 0..length {
            let angle = phase + 0.25 * t as f32;
            for channel in 0..CHANNELS as u32 - 1 {
                let sign = if channel % 2 == 0 { 1.0 } else { -1.0 };
                let rate = 1.5 + 1.2 * sign * (angle + 0.1 * channel as f32).sin();
                let spikes = (0..4).filter(|_| random.uniform() < rate / 4.0);
                spikes.for_each(|_| {
                    ticks.push((trial * length + t) as i64);
                    channels.push(channel);
                });
            }
            behavior.extend([40.0 * angle.sin() + 7.0, 10.0 * angle.cos()]);
        }
    }
    Dataset {
        step_seconds: 0.05,
        steps,
        channel_names: (0..CHANNELS).map(|c| format!("c{c}")).collect(),
        spikes: Spikes {
            ticks,
            channels,
            ..Spikes::default()
        },
        segments: (0..trials)
            .map(|trial| Segment {
                start: (trial * length) as i64,
                stop: ((trial + 1) * length) as i64,
            })
            .collect(),
        outputs: vec!["x".into(), "v".into()],
        behavior,
    }
}

fn sizes(layers: &[usize], members: usize) -> Sizes {
    Sizes {
        layers: layers.to_vec(),
        members,
        mixed: 0,
        precision: None,
        seed: 5,
    }
}

const FEW: Recipe = Recipe {
    epochs: 12,
    ..Recipe::TRIALS
};

#[test]
fn few_trials_take_more_passes_with_more_left_out() {
    let trials = |count: usize| -> Vec<Range<usize>> {
        (0..count)
            .map(|trial| trial * 30..(trial + 1) * 30)
            .collect()
    };
    assert_eq!(Recipe::of_trials(&trials(64)), Recipe::FEW_TRIALS);
    assert_eq!(Recipe::of_trials(&trials(65)), Recipe::TRIALS);
}

fn trained(samples: &Samples<'_>, training: &[Range<usize>], sizes: &Sizes) -> Trained {
    trained_by(&FEW, samples, training, sizes)
}

fn trained_by(
    recipe: &Recipe,
    samples: &Samples<'_>,
    training: &[Range<usize>],
    sizes: &Sizes,
) -> Trained {
    let epochs = Epochs {
        progress: &(),
        done: AtomicU64::new(0),
        total: 1,
    };
    train(
        samples,
        training,
        (sizes, recipe),
        &epochs,
        &Placement::cpu(),
    )
    .unwrap()
}

/// R² of both outputs over `sequences`, each from rest.
fn r2(trained: &Trained, samples: &Samples<'_>, sequences: &[Sequence]) -> [f64; 2] {
    let mut pairs = Vec::new();
    trained.estimate(samples, sequences, |step, row| {
        let labels = samples.labels(step).unwrap();
        pairs.push([0, 1].map(|o| (f64::from(labels[o]), row[o])));
    });
    [0, 1].map(|o| {
        let mean = pairs.iter().map(|p| p[o].0).sum::<f64>() / pairs.len() as f64;
        let rest: f64 = pairs.iter().map(|p| (p[o].0 - p[o].1).powi(2)).sum();
        let all: f64 = pairs.iter().map(|p| (p[o].0 - mean).powi(2)).sum();
        1.0 - rest / all
    })
}

#[test]
fn a_network_learns_and_is_not_lost_without_resets() {
    let data = wave(80);
    let samples = Samples::new(data.view(), 0);
    let all = runs(data.segments.iter().copied());
    let (training, held) = all.split_at(60);
    let recipe = Recipe {
        epochs: 80,
        ..Recipe::TRIALS
    };
    let trained = trained_by(&recipe, &samples, training, &sizes(&[32], 1));
    let apart: Vec<Sequence> = held.iter().map(|run| vec![run.clone()]).collect();
    let scores = r2(&trained, &samples, &apart);
    assert!(scores[0] > 0.9 && scores[1] > 0.8, "{scores:?}");
    let joined = r2(&trained, &samples, &[held.to_vec()]);
    let near = scores
        .iter()
        .zip(joined)
        .all(|(apart, joined)| joined > apart - 0.1);
    assert!(near, "{scores:?}, joined {joined:?}");
}

#[test]
fn any_number_of_threads_trains_the_same_networks() {
    let data = wave(30);
    let samples = Samples::new(data.view(), 0);
    let all = runs(data.segments.iter().copied());
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let sizes = Sizes {
            mixed: 1,
            ..sizes(&[16, 16], 3)
        };
        let trained = pool.install(|| trained(&samples, &all, &sizes));
        let by_mixtures = trained.mixed.unwrap().0.weights;
        [trained.usual.weights, by_mixtures].concat()
    };
    let one = with(1);
    assert_eq!(one, with(3));
    assert_ne!(one[0], one[1]);
}

#[test]
fn a_request_to_stop_keeps_the_weights_so_far() {
    let data = wave(30);
    let samples = Samples::new(data.view(), 0);
    let all = runs(data.segments.iter().copied());
    let after = |questions: usize| {
        let stop = progress::StopAfter::new(questions);
        let epochs = Epochs {
            progress: &stop,
            done: AtomicU64::new(0),
            total: 1,
        };
        train(
            &samples,
            &all,
            (&sizes(&[16], 1), &FEW),
            &epochs,
            &Placement::cpu(),
        )
    };
    let three = after(3).unwrap();
    assert_eq!(three.epochs, 3);
    assert_eq!(after(100).unwrap().epochs, FEW.epochs);
    let error = after(0).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    let apart: Vec<Sequence> = all.iter().map(|run| vec![run.clone()]).collect();
    let score = r2(&three, &samples, &apart)[0];
    assert!(score > r2(&after(1).unwrap(), &samples, &apart)[0]);
}

#[test]
fn training_that_is_stopped_gives_a_decoder_and_says_how_far_it_came() {
    let data = wave(30);
    let training = |questions: usize| {
        let kinds = KindOptions {
            layers: Some(vec![16]),
            // Each network asks once in an epoch.
            mixed: Some(0),
            epochs: Some(4),
            ..KindOptions::among(&[crate::kinds::Kind::Recurrent])
        };
        let training = crate::Training {
            bank: Some(betz_gram::cases::bank(&[(20.0, 1)])),
            folds: 2,
            kinds,
            ..crate::Training::default()
        };
        let device = betz_device::Device::cpu();
        training.run(&data, &device, &progress::StopAfter::new(questions))
    };
    // The linear decoder asks first, so often that only the number of epochs is known here.
    let outcomes: Vec<_> = (0..80).map(training).collect();
    let sentences: Vec<_> = (outcomes.iter().flatten())
        .map(|outcome| outcome.comparison.clone().unwrap().stopped)
        .collect();
    let count = |what: &str| {
        let found = sentences.iter().flatten().filter(|s| s.contains(what));
        found.count()
    };
    assert!(
        count("stopped in cross-validation, after") >= 2,
        "{sentences:?}"
    );
    assert_eq!(count("stopped after 1 of 4 epochs"), 1, "{sentences:?}");
    assert_eq!(count("stopped after 3 of 4 epochs"), 1, "{sentences:?}");
    assert_eq!(sentences.last(), Some(&None), "{sentences:?}");
    let errors = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert!(errors.clone().count() > 0);
    assert!(
        errors
            .into_iter()
            .all(|e| e.kind() == ErrorKind::Interrupted)
    );
}

#[test]
fn the_decoder_steps_as_its_networks_estimate() {
    let data = wave(16);
    for delay in [0, 2] {
        let samples = Samples::new(data.view(), delay);
        let all = runs(data.segments.iter().copied());
        let mixed = |mixed: usize, sizes: Sizes| Sizes { mixed, ..sizes };
        for sizes in [
            sizes(&[16], 1),
            sizes(&[32, 16], 2),
            mixed(1, sizes(&[16], 1)),
            mixed(2, sizes(&[16, 32], 2)),
        ] {
            let trained = trained(&samples, &all, &sizes);
            let record = TrainingRecord::default();
            let decoder = trained
                .decoder(&samples, &all, &sizes, (delay, record))
                .unwrap();
            assert_eq!(decoder.channel_mask().iter().filter(|m| !**m).count(), 1);
            assert_eq!(
                decoder.training().steps as usize,
                16 * (30 - delay as usize)
            );
            let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
            let mut out = [0.0; 2];
            let apart: Vec<Sequence> = all.iter().map(|run| vec![run.clone()]).collect();
            let mut expected = vec![[0.0; 2]; data.steps];
            trained.estimate(&samples, &apart, |step, row| {
                expected[step].copy_from_slice(row)
            });
            for run in &all {
                session.reset();
                for step in run.clone() {
                    let spikes = data.spikes.view();
                    let range = spikes.range(step as i64, step as i64 + 1);
                    session
                        .step_spikes(&spikes.channels[range], &mut out)
                        .unwrap();
                    // Estimates are cut to 1.2 times the labels' range, and rounded to f32.
                    for (o, (got, expected)) in out.iter().zip(&expected[step]).enumerate() {
                        let range = decoder.limits().ranges[o];
                        let cut = expected.clamp(f64::from(range.low), f64::from(range.high));
                        assert!(
                            (f64::from(*got) - cut).abs() < 1e-3,
                            "step {step}: {got} {cut}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn recordings_without_labels_or_options_out_of_range_are_refused() {
    let data = wave(25);
    let samples = Samples::new(data.view(), 40);
    let all = runs(data.segments.iter().copied());
    let epochs = Epochs {
        progress: &(),
        done: AtomicU64::new(0),
        total: 1,
    };
    let error = train(
        &samples,
        &all,
        (&sizes(&[16], 1), &FEW),
        &epochs,
        &Placement::cpu(),
    )
    .map(|_| ())
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
    let options = |spoil: fn(&mut KindOptions)| {
        let mut kinds = KindOptions::among(&[crate::kinds::Kind::Recurrent]);
        spoil(&mut kinds);
        kinds.check().unwrap_err().message().to_owned()
    };
    let layer = options(|k| k.layers = Some(vec![64, 50]));
    assert!(
        layer.contains("multiple of 16 up to 1024, got 50"),
        "{layer}"
    );
    assert!(options(|k| k.layers = Some(vec![])).contains("layers: expected 1 to 8"));
    assert!(options(|k| k.members = Some(17)).contains("members: expected 1 to 16"));
    assert!(options(|k| k.epochs = Some(0)).contains("epochs: expected 1"));
}

#[test]
fn weights_of_wide_layers_are_the_nearest_of_sixteen_bits() {
    let data = wave(25);
    let samples = Samples::new(data.view(), 0);
    let all = runs(data.segments.iter().copied());
    let recipe = Recipe { epochs: 1, ..FEW };
    let sizes = sizes(&[128, 16], 1);
    let trained = trained_by(&recipe, &samples, &all, &sizes);
    let (head, ..) = trained.head(&sizes, 1);
    let Head::Recurrent(head) = head else {
        panic!()
    };
    let layers = &head.members[0].layers;
    let short = |weights: &[f32]| weights.iter().all(|w| w.to_bits() & 0xFFFF == 0);
    assert!(short(&layers[0].state_weights) && !short(&layers[1].state_weights));
}

#[cfg(feature = "tuning")]
#[test]
fn a_decoders_networks_are_read_as_they_were_written() {
    let data = wave(25);
    let samples = Samples::new(data.view(), 0);
    let all = runs(data.segments.iter().copied());
    for sizes in [
        sizes(&[16, 32], 2),
        Sizes {
            mixed: 2,
            ..sizes(&[16], 1)
        },
    ] {
        let trained = trained(&samples, &all, &sizes);
        let made = (0, TrainingRecord::default());
        let decoder = trained.decoder(&samples, &all, &sizes, made).unwrap();
        let again = tuning::networks_of(&decoder, &samples, &all).unwrap();
        let (head, weights, intercept) = again.head(&sizes, trained.memory_steps(&samples, &all));
        let close = |a: &[f64], b: &[f64]| {
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
            assert!(a.len() == b.len() && a.iter().zip(b).all(near));
        };
        close(&weights, decoder.weights());
        close(&intercept, decoder.intercept());
        let (Head::Recurrent(head), Head::Recurrent(expected)) = (&head, decoder.head()) else {
            panic!()
        };
        close(&head.bias, &expected.bias);
        assert_eq!(head.blend.is_some(), expected.blend.is_some());
        for (member, expected) in head.members.iter().zip(&expected.members) {
            assert_eq!(member.layers, expected.layers);
            let wide = |list: &[f32]| list.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            close(&wide(&member.readout), &wide(&expected.readout));
        }
    }
}

#[cfg(feature = "tuning")]
#[test]
fn training_further_learns_what_has_changed() {
    let data = wave(60);
    let samples = Samples::new(data.view(), 0);
    let all = runs(data.segments.iter().copied());
    let (first, rest) = all.split_at(30);
    let sizes = sizes(&[16], 1);
    let recipe = Recipe { epochs: 60, ..FEW };
    let trained = trained_by(&recipe, &samples, first, &sizes);
    let made = (0, TrainingRecord::default());
    let decoder = trained.decoder(&samples, first, &sizes, made).unwrap();
    // The channels change places.
    let mut changed = data.clone();
    for channel in &mut changed.spikes.channels {
        *channel = (*channel + 3) % (CHANNELS as u32 - 1);
    }
    let (training, held) = rest.split_at(20);
    let changed_samples = Samples::new(changed.view(), 0);
    let score = |decoder: &Decoder| {
        let networks = tuning::networks_of(decoder, &changed_samples, training).unwrap();
        let apart: Vec<Sequence> = held.iter().map(|run| vec![run.clone()]).collect();
        r2(&networks, &changed_samples, &apart)
    };
    let mut tuned = decoder.clone();
    for draw in 0..4 {
        tuned = tune(&tuned, &changed, training, draw).unwrap();
    }
    let (before, after) = (score(&decoder), score(&tuned));
    assert!(
        after[0] > before[0] + 0.3 && after[0] > 0.7,
        "{before:?} {after:?}"
    );
    assert_eq!(tuned.channel_mask(), decoder.channel_mask());
}

#[test]
fn rounded_weights_cost_little_and_are_what_is_scored() {
    let data = wave(60);
    let samples = Samples::new(data.view(), 0);
    let all = runs(data.segments.iter().copied());
    let (training, held) = all.split_at(45);
    let apart: Vec<Sequence> = held.iter().map(|run| vec![run.clone()]).collect();
    let recipe = Recipe { epochs: 40, ..FEW };
    let with = |precision: Option<WeightPrecision>| {
        let sizes = Sizes {
            precision,
            ..sizes(&[64, 64], 1)
        };
        let trained = trained_by(&recipe, &samples, training, &sizes);
        let (head, ..) = trained.head(&sizes, 1);
        let Head::Recurrent(head) = head else {
            panic!()
        };
        let r2 = r2(&trained, &samples, &apart);
        (r2, head.members[0].layers.clone())
    };
    let (usual, single) = with(Some(WeightPrecision::F32));
    assert_eq!(with(None).1, single);
    for (precision, most) in [
        (WeightPrecision::Bf16, 0.002),
        (WeightPrecision::Int8, 0.005),
    ] {
        let (rounded, layers) = with(Some(precision));
        for (rounded, usual) in rounded.iter().zip(usual) {
            assert!(
                (rounded - usual).abs() < most,
                "{precision:?}: {rounded} {usual}"
            );
        }
        for (layer, single) in layers.iter().zip(&single) {
            for (rounded, single) in [
                (&layer.input_weights, &single.input_weights),
                (&layer.state_weights, &single.state_weights),
            ] {
                let mut expected = single.clone();
                precision.round(&mut expected, 3 * 64);
                assert_eq!(rounded, &expected);
            }
        }
    }
}
