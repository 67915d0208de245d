//! Trials: parts of a recording that filter history never crosses.

use betz_base::error::{Error, Result};

/// A half-open interval `[start, stop)` in ticks (or steps).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// First tick inside.
    pub start: i64,
    /// First tick after.
    pub stop: i64,
}

impl Segment {
    /// Number of ticks inside.
    pub fn len(&self) -> usize {
        usize::try_from(self.stop - self.start).unwrap_or(0)
    }

    /// Shifts the segment by `ticks`.
    #[cfg(feature = "npz")]
    pub(crate) fn later(self, ticks: i64) -> Self {
        Self {
            start: self.start + ticks,
            stop: self.stop + ticks,
        }
    }

    /// True if the segment contains no tick.
    pub fn is_empty(&self) -> bool {
        self.stop <= self.start
    }
}

/// Checks that `segments` are non-empty, ascending, disjoint and inside `0..ticks`.
///
/// # Errors
/// [`ErrorKind::InvalidRecording`](betz_base::error::ErrorKind::InvalidRecording) with the first segment at fault.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use betz_recording::{Segment, check_segments};
///
/// let trials = [Segment { start: 0, stop: 10 }, Segment { start: 10, stop: 25 }];
/// check_segments(&trials, 25)?;
/// assert_eq!(trials[1].len(), 15);
/// assert!(check_segments(&trials, 24).is_err()); // the second ends beyond the recording
/// # Ok(())
/// # }
/// ```
pub fn check_segments(segments: &[Segment], ticks: i64) -> Result<()> {
    let mut previous = Segment { start: 0, stop: 0 };
    for (i, s) in segments.iter().enumerate() {
        if s.start < 0 || s.stop > ticks || s.start >= s.stop {
            return Err(Error::recording(format!(
                "segments[{i}] = [{}, {}): expected a non-empty stretch inside [0, {ticks})",
                s.start, s.stop
            ))
            .with_segment(i));
        }
        if s.start < previous.stop {
            return Err(Error::recording(format!(
                "segments[{i}] = [{}, {}) overlaps or precedes segments[{}] = [{}, {}): expected ascending, disjoint segments",
                s.start,
                s.stop,
                i - 1,
                previous.start,
                previous.stop
            ))
            .with_segment(i));
        }
        previous = *s;
    }
    Ok(())
}
