//! Durations in words: `"20ms"`, `"0.5s"`, `"10min"`.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Units of a duration, and their length in seconds. `min` stands before `m…`, so that the longest name is found.
const UNITS: [(&str, f64); 6] = [
    ("min", 60.0),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("h", 3600.0),
    ("s", 1.0),
];

/// A duration of a plan: a number and its unit, such as `"20ms"`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Span(f64);

impl Span {
    /// A duration of so many seconds.
    pub const fn from_seconds(seconds: f64) -> Self {
        Self(seconds)
    }

    /// Length in seconds.
    pub const fn seconds(self) -> f64 {
        self.0
    }

    /// Length for the system's calls.
    pub fn duration(self) -> Duration {
        Duration::try_from_secs_f64(self.0).unwrap_or(Duration::MAX)
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (number, scale) = (UNITS.iter())
            .find_map(|(name, scale)| text.strip_suffix(name).map(|number| (number, scale)))?;
        let number: f64 = number.trim().parse().ok()?;
        let seconds = number * scale;
        (seconds.is_finite() && seconds >= 0.0).then_some(Self(seconds))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            s if s == 0.0 || s >= 1.0 => (1.0, "s"),
            s if s >= 1e-3 => (1e3, "ms"),
            _ => (1e6, "us"),
        };
        // Rounded to twelve digits, so that 20 ms are not written as 20.000000000000004 ms.
        let value = self.0 * scale;
        let rounded = format!("{value:.12}");
        let rounded = rounded.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{rounded}{unit}")
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with its unit, such as \"20ms\", \"0.5s\" or \"10min\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                Span::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Words)
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn durations_are_read_and_written() {
        for (text, seconds, written) in [
            ("20ms", 0.02, "20ms"),
            ("0.5 s", 0.5, "500ms"),
            ("10min", 600.0, "600s"),
            ("2h", 7200.0, "7200s"),
            ("250us", 0.000_25, "250us"),
            ("0s", 0.0, "0s"),
        ] {
            let span = Span::parse(text).unwrap();
            assert!((span.seconds() - seconds).abs() < 1e-12, "{text}");
            assert_eq!(span.to_string(), written);
            assert_eq!(Span::parse(written).unwrap().to_string(), written);
        }
        for text in ["", "20", "ms", "-1s", "1 day", "infs", "nan s"] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }
}
