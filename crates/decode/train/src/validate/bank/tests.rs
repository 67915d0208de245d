//! Sums of parts, and ridges that are left out.

use super::*;
use betz_gram::cases;

#[test]
fn sums_of_short_parts_are_those_up_to_their_ends_less_those_before() {
    let bounds = [(0, 400), (400, 700)];
    let data = cases::dataset(6, &bounds, cases::random_spikes(3, 6, 700, 700), 2);
    let bank = cases::bank(&[(10.0, 1), (40.0, 0)]);
    // Parts of one step, neighbours, one at each border of the trials; histories from the trials' starts.
    let runs = [
        (30, 31),
        (35, 60),
        (61, 62),
        (399, 400),
        (401, 402),
        (690, 700),
    ];
    let parts = runs.map(|(start, stop)| Part {
        segment: Segment { start, stop },
        from: if start < 400 { 0 } else { 400 },
    });
    for delay_steps in [-20, 0, 3, 35] {
        let options = TrainOptions {
            delay_steps,
            ..TrainOptions::new(bank.clone())
        };
        let study = Study {
            placement: &Placement::cpu(),
            data: data.view(),
            options: &options,
            search_ridge: false,
            progress: &(),
        };
        let mut expected = NormalEquations::zeros(12, 2);
        for part in &parts {
            let sums = |stop| {
                let start = part.from;
                let stretch = [Segment { start, stop }];
                let data = data.view().with_segments(&stretch);
                betz_gram::gram::oracle::normal_equations(data, &bank, None, delay_steps).unwrap()
            };
            expected.add(&sums(part.segment.stop)).unwrap();
            expected.subtract(&sums(part.segment.start)).unwrap();
        }
        let refs: Vec<&Part> = parts.iter().collect();
        let found = study.sums_of_short(&bank, &refs).unwrap();
        assert_eq!(found.steps, expected.steps, "{delay_steps}");
        let pairs = [
            (&found.gram, &expected.gram),
            (&found.upsilon, &expected.upsilon),
            (&found.feature_sum, &expected.feature_sum),
            (&found.output_sum, &expected.output_sum),
            (&found.output_sq_sum, &expected.output_sq_sum),
        ];
        for (found, expected) in pairs {
            let most = expected.iter().fold(1e-9_f64, |most, v| most.max(v.abs()));
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() < 1e-5 * most, "{delay_steps}: {a} {b}");
            }
        }
    }
}

#[test]
fn ridges_that_are_far_behind_are_dropped() {
    let r2 = |left: &[f64]| 1.0 - left[0];
    let singular = || Err(Error::argument("singular"));
    let mut residual = vec![Ok(vec![0.3]), Ok(vec![0.295]), singular(), Ok(vec![0.31])];
    drop_far_behind(&mut residual, r2, 0.01);
    assert_eq!(residual[0], Ok(vec![0.3]));
    assert_eq!(residual[1], Ok(vec![0.295]));
    assert!(residual[2].is_err());
    assert_eq!(residual[3], Ok(vec![f64::INFINITY]));
    let mut unknown = vec![Ok(vec![f64::NAN]), Ok(vec![f64::NAN])];
    drop_far_behind(&mut unknown, r2, 0.01);
    assert!(
        unknown
            .iter()
            .all(|left| left.as_ref().is_ok_and(|l| l[0].is_nan()))
    );
}
