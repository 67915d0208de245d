//! One step of the latest-start algorithm: from the valid ends of a prefix to those of the prefix
//! and one symbol more.

use crate::episode::Interval;

/// Valid ends of a chain in ascending order, each with the latest start of such a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) ends: Vec<i64>,
    pub(crate) starts: Vec<i64>,
}

impl Ends {
    /// Takes over from `other` the ends at or after `oldest`, leaving it empty.
    pub(crate) fn keep_from(&mut self, other: &mut Self, oldest: i64) {
        let kept = other
            .ends
            .iter()
            .rev()
            .take_while(|&&e| e >= oldest)
            .count();
        let from = other.ends.len() - kept;
        self.ends.clear();
        self.ends.extend_from_slice(&other.ends[from..]);
        self.starts.clear();
        self.starts.extend_from_slice(&other.starts[from..]);
        other.ends.clear();
        other.starts.clear();
    }
}

/// A view of [`Ends`], of which those before `fresh` are the tail of an earlier tile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chains<'a> {
    pub(crate) ends: &'a [i64],
    pub(crate) starts: &'a [i64],
    pub(crate) fresh: usize,
}

/// Lists this many times longer than the other are searched, not merged.
const SPARSE: usize = 4;

/// Calls `emit(end, start)` for the valid ends among `ticks` in ascending order, given those of the
/// prefix: the last end before `tick − low`, if that is not before `tick − high`.
#[inline(always)]
pub(crate) fn extend(
    prefix: Chains<'_>,
    ticks: &[i64],
    interval: Interval,
    emit: impl FnMut(i64, i64),
) {
    if prefix.ends.is_empty() || ticks.is_empty() {
    } else if prefix.ends.len() * SPARSE < ticks.len() {
        extend_few_chains(prefix, ticks, interval, emit);
    } else if ticks.len() * SPARSE < prefix.ends.len() {
        extend_few_ticks(prefix, ticks, interval, emit);
    } else {
        merge(prefix, ticks, interval, emit);
    }
}

/// Both lists are walked once.
#[inline(always)]
fn merge(prefix: Chains<'_>, ticks: &[i64], interval: Interval, mut emit: impl FnMut(i64, i64)) {
    let (ends, starts) = (prefix.ends, prefix.starts);
    let mut next = 0;
    for &tick in ticks {
        let limit = tick - interval.low;
        while next < ends.len() && ends[next] < limit {
            next += 1;
        }
        if next > 0 && tick - ends[next - 1] <= interval.high {
            emit(tick, starts[next - 1]);
        }
    }
}

/// For each chain, the ticks that it reaches and the next chain does not.
#[inline(always)]
fn extend_few_chains(
    prefix: Chains<'_>,
    ticks: &[i64],
    interval: Interval,
    mut emit: impl FnMut(i64, i64),
) {
    let (ends, starts) = (prefix.ends, prefix.starts);
    let mut at = 0;
    for (i, &end) in ends.iter().enumerate() {
        at = gallop(ticks, at, end + interval.low);
        let next = ends.get(i + 1).map_or(i64::MAX, |e| e + interval.low);
        let limit = next.min(end + interval.high);
        while at < ticks.len() && ticks[at] <= limit {
            emit(ticks[at], starts[i]);
            at += 1;
        }
    }
}

/// For each tick, the last chain before it.
#[inline(always)]
fn extend_few_ticks(
    prefix: Chains<'_>,
    ticks: &[i64],
    interval: Interval,
    mut emit: impl FnMut(i64, i64),
) {
    let (ends, starts) = (prefix.ends, prefix.starts);
    let mut next = 0;
    for &tick in ticks {
        next = gallop(ends, next, tick - interval.low - 1);
        if next > 0 && tick - ends[next - 1] <= interval.high {
            emit(tick, starts[next - 1]);
        }
    }
}

/// Index of the first of `ticks` after `bound`, searched from `from` on in doubling steps.
#[inline(always)]
fn gallop(ticks: &[i64], from: usize, bound: i64) -> usize {
    let mut step = 1;
    let mut low = from;
    let mut high = from;
    while high < ticks.len() && ticks[high] <= bound {
        low = high + 1;
        high += step;
        step *= 2;
    }
    let high = high.min(ticks.len());
    low + ticks[low..high].partition_point(|&t| t <= bound)
}
