//! Frames of the last minute, for pages that connect late or lost frames; and the frames around missed deadlines.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use serde::Serialize;

/// Largest number of bytes of frames stored for the last minute.
const HISTORY_BYTES: usize = 256 << 20;
/// Largest number of bytes stored around missed deadlines.
const MISS_BYTES: usize = 64 << 20;
/// Largest number of misses listed per moment.
const MISSES_OF_A_MOMENT: usize = 1_000;
/// Largest length of a moment, as a multiple of the span stored around one miss.
const LONGEST_MOMENT: i64 = 10;

/// A frame and the ticks that it spans.
#[derive(Debug, Clone)]
pub(crate) struct SpannedFrame {
    pub(crate) ticks: Range<i64>,
    pub(crate) bytes: Bytes,
}

/// Frames of the most recent ticks.
#[derive(Debug)]
pub(crate) struct History {
    frames: VecDeque<SpannedFrame>,
    bytes: usize,
    keep_ticks: i64,
    keep_bytes: usize,
}

impl History {
    /// Creates a history that stores the frames of the last `keep_ticks`.
    pub(crate) fn new(keep_ticks: i64) -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            keep_ticks,
            keep_bytes: HISTORY_BYTES,
        }
    }

    /// Adds a frame and drops the oldest ones.
    pub(crate) fn push(&mut self, frame: SpannedFrame) {
        let end = frame.ticks.end;
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
        while self.frames.len() > 1
            && (self.bytes > self.keep_bytes
                || (self.frames.front()).is_some_and(|f| f.ticks.end + self.keep_ticks <= end))
        {
            if let Some(gone) = self.frames.pop_front() {
                self.bytes -= gone.bytes.len();
            }
        }
    }

    /// Number of bytes of the stored frames.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Frames that have ticks in common with `ticks`.
    pub(crate) fn range(&self, ticks: Range<i64>) -> impl Iterator<Item = &SpannedFrame> {
        (self.frames.iter()).filter(move |f| f.ticks.start < ticks.end && ticks.start < f.ticks.end)
    }

    /// Ticks from the oldest stored one to the end of the newest.
    pub(crate) fn span(&self) -> Option<Range<i64>> {
        let (first, last) = (self.frames.front()?, self.frames.back()?);
        Some(first.ticks.start..last.ticks.end)
    }
}

impl SpannedFrame {
    /// Bytes that it takes to store the frame.
    fn stored_bytes(&self) -> usize {
        self.bytes.len() + size_of::<Self>()
    }
}

/// A step that took longer than its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Miss {
    pub(crate) tick: i64,
    pub(crate) nanoseconds: u32,
}

/// Misses close together, or another moment of interest, and the frames around them.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) id: u64,
    pub(crate) misses: Vec<Miss>,
    /// Number of misses beyond those listed.
    pub(crate) more: u64,
    pub(crate) ticks: Range<i64>,
    pub(crate) frames: Vec<SpannedFrame>,
}

impl Moment {
    /// Bytes that it takes to store the moment.
    fn stored_bytes(&self) -> usize {
        self.frames
            .iter()
            .map(SpannedFrame::stored_bytes)
            .sum::<usize>()
            + self.misses.len() * size_of::<Miss>()
    }
}

/// Frames around missed deadlines.
#[derive(Debug)]
pub(crate) struct Moments {
    around: i64,
    kept: VecDeque<Moment>,
    /// Sum of the moments' stored bytes.
    bytes: usize,
    next: u64,
    /// Number of moments that were dropped to make room.
    pub(crate) gone: u64,
}

impl Moments {
    /// Stores `around` ticks on each side of a miss.
    pub(crate) fn new(around: i64) -> Self {
        Self {
            around,
            kept: VecDeque::new(),
            bytes: 0,
            next: 0,
            gone: 0,
        }
    }

    /// Adds a missed deadline; `history` has the frames before it.
    pub(crate) fn miss(&mut self, miss: Miss, history: &History) {
        self.open_at(miss.tick, history);
        if let Some(open) = self.kept.back_mut() {
            if open.misses.len() < MISSES_OF_A_MOMENT {
                self.bytes += size_of::<Miss>();
                open.misses.push(miss);
            } else {
                open.more += 1;
            }
        }
        self.shrink();
    }

    /// Stores the frames around a tick at which something else happened.
    pub(crate) fn keep(&mut self, tick: i64, history: &History) {
        self.open_at(tick, history);
        self.shrink();
    }

    /// Makes the newest moment one that reaches around `tick`.
    fn open_at(&mut self, tick: i64, history: &History) {
        let span = tick.saturating_sub(self.around)..tick.saturating_add(self.around + 1);
        if let Some(open) = self.kept.back_mut()
            && open.ticks.start <= span.start
            && span.start < open.ticks.end
            && span.end - open.ticks.start <= LONGEST_MOMENT * self.around
        {
            open.ticks.end = span.end.max(open.ticks.end);
            // If the last moment had already ended, take the frames in between from the history.
            let held = open.frames.last().map_or(i64::MIN, |f| f.ticks.end);
            for frame in history.range(span).filter(|f| f.ticks.start >= held) {
                self.bytes += frame.stored_bytes();
                open.frames.push(frame.clone());
            }
            return;
        }
        let moment = Moment {
            id: self.next,
            misses: Vec::new(),
            more: 0,
            frames: history.range(span.clone()).cloned().collect(),
            ticks: span,
        };
        self.bytes += moment.stored_bytes();
        self.kept.push_back(moment);
        self.next += 1;
    }

    /// Adds a frame to the moment that is still open, if it lies in it.
    pub(crate) fn push(&mut self, frame: &SpannedFrame) {
        if let Some(open) = self.kept.back_mut()
            && frame.ticks.start < open.ticks.end
            && open.ticks.start < frame.ticks.end
        {
            self.bytes += frame.stored_bytes();
            open.frames.push(frame.clone());
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        while self.bytes > MISS_BYTES && self.kept.len() > 1 {
            if let Some(gone) = self.kept.pop_front() {
                self.bytes -= gone.stored_bytes();
                self.gone += 1;
            }
        }
    }

    /// Number of stored bytes. The history shares the frames of the last minute; they are stored once.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Moment> {
        self.kept.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(start: i64, end: i64) -> SpannedFrame {
        let bytes = Bytes::from(vec![0; 10]);
        SpannedFrame {
            ticks: start..end,
            bytes,
        }
    }

    #[test]
    fn the_last_ticks_are_kept_and_no_more() {
        let mut history = History::new(100);
        for i in 0..50 {
            history.push(frame(i * 10, i * 10 + 10));
        }
        assert_eq!(history.span(), Some(400..500));
        assert_eq!(history.bytes, 100);
        let starts = |r| history.range(r).map(|f| f.ticks.start).collect::<Vec<_>>();
        assert_eq!(starts(405..421), [400, 410, 420]);
        assert_eq!(starts(0..400), Vec::<i64>::new());
    }

    #[test]
    fn history_is_bounded_in_bytes() {
        let mut history = History::new(1_000_000);
        history.keep_bytes = 45;
        for i in 0..50 {
            history.push(frame(i * 10, i * 10 + 10));
        }
        assert_eq!(history.span(), Some(460..500));
    }

    #[test]
    fn a_miss_keeps_what_lay_on_both_sides() {
        let (mut history, mut moments) = (History::new(1000), Moments::new(20));
        for i in 0..20 {
            let f = frame(i * 10, i * 10 + 10);
            history.push(f.clone());
            moments.push(&f);
            if i == 10 {
                for tick in [103, 104] {
                    moments.miss(
                        Miss {
                            tick,
                            nanoseconds: 7,
                        },
                        &history,
                    );
                }
            }
        }
        let all: Vec<&Moment> = moments.iter().collect();
        assert_eq!(all.len(), 1);
        assert_eq!(
            all[0].misses.iter().map(|m| m.tick).collect::<Vec<_>>(),
            [103, 104]
        );
        let starts: Vec<i64> = all[0].frames.iter().map(|f| f.ticks.start).collect();
        assert_eq!(starts, [80, 90, 100, 110, 120]);
    }

    #[test]
    fn a_miss_soon_after_another_has_what_lay_between_the_two() {
        // The first moment ends at 124. The second miss is at 135, so its twenty ticks before begin at 115.
        let (mut history, mut moments) = (History::new(1000), Moments::new(20));
        for i in 0..20 {
            let f = frame(i * 10, i * 10 + 10);
            history.push(f.clone());
            moments.push(&f);
            if let Some(tick) = [(10, 103), (13, 135)].iter().find(|m| m.0 == i) {
                let (tick, nanoseconds) = (tick.1, 7);
                moments.miss(Miss { tick, nanoseconds }, &history);
            }
        }
        let all: Vec<&Moment> = moments.iter().collect();
        assert_eq!((all.len(), all[0].ticks.clone()), (1, 83..156));
        let starts: Vec<i64> = all[0].frames.iter().map(|f| f.ticks.start).collect();
        assert_eq!(starts, [80, 90, 100, 110, 120, 130, 140, 150]);
    }

    #[test]
    fn misses_without_end_are_listed_up_to_a_bound_and_counted_beyond() {
        let history = History::new(1000);
        let mut moments = Moments::new(1_000);
        for tick in 0..5_000 {
            moments.miss(
                Miss {
                    tick,
                    nanoseconds: 7,
                },
                &history,
            );
        }
        let listed: usize = moments.iter().map(|m| m.misses.len()).sum();
        let more: u64 = moments.iter().map(|m| m.more).sum();
        assert_eq!((moments.kept.len(), listed as u64 + more), (1, 5_000));
        assert_eq!(listed, MISSES_OF_A_MOMENT);
    }
}
