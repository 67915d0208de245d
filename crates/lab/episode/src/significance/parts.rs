//! Does every part of an episode matter, given the rest of it?

use std::ops::Range;

use super::shift::{ShiftedCopy, check_segments, too_short, with_room};
use super::{SurrogateJob, SurrogateSource, Workers, benjamini_hochberg, count_surrogates};
use crate::count::{CountJob, LatestStart, Strategy};
use crate::events::Events;
use crate::frequency::Frequency;
use crate::pattern::Pattern;
use betz_base::error::{Error, Result};
use betz_base::progress::{Phases, Progress};

/// Time that one surrogate takes to make, in the time of counting one pattern in it: 3.1 ms against 4.8 µs, as measured on
/// 65,428 events.
pub(super) const ONE_SURROGATE: u64 = 650;

/// A part that so many shifts leave as frequent as it is will not become significant: no more of
/// them are tried (Besag & Clifford 1991, sequential Monte Carlo p-values).
const ENOUGH: u64 = 10;

/// Shifts before the first look at who goes on; each later look comes after four times as many.
const FIRST_LOOK: u32 = 20;

/// Options of a test of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartOptions {
    /// Most random shifts, at least 1: p is at least 1 / (this + 1).
    pub shifts: u32,
    /// The smallest shift in ticks, forwards or backwards: beyond the reach of real delays and of
    /// short-lived common rates. At most a third of the longest segment: a shift goes around a
    /// segment's ends, and must not come back to where it began. Shorter segments are left out
    /// ([`PartOptions::left_out`]).
    pub least: i64,
    /// The largest shift: within the time over which rates hold. In a segment that is shorter, shifts
    /// are as large as leaves `least` to a full turn.
    pub most: i64,
    /// Seed of the shifts.
    pub seed: u64,
}

impl PartOptions {
    /// Checks that the numbers make sense together, and that `events` have room for the shifts.
    ///
    /// # Errors
    /// `InvalidArgument` unless shifts ≥ 1 and 1 ≤ least ≤ most, or when every segment with events is
    /// shorter than three times `least`.
    pub fn check(&self, events: &Events) -> Result<()> {
        self.check_numbers()?;
        check_segments(events, self.least)
    }

    /// Number of segments with events that are shorter than three times `least`: their events are left out
    /// of the test, in what is observed as in what is shifted.
    pub fn left_out(&self, events: &Events) -> usize {
        too_short(events, self.least)
    }

    /// The checks that need no events.
    pub(super) fn check_numbers(&self) -> Result<()> {
        if self.shifts == 0 || self.least < 1 || !(self.least..1 << 60).contains(&self.most) {
            return Err(Error::argument(format!(
                "{} shifts of {} to {} ticks: expected at least one, and 1 <= least <= most",
                self.shifts, self.least, self.most
            )));
        }
        Ok(())
    }
}

/// An episode's weakest part.
#[derive(Debug, Clone, PartialEq)]
pub struct PartSignificance {
    /// The contiguous part (positions among the episode's symbols) with the largest p: the one that is
    /// most likely there by chance. Empty for an episode of one symbol.
    pub weakest: Range<usize>,
    /// The mean count when that part is left to chance, in the segments that were tested.
    pub expected: f64,
    /// Shifts tried: fewer than asked for when it was plain that the part is chance.
    pub shifts: u32,
    /// The weakest part's (1 + shifts with at least the observed count) / (1 + shifts tried); 1 for an
    /// episode of one symbol. As the largest of the parts' p-values it is a p-value for "some part is
    /// chance" (an intersection–union test).
    pub p: f64,
    /// [`benjamini_hochberg`] of `p` over the patterns tested together.
    pub q: f64,
}

/// Tests every contiguous part of each pattern against the rest: the part's symbols are taken from a
/// copy of the events shifted in time (around each segment's ends), the others from the events
/// themselves. Part and rest keep all their structure, and an occurrence lasts as long as before; only
/// their relation is left to chance.
///
/// Null hypothesis of a part: it is independent of the rest, given rates that hardly vary over
/// [`PartOptions::most`] ticks. A part that begins or ends the episode tests one edge; a part in the
/// middle, whether it belongs between two neighbours that may be related without it.
///
/// Segments too short for the shifts are left out ([`PartOptions::left_out`]), so that all that is
/// compared comes from the same events: which they are does not depend on what happens in them.
///
/// Parts that are not contiguous are not tested: symbols 1 and 3 may be related to each other, and 2
/// and 4, when two real chains run side by side by chance. Testing an episode only when both of its
/// longest parts have passed leaves such ones out (their neighbours 1 and 2 do not pass as a pair), and
/// keeps the number of tests small; [`chains`](super::chains) does so.
///
/// Counts up to N(N − 1)/2 variants of an episode of N symbols for each shift, in rayon's current
/// threads, over shifts. Episodes with a part that is plainly chance are given up early, first those
/// with such a single symbol. The stage is `shifts`.
///
/// # Errors
/// As [`PartOptions::check`]; `Mismatch` for a pattern that does not fit the events; `Interrupted`.
pub fn part_significance(
    events: &Events,
    patterns: &[Pattern],
    options: &PartOptions,
    progress: &dyn Progress,
) -> Result<Vec<PartSignificance>> {
    part_significance_by(Workers::alone(), events, patterns, options, progress)
}

/// [`part_significance`] by a team, whose processes share out the shifts, and on devices, which count what the CPU shifts;
/// the same result, to the bit, known to all.
///
/// # Errors
/// As [`part_significance`]; those of the team and of the devices.
pub fn part_significance_by(
    workers: Workers<'_>,
    events: &Events,
    patterns: &[Pattern],
    options: &PartOptions,
    progress: &dyn Progress,
) -> Result<Vec<PartSignificance>> {
    options.check(events)?;
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let events = &*with_room(events, options.least)?;
    let shifted = ShiftedCopy::new(events, *options)?;
    let observed = LatestStart.count(&CountJob::new(events, patterns))?;
    let tests = patterns.iter().zip(observed).map(Test::new);
    let mut tests: Vec<Test<'_>> = tests.collect();
    let first = FIRST_LOOK.min(options.shifts);
    let mut looks = Looks {
        workers,
        events,
        shifted,
        symbols: events.symbols() as u32,
        phases: Phases::new(progress, "shifts", 0),
        shifts: options.shifts,
    };

    // A look at single symbols only, which is cheap and settles most of what chance has made.
    looks.look(&mut tests, first, 0)?;
    for test in &mut tests {
        if test.goes_on() {
            test.begin(all_parts(test.pattern.size()));
        }
    }
    let mut until = first;
    loop {
        looks.look(&mut tests, until, until)?;
        if until == options.shifts {
            break;
        }
        until = until.saturating_mul(4).min(options.shifts);
    }

    let mut found: Vec<PartSignificance> = tests.iter().map(Test::result).collect();
    let p: Vec<f64> = found.iter().map(|e| e.p).collect();
    for (part, q) in found.iter_mut().zip(benjamini_hochberg(&p)) {
        part.q = q;
    }
    Ok(found)
}

/// One pattern under test.
struct Test<'a> {
    pattern: &'a Pattern,
    observed: u64,
    parts: Vec<Range<usize>>,
    /// For each part: shifts with at least the observed count, and the sum of the counts.
    reached: Vec<u64>,
    sums: Vec<u64>,
    shifts: u32,
}

impl<'a> Test<'a> {
    fn new((pattern, observed): (&'a Pattern, u64)) -> Self {
        let mut test = Self {
            pattern,
            observed,
            parts: Vec::new(),
            reached: Vec::new(),
            sums: Vec::new(),
            shifts: 0,
        };
        if pattern.size() > 1 {
            test.begin((0..pattern.size()).map(|i| i..i + 1).collect());
        }
        test
    }

    /// Tests `parts` from now on.
    fn begin(&mut self, parts: Vec<Range<usize>>) {
        self.reached = vec![0; parts.len()];
        self.sums = vec![0; parts.len()];
        self.parts = parts;
        self.shifts = 0;
    }

    /// False once some part is plainly chance.
    fn goes_on(&self) -> bool {
        !self.parts.is_empty() && self.reached.iter().all(|&r| r < ENOUGH)
    }

    /// The pattern with one part's symbols taken from the shifted copy: S + s for s.
    fn variant(&self, part: &Range<usize>, symbols: u32) -> Result<Pattern> {
        let mut names = self.pattern.symbols().to_vec();
        for symbol in &mut names[part.clone()] {
            *symbol += symbols;
        }
        Pattern::new(names, self.pattern.intervals().to_vec())
    }

    fn result(&self) -> PartSignificance {
        let weakest = (0..self.parts.len()).max_by_key(|&i| self.reached[i]);
        let shifts = f64::from(self.shifts.max(1));
        PartSignificance {
            weakest: weakest.map_or(0..0, |i| self.parts[i].clone()),
            expected: weakest.map_or(0.0, |i| self.sums[i] as f64 / shifts),
            shifts: self.shifts,
            p: weakest.map_or(1.0, |i| {
                (1 + self.reached[i]) as f64 / f64::from(self.shifts + 1)
            }),
            q: 1.0,
        }
    }
}

/// The contiguous parts of `size` symbols; of a beginning and the end that it leaves, which are one
/// test, only the beginning.
fn all_parts(size: usize) -> Vec<Range<usize>> {
    (0..size)
        .flat_map(|from| (from + 1..size).map(move |to| from..to))
        .collect()
}

/// Time of making one shifted copy and counting so many variants in it, in the time of counting one pattern in the events
/// themselves: twice the events are sorted, as measured on 65,428 events.
pub(super) fn shift_time(variants: u64) -> u64 {
    variants.saturating_add(2 * ONE_SURROGATE)
}

/// Time of the shifts of all parts of `patterns`, if all of them go on.
fn shifts_of_parts<'a>(patterns: impl Iterator<Item = &'a Pattern>, shifts: Range<u32>) -> u64 {
    let parts = patterns.map(|p| (p.size() * p.size().saturating_sub(1) / 2) as u64);
    u64::from(shifts.end.saturating_sub(shifts.start)).saturating_mul(shift_time(parts.sum()))
}

/// The data that all looks share.
struct Looks<'a> {
    workers: Workers<'a>,
    events: &'a Events,
    shifted: ShiftedCopy<'a>,
    /// Number of symbols in the events.
    symbols: u32,
    /// Shares are by [`shift_time`].
    phases: Phases<'a>,
    /// Most shifts of a part.
    shifts: u32,
}

impl Looks<'_> {
    /// Brings those tests that go on up to `until` shifts. Shifts of all parts follow, from `next` on.
    fn look(&mut self, tests: &mut [Test<'_>], until: u32, next: u32) -> Result<()> {
        let mut open: Vec<&mut Test<'_>> = tests.iter_mut().filter(|t| t.goes_on()).collect();
        // All that go on have had equally many.
        let done = open.first().map_or(until, |t| t.shifts);
        if done == until {
            return Ok(());
        }
        let mut variants = Vec::new();
        let mut limits = Vec::new();
        for test in &open {
            for part in &test.parts {
                variants.push(test.variant(part, self.symbols)?);
                limits.push(test.observed);
            }
        }
        let own = u64::from(until - done).saturating_mul(shift_time(variants.len() as u64));
        let rest = shifts_of_parts(open.iter().map(|test| test.pattern), next..self.shifts);
        self.phases.expect(own.saturating_add(rest));
        let phase = self.phases.next(own);
        let kind = SurrogateSource::Shifted(&self.shifted, u64::from(done));
        let job = CountJob::new(self.events, &variants);
        let placement = self.workers.decide(&job, until - done, kind);
        let wanted = SurrogateJob {
            patterns: &variants,
            frequency: Frequency::NonOverlapped,
            limits: &limits,
            stage: "shifts",
            progress: &phase,
        };
        let totals = count_surrogates(self.workers, placement, kind, until - done, wanted)?;
        let mut totals = totals.iter();
        for test in &mut open {
            for (i, total) in totals.by_ref().take(test.parts.len()).enumerate() {
                test.reached[i] += total.reached;
                test.sums[i] += total.sum;
            }
            test.shifts = until;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_contiguous_proper_and_no_two_the_same_test() {
        assert!(all_parts(1).is_empty());
        let whole = 0..1;
        assert_eq!(all_parts(2), [whole]);
        assert_eq!(all_parts(3), [0..1, 0..2, 1..2]);
        for size in 2..10 {
            assert_eq!(all_parts(size).len(), size * (size - 1) / 2);
        }
    }
}
