//! The device's clock over the rows of a file: rows that are sorted, and the gaps between them.

use std::ops::Range;

use betz::recording::Segment;

use super::input::Info;

/// Milliseconds before and after a gap whose spikes are left out: the filter sees a step there.
const BEFORE_GAP_MS: f64 = 1.0;
const AFTER_GAP_MS: f64 = 5.0;

/// The device's clock over the rows that are sorted.
pub(super) struct RowClock<'a> {
    info: &'a Info,
    first: u64,
    /// Rows without a gap inside.
    pub(super) pieces: Vec<Range<u64>>,
    /// Length in samples, with gaps.
    pub(super) ticks: i64,
}

impl<'a> RowClock<'a> {
    pub(super) fn new(info: &'a Info, rows: Range<u64>) -> Self {
        let stream = &info.stream;
        Self {
            info,
            first: rows.start,
            ticks: (stream.clock(rows.end - 1) + 1 - stream.clock(rows.start)) as i64,
            pieces: stream.pieces(rows),
        }
    }

    /// Tick of the recording at the `offset`-th row that is sorted.
    pub(super) fn tick(&self, offset: i64) -> i64 {
        let stream = &self.info.stream;
        (stream.clock(self.first + offset.max(0) as u64) - stream.clock(self.first)) as i64
    }

    pub(super) fn segments(&self) -> Vec<Segment> {
        let segment = |piece: &Range<u64>| Segment {
            start: self.tick((piece.start - self.first) as i64),
            stop: self.tick((piece.end - 1 - self.first) as i64) + 1,
        };
        self.pieces.iter().map(segment).collect()
    }

    /// False for each of the ascending offsets `ticks` that lies beside a gap.
    pub(super) fn away_from_gaps(&self, ticks: &[i64]) -> Vec<bool> {
        let samples = |ms: f64| (ms * 1e-3 * self.info.rate_hz).round() as i64;
        let (before, after) = (samples(BEFORE_GAP_MS), samples(AFTER_GAP_MS));
        let seams = self.pieces.iter().skip(1);
        let seams: Vec<i64> = seams
            .map(|piece| (piece.start - self.first) as i64)
            .collect();
        let near = |tick: &i64| {
            let next = seams.partition_point(|seam| seam - before <= *tick);
            next > 0 && *tick < seams[next - 1] + after
        };
        ticks.iter().map(|tick| !near(tick)).collect()
    }
}
