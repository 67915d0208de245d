//! Counts by their definitions, and nothing else: slow, plain, and obviously right.
//!
//! Every occurrence is enumerated; then the largest set of which no two overlap is found by dynamic
//! programming over all of them (take an occurrence or leave it), which assumes nothing about the
//! order in which occurrences are best taken. For tests: the number of occurrences grows
//! exponentially with the size of the episode.

use std::collections::BTreeSet;

use crate::events::Events;
use crate::frequency::Frequency;
use crate::pattern::Pattern;

/// The number of occurrences by a definition of `frequency`.
pub fn frequency(events: &Events, pattern: &Pattern, frequency: Frequency) -> u64 {
    let within =
        |(start, end): (i64, i64), span: Option<i64>| span.is_none_or(|s| end - start <= s);
    match frequency {
        Frequency::NonOverlapped => count(events, pattern),
        Frequency::Distinct => all_occurrences(events, pattern).len() as u64,
        Frequency::Minimal { span } => {
            let spans = all_spans(events, pattern);
            let holds = |outer: (i64, i64), inner: (i64, i64)| {
                outer != inner && outer.0 <= inner.0 && inner.1 <= outer.1
            };
            let minimal = |&outer: &(i64, i64)| !spans.iter().any(|&inner| holds(outer, inner));
            let minimal = spans.iter().copied().filter(minimal);
            minimal.filter(|&s| within(s, span)).count() as u64
        }
        Frequency::Windows { width } => {
            let spans = all_spans(events, pattern);
            let holds = |&from: &i64| spans.iter().any(|&(s, e)| from <= s && e < from + width);
            let windows = events.first_tick() - width..=events.last_tick() + width;
            windows.filter(holds).count() as u64
        }
        Frequency::Total { span } => {
            let heads = |part: &Pattern| {
                let spans = all_spans(events, part);
                let starts = spans.iter().filter(|&&s| within(s, span)).map(|s| s.0);
                starts.collect::<BTreeSet<i64>>().len() as u64
            };
            let parts = parts_of(pattern);
            parts.iter().map(heads).min().unwrap_or(0)
        }
    }
}

/// All contiguous parts of a pattern, itself included.
fn parts_of(pattern: &Pattern) -> Vec<Pattern> {
    let mut parts = vec![pattern.clone()];
    let mut heads = pattern.without_last();
    while let Some(part) = heads {
        heads = part.without_last();
        parts.push(part);
    }
    for i in 0..parts.len() {
        let mut tails = parts[i].without_first();
        while let Some(part) = tails {
            tails = part.without_first();
            parts.push(part);
        }
    }
    parts
}

/// First and last tick of every occurrence.
fn all_spans(events: &Events, pattern: &Pattern) -> BTreeSet<(i64, i64)> {
    let last = pattern.size() - 1;
    let spans = all_occurrences(events, pattern).into_iter();
    spans.map(|ticks| (ticks[0], ticks[last])).collect()
}

/// The ticks of every occurrence, one per symbol.
fn all_occurrences(events: &Events, pattern: &Pattern) -> BTreeSet<Vec<i64>> {
    let mut chains: BTreeSet<Vec<i64>> = BTreeSet::from([Vec::new()]);
    for (k, &symbol) in pattern.symbols().iter().enumerate() {
        let follows = |chain: &[i64], tick: i64| match chain.last() {
            None => true,
            Some(&last) => pattern.intervals()[k - 1].contains(tick - last),
        };
        let mut longer = BTreeSet::new();
        for chain in &chains {
            for (tick, _) in events.iter().filter(|&(_, s)| s == symbol) {
                if follows(chain, tick) {
                    longer.insert(chain.iter().copied().chain([tick]).collect());
                }
            }
        }
        chains = longer;
    }
    chains
}

/// The number of occurrences in the largest non-overlapped set.
pub fn count(events: &Events, pattern: &Pattern) -> u64 {
    let events: Vec<(i64, u32)> = events.iter().collect();
    let mut occurrences = BTreeSet::new();
    for &(start, symbol) in &events {
        if symbol == pattern.symbols()[0] {
            enumerate(&events, pattern, 1, start, start, &mut occurrences);
        }
    }
    let spans: Vec<(i64, i64)> = occurrences
        .into_iter()
        .map(|(end, start)| (start, end))
        .collect();
    // best[i]: the largest set among the first i spans, which are in order of their ends.
    let mut best = vec![0_u64; spans.len() + 1];
    for (i, &(start, _)) in spans.iter().enumerate() {
        let before = spans.iter().take_while(|&&(_, end)| end < start).count();
        best[i + 1] = best[i].max(best[before.min(i)] + 1);
    }
    best[spans.len()]
}

/// Adds the (end, start) of every occurrence that continues a chain of the first `size` symbols.
fn enumerate(
    events: &[(i64, u32)],
    pattern: &Pattern,
    size: usize,
    start: i64,
    end: i64,
    occurrences: &mut BTreeSet<(i64, i64)>,
) {
    if size == pattern.size() {
        occurrences.insert((end, start));
        return;
    }
    for &(tick, symbol) in events {
        if symbol == pattern.symbols()[size] && pattern.intervals()[size - 1].contains(tick - end) {
            enumerate(events, pattern, size + 1, start, tick, occurrences);
        }
    }
}
