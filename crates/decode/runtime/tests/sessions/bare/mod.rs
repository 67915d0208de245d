//! The example without a standard library expects the estimates of sessions that have it.

mod steps;

use steps::{EXPECTED, MODELS};

#[test]
fn the_example_without_a_standard_library_expects_these_estimates() {
    let sums = MODELS.map(|model| {
        let mut session = steps::open(model).unwrap();
        steps::step(&mut session).unwrap()
    });
    assert_eq!(
        sums.map(f64::to_bits),
        EXPECTED.map(f64::to_bits),
        "{sums:?}"
    );
}
