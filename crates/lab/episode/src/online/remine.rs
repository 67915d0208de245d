//! Finding episodes to watch: mining the window, and choosing among the frequent episodes in it.

use std::cmp::Reverse;

use super::OnlineMiner;
use crate::alphabet::Alphabet;
use crate::candidates::check_intervals;
use crate::clock::Clock;
use crate::events::Events;
use crate::mine::{MineOptions, MiningResult, mine_within};
use crate::pattern::{Episode, Interval, Pattern};
use betz_base::error::{Error, Result};
use betz_base::progress::Progress;

/// Options by which the watch list follows the recent past: a sliding window is mined again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReminingOptions {
    /// Length of the window in ticks. At least as long as the longest episode of `max_size` may
    /// last, and one tick. The silence that a [`Session`](betz_runtime::stream::Session) puts between trials
    /// is time, too; [`replay`](super::replay) puts hardly any.
    pub window_ticks: i64,
    /// The window holds at most this many events, the newest.
    pub window_events: usize,
    /// Mine when this many ticks of the events' time have gone by since the last mining began. The first time is
    /// that many ticks after the miner's thread first sees an event.
    pub every_ticks: i64,
    /// The set I of intervals.
    pub intervals: Vec<Interval>,
    /// Episodes with at least this count in the window are frequent.
    pub threshold: u64,
    /// Smallest episodes to watch.
    pub min_size: usize,
    /// Largest episodes to search for.
    pub max_size: usize,
    /// Length of the watch list at most. Longer episodes go first; among equally long ones those
    /// with the higher count in the window; among those, by [`Pattern`]'s order.
    pub max_episodes: usize,
}

impl ReminingOptions {
    /// Checks that the numbers make sense together.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the field.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::argument(format!("re-mining: {what}")));
        if self.intervals.is_empty() {
            return refuse("expected at least one interval".to_owned());
        }
        check_intervals(&self.intervals).map_err(|e| e.at("re-mining"))?;
        if self.min_size == 0 || self.max_size < self.min_size {
            return refuse(format!(
                "expected 1 <= min_size <= max_size, got {} and {}",
                self.min_size, self.max_size
            ));
        }
        if self.threshold == 0 || self.max_episodes == 0 || self.every_ticks < 1 {
            return refuse(format!(
                "expected threshold, max_episodes and every_ticks of at least 1, got {}, {} and {}",
                self.threshold, self.max_episodes, self.every_ticks
            ));
        }
        let high = self.intervals.iter().map(|i| i.high).max().unwrap_or(0);
        let longest = i128::from(high) * (self.max_size as i128 - 1);
        if i128::from(self.window_ticks) <= longest {
            return refuse(format!(
                "an episode of {} symbols may last {longest} ticks: expected a longer window than {} ticks",
                self.max_size, self.window_ticks
            ));
        }
        Ok(())
    }

    /// Mines `events`, (tick, symbol) pairs in time order, in at most `max_bytes` besides them, and chooses what
    /// to watch; `None` when there is no event, or `progress` cancelled.
    pub(super) fn search(
        &self,
        symbols: usize,
        events: &[(i64, u32)],
        max_bytes: usize,
        progress: &dyn Progress,
    ) -> Result<Option<Vec<Pattern>>> {
        let Some(&(first, _)) = events.first() else {
            return Ok(None);
        };
        // Labels and clock are never looked at: everything stays in symbols and ticks.
        let labels = (0..symbols).map(|s| s.to_string()).collect();
        let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(1.0)?)?;
        let (ticks, names): (Vec<i64>, Vec<u32>) =
            events.iter().map(|&(t, s)| (t - first, s)).unzip();
        let events = Events::new(alphabet, &ticks, &names)?;
        let mut options = MineOptions::new(self.intervals.clone(), self.threshold);
        options.max_size = Some(self.max_size);
        let mined = mine_within(max_bytes, &events, &options, progress)?;
        Ok(mined.complete.then(|| self.choose(mined)))
    }

    fn choose(&self, mined: MiningResult) -> Vec<Pattern> {
        let mut episodes = mined.episodes;
        episodes.retain(|e| e.pattern.size() >= self.min_size);
        episodes.sort_by(|a, b| {
            let rank = |e: &Episode| (Reverse(e.pattern.size()), Reverse(e.count));
            rank(a)
                .cmp(&rank(b))
                .then_with(|| a.pattern.cmp(&b.pattern))
        });
        episodes.truncate(self.max_episodes);
        episodes.into_iter().map(|e| e.pattern).collect()
    }
}

impl OnlineMiner {
    /// Mines the window and changes the watch list accordingly ([`OnlineMiner::watch`]); false when
    /// the list stays because the window is empty or `progress` cancelled. Takes as long as mining takes:
    /// a thread that may not wait uses [`open`](super::open).
    ///
    /// # Errors
    /// As [`ReminingOptions::check`], [`mine`](crate::mine) and [`OnlineMiner::watch`].
    pub fn remine(&mut self, remining: &ReminingOptions, progress: &dyn Progress) -> Result<bool> {
        remining.check()?;
        let found = remining.search(self.symbols(), &self.window_events(), usize::MAX, progress)?;
        match found {
            Some(patterns) => self.watch(&patterns).map(|()| true),
            None => Ok(false),
        }
    }
}
