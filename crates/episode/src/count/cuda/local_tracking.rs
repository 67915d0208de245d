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

use super::DeviceEvents;
use crate::Pattern;
use crate::count::{Compaction, CountJob};
use betz_base::error::Result;
use betz_base::progress;
use betz_device::cuda::{Buffer, Context, Kernel, PushKernelArg};
use betz_kernels::EPISODE_LOCAL_TRACKING;

const THREADS: u32 = 256;

/// How long lists may get.
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
    events.check(job.patterns)?;
    let mut counts = vec![0; job.patterns.len()];
    if counts.is_empty() {
        return Ok(counts);
    }
    let tracker = Tracker::new(events, compaction, limits)?;
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
struct Step {
    /// `struct Step` of each episode.
    steps: Buffer<u32>,
    /// The symbols' events, counted through the episodes: one more than there are episodes.
    slots: Vec<u32>,
}

impl Step {
    fn events(&self) -> usize {
        self.slots.last().map_or(0, |&n| n as usize)
    }
}

/// What a look-up of all entries found.
struct Finds {
    total: usize,
    /// The most of one entry.
    most: usize,
}

/// The kernels and where they look.
struct Tracker<'a> {
    context: &'a Context,
    events: &'a DeviceEvents,
    compaction: Compaction,
    limits: Limits,
    options: [String; 2],
}

impl<'a> Tracker<'a> {
    fn new(events: &'a DeviceEvents, compaction: Compaction, limits: Limits) -> Result<Self> {
        let context = events.context();
        let forward = compaction == Compaction::Atomic;
        // A list, the next, and what lies between them.
        let bytes_an_entry = 60;
        let room = context.available_memory()? / 2 / bytes_an_entry;
        let room = usize::try_from(room).unwrap_or(usize::MAX).max(1);
        Ok(Self {
            context,
            events,
            compaction,
            limits: Limits {
                entries: limits.entries.min(room),
                places: limits.places.min(2 * room),
                ..limits
            },
            options: [
                format!("-DWIDE={}", u32::from(events.is_wide())),
                format!("-DFORWARD={}", u32::from(forward)),
            ],
        })
    }

    /// Cuts `group` where the first lists would fill a quarter of the room.
    fn batches<'o>(
        &self,
        patterns: &'o [Pattern],
        group: &'o [usize],
    ) -> impl Iterator<Item = &'o [usize]> + use<'o> {
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

    fn kernel(&self, name: &str) -> Result<Kernel> {
        self.context
            .kernel(EPISODE_LOCAL_TRACKING, &self.options, name, 0)
    }

    /// Where the symbol at each episode's `place` is, and the delay between it and the symbol
    /// tracked before.
    fn step(&self, patterns: &[&Pattern], place: usize) -> Result<Step> {
        let forward = self.compaction == Compaction::Atomic;
        let mut words = Vec::new();
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
            for bound in interval.map_or([0, 0], |i| [i.low, i.high]) {
                words.extend(self.events.tick_words(bound));
            }
            words.extend([from, to]);
            total += to - from;
            slots.push(total);
        }
        Ok(Step {
            steps: self.context.upload(&words)?,
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
    fn begin(&self, step: &Step) -> Result<Entries> {
        let entries = Entries::alloc(self.context, step.events())?;
        let firsts = self.context.upload(&step.slots)?;
        let (episodes, len) = (step.slots.len() as u32 - 1, entries.len as u32);
        if len > 0 {
            self.kernel("track_begin")?
                .launch(grid(entries.len), THREADS, 0, |a| {
                    a.arg(&step.steps).arg(&firsts).arg(&episodes).arg(&len);
                    a.arg(&entries.at).arg(&entries.other).arg(&entries.episode);
                })?;
        }
        Ok(entries)
    }

    /// Reads what a look-up left in its two numbers.
    fn finds(&self, numbers: &Buffer<u64>) -> Result<Finds> {
        let numbers = self.context.download(numbers, 2)?;
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Ok(Finds {
            total: number(numbers[0]),
            most: number(numbers[1]),
        })
    }

    /// *CountScanWrite*.
    fn count_scan_write(&self, entries: &Entries, step: &Step) -> Result<Option<Entries>> {
        let mut offsets: Buffer<u32> = self.context.alloc(entries.len)?;
        let numbers: Buffer<u64> = self.context.zeros(2)?;
        let most = numbers.slice(1..);
        let len = entries.len as u32;
        self.kernel("track_count")?
            .launch(grid(entries.len), THREADS, 0, |a| {
                a.arg(&self.events.ticks).arg(&step.steps).arg(&len);
                a.arg(&entries.at).arg(&entries.episode);
                a.arg(&offsets).arg(&numbers).arg(&most);
            })?;
        let finds = self.finds(&numbers)?;
        if finds.total > self.limits.entries {
            return Ok(None);
        }
        self.context.exclusive_sums(&mut offsets, entries.len)?;
        let found = Entries::alloc(self.context, finds.total)?;
        self.kernel("track_write")?
            .launch(grid(entries.len), THREADS, 0, |a| {
                a.arg(&self.events.ticks).arg(&step.steps).arg(&len);
                a.arg(&entries.at).arg(&entries.other).arg(&entries.episode);
                a.arg(&offsets);
                a.arg(&found.at).arg(&found.other).arg(&found.episode);
            })?;
        Ok(Some(found))
    }

    /// *CudppCompact*: fixed portions, flags, and a compaction.
    fn flag_and_compact(&self, entries: &Entries, step: &Step) -> Result<Option<Entries>> {
        let len = entries.len as u32;
        let mut portion = self.limits.portion;
        loop {
            let filled = entries.len.saturating_mul(portion);
            if filled > self.limits.places {
                return Ok(None);
            }
            let places: Buffer<u32> = self.context.alloc(filled)?;
            // One more, so that each flag's own value is the difference of two sums.
            let mut flags: Buffer<u32> = self.context.zeros(filled + 1)?;
            let numbers: Buffer<u64> = self.context.zeros(2)?;
            let most = numbers.slice(1..);
            let portion_words = portion as u32;
            self.kernel("track_fill")?
                .launch(grid(entries.len), THREADS, 0, |a| {
                    a.arg(&self.events.ticks).arg(&step.steps).arg(&len);
                    a.arg(&entries.at).arg(&entries.episode);
                    a.arg(&portion_words).arg(&places).arg(&flags);
                    a.arg(&numbers).arg(&most);
                })?;
            let finds = self.finds(&numbers)?;
            if finds.most > portion {
                portion = finds.most;
                continue;
            }
            if finds.total > self.limits.entries {
                return Ok(None);
            }
            self.context.exclusive_sums(&mut flags, filled + 1)?;
            let found = Entries::alloc(self.context, finds.total)?;
            let filled_words = filled as u32;
            self.kernel("track_pick")?
                .launch(grid(filled), THREADS, 0, |a| {
                    a.arg(&filled_words).arg(&portion_words).arg(&places);
                    a.arg(&flags).arg(&entries.other).arg(&entries.episode);
                    a.arg(&found.at).arg(&found.other).arg(&found.episode);
                })?;
            return Ok(Some(found));
        }
    }

    /// *AtomicCompact*, with as much room as there are entries, and then with as much as is needed.
    fn reserve(&self, entries: &Entries, step: &Step) -> Result<Option<Entries>> {
        let len = entries.len as u32;
        let mut room = entries.len;
        loop {
            let mut found = Entries::alloc(self.context, room)?;
            let numbers: Buffer<u64> = self.context.zeros(2)?;
            let room_words = room as u32;
            self.kernel("track_reserve")?
                .launch(grid(entries.len), THREADS, 0, |a| {
                    a.arg(&self.events.ticks).arg(&step.steps).arg(&len);
                    a.arg(&entries.at).arg(&entries.other).arg(&entries.episode);
                    a.arg(&room_words).arg(&numbers);
                    a.arg(&found.at).arg(&found.other).arg(&found.episode);
                })?;
            let needed = self.finds(&numbers)?.total;
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
    fn keep_best(&self, entries: &Entries, step: &Step) -> Result<Entries> {
        let slot_count = step.events();
        let slots = self.context.upload(&step.slots)?;
        let best: Buffer<u32> = self.context.zeros(slot_count)?;
        let len = entries.len as u32;
        self.kernel("track_best")?
            .launch(grid(entries.len), THREADS, 0, |a| {
                a.arg(&step.steps).arg(&slots).arg(&len);
                a.arg(&entries.at).arg(&entries.other).arg(&entries.episode);
                a.arg(&best);
            })?;
        let mut sums: Buffer<u32> = self.context.zeros(slot_count + 1)?;
        let slot_words = slot_count as u32;
        self.kernel("track_keep")?
            .launch(grid(slot_count), THREADS, 0, |a| {
                a.arg(&slot_words).arg(&best).arg(&sums);
            })?;
        self.context.exclusive_sums(&mut sums, slot_count + 1)?;
        let last = slot_count..slot_count + 1;
        let kept = self.context.download_range(&sums, last)?;
        let found = Entries::alloc(self.context, kept[0] as usize)?;
        let episodes = step.slots.len() as u32 - 1;
        self.kernel("track_collect")?
            .launch(grid(slot_count), THREADS, 0, |a| {
                a.arg(&step.steps).arg(&slots).arg(&episodes);
                a.arg(&slot_words).arg(&best).arg(&sums);
                a.arg(&found.at).arg(&found.other).arg(&found.episode);
            })?;
        Ok(found)
    }

    /// The interval scheduling.
    fn schedule(&self, entries: &Entries, episodes: usize) -> Result<Vec<u32>> {
        let counts: Buffer<u32> = self.context.alloc(episodes)?;
        let (len, episode_count) = (entries.len as u32, episodes as u32);
        self.kernel("track_schedule")?
            .launch(grid(episodes * 32), THREADS, 0, |a| {
                a.arg(&self.events.ticks).arg(&len);
                a.arg(&entries.at).arg(&entries.other).arg(&entries.episode);
                a.arg(&episode_count).arg(&counts);
            })?;
        self.context.download(&counts, episodes)
    }
}

/// Blocks for `threads` threads, at least one.
fn grid(threads: usize) -> (u32, u32, u32) {
    (threads.div_ceil(THREADS as usize).max(1) as u32, 1, 1)
}
