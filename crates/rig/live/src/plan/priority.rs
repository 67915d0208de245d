//! Priority of a session's threads: `"normal"`, `"fifo:20"` or `"realtime"`.

use std::fmt;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

/// Priority of a session's threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Priority {
    /// The priority of other programs.
    #[default]
    Normal,
    /// A priority of Linux' `SCHED_FIFO`, from 1 to 99.
    Fifo(u8),
    /// The priority of professional audio on Windows (MMCSS), and of threads with a time constraint on macOS.
    Realtime,
}

impl Priority {
    /// True for the priority of other programs.
    pub(crate) fn is_normal(&self) -> bool {
        *self == Self::Normal
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "normal" => return Some(Self::Normal),
            "realtime" => return Some(Self::Realtime),
            _ => {}
        }
        let priority = text.strip_prefix("fifo:")?.parse().ok()?;
        (1..=99).contains(&priority).then_some(Self::Fifo(priority))
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("normal"),
            Self::Realtime => f.write_str("realtime"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
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
                &"\"normal\", \"fifo:1\" to \"fifo:99\" (Linux), or \"realtime\" (Windows, macOS)",
            )
        })
    }
}
