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
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.starts.clear();
    }
}

/// The valid ends of a chain of one symbol: all its events, which start where they end.
pub(crate) fn first_symbol(ticks: &[i64], out: &mut Ends) {
    out.ends.clear();
    out.ends.extend_from_slice(ticks);
    out.starts.clear();
    out.starts.extend_from_slice(ticks);
}

/// Appends to `out` the valid ends among `ticks`, given those of the prefix.
pub(crate) fn extend(prefix: &Ends, ticks: &[i64], interval: Interval, out: &mut Ends) {
    let mut next = 0;
    for &tick in ticks {
        while next < prefix.ends.len() && prefix.ends[next] < tick - interval.low {
            next += 1;
        }
        if next > 0 && tick - prefix.ends[next - 1] <= interval.high {
            out.ends.push(tick);
            out.starts.push(prefix.starts[next - 1]);
        }
    }
}
