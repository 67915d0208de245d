//! Spikes of a device, counted in bins of its clock.

use std::collections::VecDeque;
use std::ops::Range;

use betz::recording::arrays::Values;
use betz::{Error, Result};
use betz_rigs::rig::{Block, Samples};

use super::feed::Piece;

/// Most bins that a silence makes at once; a longer one is a gap.
const MOST_BINS: u64 = 1 << 16;

/// Time for which a bin stays open for spikes that come out of order.
const OPEN_SECONDS: f64 = 0.1;

/// Counts of the bins that may still get spikes.
pub(super) struct SpikeBins {
    /// Ticks of a bin.
    ticks: u64,
    rate: f64,
    channels: usize,
    /// Ticks behind the end of a bin after which it is given.
    margin: u64,
    /// First tick of the oldest open bin; `None` before the first block, and after the clock began anew.
    start: Option<u64>,
    /// Counts of the open bins; those behind them have no spike yet.
    open: VecDeque<Vec<u16>>,
    /// End of the ticks that are known.
    newest: u64,
    /// A bin was given, or left out: none can begin before it.
    begun: bool,
    /// Ticks that were left out because spikes before them are missing.
    left_out: Range<u64>,
    /// Spikes of bins that were given before.
    late: u64,
}

impl SpikeBins {
    /// # Errors
    /// `InvalidArgument` for a bin of less than a tick, and no channels.
    pub(super) fn new(bin: f64, rate: f64, channels: usize) -> Result<Self> {
        let ticks = (bin * rate).round();
        if !(1.0..1e15).contains(&ticks) {
            return Err(Error::argument(format!(
                "--bin: expected at least a tick of {} s, got {bin} s",
                1.0 / rate
            )));
        }
        if channels == 0 {
            return Err(Error::argument(
                "SOURCE: expected channels=N of the spikes, got none",
            ));
        }
        Ok(Self {
            ticks: ticks as u64,
            rate,
            channels,
            margin: (OPEN_SECONDS * rate).round() as u64,
            start: None,
            open: VecDeque::new(),
            newest: 0,
            begun: false,
            left_out: 0..0,
            late: 0,
        })
    }

    /// Length of a bin in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.ticks as f64 / self.rate
    }

    /// Spikes that came after their bin was given, and are left out.
    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// Nothing more comes: gives the bins that are covered.
    pub(super) fn end(&mut self, pieces: &mut Vec<Piece>) {
        let mut rows = Vec::new();
        self.give(self.newest, &mut rows, pieces);
        push_rows(rows, pieces);
    }

    /// The clock began anew.
    pub(super) fn restart(&mut self, pieces: &mut Vec<Piece>) {
        self.end(pieces);
        self.open.clear();
        (self.start, self.newest, self.begun) = (None, 0, false);
        self.left_out = 0..0;
    }

    /// Spikes before `tick` are missing: the bins up to the first whole one from `tick` on are left out.
    pub(super) fn lose(&mut self, tick: u64, pieces: &mut Vec<Piece>) {
        self.end(pieces);
        let Some(start) = self.start.filter(|start| tick > *start) else {
            return;
        };
        let bins = (tick - start).div_ceil(self.ticks);
        self.open.clear();
        let next = start + bins * self.ticks;
        (self.start, self.begun, self.left_out) = (Some(next), true, start..next);
        pieces.push(Piece::Gap(bins));
    }

    /// Counts a block's spikes, and gives the bins that are complete.
    pub(super) fn take(&mut self, block: &Block, pieces: &mut Vec<Piece>) -> Result<()> {
        let Samples::Spikes(spikes) = &block.samples else {
            return Ok(());
        };
        if self.start.is_none() && (block.rows > 0 || !spikes.is_empty()) {
            self.start = Some(block.first);
        }
        let mut rows = Vec::new();
        for spike in spikes {
            self.reach(spike.tick, &mut rows, pieces);
            self.count(spike.tick, spike.channel as usize);
        }
        let covered = block.first.saturating_add(block.rows as u64);
        self.reach(covered, &mut rows, pieces);
        push_rows(rows, pieces);
        Ok(())
    }

    /// Counts a spike of `channel`.
    fn count(&mut self, tick: u64, channel: usize) {
        let Some(mut start) = self.start else { return };
        if channel >= self.channels {
            return;
        }
        if tick < start && !self.begun {
            // The first spikes may be out of order, too.
            let earlier = (start - tick).div_ceil(self.ticks);
            if let Some(moved) = start.checked_sub(earlier * self.ticks)
                && start - tick <= self.margin
            {
                (0..earlier).for_each(|_| self.open.push_front(vec![0; self.channels]));
                start = moved;
                self.start = Some(start);
            }
        }
        let Some(ticks) = tick.checked_sub(start) else {
            self.late += u64::from(!self.left_out.contains(&tick));
            return;
        };
        let at = (ticks / self.ticks) as usize;
        while self.open.len() <= at {
            self.open.push_back(vec![0; self.channels]);
        }
        if let Some(count) = self.open.get_mut(at).and_then(|bin| bin.get_mut(channel)) {
            *count = count.saturating_add(1);
        }
    }

    /// Ticks before `tick` are known: gives the bins that no later spike is expected in.
    fn reach(&mut self, tick: u64, rows: &mut Vec<u16>, pieces: &mut Vec<Piece>) {
        self.newest = self.newest.max(tick);
        self.give(self.newest.saturating_sub(self.margin), rows, pieces);
    }

    /// Gives the bins that end at `tick` or before.
    fn give(&mut self, tick: u64, rows: &mut Vec<u16>, pieces: &mut Vec<Piece>) {
        let Some(start) = self.start else { return };
        let bins = tick.saturating_sub(start) / self.ticks;
        if bins == 0 {
            return;
        }
        let held = self
            .open
            .len()
            .min(usize::try_from(bins).unwrap_or(usize::MAX));
        rows.extend(self.open.drain(..held).flatten());
        let silent = bins - held as u64;
        if silent <= MOST_BINS {
            rows.resize(rows.len() + silent as usize * self.channels, 0);
        } else {
            push_rows(std::mem::take(rows), pieces);
            pieces.push(Piece::Gap(silent));
        }
        (self.start, self.begun) = (Some(start + bins * self.ticks), true);
    }
}

fn push_rows(rows: Vec<u16>, pieces: &mut Vec<Piece>) {
    if !rows.is_empty() {
        pieces.push(Piece::Rows(Values::U16(rows)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_rigs::rig::RigSpike;

    fn block(first: u64, rows: usize, spikes: &[(u64, u32)]) -> Block {
        let of = |(tick, channel): &(u64, u32)| RigSpike {
            tick: *tick,
            channel: *channel,
            unit: 0,
        };
        Block {
            first,
            rows,
            samples: Samples::Spikes(spikes.iter().map(of).collect()),
            ..Block::new()
        }
    }

    fn taken(bins: &mut SpikeBins, block: &Block) -> Vec<Piece> {
        let mut pieces = Vec::new();
        bins.take(block, &mut pieces).unwrap();
        pieces
    }

    fn rows(values: &[u16]) -> Piece {
        Piece::Rows(Values::U16(values.to_vec()))
    }

    fn ended(bins: &mut SpikeBins) -> Vec<Piece> {
        let mut pieces = Vec::new();
        bins.end(&mut pieces);
        pieces
    }

    #[test]
    fn bins_are_given_once_no_later_spike_is_expected() {
        // Ten ticks in a bin of two channels; bins stay open for 100 ticks.
        let mut bins = SpikeBins::new(0.01, 1000.0, 2).unwrap();
        assert_eq!(bins.seconds(), 0.01);
        let first = block(100, 15, &[(100, 0), (109, 1), (109, 1), (110, 0), (112, 7)]);
        assert!(taken(&mut bins, &first).is_empty());
        assert!(taken(&mut bins, &block(115, 94, &[])).is_empty());
        assert_eq!(taken(&mut bins, &block(209, 1, &[])), [rows(&[1, 2])]);
        // Times of spikes alone.
        assert!(taken(&mut bins, &block(219, 0, &[(219, 1)])).is_empty());
        assert_eq!(
            taken(&mut bins, &block(230, 0, &[(230, 1)])),
            [rows(&[1, 0, 0, 0])]
        );
        // The end gives what is covered: the bins from 130 to 229.
        let mut last = vec![0; 20];
        last[17] = 1;
        assert_eq!(ended(&mut bins), [rows(&last)]);
        assert_eq!(bins.late(), 0);
    }

    #[test]
    fn spikes_out_of_order_get_into_their_bins_and_late_ones_are_counted() {
        let spikes = [(40, 0), (5, 0), (75, 0), (12, 1), (48, 1), (7, 1), (93, 1)];
        let mut sorted = spikes;
        sorted.sort_unstable();
        let rows_of = |spikes: &[(u64, u32)], each: usize| {
            let mut bins = SpikeBins::new(0.01, 1000.0, 2).unwrap();
            // The first spike of a device gives the grid of its bins.
            let mut pieces = taken(&mut bins, &block(0, 0, &[(0, 0)]));
            for part in spikes.chunks(each) {
                pieces.extend(taken(&mut bins, &block(part[0].0, 0, part)));
            }
            pieces.extend(taken(&mut bins, &block(200, 0, &[])));
            assert_eq!(bins.late(), 0);
            pieces
        };
        let expected = rows_of(&sorted, 1);
        let mut first = vec![0; 20];
        for (tick, channel) in [(0, 0)].iter().chain(&spikes) {
            first[(tick / 10) as usize * 2 + *channel as usize] += 1;
        }
        assert_eq!(expected, [rows(&first)]);
        assert_eq!(rows_of(&spikes, 1), expected);
        assert_eq!(rows_of(&spikes, 7), expected);
        // A spike before the first one moves the first bin.
        let mut bins = SpikeBins::new(0.01, 1000.0, 1).unwrap();
        taken(&mut bins, &block(50, 0, &[(50, 0), (31, 0)]));
        assert_eq!(
            taken(&mut bins, &block(160, 0, &[(160, 0)])),
            [rows(&[1, 0, 1])]
        );
        taken(&mut bins, &block(59, 0, &[(59, 0), (60, 0)]));
        assert_eq!(bins.late(), 1);
    }

    #[test]
    fn bins_with_a_loss_are_left_out_and_the_time_goes_on() {
        let mut bins = SpikeBins::new(0.01, 1000.0, 1).unwrap();
        taken(&mut bins, &block(0, 15, &[(3, 0), (12, 0)]));
        let mut pieces = Vec::new();
        bins.lose(37, &mut pieces);
        // Bins at 10, 20 and 30 are not whole.
        assert_eq!(pieces, [rows(&[1]), Piece::Gap(3)]);
        assert!(taken(&mut bins, &block(37, 13, &[(38, 0), (41, 0)])).is_empty());
        assert_eq!(bins.late(), 0);
        let mut pieces = Vec::new();
        bins.restart(&mut pieces);
        assert_eq!(pieces, [rows(&[1])]);
        assert!(taken(&mut bins, &block(7, 10, &[(7, 0)])).is_empty());
        assert_eq!(ended(&mut bins), [rows(&[1])]);
    }

    #[test]
    fn a_jump_of_the_clock_is_a_gap() {
        let mut bins = SpikeBins::new(0.01, 1000.0, 1).unwrap();
        taken(&mut bins, &block(0, 5, &[(0, 0)]));
        let pieces = taken(&mut bins, &block(10_000_000_000, 0, &[(10_000_000_000, 0)]));
        assert_eq!(pieces, [rows(&[1]), Piece::Gap(999_999_989)]);
        assert!(SpikeBins::new(1e-6, 1000.0, 1).is_err());
        assert!(SpikeBins::new(0.01, 1000.0, 0).is_err());
    }
}
