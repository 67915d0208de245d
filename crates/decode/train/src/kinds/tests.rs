use super::lifts::Lifts;
use super::nonlinear::Nonlinear;
use super::teams::Teams;
use super::*;
use betz_base::ErrorKind;
use betz_gram::cases::without_ranges;
use betz_gram::decode::decode;
use betz_gram::score::{mean_r2, score_estimates};
use betz_recording::{Dataset, OutputInfo, Segment, Spikes};
use betz_runtime::model::{Decoder, Head};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Reaches to one of four places from rest, by 24 neurons that prefer directions of movement: a decoder that
/// knows when nothing moves does better than a linear one.
pub(super) fn reaches(trials: usize, seed: u64) -> Dataset {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (length, neurons) = (24_i64, 24_u32);
    let mut spikes = Spikes::default();
    let mut behavior = Vec::new();
    let mut segments = Vec::new();
    for trial in 0..trials as i64 {
        let angle = f64::from(random.random_range(0..4_u32)) * std::f64::consts::FRAC_PI_2 + 0.3;
        let onset = random.random_range(6..14_i64);
        let (start, mut at) = (trial * length, 0.0);
        segments.push(Segment {
            start,
            stop: start + length,
        });
        for step in 0..length {
            let t = (step - onset) as f64;
            let speed = if (0.0..6.0).contains(&t) {
                (std::f64::consts::PI * (t + 0.5) / 6.0).sin()
            } else {
                0.0
            };
            at += speed * 10.0;
            let (x, y) = (at * angle.cos(), at * angle.sin());
            let (vx, vy) = (100.0 * speed * angle.cos(), 100.0 * speed * angle.sin());
            behavior.extend([x, y, vx, vy].map(|v| v as f32));
            // A step before it, the neurons say how fast and where to.
            let ahead = t + 1.0;
            let drive = if (0.0..6.0).contains(&ahead) {
                (std::f64::consts::PI * (ahead + 0.5) / 6.0).sin()
            } else {
                0.0
            };
            for neuron in 0..neurons {
                let preferred = f64::from(neuron) / f64::from(neurons) * std::f64::consts::TAU;
                let rate = 0.6 + drive * (1.2 + 1.2 * (angle - preferred).cos());
                let mut left = rate;
                while random.random::<f64>() < left / (1.0 + left) {
                    spikes.ticks.push(start + step);
                    spikes.channels.push(neuron);
                    left *= 0.8;
                }
            }
        }
    }
    let unit = |name: &str, unit: &str| OutputInfo {
        name: name.into(),
        unit: unit.into(),
    };
    Dataset {
        step_seconds: 0.1,
        steps: trials * length as usize,
        channel_names: (0..neurons).map(|c| format!("n{c}")).collect(),
        spikes,
        segments,
        outputs: vec![
            unit("x", "mm"),
            unit("y", "mm"),
            unit("vx", "mm/s"),
            unit("vy", "mm/s"),
        ],
        behavior,
    }
}

pub(super) fn options() -> TrainOptions {
    TrainOptions::new(betz_gram::cases::bank(&[(0.02, 0), (0.1, 1), (0.4, 0)]))
}

pub(super) fn score(decoder: &Decoder, data: &Dataset) -> f64 {
    let estimates = decode(decoder, data).unwrap();
    mean_r2(
        &score_estimates(data, &estimates, decoder.delay_steps())
            .unwrap()
            .outputs,
    )
}

pub(super) fn trained(data: &Dataset, kinds: &KindOptions) -> (Decoder, Comparison) {
    let search = Search {
        folds: 3,
        ..Search::ridge()
    };
    let trained = train_kinds_on(&Device::cpu(), data, &options(), &search, kinds, &());
    let (trained, comparison) = trained.unwrap();
    (trained.decoder, comparison)
}

#[test]
fn nonlinear_kinds_decode_what_they_were_not_trained_on_as_cross_validation_says() {
    let (data, aside) = (reaches(120, 1), reaches(60, 2));
    // Other choices of cross-validation have tests of their own.
    let auto = KindOptions {
        latents: Some(6),
        units: Some(64),
        experts: Some(6),
        ..KindOptions::choice()
    };
    let (decoder, comparison) = trained(&data, &auto);
    assert_eq!(comparison.kinds.len(), 3);
    let linear = &comparison.kinds[0];
    assert_eq!((linear.kind, linear.gain), (Kind::Linear, 0.0));
    // The gain is that of the scores, fold by fold; nonlinear kinds gain here.
    for kind in &comparison.kinds[1..] {
        assert!((kind.gain - (kind.r2 - linear.r2)).abs() < 0.01, "{kind:?}");
        assert!(kind.gain > 2.0 * kind.gain_error && kind.gain_error > 0.0);
        assert!(kind.multiply_adds > linear.multiply_adds);
    }
    let best = comparison.kinds.iter().map(|k| k.r2).fold(0.0, f64::max);
    let taken = comparison
        .kinds
        .iter()
        .find(|k| k.kind == comparison.taken)
        .unwrap();
    assert_eq!(taken.r2, best);
    assert_eq!(decoder.kind(), comparison.taken.name());
    assert_eq!(decoder.training().scores, taken.scores);
    // Scores over folds know no ranges.
    let held_out = score(&without_ranges(decoder.clone()), &aside);
    assert!(
        (held_out - taken.r2).abs() < 0.06,
        "aside {held_out}, by folds {}",
        taken.r2
    );
    // The same again, bit for bit.
    assert_eq!(trained(&data, &auto).0, decoder);
    for kind in [Kind::Lift, Kind::Experts] {
        let (alone, of) = trained(
            &data,
            &KindOptions {
                kinds: vec![kind],
                ..auto.clone()
            },
        );
        assert_eq!((alone.kind(), of.taken), (kind.name(), kind));
        assert!(score(&alone, &aside) > linear.r2);
    }
}

#[test]
fn a_decoder_says_what_training_saw() {
    // Delays and pieces of one segment: the estimates of the finished decoder are those of its readout.
    let mut data = reaches(60, 3);
    for (segments, delay_steps) in [
        (data.segments.clone(), 2),
        (
            vec![Segment {
                start: 0,
                stop: 1440,
            }],
            -1,
        ),
    ] {
        data.segments = segments;
        let options = TrainOptions {
            delay_steps,
            ..options()
        };
        let search = Search {
            folds: 3,
            ..Search::ridge()
        };
        let data = &data.view();
        let found =
            validate::cross_validate_banks(&Device::cpu(), data, &options, &search, &()).unwrap();
        let behind = Nonlinear::new(*data, &options, &found, 12, &()).unwrap();
        let whole = behind.whole(&()).unwrap();
        let lifts = Lifts::new(Some(6), Some(32), 5);
        let (winner, _) = behind.enter(&lifts, None, &()).unwrap();
        let config = winner.config;
        assert_as_fitted_anew(&lifts, behind.split(), &winner);
        let fitted = family::fit(&lifts, behind.all(&whole), &config, &()).unwrap();
        let walk = behind.all(&whole).walk(fitted.plan.latents).unwrap();
        let pass = crate::readout::Pass::new(
            walk,
            &fitted.basis,
            &fitted.mean,
            fitted.plan.tau_seconds.as_slice(),
        );
        let mut expected = vec![f32::NAN; data.steps * 4];
        let readout = (&fitted.readout.weights[..], &fitted.readout.intercept[..]);
        pass.estimate(readout, &|_| true, &mut expected, &())
            .unwrap();
        let head = model::lift(&fitted, 5);
        let decoder = behind
            .decoder((&whole, fitted.plan.latents), head, Vec::new())
            .unwrap();
        assert!(matches!(decoder.head(), Head::Lift(_)));
        let got = decode(&without_ranges(decoder), data).unwrap();
        for (i, (g, e)) in got.iter().zip(&expected).enumerate() {
            assert!((g - e).abs() < 0.05, "value {i}: {g}, expected {e}");
        }
        let teams = Teams::new(data, Some(5), Some(4), 5);
        let (winner, _) = behind.enter(&teams, None, &()).unwrap();
        let config = winner.config;
        assert_as_fitted_anew(&teams, behind.split(), &winner);
        let fitted = family::fit(&teams, behind.all(&whole), &config, &()).unwrap();
        let walk = behind.all(&whole).walk(fitted.plan.latents).unwrap();
        let pass = crate::readout::Pass::new(
            walk,
            &fitted.basis,
            &fitted.mean,
            fitted.plan.tau_seconds.as_slice(),
        );
        let readout = (&fitted.readout.weights[..], &fitted.readout.intercept[..]);
        pass.estimate(readout, &|_| true, &mut expected, &())
            .unwrap();
        let head = model::experts(&fitted, 5);
        let decoder = behind
            .decoder((&whole, fitted.plan.latents), head, Vec::new())
            .unwrap();
        let got = decode(&without_ranges(decoder), data).unwrap();
        for (i, (g, e)) in got.iter().zip(&expected).enumerate() {
            assert!((g - e).abs() < 0.05, "value {i}: {g}, expected {e}");
        }
    }
}

/// The readouts that a race leaves estimate the folds as the winner does, fitted to each of them again.
fn assert_as_fitted_anew<F: family::Family>(
    family: &F,
    split: &super::split::Split<'_>,
    winner: &super::race::Winner<F::Config>,
) {
    let left = family::estimates_of(split, &winner.readouts, &()).unwrap();
    let anew = family::held_out(family, split, &winner.config, &()).unwrap();
    for (a, b) in left.iter().zip(&anew) {
        assert!(
            (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-3,
            "{a} {b}"
        );
    }
    assert!(left.iter().any(|v| v.is_finite()));
}

#[test]
fn the_linear_decoder_is_taken_where_nothing_is_gained() {
    let score = |kind, r2, gain, gain_error| KindScore {
        kind,
        configuration: String::new(),
        scores: Vec::new(),
        r2,
        gain,
        gain_error,
        weight: None,
        over_time: Vec::new(),
        median_error: None,
        multiply_adds: 0.0,
    };
    let linear = score(Kind::Linear, 0.6, 0.0, 0.0);
    let auto = KindOptions::choice();
    let table =
        |lift: KindScore, experts: KindScore| taken(&[linear.clone(), lift, experts], &auto);
    let small = score(Kind::Lift, 0.62, 0.02, 0.011);
    assert_eq!(
        table(small.clone(), score(Kind::Experts, 0.61, 0.01, 0.001)),
        Kind::Linear
    );
    assert_eq!(
        table(small.clone(), score(Kind::Experts, 0.63, 0.03, 0.011)),
        Kind::Experts
    );
    assert_eq!(
        table(
            score(Kind::Lift, f64::NAN, f64::NAN, f64::NAN),
            score(Kind::Experts, 0.5, -0.1, 0.01)
        ),
        Kind::Linear
    );
    let only = KindOptions::among(&[Kind::Lift]);
    assert_eq!(taken(&[linear, small], &only), Kind::Lift);
}

#[test]
fn times_are_expected_of_what_was_asked_and_follow_the_steps() {
    let times = |trials, kinds: &[Kind]| {
        let (data, options, search) = (reaches(trials, 1), options(), Search::ridge());
        let kinds = KindOptions::among(kinds);
        TimeShares::new(&Device::cpu(), &data.view(), (&options, &search), &kinds)
    };
    let few = times(20, &[Kind::Linear, Kind::Kalman, Kind::Lift]);
    let many = times(200, &[Kind::Linear, Kind::Kalman, Kind::Lift]);
    let ratio = many.of(Kind::Kalman) as f64 / few.of(Kind::Kalman) as f64;
    assert!((ratio - 10.0).abs() < 0.01, "{ratio}");
    assert!(many.linear > few.linear && many.lift > few.lift);
    assert_eq!([many.of(Kind::Experts), many.of(Kind::Place)], [0; 2]);
    let parts = many.of(Kind::Kalman) + many.latents + many.lift + many.finish;
    assert_eq!(many.after_linear(), parts);
    let both = times(
        200,
        &[Kind::Linear, Kind::Kalman, Kind::Lift, Kind::Experts],
    );
    assert!(both.of(Kind::Experts) > 0 && both.after_linear() > parts);
}

#[test]
fn options_out_of_range_and_data_without_movement_are_refused() {
    let data = reaches(20, 1);
    let refused = |data: &Dataset, kinds: &KindOptions| {
        let search = Search::ridge();
        let error =
            train_kinds_on(&Device::cpu(), data, &options(), &search, kinds, &()).unwrap_err();
        (error.kind(), error.message().to_owned())
    };
    let base = KindOptions::choice();
    for kinds in [
        KindOptions {
            latents: Some(0),
            ..base.clone()
        },
        KindOptions {
            latents: Some(65),
            ..base.clone()
        },
        KindOptions {
            units: Some(0),
            ..base.clone()
        },
        KindOptions {
            units: Some(1_000_000),
            ..base.clone()
        },
        KindOptions {
            experts: Some(1),
            ..base.clone()
        },
        KindOptions {
            kinds: vec![],
            ..base.clone()
        },
    ] {
        let (kind, message) = refused(&data, &kinds);
        assert_eq!(kind, ErrorKind::InvalidArgument, "{message}");
        assert!(message.contains("expected"), "{message}");
    }
    let mut still = data.clone();
    still.behavior.fill(2.0);
    let lift = KindOptions::among(&[Kind::Lift]);
    assert_eq!(refused(&still, &lift).0, ErrorKind::InsufficientData);
    // The linear decoder is trained where others cannot be.
    let (_, compared) = trained(&still, &base);
    assert_eq!(compared.taken, Kind::Linear);
    assert!(
        compared
            .left_out
            .unwrap()
            .contains("expected outputs that change")
    );
    // Of a recording of one trial there are pieces.
    let mut one = data;
    one.segments = vec![Segment {
        start: 0,
        stop: 400,
    }];
    let (decoder, _) = trained(
        &one,
        &KindOptions {
            latents: Some(64),
            units: Some(16),
            ..KindOptions::among(&[Kind::Lift])
        },
    );
    assert!(decoder.latents() <= 27);
}

/// The configuration of the recurrent decoder.
fn configuration(compared: &Comparison) -> &str {
    let mut kinds = compared.kinds.iter();
    let recurrent = kinds.find(|score| score.kind == Kind::Recurrent);
    recurrent.map_or("", |score| &score.configuration)
}

#[test]
fn networks_that_compete_over_folds_of_trials_are_scored_early() {
    let longer = KindOptions {
        layers: Some(vec![16]),
        mixed: Some(0),
        epochs: Some(30),
        ..KindOptions::among(&[Kind::Linear, Kind::Recurrent])
    };
    let compared = trained(&reaches(80, 3), &longer).1;
    assert!(configuration(&compared).ends_with("scored after 20 of 30 epochs"));
}

/// The choice of one kind is that of the blend's members which decodes best what comes after its training.
#[test]
fn the_best_kind_is_that_which_decodes_best_what_it_was_not_trained_on() {
    let kinds = KindOptions {
        latents: Some(4),
        units: Some(32),
        experts: Some(3),
        layers: Some(vec![16]),
        mixed: Some(0),
        epochs: Some(10),
        ..KindOptions::best()
    };
    let (decoder, compared) = trained(&reaches(80, 3), &kinds);
    assert_eq!(compared.kinds.len(), 4);
    let best = (compared.kinds.iter()).reduce(|a, b| if b.r2 > a.r2 { b } else { a });
    let best = best.unwrap();
    assert_eq!(
        (compared.taken, decoder.kind()),
        (best.kind, best.kind.name())
    );
    assert_eq!(decoder.training().scores, best.scores);
    for score in &compared.kinds {
        let expected = f64::from(u8::from(score.kind == best.kind));
        assert_eq!(score.weight, Some(expected));
    }
    // Without movement there is nothing to choose by.
    let mut still = reaches(40, 1);
    still.behavior.fill(1.0);
    let (decoder, _) = trained(&still, &kinds);
    assert_eq!(decoder.kind(), "linear");
}
