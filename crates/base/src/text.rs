//! Words of messages: numbers as people read them.

use alloc::borrow::ToOwned;
use alloc::string::String;

/// `1 channel`, `2 channels`.
///
/// ```
/// assert_eq!(betz_base::text::count(1_u32, "channel"), "1 channel");
/// assert_eq!(betz_base::text::count(0_u32, "channel"), "0 channels");
/// ```
pub fn count(number: impl Into<u128>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

/// A number with all its digits, those of very large and very small ones behind an exponent.
///
/// ```
/// use betz_base::text::number;
///
/// assert_eq!([number(0.04), number(100.0), number(1e300)], ["0.04", "100", "1e300"]);
/// ```
pub fn number(value: f64) -> String {
    // `Debug` writes an exponent exactly where `Display` fills up with zeros.
    let text = format!("{value:?}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}
