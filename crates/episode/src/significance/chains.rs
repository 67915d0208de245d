//! Which of many frequent episodes are chains: both tests, size by size.

use std::collections::HashMap;

use super::{
    PartOptions, PartSignificance, Significance, SignificanceOptions, Surrogate, Workers,
    part_significance_by, significance_by,
};
use crate::events::Events;
use crate::pattern::Pattern;
use betz_base::error::{Error, Result};
use betz_base::progress::{Phases, Progress};

/// Times that a shift takes as long as a surrogate: it counts twice the events.
const SHIFTED: u64 = 2;

/// Patterns that are counted in about the time that one draw of surrogates takes, for the progress.
const ONE_DRAW: u64 = 20;

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
    let index: HashMap<&Pattern, usize> = patterns.iter().zip(0..).collect();
    let mut tests: Vec<Option<ChainTest>> = vec![None; patterns.len()];
    // A draw takes as long as counting some patterns, and then each pattern of the size once.
    let share = |size: usize| {
        let own = patterns.iter().filter(|p| p.size() == size).count() as u64;
        u64::from(options.draws_of(size)) * (ONE_DRAW + own)
    };
    let all: u64 = (2..=largest).map(share).sum();
    let mut phases = Phases::new(progress, "tests", all * (1 + SHIFTED));
    for size in 2..=largest {
        let may_be = |part: Option<Pattern>| {
            let known = part.filter(|p| p.size() > 1).and_then(|p| index.get(&p));
            known.is_none_or(|&i| tests[i].as_ref().is_some_and(|t| t.passed))
        };
        let candidates: Vec<usize> = (0..patterns.len())
            .filter(|&i| patterns[i].size() == size)
            .filter(|&i| may_be(patterns[i].without_first()) && may_be(patterns[i].without_last()))
            .collect();
        let chosen: Vec<Pattern> = candidates.iter().map(|&i| patterns[i].clone()).collect();
        let found = test_size(
            workers,
            events,
            &chosen,
            options,
            (share(size), &mut phases),
        )?;
        for (i, test) in candidates.into_iter().zip(found) {
            tests[i] = Some(test);
        }
    }
    Ok(tests)
}

/// Tests `patterns`, all of one size.
fn test_size(
    workers: Workers<'_>,
    events: &Events,
    patterns: &[Pattern],
    options: &ChainOptions,
    (share, phases): (u64, &mut Phases<'_>),
) -> Result<Vec<ChainTest>> {
    let draws = options.draws_of(patterns.first().map_or(0, Pattern::size));
    let surrogates = SignificanceOptions {
        surrogate: options.surrogate,
        surrogates: draws,
        seed: options.seed,
    };
    let phase = phases.next(share);
    let against_surrogates = significance_by(workers, events, patterns, &surrogates, &phase)?;
    let above = |s: &Significance| s.q <= options.rate;
    let rest: Vec<Pattern> = (patterns.iter().zip(&against_surrogates))
        .filter(|(_, s)| above(s))
        .map(|(pattern, _)| pattern.clone())
        .collect();
    let shifts = options.parts(draws);
    let phase = phases.next(share * SHIFTED);
    let mut parts = part_significance_by(workers, events, &rest, &shifts, &phase)?.into_iter();
    let test = |surrogates: Significance| {
        let parts = above(&surrogates).then(|| parts.next()).flatten();
        ChainTest {
            surrogates,
            passed: parts.as_ref().is_some_and(|p| p.q <= options.rate),
            parts,
        }
    };
    Ok(against_surrogates.into_iter().map(test).collect())
}
