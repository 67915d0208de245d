//! Episodes that are counted during a session, and their occurrences in its last minute.

use betz_base::error::{Error, Result};
use betz_episode::online::MinerHandle;
use betz_episode::{Alphabet, Clock, Episode, Events, Row, occurrences};
use serde_json::{Value, json};

use crate::explore::episodes::{MOST, told};
use crate::explore::recorded::DecodedRecording;
use crate::source::Source;

/// A list of episodes that a session's miner counts.
pub(crate) struct EpisodeList {
    name: String,
    miner: MinerHandle,
    alphabet: Alphabet,
}

impl EpisodeList {
    /// # Errors
    /// `Mismatch` for episodes of channels that the session does not have; the errors of [`Alphabet::new`].
    pub(crate) fn new(name: &str, miner: MinerHandle, source: &Source) -> Result<Self> {
        let clock = Clock::from_tick_seconds(source.step_seconds)?;
        let alphabet = Alphabet::new(source.channel_names.clone(), clock)?;
        let channels = alphabet.len();
        let symbols = miner.read(|m| m.symbols());
        if symbols != channels {
            return Err(Error::mismatch(format!(
                "{name}: expected episodes of the session's {channels} channels, got a miner of {symbols}"
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            miner,
            alphabet,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Number of occurrences of each episode so far, in the list's order.
    pub(crate) fn totals(&self) -> Vec<u64> {
        let now = self.miner.snapshot().watched;
        now.iter().map(|w| w.count).collect()
    }

    /// The list with its counts so far, as JSON; `seconds` is the session's duration.
    pub(crate) fn json(&self, seconds: f64) -> Value {
        let now = self.miner.snapshot();
        let numbers = now.summary;
        let rows: Vec<Value> = (now.watched.into_iter())
            .map(|w| {
                let episode = Episode {
                    pattern: w.pattern,
                    count: w.count,
                };
                let row = Row {
                    episode,
                    tested: None,
                };
                told(&row, &self.alphabet)
            })
            .collect();
        json!({
            "name": self.name, "recording": 0, "seconds": seconds, "episodes": rows,
            "live": {"events": numbers.stats.events, "dropped": numbers.dropped, "late": numbers.stats.late, "running": self.miner.is_running()},
        })
    }

    /// Times in seconds of the spikes of every occurrence in `kept`, which begins at the session's tick `first`.
    ///
    /// # Errors
    /// `InvalidArgument` for an episode that does not exist.
    pub(crate) fn occurrences(
        &self,
        episode: usize,
        kept: &DecodedRecording,
        first: i64,
    ) -> Result<Value> {
        let pattern = self.miner.read(|m| m.patterns().get(episode).cloned());
        let pattern = pattern.ok_or_else(|| {
            Error::argument(format!(
                "episode: expected a number that exists, got {episode}"
            ))
        })?;
        let spikes = &kept.dataset.spikes;
        let events = Events::new(self.alphabet.clone(), &spikes.ticks, &spikes.channels)?;
        let found = occurrences(&events, &pattern)?;
        let step = kept.dataset.step_seconds;
        let second = |t: &i64| {
            ((events.recording_tick(*t).saturating_add(first)) as f64 * step * 1e6).round() / 1e6
        };
        let times: Vec<Vec<f64>> = (found.iter().take(MOST))
            .map(|ticks| ticks.iter().map(second).collect())
            .collect();
        Ok(
            json!({"total": found.len(), "times": times, "kept_seconds": kept.dataset.steps as f64 * step}),
        )
    }
}
