//! All continuations of a prefix at once: kernels/episode_siblings.cu.
//!
//! Levelwise mining counts hundreds of patterns that differ in their last symbol and interval alone, for thousands
//! of prefixes. A warp takes a prefix through the whole time, so
//! prefixes must be many.

use std::sync::Arc;

use super::events::{Ticks, TicksOf};
use super::latest_start::SLOTS;
use super::plan::RunPlan;
use super::{DeviceEvents, DeviceStream, list_memory};
use crate::count::CountJob;
use crate::count::siblings::local_density;
use crate::pattern::{Interval, Pattern};
use betz_base::error::Result;
use betz_base::progress;
use betz_device::cuda::{Buffer, Context};
use betz_kernels::episode::EpisodeSiblings;
use betz_kernels::{Link, Tick};

/// Fewest continuations of a prefix.
const FEWEST_SIBLINGS: usize = 8;

/// Fewest prefixes for each multiprocessor.
const FEWEST_PREFIXES: usize = 2;

/// Most intervals: one bit each.
const MOST_INTERVALS: usize = 32;

/// Looking up one continuation takes about as long as reading so many events of a window.
const LOOK_UP_EVENTS: f64 = 10.0;

/// Warps of a block, and of a multiprocessor.
const WARPS: usize = 4;
const WARPS_PER_MULTIPROCESSOR: usize = 32;

/// Parts of the time, so that a warp's lists stay short.
const PARTS: usize = 64;

/// Patterns that differ in their last symbol and interval alone, as a range of a job's.
type Family = std::ops::Range<usize>;

/// The job's families that are worth counting at once, all of one size; and the indices of the other
/// patterns.
pub(super) struct Split {
    families: Vec<Family>,
    pub(super) rest: Vec<usize>,
    /// The intervals of the families' last edges.
    intervals: Vec<Interval>,
}

impl Split {
    /// Finds neighbours with a common prefix; `None` if counting them at once would not gain.
    pub(super) fn new(job: &CountJob<'_>, multiprocessors: usize, shared: usize) -> Option<Self> {
        let patterns = job.patterns;
        let (mut families, mut rest) = (Vec::new(), Vec::new());
        let mut size = None;
        let mut from = 0;
        for family in patterns.chunk_by(siblings) {
            let (range, own) = (from..from + family.len(), family[0].size());
            from = range.end;
            if own > 1 && family.len() >= FEWEST_SIBLINGS && *size.get_or_insert(own) == own {
                families.push(range);
            } else {
                rest.extend(range);
            }
        }
        if families.len() < multiprocessors * FEWEST_PREFIXES {
            return None;
        }
        let counted: usize = families.iter().map(Family::len).sum();
        let mut intervals: Vec<Interval> = Vec::new();
        for pattern in families.iter().flat_map(|f| &patterns[f.clone()]) {
            let last = pattern.intervals()[pattern.size() - 2];
            if !intervals.contains(&last) {
                intervals.push(last);
                if intervals.len() > MOST_INTERVALS {
                    return None;
                }
            }
        }
        let leaves = intervals.len() * job.events.symbols();
        let width =
            intervals.iter().map(|i| i.high).max()? - intervals.iter().map(|i| i.low).min()?;
        let window = local_density(job.events, width) * width as f64;
        let looked_up = counted as f64 / families.len() as f64 * LOOK_UP_EVENTS;
        let gains = window + 32.0 < looked_up && leaf_bytes(leaves) * WARPS <= shared;
        gains.then_some(Self {
            families,
            rest,
            intervals,
        })
    }

    /// Fills in the families' counts.
    ///
    /// Allocates on the device two lists per level for each warp, at most a gigabyte or a quarter of
    /// what is free unless one block needs more, and a number for each continuation. Asks the
    /// progress between launches.
    pub(super) fn count(
        &self,
        events: &DeviceEvents,
        stream: &DeviceStream,
        job: &CountJob<'_>,
        counts: &mut [u64],
    ) -> Result<()> {
        let symbols = job.events.symbols();
        let leaves = self.intervals.len() * symbols;
        let memory = list_memory(events.context())?;
        let fitting = (memory as usize / (leaves * size_of::<u32>())).max(1);
        let mut done = 0;
        for families in self.families.chunks(fitting) {
            progress::check(job.progress, "counting")?;
            let found = match &events.ticks {
                Ticks::Narrow(ticks) => self.launch(events, ticks, stream, job, families)?,
                Ticks::Wide(ticks) => self.launch(events, ticks, stream, job, families)?,
            };
            for (family, found) in families.iter().zip(found.chunks_exact(leaves)) {
                for (pattern, count) in job.patterns[family.clone()]
                    .iter()
                    .zip(&mut counts[family.clone()])
                {
                    let edge = pattern.size() - 2;
                    let last = pattern.intervals()[edge];
                    let j = self.intervals.iter().position(|&i| i == last).unwrap_or(0);
                    let symbol = pattern.symbols()[edge + 1] as usize;
                    *count = u64::from(found[j * symbols + symbol]);
                }
                done += family.len();
            }
            job.progress
                .update("counting", done as u64, job.patterns.len() as u64);
        }
        Ok(())
    }

    /// The counts of every continuation of the families' prefixes, one row per family.
    fn launch<T: Tick>(
        &self,
        events: &DeviceEvents,
        ticks: &TicksOf<T>,
        stream: &DeviceStream,
        job: &CountJob<'_>,
        families: &[Family],
    ) -> Result<Vec<u32>> {
        let context = events.context();
        let Prefixes { size, span, links } = Prefixes::new(events, job, families);
        let bounds = |bound: fn(&Interval) -> i64| -> Vec<T> {
            let bounds = self.intervals.iter().map(bound);
            bounds.map(|b| events.tick(b)).collect()
        };
        let lows = context.upload(&bounds(|i| i.low))?;
        let highs = context.upload(&bounds(|i| i.high))?;
        let links = context.upload(&links)?;

        let symbols = job.events.symbols();
        let leaves = self.intervals.len() * symbols;
        let parts = events.cells().min(PARTS);
        let capacity = events.most_in_a_window(parts, span);
        let block_ticks = WARPS * (size - 1) * 2 * capacity;
        let fitting = list_memory(context)? / ((size_of::<T>() * block_ticks) as u64).max(1);
        let running = context.info().multiprocessors as usize * WARPS_PER_MULTIPROCESSOR / WARPS;
        let blocks = (families.len().div_ceil(WARPS))
            .min(running)
            .min(usize::try_from(fitting).unwrap_or(usize::MAX))
            .max(1);
        let mut lists: Buffer<T> = context.alloc(blocks * block_ticks)?;
        let mut counts: Buffer<u32> = context.alloc(families.len() * leaves)?;

        let options = [format!("-DWIDE={}", T::VALUE)];
        let arguments = EpisodeSiblings {
            ticks: ticks.ticks.read(),
            cuts: ticks.cuts.read(),
            index: events.index.read(),
            cells: events.cells() as u32,
            parts: parts as u32,
            events: stream.events.read(),
            event_count: stream.count,
            symbol_bits: stream.symbol_bits,
            origin: stream.origin,
            links: links.read(),
            size: size as u32,
            prefixes: families.len() as u32,
            span,
            lows: lows.read(),
            highs: highs.read(),
            intervals: self.intervals.len() as u32,
            symbols: symbols as u32,
            capacity: capacity as u32,
            lists: lists.update(),
            counts: counts.write(),
        };
        context
            .load::<EpisodeSiblings<T>>(&options, WARPS * leaf_bytes(leaves))?
            .launch((blocks as u32, 1, 1), 32 * WARPS as u32, arguments)?;
        context.download(&counts, families.len() * leaves)
    }
}

/// The families' prefixes, one per family, all of `size` symbols.
struct Prefixes<T> {
    size: usize,
    /// The longest that an occurrence of one lasts, in ticks.
    span: i64,
    /// The symbols of each with the intervals before them.
    links: Vec<Link<T>>,
}

impl<T: Tick> Prefixes<T> {
    fn new(events: &DeviceEvents, job: &CountJob<'_>, families: &[Family]) -> Self {
        let patterns = || families.iter().map(|f| &job.patterns[f.start]);
        let size = patterns().map(Pattern::size).max().unwrap_or(1) - 1;
        let span = |p: &Pattern| p.intervals()[..size - 1].iter().map(|i| i.high).sum();
        let links = patterns().flat_map(|p| p.prefix_key().take(size));
        Self {
            size,
            span: patterns()
                .map(span)
                .max()
                .unwrap_or(0)
                .min(events.duration()),
            links: links
                .map(|(interval, symbol)| Link {
                    low: events.tick(interval.low),
                    high: events.tick(interval.high),
                    symbol,
                    unused: 0,
                })
                .collect(),
        }
    }
}

/// Shared memory of a warp: a tick, as wide as they come, and a number for each continuation.
fn leaf_bytes(leaves: usize) -> usize {
    leaves * (size_of::<i64>() + size_of::<u32>())
}

/// True when two patterns differ in their last symbol and interval alone.
fn siblings(a: &Pattern, b: &Pattern) -> bool {
    let prefix = a.size() - 1;
    prefix > 0
        && a.size() == b.size()
        && a.symbols()[..prefix] == b.symbols()[..prefix]
        && a.intervals()[..prefix - 1] == b.intervals()[..prefix - 1]
}

/// A plan to count patterns by latest starts, families at once and the rest one by one. It holds for all events of the
/// same length in as many cells.
pub(super) struct CountPlan {
    split: Option<Split>,
    /// All patterns, or those in no family; `None` if every pattern is in a family.
    rest: Option<RunPlan>,
}

impl CountPlan {
    /// The plan for `job` on the device of `context`, in events that are cut in `cells` and last `duration` ticks.
    pub(super) fn new(context: &Context, job: &CountJob<'_>, cells: usize, duration: i64) -> Self {
        let multiprocessors = context.info().multiprocessors as usize;
        let split = Split::new(job, multiprocessors, context.shared_bytes());
        let plan = |patterns: &[Pattern]| {
            (!patterns.is_empty()).then(|| RunPlan::new(patterns, cells, duration))
        };
        let rest = match &split {
            None => plan(job.patterns),
            Some(split) => {
                let rest: Vec<Pattern> = (split.rest.iter())
                    .map(|&i| job.patterns[i].clone())
                    .collect();
                plan(&rest)
            }
        };
        Self { split, rest }
    }

    /// True if counting needs the events in the order of time, too.
    pub(super) const fn needs_stream(&self) -> bool {
        self.split.is_some()
    }

    /// The counts of the patterns of `job`, which are those of the plan.
    pub(super) fn count(
        &self,
        events: &DeviceEvents,
        stream: impl FnOnce() -> Result<Arc<DeviceStream>>,
        job: &CountJob<'_>,
    ) -> Result<Vec<u64>> {
        events.check(job.patterns)?;
        let rest = || match &self.rest {
            Some(plan) => events.count_planned(plan, job.progress, SLOTS),
            None => Ok(Vec::new()),
        };
        let Some(split) = &self.split else {
            return rest();
        };
        let mut counts = vec![0; job.patterns.len()];
        split.count(events, stream()?.as_ref(), job, &mut counts)?;
        for (&i, count) in split.rest.iter().zip(rest()?) {
            counts[i] = count;
        }
        Ok(counts)
    }
}

/// Latest starts with [`Split`]: families at once, the rest one by one.
pub(super) fn count(
    events: &DeviceEvents,
    stream: impl FnOnce() -> Result<Arc<DeviceStream>>,
    job: &CountJob<'_>,
) -> Result<Vec<u64>> {
    CountPlan::new(events.context(), job, events.cells(), events.duration())
        .count(events, stream, job)
}
