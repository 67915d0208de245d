//! A count to make, and the interface of what makes it.

use std::sync::atomic::{AtomicU64, Ordering};

use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::Ran;

use crate::events::Events;
use crate::frequency::Frequency;
use crate::pattern::Pattern;

/// Patterns to count in events, and the precision that the caller needs.
#[derive(Clone, Copy)]
pub struct CountJob<'a> {
    /// The events to count in.
    pub events: &'a Events,
    /// The patterns to count. Fastest if patterns that share a prefix are near each other.
    pub patterns: &'a [Pattern],
    /// If given, only counts of at least this much must be right; for a pattern that occurs less often, any smaller
    /// number will do.
    pub threshold: Option<u64>,
    /// Receives the number of patterns done; can stop the count.
    pub progress: &'a dyn Progress,
}

impl<'a> CountJob<'a> {
    /// All counts, without progress.
    pub fn new(events: &'a Events, patterns: &'a [Pattern]) -> Self {
        Self {
            events,
            patterns,
            threshold: None,
            progress: &(),
        }
    }

    /// Checks every pattern against the events.
    ///
    /// # Errors
    /// `Mismatch`, naming the pattern.
    pub fn check(&self) -> Result<()> {
        for pattern in self.patterns {
            pattern.check(self.events).map_err(|e| {
                e.at(format!(
                    "episode {}",
                    pattern.display(self.events.alphabet())
                ))
            })?;
        }
        Ok(())
    }
}

/// A way to count occurrences: non-overlapped ones, or those of another [`Frequency`]. All are exact.
pub trait Strategy: Send + Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// One count for each pattern, in order. Runs in rayon's current threads.
    ///
    /// # Errors
    /// `Mismatch` for a pattern that does not fit the events, `Interrupted` if the progress cancels.
    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>>;

    /// The definition of its counts.
    fn frequency(&self) -> Frequency {
        Frequency::NonOverlapped
    }

    /// The place of the counts so far: the CPU, the device, or both (`cpu and cuda:0`) if some
    /// calls were too small to gain on the device.
    fn ran(&self) -> Ran {
        Ran::on_cpu(self.name())
    }
}

/// The number of patterns counted so far, reported to a job's progress.
pub struct PatternProgress<'a> {
    stage: &'static str,
    progress: &'a dyn Progress,
    patterns: AtomicU64,
    total: u64,
}

impl<'a> PatternProgress<'a> {
    /// No pattern of `job` is counted yet.
    pub fn new(stage: &'static str, job: &CountJob<'a>) -> Self {
        Self {
            stage,
            progress: job.progress,
            patterns: AtomicU64::new(0),
            total: job.patterns.len() as u64,
        }
    }

    /// Reports that `patterns` more patterns are counted.
    pub fn add(&self, patterns: usize) {
        let patterns = patterns as u64;
        let before = self.patterns.fetch_add(patterns, Ordering::Relaxed);
        self.progress
            .update(self.stage, before + patterns, self.total);
    }
}
