//! MapConcat, several threads an episode (*MTPE*): kernels/episode_map_concat.cu.
//!
//! Mended as the CPU's version is: segments are joined in order, and one that no automaton fits is
//! counted again. Joining is a warp's work for each episode, not a tree of pairs as published: which
//! state holds at a segment's begin must be known to count it again.

use super::episodes::{AUTOMATON_BYTES, Episodes, fitting_threads};
use super::serial::{CAPACITY, GROWTH};
use betz_base::error::Result;
use betz_base::progress;
use betz_device::cuda::Buffer;
use betz_episode::count::CountJob;
use betz_episode::count::device::{DeviceStream, check_sizes, list_memory};
use betz_episode::{Events, Pattern};
use betz_kernels::Tuple;
use betz_kernels::episode::{EpisodeConcat, EpisodeMap};

/// Threads for each multiprocessor that segments should give work to.
const THREADS_PER_MULTIPROCESSOR: usize = 1024;

/// Fewest segments, if time is long enough.
const FEWEST: usize = 8;

/// Most segments: joining them is one warp's work, so more take longer than they save.
const MOST: usize = 2_048;

/// Segments last at least so many times what an episode can.
const SPANS: i64 = 2;

/// Bytes of what an automaton saw.
const TUPLE_BYTES: usize = size_of::<Tuple>();

/// The cut of the time, and the first length of lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentCut {
    /// Number of segments; `None` for enough to keep the device busy.
    pub(super) segments: Option<usize>,
    /// Ticks that a list holds at first, a power of two.
    pub(super) capacity: usize,
}

impl Default for SegmentCut {
    fn default() -> Self {
        Self {
            segments: None,
            capacity: CAPACITY,
        }
    }
}

/// Counts by segments.
pub(super) struct SegmentCounts {
    pub(super) counts: Vec<u64>,
    /// Segments that no automaton fitted, of all episodes.
    pub(super) recounted: u64,
}

/// One count for each pattern of `job`.
///
/// Allocates lists and results for the threads of a launch, at most about a gigabyte or a quarter of
/// what is free unless one episode needs more. Asks the progress between launches.
pub(super) fn count(
    stream: &DeviceStream,
    job: &CountJob<'_>,
    shape: SegmentCut,
) -> Result<SegmentCounts> {
    check_sizes(job.patterns)?;
    let mut done = SegmentCounts {
        counts: vec![0; job.patterns.len()],
        recounted: 0,
    };
    let mut left: Vec<usize> = (0..done.counts.len()).collect();
    let mut capacity = shape.capacity;
    while !left.is_empty() {
        let patterns = || left.iter().map(|&i| &job.patterns[i]);
        let places = patterns().map(Pattern::size).max().unwrap_or(1);
        let span = patterns().map(Pattern::span).max().unwrap_or(0);
        let segments = shape.segments.unwrap_or_else(|| {
            let threads =
                stream.context.info().multiprocessors as usize * THREADS_PER_MULTIPROCESSOR;
            let duration = job.events.last_tick() - job.events.first_tick();
            let calm = usize::try_from(duration / (span * SPANS).max(1)).unwrap_or(MOST);
            (threads / (left.len() * places)).max(FEWEST).min(calm)
        });
        let segments = Segments::new(job.events, segments.clamp(1, MOST), span);
        let bytes = segments.count() * places * (TUPLE_BYTES + (places - 1) * capacity * 8);
        let fitting = (list_memory(&stream.context)? / bytes as u64).max(1) as usize;
        let mut overflown = Vec::new();
        let round = Round {
            stream,
            job,
            segments,
            capacity,
        };
        for batch in left.chunks(fitting) {
            progress::check(job.progress, "counting")?;
            round.count(batch, &mut done, &mut overflown)?;
        }
        let finished = done.counts.len() - overflown.len();
        let total = done.counts.len() as u64;
        job.progress.update("counting", finished as u64, total);
        left = overflown;
        capacity *= GROWTH;
    }
    Ok(done)
}

/// The segments of the time.
struct Segments {
    /// The first tick of each, and the end of the last.
    cuts: Vec<i64>,
    /// The events that any of a segment's automata may have to see: index of the first, and of the
    /// first after.
    entries: Vec<u32>,
    exits: Vec<u32>,
}

impl Segments {
    fn new(events: &Events, segments: usize, span: i64) -> Self {
        let stream = events.stream();
        let mut cuts = vec![0];
        cuts.extend((1..segments).map(|i| events.unpack(stream[i * stream.len() / segments]).0));
        cuts.dedup();
        cuts.retain(|&c| c == 0 || c > events.first_tick());
        cuts.push(i64::MAX);
        let index = |tick: i64| events.position(tick) as u32;
        let entries = cuts[..cuts.len() - 1].iter();
        let exits = cuts[1..].iter();
        Self {
            entries: entries.map(|c| index(c.saturating_sub(span))).collect(),
            exits: exits.map(|c| index(c.saturating_add(span))).collect(),
            cuts,
        }
    }

    fn count(&self) -> usize {
        self.entries.len()
    }
}

/// One pass over patterns: the segments, and the length of lists.
struct Round<'a> {
    stream: &'a DeviceStream,
    job: &'a CountJob<'a>,
    segments: Segments,
    capacity: usize,
}

/// A batch of episodes on the device, with the memory that both kernels share.
struct Batch {
    episodes: Episodes,
    cuts: Buffer<i64>,
    exits: Buffer<u32>,
    lists: Buffer<i64>,
    tuples: Buffer<Tuple>,
    /// Counts, flags of lists that were too short, and the number of segments counted again.
    results: Buffer<u32>,
    threads: usize,
    blocks: usize,
}

impl Round<'_> {
    /// Counts the patterns of `batch`; lists those whose lists were too short.
    fn count(
        &self,
        batch: &[usize],
        done: &mut SegmentCounts,
        overflown: &mut Vec<usize>,
    ) -> Result<()> {
        let context = &self.stream.context;
        let episodes = Episodes::upload(context, batch.iter().map(|&i| &self.job.patterns[i]))?;
        let places = episodes.places as usize;
        let items = batch.len() * places;
        let wanted = items.next_multiple_of(32).min(128);
        let threads = fitting_threads(context, wanted, places * AUTOMATON_BYTES);
        let blocks = items.div_ceil(threads);
        let segments = self.segments.count();
        let lists = segments * blocks * threads * (places - 1) * self.capacity;
        let mut there = Batch {
            episodes,
            cuts: context.upload(&self.segments.cuts)?,
            exits: context.upload(&self.segments.exits)?,
            lists: context.alloc(lists)?,
            tuples: context.alloc(segments * items)?,
            results: context.zeros(2 * batch.len() + 1)?,
            threads,
            blocks,
        };
        self.map(&mut there)?;
        self.concat(&mut there)?;
        let results = context.download(&there.results, 2 * batch.len() + 1)?;
        for (k, &i) in batch.iter().enumerate() {
            if results[batch.len() + k] != 0 {
                overflown.push(i);
            } else {
                done.counts[i] = u64::from(results[k]);
            }
        }
        done.recounted += u64::from(results[2 * batch.len()]);
        Ok(())
    }

    /// Runs an automaton for every segment and split.
    fn map(&self, batch: &mut Batch) -> Result<()> {
        let (stream, context) = (self.stream, &self.stream.context);
        let entries = context.upload(&self.segments.entries)?;
        let episodes = &batch.episodes;
        let map = EpisodeMap {
            events: stream.events.read(),
            event_count: stream.count,
            symbol_bits: stream.symbol_bits,
            sizes: episodes.sizes.read(),
            symbols: episodes.symbols.read(),
            lows: episodes.lows.read(),
            highs: episodes.highs.read(),
            episodes: episodes.count,
            places: episodes.places,
            cuts: batch.cuts.read(),
            entries: entries.read(),
            exits: batch.exits.read(),
            capacity: self.capacity as u32,
            lists: batch.lists.update(),
            tuples: batch.tuples.write(),
            overflown: batch.results.update().skip(episodes.count as usize),
        };
        let bytes = batch.threads * episodes.places as usize * AUTOMATON_BYTES;
        context.load::<EpisodeMap>(&[], bytes)?.launch(
            (batch.blocks as u32, self.segments.count() as u32, 1),
            batch.threads as u32,
            map,
        )
    }

    /// Joins the segments of each episode.
    fn concat(&self, batch: &mut Batch) -> Result<()> {
        let (stream, context) = (self.stream, &self.stream.context);
        let episodes = &batch.episodes;
        let (counts, others) = batch.results.update().split_at(episodes.count as usize);
        let (overflown, recounted) = others.split_at(episodes.count as usize);
        let concat = EpisodeConcat {
            events: stream.events.read(),
            event_count: stream.count,
            symbol_bits: stream.symbol_bits,
            sizes: episodes.sizes.read(),
            symbols: episodes.symbols.read(),
            lows: episodes.lows.read(),
            highs: episodes.highs.read(),
            episodes: episodes.count,
            places: episodes.places,
            cuts: batch.cuts.read(),
            exits: batch.exits.read(),
            segments: self.segments.count() as u32,
            capacity: self.capacity as u32,
            // The map's lists serve again: it had at least one thread per episode.
            lists: batch.lists.update(),
            tuples: batch.tuples.read(),
            counts,
            overflown,
            recounted,
        };
        context
            .load::<EpisodeConcat>(&[], episodes.places as usize * AUTOMATON_BYTES)?
            .launch((episodes.count, 1, 1), 32, concat)
    }
}
