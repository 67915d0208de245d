use super::*;
use crate::kinds::{Kind, KindOptions, train_kinds_on};
use crate::options::TrainOptions;
use crate::reaches::Reaches;
use crate::search::Search;
use betz_device::Device;
use betz_gram::cases;
use betz_recording::Dataset;

/// The share of a movement that begins in the middle of the trial.
fn moved(share: f64) -> f64 {
    (2.0 * share - 1.0).max(0.0)
}

/// Trials that rest for their first half. There are hardly any spikes then: there is little to be wrong about.
fn trials(seed: u64, count: i64) -> Dataset {
    let reaches = Reaches {
        channels: 12,
        steps: 50,
        path: |share| (1.0 - (moved(share) * std::f64::consts::PI).cos()) / 2.0,
        chance: |share, along| match moved(share) > 0.0 {
            true => 0.35 + 0.33 * along,
            false => 0.02,
        },
        ..Reaches::default()
    };
    reaches.trials(seed, count)
}

fn trained(data: &Dataset, kind: Kind) -> Decoder {
    let options = TrainOptions {
        ridge: crate::options::RidgeChoice::Fixed(2.0),
        ..TrainOptions::new(cases::bank(&[(0.04, 0), (0.12, 1)]))
    };
    let kinds = KindOptions {
        latents: Some(4),
        units: Some(24),
        experts: Some(3),
        ..KindOptions::among(&[kind])
    };
    let (device, search) = (Device::cpu(), Search::scores_only(2));
    let found = train_kinds_on(&device, data, &options, &search, &kinds, &());
    found.unwrap().0.decoder
}

#[test]
fn variances_hold_on_trials_that_were_not_trained_on() {
    let (data, test) = (trials(1, 120), trials(2, 60));
    for kind in [Kind::Lift, Kind::Experts] {
        let plain = trained(&data, kind);
        let decoder = with_variance(&plain, &data, None, &()).unwrap();
        assert_eq!(decoder.head(), plain.head());
        let (a, b) = (
            decode(&plain, &test).unwrap(),
            decode(&decoder, &test).unwrap(),
        );
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-4));
        assert_eq!(variance_scores(&plain, &test).unwrap(), None);
        let scores = variance_scores(&decoder, &test).unwrap().unwrap();
        assert_eq!(scores.len(), 2);
        for score in &scores {
            assert!((0.8..0.99).contains(&score.within_90), "{score:?}");
            // At rest and moving, errors differ: one variance for both says less.
            let gain = score.of_one_variance - score.negative_log_likelihood;
            assert!(gain > 0.05 && score.correlation > 0.2, "{score:?}");
        }
        // Once more is the same, and does not add another.
        let again = with_variance(&decoder, &data, None, &()).unwrap();
        assert_eq!(
            again.parts().attachments.len(),
            decoder.parts().attachments.len()
        );
    }
}

/// The errors of a blend are its own: smaller than those of the member whose features tell them.
#[test]
fn variances_of_a_blend_are_those_of_its_own_errors() {
    let (data, test) = (trials(1, 120), trials(2, 60));
    let training = crate::Training {
        bank: Some(cases::bank(&[(0.04, 0), (0.12, 1)])),
        folds: 3,
        variance: true,
        kinds: KindOptions {
            latents: Some(4),
            units: Some(24),
            experts: Some(3),
            ..KindOptions::among(&[Kind::Linear, Kind::Lift, Kind::Experts, Kind::Blend])
        },
        ..crate::Training::default()
    };
    let decoder = training.run(&data, &Device::cpu(), &()).unwrap().decoder;
    let Head::ModelBlend(blend) = decoder.head() else {
        panic!("{}", decoder.kind())
    };
    assert!(tells_variance(&decoder));
    for score in variance_scores(&decoder, &test).unwrap().unwrap() {
        assert!((0.8..0.97).contains(&score.within_90), "{score:?}");
        let gain = score.of_one_variance - score.negative_log_likelihood;
        assert!(gain > 0.05 && score.correlation > 0.2, "{score:?}");
    }
    // Squared errors are as large as the variances say, those of the first member larger than the blend's say.
    let relative = |decoder: &Decoder| {
        let mut session = Session::open(decoder, SessionConfig::default()).unwrap();
        let (mut out, mut variances) = ([0.0; 2], [0.0; 2]);
        let (mut sum, mut count) = (0.0, 0.0);
        for segment in &test.segments {
            session.reset();
            for step in segment.start..segment.stop {
                let spikes = &test.spikes.channels[test.spikes.range(step, step + 1)];
                session.step_spikes(spikes, &mut out).unwrap();
                session.variances(&mut variances).unwrap();
                let truth = &test.behavior[step as usize * 2..][..2];
                for o in 0..2 {
                    sum += f64::from(out[o] - truth[o]).powi(2) / f64::from(variances[o]);
                    count += 1.0;
                }
            }
        }
        sum / count
    };
    let of_blend = relative(&decoder);
    assert!((0.7..1.4).contains(&of_blend), "{of_blend}");
    let of_first = relative(&blend.first(decoder.parts()).unwrap());
    assert!(of_first > of_blend, "{of_first} {of_blend}");
}

#[test]
fn what_tells_no_variance_is_refused() {
    let data = trials(3, 30);
    let options = TrainOptions::new(cases::bank(&[(0.04, 0)]));
    let linear = crate::fit::train(&data, &options, &()).unwrap();
    let error = with_variance(&linear, &data, None, &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("linear"), "{error}");
    // Residuals of 0 have no logarithm.
    let lift = trained(&data, Kind::Lift);
    let mut still = data.clone();
    still.behavior.fill(0.0);
    assert!(with_variance(&lift, &still, None, &()).is_err());
    // Nor can a single step be held apart.
    let mut short = data;
    short.segments = vec![betz_recording::Segment { start: 0, stop: 1 }];
    assert!(with_variance(&lift, &short, None, &()).is_err());
}

#[test]
fn scores_are_those_of_the_normal_density() {
    // Errors of 1 and 3 where variances are 1 and 9: both one standard deviation away.
    let score = score("x", &[(1.0, 1.0), (9.0, 9.0)]);
    let log = std::f64::consts::TAU.ln();
    let expected = 0.5 * (log + 0.5 * 9.0_f64.ln() + 1.0);
    assert!((score.negative_log_likelihood - expected).abs() < 1e-12);
    assert!((score.of_one_variance - 0.5 * (log + 5.0_f64.ln() + 1.0)).abs() < 1e-12);
    assert_eq!(score.within_90, 1.0);
    assert!((score.correlation - 1.0).abs() < 1e-12);
    assert_eq!(super::score("x", &[(4.0, 1.0), (1.0, 1.0)]).within_90, 0.5);
}
