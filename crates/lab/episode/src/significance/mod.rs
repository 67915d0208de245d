//! Which counts are more than chance: surrogates, p-values, false discovery rate.
//!
//! Two questions, two tests:
//! - [`significance`]: does the episode occur more often than if all symbols were independent? The
//!   usual question, answered by [`Surrogate`]s. An episode that *contains* a real one passes too: an
//!   event that happens to precede a real chain makes a longer episode that independent symbols would
//!   hardly ever make.
//! - [`part_significance`]: does every part of it matter? Each contiguous part in turn is shifted in
//!   time against the rest, both left as they are inside; the episode passes only if all of its parts
//!   do. This tells chains from chains with something added, and from chains with a node replaced by
//!   one that has nothing to do with its neighbours.
//!
//! [`chains`] does both for all that mining found, size by size. An [`EpisodeTest`] has the options and the rules of
//! `betz mine` and Python's `betz.mine`.
//!
//! Both make surrogates and count in them on the CPU or on CUDA devices ([`DeferredPlacement`]).
//!
//! **Limits.** n surrogates give no p below 1/(n + 1), and a list of m episodes of which k are to be
//! found at a rate q needs p ≤ q·k/m: choose n accordingly. p-values hold for episodes chosen without
//! looking at these counts. A list that is the result of mining the same events is chosen by its
//! counts, which makes the p-values too small for what is only just frequent: either mine one part of
//! a recording and test on another, or test every candidate, or take the values as a ranking.

mod chains;
mod episode_test;
mod fdr;
mod long;
mod on_device;
mod parts;
mod shift;
mod surrogate;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::count::{AUTO_WORK, CountJob, Strategy, count_on_devices, fits_device};
use crate::events::Events;
use crate::frequency::Frequency;
use crate::pattern::Pattern;
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
use betz_base::team::{Alone, Team};
use betz_device::{DeferredPlacement, Placement, Work};

pub use chains::{ChainOptions, ChainTest, chains, chains_by};
pub use episode_test::{EpisodeTest, PreparedTest, TestEvents, TestNames, TestedEpisodes};
pub use fdr::benjamini_hochberg;
pub use long::significance_in_chunks_by;
pub use parts::{PartOptions, PartSignificance, part_significance, part_significance_by};
pub use surrogate::Surrogate;

use shift::ShiftedCopy;
#[cfg(test)]
pub(crate) use surrogate::Dither;

/// Options of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignificanceOptions {
    /// The kind of surrogates.
    pub surrogate: Surrogate,
    /// Number of surrogates, at least 1: p is at least 1 / (this + 1).
    pub surrogates: u32,
    /// Seed of the surrogates.
    pub seed: u64,
    /// The definition of the counts, in the events as in surrogates. All but non-overlapped occurrences are counted on the
    /// CPU.
    pub frequency: Frequency,
}

/// A count against those of surrogates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Significance {
    /// The count in the events.
    pub observed: u64,
    /// The surrogates' mean count: what is expected by chance.
    pub expected: f64,
    /// The standard deviation of the surrogates' counts (of the sample: n − 1); 0 for one surrogate.
    pub std: f64,
    /// (1 + number of surrogates with at least the observed count) / (1 + number of surrogates).
    pub p: f64,
    /// The smallest false discovery rate at which a list with this episode can be had from all those
    /// tested together ([`benjamini_hochberg`]).
    pub q: f64,
}

/// Tests each pattern's count against surrogates, all patterns on the same ones.
///
/// Runs in rayon's current threads, over surrogates; the result does not depend on their number.
/// Memory: one surrogate's events per thread. The stage is `surrogates`. Without patterns no surrogate
/// is made.
///
/// # Errors
/// `InvalidArgument` for no surrogates or as [`Surrogate::check`]; `Mismatch` for a pattern that does
/// not fit the events; `Interrupted`.
pub fn significance(
    events: &Events,
    patterns: &[Pattern],
    options: &SignificanceOptions,
    progress: &dyn Progress,
) -> Result<Vec<Significance>> {
    significance_by(Workers::alone(), events, patterns, options, progress)
}

/// The processes that share out surrogates, and where this one makes them and counts in them.
#[derive(Clone, Copy)]
pub struct Workers<'a> {
    /// The processes.
    pub team: &'a dyn Team,
    /// The devices of this process.
    pub placement: &'a DeferredPlacement,
}

/// Making a dithered surrogate takes a thread as long as counting this many episodes in it: 45 to 59 ns per event,
/// against 2 to 4 · 10⁹ events times episodes per second.
const MAKING: u64 = 150;

impl<'a> Workers<'a> {
    /// The placement of `job` in so many surrogates from `source`; `None` for the CPU.
    fn decide(
        self,
        job: &CountJob<'_>,
        surrogates: u32,
        source: SurrogateSource<'_>,
    ) -> Option<&'a Placement> {
        if job.patterns.is_empty() || !fits_device(job) {
            return None;
        }
        let making = match source {
            SurrogateSource::Dithered(..) => MAKING,
            // The CPU makes them wherever they are counted.
            SurrogateSource::Shuffled(..) | SurrogateSource::Shifted(..) => 0,
        };
        let work = (job.events.len() as u64)
            .saturating_mul(job.patterns.len() as u64 + making)
            .saturating_mul(u64::from(surrogates));
        // The CPU has as many surrogates in hand as threads.
        let threads = (rayon::current_num_threads() as u64).clamp(1, u64::from(surrogates.max(1)));
        self.placement.decide(Work::Amount {
            amount: (work / threads) as f64,
            gains_from: AUTO_WORK,
        })
    }
}

impl Workers<'static> {
    /// This process alone, on the CPU.
    pub fn alone() -> Self {
        static ON_CPU: DeferredPlacement = DeferredPlacement::cpu();
        Self {
            team: &Alone,
            placement: &ON_CPU,
        }
    }
}

/// [`significance`] by a team, whose processes share out the surrogates, and on devices, each of which takes the next
/// one whenever it is idle; the same result, to the bit, known to all. Dithered surrogates are made where they are
/// counted, which takes 33 bytes per event of each device's memory besides the memory for counting.
///
/// # Errors
/// As [`significance`]; those of the team and of the devices.
pub fn significance_by(
    workers: Workers<'_>,
    events: &Events,
    patterns: &[Pattern],
    options: &SignificanceOptions,
    progress: &dyn Progress,
) -> Result<Vec<Significance>> {
    options.surrogate.check()?;
    let kind = match options.surrogate {
        Surrogate::Dither { delta } => SurrogateSource::Dithered(events, delta, options.seed),
        Surrogate::ShuffleIntervals => SurrogateSource::Shuffled(events, options.seed),
    };
    let job = CountJob::new(events, patterns);
    let placement = match options.frequency {
        Frequency::NonOverlapped => workers.decide(&job, options.surrogates, kind),
        _ => None,
    };
    let observed = workers.placement.run(
        placement,
        |placement| count_on_devices(placement.contexts(), &job),
        || options.frequency.count(&job),
    )?;
    check_sums(&observed, options.surrogates)?;
    let wanted = SurrogateJob {
        patterns,
        frequency: options.frequency,
        limits: &observed,
        stage: "surrogates",
        progress,
    };
    let totals = count_surrogates(workers, placement, kind, options.surrogates, wanted)?;
    Ok(rows(&observed, &totals, options.surrogates))
}

/// Refuses counts whose sums over `surrogates`, or those of their squares, would not fit.
fn check_sums(counts: &[u64], surrogates: u32) -> Result<()> {
    let most = (1_u64 << 63) / u64::from(surrogates.max(1));
    match counts.iter().find(|&&count| count >= most) {
        None => Ok(()),
        Some(count) => Err(Error::argument(format!(
            "surrogates: expected counts below 2^63 / {surrogates}, got {count}; use fewer surrogates, another count, or \
             longer ticks for windows"
        ))),
    }
}

/// The events that surrogates are made from, and the way.
#[derive(Clone, Copy)]
enum SurrogateSource<'a> {
    /// Events moved by up to so many ticks, from a seed.
    Dithered(&'a Events, i64, u64),
    /// Intervals in another order, from a seed.
    Shuffled(&'a Events, u64),
    /// Events beside a shifted copy, from this shift on.
    Shifted(&'a ShiftedCopy<'a>, u64),
}

impl SurrogateSource<'_> {
    /// The `index`-th, on the CPU.
    fn make(self, index: u64) -> Result<Events> {
        match self {
            Self::Dithered(events, delta, seed) => {
                Surrogate::Dither { delta }.make(events, seed, index)
            }
            Self::Shuffled(events, seed) => Surrogate::ShuffleIntervals.make(events, seed, index),
            Self::Shifted(shifted, first) => shifted.make(first + index),
        }
    }
}

/// The patterns to count in surrogates, and the progress to report.
#[derive(Clone, Copy)]
struct SurrogateJob<'a> {
    patterns: &'a [Pattern],
    frequency: Frequency,
    /// The count of each that surrogates may reach.
    limits: &'a [u64],
    stage: &'a str,
    progress: &'a dyn Progress,
}

/// Each count against its surrogates, with q over all of them.
fn rows(observed: &[u64], totals: &[Total], surrogates: u32) -> Vec<Significance> {
    let p: Vec<f64> = totals.iter().map(|t| t.p(surrogates)).collect();
    let rows = observed.iter().zip(totals).zip(benjamini_hochberg(&p));
    rows.map(|((&observed, total), q)| Significance {
        observed,
        expected: total.mean(surrogates),
        std: total.std(surrogates),
        p: total.p(surrogates),
        q,
    })
    .collect()
}

/// Sums over the counts of one pattern in surrogates. Whole numbers: their sums do not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Total {
    sum: u64,
    squares: u128,
    /// Surrogates with at least the observed count.
    reached: u64,
}

impl Total {
    /// The sums over one surrogate.
    fn new(count: u64, observed: u64) -> Self {
        Self {
            sum: count,
            squares: u128::from(count) * u128::from(count),
            reached: u64::from(count >= observed),
        }
    }

    fn add(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            reached: self.reached + other.reached,
        }
    }

    fn p(&self, surrogates: u32) -> f64 {
        (1 + self.reached) as f64 / (1.0 + f64::from(surrogates))
    }

    fn mean(&self, surrogates: u32) -> f64 {
        self.sum as f64 / f64::from(surrogates)
    }

    fn std(&self, surrogates: u32) -> f64 {
        if surrogates < 2 {
            return 0.0;
        }
        let n = u128::from(surrogates);
        // n·Σx² − (Σx)² in whole numbers: no cancellation.
        let spread = n * self.squares - u128::from(self.sum) * u128::from(self.sum);
        (spread as f64 / (n * (n - 1)) as f64).sqrt()
    }
}

/// The sums over `surrogates` of one kind for the patterns of `job`, shared out over the team and counted on
/// `placement`.
fn count_surrogates(
    workers: Workers<'_>,
    placement: Option<&Placement>,
    kind: SurrogateSource<'_>,
    surrogates: u32,
    wanted: SurrogateJob<'_>,
) -> Result<Vec<Total>> {
    let SurrogateJob { patterns, .. } = wanted;
    if surrogates == 0 {
        return Err(Error::argument(format!(
            "{}: expected at least 1, got 0",
            wanted.stage
        )));
    }
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    // Sorted once, as each count wants them: it then finds them in order.
    let order = Pattern::prefix_order(patterns);
    let sorted: Vec<Pattern> = order.iter().map(|&i| patterns[i].clone()).collect();
    let limits: Vec<u64> = order.iter().map(|&i| wanted.limits[i]).collect();
    let wanted = SurrogateJob {
        patterns: &sorted,
        limits: &limits,
        ..wanted
    };
    let own = workers.team.share(surrogates as usize);
    let own = own.start as u64..own.end as u64;
    let found = workers.placement.run(
        placement,
        |placement| on_device::totals(placement, kind, own.clone(), wanted),
        || on_cpu(kind, own.clone(), surrogates, wanted),
    )?;
    let found = add_up(workers.team, found, patterns.len())?;
    let mut totals = vec![Total::default(); patterns.len()];
    for (i, total) in order.into_iter().zip(found) {
        totals[i] = total;
    }
    Ok(totals)
}

/// The sums over the surrogates `own`, one thread per surrogate; empty if there are none.
fn on_cpu(
    kind: SurrogateSource<'_>,
    own: Range<u64>,
    surrogates: u32,
    wanted: SurrogateJob<'_>,
) -> Result<Vec<Total>> {
    let SurrogateJob {
        stage, progress, ..
    } = wanted;
    let all = own.end - own.start;
    let done = AtomicU64::new(0);
    own.into_par_iter()
        .map(|index| {
            progress::check(progress, stage)?;
            let surrogate = kind.make(index)?;
            let job = CountJob::new(&surrogate, wanted.patterns);
            let counts = wanted.frequency.count(&job)?;
            check_sums(&counts, surrogates)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress.update(stage, done, all);
            let each = counts.into_iter().zip(wanted.limits);
            Ok(each
                .map(|(count, &observed)| Total::new(count, observed))
                .collect())
        })
        .try_reduce(Vec::new, |a: Vec<Total>, b| {
            // The empty list is reduction's neutral element.
            Ok(match (a.is_empty(), b.is_empty()) {
                (true, _) => b,
                (_, true) => a,
                _ => a.into_iter().zip(b).map(|(x, y)| x.add(y)).collect(),
            })
        })
}

/// The sums over all processes of `own`, which is empty if a process had no surrogate.
fn add_up(team: &dyn Team, own: Vec<Total>, patterns: usize) -> Result<Vec<Total>> {
    if team.size() == 1 {
        return Ok(own);
    }
    let too_large = || Error::argument("surrogates: expected counts whose squares fit 127 bits");
    let whole = |squares: u128| i128::try_from(squares).map_err(|_| too_large());
    let mut values = Vec::with_capacity(3 * patterns);
    for total in own
        .iter()
        .chain(std::iter::repeat(&Total::default()))
        .take(patterns)
    {
        values.extend([
            i128::from(total.sum),
            whole(total.squares)?,
            i128::from(total.reached),
        ]);
    }
    team.add(&mut values)?;
    let small = |value: i128| u64::try_from(value).map_err(|_| too_large());
    let totals = values
        .as_chunks::<3>()
        .0
        .iter()
        .map(|&[sum, squares, reached]| {
            Ok(Total {
                sum: small(sum)?,
                squares: u128::try_from(squares).map_err(|_| too_large())?,
                reached: small(reached)?,
            })
        });
    totals.collect()
}

#[cfg(test)]
mod tests;
