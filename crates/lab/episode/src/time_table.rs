//! Finding a tick's place in an ascending list by one look-up and a short scan.

/// The beginnings of equal buckets of time in an ascending list of ticks.
#[derive(Debug, Clone)]
pub(crate) struct TimeTable {
    /// `first[b]` is the index of the first tick with `tick >> shift >= b`; one entry more ends it.
    first: Vec<u32>,
    shift: u32,
}

impl TimeTable {
    /// A table over no ticks.
    pub(crate) const fn empty() -> Self {
        Self {
            first: Vec::new(),
            shift: 0,
        }
    }

    /// A table over ascending ticks with about `each` of them in a bucket.
    pub(crate) fn new(
        ticks: impl DoubleEndedIterator<Item = i64> + ExactSizeIterator,
        each: usize,
    ) -> Self {
        let count = ticks.len();
        let mut ticks = ticks.enumerate().peekable();
        let wanted = (count / each).max(1) as i64;
        let last = match ticks.next_back() {
            Some((_, last)) => last,
            None => return Self::empty(),
        };
        let mut shift = 0;
        while last >> shift >= wanted {
            shift += 1;
        }
        let buckets = (last >> shift) as usize + 1;
        let mut first = Vec::with_capacity(buckets + 1);
        for (i, tick) in ticks.chain(std::iter::once((count - 1, last))) {
            let bucket = (tick >> shift) as usize;
            while first.len() <= bucket {
                first.push(i as u32);
            }
        }
        first.push(count as u32);
        Self { first, shift }
    }

    /// The indices of the ticks in the bucket of `tick` (not negative), `None` beyond the last.
    #[inline(always)]
    pub(crate) fn bucket(&self, tick: i64) -> Option<(usize, usize)> {
        let b = (tick >> self.shift) as usize;
        match self.first.get(b..b.wrapping_add(2)) {
            Some(&[from, to]) => Some((from as usize, to as usize)),
            _ => None,
        }
    }
}

/// One symbol's ascending ticks, quick to search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SymbolIndex<'a> {
    pub(crate) ticks: &'a [i64],
    table: &'a TimeTable,
}

impl<'a> SymbolIndex<'a> {
    /// `ticks` with the table over them.
    pub(crate) fn new(ticks: &'a [i64], table: &'a TimeTable) -> Self {
        Self { ticks, table }
    }

    /// Number of ticks at or before `bound`. Without unpredictable branches if the ticks are
    /// spread as on average; by a binary search if they are far denser.
    #[inline(always)]
    pub(crate) fn count_through(&self, bound: i64) -> usize {
        const SCAN: usize = 4;
        if bound < 0 {
            return 0;
        }
        let Some((from, to)) = self.table.bucket(bound) else {
            return self.ticks.len();
        };
        if let Some(next) = self.ticks.get(from..from + SCAN) {
            let scanned: usize = next.iter().map(|&t| usize::from(t <= bound)).sum();
            if scanned < SCAN {
                return from + scanned;
            }
        }
        from + self.ticks[from..to].partition_point(|&t| t <= bound)
    }
}
