//! One step of the latest-start algorithm: from the valid ends of a prefix to those of the prefix
//! and one symbol more.

use crate::pattern::Interval;
use crate::time_table::SymbolIndex;

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
    /// For chains of one symbol: its index, and the position of `ends` in it.
    pub(crate) root: Option<(SymbolIndex<'a>, usize)>,
}

/// The ticks `first..last` of a symbol: those in a tile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Followers<'a> {
    pub(crate) index: SymbolIndex<'a>,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// Chains this many times fewer than ticks are looked up one by one, and ticks than chains.
const SPARSE: usize = 2;

/// Calls `emit(end, start)` for the valid ends among `ticks` in ascending order, given those of the
/// prefix: the last end before `tick − low`, if that is not before `tick − high`.
///
/// Three ways, by what is measured to be quickest: look up each chain's followers when chains are
/// few; look up each tick's predecessor when the prefix is a single symbol, which has an index;
/// merge otherwise.
#[inline(always)]
pub(crate) fn extend(
    prefix: Chains<'_>,
    followers: Followers<'_>,
    interval: Interval,
    emit: impl FnMut(i64, i64),
) {
    let (chains, ticks) = (prefix.ends.len(), followers.last - followers.first);
    if chains == 0 || ticks == 0 {
    } else if chains * SPARSE < ticks {
        follow_each_chain(prefix, followers, interval, emit);
    } else if let Some((root, offset)) = prefix.root {
        precede_each_tick(root, offset, followers, interval, emit);
    } else {
        merge(prefix, followers, interval, emit);
    }
}

/// For each chain, the ticks that it reaches and the next chain does not.
#[inline(always)]
fn follow_each_chain(
    prefix: Chains<'_>,
    followers: Followers<'_>,
    interval: Interval,
    mut emit: impl FnMut(i64, i64),
) {
    let (ends, starts) = (prefix.ends, &prefix.starts[..prefix.ends.len()]);
    let ticks = &followers.index.ticks[..followers.last];
    let mut at = followers.first;
    for (i, (&end, &start)) in ends.iter().zip(starts).enumerate() {
        at = at.max(followers.index.count_through(end + interval.low));
        let next = ends.get(i + 1).map_or(i64::MAX, |e| e + interval.low);
        let limit = next.min(end + interval.high);
        while at < ticks.len() && ticks[at] <= limit {
            emit(ticks[at], start);
            at += 1;
        }
    }
}

/// For each tick, the last event of the one symbol before it.
#[inline(always)]
fn precede_each_tick(
    root: SymbolIndex<'_>,
    offset: usize,
    followers: Followers<'_>,
    interval: Interval,
    mut emit: impl FnMut(i64, i64),
) {
    for &tick in &followers.index.ticks[followers.first..followers.last] {
        let before = root.count_through(tick - interval.low - 1);
        if before > offset {
            let start = root.ticks[before - 1];
            if tick - start <= interval.high {
                emit(tick, start);
            }
        }
    }
}

/// Both lists are walked once.
#[inline(always)]
fn merge(
    prefix: Chains<'_>,
    followers: Followers<'_>,
    interval: Interval,
    mut emit: impl FnMut(i64, i64),
) {
    let (ends, starts) = (prefix.ends, &prefix.starts[..prefix.ends.len()]);
    let mut next = 0;
    for &tick in &followers.index.ticks[followers.first..followers.last] {
        let limit = tick - interval.low;
        while next < ends.len() && ends[next] < limit {
            next += 1;
        }
        if next > 0 && tick - ends[next - 1] <= interval.high {
            emit(tick, starts[next - 1]);
        }
    }
}
