//! Surrogate data: the same symbols about as active as before, without their fine timing.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::Events;
use crate::clock::MAX_TICK;
use betz_base::error::{Error, Result};

/// How surrogates are made. Each keeps every symbol's number of events in every segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surrogate {
    /// Every event is moved by a uniformly distributed whole number of ticks in [−`delta`, `delta`],
    /// independently of all others, and reflected where it would leave its segment.
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
    /// kept: where all symbols burst together, episodes look significant for that reason alone.
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
    /// clock and segments' places stay.
    ///
    /// Allocates new events (as [`Events::new`]) and 16 bytes per event while it runs.
    ///
    /// # Errors
    /// As [`Surrogate::check`].
    pub fn make(&self, events: &Events, seed: u64, index: u64) -> Result<Events> {
        self.check()?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index);
        let mut pairs = Vec::with_capacity(events.len());
        match *self {
            Self::Dither { delta } => {
                let segments = events.segment_bounds();
                let mut segment = 0;
                for (tick, symbol) in events.iter() {
                    while tick > segments[segment].1 && segment + 1 < segments.len() {
                        segment += 1;
                    }
                    let (first, last) = segments[segment];
                    let moved = tick + rng.random_range(-delta..=delta);
                    pairs.push((reflect(moved, first, last), symbol));
                }
            }
            Self::ShuffleIntervals => {
                let segments = events.segment_bounds();
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
