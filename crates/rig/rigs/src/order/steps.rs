//! Classifies a sender's numbered steps as new, lost, late or duplicated.

use super::{Sequence, Verdict};
use crate::bus::{Frame, Tally};

/// Largest distance back of a late or duplicated step.
const REMEMBERED: u64 = 64;
/// Largest gap that counts as a loss; a larger one means another sender.
const FARTHEST: u64 = 1 << 20;

/// Checks a sender's step numbers.
///
/// The steps of a gap are lost. A step that later fills a gap is late and no longer lost, but it is not decoded. A step
/// that has already arrived is duplicated. A number that is more than 64 steps back or 2²⁰ ahead is left out as late,
/// unless the next one follows it: then the sender counts anew. Nearer steps must be eight in a row for that.
///
/// ```
/// use betz_rigs::bus::{Frame, Order, Tally};
///
/// let (mut order, tally, mut frame) = (Order::default(), Tally::default(), Frame::new(1));
/// let taken: Vec<bool> = [7, 8, 10, 9, 10].map(|n| order.judge(n, &mut frame, &tally)).to_vec();
/// assert_eq!(taken, [true, true, true, false, false]);
/// let counts = tally.counts();
/// assert_eq!((counts.lost, counts.late, counts.duplicated), (0, 1, 1));
/// ```
#[derive(Debug, Clone)]
pub struct Order {
    sequence: Sequence,
    /// The newest number.
    newest: u64,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            sequence: Sequence::new(FARTHEST, REMEMBERED),
            newest: 0,
        }
    }
}

impl Order {
    /// Returns true if step `sequence` is to be decoded; sets `frame`'s number, gap and restart, and updates the
    /// counts.
    pub fn judge(&mut self, sequence: u64, frame: &mut Frame, tally: &Tally) -> bool {
        frame.sequence = sequence;
        match self.sequence.judge(sequence, 1) {
            Verdict::Next(gap) => {
                frame.skipped = gap;
                tally.lost.add(gap);
            }
            Verdict::Anew => {
                frame.restart = true;
                tally.restarts.add(1);
            }
            Verdict::Late => {
                tally.late.add(1);
                tally.lost.take_back();
                return false;
            }
            Verdict::Doubtful => {
                let is_near = self.newest.saturating_sub(sequence) < REMEMBERED;
                match is_near && sequence <= self.newest {
                    true => tally.duplicated.add(1),
                    false => tally.late.add(1),
                }
                return false;
            }
        }
        self.newest = sequence;
        true
    }
}
