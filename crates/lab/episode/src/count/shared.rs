//! Candidates dealt over the processes of a team, each of which has all events.

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Quiet;
use betz_base::team::Team;
use betz_device::Ran;

use super::{CountJob, Strategy};
use crate::frequency::Frequency;
use crate::pattern::Pattern;

/// A strategy of every process, for its share of the candidates; all know all counts. The shares are ranges of the
/// candidates sorted by prefix, so that each walks its own part of their tree.
pub struct TeamStrategy {
    team: &'static dyn Team,
    own: Box<dyn Strategy>,
}

impl TeamStrategy {
    /// `own` counts what falls to this process.
    pub fn new(team: &'static dyn Team, own: Box<dyn Strategy>) -> Self {
        Self { team, own }
    }
}

impl Strategy for TeamStrategy {
    fn name(&self) -> &'static str {
        self.own.name()
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        if self.team.size() == 1 {
            return self.own.count(job);
        }
        let order = Pattern::prefix_order(job.patterns);
        let share = self.team.share(order.len());
        let patterns: Vec<Pattern> = (order[share].iter())
            .map(|&i| job.patterns[i].clone())
            .collect();
        let own = CountJob {
            patterns: &patterns,
            progress: &Quiet(job.progress),
            ..*job
        };
        let counts = if patterns.is_empty() {
            Vec::new()
        } else {
            self.own.count(&own)?
        };
        let all = self.team.gather(&counts)?.concat();
        if all.len() != order.len() {
            return Err(Error::new(
                ErrorKind::Mismatch,
                format!(
                    "counting: expected {} counts of all processes, got {}: they count different candidates",
                    order.len(),
                    all.len()
                ),
            ));
        }
        let mut counts = vec![0; order.len()];
        for (i, count) in order.into_iter().zip(all) {
            counts[i] = count;
        }
        let total = counts.len() as u64;
        job.progress.update("counting", total, total);
        Ok(counts)
    }

    fn frequency(&self) -> Frequency {
        self.own.frequency()
    }

    fn ran(&self) -> Ran {
        self.own.ran()
    }
}
