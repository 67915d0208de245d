//! Spikes as two parallel lists in time order.

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
