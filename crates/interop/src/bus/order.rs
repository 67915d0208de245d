//! Classifies a sender's numbered steps as new, lost, late or duplicated.

use super::{Frame, Tally};

/// Number of past steps that are remembered one by one.
const REMEMBERED: u64 = 64;
/// Largest gap that counts as a loss; a larger one means another sender.
const FARTHEST: u64 = 1 << 20;
/// Number of consecutive old steps, in order, after which the sender counts as restarted.
const ANEW: u64 = 8;

/// Checks a sender's step numbers.
///
/// The steps of a gap are lost. A step that later fills a gap is late and no longer lost, but it is not decoded. A step
/// that has already arrived is duplicated. A sender that counts from another number is accepted after eight steps in a
/// row, or at once if its number is more than 2²⁰ ahead.
///
/// ```
/// use betz_interop::bus::{Frame, Order, Tally};
///
/// let (mut order, tally, mut frame) = (Order::default(), Tally::default(), Frame::new(1));
/// let taken: Vec<bool> = [7, 8, 10, 9, 10].map(|n| order.judge(n, &mut frame, &tally)).to_vec();
/// assert_eq!(taken, [true, true, true, false, false]);
/// let counts = tally.counts();
/// assert_eq!((counts.lost, counts.late, counts.duplicated), (0, 1, 1));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// Number of the next expected step; none before the first.
    next: Option<u64>,
    /// Bit k is set if step `next − 1 − k` has arrived.
    came: u64,
    /// The last old step, and the number of old steps in a row.
    old: Option<(u64, u64)>,
}

impl Order {
    /// Returns true if step `sequence` is to be decoded; sets `frame`'s number, gap and restart, and updates the
    /// counts.
    pub fn judge(&mut self, sequence: u64, frame: &mut Frame, tally: &Tally) -> bool {
        frame.sequence = sequence;
        let Some(next) = self.next else {
            self.begin(sequence);
            return true;
        };
        if sequence >= next {
            let gap = sequence - next;
            self.old = None;
            if gap > FARTHEST {
                return self.anew(sequence, frame, tally);
            }
            frame.skipped = gap;
            tally.lost.add(gap);
            self.came = self.came.checked_shl((gap + 1).min(64) as u32).unwrap_or(0) | 1;
            self.next = Some(sequence.wrapping_add(1));
            return true;
        }
        let back = next - 1 - sequence;
        let run = match self.old {
            Some((before, run)) if before.wrapping_add(1) == sequence => run + 1,
            _ => 1,
        };
        self.old = Some((sequence, run));
        if run >= ANEW {
            return self.anew(sequence, frame, tally);
        }
        if back < REMEMBERED && self.came & (1 << back) != 0 {
            tally.duplicated.add(1);
            return false;
        }
        tally.late.add(1);
        if back < REMEMBERED {
            self.came |= 1 << back;
            // Before the first step nothing was missed.
            if tally.lost.get() > 0 {
                tally.lost.take_back();
            }
        }
        false
    }

    fn anew(&mut self, sequence: u64, frame: &mut Frame, tally: &Tally) -> bool {
        frame.restart = true;
        tally.restarts.add(1);
        self.begin(sequence);
        true
    }

    fn begin(&mut self, sequence: u64) {
        *self = Self {
            next: Some(sequence.wrapping_add(1)),
            came: 1,
            old: None,
        };
    }
}
