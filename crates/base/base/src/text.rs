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

/// `text` with zeros in place of the negative zeros that rounding left in it: `0.00` for `-0.00`.
///
/// ```
/// use betz_base::text::without_negative_zeros;
///
/// assert_eq!(without_negative_zeros("-0 ms, -0.00 to -0.01"), "0 ms, 0.00 to -0.01");
/// assert_eq!(without_negative_zeros("run-0.npz, -0.5, 1e-0"), "run-0.npz, -0.5, 1e-0");
/// ```
pub fn without_negative_zeros(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('-') {
        let (before, sign) = rest.split_at(at);
        let behind = sign.trim_start_matches('-');
        let digits = behind.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &behind[..behind.len() - digits.len()];
        kept.push_str(before);
        let stands_alone = !kept.ends_with(|c: char| c.is_alphanumeric() || c == '-')
            && sign.len() == behind.len() + 1
            && number.starts_with('0')
            && !digits.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_');
        let is_zero = number.trim_start_matches(['0', '.']).is_empty();
        if !(stands_alone && is_zero) {
            kept.push_str(&sign[..sign.len() - behind.len()]);
        }
        kept.push_str(number);
        rest = digits;
    }
    kept.push_str(rest);
    kept
}
