//! Values of options that several commands have: times, and lists of numbers, ranges and names.
//!
//! | value | examples | meaning |
//! |---|---|---|
//! | time | `0.05`, `50ms`, `2s`, `1.5min` | seconds, or a number with us, ms, s or min |
//! | list | `3,7..9`, `800..` | numbers from 0 and half-open ranges: `7..9` is 7 and 8, `800..` goes to the end |
//! | span of time | `-0.5s..1s` | from the first time to the second |

use std::ops::Range;

use betz::{Error, Result};

/// Units of time, longest name first, and their number in a second.
const UNITS: [(&str, f64); 5] = [
    ("min", 1.0 / 60.0),
    ("us", 1e6),
    ("µs", 1e6),
    ("ms", 1e3),
    ("s", 1.0),
];

/// A number with a unit of time, in seconds; `None` without a unit.
pub(crate) fn seconds_with_unit(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, per_second) = UNITS
        .iter()
        .find_map(|(unit, per_second)| Some((text.strip_suffix(unit)?, per_second)))?;
    let number: f64 = number
        .trim_end()
        .parse()
        .ok()
        .filter(|n: &f64| n.is_finite())?;
    // Divided, not multiplied: 50ms is then the number that 0.05 is.
    Some(number / per_second)
}

/// A time: seconds, or a number with its unit.
pub(crate) fn seconds(text: &str) -> std::result::Result<f64, String> {
    (text.trim().parse().ok())
        .or_else(|| seconds_with_unit(text))
        .ok_or_else(|| format!("expected a time such as 0.05 (seconds), 50ms or 2s, got {text:?}"))
}

/// [`seconds`] above 0.
pub(crate) fn positive_seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = seconds(text)?;
    match seconds > 0.0 && seconds.is_finite() {
        true => Ok(seconds),
        false => Err(format!("expected a time above 0 s, got {text:?}")),
    }
}

/// A time: microseconds, or a number with its unit.
pub(crate) fn microseconds(text: &str) -> std::result::Result<f64, String> {
    let plain = text.trim().parse().ok();
    plain
        .or_else(|| seconds_with_unit(text).map(|seconds| seconds * 1e6))
        .ok_or_else(|| format!("expected a time such as 1000 (microseconds) or 1ms, got {text:?}"))
}

/// Two times as `FROM..TO`, in seconds.
pub(crate) fn seconds_span(text: &str) -> std::result::Result<(f64, f64), String> {
    let expected = || format!("expected FROM..TO such as -0.5s..1s, FROM first, got {text:?}");
    let (from, to) = text.split_once("..").ok_or_else(expected)?;
    let (from, to) = (seconds(from)?, seconds(to)?);
    match from < to && from.is_finite() && to.is_finite() {
        true => Ok((from, to)),
        false => Err(expected()),
    }
}

/// Two numbers as `LOW,HIGH`.
pub(crate) fn pair(option: &str, text: &str) -> Result<(f64, f64)> {
    pair_of(option, text, |number| number.trim().parse().ok())
}

/// Two times as `LOW,HIGH`, in seconds.
pub(crate) fn seconds_pair(option: &str, text: &str) -> Result<(f64, f64)> {
    pair_of(option, text, |time| seconds(time).ok())
}

fn pair_of(option: &str, text: &str, value: impl Fn(&str) -> Option<f64>) -> Result<(f64, f64)> {
    let parsed = text.split_once(',');
    match parsed.and_then(|(a, b)| Some((value(a)?, value(b)?))) {
        Some((low, high)) if low <= high => Ok((low, high)),
        _ => Err(Error::argument(format!(
            "{option}: expected LOW,HIGH with LOW <= HIGH, got '{text}'"
        ))),
    }
}

/// One entry of a list: a number below `count`, or a half-open range (`7..9`, `7..`, `..9`) that is not empty.
pub(crate) fn range(item: &str, count: usize) -> Option<Range<usize>> {
    let number = |text: &str| {
        let text = text.trim();
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<usize>().ok()).flatten()
    };
    let range = match item.split_once("..") {
        Some((first, last)) => {
            let or = |text: &str, open| match text.trim() {
                "" => Some(open),
                text => number(text),
            };
            or(first, 0)?..or(last, count)?
        }
        None => {
            let one = number(item)?;
            one..one.checked_add(1)?
        }
    };
    (!range.is_empty() && range.end <= count).then_some(range)
}

/// Numbers below `count` of a list such as `0..800,805`, ascending, none twice.
pub(crate) fn ranges(option: &str, list: &str, count: usize) -> Result<Vec<usize>> {
    let mut wanted = Vec::new();
    for item in list.split(',') {
        wanted.extend(range(item, count).ok_or_else(|| {
            Error::argument(format!(
                "{option}: expected numbers and half-open ranges below {count}, such as 0..800,805; got '{item}'"
            ))
        })?);
    }
    wanted.sort_unstable();
    wanted.dedup();
    Ok(wanted)
}

/// Channels of a list of names, numbers and ranges, in its order, none twice. A name goes before a number.
pub(crate) fn channels(option: &str, list: &str, names: &[String]) -> Result<Vec<usize>> {
    let mut wanted: Vec<usize> = Vec::new();
    for item in list.split(',').map(str::trim) {
        let named = names.iter().position(|name| name == item).map(|n| n..n + 1);
        let found = named.or_else(|| range(item, names.len())).ok_or_else(|| {
            Error::argument(format!(
                "{option}: expected names of channels, numbers or half-open ranges below {}, such as 3,7..9; got '{item}'",
                names.len()
            ))
        })?;
        for channel in found {
            if !wanted.contains(&channel) {
                wanted.push(channel);
            }
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_or_are_seconds() {
        for (text, wanted) in [
            ("0.05", 0.05),
            ("50ms", 0.05),
            ("-50 ms", -0.05),
            ("2s", 2.0),
            ("1e-3s", 0.001),
            ("1.5min", 90.0),
            ("250us", 0.00025),
            ("250µs", 0.00025),
            (" 3 ", 3.0),
        ] {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for text in [
            "", "s", "5 m", "ms50", "1,5s", "2h", "nans", "infs", "50msec",
        ] {
            assert!(seconds(text).is_err(), "{text} was accepted");
        }
        assert_eq!(microseconds("1000"), Ok(1000.0));
        assert_eq!(microseconds("1ms"), Ok(1000.0));
        assert!(positive_seconds("0").is_err() && positive_seconds("-1s").is_err());
        assert_eq!(seconds_span("-0.5s..1s"), Ok((-0.5, 1.0)));
        assert_eq!(seconds_span("-500ms..2"), Ok((-0.5, 2.0)));
        for text in ["1..0", "0..0", "1", "..1", "0..", "nan..1", "0..inf"] {
            assert!(seconds_span(text).is_err(), "{text} was accepted");
        }
        assert_eq!(
            seconds_pair("--interval", "4ms,0.006").unwrap(),
            (0.004, 0.006)
        );
        assert!(seconds_pair("--interval", "6ms,4ms").is_err());
        assert!(pair("--rates", "1ms,2ms").is_err());
    }

    #[test]
    fn ranges_are_half_open_and_checked() {
        assert_eq!(ranges("--segments", "0..3,5", 6).unwrap(), [0, 1, 2, 5]);
        assert_eq!(ranges("--segments", "4..", 6).unwrap(), [4, 5]);
        assert_eq!(ranges("--segments", "5, ..2,1", 6).unwrap(), [0, 1, 5]);
        for bad in [
            "6",
            "2..2",
            "a",
            "0..7",
            "-1",
            "",
            "1..2..3",
            "+1",
            "99999999999999999999",
        ] {
            assert!(ranges("--segments", bad, 6).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn channels_go_by_name_or_number() {
        let names = ["7", "left", "right", "a..b"].map(str::to_owned);
        let channels = |list: &str| channels("--channels", list, &names);
        assert_eq!(channels("left, 2,7").unwrap(), [1, 2, 0]);
        assert_eq!(channels("2,left,right,1").unwrap(), [2, 1]);
        assert_eq!(channels("a..b,0..2").unwrap(), [3, 0, 1]);
        assert_eq!(channels("2..").unwrap(), [2, 3]);
        for bad in ["", "4", "left,,right", "up", "-1", "2..5"] {
            assert!(channels(bad).is_err(), "{bad} was accepted");
        }
    }
}
