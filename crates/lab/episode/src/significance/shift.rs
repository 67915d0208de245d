//! The events beside a copy of themselves that is shifted in time.

use std::borrow::Cow;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::PartOptions;
use crate::alphabet::Alphabet;
use crate::events::Events;
use betz_base::error::{Error, Result};

/// Segments have to be so many times as long as the smallest shift: shorter ones leave no, or too few,
/// different shifts. Events in them are left out, and make neither counts nor surrogates.
const SEGMENT: i64 = 3;

/// True if a segment has room for shifts of `least`.
fn has_room(first: i64, last: i64, least: i64) -> bool {
    (last - first + 1) / SEGMENT >= least
}

/// The segments with events: number, first and last tick.
fn with_events(events: &Events) -> impl Iterator<Item = (usize, i64, i64)> {
    let segments = events.segment_bounds().into_iter().enumerate();
    segments
        .map(|(i, (first, last))| (i, first, last))
        .filter(|&(_, first, last)| events.position(first) < events.position(last + 1))
}

/// Number of segments with events that have no room for shifts of `least`.
pub(super) fn too_short(events: &Events, least: i64) -> usize {
    with_events(events)
        .filter(|&(_, first, last)| !has_room(first, last, least))
        .count()
}

/// Refuses events of which no segment has room for shifts of `least`.
pub(super) fn check_segments(events: &Events, least: i64) -> Result<()> {
    // The first of those that are as long.
    let longest = with_events(events).min_by_key(|&(_, first, last)| first - last);
    match longest {
        Some((i, first, last)) if !has_room(first, last, least) => {
            let what = match events.segment_bounds().len() {
                1 => "the events last".to_owned(),
                _ => format!("even segment {i} lasts"),
            };
            let seconds = |ticks| events.clock().seconds(ticks);
            Err(Error::argument(format!(
                "parts are shifted by at least {} s, around the ends of segments: expected {SEGMENT} times as much, but {what} {} s",
                seconds(least),
                seconds(last - first + 1)
            )))
        }
        _ => Ok(()),
    }
}

/// The events of the segments that have room for shifts of `least`, at their own ticks.
pub(super) fn with_room(events: &Events, least: i64) -> Result<Cow<'_, Events>> {
    if too_short(events, least) == 0 {
        return Ok(Cow::Borrowed(events));
    }
    let kept = events.in_segments(|first, last| has_room(first, last, least))?;
    Ok(Cow::Owned(kept))
}

/// Makes the events twice: as symbols 0 … S − 1 where they were, and as symbols S … 2S − 1 shifted
/// around each segment's ends.
pub(super) struct ShiftedCopy<'a> {
    events: &'a Events,
    doubled: Alphabet,
    options: PartOptions,
    /// First and last tick of each segment.
    segments: Vec<(i64, i64)>,
}

impl<'a> ShiftedCopy<'a> {
    /// The events beside copies by shifts that [`PartOptions::check`] has found possible.
    pub(super) fn new(events: &'a Events, options: PartOptions) -> Result<Self> {
        let labels = (0..2 * events.symbols()).map(|s| s.to_string()).collect();
        Ok(Self {
            events,
            doubled: Alphabet::new(labels, events.clock())?,
            options,
            segments: events.segment_bounds(),
        })
    }

    /// The copy by the `index`-th shift.
    pub(super) fn make(&self, index: u64) -> Result<Events> {
        self.make_by(shift(&self.options, index))
    }

    fn make_by(&self, shift: i64) -> Result<Events> {
        let symbols = self.events.symbols() as u32;
        let mut segment = 0;
        let mut pairs = Vec::with_capacity(2 * self.events.len());
        for (tick, symbol) in self.events.iter() {
            while tick > self.segments[segment].1 && segment + 1 < self.segments.len() {
                segment += 1;
            }
            let (first, last) = self.segments[segment];
            let length = last - first + 1;
            let around = tick - first + within(shift, self.options.least, length);
            pairs.push((tick, symbol));
            pairs.push((first + around.rem_euclid(length), symbol + symbols));
        }
        pairs.par_sort_unstable();
        Events::from_pairs(self.doubled.clone(), pairs.into_iter(), 0)
    }
}

fn shift(options: &PartOptions, index: u64) -> i64 {
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    rng.set_stream(index);
    let shift = rng.random_range(options.least..=options.most);
    if rng.random_bool(0.5) { shift } else { -shift }
}

/// `shift`, or for a segment in which it would come back to less than `least` from where it began,
/// another one that does not.
fn within(shift: i64, least: i64, length: i64) -> i64 {
    let largest = length - least;
    let size = shift.abs();
    if size <= largest {
        return shift;
    }
    shift.signum() * (least + (size - least) % (largest - least + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::trials;

    fn options(least: i64, most: i64) -> PartOptions {
        PartOptions {
            shifts: 1,
            least,
            most,
            seed: 1,
        }
    }

    /// Trials of 1 s, 1 s, silence, and 0.7 s.
    fn events() -> Events {
        let ticks: Vec<i64> = (0..2000)
            .step_by(7)
            .chain((3000..3700).step_by(11))
            .collect();
        let channels = ticks.iter().map(|t| (t % 2) as u32).collect();
        let segments = [(0, 1000), (1000, 2000), (2000, 2010), (3000, 3700)];
        trials(2, 3700, &segments, ticks, channels)
    }

    #[test]
    fn a_copy_keeps_every_segments_events_and_its_distance_in_it() {
        let events = events();
        let shifted = ShiftedCopy::new(&events, options(200, 5000)).unwrap();
        let bounds = events.segment_bounds();
        for index in 0..200 {
            let copy = shifted.make(index).unwrap();
            for s in 0..2 {
                assert_eq!(copy.ticks_of(s), events.ticks_of(s));
                for &(first, last) in &bounds {
                    let of = |events: &Events, s| -> Vec<i64> {
                        let ticks = events.ticks_of(s).iter().copied();
                        ticks.filter(|t| (first..=last).contains(t)).collect()
                    };
                    let (was, is) = (of(&events, s), of(&copy, s + 2));
                    assert_eq!(was.len(), is.len());
                    let Some(&one) = was.first() else { continue };
                    // All by the same, around the segment's end, and far enough.
                    let length = last - first + 1;
                    let turn = |by: i64| {
                        let moved = was
                            .iter()
                            .map(|t| first + (t - first + by).rem_euclid(length));
                        let mut moved: Vec<i64> = moved.collect();
                        moved.sort_unstable();
                        moved
                    };
                    assert!(
                        is.iter().any(|t| {
                            let by = (t - one).rem_euclid(length);
                            by.min(length - by) >= 200 && turn(by) == is
                        }),
                        "shift {index} in {first}..={last}"
                    );
                }
            }
        }
    }

    #[test]
    fn shifts_stay_as_they_are_where_there_is_room_and_never_come_back() {
        for (least, length) in [(1, 3), (10, 30), (10, 31), (10, 57), (10, 1000)] {
            for size in least..4 * length {
                for shift in [size, -size] {
                    let by = within(shift, least, length).rem_euclid(length);
                    assert!(by.min(length - by) >= least, "{shift} in {length}");
                    if size <= length - least {
                        assert_eq!(within(shift, least, length), shift);
                    }
                }
            }
        }
    }

    #[test]
    fn segments_too_short_for_the_shifts_are_left_out_unless_all_are() {
        let events = events();
        // With the silent segment, which is too short as well, nothing would be lost.
        for (least, left_out, kept) in [(233, 0, 3), (234, 1, 2), (333, 1, 2)] {
            assert!(options(least, 5000).check(&events).is_ok());
            assert_eq!(options(least, 5000).left_out(&events), left_out);
            let rest = with_room(&events, least).unwrap();
            assert_eq!(with_events(&rest).count(), kept);
            let until = if kept == 3 { i64::MAX } else { 2000 };
            let bounds = events.segment_bounds();
            let of_two = events.position(bounds[1].1 + 1);
            let expected = if until == 2000 { of_two } else { events.len() };
            assert_eq!(rest.stream(), &events.stream()[..expected]);
        }
        let error = options(334, 5000).check(&events).unwrap_err();
        let words = "even segment 0 lasts 1 s";
        assert!(error.message().contains(words), "{error}");
    }
}
