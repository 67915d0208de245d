//! Counts by their definitions, and nothing else: slow, plain, and obviously right.
//!
//! Every occurrence is enumerated; then the largest set of which no two overlap is found by dynamic
//! programming over all of them (take an occurrence or leave it), which assumes nothing about the
//! order in which occurrences are best taken. For tests: the number of occurrences grows
//! exponentially with the size of the episode.

use std::collections::BTreeSet;

use crate::events::Events;
use crate::frequency::Frequency;
use crate::parallel::ParallelEpisode;
use crate::pattern::Pattern;

/// The number of occurrences by a definition of `frequency`.
pub fn frequency(events: &Events, pattern: &Pattern, frequency: Frequency) -> u64 {
    match frequency {
        Frequency::NonOverlapped => count(events, pattern),
        Frequency::Distinct => all_occurrences(events, pattern).len() as u64,
        Frequency::Minimal { span } => count_minimal(&all_spans(events, pattern), span),
        Frequency::Windows { width } => count_windows(events, &all_spans(events, pattern), width),
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

/// The number of occurrences of a parallel episode by a definition of `frequency`; `None` if there is no definition.
pub fn parallel_frequency(
    events: &Events,
    episode: &ParallelEpisode,
    frequency: Frequency,
) -> Option<u64> {
    // Every choice of different events, one per symbol, whatever their order.
    let mut choices: BTreeSet<BTreeSet<(i64, u32)>> = BTreeSet::from([BTreeSet::new()]);
    for &symbol in episode.symbols() {
        let mut larger = BTreeSet::new();
        for choice in &choices {
            for event in events.iter().filter(|event| event.1 == symbol) {
                if !choice.contains(&event) {
                    larger.insert(choice.iter().copied().chain([event]).collect());
                }
            }
        }
        choices = larger;
    }
    let ends = choices
        .iter()
        .filter_map(|c| Some((c.first()?.0, c.last()?.0)));
    let spans: BTreeSet<(i64, i64)> = ends
        .filter(|&ends| within(ends, Some(episode.span())))
        .collect();
    match frequency {
        Frequency::NonOverlapped => {
            let by_end: BTreeSet<(i64, i64)> = spans.into_iter().map(|(s, e)| (e, s)).collect();
            Some(largest_set(by_end))
        }
        Frequency::Minimal { span } => Some(count_minimal(&spans, span)),
        Frequency::Windows { width } => Some(count_windows(events, &spans, width)),
        Frequency::Distinct | Frequency::Total { .. } => None,
    }
}

fn within((start, end): (i64, i64), span: Option<i64>) -> bool {
    span.is_none_or(|span| end - start <= span)
}

/// The number of `spans` of at most `span` ticks that hold no shorter one.
fn count_minimal(spans: &BTreeSet<(i64, i64)>, span: Option<i64>) -> u64 {
    let holds = |outer: (i64, i64), inner: (i64, i64)| {
        outer != inner && outer.0 <= inner.0 && inner.1 <= outer.1
    };
    let minimal = |&outer: &(i64, i64)| !spans.iter().any(|&inner| holds(outer, inner));
    let minimal = spans.iter().copied().filter(minimal);
    minimal.filter(|&s| within(s, span)).count() as u64
}

/// The number of windows that hold one of `spans`.
fn count_windows(events: &Events, spans: &BTreeSet<(i64, i64)>, width: i64) -> u64 {
    let holds = |&from: &i64| spans.iter().any(|&(s, e)| from <= s && e < from + width);
    let windows = events.first_tick() - width..=events.last_tick() + width;
    windows.filter(holds).count() as u64
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
    largest_set(occurrences)
}

/// The number of occurrences, given as (end, start), in the largest set of which no two overlap.
fn largest_set(occurrences: BTreeSet<(i64, i64)>) -> u64 {
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
