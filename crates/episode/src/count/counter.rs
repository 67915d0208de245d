//! What the levelwise search needs of events, wherever they are.

use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::Ran;

use super::{CountJob, Strategy};
use crate::alphabet::Alphabet;
use crate::events::Events;
use crate::pattern::Pattern;

/// Events that episodes can be counted in: held in memory ([`InMemory`]) or read in stretches
/// ([`LongEvents`](super::LongEvents)).
pub trait Counter {
    /// Labels and clock.
    fn alphabet(&self) -> &Alphabet;

    /// One count for each pattern, in order; `threshold` as in [`CountJob`].
    ///
    /// # Errors
    /// As [`Strategy::count`].
    fn count(
        &self,
        patterns: &[Pattern],
        threshold: Option<u64>,
        progress: &dyn Progress,
    ) -> Result<Vec<u64>>;

    /// Where the counts so far were made.
    fn ran(&self) -> Ran;
}

/// Events that are held, and a strategy.
#[derive(Clone, Copy)]
pub struct InMemory<'a> {
    /// Where to count.
    pub events: &'a Events,
    /// How.
    pub strategy: &'a dyn Strategy,
}

impl Counter for InMemory<'_> {
    fn alphabet(&self) -> &Alphabet {
        self.events.alphabet()
    }

    fn count(
        &self,
        patterns: &[Pattern],
        threshold: Option<u64>,
        progress: &dyn Progress,
    ) -> Result<Vec<u64>> {
        self.strategy.count(&CountJob {
            events: self.events,
            patterns,
            threshold,
            progress,
        })
    }

    fn ran(&self) -> Ran {
        self.strategy.ran()
    }
}
