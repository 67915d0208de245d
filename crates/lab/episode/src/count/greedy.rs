//! From occurrences to a count of which no two overlap.

/// The greedy choice among occurrences in the order of their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GreedyChoice {
    pub(crate) count: u64,
    pub(crate) last_end: i64,
}

impl Default for GreedyChoice {
    fn default() -> Self {
        Self {
            count: 0,
            last_end: i64::MIN,
        }
    }
}

impl GreedyChoice {
    /// Takes the occurrence if it starts after the last one taken ended.
    #[inline(always)]
    pub(crate) fn push(&mut self, end: i64, start: i64) {
        let take = start > self.last_end;
        self.count += u64::from(take);
        self.last_end = if take { end } else { self.last_end };
    }

    /// [`GreedyChoice::push`] for each occurrence.
    pub(crate) fn extend(&mut self, ends: &[i64], starts: &[i64]) {
        for (&end, &start) in ends.iter().zip(starts) {
            self.push(end, start);
        }
    }
}
