//! Selects and orders a recording's channels to match those of a model.

use std::collections::HashMap;

use super::Recording;
use betz_base::error::{Error, Result};

/// True if `names` are the generated names of a file without names, `ch0`, `ch1` …, which only give the position.
pub fn invented_channel_names(names: &[String]) -> bool {
    !names.is_empty() && invented(names.iter(), "ch")
}

/// True if every name is `stem` followed by its position.
pub(crate) fn invented<'a>(mut names: impl Iterator<Item = &'a String>, stem: &str) -> bool {
    let mut number = Decimal::default();
    names.all(|name| {
        let ours = name.strip_prefix(stem) == Some(number.text());
        number.advance();
        ours
    })
}

/// Generated names for the channels of a file without names.
#[cfg(any(test, feature = "npz"))]
pub(crate) fn invented_names(channels: usize) -> Vec<String> {
    let mut number = Decimal::default();
    let name = |_| {
        let name = ["ch", number.text()].concat();
        number.advance();
        name
    };
    (0..channels).map(name).collect()
}

/// A decimal number that counts up in place; takes a tenth of the time of formatting each number.
struct Decimal(String);

impl Default for Decimal {
    fn default() -> Self {
        Self("0".into())
    }
}

impl Decimal {
    fn text(&self) -> &str {
        &self.0
    }

    fn advance(&mut self) {
        let kept = self.0.trim_end_matches('9').len();
        let nines = self.0.len() - kept;
        self.0.truncate(kept);
        let digit = self.0.pop().map_or(1, |d| d as u8 - b'0' + 1);
        self.0.push(char::from(b'0' + digit));
        self.0.extend(std::iter::repeat_n('0', nines));
    }
}

impl Recording {
    /// Selects the channels named `wanted`, in that order.
    ///
    /// A wanted channel is a channel of the recording with that name, or a multi-unit channel of units that are all in
    /// the recording; its name joins theirs by `+` (`u3+u7`), as [`Recording::combine`] does. Other channels are left
    /// out. If either side has only generated names ([`invented_channel_names`]), channels are matched by position;
    /// both sides must then have the same number. Allocates one new recording, unless names and order agree.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if wanted channels are missing, with their names;
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if a unit is wanted twice.
    pub fn with_channels(self, wanted: &[String]) -> Result<Self> {
        if self.channel_names == wanted {
            return Ok(self);
        }
        if invented_channel_names(wanted) || invented_channel_names(&self.channel_names) {
            let joined = wanted.iter().any(|name| name.contains('+'));
            if self.channels() == wanted.len() {
                let mut seen = self;
                seen.channel_names = wanted.to_vec();
                return Ok(seen);
            }
            if !joined {
                return Err(Error::mismatch(format!(
                    "channels: expected {}, got {}, and by name they cannot be told: names are invented",
                    wanted.len(),
                    self.channels()
                )));
            }
        }
        let number: HashMap<&str, u32> = self
            .channel_names
            .iter()
            .zip(0..)
            .map(|(name, i)| (name.as_str(), i))
            .collect();
        let mut groups = Vec::with_capacity(wanted.len());
        let mut missing = Vec::new();
        for name in wanted {
            let group = match number.get(name.as_str()) {
                Some(&channel) => Some(vec![channel]),
                None => name
                    .split('+')
                    .map(|unit| number.get(unit).copied())
                    .collect(),
            };
            match group {
                Some(group) => groups.push(group),
                None => missing.push(name.as_str()),
            }
        }
        if !missing.is_empty() {
            let shown = missing.len().min(5);
            let rest = match missing.len() - shown {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return Err(Error::mismatch(format!(
                "channels: {} of the {} expected are not among the recording's {}: {}{rest}",
                missing.len(),
                wanted.len(),
                self.channels(),
                missing[..shown].join(", "),
            )));
        }
        let mut seen = self.combine(&groups)?;
        seen.channel_names = wanted.to_vec();
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Segment, SpikeForm, Spikes};
    use super::*;

    fn abc() -> Recording {
        Recording {
            tick_seconds: 0.001,
            ticks: 10,
            spikes: Spikes::new(vec![0, 1, 4, 9], vec![0, 2, 1, 2]),
            channel_names: ["a", "b", "c"].map(String::from).to_vec(),
            behavior: None,
            segments: vec![Segment { start: 0, stop: 10 }],
            electrode_um: None,
            form: SpikeForm::Events,
            meta: None,
        }
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn invented_names_are_numbered() {
        let expected: Vec<String> = (0..12_345).map(|c| format!("ch{c}")).collect();
        assert_eq!(invented_names(12_345), expected);
        assert!(invented_channel_names(&expected));
        assert!(!invented_channel_names(&expected[1..]));
        assert!(!invented_channel_names(&names(&["ch0", "ch01"])));
    }

    #[test]
    fn names_decide_not_positions() {
        let seen = abc().with_channels(&names(&["c", "a"])).unwrap();
        assert_eq!(seen.spikes.ticks, [0, 1, 9]);
        assert_eq!(seen.spikes.channels, [1, 0, 0]);
        assert_eq!(seen.channel_names, ["c", "a"]);
        assert_eq!(
            abc().with_channels(&names(&["a", "b", "c"])).unwrap(),
            abc()
        );
    }

    #[test]
    fn multi_unit_names_are_combined() {
        let seen = abc().with_channels(&names(&["a+c", "b"])).unwrap();
        assert_eq!(seen.spikes.channels, [0, 0, 1, 0]);
        assert_eq!(seen.channel_names, ["a+c", "b"]);
    }

    #[test]
    fn missing_and_doubled_channels_are_named() {
        let error = abc().with_channels(&names(&["a", "x", "b+y"])).unwrap_err();
        assert!(error.message().contains("2 of the 3"), "{error}");
        assert!(error.message().contains("x, b+y"), "{error}");
        assert!(abc().with_channels(&names(&["a+b", "a"])).is_err());
    }

    #[test]
    fn invented_names_are_positions_and_need_the_same_number() {
        let mut unnamed = abc();
        unnamed.channel_names = names(&["ch0", "ch1", "ch2"]);
        let seen = unnamed
            .clone()
            .with_channels(&names(&["x", "y", "z"]))
            .unwrap();
        assert_eq!(seen.channel_names, ["x", "y", "z"]);
        assert_eq!(seen.spikes, unnamed.spikes);
        let seen = abc().with_channels(&unnamed.channel_names).unwrap();
        assert_eq!(seen.spikes, abc().spikes);
        for wanted in [names(&["ch0", "ch1"]), names(&["x", "y"])] {
            let error = unnamed.clone().with_channels(&wanted).unwrap_err();
            assert!(error.message().contains("expected 2, got 3"), "{error}");
        }
        assert!(abc().with_channels(&names(&["ch0", "ch1"])).is_err());
        // Multi-unit channels are matched by the numbers of the units in them.
        let groups = unnamed.with_channels(&names(&["ch0+ch2", "ch1"])).unwrap();
        assert_eq!(groups.channels(), 2);
    }
}
