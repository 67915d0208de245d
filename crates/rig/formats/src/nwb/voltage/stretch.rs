//! Size of the windows in which a series is read.

use betz_base::error::{Error, Result};
use betz_base::memory;

/// Bytes that reading may hold.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// Samples that are kept, where chunks allow: as much is read at once.
    pub(super) window: usize,
    /// Samples that are kept where chunks are large.
    pub(super) most_window: usize,
    /// A chunk, or chunks that are open at once.
    pub(super) chunks: usize,
}

pub(super) const BUDGET: Budget = Budget {
    window: 16 << 20,
    most_window: 128 << 20,
    chunks: 128 << 20,
};

/// The windows that are read: windows of so many rows, so many channels at a time, so that chunks are opened once each where
/// they are small enough, and never more of them than there is room for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stretch {
    /// Rows of a window.
    pub(super) height: usize,
    /// Windows begin anew after so many rows.
    pub(super) period: usize,
    /// Channels that are read at once.
    pub(super) columns: usize,
    /// Samples of the chunks that are open at once.
    open: usize,
}

impl Stretch {
    pub(super) fn new(
        data: &str,
        rows: usize,
        channels: usize,
        chunk: Option<&[usize]>,
        budget: Budget,
    ) -> Result<Self> {
        let (tall, wide) = match chunk {
            Some([tall]) => (*tall, 1),
            Some([tall, wide]) => (*tall, *wide),
            _ => (1, channels),
        };
        let (tall, wide) = (tall.max(1), wide.max(1));
        let of_chunk = 2 * tall as u128 * wide as u128;
        if of_chunk > budget.chunks as u128 {
            return Err(Error::recording(format!(
                "{data}: expected chunks of at most {}, got {} ({tall} × {wide}); h5repack -l CHUNK=… writes smaller ones",
                memory::size(budget.chunks as u64),
                memory::size(of_chunk.min(u128::from(u64::MAX)) as u64)
            )));
        }
        let row = 2 * channels;
        // Rows of chunks that fit, one at least; of a row that does not fit, as much as does.
        let (height, period) = match (budget.window / row / tall).max(1) * tall {
            height if height * row <= budget.most_window || tall == 1 => (height, height),
            _ => ((budget.most_window / row).max(1), tall),
        };
        let height = height.min(rows);
        let tall_open = height.div_ceil(tall) * tall;
        let columns = ((budget.chunks / 2 / tall_open / wide).max(1) * wide).min(channels);
        Ok(Self {
            height,
            period,
            columns,
            open: match chunk {
                Some(_) => tall_open * columns.div_ceil(wide) * wide,
                None => 0,
            },
        })
    }

    /// The window of `row`.
    pub(super) fn around(&self, row: u64, rows: u64) -> (u64, u64) {
        let (height, period) = (self.height as u64, self.period as u64);
        let begin = row / period * period;
        let from = begin + (row - begin) / height * height;
        (from, (from + height).min(begin + period).min(rows))
    }

    /// Bytes that reading takes: the window, the channels of it that are read at once, and their chunks.
    pub(super) fn bytes(&self, channels: usize) -> u128 {
        let some = if self.columns < channels {
            self.height * self.columns
        } else {
            0
        };
        2 * (self.height * channels + some + self.open) as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_of_whole_chunks_that_fit() {
        let of = |rows, channels, chunk: Option<&[usize]>| {
            Stretch::new("x", rows, channels, chunk, BUDGET).unwrap()
        };
        // In one piece.
        let plain = of(1 << 30, 384, None);
        assert_eq!((plain.height, plain.columns), (21_845, 384));
        assert!(plain.bytes(384) <= 16 << 20);
        // The default of neuroconv.
        let common = of(1 << 30, 384, Some(&[81_920, 64]));
        assert_eq!((common.height, common.columns), (81_920, 384));
        // One chunk per channel.
        let tall = of(1 << 30, 384, Some(&[1 << 20, 1]));
        assert_eq!((tall.period, tall.columns), (1 << 20, 64));
        assert!(tall.height * 384 * 2 <= 128 << 20);
        for stretch in [plain, common, tall] {
            assert!(stretch.bytes(384) <= 384 << 20, "{stretch:?}");
            let (mut row, mut windows) = (0, 0);
            while row < 3_000_000 {
                let (from, until) = stretch.around(row, 3_000_000);
                assert!(from == row && until > row && until - from <= stretch.height as u64);
                (row, windows) = (until, windows + 1);
            }
            assert!(windows >= 3);
        }
    }
}
