//! Surrogates of a recording that need not fit in memory.
//!
//! Dithering moves an event by δ at most, by a distance that follows from the event alone. So a chunk of a surrogate is
//! made from the events of that chunk and of δ around it, and is counted as chunks of the recording are
//! ([`LongEvents`]). Events that leave it for the next chunk are made again there.

use rayon::prelude::*;

use super::surrogate::Dither;
use super::{Significance, SignificanceOptions, Surrogate, Total, add_up, rows};
use crate::count::{ChunkedCount, Counter, LongEvents};
use crate::events::Events;
use crate::frequency::Frequency;
use crate::pattern::Pattern;
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
use betz_base::team::Team;

/// [`significance_by`](super::significance_by) on events that are read in chunks; the same result, to the bit. Every
/// process of the team reads all of the recording for its share of the surrogates: once to count, and once for as many
/// surrogates as take `memory` bytes, 16 per pattern and surrogate. In addition each thread holds one surrogate's events
/// of a chunk. The stage is `surrogates`.
///
/// # Errors
/// As [`significance_by`](super::significance_by); `InvalidArgument` for [`Surrogate::ShuffleIntervals`], which needs
/// all of a symbol's intervals at once, and for any [`Frequency`] but that of non-overlapped occurrences.
pub fn significance_in_chunks_by(
    team: &dyn Team,
    events: &LongEvents,
    patterns: &[Pattern],
    options: &SignificanceOptions,
    memory: u64,
    progress: &dyn Progress,
) -> Result<Vec<Significance>> {
    options.surrogate.check()?;
    let Surrogate::Dither { delta } = options.surrogate else {
        return Err(Error::argument(
            "surrogates in chunks: expected dithering, got shuffled intervals, which need a whole segment in memory",
        ));
    };
    if options.frequency != Frequency::NonOverlapped {
        return Err(Error::argument(format!(
            "surrogates in chunks: expected the count of non-overlapped occurrences, got {}, which needs all events in memory",
            options.frequency.name()
        )));
    }
    if options.surrogates == 0 {
        return Err(Error::argument("surrogates: expected at least 1, got 0"));
    }
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let observed = events.count(patterns, None, progress)?;
    let bounds = events.segment_bounds();
    let counting = ChunkedCount::new(patterns);
    let own = team.share(options.surrogates as usize);
    let at_once = memory / (16 * patterns.len() as u64);
    let at_once = usize::try_from(at_once).unwrap_or(usize::MAX).max(1);
    let indices: Vec<u64> = (own.start as u64..own.end as u64).collect();
    let chunks = events.chunks();
    let passes = indices.len().div_ceil(at_once);
    let total = (passes * chunks.len()) as u64;
    let mut done = 0;
    let mut totals = vec![Total::default(); patterns.len()];
    for indices in indices.chunks(at_once) {
        let mut states: Vec<_> = indices.iter().map(|_| counting.begin()).collect();
        for chunk in &chunks {
            progress.update("surrogates", done, total);
            progress::check(progress, "surrogates")?;
            done += 1;
            let Some(source) = events.around(chunk.clone(), counting.span() + delta, delta)? else {
                continue;
            };
            let here = events.tick_here(chunk.start) - counting.span()..events.tick_here(chunk.end);
            (states.par_iter_mut().zip(indices)).try_for_each(|(state, &index)| {
                let dither = Dither::new(delta, options.seed, index);
                let moved = dither.move_events(source.iter(), &bounds);
                let mut pairs: Vec<(i64, u32)> = moved.filter(|(t, _)| here.contains(t)).collect();
                if pairs.is_empty() {
                    return Ok(());
                }
                pairs.sort_unstable();
                let alphabet = source.alphabet().clone();
                let surrogate = Events::from_pairs(alphabet, pairs.into_iter(), 0)?;
                counting.go_on(state, &surrogate, progress)
            })?;
        }
        for state in states {
            let counts = counting.counts(state);
            for ((total, count), &observed) in totals.iter_mut().zip(counts).zip(&observed) {
                *total = total.add(Total::new(count, observed));
            }
        }
    }
    let totals = add_up(team, totals, patterns.len())?;
    Ok(rows(&observed, &totals, options.surrogates))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{random_case, random_cuts, random_segments, reader, recording};
    use crate::significance::significance;
    use betz_base::error::ErrorKind;
    use betz_base::team::Alone;
    use betz_base::team::threads::run_team;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn surrogates_in_chunks_say_what_those_of_the_whole_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for seed in 0..150 {
            let case = random_case(seed, 120, 8);
            let mut recording = recording(&case.events, Vec::new());
            if seed % 3 > 0 {
                recording.segments = random_segments(&mut rng, recording.ticks, 0..4, 1..40);
            }
            let Ok(whole) = Events::from_recording(&recording) else {
                continue;
            };
            let options = SignificanceOptions {
                surrogate: Surrogate::Dither {
                    delta: rng.random_range(1..12),
                },
                surrogates: rng.random_range(1..9),
                seed,
                frequency: Frequency::NonOverlapped,
            };
            let expected = significance(&whole, &case.patterns, &options, &()).unwrap();
            let cuts = random_cuts(&mut rng, recording.ticks);
            let long = LongEvents::new(&recording, cuts, reader(&recording)).unwrap();
            // One surrogate a pass, three, all.
            for memory in [0, 3 * 16 * case.patterns.len() as u64, u64::MAX] {
                let found =
                    significance_in_chunks_by(&Alone, &long, &case.patterns, &options, memory, &());
                assert_eq!(found.unwrap(), expected, "seed {seed}, {options:?}");
            }
            // A team that shares them out.
            let found = run_team(2, |team| {
                significance_in_chunks_by(team, &long, &case.patterns, &options, 0, &()).unwrap()
            });
            assert!(found.iter().all(|found| *found == expected), "seed {seed}");
        }
    }

    #[test]
    fn what_wants_all_events_at_once_is_refused() {
        let case = random_case(3, 30, 2);
        let recording = recording(&case.events, Vec::new());
        let long = LongEvents::new(&recording, vec![0, recording.ticks], reader(&recording));
        let long = long.unwrap();
        let with = |surrogate, surrogates| {
            let options = SignificanceOptions {
                surrogate,
                surrogates,
                seed: 1,
                frequency: Frequency::NonOverlapped,
            };
            significance_in_chunks_by(&Alone, &long, &case.patterns, &options, 0, &())
                .unwrap_err()
                .kind()
        };
        assert_eq!(
            with(Surrogate::ShuffleIntervals, 3),
            ErrorKind::InvalidArgument
        );
        let dither = |delta| Surrogate::Dither { delta };
        assert_eq!(with(dither(0), 3), ErrorKind::InvalidArgument);
        assert_eq!(with(dither(3), 0), ErrorKind::InvalidArgument);
    }
}
