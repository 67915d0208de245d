//! Windows that slide over the segments of a signal.

use betz_base::{Error, ErrorKind, Result};

use crate::signal::Signal;

/// A window of `length` samples that moves on by `step` samples. Window `k` of a segment that
/// starts at sample `t` holds samples `t + k·step .. t + k·step + length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Samples in a window, at least 2.
    pub length: usize,
    /// Samples from one window's start to the next one's, at least 1; may be larger than `length`.
    pub step: usize,
}

impl Window {
    /// A window of `length` samples that moves on by `step`.
    pub const fn new(length: usize, step: usize) -> Self {
        Self { length, step }
    }

    /// A window given in seconds, rounded to whole samples of `sample_seconds`.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when one of the three is no positive number
    /// or the window has fewer than 2 samples.
    pub fn seconds(length: f64, step: f64, sample_seconds: f64) -> Result<Self> {
        let samples = |what: &str, seconds: f64| {
            let samples = (seconds / sample_seconds).round();
            if !(seconds > 0.0 && sample_seconds > 0.0 && (1.0..1e15).contains(&samples)) {
                return Err(Error::argument(format!(
                    "{what} of a window: expected at least one sample of {sample_seconds} s, got {seconds} s"
                )));
            }
            Ok(samples as usize)
        };
        let window = Self {
            length: samples("length", length)?,
            step: samples("step", step)?,
        };
        window.check()?;
        Ok(window)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.length < 2 {
            return Err(Error::argument(format!(
                "length of a window: expected at least 2 samples, got {}",
                self.length
            )));
        }
        if self.step == 0 {
            return Err(Error::argument(
                "step of a window: expected at least 1 sample, got 0",
            ));
        }
        Ok(())
    }
}

/// Pairs whose smaller node is one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Rows {
    pub(crate) const ALL: Self = Self {
        from: 0,
        to: usize::MAX,
    };

    pub(crate) fn contains(self, node: u32) -> bool {
        (self.from..self.to).contains(&(node as usize))
    }
}

/// A run of windows within one segment that is worked on as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// First sample of the first window.
    pub(crate) start: usize,
    pub(crate) windows: usize,
    pub(crate) window: Window,
    /// Number of the first window in the whole network.
    pub(crate) first: usize,
    /// The pairs to compute; begins and ends with a tile.
    pub(crate) rows: Rows,
}

impl Chunk {
    /// Instants from the first window's start to the last one's end.
    pub(crate) fn samples(&self) -> usize {
        (self.windows - 1) * self.window.step + self.window.length
    }

    /// The same windows in runs of at most `limit`, of equal length or nearly.
    pub(crate) fn pieces(self, limit: usize) -> impl Iterator<Item = Self> {
        let count = self.windows.div_ceil(limit.max(1));
        (0..count).map(move |c| {
            // Runs of equal length: a short last one would pay a whole start-up for few windows.
            let (from, to) = (c * self.windows / count, (c + 1) * self.windows / count);
            Self {
                start: self.start_of(from),
                windows: to - from,
                window: self.window,
                first: self.first + from,
                rows: self.rows,
            }
        })
    }

    /// First sample of the chunk's window `q`.
    pub(crate) fn start_of(&self, q: usize) -> usize {
        self.start + q * self.window.step
    }
}

/// Positions of the windows of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowGrid {
    window: Window,
    /// (first sample, number of windows) of every segment that holds a window.
    runs: Vec<(usize, usize)>,
    trailing: usize,
}

impl WindowGrid {
    /// The windows of `signal`, segment by segment, none across a gap.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a window of fewer than 2 samples or a
    /// step of 0, [`InsufficientData`](ErrorKind::InsufficientData) when no segment holds a window.
    pub fn new(signal: &Signal<'_>, window: Window) -> Result<Self> {
        Self::with_margin(signal, window, 0)
    }

    /// Windows that have `margin` more samples on both sides within their segment (for lags).
    pub(crate) fn with_margin(signal: &Signal<'_>, window: Window, margin: usize) -> Result<Self> {
        Self::over(signal.segments(), window, margin)
    }

    pub(crate) fn over(
        segments: &[std::ops::Range<usize>],
        window: Window,
        margin: usize,
    ) -> Result<Self> {
        window.check()?;
        let mut runs = Vec::new();
        let mut trailing = 0;
        let needed = margin
            .checked_mul(2)
            .and_then(|m| m.checked_add(window.length))
            .unwrap_or(usize::MAX);
        let mut longest = 0;
        for segment in segments {
            let len = segment.len();
            longest = longest.max(len);
            if len < needed {
                trailing += len;
                continue;
            }
            let windows = (len - needed) / window.step + 1;
            runs.push((segment.start + margin, windows));
            trailing += len - needed - (windows - 1) * window.step;
        }
        if runs.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "windows: expected a segment of at least {needed} samples, the longest of {} has {longest}",
                    segments.len()
                ),
            ));
        }
        Ok(Self {
            window,
            runs,
            trailing,
        })
    }

    /// Length and step of the windows.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Number of windows.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|(_, windows)| windows).sum()
    }

    /// True when there is no window; a grid that was made has one.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Samples of the segments that lie in no window.
    pub fn trailing(&self) -> usize {
        self.trailing
    }

    /// First samples of all windows.
    pub fn starts(&self) -> impl Iterator<Item = usize> + '_ {
        let step = self.window.step;
        (self.runs.iter())
            .flat_map(move |&(start, windows)| (0..windows).map(move |k| start + k * step))
    }

    /// The windows in runs of at most `limit`, none across a gap.
    pub(crate) fn chunks(&self, limit: usize) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        let mut first = 0;
        for &(start, windows) in &self.runs {
            let run = Chunk {
                start,
                windows,
                window: self.window,
                first,
                rows: Rows::ALL,
            };
            chunks.extend(run.pieces(limit));
            first += windows;
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_within_segments_and_what_is_left_is_counted() {
        let samples = vec![0_u8; 100];
        let signal = Signal::new(&samples, 1)
            .unwrap()
            .with_segments(vec![0..10, 20..23, 30..57])
            .unwrap();
        let grid = WindowGrid::new(&signal, Window::new(4, 3)).unwrap();
        let starts: Vec<_> = grid.starts().collect();
        assert_eq!(starts, [0, 3, 6, 30, 33, 36, 39, 42, 45, 48, 51]);
        assert_eq!(grid.len(), 11);
        // Nothing of the first (6 + 4 = 10), all 3 of the second, 57 − 55 of the third.
        assert_eq!(grid.trailing(), 3 + 2);
        for limit in [1, 2, 3, 5, 100] {
            let chunks = grid.chunks(limit);
            let from_chunks: Vec<_> = (chunks.iter())
                .flat_map(|c| (0..c.windows).map(|q| c.start_of(q)))
                .collect();
            assert_eq!(from_chunks, starts, "limit {limit}");
            assert!(chunks.iter().all(|c| c.windows <= limit));
        }
    }

    #[test]
    fn windows_that_cannot_be_are_refused() {
        let samples = vec![0_u8; 10];
        let signal = Signal::new(&samples, 1).unwrap();
        for (length, step) in [(0, 1), (1, 1), (5, 0), (11, 1), (usize::MAX, usize::MAX)] {
            assert!(WindowGrid::new(&signal, Window { length, step }).is_err());
        }
        let grid = WindowGrid::new(&signal, Window::new(10, usize::MAX)).unwrap();
        assert_eq!(grid.starts().collect::<Vec<_>>(), [0]);
        assert!(Window::seconds(1.0, 0.5, 0.0).is_err());
        assert_eq!(
            Window::seconds(2.0, 0.05, 0.01).unwrap(),
            Window::new(200, 5)
        );
    }
}
