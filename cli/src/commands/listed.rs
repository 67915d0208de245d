//! Episodes in and out of `betz mine`: files of given ones, and how they are listed.

use std::path::Path;

use betz::episode::{Events, Interval, Pattern, read_patterns};
use betz::{Error, Result};
use serde::Serialize;

/// One episode as the contract names it.
#[derive(Serialize)]
pub(super) struct Listed {
    symbols: Vec<String>,
    /// [low, high] in seconds, one an edge.
    intervals: Vec<[f64; 2]>,
    count: u64,
}

/// The episodes of a `--count-only` file.
pub(super) fn given(events: &Events, intervals: &[Interval], path: &Path) -> Result<Vec<Pattern>> {
    let default = match intervals {
        [] => None,
        [one] => Some(*one),
        more => {
            return Err(Error::argument(format!(
                "--count-only: expected one --interval for the edges without their own, got {}",
                more.len()
            )));
        }
    };
    read_patterns(path, events.alphabet(), default)
}

/// `pattern` and its count, for the list.
pub(super) fn list(pattern: &Pattern, count: u64, events: &Events) -> Listed {
    let (alphabet, clock) = (events.alphabet(), events.clock());
    Listed {
        symbols: pattern
            .symbols()
            .iter()
            .map(|&s| alphabet.label(s).to_string())
            .collect(),
        intervals: pattern
            .intervals()
            .iter()
            .map(|i| [clock.seconds(i.low), clock.seconds(i.high)])
            .collect(),
        count,
    }
}
