//! Parallel local tracking, a thread an occurrence: kernels/episode_local_tracking.cu.
//!
//! The three compactions of the papers, each in its way: *atomic* tracks forward and loses the order,
//! *flags* and *count-scan-write* track backward and keep it. Many episodes of one size go through a
//! launch side by side, where the papers launch for each.
//!
//! Mended as the CPU's version is: lists are as long as the finds need, and once they hold more
//! entries than there are events, of those that share an event only the best is kept. The order that
//! the atomic compaction loses comes back by the same step, for events have places: no sort is
//! needed. An episode whose list would be longer than [`Limits::entries`] is counted by latest
//! starts.

use crate::Compaction;
use betz_base::error::Result;
use betz_base::progress;
use betz_device::cuda::{Buffer, Context};
use betz_episode::Pattern;
use betz_episode::count::CountJob;
use betz_episode::count::device::{DeviceEvents, Ticks, TicksOf};
use betz_kernels::episode::{
    TrackBegin, TrackBest, TrackCollect, TrackCount, TrackFill, TrackKeep, TrackPick, TrackReserve,
    TrackSchedule, TrackWrite,
};
use betz_kernels::{Arguments, Tally, Tick};

const THREADS: u32 = 256;

/// The largest sizes of lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Entries of a list, 12 bytes each.
    pub(super) entries: usize,
    /// Places of the flag compaction's portions, 8 bytes each.
    pub(super) places: usize,
    /// Places in each entry's portion at first.
    pub(super) portion: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 1 << 25,
            places: 1 << 26,
            portion: 2,
        }
    }
}

/// One count for each pattern of `job`, whose events `events` holds.
///
/// Allocates on the device, for each entry of a list, up to about 60 bytes.
pub(super) fn count(
    events: &DeviceEvents,
    compaction: Compaction,
    job: &CountJob<'_>,
    limits: Limits,
) -> Result<Vec<u64>> {
    match events.ticks() {
        Ticks::Narrow(ticks) => count_ticks(events, ticks, compaction, job, limits),
        Ticks::Wide(ticks) => count_ticks(events, ticks, compaction, job, limits),
    }
}

fn count_ticks<T: Tick>(
    events: &DeviceEvents,
    ticks: &TicksOf<T>,
    compaction: Compaction,
    job: &CountJob<'_>,
    limits: Limits,
) -> Result<Vec<u64>> {
    events.check(job.patterns)?;
    let mut counts = vec![0; job.patterns.len()];
    if counts.is_empty() {
        return Ok(counts);
    }
    let tracker = Tracker::new(events, ticks, compaction, limits)?;
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&i| job.patterns[i].size());
    // Batches of one size, the first on top.
    let mut batches: Vec<&[usize]> = order
        .chunk_by(|&a, &b| job.patterns[a].size() == job.patterns[b].size())
        .flat_map(|group| tracker.batches(job.patterns, group))
        .collect();
    batches.reverse();
    let mut done = 0;
    while let Some(batch) = batches.pop() {
        progress::check(job.progress, "counting")?;
        let patterns: Vec<&Pattern> = batch.iter().map(|&i| &job.patterns[i]).collect();
        match tracker.track(&patterns)? {
            Some(found) => {
                for (&i, count) in batch.iter().zip(found) {
                    counts[i] = u64::from(count);
                }
            }
            None if batch.len() > 1 => {
                let (first, second) = batch.split_at(batch.len() / 2);
                batches.extend([second, first]);
                continue;
            }
            None => counts[batch[0]] = events.count(&[patterns[0].clone()], &())?[0],
        }
        done += batch.len();
        job.progress
            .update("counting", done as u64, counts.len() as u64);
    }
    Ok(counts)
}

/// Partial occurrences; see the kernels' file.
struct Entries {
    at: Buffer<u32>,
    other: Buffer<u32>,
    episode: Buffer<u32>,
    len: usize,
}

impl Entries {
    fn alloc(context: &Context, len: usize) -> Result<Self> {
        Ok(Self {
            at: context.alloc(len)?,
            other: context.alloc(len)?,
            episode: context.alloc(len)?,
            len,
        })
    }
}

/// A batch of episodes at one of their symbols.
struct Step<T> {
    /// Each episode's.
    steps: Buffer<betz_kernels::Step<T>>,
    /// The symbols' events, counted through the episodes: one more than there are episodes.
    slots: Vec<u32>,
}

impl<T> Step<T> {
    fn events(&self) -> usize {
        self.slots.last().map_or(0, |&n| n as usize)
    }
}

/// The number of events that a look-up of all entries found.
struct Finds {
    total: usize,
    /// The most of one entry.
    most: usize,
}

/// The kernels and the events that they search.
struct Tracker<'a, T> {
    context: &'a Context,
    events: &'a DeviceEvents,
    ticks: &'a Buffer<T>,
    compaction: Compaction,
    limits: Limits,
    options: [String; 2],
}

impl<'a, T: Tick> Tracker<'a, T> {
    fn new(
        events: &'a DeviceEvents,
        ticks: &'a TicksOf<T>,
        compaction: Compaction,
        limits: Limits,
    ) -> Result<Self> {
        let context = events.context();
        let forward = compaction == Compaction::Atomic;
        // A list, the next, and what lies between them.
        let bytes_an_entry = 60;
        let room = context.available_memory()? / 2 / bytes_an_entry;
        let room = usize::try_from(room).unwrap_or(usize::MAX).max(1);
        Ok(Self {
            context,
            events,
            ticks: &ticks.ticks,
            compaction,
            limits: Limits {
                entries: limits.entries.min(room),
                places: limits.places.min(2 * room),
                ..limits
            },
            options: [
                format!("-DWIDE={}", T::VALUE),
                format!("-DFORWARD={}", u32::from(forward)),
            ],
        })
    }

    /// Cuts `group` so that the first lists fill a quarter of the room.
    fn batches<'o>(
        &self,
        patterns: &'o [Pattern],
        group: &'o [usize],
    ) -> impl Iterator<Item = &'o [usize]> + use<'o, T> {
        let room = self.limits.entries / 4;
        let lengths: Vec<usize> = group
            .iter()
            .map(|&i| {
                let longest = patterns[i].symbols().iter().map(|&s| {
                    let (from, to) = self.events.range(s);
                    (to - from) as usize
                });
                longest.max().unwrap_or(0)
            })
            .collect();
        let mut from = 0;
        std::iter::from_fn(move || {
            if from == group.len() {
                return None;
            }
            let mut total = lengths[from];
            let mut to = from + 1;
            while to < group.len() && total + lengths[to] <= room {
                total += lengths[to];
                to += 1;
            }
            let batch = &group[from..to];
            from = to;
            Some(batch)
        })
    }

    /// Starts a kernel with a thread for each of `threads`.
    fn launch<A: Arguments>(&self, threads: usize, arguments: A) -> Result<()> {
        self.context
            .load::<A>(&self.options, 0)?
            .launch(grid(threads), THREADS, arguments)
    }

    /// The occurrences of the symbol at each episode's `place`, and the delay between it and the symbol
    /// tracked before.
    fn step(&self, patterns: &[&Pattern], place: usize) -> Result<Step<T>> {
        let forward = self.compaction == Compaction::Atomic;
        let mut steps = Vec::with_capacity(patterns.len());
        let mut slots = vec![0];
        let mut total = 0;
        for pattern in patterns {
            let edge = if forward {
                place.checked_sub(1)
            } else {
                Some(place)
            };
            let interval = edge.and_then(|e| pattern.intervals().get(e));
            let (from, to) = self.events.range(pattern.symbols()[place]);
            steps.push(betz_kernels::Step {
                low: self.events.tick(interval.map_or(0, |i| i.low)),
                high: self.events.tick(interval.map_or(0, |i| i.high)),
                from,
                to,
            });
            total += to - from;
            slots.push(total);
        }
        Ok(Step {
            steps: self.context.upload(&steps)?,
            slots,
        })
    }

    /// One count for each of the patterns, which have the same size; `None` when a list would be
    /// too long.
    fn track(&self, patterns: &[&Pattern]) -> Result<Option<Vec<u32>>> {
        let size = patterns[0].size();
        let mut places: Vec<usize> = (0..size).collect();
        let forward = self.compaction == Compaction::Atomic;
        if !forward {
            places.reverse();
        }
        let mut step = self.step(patterns, places[0])?;
        if step.events() > self.limits.entries {
            return Ok(None);
        }
        let mut entries = self.begin(&step)?;
        let mut ordered = true;
        for &place in &places[1..] {
            if entries.len == 0 {
                return Ok(Some(vec![0; patterns.len()]));
            }
            step = self.step(patterns, place)?;
            let found = match self.compaction {
                Compaction::CountScanWrite => self.count_scan_write(&entries, &step)?,
                Compaction::Flags => self.flag_and_compact(&entries, &step)?,
                Compaction::Atomic => self.reserve(&entries, &step)?,
            };
            let Some(found) = found else { return Ok(None) };
            ordered = !forward;
            entries = found;
            if entries.len > step.events() {
                entries = self.keep_best(&entries, &step)?;
                ordered = true;
            }
        }
        if !ordered && entries.len > 0 {
            entries = self.keep_best(&entries, &step)?;
        }
        self.schedule(&entries, patterns.len()).map(Some)
    }

    /// Every event of the first step.
    fn begin(&self, step: &Step<T>) -> Result<Entries> {
        let mut entries = Entries::alloc(self.context, step.events())?;
        let firsts = self.context.upload(&step.slots)?;
        if entries.len > 0 {
            let begin = TrackBegin {
                steps: step.steps.read(),
                firsts: firsts.read(),
                episodes: step.slots.len() as u32 - 1,
                entries: entries.len as u32,
                at: entries.at.write(),
                other: entries.other.write(),
                episode: entries.episode.write(),
            };
            self.launch(entries.len, begin)?;
        }
        Ok(entries)
    }

    /// Reads what a look-up found.
    fn finds(&self, tally: &Buffer<Tally>) -> Result<Finds> {
        let tally = self.context.download(tally, 1)?[0];
        Ok(Finds {
            total: usize::try_from(tally.total).unwrap_or(usize::MAX),
            most: tally.most as usize,
        })
    }

    /// *CountScanWrite*.
    fn count_scan_write(&self, entries: &Entries, step: &Step<T>) -> Result<Option<Entries>> {
        let mut offsets: Buffer<u32> = self.context.alloc(entries.len)?;
        let mut tally: Buffer<Tally> = self.context.zeros(1)?;
        let len = entries.len as u32;
        let count = TrackCount {
            ticks: self.ticks.read(),
            steps: step.steps.read(),
            entries: len,
            at: entries.at.read(),
            episode: entries.episode.read(),
            counts: offsets.write(),
            tally: tally.update(),
        };
        self.launch(entries.len, count)?;
        let finds = self.finds(&tally)?;
        if finds.total > self.limits.entries {
            return Ok(None);
        }
        self.context.exclusive_sums(&mut offsets, entries.len)?;
        let mut found = Entries::alloc(self.context, finds.total)?;
        let write = TrackWrite {
            ticks: self.ticks.read(),
            steps: step.steps.read(),
            entries: len,
            at: entries.at.read(),
            other: entries.other.read(),
            episode: entries.episode.read(),
            offsets: offsets.read(),
            new_at: found.at.write(),
            new_other: found.other.write(),
            new_episode: found.episode.write(),
        };
        self.launch(entries.len, write)?;
        Ok(Some(found))
    }

    /// *CudppCompact*: fixed portions, flags, and a compaction.
    fn flag_and_compact(&self, entries: &Entries, step: &Step<T>) -> Result<Option<Entries>> {
        let mut portion = self.limits.portion;
        loop {
            let filled = entries.len.saturating_mul(portion);
            if filled > self.limits.places {
                return Ok(None);
            }
            let mut places: Buffer<u32> = self.context.alloc(filled)?;
            // One more, so that each flag's own value is the difference of two sums.
            let mut flags: Buffer<u32> = self.context.zeros(filled + 1)?;
            let mut tally: Buffer<Tally> = self.context.zeros(1)?;
            let fill = TrackFill {
                ticks: self.ticks.read(),
                steps: step.steps.read(),
                entries: entries.len as u32,
                at: entries.at.read(),
                episode: entries.episode.read(),
                portion: portion as u32,
                places: places.write(),
                flags: flags.write(),
                tally: tally.update(),
            };
            self.launch(entries.len, fill)?;
            let finds = self.finds(&tally)?;
            if finds.most > portion {
                portion = finds.most;
                continue;
            }
            if finds.total > self.limits.entries {
                return Ok(None);
            }
            self.context.exclusive_sums(&mut flags, filled + 1)?;
            let mut found = Entries::alloc(self.context, finds.total)?;
            let pick = TrackPick {
                filled: filled as u32,
                portion: portion as u32,
                places: places.read(),
                sums: flags.read(),
                other: entries.other.read(),
                episode: entries.episode.read(),
                new_at: found.at.write(),
                new_other: found.other.write(),
                new_episode: found.episode.write(),
            };
            self.launch(filled, pick)?;
            return Ok(Some(found));
        }
    }

    /// *AtomicCompact*, with as much room as there are entries, and then with as much as is needed.
    fn reserve(&self, entries: &Entries, step: &Step<T>) -> Result<Option<Entries>> {
        let mut room = entries.len;
        loop {
            let mut found = Entries::alloc(self.context, room)?;
            let mut tally: Buffer<Tally> = self.context.zeros(1)?;
            let reserve = TrackReserve {
                ticks: self.ticks.read(),
                steps: step.steps.read(),
                entries: entries.len as u32,
                at: entries.at.read(),
                other: entries.other.read(),
                episode: entries.episode.read(),
                room: room as u32,
                tally: tally.update(),
                new_at: found.at.write(),
                new_other: found.other.write(),
                new_episode: found.episode.write(),
            };
            self.launch(entries.len, reserve)?;
            let needed = self.finds(&tally)?.total;
            if needed > self.limits.entries {
                return Ok(None);
            }
            if needed <= room {
                found.len = needed;
                return Ok(Some(found));
            }
            room = needed;
        }
    }

    /// Of the entries that have reached one event the best, in the order of the events.
    fn keep_best(&self, entries: &Entries, step: &Step<T>) -> Result<Entries> {
        let slot_count = step.events();
        let slots = self.context.upload(&step.slots)?;
        let mut best: Buffer<u32> = self.context.zeros(slot_count)?;
        let find = TrackBest {
            steps: step.steps.read(),
            slots: slots.read(),
            entries: entries.len as u32,
            at: entries.at.read(),
            other: entries.other.read(),
            episode: entries.episode.read(),
            best: best.update(),
        };
        self.launch(entries.len, find)?;
        let mut sums: Buffer<u32> = self.context.zeros(slot_count + 1)?;
        let keep = TrackKeep {
            slot_count: slot_count as u32,
            best: best.read(),
            kept: sums.write(),
        };
        self.launch(slot_count, keep)?;
        self.context.exclusive_sums(&mut sums, slot_count + 1)?;
        let last = slot_count..slot_count + 1;
        let kept = self.context.download_range(&sums, last)?;
        let mut found = Entries::alloc(self.context, kept[0] as usize)?;
        let collect = TrackCollect {
            steps: step.steps.read(),
            slots: slots.read(),
            episodes: step.slots.len() as u32 - 1,
            slot_count: slot_count as u32,
            best: best.read(),
            sums: sums.read(),
            at: found.at.write(),
            other: found.other.write(),
            episode: found.episode.write(),
        };
        self.launch(slot_count, collect)?;
        Ok(found)
    }

    /// The interval scheduling.
    fn schedule(&self, entries: &Entries, episodes: usize) -> Result<Vec<u32>> {
        let mut counts: Buffer<u32> = self.context.alloc(episodes)?;
        let schedule = TrackSchedule {
            ticks: self.ticks.read(),
            entries: entries.len as u32,
            at: entries.at.read(),
            other: entries.other.read(),
            episode: entries.episode.read(),
            episodes: episodes as u32,
            counts: counts.write(),
        };
        self.launch(episodes * 32, schedule)?;
        self.context.download(&counts, episodes)
    }
}

/// Blocks for `threads` threads, at least one.
fn grid(threads: usize) -> (u32, u32, u32) {
    (threads.div_ceil(THREADS as usize).max(1) as u32, 1, 1)
}
