//! The papers' *MapConcat*, or several threads per episode (*MTPE*): automata on pieces of the time.
//!
//! Patnaik et al., §III.B; Cao et al., §5.1. The time is cut into segments; in each, one automaton of
//! Algorithm 1 for every possible split of an occurrence across the cut starts at its own offset
//! before the segment, and runs past its end to the first completion there. A segment's automaton
//! then matches the next segment's that completes first at the same event, and their counts add.
//!
//! Mended: the automata start at fixed offsets (sums of the upper bounds), so on regular trains the
//! completion that really comes next can be missing from all of them, and the published merge has
//! then nothing to match. Here the segments are joined in order; an unmatched boundary is detected
//! and that segment is counted again from the state that truly holds at its start. That state is
//! known exactly, because an automaton is empty just after a completion.

use rayon::prelude::*;

use super::serial::Automaton;
use betz_base::error::Result;
use betz_base::progress;
use betz_episode::count::{CountJob, PatternProgress, Strategy};
use betz_episode::{Events, Pattern};

/// Segments for each thread: more even out their work, fewer leave less to join.
const SEGMENTS: usize = 4;

/// Algorithm 1 on segments of the time, joined where their completions match.
#[derive(Debug, Clone, Copy, Default)]
pub struct MapConcat {
    /// Number of segments; `None` for four per thread.
    pub segments: Option<usize>,
}

impl Strategy for MapConcat {
    fn name(&self) -> &'static str {
        "map-concat"
    }

    fn count(&self, job: &CountJob<'_>) -> Result<Vec<u64>> {
        job.check()?;
        let segments = self
            .segments
            .unwrap_or_else(|| rayon::current_num_threads() * SEGMENTS)
            .max(1);
        let cuts = cuts(job.events, segments);
        let done = PatternProgress::new("counting", job);
        job.patterns
            .iter()
            .map(|pattern| {
                progress::check(job.progress, "counting")?;
                let (count, _) = count_in_segments(job.events, pattern, &cuts);
                done.add(1);
                Ok(count)
            })
            .collect()
    }
}

/// The first tick of every segment but the first, strictly ascending.
fn cuts(events: &Events, segments: usize) -> Vec<i64> {
    let mut cuts: Vec<i64> = (1..segments)
        .map(|i| {
            events
                .unpack(events.stream()[i * events.len() / segments])
                .0
        })
        .collect();
    cuts.dedup();
    cuts.retain(|&c| c > events.first_tick());
    cuts
}

/// The occurrences that end in a segment, as one automaton counts them.
#[derive(Debug, Clone, Copy, Default)]
struct Tuple {
    /// End of the first one, if it lies within the pattern's span of the segment's start.
    first: Option<i64>,
    count: u64,
    /// End of the first completion after the segment, within the span of its end.
    beyond: Option<i64>,
}

/// The count, and how many segments had to be counted again.
fn count_in_segments(events: &Events, pattern: &Pattern, cuts: &[i64]) -> (u64, usize) {
    let start_of = |p: usize| if p == 0 { i64::MIN } else { cuts[p - 1] };
    let stop_of = |p: usize| cuts.get(p).copied().unwrap_or(i64::MAX);
    // Map: every segment, every split.
    let tuples: Vec<Vec<Tuple>> = (0..=cuts.len())
        .into_par_iter()
        .map(|p| {
            let splits = if p == 0 { 1 } else { pattern.size() };
            (0..splits)
                .map(|k| {
                    let offset: i64 = pattern.intervals()[..k].iter().map(|i| i.high).sum();
                    let from = start_of(p).saturating_sub(offset);
                    run(events, pattern, from, None, start_of(p), stop_of(p))
                })
                .collect()
        })
        .collect();
    // Concatenate.
    let mut count = tuples[0][0].count;
    let mut beyond = tuples[0][0].beyond;
    let mut recounted = 0;
    for (p, candidates) in tuples.iter().enumerate().skip(1) {
        let (start, stop) = (start_of(p), stop_of(p));
        // "Nothing completes here" says something only about a segment as long as the span.
        let comparable = beyond.is_some() || stop.saturating_sub(start) >= pattern.span();
        let matched = candidates.iter().find(|t| comparable && t.first == beyond);
        let tuple = match matched {
            Some(tuple) => *tuple,
            None => {
                recounted += 1;
                recount(events, pattern, beyond, start, stop)
            }
        };
        count += tuple.count;
        beyond = tuple.beyond;
    }
    (count, recounted)
}

/// The segment counted from what truly happened at its start: `beyond` is its first completion.
fn recount(
    events: &Events,
    pattern: &Pattern,
    beyond: Option<i64>,
    start: i64,
    stop: i64,
) -> Tuple {
    match beyond {
        Some(end) if end >= stop => Tuple {
            // The completion skips this whole segment.
            first: None,
            count: 0,
            beyond: Some(end),
        },
        Some(end) => {
            let mut tuple = run(events, pattern, end, Some(end), start, stop);
            tuple.count += 1;
            tuple
        }
        // Nothing completes within the span of the start, so whatever completes later began inside.
        None => run(events, pattern, start, Some(start - 1), start, stop),
    }
}

/// Algorithm 1 over the events from `from` on; counts completions in [start, stop).
fn run(
    events: &Events,
    pattern: &Pattern,
    from: i64,
    last_end: Option<i64>,
    start: i64,
    stop: i64,
) -> Tuple {
    let span = pattern.span();
    let mut automaton = Automaton::new(events, pattern);
    automaton.restart_after(last_end);
    let mut tuple = Tuple::default();
    let limit = stop.saturating_add(span);
    for &event in &events.stream()[events.position(from)..] {
        let tick = (event >> events.symbol_bits()) as i64;
        if tick >= limit {
            break;
        }
        if !automaton.push(event) || tick < start {
            continue;
        }
        if tick >= stop {
            tuple.beyond = Some(tick);
            break;
        }
        if tuple.count == 0 && tick < start.saturating_add(span) {
            tuple.first = Some(tick);
        }
        tuple.count += 1;
    }
    tuple
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_episode::cases::{events, random_case};
    use betz_episode::{Interval, oracle};

    #[test]
    fn unmatched_boundaries_occur_and_are_counted_again() {
        // A regular train: an event every tick, two delays of up to 3 ticks each.
        let train = events(1, (0..40).map(|t| (t, 0)).collect());
        let edge = Interval::new(1, 3).unwrap();
        let pattern = Pattern::uniform(vec![0, 0, 0], edge).unwrap();
        let expected = oracle::count(&train, &pattern);
        let mut recounted = 0;
        for segments in 1..=40 {
            let (count, again) = count_in_segments(&train, &pattern, &cuts(&train, segments));
            assert_eq!(count, expected, "{segments} segments");
            recounted += again;
        }
        assert!(recounted > 0, "the trap was not met");
    }

    #[test]
    fn any_number_of_segments_gives_the_same_count() {
        for seed in 0..5_000 {
            let case = random_case(seed, 40, 4);
            for pattern in &case.patterns {
                let (expected, _) = count_in_segments(&case.events, pattern, &[]);
                for segments in [2, 3, 5, 17] {
                    let cuts = cuts(&case.events, segments);
                    let (count, _) = count_in_segments(&case.events, pattern, &cuts);
                    assert_eq!(count, expected, "case {seed}, {segments} segments");
                }
            }
        }
    }
}
