//! The interface through which the levelwise search counts, in memory or from a file.

use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::Ran;

use super::{CountJob, Strategy};
use crate::alphabet::Alphabet;
use crate::events::Events;
use crate::frequency::Frequency;
use crate::pattern::Pattern;

/// Events that episodes can be counted in: held in memory ([`InMemory`]) or read in chunks
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

    /// The definition of its counts.
    fn frequency(&self) -> Frequency {
        Frequency::NonOverlapped
    }

    /// The place of the counts so far.
    fn ran(&self) -> Ran;
}

/// Events in memory, and a strategy.
#[derive(Clone, Copy)]
pub struct InMemory<'a> {
    /// The events to count in.
    pub events: &'a Events,
    /// The strategy that counts.
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

    fn frequency(&self) -> Frequency {
        self.strategy.frequency()
    }

    fn ran(&self) -> Ran {
        self.strategy.ran()
    }
}
