//! The episodes that `betz mine` counts: given ones, or all that are frequent.

use betz::episode::count::Counter;
use betz::episode::{
    Alphabet, Clock, Episode, Interval, MineOptions, MiningResult, Pattern, mine_by,
};
use betz::{Error, Progress, Result};

use super::args::Mine;
use super::listed::given;
use crate::parse;

/// Most bytes that one event of a chunk takes while it is read, moved and indexed.
pub(super) const BYTES_AN_EVENT: u64 = 64;

/// The episodes to count.
pub(super) enum Targets {
    /// These episodes.
    Given(Vec<Pattern>),
    /// The frequent ones over these intervals.
    Frequent(Vec<Interval>),
}

impl Targets {
    pub(super) fn new(args: &Mine, intervals: Vec<Interval>, alphabet: &Alphabet) -> Result<Self> {
        Ok(match &args.count_only {
            Some(path) => Self::Given(given(alphabet, &intervals, path)?),
            None if intervals.is_empty() => {
                return Err(Error::argument(
                    "--interval: expected at least one, got none",
                ));
            }
            None => Self::Frequent(intervals),
        })
    }

    /// Longest delay of any edge in ticks; 1 if there is no edge.
    pub(super) fn longest_delay(&self) -> i64 {
        let longest = match self {
            Self::Given(patterns) => {
                let edges = patterns.iter().flat_map(Pattern::intervals);
                edges.map(|i| i.high).max()
            }
            Self::Frequent(intervals) => intervals.iter().map(|i| i.high).max(),
        };
        longest.unwrap_or(1)
    }
}

/// The counts of the given episodes, or the frequent ones.
pub(super) fn count_wanted(
    args: &Mine,
    counter: &dyn Counter,
    targets: Targets,
    progress: &dyn Progress,
) -> Result<MiningResult> {
    let patterns = match targets {
        Targets::Given(patterns) => patterns,
        Targets::Frequent(intervals) => {
            let options = MineOptions {
                max_size: args.max_size,
                ..MineOptions::new(intervals, args.threshold.unwrap_or(1))
            };
            return mine_by(counter, &options, progress);
        }
    };
    let counts = counter.count(&patterns, None, progress)?;
    let episodes = patterns.into_iter().zip(counts);
    Ok(MiningResult {
        episodes: episodes
            .map(|(pattern, count)| Episode { pattern, count })
            .collect(),
        levels: Vec::new(),
        complete: true,
        ran: counter.ran(),
    })
}

/// The intervals of the command line, on `clock`.
pub(super) fn parse_intervals(texts: &[String], clock: Clock) -> Result<Vec<Interval>> {
    let interval = |text: &String| {
        let (low, high) = parse::seconds_pair("--interval", text)?;
        Interval::from_seconds(low, high, clock).map_err(|e| e.at("--interval"))
    };
    texts.iter().map(interval).collect()
}
