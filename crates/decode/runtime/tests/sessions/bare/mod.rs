//! The example without a standard library expects the estimates of sessions that have it.

mod steps;

use steps::{EXPECTED, MODELS};

#[test]
fn the_example_without_a_standard_library_expects_these_estimates() {
    let sums = MODELS.map(|model| {
        let mut session = steps::open(model).unwrap();
        steps::step(&mut session).unwrap()
    });
    let is_near = |(sum, expected): (&f64, f64)| (sum - expected).abs() <= 1e-9 * expected.abs();
    assert!(
        sums.iter().zip(EXPECTED).all(is_near),
        "expected {EXPECTED:?}, got {sums:?}"
    );
}
