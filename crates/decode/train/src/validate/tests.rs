//! Cross-validation against training on the rest and decoding what was held out.

use super::*;
use crate::fit::train;
use betz_base::error::ErrorKind;
use betz_gram::decode::decode;
use betz_gram::psc::oracle;
use betz_gram::score::scores;
use betz_gram::solve::MaskPolicy;
use betz_gram::{cases, evaluate};
use betz_recording::{Dataset, Segment};

/// Behaviour that the responses explain but for a slow wave.
fn data(segments: &[(i64, i64)]) -> Dataset {
    let steps = segments.last().unwrap().1;
    let spikes = cases::random_spikes(3, 6, steps, steps as usize);
    let mut data = cases::dataset(6, segments, spikes, 2);
    let a = oracle::responses(&data, &bank(), None).unwrap();
    let columns = data.steps_in_segments();
    let mut column = 0;
    for s in data.segments.clone() {
        for t in s.start..s.stop {
            for o in 0..2 {
                let terms = (0..12).map(|f| ((f * 5 + o) % 7) as f64 * a[f * columns + column]);
                data.behavior[t as usize * 2 + o] += terms.sum::<f64>() as f32 * 20.0;
            }
            column += 1;
        }
    }
    data
}

fn bank() -> FilterBank {
    cases::bank(&[(10.0, 1), (40.0, 0)])
}

fn trials() -> Vec<(i64, i64)> {
    (0..23).map(|i| (i * 60, i * 60 + 40 + i % 17)).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-4 * b.abs().max(1e-3)
}

#[test]
fn scores_are_those_of_training_on_the_rest_and_decoding_what_was_held_out() {
    let data = data(&trials());
    let options = TrainOptions {
        ridge: RidgeChoice::Noise(0.01),
        delay_steps: 2,
        ..TrainOptions::new(bank())
    };
    let found = cross_validate(&data, &options, &Search::scores_only(4), &()).unwrap();
    assert_eq!(found.folds, 4);
    let split = folds(&data.segments, 4, 0, 0).unwrap();
    let (mut truth, mut estimate) = (vec![], vec![]);
    for fold in &split.folds {
        let with = |keep: &dyn Fn(&Segment) -> bool| {
            let mut part = data.clone();
            part.segments.retain(|s| keep(s));
            part
        };
        let rest = with(&|s| !fold.iter().any(|p| p.segment == *s));
        let decoder = train(&rest, &options, &()).unwrap();
        // Scores over folds know no ranges.
        let decoded = decode(&cases::without_ranges(decoder), &data).unwrap();
        for s in fold.iter().map(|p| p.segment) {
            for t in s.start + 2..s.stop {
                truth.extend_from_slice(&data.behavior[(t as usize - 2) * 2..][..2]);
                estimate.extend_from_slice(&decoded[t as usize * 2..][..2]);
            }
        }
    }
    let expected = scores(&data.outputs, &truth, &estimate).unwrap();
    for (got, expected) in found.scores.iter().zip(&expected) {
        assert!(close(got.r2, expected.r2), "{got:?} {expected:?}");
        assert!(close(got.rmse, expected.rmse));
        assert!(close(got.nrmse_range, expected.nrmse_range));
    }
    // And the R² that ridges and banks are compared by is the same, from the sums alone.
    assert!(close(
        found.bank_r2[0],
        betz_gram::score::mean_r2(&expected)
    ));
}

#[test]
fn the_bank_that_made_the_behaviour_wins_with_a_small_ridge() {
    for segments in [trials(), vec![(0, 1300)]] {
        let data = data(&segments);
        let banks = vec![cases::bank(&[(3.0, 0)]), bank(), cases::bank(&[(400.0, 0)])];
        let search = Search {
            banks,
            ..Search::ridge()
        };
        let options = TrainOptions::new(cases::bank(&[(1.0, 0)]));
        let found = cross_validate(&data, &options, &search, &()).unwrap();
        assert_eq!(found.bank, bank());
        assert_eq!(found.bank_r2.len(), 3);
        assert!(found.bank_r2[1] > found.bank_r2[0].max(found.bank_r2[2]));
        let decoder = train_validated(&data, &options, &search, &()).unwrap();
        assert_eq!(*decoder.bank(), bank());
        assert_eq!(decoder.training().ridge, found.ridge);
        assert_eq!(decoder.training().scores, found.scores);
        assert_eq!(decoder.training().folds, 5);
        assert_eq!(decoder.training().steps, data.steps_in_segments() as u64);
        // Held-out data are decoded a little worse than training data.
        let seen = evaluate(&decoder, &data).unwrap();
        for (seen, held) in seen.outputs.iter().zip(&found.scores) {
            assert!(
                seen.r2 > held.r2 && held.r2 > 0.5,
                "{} {}",
                seen.r2,
                held.r2
            );
        }
        let again = TrainOptions {
            bank: bank(),
            ridge: RidgeChoice::Fixed(found.ridge),
            ..options
        };
        let direct = train(&data, &again, &()).unwrap();
        let largest = direct.weights().iter().fold(0.0f64, |m, w| m.max(w.abs()));
        for (a, b) in decoder.weights().iter().zip(direct.weights()) {
            assert!((a - b).abs() < 1e-4 * largest, "{a} {b}");
        }
    }
}

#[test]
fn ridges_too_small_to_solve_with_are_passed_over() {
    // Two filters a millionth apart: without a ridge worth the name Γ is singular.
    let data = data(&trials());
    let twins = cases::bank(&[(40.0, 0), (40.000_001, 0)]);
    let options = TrainOptions {
        ridge: RidgeChoice::Fixed(0.0),
        ..TrainOptions::new(twins)
    };
    let error = cross_validate(&data, &options, &Search::scores_only(3), &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotPositiveDefinite, "{error}");
    let found = cross_validate(&data, &options, &Search::ridge(), &()).unwrap();
    assert!(found.ridge > 0.0 && found.bank_r2[0] > 0.3, "{found:?}");
}

#[test]
fn behaviour_that_never_changes_has_no_scores_but_a_decoder() {
    let mut data = data(&trials());
    data.behavior.fill(3.0);
    let options = TrainOptions::new(bank());
    let decoder = train_validated(&data, &options, &Search::ridge(), &()).unwrap();
    assert!(
        decoder
            .training()
            .scores
            .iter()
            .all(|s| s.r2.is_nan() && s.rmse < 1e-3)
    );
    assert!(decoder.intercept().iter().all(|c| (c - 3.0).abs() < 1e-6));
}

#[test]
fn too_little_data_is_refused() {
    let data = data(&[(0, 1)]);
    let options = TrainOptions::new(bank());
    let error = cross_validate(&data, &options, &Search::ridge(), &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData, "{error}");
    let mut far = self::data(&trials());
    far.segments.truncate(9);
    let options = TrainOptions {
        delay_steps: 1000,
        ..options
    };
    let error = cross_validate(&far, &options, &Search::ridge(), &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData, "{error}");
}

#[test]
fn the_ridge_that_is_reported_is_the_one_of_all_the_data_though_folds_leave_steps_out() {
    // One segment is cut, and the guards between its pieces belong to no fold.
    let data = data(&[(0, 1300)]);
    let all = data.steps_in_segments() as f64;
    let ridge_of = |ridge| {
        let options = TrainOptions {
            ridge,
            ..TrainOptions::new(bank())
        };
        let decoder = train_validated(&data, &options, &Search::scores_only(5), &()).unwrap();
        assert_eq!(decoder.training().steps as f64, all);
        decoder.training().ridge
    };
    assert!(close(ridge_of(RidgeChoice::Fixed(7.0)), 7.0));
    assert!(close(ridge_of(RidgeChoice::Noise(0.2)), 0.2 * 0.2 * all));
}

#[test]
fn noise_in_parts_of_the_largest_response_follows_the_bank() {
    let data = data(&trials());
    let banks = [bank(), cases::bank(&[(400.0, 0)])];
    let options = TrainOptions {
        ridge: RidgeChoice::RelativeNoise(0.3),
        ..TrainOptions::new(cases::bank(&[(1.0, 0)]))
    };
    let scores = |banks: &[FilterBank]| {
        let search = Search {
            banks: banks.to_vec(),
            ..Search::scores_only(4)
        };
        cross_validate(&data, &options, &search, &())
            .unwrap()
            .bank_r2
    };
    let together = scores(&banks);
    for (bank, r2) in banks.iter().zip(together) {
        assert_eq!(scores(std::slice::from_ref(bank)), [r2]);
        let sigma = 0.3 * betz_gram::largest_response(&data, bank);
        let given = TrainOptions {
            ridge: RidgeChoice::Noise(sigma),
            bank: bank.clone(),
            ..options.clone()
        };
        let found = cross_validate(&data, &given, &Search::scores_only(4), &()).unwrap();
        assert!(close(found.bank_r2[0], r2));
    }
}

#[test]
fn a_ridge_below_zero_or_not_finite_is_refused() {
    let data = data(&trials());
    for wrong in [-0.1, f64::NAN, f64::INFINITY] {
        for ridge in [
            RidgeChoice::Fixed(wrong),
            RidgeChoice::Noise(wrong),
            RidgeChoice::RelativeNoise(wrong),
        ] {
            let options = TrainOptions {
                ridge,
                ..TrainOptions::new(bank())
            };
            let search = Search::scores_only(4);
            let validated = train_validated(&data, &options, &search, &()).unwrap_err();
            let plain = train(&data, &options, &()).unwrap_err();
            for error in [validated, plain] {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(error.message().contains("at least 0"), "{error}");
            }
        }
    }
}

#[test]
fn a_training_set_without_a_response_is_said_to_have_none() {
    let mut data = data(&trials());
    let only = data.segments[1];
    let inside = |t: &i64| (only.start..only.stop).contains(t);
    let kept = data.spikes.ticks.iter().zip(&data.spikes.channels);
    let (ticks, channels) = kept
        .filter(|(t, _)| inside(t))
        .map(|(t, c)| (*t, *c))
        .unzip();
    (data.spikes.ticks, data.spikes.channels) = (ticks, channels);
    let options = TrainOptions {
        mask: MaskPolicy::Mask,
        ..TrainOptions::new(bank())
    };
    let search = Search {
        folds: data.segments.len(),
        ..Search::ridge()
    };
    let error = cross_validate(&data, &options, &search, &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotPositiveDefinite);
    assert!(
        error.message().contains("neither dead nor a copy"),
        "{error}"
    );
}

#[test]
fn a_cuda_device_finds_what_the_cpu_finds() {
    let Ok(device) = Device::cuda(0) else {
        eprintln!("no CUDA device: nothing is cross-validated on one");
        return;
    };
    for (segments, ridge) in [(trials(), true), (vec![(0, 1300)], true), (trials(), false)] {
        let data = data(&segments);
        let search = Search {
            banks: vec![cases::bank(&[(3.0, 0)]), bank(), cases::bank(&[(400.0, 0)])],
            ridge,
            ..Search::ridge()
        };
        let options = TrainOptions {
            ridge: RidgeChoice::Noise(0.01),
            ..TrainOptions::new(bank())
        };
        let by = |device| {
            let trained = train_validated_on(device, &data, &options, &search, &()).unwrap();
            assert_eq!(trained.ran.device, device.name());
            trained.decoder
        };
        let (there, here) = (by(&device), by(&Device::cpu()));
        assert_eq!(there.bank(), here.bank());
        assert_eq!(there.channel_mask(), here.channel_mask());
        assert_eq!(there.training().folds, here.training().folds);
        // The unexplained variance is small, so that sums in f32 have a larger relative error.
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * b.abs();
        assert!(near(there.training().ridge, here.training().ridge));
        let size = here.weights().iter().fold(0.0, |s: f64, w| s.max(w.abs()));
        for (a, b) in there.weights().iter().zip(here.weights()) {
            assert!((a - b).abs() <= 1e-4 * size, "{a} {b}");
        }
        for (a, b) in there.training().scores.iter().zip(&here.training().scores) {
            assert!(
                (a.r2 - b.r2).abs() <= 1e-5 && near(a.rmse, b.rmse),
                "{a:?} {b:?}"
            );
        }
    }
}
