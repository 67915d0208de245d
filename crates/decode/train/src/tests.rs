//! Training end to end, and what it makes of bad input.

use super::*;
use betz_base::ErrorKind;
use betz_gram::cases::{bank, dataset, random_spikes};
use betz_gram::psc::oracle;
use betz_gram::{GramPath, MaskPolicy, Solver, gram, largest_response};
use betz_recording::Dataset;
use betz_runtime::model::Decoder;
use betz_runtime::psc::FilterBank;

fn options(bank: FilterBank, ridge: f64) -> TrainOptions {
    TrainOptions {
        ridge: RidgeChoice::Fixed(ridge),
        ..TrainOptions::new(bank)
    }
}

fn random(channels: u32, steps: i64, spikes: usize) -> Dataset {
    let spikes = random_spikes(1, channels, steps, spikes);
    dataset(channels as usize, &[(0, steps)], spikes, 2)
}

/// x̂ at every step of the only segment, row-major (steps, outputs).
fn decode(decoder: &Decoder, data: &Dataset) -> Vec<f64> {
    let a = oracle::responses(data, decoder.bank(), decoder.low_pass()).unwrap();
    let (steps, outputs) = (data.steps, data.outputs.len());
    let mut out = Vec::new();
    for t in 0..steps {
        for o in 0..outputs {
            let terms = (0..decoder.features())
                .map(|f| a[f * steps + t] * decoder.weights()[f * outputs + o]);
            out.push(decoder.intercept()[o] + terms.sum::<f64>());
        }
    }
    out
}

fn refused(data: &Dataset, options: &TrainOptions, kind: ErrorKind, says: &str) {
    let error = train(data, options, &()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(says), "{error}");
}

#[test]
fn finds_the_weights_that_made_the_behaviour() {
    let mut data = random(6, 800, 900);
    let bank = bank(&[(10.0, 1), (30.0, 0)]);
    let a = oracle::responses(&data, &bank, None).unwrap();
    let weight = |f: usize, o: usize| (f as f64 - 4.0) * (1.0 + o as f64);
    for t in 0..data.steps {
        for o in 0..2 {
            let sum: f64 = (0..12).map(|f| weight(f, o) * a[f * data.steps + t]).sum();
            data.behavior[t * 2 + o] = (sum + 5.0) as f32;
        }
    }
    for solver in [Solver::Cholesky, Solver::Inverse] {
        let options = TrainOptions {
            solver,
            ..options(bank.clone(), 0.0)
        };
        let decoder = train(&data, &options, &()).unwrap();
        for f in 0..12 {
            for o in 0..2 {
                let got = decoder.weights()[f * 2 + o];
                assert!(
                    (got - weight(f, o)).abs() < 1e-3,
                    "{solver:?} {f} {o}: {got}"
                );
            }
        }
        assert!((decoder.intercept()[0] - 5.0).abs() < 1e-3);
        assert_eq!(decoder.training().solver, solver.name());
    }
}

#[test]
fn noise_is_a_ridge_of_its_variance_times_the_steps() {
    let data = random(5, 500, 400);
    let bank = bank(&[(10.0, 1)]);
    let noisy = TrainOptions {
        ridge: RidgeChoice::Noise(0.02),
        ..TrainOptions::new(bank.clone())
    };
    assert_eq!(
        train(&data, &noisy, &()).unwrap().training().ridge,
        0.02 * 0.02 * 500.0
    );
    let customary = train(&data, &TrainOptions::new(bank.clone()), &()).unwrap();
    let sigma = 0.1 * largest_response(&data, &bank);
    assert_eq!(customary.training().ridge, sigma * sigma * 500.0);
}

#[test]
fn ridge_agrees_with_the_residuals_it_leaves() {
    let data = random(5, 500, 400);
    let bank = bank(&[(10.0, 1), (20.0, 2)]);
    let decoder = train(&data, &options(bank.clone(), 0.5), &()).unwrap();
    let (sums, _) = gram::normal_equations(&data, &bank, None, 0, GramPath::Auto, &()).unwrap();
    let expected = sums.residual_squares(decoder.weights(), decoder.intercept());
    let decoded = decode(&decoder, &data);
    for o in 0..2 {
        let residual: f64 = (0..data.steps)
            .map(|t| (decoded[t * 2 + o] - f64::from(data.behavior[t * 2 + o])).powi(2))
            .sum();
        assert!(
            (residual - expected[o]).abs() < 1e-3 * residual,
            "{residual} {}",
            expected[o]
        );
    }
}

#[test]
fn a_dead_channel_is_named_masked_or_ridged() {
    let mut spikes = random_spikes(2, 4, 500, 400);
    spikes.retain(|s| s.1 != 2);
    let mut data = dataset(4, &[(0, 500)], spikes, 1);
    data.channel_names[2] = "left M1".into();
    let bank = bank(&[(10.0, 1), (20.0, 1)]);
    refused(
        &data,
        &options(bank.clone(), 0.0),
        ErrorKind::NotPositiveDefinite,
        "channel 2 ('left M1'), filter 0 (tau 0.01 s, order 1)",
    );
    let masked = TrainOptions {
        mask: MaskPolicy::Mask,
        ..options(bank.clone(), 0.0)
    };
    for options in [masked, options(bank, 1e-3)] {
        let decoder = train(&data, &options, &()).unwrap();
        assert_eq!(decoder.channel_mask(), [true, true, false, true]);
        assert_eq!(decoder.weights()[4..6], [0.0; 2]);
        assert!(decoder.weights()[6] != 0.0);
    }
}

#[test]
fn a_duplicated_channel_is_named_masked_or_ridged() {
    let mut spikes = random_spikes(3, 3, 500, 300);
    let copy: Vec<_> = spikes
        .iter()
        .filter(|s| s.1 == 0)
        .map(|s| (s.0, 3))
        .collect();
    spikes.extend(copy);
    let data = dataset(4, &[(0, 500)], spikes, 1);
    for path in [GramPath::Dense, GramPath::Event] {
        let plain = TrainOptions {
            gram: path,
            ..options(bank(&[(10.0, 1)]), 0.0)
        };
        refused(
            &data,
            &plain,
            ErrorKind::NotPositiveDefinite,
            "channel 3 ('c3')",
        );
        let masked = TrainOptions {
            mask: MaskPolicy::Mask,
            ..plain.clone()
        };
        assert_eq!(
            train(&data, &masked, &()).unwrap().channel_mask(),
            [true, true, true, false]
        );
        let ridged = TrainOptions {
            ridge: RidgeChoice::Fixed(1e-3),
            ..plain
        };
        let weights = train(&data, &ridged, &()).unwrap().into_parts().weights;
        assert!((weights[0] - weights[3]).abs() < 1e-3 * weights[0].abs());
    }
}

#[test]
fn more_features_than_steps_need_a_ridge() {
    let data = random(20, 15, 100);
    let bank = bank(&[(10.0, 0)]);
    refused(
        &data,
        &options(bank.clone(), 0.0),
        ErrorKind::InsufficientData,
        "15 steps for 20 features",
    );
    let decoder = train(&data, &options(bank, 1e-3), &()).unwrap();
    assert!(decoder.weights().iter().all(|w| w.is_finite()));
}

#[test]
fn constant_behaviour_is_its_own_decoder() {
    let mut data = random(4, 300, 200);
    data.behavior.fill(7.5);
    let decoder = train(&data, &options(bank(&[(10.0, 1)]), 1e-3), &()).unwrap();
    assert!(decoder.weights().iter().all(|w| w.abs() < 1e-9));
    assert!((decoder.intercept()[1] - 7.5).abs() < 1e-9);
}

#[test]
fn one_channel_and_one_step_train() {
    let one = dataset(1, &[(0, 200)], random_spikes(4, 1, 200, 30), 1);
    assert!(train(&one, &options(bank(&[(10.0, 1)]), 0.0), &()).is_ok());
    let step = dataset(2, &[(0, 1)], vec![(0, 0)], 1);
    refused(
        &step,
        &options(bank(&[(10.0, 0)]), 0.0),
        ErrorKind::InsufficientData,
        "1 steps for 2 features",
    );
    let decoder = train(&step, &options(bank(&[(10.0, 0)]), 1.0), &()).unwrap();
    assert_eq!(decoder.weights(), [0.0, 0.0]);
    assert_eq!(decoder.intercept(), [f64::from(step.behavior[0])]);
}

#[test]
fn emptiness_is_refused() {
    let bank = bank(&[(10.0, 1)]);
    let with = options(bank.clone(), 1.0);
    let lacking = |data: &Dataset, says| refused(data, &with, ErrorKind::InsufficientData, says);
    lacking(&dataset(3, &[(0, 50)], vec![], 1), "spikes");
    lacking(&dataset(3, &[], vec![], 1), "segment");
    lacking(&dataset(0, &[(0, 50)], vec![], 1), "channel");
    let mut blind = random(3, 50, 20);
    (blind.outputs, blind.behavior) = (vec![], vec![]);
    lacking(&blind, "behaviour");
    let late = TrainOptions {
        delay_steps: 50,
        ..with.clone()
    };
    refused(
        &random(3, 50, 20),
        &late,
        ErrorKind::InsufficientData,
        "got one of 50 steps",
    );
    for ridge in [-1.0, f64::NAN, f64::INFINITY] {
        refused(
            &random(3, 50, 20),
            &options(bank.clone(), ridge),
            ErrorKind::InvalidArgument,
            "ridge",
        );
    }
    let mut broken = random(3, 50, 20);
    broken.behavior[5] = f32::NAN;
    refused(&broken, &with, ErrorKind::NonFinite, "NaN");
}

/// Fails the test when training goes as far as its first stage.
struct NoWork;

impl betz_base::progress::Progress for NoWork {
    fn update(&self, stage: &str, _: u64, _: u64) {
        panic!("training began: {stage}");
    }
}

#[test]
fn what_could_not_be_saved_is_refused_before_the_work() {
    let wide: Vec<(f64, u32)> = (1..=260).map(|i| (f64::from(i), 0)).collect();
    let (narrow, wide) = (bank(&[(10.0, 1)]), bank(&wide));
    let mut twins = random(3, 50, 20);
    twins.channel_names[2] = "c0".into();
    let mut same = random(3, 50, 20);
    same.outputs[1].name = "x0".into();
    let many = dataset(3, &[(0, 50)], random_spikes(1, 3, 50, 20), 4097);
    let plain = random(3, 50, 20);
    let (argument, recording) = (ErrorKind::InvalidArgument, ErrorKind::InvalidRecording);
    for (data, bank, kind, says) in [
        (
            &twins,
            &narrow,
            recording,
            "[2] = `c0` is there already at [0]",
        ),
        (
            &same,
            &narrow,
            recording,
            "[1] = `x0` is there already at [0]",
        ),
        (&many, &narrow, argument, "1 to 4096 outputs, got 4097"),
        (&plain, &wide, argument, "1 to 256 filters, got 260"),
    ] {
        let with = options(bank.clone(), 1.0);
        let scores = Search::scores_only(2);
        // The bank of the options is not looked at where the search brings its own.
        let search = Search {
            banks: vec![narrow.clone(), bank.clone()],
            ..scores.clone()
        };
        let other = options(narrow.clone(), 1.0);
        for error in [
            train(data, &with, &NoWork).unwrap_err(),
            train_validated(data, &with, &scores, &NoWork).unwrap_err(),
            train_validated(data, &other, &search, &NoWork).unwrap_err(),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.message().contains(says), "{error}");
        }
    }
    // Weights of more than a gigabyte, checked before any of them is there.
    let mut heavy = dataset(1 << 17, &[(0, 2)], vec![(0, 3)], 1025);
    heavy.behavior.clear();
    refused(
        &heavy,
        &options(narrow, 1.0),
        argument,
        "weights of at most",
    );
}

#[test]
fn weights_beyond_f32_are_an_error_and_no_model() {
    // A filter of hours answers a spike by 1e-7: for behaviour at the end of f32, that is too little.
    let mut data = random(3, 400, 200);
    (data.behavior.iter_mut().enumerate()).for_each(|(i, b)| *b = [-3e38, 3e38][i / 80 % 2]);
    let with = options(bank(&[(1e7, 0)]), 0.0);
    refused(&data, &with, ErrorKind::NonFinite, "weights of channel");
}

#[test]
fn stops_on_request() {
    struct Stop;
    impl betz_base::progress::Progress for Stop {
        fn cancelled(&self) -> bool {
            true
        }
    }
    let error = train(&random(3, 50, 20), &options(bank(&[(10.0, 1)]), 1.0), &Stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

/// Seconds of parts, as training tells them.
#[derive(Default)]
struct PartSeconds(std::sync::Mutex<std::collections::BTreeMap<&'static str, f64>>);

impl betz_base::Progress for PartSeconds {
    fn wants_seconds(&self) -> bool {
        true
    }

    fn took(&self, part: &'static str, seconds: f64) {
        assert!(seconds >= 0.0, "{part}: {seconds}");
        *self.0.lock().unwrap().entry(part).or_default() += seconds;
    }
}

/// Training on the CPU and on a CUDA device tells the same parts, by either path and solver, and makes the same decoder as
/// without a clock.
#[test]
fn cuda_and_cpu_training_tell_the_seconds_of_their_parts() {
    use betz_gram::parts::{FACTOR, FILTERING, GRAM, INVERSE, UPSILON, WEIGHTS};
    let data = random(20, 4000, 6000);
    let devices = [
        Ok(betz_device::Device::cpu()),
        betz_device::Device::open("cuda".parse().unwrap()),
    ];
    for device in devices {
        let device = match device {
            Ok(device) => device,
            Err(error) => return eprintln!("skipped on CUDA: {}", error.message()),
        };
        for path in [GramPath::Dense, GramPath::Event] {
            for solver in [Solver::Cholesky, Solver::Inverse] {
                let options = TrainOptions {
                    gram: path,
                    solver,
                    ..options(bank(&[(10.0, 1), (30.0, 0)]), 1.0)
                };
                let told = PartSeconds::default();
                let timed = train_on(&device, &data, &options, &told).unwrap();
                let plain = train_on(&device, &data, &options, &()).unwrap();
                assert_eq!(timed, plain);
                let told = told.0.into_inner().unwrap();
                let mut expected = vec![GRAM, UPSILON, FACTOR, WEIGHTS];
                expected.extend((path == GramPath::Dense).then_some(FILTERING));
                expected.extend((solver == Solver::Inverse).then_some(INVERSE));
                expected.sort_unstable();
                let parts: Vec<&str> = told.keys().copied().collect();
                assert_eq!(parts, expected, "{} {path:?} {solver:?}", device.name());
                assert!(told.values().all(|s| *s > 0.0), "{told:?}");
            }
        }
    }
}
