//! Surrogate data: the same symbols about as active as before, without their fine timing.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::clock::MAX_TICK;
use crate::events::Events;
use betz_base::error::{Error, Result};

/// The way in which surrogates are made. Each keeps every symbol's number of events in every segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surrogate {
    /// Every event is moved by a uniformly distributed whole number of ticks in [−`delta`, `delta`],
    /// independently of all others, and reflected if it would leave its segment.
    ///
    /// Null hypothesis: symbols are independent of each other given their rates, which may vary in
    /// time but hardly within `delta`, and no symbol's events depend on its own earlier ones within
    /// `delta`. Bursts shared by all symbols are kept if they last longer than `delta`. A `delta` of a
    /// few times the widest interval's width destroys delays and little else. Events of one symbol
    /// that fall on the same tick count as one, so ticks should be short against their intervals.
    Dither {
        /// Largest shift in ticks, at least 1.
        delta: i64,
    },
    /// Each symbol's intervals between events are put in random order, segment by segment.
    ///
    /// Null hypothesis: symbols are independent renewal processes. A rate that varies in time is not
    /// kept: if all symbols burst together, episodes look significant for that reason alone.
    ShuffleIntervals,
}

impl Surrogate {
    /// Checks that surrogates can be made so.
    ///
    /// # Errors
    /// `InvalidArgument` for a `delta` below 1 or above 2⁶⁰ ticks.
    pub fn check(&self) -> Result<()> {
        match *self {
            Self::Dither { delta } if !(1..MAX_TICK / 2).contains(&delta) => Err(Error::argument(
                format!("dithering: expected shifts up to 1 to 2^60 ticks, got {delta}"),
            )),
            _ => Ok(()),
        }
    }

    /// The `index`-th surrogate of `events` from `seed`: the same for any number of threads. Labels,
    /// clock and segments stay as they are. Dithering moves an event by a distance that follows from `seed`, `index`, the
    /// event's tick and its symbol alone, so that a chunk of the events can be moved without the others.
    ///
    /// Allocates new events (as [`Events::new`]) and 16 bytes per event while it runs.
    ///
    /// # Errors
    /// As [`Surrogate::check`].
    pub fn make(&self, events: &Events, seed: u64, index: u64) -> Result<Events> {
        self.check()?;
        let segments = events.segment_bounds();
        let mut pairs = Vec::with_capacity(events.len());
        match *self {
            Self::Dither { delta } => {
                let dither = Dither::new(delta, seed, index);
                pairs.extend(dither.move_events(events.iter(), &segments));
            }
            Self::ShuffleIntervals => {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream(index);
                for symbol in 0..events.symbols() as u32 {
                    let mut rest = events.ticks_of(symbol);
                    for &(_, last) in &segments {
                        let (inside, after) = rest.split_at(rest.partition_point(|&t| t <= last));
                        shuffle_intervals(inside, &mut rng, |tick| pairs.push((tick, symbol)));
                        rest = after;
                    }
                }
            }
        }
        pairs.par_sort_unstable();
        Events::from_pairs(events.alphabet().clone(), pairs.into_iter(), 0)
    }
}

/// One surrogate's dithering.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dither {
    delta: i64,
    key: u64,
}

impl Dither {
    /// The dithering of the `index`-th surrogate from `seed`; `delta` is checked.
    pub(crate) fn new(delta: i64, seed: u64, index: u64) -> Self {
        let key = mix(mix(seed.wrapping_add(ODD)) ^ index.wrapping_mul(ODD));
        Self { delta, key }
    }

    /// The word by which it differs from others.
    pub(crate) const fn key(self) -> u64 {
        self.key
    }

    /// Moves `events`, which are in time order; `segments` by first and last tick.
    pub(super) fn move_events<'a>(
        self,
        events: impl Iterator<Item = (i64, u32)> + 'a,
        segments: &'a [(i64, i64)],
    ) -> impl Iterator<Item = (i64, u32)> + 'a {
        let (mut segment, mut same, mut before) = (0, 0_u64, None);
        events.map(move |(tick, symbol)| {
            while segment + 1 < segments.len() && tick > segments[segment].1 {
                segment += 1;
            }
            // Several events of a tick and symbol are moved apart from each other, too.
            same = if before == Some((tick, symbol)) {
                same + 1
            } else {
                0
            };
            before = Some((tick, symbol));
            let moved = tick + self.shift(tick, symbol, same);
            let moved = match segments.get(segment) {
                Some(&(first, last)) => reflect(moved, first, last),
                None => moved,
            };
            (moved, symbol)
        })
    }

    /// Uniform in [−delta, delta], but for 2δ/2⁶⁴.
    fn shift(self, tick: i64, symbol: u32, same: u64) -> i64 {
        let which = (u64::from(symbol) << 32 | same & 0xffff_ffff).wrapping_mul(ODD);
        let word = mix(mix(self.key ^ tick as u64).wrapping_add(which));
        let span = 2 * self.delta as u128 + 1;
        ((u128::from(word) * span) >> 64) as i64 - self.delta
    }
}

/// 2⁶⁴ over the golden ratio, odd.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A permutation of words in which every bit depends on all: SplitMix64's (Steele, Lea & Flood 2014).
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// `tick` mirrored into [first, last]; if it is too far out for one mirror, the nearer end.
fn reflect(tick: i64, first: i64, last: i64) -> i64 {
    let mirrored = if tick < first {
        2 * first - tick
    } else if tick > last {
        2 * last - tick
    } else {
        tick
    };
    mirrored.clamp(first, last)
}

fn shuffle_intervals(ticks: &[i64], rng: &mut ChaCha8Rng, mut emit: impl FnMut(i64)) {
    let Some(&first) = ticks.first() else {
        return;
    };
    let mut intervals: Vec<i64> = ticks.windows(2).map(|w| w[1] - w[0]).collect();
    intervals.shuffle(rng);
    let mut tick = first;
    emit(tick);
    for interval in intervals {
        tick += interval;
        emit(tick);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{alphabet, random_case, trials};
    use rand::RngExt;

    fn in_segments(events: &Events, like: &Events) -> Vec<Vec<usize>> {
        let count = |s, (first, last)| {
            let ticks: &[i64] = events.ticks_of(s);
            ticks.iter().filter(|&&t| first <= t && t <= last).count()
        };
        (0..like.symbols() as u32)
            .map(|s| {
                like.segment_bounds()
                    .into_iter()
                    .map(|b| count(s, b))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn every_symbol_keeps_its_events_in_every_segment() {
        // Three trials of 1 s, the middle one without spikes of channel 1.
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let mut ticks: Vec<i64> = (0..300).map(|_| rng.random_range(0..3000)).collect();
        ticks.sort_unstable();
        let channel = |&t: &i64| u32::from(rng.random_bool(0.5) && !(1000..2000).contains(&t));
        let channels = ticks.iter().map(channel).collect();
        let events = trials(
            2,
            3000,
            &[(0, 1000), (1000, 2000), (2000, 3000)],
            ticks,
            channels,
        );
        let places = in_segments(&events, &events);
        assert_eq!(places.iter().flatten().sum::<usize>(), events.len());
        assert_eq!(places[1][1], 0);
        for kind in [
            Surrogate::Dither { delta: 7 },
            Surrogate::Dither { delta: 90_000 },
            Surrogate::ShuffleIntervals,
        ] {
            let one = kind.make(&events, 1, 0).unwrap();
            assert_eq!(in_segments(&one, &events), places, "{kind:?}");
            let same = kind.make(&events, 1, 0).unwrap();
            let (other, seed) = (
                kind.make(&events, 1, 1).unwrap(),
                kind.make(&events, 2, 0).unwrap(),
            );
            assert_eq!(one.stream(), same.stream());
            for different in [&events, &other, &seed] {
                assert_ne!(one.stream(), different.stream(), "{kind:?}");
            }
        }
    }

    /// χ² of where events go, over events, symbols, surrogates and seeds that differ by one.
    #[test]
    fn shifts_are_uniform_and_neighbours_differ() {
        let places = 11_usize;
        let mut counts = vec![0_u32; places];
        let mut pairs = vec![0_u32; places * places];
        let mut all = 0_u32;
        for (seed, index) in [(0, 0), (0, 1), (1, 0), (u64::MAX, 5)] {
            let dither = Dither::new(places as i64 / 2, seed, index);
            for symbol in 0..20 {
                let mut before = None;
                for tick in 0..500 {
                    let place = (dither.shift(tick, symbol, 0) + places as i64 / 2) as usize;
                    counts[place] += 1;
                    all += 1;
                    if let Some(before) = before.replace(place) {
                        pairs[before * places + place] += 1;
                    }
                    let twin = Dither::new(places as i64 / 2, seed, index + 1);
                    let twin = (twin.shift(tick, symbol, 0) + places as i64 / 2) as usize;
                    pairs[twin * places + place] += 1;
                }
            }
        }
        let chi = |counts: &[u32]| {
            let each = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
            counts
                .iter()
                .map(|&c| (f64::from(c) - each).powi(2) / each)
                .sum::<f64>()
        };
        assert_eq!(all, 40_000);
        // Five standard deviations above the mean of χ² with k degrees, k + 5 √(2k).
        assert!(chi(&counts) < 33.0, "{counts:?}");
        assert!(chi(&pairs) < 198.0, "{}", chi(&pairs));
    }

    #[test]
    fn dithering_moves_by_delta_at_most_and_shuffling_keeps_the_intervals() {
        for seed in 0..200 {
            let case = random_case(seed, 40, 0);
            let delta = 1 + seed as i64 % 5;
            let moved = Surrogate::Dither { delta }
                .make(&case.events, seed, 3)
                .unwrap();
            let shuffled = Surrogate::ShuffleIntervals
                .make(&case.events, seed, 3)
                .unwrap();
            for s in 0..case.events.symbols() as u32 {
                let was = case.events.ticks_of(s);
                // Sorted lists are matched in order: no pair is farther apart than events moved.
                for (a, b) in was.iter().zip(moved.ticks_of(s)) {
                    assert!((a - b).abs() <= delta);
                }
                let intervals = |ticks: &[i64]| {
                    let mut all: Vec<i64> = ticks.windows(2).map(|w| w[1] - w[0]).collect();
                    all.sort_unstable();
                    all
                };
                assert_eq!(intervals(was), intervals(shuffled.ticks_of(s)));
            }
        }
        let events = crate::cases::events(1, vec![(0, 0), (5, 0)]);
        assert!(Surrogate::Dither { delta: 0 }.make(&events, 0, 0).is_err());
        assert_eq!(alphabet(1).len(), 1);
    }
}
