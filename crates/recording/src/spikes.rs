//! Spikes as two parallel lists in time order.

use super::check::{MAX_SPIKES, too_many_spikes};
use betz_base::error::{Error, Result};

/// Spikes in ascending tick order: `ticks[i]` is when, `channels[i]` is where.
///
/// Two spikes of one channel in one tick are two entries, so binned counts and spike times are one
/// form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spikes {
    /// Ticks from the start, ascending.
    pub ticks: Vec<i64>,
    /// Channel of each spike.
    pub channels: Vec<u32>,
}

impl Spikes {
    /// The spikes of binned counts, (bins, channels) row-major, bin after bin. Takes 12 bytes a spike,
    /// no more.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) for more than 2³⁰ spikes,
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory) when the system has no memory for
    /// them; nothing is allocated then.
    ///
    /// ```
    /// # fn main() -> betz_base::Result<()> {
    /// // Two bins of three channels.
    /// let spikes = betz_recording::Spikes::from_counts(&[0, 2, 0, 1, 0, 0], 3)?;
    /// assert_eq!(spikes.ticks, [0, 0, 1]);
    /// assert_eq!(spikes.channels, [1, 1, 0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_counts(counts: &[u16], channels: usize) -> Result<Self> {
        let mut total = 0;
        for (i, &count) in counts.iter().enumerate() {
            total += usize::from(count);
            if total > MAX_SPIKES {
                return Err(too_many_spikes(i / channels, i % channels));
            }
        }
        let mut spikes = Self::default();
        spikes
            .ticks
            .try_reserve_exact(total)
            .and_then(|()| spikes.channels.try_reserve_exact(total))
            .map_err(|_| Error::no_memory(format_args!("{total} spikes"), total * 12))?;
        for (tick, row) in counts.chunks(channels.max(1)).enumerate() {
            for (channel, &count) in row.iter().enumerate() {
                for _ in 0..count {
                    spikes.ticks.push(tick as i64);
                    spikes.channels.push(channel as u32);
                }
            }
        }
        Ok(spikes)
    }

    /// Number of spikes.
    pub fn len(&self) -> usize {
        self.ticks.len()
    }

    /// True when nothing fired.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// Indices of the spikes with `start <= tick < stop`. Two binary searches.
    pub fn range(&self, start: i64, stop: i64) -> std::ops::Range<usize> {
        let first = self.ticks.partition_point(|&t| t < start);
        let last = self.ticks.partition_point(|&t| t < stop);
        first..last.max(first)
    }

    /// Walks the ticks at which something fired: each tick with the channels of its spikes.
    pub fn by_tick(&self) -> impl Iterator<Item = (i64, &[u32])> {
        let mut first = 0;
        self.ticks.chunk_by(|a, b| a == b).map(move |same| {
            let here = &self.channels[first..first + same.len()];
            first += same.len();
            (same[0], here)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_spikes_bin_after_bin() {
        let spikes = Spikes::from_counts(&[0, 2, 1, 0, 0, 1], 2).unwrap();
        assert_eq!(spikes.ticks, [0, 0, 1, 2]);
        assert_eq!(spikes.channels, [1, 1, 0, 1]);
        assert_eq!(spikes.ticks.capacity(), 4);
        assert!(Spikes::from_counts(&[], 0).unwrap().is_empty());
    }

    #[test]
    fn more_spikes_than_a_recording_may_have_are_refused_before_they_are_made() {
        let counts = vec![u16::MAX; 3 * 5500];
        let error = Spikes::from_counts(&counts, 3).unwrap_err();
        assert_eq!(error.kind(), betz_base::ErrorKind::InvalidRecording);
        // 16,384 of them are 2^30 - 2^14, and one more is too many.
        let says = "at most 1073741824 spikes, got more at [5461, 1]";
        assert!(error.message().contains(says), "{error}");
    }
}
