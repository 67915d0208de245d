//! Classifies a device's numbered rows, and puts those of datagrams in order.

use std::collections::VecDeque;
use std::time::Duration;

use super::{LONGEST_SECONDS, Sequence, Verdict};
use crate::rig::{Block, Loss, RigCounts};

/// Largest distance back of a late or repeated block, as a share of the largest gap that is a loss: a quarter of a second
/// of ten.
const NEAR: u64 = 40;
/// Most blocks that wait for one that was overtaken.
const MOST_WAITING: usize = 1024;
/// Time for which blocks wait for one that they have overtaken, unless another is set.
pub(crate) const PATIENCE: Duration = Duration::from_millis(5);

/// Largest gap that is a loss, of so many rows per second.
fn farthest_at(rate: f64) -> u64 {
    (LONGEST_SECONDS * rate) as u64
}

/// Checks the numbers of rows that a connection delivers: in order, and each once.
#[derive(Debug, Clone)]
pub(crate) struct RowOrder {
    sequence: Sequence,
    pub(crate) epoch: u32,
}

impl RowOrder {
    /// Gaps of up to `farthest` rows are losses; a larger one means that the device was restarted.
    pub(crate) fn new(farthest: u64) -> Self {
        Self {
            sequence: Sequence::new(farthest, farthest / NEAR).ordered(),
            epoch: 0,
        }
    }

    /// An order of rows of which the rate is known.
    pub(crate) fn at_rate(rate: f64) -> Self {
        Self::new(farthest_at(rate))
    }

    /// Sets the rows per second, so that gaps of up to [`LONGEST_SECONDS`] are losses.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        let farthest = farthest_at(rate);
        self.sequence.set_reach(farthest, farthest / NEAR);
    }

    /// Returns the number of rows that are missing before the block, or `None` if the block is to be left out;
    /// updates the counts.
    pub(crate) fn judge(&mut self, first: u64, rows: u64, counts: &mut RigCounts) -> Option<u64> {
        match self.sequence.judge(first, rows) {
            Verdict::Next(gap) => {
                counts.lost += gap;
                Some(gap)
            }
            Verdict::Anew => {
                self.epoch += 1;
                counts.restarts += 1;
                Some(0)
            }
            Verdict::Late => {
                counts.late += 1;
                None
            }
            Verdict::Doubtful => {
                counts.duplicates += 1;
                None
            }
        }
    }

    /// Begins another epoch, whose first number is that of the next block.
    pub(crate) fn restart(&mut self, counts: &mut RigCounts) {
        self.sequence.restart();
        self.epoch += 1;
        counts.restarts += 1;
    }
}

/// Puts the blocks of datagrams in order. A block that has overtaken others waits for them; those that come later still
/// are given as they are.
#[derive(Debug)]
pub(crate) struct Reorder {
    sequence: Sequence,
    /// The numbers of the epoch before.
    before: Option<Sequence>,
    epoch: u32,
    patience_ns: i64,
    /// Blocks behind a gap, in the order of their numbers.
    waiting: VecDeque<Block>,
    /// Doubtful blocks in a row.
    held: Vec<Block>,
    ready: VecDeque<Block>,
    /// Blocks whose room is used again.
    spare: Vec<Block>,
    /// Arrival of the newest block that was given.
    given_ns: i64,
}

impl Reorder {
    /// As [`RowOrder::new`].
    pub(crate) fn new(farthest: u64) -> Self {
        Self {
            sequence: Sequence::new(farthest, farthest / NEAR),
            before: None,
            epoch: 0,
            patience_ns: PATIENCE.as_nanos() as i64,
            waiting: VecDeque::new(),
            held: Vec::new(),
            ready: VecDeque::new(),
            spare: Vec::new(),
            given_ns: i64::MIN,
        }
    }

    /// An order of rows of which the rate is known.
    pub(crate) fn at_rate(rate: f64) -> Self {
        Self::new(farthest_at(rate))
    }

    /// Sets the rows per second, so that gaps of up to [`LONGEST_SECONDS`] are losses.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        let farthest = farthest_at(rate);
        self.sequence.set_reach(farthest, farthest / NEAR);
    }

    /// Sets the time for which blocks wait.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience_ns = i64::try_from(patience.as_nanos()).unwrap_or(i64::MAX);
    }

    /// The epoch of blocks that are put next.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Takes a block, and leaves another whose room is to be used again. The last rows of an epoch may be put after
    /// [`Reorder::restart`].
    pub(crate) fn put(&mut self, block: &mut Block, counts: &mut RigCounts) {
        let mut block = std::mem::replace(block, self.spare.pop().unwrap_or_default());
        if block.epoch != self.epoch {
            let gap = (self.before.take()).and_then(|before| before.gap_before(block.first));
            block.lost_before.count = gap.unwrap_or(0);
            counts.lost += block.lost_before.count;
            self.ready.push_back(block);
            return;
        }
        let may_wait = self.patience_ns > 0 && self.waiting.len() < MOST_WAITING;
        if may_wait
            && self
                .sequence
                .gap_before(block.first)
                .is_some_and(|gap| gap > 0)
        {
            let at = self
                .waiting
                .partition_point(|other| other.first < block.first);
            match self.waiting.get(at) {
                Some(other) if other.first == block.first => {
                    counts.duplicates += 1;
                    self.spare.push(block);
                }
                _ => self.waiting.insert(at, block),
            }
            return;
        }
        self.judge(block, counts);
        self.release(counts);
    }

    /// Gives the next block at the time that `now` tells; false if there is none.
    pub(crate) fn give(
        &mut self,
        block: &mut Block,
        now: impl Fn() -> i64,
        counts: &mut RigCounts,
    ) -> bool {
        if self.ready.is_empty() && self.due_ns().is_some_and(|due| due <= now()) {
            if let Some(first) = self.waiting.pop_front() {
                self.judge(first, counts);
            }
            self.release(counts);
        }
        let Some(next) = self.ready.pop_front() else {
            return false;
        };
        self.spare.push(std::mem::replace(block, next));
        // A block is there when those before it are.
        self.given_ns = self.given_ns.max(block.host_ns);
        block.host_ns = self.given_ns;
        counts.blocks += 1;
        counts.rows += block.rows as u64;
        true
    }

    /// Time until a block that waits has waited long enough, at most `patience`.
    pub(crate) fn wait(&self, patience: Duration, now: impl Fn() -> i64) -> Duration {
        match self.due_ns() {
            Some(due) => {
                let left = due.saturating_sub(now()).max(0) as u64;
                patience.min(Duration::from_nanos(left))
            }
            None => patience,
        }
    }

    /// Begins another epoch, whose first number is that of the next block.
    pub(crate) fn restart(&mut self, counts: &mut RigCounts) {
        while let Some(block) = self.waiting.pop_front() {
            self.judge(block, counts);
        }
        self.spare.append(&mut self.held);
        self.before = Some(self.sequence.clone());
        self.sequence.restart();
        self.epoch += 1;
        counts.restarts += 1;
    }

    fn due_ns(&self) -> Option<i64> {
        let arrivals = self.waiting.iter().map(|block| block.host_ns);
        Some(arrivals.min()?.saturating_add(self.patience_ns))
    }

    /// Gives the blocks that waited for nothing but the ones before.
    fn release(&mut self, counts: &mut RigCounts) {
        let follows = |sequence: &Sequence, block: &Block| {
            sequence.gap_before(block.first).is_none_or(|gap| gap == 0)
        };
        while let Some(block) = self.waiting.pop_front() {
            if !follows(&self.sequence, &block) {
                self.waiting.push_front(block);
                return;
            }
            self.judge(block, counts);
        }
    }

    fn judge(&mut self, mut block: Block, counts: &mut RigCounts) {
        let rows = block.rows as u64;
        let verdict = self.sequence.judge(block.first, rows);
        let mut lost = 0;
        match verdict {
            Verdict::Next(gap) => {
                lost = gap;
                counts.lost += gap;
                self.spare.append(&mut self.held);
            }
            Verdict::Late => {
                counts.late += 1;
                counts.lost = counts.lost.saturating_sub(rows);
            }
            Verdict::Doubtful => {
                if self
                    .held
                    .last()
                    .is_some_and(|held| held.first + held.rows as u64 != block.first)
                {
                    self.spare.append(&mut self.held);
                }
                counts.duplicates += 1;
                self.held.push(block);
                return;
            }
            Verdict::Anew => {
                // Blocks that wait are of the epoch before, and wait for nothing more.
                self.ready
                    .extend(self.waiting.drain(..).map(|waited| Block {
                        epoch: self.epoch,
                        ..waited
                    }));
                self.epoch += 1;
                counts.restarts += 1;
                counts.duplicates = counts.duplicates.saturating_sub(self.held.len() as u64);
                let epoch = self.epoch;
                self.ready
                    .extend(self.held.drain(..).map(|held| Block { epoch, ..held }));
            }
        }
        block.epoch = self.epoch;
        block.lost_before = Loss {
            count: lost,
            at_least: false,
        };
        self.ready.push_back(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Samples;

    /// Puts blocks of 10 rows, one per millisecond, and tells epoch, first row, loss and arrival of those that are given.
    fn put(firsts: &[u64], patience_ms: u64) -> (Vec<(u32, u64, u64, i64)>, RigCounts) {
        let (mut order, mut counts) = (Reorder::new(10_000), RigCounts::default());
        order.set_patience(Duration::from_millis(patience_ms));
        let (mut given, mut block) = (Vec::new(), Block::new());
        for (at, first) in firsts.iter().enumerate() {
            let now = at as i64 * 1_000_000;
            block = Block {
                first: *first,
                rows: 10,
                host_ns: now,
                samples: Samples::Voltage(vec![*first as i16; 10]),
                ..block
            };
            order.put(&mut block, &mut counts);
            while order.give(&mut block, || now, &mut counts) {
                assert_eq!(
                    block.samples,
                    Samples::Voltage(vec![block.first as i16; 10])
                );
                given.push((
                    block.epoch,
                    block.first,
                    block.lost_before.count,
                    block.host_ns / 1_000_000,
                ));
            }
        }
        (given, counts)
    }

    fn firsts(given: &[(u32, u64, u64, i64)]) -> Vec<u64> {
        given.iter().map(|block| block.1).collect()
    }

    #[test]
    fn blocks_that_were_overtaken_are_put_in_order() {
        let (given, counts) = put(&[0, 10, 30, 20, 40, 70, 60, 50, 80], 5);
        assert_eq!(firsts(&given), [0, 10, 20, 30, 40, 50, 60, 70, 80]);
        assert_eq!(given[3].3, 3, "it was there when the one before it came");
        assert_eq!((counts.lost, counts.late, counts.duplicates), (0, 0, 0));
        assert_eq!((counts.blocks, counts.rows), (9, 90));
    }

    #[test]
    fn a_block_that_comes_too_late_is_given_and_counted() {
        // 20 comes 3 ms after 30, which waits for 2.
        let (given, counts) = put(&[0, 10, 30, 40, 50, 20, 60], 2);
        assert_eq!(firsts(&given), [0, 10, 30, 40, 50, 20, 60]);
        let lost: Vec<u64> = given.iter().map(|block| block.2).collect();
        assert_eq!(lost, [0, 0, 10, 0, 0, 0, 0]);
        assert_eq!((counts.lost, counts.late), (0, 1));
        // Without patience nothing waits.
        let (given, counts) = put(&[0, 20, 10, 10], 0);
        assert_eq!(firsts(&given), [0, 20, 10]);
        assert_eq!((counts.lost, counts.late, counts.duplicates), (0, 1, 1));
    }

    #[test]
    fn a_device_that_counts_anew_loses_nothing() {
        let (given, counts) = put(&[5000, 5010, 5030, 0, 10, 20], 5);
        let told: Vec<(u32, u64)> = given.iter().map(|block| (block.0, block.1)).collect();
        let expected = [(0, 5000), (0, 5010), (0, 5030), (1, 0), (1, 10), (1, 20)];
        assert_eq!(told, expected);
        assert_eq!(
            (counts.restarts, counts.duplicates, counts.rows),
            (1, 0, 60)
        );
        // Also one that had hardly begun.
        let near: Vec<u64> = [190, 200]
            .into_iter()
            .chain((0..9).map(|k| 10 * k))
            .collect();
        let (given, counts) = put(&near, 5);
        assert_eq!(firsts(&given), near);
        assert_eq!(
            (counts.restarts, counts.duplicates, counts.rows),
            (1, 0, 110)
        );
    }

    #[test]
    fn strays_and_repeated_blocks_change_nothing() {
        let (given, counts) = put(&[5000, 5010, 5010, 900_000, 5020, 7, 5030], 5);
        assert_eq!(firsts(&given), [5000, 5010, 5020, 5030]);
        assert_eq!((counts.restarts, counts.duplicates, counts.lost), (0, 3, 0));
    }
}
