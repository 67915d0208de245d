//! Priority of a session's threads: `"normal"` or `"fifo:20"`.

use std::fmt;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

/// Priority of `SCHED_FIFO`, from 1 to 99; `None` for that of other programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Priority(pub Option<u8>);

impl Priority {
    /// True for the priority of other programs.
    pub(super) fn is_normal(&self) -> bool {
        self.0.is_none()
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "normal" {
            return Some(Self(None));
        }
        let priority = text.strip_prefix("fifo:")?.parse().ok()?;
        (1..=99).contains(&priority).then_some(Self(Some(priority)))
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("normal"),
            Some(priority) => write!(f, "fifo:{priority}"),
        }
    }
}

impl Serialize for Priority {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &"\"normal\", or \"fifo:1\" to \"fifo:99\"",
            )
        })
    }
}
