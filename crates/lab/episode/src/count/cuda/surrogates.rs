//! Surrogates made and counted on a device: kernels/episode_surrogate.cu, and its sort.
//!
//! ```text
//! events, once a device ──► surrogate_dither ──► sort by tick ──► sort by symbol ──► ticks, index ──► counts
//! ```
//!
//! A surrogate follows from the events and one number, so only that number goes to the device for each, and only the
//! index and the counts come back.

use std::ops::Range;
use std::sync::Arc;

use super::events::{EventLayout, Ticks, TicksOf, cuts};
use super::siblings::CountPlan;
use super::{DeviceEvents, DeviceStream, check_number, check_sizes, most_at_once};
use crate::count::CountJob;
use crate::events::Events;
use crate::events::max_tick;
use crate::pattern::Pattern;
use betz_base::error::{Error, Result};
use betz_base::progress::{Progress, Quiet};
use betz_device::cuda::{Buffer, Context};
use betz_kernels::Tick;
use betz_kernels::episode::{SurrogateDither, SurrogateIndex, SurrogateTicks};

/// Threads of a block.
const THREADS: u32 = 256;

/// Bits of an event, of which one stays free.
const MOST_BITS: u32 = 63;

/// The moves of one surrogate's events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moves {
    /// Largest distance in ticks.
    pub(crate) delta: i64,
    /// The key that the surrogate's number makes from the seed.
    pub(crate) key: u64,
}

/// Events on a device of which surrogates are made there, and the patterns that are counted in each.
///
/// Takes 8 bytes per event there, and up to 25 more while a surrogate is made and counted.
pub(crate) struct DeviceSurrogates<'a> {
    context: Arc<Context>,
    events: &'a Events,
    patterns: &'a [Pattern],
    /// Which patterns are counted at once, and how.
    pieces: Vec<(Range<usize>, CountPlan)>,
    frame: Frame,
    wide: bool,
    host_cuts: Vec<i64>,
    source: Buffer<u64>,
    firsts: Buffer<i64>,
    lasts: Buffer<i64>,
    offsets: Buffer<u32>,
    segments: u32,
}

/// The range of time in which a surrogate's events may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    origin: i64,
    duration: i64,
    tick_bits: u32,
}

impl Frame {
    /// The frame of the surrogates of `events`; `None` if a moved event might not pack.
    fn new(events: &Events) -> Option<Self> {
        let bounds = events.segment_bounds();
        let (&(origin, _), &(_, last)) = (bounds.first()?, bounds.last()?);
        let tick_bits = (u64::BITS - ((last - origin) as u64).leading_zeros()).max(1);
        let packs =
            last <= max_tick(events.symbols()) && tick_bits + events.symbol_bits() <= MOST_BITS;
        packs.then_some(Self {
            origin,
            duration: last - origin + 1,
            tick_bits,
        })
    }
}

impl<'a> DeviceSurrogates<'a> {
    /// True when surrogates of `events` can be made on a device.
    pub(crate) fn can_be_made(events: &Events) -> bool {
        Frame::new(events).is_some()
    }

    /// Copies `events` to the device of `context`; of their surrogates `patterns` are to be counted, which are best
    /// sorted by their prefixes.
    ///
    /// # Errors
    /// `InvalidArgument` for more than 2³⁰ events, episodes too long for a device, or events of which no surrogate
    /// [can be made](Self::can_be_made) there; `DeviceMemory`, `DeviceFailure`.
    pub(crate) fn new(
        context: &Arc<Context>,
        events: &'a Events,
        patterns: &'a [Pattern],
    ) -> Result<Self> {
        check_number(events)?;
        check_sizes(patterns)?;
        let frame = Frame::new(events).ok_or_else(|| {
            Error::argument(
                "surrogates on a device: expected segments that end where an event may be",
            )
        })?;
        let EventLayout { cells, wide } = EventLayout::new(events, frame.duration);
        let host_cuts = cuts(events, cells, frame.origin, frame.duration);
        let (firsts, lasts): (Vec<i64>, Vec<i64>) = events.segment_bounds().into_iter().unzip();
        let offsets: Vec<u32> = events.index().0.iter().map(|&o| o as u32).collect();
        let mut pieces = Vec::new();
        let most = most_at_once(events.len());
        for first in (0..patterns.len()).step_by(most) {
            let piece = first..patterns.len().min(first + most);
            let job = CountJob::new(events, &patterns[piece.clone()]);
            pieces.push((piece, CountPlan::new(context, &job, cells, frame.duration)));
        }
        Ok(Self {
            source: context.upload(events.stream())?,
            firsts: context.upload(&firsts)?,
            lasts: context.upload(&lasts)?,
            offsets: context.upload(&offsets)?,
            segments: firsts.len() as u32,
            context: Arc::clone(context),
            events,
            patterns,
            pieces,
            frame,
            wide,
            host_cuts,
        })
    }

    /// The counts of the patterns in the surrogate that `moves` make, in order. Asks the progress between launches.
    ///
    /// # Errors
    /// `Mismatch` for a pattern that does not fit the events; `DeviceMemory`, `DeviceFailure`; `Interrupted`.
    pub(crate) fn count(&self, moves: Moves, progress: &dyn Progress) -> Result<Vec<u64>> {
        let (made, stream) = self.make(moves)?;
        // If no piece needs it, its memory is free for the lists.
        let needed = self.pieces.iter().any(|(_, plan)| plan.needs_stream());
        let stream = needed.then(|| Arc::new(stream));
        let mut counts = Vec::with_capacity(self.patterns.len());
        for (piece, plan) in &self.pieces {
            let job = CountJob {
                progress: &Quiet(progress),
                ..CountJob::new(self.events, &self.patterns[piece.clone()])
            };
            let in_time = || match &stream {
                Some(stream) => Ok(Arc::clone(stream)),
                None => Err(Error::argument(
                    "counting: expected events in the order of time",
                )),
            };
            counts.extend(plan.count(&made, in_time, &job)?);
        }
        Ok(counts)
    }

    /// The surrogate's events, by symbol and in the order of time. Waits for them.
    pub(super) fn make(&self, moves: Moves) -> Result<(DeviceEvents, DeviceStream)> {
        let (count, symbol_bits) = (self.events.len(), self.events.symbol_bits());
        let mut moved = self.context.alloc(count)?;
        let options = match self.wide {
            true => options::<i64>(),
            false => options::<i32>(),
        };
        self.context.load::<SurrogateDither>(&options, 0)?.launch(
            blocks(count),
            THREADS,
            SurrogateDither {
                events: self.source.read(),
                count: count as u32,
                symbol_bits,
                firsts: self.firsts.read(),
                lasts: self.lasts.read(),
                segments: self.segments,
                origin: self.frame.origin,
                key: moves.key,
                delta: moves.delta,
                moved: moved.write(),
            },
        )?;
        let in_time = symbol_bits..symbol_bits + self.frame.tick_bits;
        let stream = self.context.sorted_by_bits(&moved, count, in_time)?;
        drop(moved);
        let by_symbol = self
            .context
            .sorted_by_bits(&stream, count, 0..symbol_bits)?;
        let (ticks, index) = if self.wide {
            let (ticks, index) = self.laid_out(&by_symbol)?;
            (Ticks::Wide(ticks), index)
        } else {
            let (ticks, index) = self.laid_out(&by_symbol)?;
            (Ticks::Narrow(ticks), index)
        };
        drop(by_symbol);
        let cuts = self.host_cuts.clone();
        let made = DeviceEvents::made(&self.context, self.events, ticks, index, cuts)?;
        let stream = DeviceStream {
            context: Arc::clone(&self.context),
            events: stream,
            count: count as u32,
            symbol_bits,
            origin: 0,
        };
        Ok((made, stream))
    }

    /// The ticks of events that are sorted by symbol, and where each symbol's cells begin among them.
    fn laid_out<T: Tick>(&self, by_symbol: &Buffer<u64>) -> Result<(TicksOf<T>, Buffer<u32>)> {
        let context = &self.context;
        let (count, symbols) = (self.events.len(), self.events.symbols());
        let mut ticks = context.alloc(count)?;
        context
            .load::<SurrogateTicks<T>>(&options::<T>(), 0)?
            .launch(
                blocks(count),
                THREADS,
                SurrogateTicks {
                    events: by_symbol.read(),
                    count: count as u32,
                    symbol_bits: self.events.symbol_bits(),
                    ticks: ticks.write(),
                },
            )?;
        let cuts: Vec<T> = self.host_cuts.iter().map(|&cut| T::narrowed(cut)).collect();
        let cuts = context.upload(&cuts)?;
        let places = symbols * self.host_cuts.len();
        let mut index = context.alloc(places)?;
        context
            .load::<SurrogateIndex<T>>(&options::<T>(), 0)?
            .launch(
                blocks(places),
                THREADS,
                SurrogateIndex {
                    ticks: ticks.read(),
                    offsets: self.offsets.read(),
                    symbols: symbols as u32,
                    cuts: cuts.read(),
                    cells: (self.host_cuts.len() - 1) as u32,
                    index: index.write(),
                },
            )?;
        Ok((TicksOf { ticks, cuts }, index))
    }
}

fn options<T: Tick>() -> [String; 1] {
    [format!("-DWIDE={}", T::VALUE)]
}

/// A thread each for `many`.
fn blocks(many: usize) -> (u32, u32, u32) {
    (many.div_ceil(THREADS as usize) as u32, 1, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alphabet::Alphabet;
    use crate::cases::{device, far_events, random_case, random_pattern, random_segments, trials};
    use crate::clock::Clock;
    use crate::count::{LatestStart, Strategy};
    use crate::pattern::Interval;
    use crate::significance::{Dither, Surrogate};
    use betz_base::error::ErrorKind;
    use betz_base::progress::StopAfter;
    use rand::{Rng, RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// `number` events of so many symbols in `ticks` ticks, of which some come many at once.
    fn crowded(rng: &mut impl Rng, symbols: usize, number: usize, ticks: i64) -> Events {
        let labels = (0..symbols).map(|s| format!("u{s}")).collect();
        let clock = Clock::from_tick_seconds(1e-3).unwrap();
        let mut pairs = Vec::new();
        while pairs.len() < number {
            let pair = (
                rng.random_range(0..ticks),
                rng.random_range(0..symbols as u32),
            );
            let times = if rng.random_bool(0.1) { 5 } else { 1 };
            pairs.extend(std::iter::repeat_n(pair, times));
        }
        pairs.sort_unstable();
        let (ticks, symbols): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
        Events::new(Alphabet::new(labels, clock).unwrap(), &ticks, &symbols).unwrap()
    }

    /// Events of all sorts: few and many, of few symbols and more than a byte can tell apart, in one segment and several,
    /// of which some are silent or begin late, in ticks of 32 bits and of 64.
    fn sorts() -> Vec<Events> {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut all: Vec<Events> = (0..24)
            .map(|seed| random_case(seed, 60, 0).events)
            .collect();
        all.push(crowded(&mut rng, 1, 5_000, 300));
        all.push(crowded(&mut rng, 7, 20_000, 9_000));
        all.push(crowded(&mut rng, 700, 30_000, 100_000));
        all.push(crowded(&mut rng, 3, 900, 1));
        for factor in [1, 1 << 20, 1 << 33] {
            all.push(far_events(&mut rng, 3, factor));
        }
        for _ in 0..12 {
            let length = rng.random_range(200..4_000);
            let segments: Vec<(i64, i64)> = random_segments(&mut rng, length, 0..40, 1..300)
                .iter()
                .map(|s| (s.start, s.stop))
                .collect();
            let number = rng.random_range(200..2_000);
            let mut ticks: Vec<i64> = (0..number).map(|_| rng.random_range(0..length)).collect();
            ticks.sort_unstable();
            let channels = ticks.iter().map(|_| rng.random_range(0..4)).collect();
            all.push(trials(4, length, &segments, ticks, channels));
        }
        all
    }

    fn ticks_on(context: &Context, there: &DeviceEvents, len: usize) -> Vec<i64> {
        match &there.ticks {
            Ticks::Narrow(of) => {
                let ticks = context.download(&of.ticks, len).unwrap();
                ticks.into_iter().map(i64::from).collect()
            }
            Ticks::Wide(of) => context.download(&of.ticks, len).unwrap(),
        }
    }

    #[test]
    fn cuda_surrogates_are_the_cpus_to_the_bit() {
        let Some((_, context)) = device() else { return };
        for (which, events) in sorts().iter().enumerate() {
            assert!(DeviceSurrogates::can_be_made(events));
            let there = DeviceSurrogates::new(&context, events, &[]).unwrap();
            let (origin, bits) = (there.frame.origin, events.symbol_bits());
            for (seed, delta) in [(1, 1), (2, 17), (3, 500), (u64::MAX, 1 << 40)] {
                let place = format!("events {which}, seed {seed}, delta {delta}");
                let surrogate = Surrogate::Dither { delta };
                let expected = surrogate.make(events, seed, 5).unwrap();
                let key = Dither::new(delta, seed, 5).key();
                let (made, stream) = there.make(Moves { delta, key }).unwrap();
                let found = ticks_on(&context, &made, events.len());
                let wanted = expected.index().1.iter().map(|t| t - origin);
                assert!(found.iter().copied().eq(wanted), "{place}: by symbol");
                let mut in_time: Vec<u64> = context.download(&stream.events, events.len()).unwrap();
                assert!(in_time.is_sorted_by_key(|e| e >> bits), "{place}: in time");
                in_time.sort_unstable();
                let wanted = (expected.iter())
                    .map(|(tick, s)| ((tick - origin) as u64) << bits | u64::from(s));
                assert!(in_time.into_iter().eq(wanted), "{place}: in time");
                let cells = there.host_cuts.len();
                let index = context
                    .download(&made.index, events.symbols() * cells)
                    .unwrap();
                for (s, row) in index.chunks_exact(cells).enumerate() {
                    let first = expected.index().0[s];
                    let ticks = expected.ticks_of(s as u32);
                    for (&at, cut) in row.iter().zip(&there.host_cuts) {
                        let before = ticks.partition_point(|t| t - origin < *cut);
                        assert_eq!(at as usize, first + before, "{place}: index of {s}");
                    }
                }
            }
        }
    }

    /// Counts one by one, families at once, and more patterns than are counted in a piece.
    #[test]
    fn cuda_counts_in_surrogates_are_the_cpus() {
        let Some((_, context)) = device() else { return };
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let symbols = 21_u32;
        let events = crowded(&mut rng, symbols as usize, 12_000, 40_000);
        let edges = [(0, 6), (6, 9)].map(|(low, high)| Interval::new(low, high).unwrap());
        let mut patterns: Vec<Pattern> = (0..300)
            .map(|_| random_pattern(&mut rng, symbols, 4))
            .collect();
        for a in 0..symbols {
            for b in 0..symbols {
                for c in 0..symbols {
                    patterns.push(Pattern::uniform(vec![a, b, c], edges[0]).unwrap());
                }
            }
        }
        patterns.sort_by(|a, b| a.prefix_key().cmp(b.prefix_key()));
        assert!(patterns.len() > most_at_once(events.len()));
        let there = DeviceSurrogates::new(&context, &events, &patterns).unwrap();
        assert!(there.pieces.len() > 1);
        assert!(there.pieces.iter().any(|(_, plan)| plan.needs_stream()));
        for (delta, index) in [(3, 0), (40, 1), (100_000, 2)] {
            let surrogate = Surrogate::Dither { delta }.make(&events, 7, index).unwrap();
            let expected = LatestStart
                .count(&CountJob::new(&surrogate, &patterns))
                .unwrap();
            let key = Dither::new(delta, 7, index).key();
            let counts = there.count(Moves { delta, key }, &()).unwrap();
            assert!(counts == expected, "delta {delta}");
        }
        let stopped = there
            .count(Moves { delta: 3, key: 1 }, &StopAfter::new(0))
            .unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Interrupted);
    }

    #[test]
    fn a_frame_is_of_the_segments_and_packs() {
        let ticks = vec![150, 170, 420];
        let events = trials(4, 600, &[(100, 200), (400, 500)], ticks, vec![0, 3, 1]);
        let bounds = events.segment_bounds();
        let frame = Frame::new(&events).unwrap();
        assert_eq!((frame.origin, bounds[0].0), (0, 0));
        assert_eq!(frame.duration, bounds[1].1 + 1);
        assert!(frame.duration as u64 <= 1 << frame.tick_bits);
        let only = crate::cases::events(1, vec![(9, 0)]);
        let frame = Frame::new(&only).unwrap();
        let expected = Frame {
            origin: 9,
            duration: 1,
            tick_bits: 1,
        };
        assert_eq!(frame, expected);
        // A trial that lasts until after the last tick that packs: the CPU says what is wrong with it.
        let late = max_tick(4) - 10;
        let most = crate::events::max_tick_of_doubled(4) - 10;
        let ends = |stop| trials(4, stop, &[(0, 5), (5, stop)], vec![1, 6], vec![0, 1]);
        assert!(DeviceSurrogates::can_be_made(&ends(most / 2)));
        assert!(!DeviceSurrogates::can_be_made(&ends(late)));
    }
}
