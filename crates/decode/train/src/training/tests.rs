//! The course of a training, whole: its progress, its refusals and what it tells.

use super::*;
use crate::kinds::train_kinds_on;
use crate::validate::train_validated_on;
use betz_gram::cases;
use betz_gram::estimate_delay;

fn data() -> Dataset {
    let mut spikes = cases::random_spikes(5, 6, 3000, 2500);
    spikes.retain(|s| s.1 != 4);
    cases::dataset(6, &[(0, 1400), (1450, 3000)], spikes, 2)
}

#[test]
fn trials_of_one_step_explain_why_nothing_can_be_trained() {
    let every: Vec<(i64, i64)> = (0..100).map(|i| (3 * i, 3 * i + 1)).collect();
    let data = cases::dataset(3, &every, cases::random_spikes(5, 3, 300, 300), 1);
    // Order 1 begins at 0, and behaviour two steps before a step is in no trial.
    for (order, delay) in [(1, 0), (0, 2)] {
        let training = Training {
            bank: Some(cases::bank(&[(20.0, order)])),
            delay: Delay::Steps(delay),
            ..Training::default()
        };
        let error = training.run(&data, &Device::cpu(), &()).unwrap_err();
        let words = "expected trials of several steps, got 100 trials of one step among 100";
        assert!(error.message().contains(words), "{error}");
    }
}

#[test]
fn progress_is_one_stage_that_never_goes_back() {
    struct Shares(std::sync::Mutex<Vec<f64>>);

    impl Progress for Shares {
        fn update(&self, stage: &str, done: u64, total: u64) {
            assert_eq!(stage, "training");
            self.0.lock().unwrap().push(done as f64 / total as f64);
        }
    }

    let run = |kinds: KindOptions, delay| {
        let training = Training {
            folds: 3,
            delay,
            kinds: KindOptions {
                latents: Some(1),
                units: Some(16),
                experts: Some(2),
                ..kinds
            },
            ..Training::default()
        };
        let shares = Shares(std::sync::Mutex::default());
        training.run(&data(), &Device::cpu(), &shares).unwrap();
        let shares = shares.0.into_inner().unwrap();
        assert!(shares.is_sorted(), "{shares:?}");
        let (first, last) = (shares[0], shares[shares.len() - 1]);
        assert!(
            first < 0.1 && last > 0.8 && last <= 1.0,
            "{first} to {last}"
        );
    };
    run(KindOptions::choice(), Delay::Steps(0));
    let within_seconds = 0.01;
    run(KindOptions::linear(), Delay::Estimated { within_seconds });
}

#[test]
fn a_recurrent_decoder_has_a_cap_for_every_channel() {
    let kinds = KindOptions {
        layers: Some(vec![16]),
        epochs: Some(1),
        ..KindOptions::among(&[Kind::Recurrent])
    };
    let training = Training {
        bank: Some(cases::bank(&[(20.0, 1)])),
        folds: 2,
        kinds,
        ..Training::default()
    };
    let trained = training.run(&data(), &Device::cpu(), &()).unwrap();
    assert_eq!(trained.silent_channels, 1);
    let caps = &trained.decoder.limits().count_caps;
    let capped: Vec<bool> = caps.iter().map(|cap| cap.is_finite()).collect();
    assert_eq!(capped, [true, true, true, true, false, true]);
}

#[test]
fn without_folds_the_ridge_follows_from_the_sums_and_decodes_better_than_by_noise() {
    let made = |seed| {
        let config = betz_simulate::population::PopulationConfig {
            train_seconds: 100.0,
            test_seconds: 10.0,
            ..betz_simulate::population::PopulationConfig::default()
        };
        betz_simulate::population::simulate(&config, seed).unwrap()
    };
    let made = made(1);
    let [train, test] = [&made.train, &made.test].map(|r| r.align(0.01).unwrap());
    let score = |ridge, folds| {
        let training = Training {
            bank: Some(cases::bank(&[(20.0, 1), (80.0, 1), (200.0, 1)])),
            ridge,
            folds,
            ..Training::default()
        };
        let decoder = training.run(&train, &Device::cpu(), &()).unwrap().decoder;
        let scores = betz_gram::evaluate(&decoder, &test).unwrap().outputs;
        (betz_gram::score::mean_r2(&scores), decoder.training().ridge)
    };
    let (generalised, ridge) = score(None, 0);
    let (by_noise, _) = score(Some(TrainOptions::CUSTOMARY_RIDGE), 0);
    let (validated, _) = score(None, 5);
    assert!(ridge > 0.0);
    assert!(generalised > by_noise, "{generalised} and {by_noise}");
    assert!(
        generalised > validated - 0.02,
        "{generalised} and {validated}"
    );
    let with_folds = Training {
        ridge: Some(RidgeChoice::Generalised),
        ..Training::default()
    };
    assert!(with_folds.run(&train, &Device::cpu(), &()).is_err());
}

#[test]
fn artefacts_are_told_and_can_be_kept() {
    let mut data = data();
    for tick in [300, 900] {
        let at = data.spikes.ticks.partition_point(|&t| t < tick);
        let many = std::iter::repeat_n(tick, 60);
        data.spikes.ticks.splice(at..at, many);
        data.spikes.channels.splice(at..at, [2; 60]);
    }
    data.check().unwrap();
    let training = |keep_artefacts| Training {
        bank: Some(cases::bank(&[(20.0, 1)])),
        folds: 2,
        keep_artefacts,
        ..Training::default()
    };
    let run = |keep| training(keep).run(&data, &Device::cpu(), &()).unwrap();
    let cleaned = run(false);
    assert_eq!(cleaned.artefacts.steps, 2);
    assert!(cleaned.artefacts.spikes >= 120, "{:?}", cleaned.artefacts);
    assert!(cleaned.decoder.limits().blanking.is_some());
    let kept = run(true);
    assert_eq!((kept.artefacts.steps, kept.artefacts.most), (0, None));
    assert_eq!(kept.decoder.limits().blanking, None);
    let all = data.view().spikes_in_segments() as u64;
    assert_eq!(kept.decoder.training().spikes, all);
    for outcome in [cleaned, kept] {
        assert_eq!(outcome.artefacts.all_spikes, all);
    }
}

#[test]
fn a_silent_channel_is_masked_and_takes_no_part() {
    let (data, cpu) = (data(), Device::cpu());
    let training = Training {
        bank: Some(cases::bank(&[(20.0, 1)])),
        folds: 3,
        ..Training::default()
    };
    let outcome = training.run(&data, &cpu, &()).unwrap();
    let expected = [true, true, true, true, false, true];
    assert_eq!(outcome.decoder.channel_mask(), expected);
    assert_eq!((outcome.silent_channels, outcome.comparison), (1, None));
    let firing = active(&data).unwrap().unwrap();
    let options = TrainOptions {
        mask: MaskPolicy::Mask,
        ..TrainOptions::new(cases::bank(&[(20.0, 1)]))
    };
    let search = Search {
        folds: 3,
        ..Search::ridge()
    };
    let own = train_validated_on(&cpu, &firing.data, &options, &search, &()).unwrap();
    assert_eq!(outcome.decoder.intercept(), own.decoder.intercept());
    assert_eq!(
        outcome.decoder.training().scores,
        own.decoder.training().scores
    );
    let refused = Training {
        leave_out_silent: false,
        mask: MaskPolicy::Refuse,
        folds: 0,
        ridge: Some(RidgeChoice::Fixed(0.0)),
        ..training
    };
    assert!(refused.run(&data, &cpu, &()).is_err());
}

#[test]
fn kinds_are_compared_and_presets_chosen_from() {
    let (data, cpu) = (data(), Device::cpu());
    let training = Training {
        folds: 2,
        leave_out_silent: false,
        kinds: KindOptions::among(&[Kind::Linear, Kind::Kalman]),
        ..Training::default()
    };
    let outcome = training.run(&data, &cpu, &()).unwrap();
    let search = Search {
        folds: 2,
        ..Search::presets(&data).unwrap()
    };
    let options = TrainOptions {
        mask: MaskPolicy::Mask,
        ..TrainOptions::new(search.banks[0].clone())
    };
    let own = train_kinds_on(&cpu, &data, &options, &search, &training.kinds, &()).unwrap();
    let sample = TrainingData::new(&data);
    assert_eq!(outcome.decoder, sample.attach(own.0.decoder).unwrap());
    assert_eq!(outcome.comparison, Some(own.1));
    let none = Training {
        folds: 0,
        ..training
    };
    assert!(none.run(&data, &cpu, &()).is_err());
}

#[test]
fn an_estimated_delay_is_taken() {
    let (data, cpu) = (data(), Device::cpu());
    let bank = cases::bank(&[(20.0, 1)]);
    let training = Training {
        bank: Some(bank.clone()),
        delay: Delay::Estimated {
            within_seconds: 0.02,
        },
        folds: 0,
        leave_out_silent: false,
        ..Training::default()
    };
    let outcome = training.run(&data, &cpu, &()).unwrap();
    let expected = estimate_delay(&data, &bank, None, 20, &()).unwrap();
    assert_eq!(outcome.decoder.delay_steps(), expected.delay_steps);
}
