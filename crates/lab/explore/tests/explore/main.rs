//! Every function against plain loops, on one list of recordings.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
mod events;
mod oracle;
mod refusals;
mod trains;
mod tuning;

/// Asserts that two lists are equal up to rounding; NaN equals NaN.
fn assert_close(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}: number of values");
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        let same = f.is_nan() && w.is_nan() || (f - w).abs() <= 1e-9 * w.abs().max(1.0);
        assert!(same, "{what}[{i}]: expected {w}, got {f}");
    }
}
