//! Spikes as two parallel lists in time order.

use super::check::{MAX_SPIKES, too_many_spikes};
use std::ops::Range;

use betz_base::error::Result;
use betz_base::memory;

/// Spikes in ascending tick order: entry i has the tick `ticks[i]`, the channel `channels[i]` and the weight
/// `weights[i]`.
///
/// An entry is one spike, a bin of several (its weight is the count), or a sample of a signal. Entries of the same
/// channel and tick add up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spikes {
    /// Ticks from the start, ascending.
    pub ticks: Vec<i64>,
    /// Channel of each entry.
    pub channels: Vec<u32>,
    /// Weight of each entry: the number of spikes in its bin, or the value of its sample. Empty: every weight is 1.
    pub weights: Vec<f32>,
}

impl Spikes {
    /// Creates one spike per tick of `ticks`, on the channel at the same index.
    pub const fn new(ticks: Vec<i64>, channels: Vec<u32>) -> Self {
        Self {
            ticks,
            channels,
            weights: Vec::new(),
        }
    }

    /// Converts binned counts, (bins, channels) row-major in time order, to one entry per nonempty bin. Takes 12 bytes
    /// per entry, or 16 if an entry stands for several spikes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) for more than 2³⁰ entries;
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory) if the system has no memory for them, before
    /// anything is allocated.
    ///
    /// ```
    /// # fn main() -> betz_base::Result<()> {
    /// // Two bins of three channels.
    /// let spikes = betz_recording::Spikes::from_counts(&[0, 2, 0, 1, 0, 0], 3)?;
    /// assert_eq!(spikes.ticks, [0, 1]);
    /// assert_eq!(spikes.channels, [1, 0]);
    /// assert_eq!(spikes.weights, [2.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_counts(counts: &[u16], channels: usize) -> Result<Self> {
        let (mut total, mut several) = (0, false);
        for (i, &count) in counts.iter().enumerate() {
            total += usize::from(count > 0);
            several |= count > 1;
            if total > MAX_SPIKES {
                return Err(too_many_spikes(i / channels, i % channels));
            }
        }
        let mut spikes = Self {
            ticks: memory::room("spikes", total)?,
            channels: memory::room("spikes", total)?,
            weights: memory::room("spikes", if several { total } else { 0 })?,
        };
        for (tick, row) in counts.chunks(channels.max(1)).enumerate() {
            for (channel, &count) in row.iter().enumerate().filter(|&(_, &count)| count > 0) {
                spikes.ticks.push(tick as i64);
                spikes.channels.push(channel as u32);
                if several {
                    spikes.weights.push(f32::from(count));
                }
            }
        }
        Ok(spikes)
    }

    /// Weight of entry `i`.
    #[inline(always)]
    pub fn weight(&self, i: usize) -> f32 {
        self.weights.get(i).copied().unwrap_or(1.0)
    }

    /// Number of spikes: the sum of all weights.
    pub fn total(&self) -> f64 {
        self.view().total()
    }

    /// Appends the entries `range` of `from`; both must have weights, or neither.
    pub fn extend_from(&mut self, from: &Self, range: Range<usize>) {
        self.ticks.extend_from_slice(&from.ticks[range.clone()]);
        self.channels
            .extend_from_slice(&from.channels[range.clone()]);
        if !from.weights.is_empty() {
            self.weights.extend_from_slice(&from.weights[range]);
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.ticks.len()
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// Indices of the entries with `start <= tick < stop`. Two binary searches.
    pub fn range(&self, start: i64, stop: i64) -> Range<usize> {
        let first = self.ticks.partition_point(|&t| t < start);
        let last = self.ticks.partition_point(|&t| t < stop);
        first..last.max(first)
    }

    /// Iterates over the ticks that have entries: each tick with the channels of its entries.
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
    fn counts_become_entries_bin_after_bin() {
        let spikes = Spikes::from_counts(&[0, 2, 1, 0, 0, 1], 2).unwrap();
        assert_eq!(spikes.ticks, [0, 1, 2]);
        assert_eq!(spikes.channels, [1, 0, 1]);
        assert_eq!(spikes.weights, [2.0, 1.0, 1.0]);
        assert_eq!((spikes.weight(0), spikes.total()), (2.0, 4.0));
        assert_eq!(spikes.ticks.capacity(), 3);
        assert!(Spikes::from_counts(&[], 0).unwrap().is_empty());
        // If no bin has more than one spike, there are no weights.
        let single = Spikes::from_counts(&[0, 1, 1, 0], 2).unwrap();
        assert_eq!((single.weights.len(), single.total()), (0, 2.0));
    }

    #[test]
    fn large_counts_take_no_more_room_than_small_ones() {
        let counts = vec![u16::MAX; 3 * 5500];
        let spikes = Spikes::from_counts(&counts, 3).unwrap();
        assert_eq!(spikes.len(), 3 * 5500);
        assert_eq!(spikes.total(), 65_535.0 * 16_500.0);
    }
}
