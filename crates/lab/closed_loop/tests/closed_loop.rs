//! The loop: decoders that are broken, users that are slow, faults, and setups that are refused.

#![allow(clippy::unwrap_used, clippy::panic)]

use betz_closed_loop::{
    Decoder, Fault, FaultKind, Kalman, KalmanConfig, Loop, Ole, Setup, Task, TrainingData, Units,
    UnitsConfig, User, intention, reaches,
};

struct Answers(f64);

impl Decoder for Answers {
    fn reset(&mut self) {}
    fn step(&mut self, _: &[u32], _: [f64; 2]) -> [f64; 2] {
        [self.0; 2]
    }
}

struct ReversedKalman(Kalman);

impl Decoder for ReversedKalman {
    fn reset(&mut self) {
        self.0.reset();
    }
    fn step(&mut self, counts: &[u32], cursor: [f64; 2]) -> [f64; 2] {
        self.0.step(counts, cursor).map(|v| -v)
    }
}

fn small() -> Setup {
    Setup {
        units: UnitsConfig {
            neurons: 60,
            ..UnitsConfig::default()
        },
        user: User {
            delay_s: 0.1,
            ..User::default()
        },
        ..Setup::default()
    }
}

fn test_loop(setup: &Setup) -> Loop {
    Loop::new(setup, Units::tuned(&setup.units, setup.seed).unwrap()).unwrap()
}

fn calibration(setup: &Setup) -> TrainingData {
    let mut units = Units::tuned(&setup.units, setup.seed).unwrap();
    reaches(setup, &mut units, 60).unwrap()
}

#[test]
fn broken_decoders_fail_their_trials_and_no_more() {
    let setup = small();
    for (answer, non_finite) in [(0.0, false), (f64::NAN, true), (f64::INFINITY, true)] {
        let session = test_loop(&setup).run(&mut Answers(answer), 2).unwrap();
        // The second target is the centre, where a cursor that never moved still stands.
        assert!(!session.trials[0].success, "{answer}");
        assert_eq!(session.non_finite > 0, non_finite);
        assert!(session.log.iter().all(|b| b.cursor == [0.0; 2]));
    }
    let kalman = Kalman::train(&calibration(&setup), KalmanConfig::default()).unwrap();
    let session = test_loop(&setup)
        .run(&mut ReversedKalman(kalman), 3)
        .unwrap();
    assert!(session.trials.iter().all(|t| !t.success));
    let edge = setup.workspace_cm;
    assert!(
        session
            .log
            .iter()
            .all(|b| b.cursor.iter().all(|c| c.abs() <= edge))
    );
}

#[test]
fn loops_run_with_no_delay_a_long_one_and_a_target_on_the_border() {
    for (delay_s, least) in [(0.0, 0.9), (1.0, 0.0)] {
        let mut setup = small();
        setup.user.delay_s = delay_s;
        let mut decoder = Ole::train(&calibration(&setup), 0.05, 1e-3).unwrap();
        let session = test_loop(&setup).run(&mut decoder, 10).unwrap();
        let success = session.scores(1).success;
        assert!(success.mean >= least, "{delay_s}: {success:?}");
        assert!(success.low <= success.mean && success.mean <= success.high);
    }
    let mut setup = small();
    setup.workspace_cm = 8.0;
    let mut decoder = Ole::train(&calibration(&setup), 0.05, 1e-3).unwrap();
    let session = test_loop(&setup).run(&mut decoder, 10).unwrap();
    assert!(session.scores(1).success.mean > 0.8);
}

#[test]
fn the_same_seed_gives_the_same_session() {
    let setup = small();
    let data = calibration(&setup);
    let session = || {
        let mut decoder = Kalman::train(&data, KalmanConfig::default()).unwrap();
        test_loop(&setup).run(&mut decoder, 6).unwrap()
    };
    let first = session();
    assert_eq!(first, session());
    let other = Setup { seed: 2, ..setup };
    let mut decoder = Kalman::train(&data, KalmanConfig::default()).unwrap();
    assert_ne!(
        first.log,
        test_loop(&other).run(&mut decoder, 6).unwrap().log
    );
}

#[test]
fn intention_labels_mend_a_wrong_first_decoder() {
    let setup = small();
    let mut data = calibration(&setup);
    // A decoder trained on labels turned by 50 degrees.
    let (sin, cos) = 50f64.to_radians().sin_cos();
    for bin in &mut data.bins {
        let [x, y] = bin.velocity;
        bin.velocity = [cos * x - sin * y, sin * x + cos * y];
    }
    let mut wrong = Kalman::train(&data, KalmanConfig::default()).unwrap();
    let session = test_loop(&setup).run(&mut wrong, 24).unwrap();
    let mut mended = Kalman::train(&intention(&session), KalmanConfig::default()).unwrap();
    let after = test_loop(&setup).run(&mut mended, 24).unwrap();
    let angle = |s: &betz_closed_loop::Session| s.scores(1).angular_error_deg.mean;
    assert!(
        angle(&after) < 0.8 * angle(&session),
        "{} {}",
        angle(&after),
        angle(&session)
    );
}

#[test]
fn faults_strike_when_they_should() {
    let mut setup = small();
    let at = |at_s, kind| Fault { at_s, kind };
    setup.faults = vec![
        at(1.0, FaultKind::LoseUnits { count: 60 }),
        at(0.5, FaultKind::LostBins { probability: 0.5 }),
    ];
    let mut decoder = Ole::train(&calibration(&small()), 0.05, 1e-3).unwrap();
    let session = test_loop(&setup).run(&mut decoder, 3).unwrap();
    let spikes =
        |bins: &[betz_closed_loop::Bin]| -> u32 { bins.iter().flat_map(|b| &b.counts).sum() };
    assert!(spikes(&session.log[..40]) > 0);
    assert_eq!(spikes(&session.log[40..]), 0);
    assert!(session.lost_bins > 10);
    setup.faults = vec![
        at(0.0, FaultKind::LateBins { probability: 0.3 }),
        at(
            0.0,
            FaultKind::GainDrift {
                low: 0.9,
                high: 1.1,
            },
        ),
        at(0.0, FaultKind::Noise { rate_hz: 5.0 }),
    ];
    let session = test_loop(&setup).run(&mut decoder, 6).unwrap();
    assert!(session.late_bins > 10 && session.lost_bins == 0);
    assert!(session.scores(1).success.mean > 0.5);
}

#[test]
fn setups_that_are_none_are_refused() {
    let refuse = |change: &dyn Fn(&mut Setup), words: &str| {
        let mut setup = small();
        change(&mut setup);
        let units = Units::tuned(&setup.units, 1);
        let error = units.and_then(|u| Loop::new(&setup, u)).unwrap_err();
        assert!(
            error.message().contains(words),
            "{words:?} is not in {error}"
        );
    };
    refuse(&|s| s.bin_s = 0.0, "bin above 0");
    refuse(&|s| s.bin_s = 0.0003, "whole steps");
    refuse(&|s| s.bin_s = f64::NAN, "bin above 0");
    refuse(&|s| s.workspace_cm = 7.9, "within 7.9 cm");
    refuse(&|s| s.user.delay_s = -0.1, "delay");
    refuse(&|s| s.user.gain_per_s = f64::NAN, "user");
    refuse(&|s| s.units.neurons = 0, "neurons");
    refuse(&|s| s.units.max_rate_hz = [20.0, 900.0], "rates below");
    refuse(
        &|s| {
            s.task = Task::Pinball {
                half_side: 5.0,
                radius: 0.0,
                hold_s: 0.5,
                limit_s: 3.0,
            };
        },
        "radius above 0",
    );
    let drift = FaultKind::GainDrift {
        low: 2.0,
        high: 1.0,
    };
    for (at_s, kind) in [
        (-1.0, FaultKind::Noise { rate_hz: 1.0 }),
        (0.0, FaultKind::LoseUnits { count: 61 }),
        (0.0, drift),
        (0.0, FaultKind::LostBins { probability: 1.5 }),
    ] {
        refuse(&|s| s.faults = vec![Fault { at_s, kind }], "fault");
    }
    assert!(test_loop(&small()).run(&mut Answers(0.0), 0).is_err());
    let few = TrainingData {
        bin_s: 0.025,
        bins: Vec::new(),
    };
    assert!(Ole::train(&few, 0.1, 0.0).is_err());
    assert!(Kalman::train(&few, KalmanConfig::default()).is_err());
}
