//! Does each edge of an episode matter, given what is before it and after it?

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::surrogate::with_shifted_copy;
use super::{benjamini_hochberg, count_surrogates};
use crate::episode::count::{CountJob, LatestStart, Strategy};
use crate::episode::{Alphabet, Events, Pattern};
use crate::error::{Error, Result};
use crate::progress::Progress;

/// How to test edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeOptions {
    /// How many random shifts, at least 1: p is at least 1 / (this + 1).
    pub shifts: u32,
    /// Shifts are uniformly distributed over ±[`least`, `most`] ticks. `least` should be beyond the
    /// reach of real delays and of short-lived common rates, `most` within the time over which rates
    /// hold.
    ///
    /// [`least`]: EdgeOptions::least
    /// [`most`]: EdgeOptions::most
    pub least: i64,
    /// See `least`.
    pub most: i64,
    /// Seed of the shifts.
    pub seed: u64,
}

/// An episode's weakest edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EdgeSignificance {
    /// The edge with the largest p, counted from 0; 0 for an episode without edges.
    pub weakest: usize,
    /// The mean count when that edge is left to chance.
    pub expected: f64,
    /// The weakest edge's p: (1 + shifts with at least the observed count) / (1 + shifts). 1 for an
    /// episode without edges. As the largest of the edges' p-values it is a p-value for "some edge is
    /// chance" (an intersection–union test).
    pub p: f64,
    /// [`benjamini_hochberg`] of `p` over the patterns tested together.
    pub q: f64,
}

/// Tests every edge of each pattern: the symbols before the edge are taken from a copy of the events
/// shifted in time (around each segment's ends), those after it from the events themselves. Both
/// parts keep all their structure, and an occurrence lasts as long as before; only their relation is
/// left to chance.
///
/// Null hypothesis of an edge: what is before and what is after it are independent, given rates that
/// hardly vary over `most` ticks.
///
/// Counts (size − 1) variants of each pattern for each shift, in rayon's current threads, over shifts.
/// The stage is `shifts`.
///
/// # Errors
/// `InvalidArgument` unless shifts ≥ 1 and 1 ≤ least ≤ most; `Mismatch` for a pattern that does not
/// fit the events; `Interrupted`.
pub fn edge_significance(
    events: &Events,
    patterns: &[Pattern],
    options: &EdgeOptions,
    progress: &dyn Progress,
) -> Result<Vec<EdgeSignificance>> {
    if options.least < 1 || options.most < options.least || options.most >= 1 << 60 {
        return Err(Error::argument(format!(
            "shifts of {} to {} ticks: expected 1 <= least <= most",
            options.least, options.most
        )));
    }
    let observed = LatestStart.count(&CountJob::new(events, patterns))?;
    let doubled = doubled(events)?;
    let mut variants = Vec::new();
    let mut limits = Vec::new();
    let mut edges_of = Vec::with_capacity(patterns.len());
    for (pattern, &count) in patterns.iter().zip(&observed) {
        let first = variants.len();
        for edge in 0..pattern.intervals().len() {
            variants.push(cut(pattern, edge, events.symbols() as u32)?);
            limits.push(count);
        }
        edges_of.push(first..variants.len());
    }
    let totals = count_surrogates(
        &variants,
        &limits,
        options.shifts,
        "shifts",
        progress,
        |index| with_shifted_copy(events, &doubled, shift(options, index)),
    )?;
    let mut found: Vec<EdgeSignificance> = edges_of
        .into_iter()
        .map(|edges| {
            let first = edges.start;
            // The last of the largest: which one does not matter, but is always the same.
            let weakest = edges.max_by_key(|&e| totals[e].reached);
            EdgeSignificance {
                weakest: weakest.map_or(0, |e| e - first),
                expected: weakest.map_or(0.0, |e| totals[e].mean(options.shifts)),
                p: weakest.map_or(1.0, |e| totals[e].p(options.shifts)),
                q: 1.0,
            }
        })
        .collect();
    let p: Vec<f64> = found.iter().map(|e| e.p).collect();
    for (edge, q) in found.iter_mut().zip(benjamini_hochberg(&p)) {
        edge.q = q;
    }
    Ok(found)
}

/// The symbols twice: S + s is the shifted copy of s.
fn doubled(events: &Events) -> Result<Alphabet> {
    let labels = (0..2 * events.symbols()).map(|s| s.to_string()).collect();
    Alphabet::new(labels, events.clock())
}

/// The pattern with the symbols up to `edge` taken from the shifted copy.
fn cut(pattern: &Pattern, edge: usize, symbols: u32) -> Result<Pattern> {
    let mut names = pattern.symbols().to_vec();
    for symbol in &mut names[..=edge] {
        *symbol += symbols;
    }
    Pattern::new(names, pattern.intervals().to_vec())
}

fn shift(options: &EdgeOptions, index: u64) -> i64 {
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    rng.set_stream(index);
    let shift = rng.random_range(options.least..=options.most);
    if rng.random_bool(0.5) { shift } else { -shift }
}
