//! One rule of loss: which numbered rows or steps are next, lost, late or repeated, and when a sender or its clock begins anew.
//!
//! `Sequence` judges numbers. `Order` counts its verdicts for steps, `rows` for the rows of a device, and puts those of
//! datagrams in order. `JumpRule` judges times.

mod jump;
#[cfg(feature = "rig")]
pub(crate) mod rows;
mod steps;

use std::collections::VecDeque;

pub(crate) use jump::{JumpRule, TimeVerdict};
pub use steps::Order;

/// Longest gap that is a loss, in seconds. A longer one is the clock of another sender, or one that was set.
pub(crate) const LONGEST_SECONDS: f64 = 10.0;
/// Number of past gaps that are remembered.
const REMEMBERED: usize = 64;
/// Doubtful blocks in a row, each where the one before ended, that show a sender which counts anew: near the newest
/// number, where a network may repeat some, and far from it.
const ANEW_NEAR: u32 = 8;
const ANEW_FAR: u32 = 2;

/// Place of a block among those that came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The block follows the newest one, after a gap of so many.
    Next(u64),
    /// It fills a gap.
    Late,
    /// It came before, or its number is far from the newest one. The next block tells: hold it, or leave it out.
    Doubtful,
    /// The sender counts anew, since the first of the doubtful blocks in a row.
    Anew,
}

/// Judges the numbers of a sender's blocks.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// The next expected number; none before the first block.
    next: Option<u64>,
    /// Largest gap that is a loss.
    farthest: u64,
    /// Largest distance back at which a network still repeats or delays blocks.
    near: u64,
    /// True if blocks come in order and once: a number that goes back is then believed at once.
    is_ordered: bool,
    /// Gaps, as the first number and the one after the last.
    gaps: VecDeque<(u64, u64)>,
    /// End of the last doubtful block, and the number of those in a row.
    doubtful: Option<(u64, u32)>,
}

impl Sequence {
    /// A sequence in which gaps up to `farthest` are losses, and blocks up to `near` back late or repeated ones.
    pub(crate) fn new(farthest: u64, near: u64) -> Self {
        Self {
            next: None,
            farthest,
            near,
            is_ordered: false,
            gaps: VecDeque::with_capacity(REMEMBERED + 1),
            doubtful: None,
        }
    }

    /// Sets the largest gap that is a loss, and the largest distance of late blocks.
    pub(crate) fn set_reach(&mut self, farthest: u64, near: u64) {
        (self.farthest, self.near) = (farthest, near);
    }

    /// As a connection delivers them: in order, and each once.
    pub(crate) fn ordered(mut self) -> Self {
        self.is_ordered = true;
        self
    }

    /// Numbers between the newest block and `first`, if that many would be a loss.
    pub(crate) fn gap_before(&self, first: u64) -> Option<u64> {
        let gap = first.checked_sub(self.next?)?;
        (gap <= self.farthest).then_some(gap)
    }

    /// Judges a block of `rows` numbers.
    pub(crate) fn judge(&mut self, first: u64, rows: u64) -> Verdict {
        let end = first.saturating_add(rows);
        let Some(next) = self.next else {
            self.next = Some(end);
            return Verdict::Next(0);
        };
        if let Some(gap) = self.gap_before(first) {
            self.doubtful = None;
            if gap > 0 {
                self.remember((next, first));
            }
            self.next = Some(end);
            return Verdict::Next(gap);
        }
        let is_far = first >= next || next - first > self.near;
        if !is_far && end > next {
            // A part of it is new.
            self.doubtful = None;
            self.next = Some(end);
            return Verdict::Next(0);
        }
        if !is_far && self.fill(first, end) {
            return Verdict::Late;
        }
        let run = match self.doubtful {
            Some((before, run)) if before == first => run + 1,
            _ => 1,
        };
        self.doubtful = Some((end, run));
        let needed = match is_far {
            _ if self.is_ordered => 1,
            true => ANEW_FAR,
            false => ANEW_NEAR,
        };
        if run < needed {
            return Verdict::Doubtful;
        }
        self.restart();
        self.next = Some(end);
        Verdict::Anew
    }

    /// Begins again with the number of the next block.
    pub(crate) fn restart(&mut self) {
        self.next = None;
        self.gaps.clear();
        self.doubtful = None;
    }

    fn remember(&mut self, gap: (u64, u64)) {
        if self.gaps.len() >= REMEMBERED {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
    }

    /// Takes numbers out of the gap that has them all; false if none has.
    fn fill(&mut self, first: u64, end: u64) -> bool {
        let Some(at) = (self.gaps.iter()).position(|gap| gap.0 <= first && end <= gap.1) else {
            return false;
        };
        let Some(gap) = self.gaps.remove(at) else {
            return false;
        };
        for part in [(gap.0, first), (end, gap.1)] {
            if part.0 < part.1 {
                self.remember(part);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Anew, Doubtful, Late, Next};
    use super::*;

    #[test]
    fn blocks_are_next_late_or_doubtful_until_the_next_one_tells() {
        let mut sequence = Sequence::new(1000, 500);
        let mut judge = |firsts: &[u64]| -> Vec<Verdict> {
            (firsts.iter())
                .map(|first| sequence.judge(*first, 10))
                .collect()
        };
        assert_eq!(judge(&[50, 60, 90]), [Next(0), Next(0), Next(20)]);
        // The gap is filled in two parts; what comes again is repeated.
        assert_eq!(judge(&[80, 70, 80, 50]), [Late, Late, Doubtful, Doubtful]);
        assert_eq!(judge(&[95, 105]), [Next(0), Next(0)], "in part new");
        // One stray, ahead or back, changes nothing; a second behind it is believed.
        assert_eq!(
            judge(&[9000, 115, 9000, 125]),
            [Doubtful, Next(0), Doubtful, Next(0)]
        );
        assert_eq!(judge(&[9000, 9010, 9020]), [Doubtful, Anew, Next(0)]);
        assert_eq!(judge(&[0, 10, 20]), [Doubtful, Anew, Next(0)]);
        // Near the newest number a network may repeat several.
        let mut sequence = Sequence::new(1000, 500);
        sequence.judge(200, 10);
        let mut judge = |firsts: &[u64]| -> Vec<Verdict> {
            (firsts.iter())
                .map(|first| sequence.judge(*first, 10))
                .collect()
        };
        let near: Vec<u64> = (0..9).map(|k| 10 * k).collect();
        let mut expected = vec![Doubtful; 7];
        expected.extend([Anew, Next(0)]);
        assert_eq!(judge(&near), expected);
    }

    #[test]
    fn a_connection_repeats_nothing() {
        let mut sequence = Sequence::new(1000, 500).ordered();
        let verdicts = [50, 60, 0, 10].map(|first| sequence.judge(first, 10));
        assert_eq!(verdicts, [Next(0), Next(0), Anew, Next(0)]);
        assert_eq!(sequence.judge(u64::MAX, 5), Anew);
    }
}
