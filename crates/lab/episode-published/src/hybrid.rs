//! The papers' hybrid: one thread per episode, or several threads per episode when episodes are few.
//!
//! Cao et al., §5.1: with at least as many episodes as threads every thread runs Algorithm 1 for an
//! episode of its own (*PTPE*); with fewer, the threads share each episode's time
//! ([`MapConcat`], *MTPE*).

use rayon::prelude::*;

use super::serial::count_serially;
use crate::MapConcat;
use betz_base::error::Result;
use betz_base::progress;
use betz_episode::count::{CountJob, PatternProgress, Strategy};

/// Algorithm 1, spread over episodes or over time by the number of episodes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hybrid;

impl Strategy for Hybrid {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        if job.patterns.len() < rayon::current_num_threads() {
            return MapConcat::default().count(job);
        }
        job.check()?;
        let done = PatternProgress::new("counting", job);
        job.patterns
            .par_iter()
            .map(|pattern| {
                progress::check(job.progress, "counting")?;
                let count = count_serially(job.events, pattern);
                done.add(1);
                Ok(count)
            })
            .collect()
    }
}
