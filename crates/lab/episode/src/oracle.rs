//! The count by its definition, and nothing else: slow, plain, and obviously right.
//!
//! Every occurrence is enumerated; then the largest set of which no two overlap is found by dynamic
//! programming over all of them (take an occurrence or leave it), which assumes nothing about the
//! order in which occurrences are best taken. For tests: the number of occurrences grows
//! exponentially with the size of the episode.

use std::collections::BTreeSet;

use crate::events::Events;
use crate::pattern::Pattern;

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
