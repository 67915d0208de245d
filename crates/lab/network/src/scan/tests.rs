//! Tests of the strongest pairs of a window.

use super::*;

#[test]
fn a_value_that_f32_cannot_hold_is_decided_also_where_all_pairs_are_kept() {
    let found = [(0, 1, 0.5), (0, 2, f32::INFINITY), (1, 2, -0.25)];
    let exact = |i, j| match (i, j) {
        (0, 1) => Some(0.5),
        (0, 2) => Some(5e38),
        _ => Some(-0.25),
    };
    let bound = |value: f64| {
        if value.is_finite() {
            1e-6
        } else {
            f64::INFINITY
        }
    };
    for count in [1, 2, 3, 10] {
        let (kept, decided) = strongest_of(found.into_iter(), (count, &bound), f64::abs, exact);
        assert_eq!(kept.len(), count.min(3));
        let largest = kept.iter().find(|c| (c.i, c.j) == (0, 2));
        assert_eq!(largest.map(|c| c.value), Some(5e38), "{count} pairs");
        assert!(decided >= 1);
    }
}
