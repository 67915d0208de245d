//! Classifies a device's numbered rows as new, lost, late, repeated, or counted anew.

use std::collections::VecDeque;

use super::RigCounts;

/// Number of past gaps that are remembered.
const REMEMBERED: usize = 64;
/// Number of consecutive old blocks, each where the one before ended, after which the device counts as restarted.
const ANEW: u32 = 8;

/// Checks the numbers of rows.
#[derive(Debug, Clone)]
pub(super) struct RowOrder {
    /// Number of the next expected row; none before the first.
    next: Option<u64>,
    /// Largest gap that counts as a loss, in rows; a larger one means that the device was restarted.
    farthest: u64,
    /// Gaps, as the first row and the one after the last.
    gaps: VecDeque<(u64, u64)>,
    /// End of the last old block, and the number of those in a row.
    old: Option<(u64, u32)>,
    pub(super) epoch: u32,
}

impl RowOrder {
    pub(super) fn new(farthest: u64) -> Self {
        Self {
            next: None,
            farthest,
            gaps: VecDeque::with_capacity(REMEMBERED),
            old: None,
            epoch: 0,
        }
    }

    /// Sets the largest gap that counts as a loss.
    pub(super) fn set_farthest(&mut self, farthest: u64) {
        self.farthest = farthest;
    }

    /// Returns the number of rows that are missing before the block, or `None` if the block is to be left out;
    /// updates the counts.
    pub(super) fn judge(&mut self, first: u64, rows: u64, counts: &mut RigCounts) -> Option<u64> {
        let end = first.saturating_add(rows);
        let Some(next) = self.next else {
            self.next = Some(end);
            return Some(0);
        };
        if first >= next {
            self.old = None;
            let gap = first - next;
            if gap > self.farthest {
                self.restart(counts);
                self.next = Some(end);
                return Some(0);
            }
            if gap > 0 {
                if self.gaps.len() == REMEMBERED {
                    self.gaps.pop_front();
                }
                self.gaps.push_back((next, first));
                counts.lost += gap;
            }
            self.next = Some(end);
            return Some(gap);
        }
        let run = match self.old {
            Some((before, run)) if before == first => run + 1,
            _ => 1,
        };
        self.old = Some((end, run));
        if run >= ANEW {
            self.restart(counts);
            self.next = Some(end);
            return Some(0);
        }
        if self.gaps.iter().any(|gap| gap.0 <= first && end <= gap.1) {
            counts.late += 1;
        } else {
            counts.duplicates += 1;
        }
        None
    }

    /// Begins another epoch, whose first number is that of the next block.
    pub(super) fn restart(&mut self, counts: &mut RigCounts) {
        self.next = None;
        self.gaps.clear();
        self.old = None;
        self.epoch += 1;
        counts.restarts += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_new_lost_late_repeated_or_of_another_epoch() {
        let (mut order, mut counts) = (RowOrder::new(1000), RigCounts::default());
        let mut judge = |first, rows| order.judge(first, rows, &mut counts);
        assert_eq!([judge(50, 10), judge(60, 5)], [Some(0), Some(0)]);
        assert_eq!(
            [judge(75, 5), judge(65, 5), judge(70, 5), judge(50, 10)],
            [Some(10), None, None, None]
        );
        assert_eq!(judge(80, 1), Some(0));
        assert_eq!(judge(5000, 10), Some(0), "another epoch");
        let old: Vec<_> = (0..9).map(|k| judge(10 * k, 10)).collect();
        assert_eq!(
            old,
            [None, None, None, None, None, None, None, Some(0), Some(0)]
        );
        assert_eq!(
            (counts.lost, counts.late, counts.duplicates, counts.restarts),
            (10, 2, 8, 2)
        );
        assert_eq!(order.epoch, 2);
        assert_eq!(order.judge(u64::MAX, 5, &mut counts), Some(0));
    }
}
