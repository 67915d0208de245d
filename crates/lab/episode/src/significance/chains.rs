//! Which of many frequent episodes are chains: both tests, size by size.

use std::collections::HashMap;

use super::parts::{ONE_SURROGATE, shift_time};
use super::{
    PartOptions, PartSignificance, Significance, SignificanceOptions, Surrogate, Workers,
    part_significance_by, significance_by,
};
use crate::events::Events;
use crate::frequency::Frequency;
use crate::pattern::Pattern;
use betz_base::error::{Error, Result};
use betz_base::progress::{Phases, Progress};

/// How to look for chains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainOptions {
    /// The kind of surrogates.
    pub surrogate: Surrogate,
    /// Number of surrogates, and of shifts of each part, for episodes of three symbols and more;
    /// pairs have four times as many. At least 1.
    pub draws: u32,
    /// The smallest and the largest shift of a part in ticks ([`PartOptions`]).
    pub shifts: (i64, i64),
    /// The false discovery rate of each test at each size, above 0 and up to 1.
    pub rate: f64,
    /// Seed of surrogates and shifts.
    pub seed: u64,
}

impl ChainOptions {
    /// Draws for episodes of `size` symbols. Most tests are of pairs, few of which are real: they need smaller p-values to
    /// stand out.
    fn draws_of(&self, size: usize) -> u32 {
        match size {
            2 => self.draws.saturating_mul(4).saturating_add(3),
            _ => self.draws,
        }
    }

    /// The test of parts, with so many shifts.
    fn parts(&self, shifts: u32) -> PartOptions {
        PartOptions {
            shifts,
            least: self.shifts.0,
            most: self.shifts.1,
            seed: self.seed,
        }
    }
}

/// The tests of one episode.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainTest {
    /// Its count against those of surrogates; q among the episodes of its size that were tested.
    pub surrogates: Significance,
    /// Its weakest part; `None` when it is not above the surrogates.
    pub parts: Option<PartSignificance>,
    /// True if it passed both tests.
    pub passed: bool,
}

/// Tests `patterns` size by size, first against surrogates and then, those that pass, every part
/// ([`part_significance`](super::part_significance)); one entry per pattern, `None` for those not tested.
///
/// A pattern is tested unless it is a single symbol or one of its two longest parts (all but the first
/// symbol, all but the last) is among `patterns` and has not passed. This keeps the number of tests
/// small, so that each needs less to stand out, and leaves out what two real chains make together that
/// run side by side by chance.
///
/// Runs in rayon's current threads. The stage is `tests`.
///
/// # Errors
/// `InvalidArgument` for no draws, a rate that is none, or as [`significance`](super::significance) and
/// [`part_significance`](super::part_significance); `Mismatch` for a pattern that does not fit the events; `Interrupted`.
pub fn chains(
    events: &Events,
    patterns: &[Pattern],
    options: &ChainOptions,
    progress: &dyn Progress,
) -> Result<Vec<Option<ChainTest>>> {
    chains_by(Workers::alone(), events, patterns, options, progress)
}

/// [`chains`] by a team, whose processes share out surrogates and shifts, and on devices; the same result, to the bit,
/// known to all.
///
/// # Errors
/// As [`chains`]; those of the team and of the devices.
pub fn chains_by(
    workers: Workers<'_>,
    events: &Events,
    patterns: &[Pattern],
    options: &ChainOptions,
    progress: &dyn Progress,
) -> Result<Vec<Option<ChainTest>>> {
    if !(options.rate > 0.0 && options.rate <= 1.0) {
        return Err(Error::argument(format!(
            "false discovery rate: expected more than 0 and at most 1, got {}",
            options.rate
        )));
    }
    options.surrogate.check()?;
    options.parts(options.draws).check_numbers()?;
    let largest = patterns.iter().map(Pattern::size).max().unwrap_or(0);
    if largest < 2 {
        return Ok(vec![None; patterns.len()]);
    }
    // Before anything is counted.
    options.parts(options.draws).check(events)?;
    let mut candidates = Candidates::new(patterns);
    let mut tests: Vec<Option<ChainTest>> = vec![None; patterns.len()];
    let mut phases = Phases::new(progress, "tests", candidates.time(options, 2));
    for size in 2..=largest {
        let chosen = candidates.of(size);
        let found = test_size(
            workers,
            events,
            &mut candidates,
            (size, options),
            &mut phases,
        )?;
        for (i, test) in chosen.into_iter().zip(found) {
            tests[i] = Some(test);
        }
    }
    Ok(tests)
}

/// The patterns that may still pass: after their test, those that have passed.
struct Candidates<'a> {
    patterns: &'a [Pattern],
    /// The two longest parts of each pattern that are among the patterns, and not single symbols.
    parts: Vec<Vec<usize>>,
    may_pass: Vec<bool>,
    largest: usize,
}

impl<'a> Candidates<'a> {
    fn new(patterns: &'a [Pattern]) -> Self {
        let index: HashMap<&Pattern, usize> = patterns.iter().zip(0..).collect();
        let parts_of = |pattern: &Pattern| {
            let parts = [pattern.without_first(), pattern.without_last()];
            let known = parts.into_iter().flatten().filter(|part| part.size() > 1);
            known.filter_map(|p| index.get(&p).copied()).collect()
        };
        Self {
            patterns,
            parts: patterns.iter().map(parts_of).collect(),
            may_pass: patterns.iter().map(|p| p.size() > 1).collect(),
            largest: patterns.iter().map(Pattern::size).max().unwrap_or(0),
        }
    }

    /// The patterns of `size` that may pass.
    fn of(&self, size: usize) -> Vec<usize> {
        let of_size = |&i: &usize| self.patterns[i].size() == size;
        (0..self.patterns.len())
            .filter(of_size)
            .filter(|&i| self.may_pass[i])
            .collect()
    }

    /// Drops those of `chosen`, all of `size`, that have not passed, and all larger patterns that they are parts of.
    fn keep(&mut self, size: usize, chosen: &[usize], passed: impl Iterator<Item = bool>) {
        for (&i, passed) in chosen.iter().zip(passed) {
            self.may_pass[i] = passed;
        }
        for size in size + 1..=self.largest {
            for i in self.of(size) {
                self.may_pass[i] = self.parts[i].iter().all(|&part| self.may_pass[part]);
            }
        }
    }

    /// Time that the tests from `size` on take if all pass that may, in the time of counting one pattern.
    fn time(&self, options: &ChainOptions, size: usize) -> u64 {
        let of_size = |size: usize| {
            let count = self.of(size).len() as u64;
            surrogates_time(options, size, count).saturating_add(shifts_time(options, size, count))
        };
        (size..=self.largest)
            .map(of_size)
            .fold(0, u64::saturating_add)
    }
}

/// Time of the surrogates of `count` patterns of `size`, in the time of counting one pattern.
fn surrogates_time(options: &ChainOptions, size: usize, count: u64) -> u64 {
    match count {
        0 => 0,
        _ => u64::from(options.draws_of(size)).saturating_mul(ONE_SURROGATE.saturating_add(count)),
    }
}

/// Time of the shifts of the parts of `count` patterns of `size`.
fn shifts_time(options: &ChainOptions, size: usize, count: u64) -> u64 {
    let variants = count.saturating_mul((size * size.saturating_sub(1) / 2) as u64);
    match count {
        0 => 0,
        _ => u64::from(options.draws_of(size)).saturating_mul(shift_time(variants)),
    }
}

/// Tests the candidates of one size.
fn test_size(
    workers: Workers<'_>,
    events: &Events,
    candidates: &mut Candidates<'_>,
    (size, options): (usize, &ChainOptions),
    phases: &mut Phases<'_>,
) -> Result<Vec<ChainTest>> {
    let chosen = candidates.of(size);
    let draws = options.draws_of(size);
    let surrogates = SignificanceOptions {
        surrogate: options.surrogate,
        surrogates: draws,
        seed: options.seed,
        frequency: Frequency::NonOverlapped,
    };
    let of = |chosen: &[usize]| -> Vec<Pattern> {
        let patterns = chosen.iter().map(|&i| candidates.patterns[i].clone());
        patterns.collect()
    };
    let phase = phases.next(surrogates_time(options, size, chosen.len() as u64));
    let against_surrogates = significance_by(workers, events, &of(&chosen), &surrogates, &phase)?;
    let above = |s: &Significance| s.q <= options.rate;
    let pairs = chosen.iter().zip(&against_surrogates);
    let rest: Vec<usize> = pairs.filter(|(_, s)| above(s)).map(|(&i, _)| i).collect();
    let patterns = of(&rest);
    candidates.keep(size, &chosen, against_surrogates.iter().map(above));
    let own = shifts_time(options, size, rest.len() as u64);
    phases.expect(own.saturating_add(candidates.time(options, size + 1)));
    let shifts = options.parts(draws);
    let phase = phases.next(own);
    let mut parts = part_significance_by(workers, events, &patterns, &shifts, &phase)?.into_iter();
    let test = |surrogates: Significance| {
        let parts = above(&surrogates).then(|| parts.next()).flatten();
        ChainTest {
            surrogates,
            passed: parts.as_ref().is_some_and(|p| p.q <= options.rate),
            parts,
        }
    };
    let tests: Vec<ChainTest> = against_surrogates.into_iter().map(test).collect();
    candidates.keep(size, &chosen, tests.iter().map(|test| test.passed));
    phases.expect(candidates.time(options, size + 1));
    Ok(tests)
}
