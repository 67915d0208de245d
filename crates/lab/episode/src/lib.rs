//! Frequent episodes of spikes: which neurons fire in which order, at which delays, how often.
//!
//! ```text
//! .csv, Recording ──► Events ──► count (one Strategy) ──► counts of given patterns
//!                       │            ▲
//!                       ├──► mine ───┘ levelwise ──► frequent episodes ──► graph, occurrences
//!                       │                                 └──► significance (surrogates)
//! event by event ───────┴──► online ──► counts at any moment
//! ```
//!
//! A serial episode is an ordered list of symbols with an interval (low, high] on every edge: an
//! occurrence takes one event for each symbol, and every delay Δ between neighbours satisfies
//! low < Δ ≤ high. Two occurrences overlap unless one ends *strictly* before the other starts. The
//! **count** of an episode is the size of the largest set of occurrences of which no two overlap
//! (Patnaik et al. 2008; Feng et al., "Temporal Data Mining for Neuroscience", §1.2). A [`Frequency`] names other
//! definitions.
//!
//! Time is integer ticks throughout, and order is strict: events of one tick never follow each
//! other, so that no count depends on how a file orders its ties. Every [`count::Strategy`] is
//! exact, and all of them are tested against the [`oracle`].
//!
//! ```
//! use betz_episode::{Alphabet, Clock, Events, Interval, Pattern, count};
//!
//! # fn main() -> betz_base::Result<()> {
//! let clock = Clock::from_tick_seconds(0.001)?;
//! let alphabet = Alphabet::new(vec!["A".into(), "B".into()], clock)?;
//! //                             A  B   A   A   B
//! let events = Events::new(alphabet, &[0, 5, 20, 21, 24], &[0, 1, 0, 0, 1])?;
//!
//! let within_5_ms = Interval::new(0, 5)?; // (0, 5] ticks
//! let a_then_b = Pattern::new(vec![0, 1], vec![within_5_ms])?;
//! assert_eq!(count::count(&events, &[a_then_b])?, [2]); // 0→5, and one of 20→24 and 21→24
//! # Ok(())
//! # }
//! ```

mod alphabet;
mod candidates;
mod clock;
pub mod count;
mod csv;
mod events;
mod frequency;
pub mod graph;
mod label;
mod mine;
mod occurrences;
pub mod online;
pub mod oracle;
mod parallel;
mod pattern;
pub mod significance;
mod table;
mod time_table;

pub use alphabet::Alphabet;
pub use candidates::next_candidates;
pub use clock::Clock;
pub use csv::Order;
pub use events::Events;
pub use frequency::Frequency;
pub use mine::{Level, MineOptions, MiningResult, mine, mine_by};
pub use occurrences::occurrences;
pub use parallel::{ParallelEpisode, read_parallel};
pub use pattern::{Episode, Interval, MAX_SYMBOLS, Pattern, read_patterns};
pub use table::{Row, TableColumns, is_table, read_table, write_table};

#[cfg(any(test, feature = "cases"))]
#[doc(hidden)]
pub mod cases;
#[cfg(test)]
mod tests;
