//! Mined episodes: the list and the occurrences of each.

use betz_base::error::{Error, Result};
use betz_episode::{Alphabet, Events, Row, occurrences};
use serde_json::{Value, json};

/// Largest number of occurrences in one answer.
pub(crate) const MOST: usize = 20_000;

/// Episodes that were mined from a recording.
#[derive(Debug, Clone)]
pub struct MinedEpisodes {
    /// Name to show, such as a file's name.
    pub name: String,
    /// Number of the recording among those shown.
    pub recording: usize,
    /// Spikes of the recording as they were mined; symbols are channels.
    pub events: Events,
    /// Rows of the episode list, as in its file.
    pub rows: Vec<Row>,
}

impl MinedEpisodes {
    /// # Errors
    /// `Mismatch` if the events cannot contain the episodes, or if the recording is not shown.
    pub(crate) fn check(&self, recordings: usize) -> Result<()> {
        if self.recording >= recordings {
            return Err(Error::mismatch(format!(
                "{}: expected episodes of one of {recordings} recordings, got number {}",
                self.name, self.recording
            )));
        }
        (self.rows.iter()).try_for_each(|row| {
            (row.episode.pattern.check(&self.events)).map_err(|e| e.at(&self.name))
        })
    }

    /// The list as JSON; `seconds` is the recording's duration.
    pub(crate) fn json(&self, seconds: f64) -> Value {
        let alphabet = self.events.alphabet();
        let rows: Vec<Value> = self.rows.iter().map(|row| told(row, alphabet)).collect();
        json!({"name": self.name, "recording": self.recording, "seconds": seconds, "episodes": rows})
    }

    /// Times of the spikes of every occurrence, in seconds of the recording.
    ///
    /// # Errors
    /// `InvalidArgument` for an episode that does not exist.
    pub(crate) fn occurrences(&self, episode: usize) -> Result<Value> {
        let row = self.rows.get(episode).ok_or_else(|| {
            Error::argument(format!(
                "expected one of {} episodes, got number {episode}",
                self.rows.len()
            ))
        })?;
        let found = occurrences(&self.events, &row.episode.pattern)?;
        let tick = self.events.clock().tick_seconds();
        // Rounded to a microsecond, because a page draws no finer.
        let second = |t: &i64| (self.events.recording_tick(*t) as f64 * tick * 1e6).round() / 1e6;
        let times: Vec<Vec<f64>> = (found.iter().take(MOST))
            .map(|ticks| ticks.iter().map(second).collect())
            .collect();
        Ok(json!({"total": found.len(), "times": times}))
    }
}

pub(crate) fn told(row: &Row, alphabet: &Alphabet) -> Value {
    let pattern = &row.episode.pattern;
    let labels: Vec<&str> = (pattern.symbols().iter())
        .map(|s| alphabet.label(*s))
        .collect();
    let clock = alphabet.clock();
    let intervals = pattern.intervals();
    let low: Vec<f64> = intervals.iter().map(|i| clock.seconds(i.low)).collect();
    let high: Vec<f64> = intervals.iter().map(|i| clock.seconds(i.high)).collect();
    let tested = row.tested.as_ref();
    json!({
        "channels": pattern.symbols(), "labels": labels, "low": low, "high": high,
        "count": row.episode.count, "expected": tested.map(|t| t.expected), "std": tested.map(|t| t.std),
        "p": tested.map(|t| t.p), "q": tested.map(|t| t.q),
    })
}
