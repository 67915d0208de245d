//! Latest starts: a warp takes one run of patterns through one part of the time; the greedy choice
//! over the whole time comes from what each part would take after each possible past (see the
//! kernels' file).
//!
//! ```text
//! patterns ──► plan (runs of trees) ─► episode_walk ──► tables ──► episode_greedy ──► counts
//! ```

use crate::pattern::Pattern;
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
use betz_device::cuda::{Buffer, Context, Kernel};
use betz_kernels::episode::{EpisodeGreedy, EpisodeWalk};
use betz_kernels::{Entry, Tick};

use super::events::{Ticks, TicksOf};
use super::plan::{Run, RunPlan};
use super::{DeviceEvents, check_sizes};

/// Threads of a block of either kernel.
const THREADS: u32 = 128;
const WARPS: usize = THREADS as usize / 32;

/// Warps that are kept going on a multiprocessor.
const WARPS_PER_MULTIPROCESSOR: usize = 32;

/// Table entries for each pattern and part at first; the kernel reports if it needs more.
pub(super) const SLOTS: usize = 4;

/// Bytes that the tables of one launch should stay below.
const TABLE_BYTES: u64 = 1 << 30;

/// Bytes that the warps' lists should stay below.
const LIST_BYTES: u64 = 1 << 30;

impl DeviceEvents {
    /// One count for each pattern, in order, as
    /// [`LatestStart`](crate::count::LatestStart) gives it.
    ///
    /// Allocates on the device two lists per level for each warp, at most a gigabyte or a quarter of
    /// what is free (more only when a single block of warps needs it), and tables likewise. Asks
    /// `progress` between launches.
    ///
    /// # Errors
    /// `Mismatch` for a symbol that is not here or was not copied, or an interval that would reach
    /// across the gap between segments; `InvalidArgument` for an episode
    /// of more than [`MAX_SIZE`](Self::MAX_SIZE) symbols; `DeviceMemory`, `DeviceFailure`;
    /// `Interrupted` if the progress cancels.
    pub fn count(&self, patterns: &[Pattern], progress: &dyn Progress) -> Result<Vec<u64>> {
        self.count_with(patterns, progress, SLOTS)
    }

    pub(super) fn count_with(
        &self,
        patterns: &[Pattern],
        progress: &dyn Progress,
        slots: usize,
    ) -> Result<Vec<u64>> {
        self.check(patterns)?;
        let plan = RunPlan::new(patterns, self.cells(), self.duration());
        self.count_planned(&plan, progress, slots)
    }

    /// The counts of the patterns that `plan` was made for, which are checked, in events of as many cells and as
    /// long.
    pub(super) fn count_planned(
        &self,
        plan: &RunPlan,
        progress: &dyn Progress,
        slots: usize,
    ) -> Result<Vec<u64>> {
        match &self.ticks {
            Ticks::Narrow(ticks) => self.count_ticks(ticks, plan, progress, slots),
            Ticks::Wide(ticks) => self.count_ticks(ticks, plan, progress, slots),
        }
    }

    fn count_ticks<T: Tick>(
        &self,
        ticks: &TicksOf<T>,
        plan: &RunPlan,
        progress: &dyn Progress,
        slots: usize,
    ) -> Result<Vec<u64>> {
        let mut launcher = Launcher::new(self, ticks, plan)?;
        let mut slots = slots;
        let mut counts = vec![0; plan.patterns];
        let mut done = 0;
        let mut rest = plan.runs.as_slice();
        while !rest.is_empty() {
            progress::check(progress, "counting")?;
            let (batch, after) = rest.split_at(launcher.fitting(rest, slots)?);
            let (found, longest) = launcher.count(batch, slots)?;
            if longest > slots {
                // Larger tables: fewer runs may fit a launch.
                slots = longest.next_power_of_two();
                continue;
            }
            let mut first = 0;
            for run in batch {
                for (&pattern, &leaf) in run.patterns.iter().zip(&run.leaf_of) {
                    counts[pattern] = u64::from(found[first + leaf]);
                }
                first += run.leaves;
                done += run.patterns.len();
            }
            rest = after;
            progress.update("counting", done as u64, plan.patterns as u64);
        }
        Ok(counts)
    }

    /// Checks patterns against the events on the device.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    pub fn check(&self, patterns: &[Pattern]) -> Result<()> {
        check_sizes(patterns)?;
        for (i, pattern) in patterns.iter().enumerate() {
            if let Some(s) = pattern.symbols().iter().find(|&&s| !self.holds(s)) {
                return Err(Error::mismatch(format!(
                    "episode {i} has symbol {s}, which is not on the device"
                )));
            }
            (self.check_gap(pattern)).map_err(|e| e.at(format!("episode {i}")))?;
        }
        Ok(())
    }
}

/// The kernels and what every launch of one call shares.
struct Launcher<'a, T> {
    context: &'a Context,
    events: &'a DeviceEvents,
    ticks: &'a TicksOf<T>,
    walk: Kernel,
    greedy: Kernel,
    blocks: u32,
    levels: u32,
    capacity: u32,
    parts: usize,
    lists: Buffer<T>,
}

impl<'a, T: Tick> Launcher<'a, T> {
    fn new(events: &'a DeviceEvents, ticks: &'a TicksOf<T>, plan: &RunPlan) -> Result<Self> {
        let context = events.context();
        let options = [format!("-DWIDE={}", T::VALUE)];
        let shared_bytes = WARPS * plan.levels * size_of::<u32>();
        let capacity = events.most_in_a_window(plan.parts, plan.longest_span);
        // Two lists (ends, starts) a level, the first level's being the index itself.
        let block_ticks = WARPS * plan.levels.saturating_sub(1) * 2 * capacity;
        let memory = LIST_BYTES.min(context.available_memory()? / 4);
        let fitting = (memory / ((size_of::<T>() * block_ticks) as u64).max(1)).max(1);
        let wanted = (plan.runs.len() * plan.parts).div_ceil(WARPS);
        let running = context.info().multiprocessors as usize * WARPS_PER_MULTIPROCESSOR / WARPS;
        let blocks = wanted
            .min(running)
            .min(usize::try_from(fitting).unwrap_or(usize::MAX))
            .max(1);
        Ok(Self {
            context,
            events,
            ticks,
            walk: context.load::<EpisodeWalk<T>>(&options, shared_bytes)?,
            greedy: context.load::<EpisodeGreedy<T>>(&options, 0)?,
            blocks: blocks as u32,
            levels: plan.levels as u32,
            capacity: capacity as u32,
            parts: plan.parts,
            lists: context.alloc(blocks * block_ticks)?,
        })
    }

    /// Number of `runs` that fit one launch; at least one.
    fn fitting(&self, runs: &[Run], slots: usize) -> Result<usize> {
        let memory = TABLE_BYTES.min(self.context.available_memory()? / 4);
        let leaf_bytes = (self.parts * (4 + slots * size_of::<Entry<T>>())) as u64;
        let leaves = usize::try_from(memory / leaf_bytes).unwrap_or(usize::MAX);
        let mut total = 0;
        let fitting = runs
            .iter()
            .take_while(|run| {
                total += run.leaves;
                total <= leaves
            })
            .count();
        Ok(fitting.max(1))
    }

    /// The counts of the distinct patterns of `runs`, which hold if no table was to be longer than
    /// `slots`; the longest table.
    fn count(&mut self, runs: &[Run], slots: usize) -> Result<(Vec<u32>, usize)> {
        let context = self.context;
        let leaves: usize = runs.iter().map(|run| run.leaves).sum();
        let trees = RunPlan::trees::<T>(runs, self.events.duration());
        let nodes = context.upload(&trees.nodes)?;
        let first_nodes = context.upload(&trees.first_nodes)?;
        let spans = context.upload(&trees.spans)?;
        let (slot_count, parts) = (slots as u32, self.parts as u32);
        let mut tables: Buffer<Entry<T>> = context.alloc(leaves * self.parts * slots)?;
        let mut lengths: Buffer<u32> = context.zeros(leaves * self.parts)?;
        // One for each pattern, and the longest table that did not fit.
        let mut counts: Buffer<u32> = context.zeros(leaves + 1)?;
        let walk = EpisodeWalk {
            ticks: self.ticks.ticks.read(),
            cuts: self.ticks.cuts.read(),
            index: self.events.index.read(),
            cells: self.events.cells() as u32,
            parts,
            nodes: nodes.read(),
            run_nodes: first_nodes.read(),
            span: spans.read(),
            runs: runs.len() as u32,
            levels: self.levels,
            capacity: self.capacity,
            lists: self.lists.update(),
            slots: slot_count,
            tables: tables.write(),
            lengths: lengths.update(),
            longest: counts.update().skip(leaves),
        };
        self.walk.launch((self.blocks, 1, 1), THREADS, walk)?;
        let greedy = EpisodeGreedy {
            tables: tables.read(),
            lengths: lengths.read(),
            slots: slot_count,
            parts,
            patterns: leaves as u32,
            counts: counts.write(),
        };
        let blocks = (leaves.div_ceil(WARPS) as u32, 1, 1);
        self.greedy.launch(blocks, THREADS, greedy)?;
        let mut found = context.download(&counts, leaves + 1)?;
        let longest = found.pop().unwrap_or(0) as usize;
        Ok((found, longest))
    }
}
