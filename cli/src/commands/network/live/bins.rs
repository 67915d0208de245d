//! Spikes of a device, counted in bins of its clock.

use betz::recording::arrays::Values;
use betz::{Error, Result};
use betz_rigs::rig::{Block, Samples};

use super::feed::Piece;

/// Most bins that a silence makes at once; a longer one is a gap.
const MOST_BINS: u64 = 1 << 16;

/// Counts of the bin that is being filled.
pub(super) struct SpikeBins {
    /// Ticks of a bin.
    ticks: u64,
    rate: f64,
    channels: usize,
    /// First tick of the bin; `None` before the first block, and after the clock began anew.
    start: Option<u64>,
    counts: Vec<u16>,
    /// Spikes of this bin may be missing: it is left out.
    broken: bool,
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
            start: None,
            counts: vec![0; channels],
            broken: false,
        })
    }

    /// Length of a bin in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.ticks as f64 / self.rate
    }

    /// The clock began anew.
    pub(super) fn restart(&mut self) {
        self.counts.fill(0);
        (self.start, self.broken) = (None, false);
    }

    /// Spikes before `tick` are missing.
    pub(super) fn lose(&mut self, tick: u64) {
        // The bin before may have missed some, and so may the one of `tick`.
        if self.start.is_some_and(|start| tick >= start) {
            self.broken = true;
        }
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
        let mut broken_bins = 0;
        if self.broken {
            // Up to the bin of the first tick that is known again.
            let lost = self.end_of_loss(block.first);
            broken_bins = lost;
        }
        if broken_bins > 0 {
            pieces.push(Piece::Gap(broken_bins));
        }
        for spike in spikes {
            self.go_to(spike.tick, &mut rows, pieces);
            let known = self.start.is_some_and(|start| spike.tick >= start);
            if let (true, Some(count)) = (known, self.counts.get_mut(spike.channel as usize)) {
                *count = count.saturating_add(1);
            }
        }
        self.go_to(
            block.first.saturating_add(block.rows as u64),
            &mut rows,
            pieces,
        );
        if !rows.is_empty() {
            pieces.push(Piece::Rows(Values::U16(rows)));
        }
        Ok(())
    }

    /// Leaves out the bins up to the first whole one from `tick` on; returns their number.
    fn end_of_loss(&mut self, tick: u64) -> u64 {
        let Some(start) = self.start else { return 0 };
        let bins = tick.saturating_sub(start).div_ceil(self.ticks);
        self.counts.fill(0);
        self.start = Some(start + bins * self.ticks);
        self.broken = false;
        bins
    }

    /// Ends the bins before `tick`.
    fn go_to(&mut self, tick: u64, rows: &mut Vec<u16>, pieces: &mut Vec<Piece>) {
        let Some(start) = self.start else { return };
        let bins = tick.saturating_sub(start) / self.ticks;
        if bins == 0 {
            return;
        }
        rows.extend_from_slice(&self.counts);
        self.counts.fill(0);
        if bins <= MOST_BINS {
            rows.resize(rows.len() + (bins - 1) as usize * self.channels, 0);
        } else {
            pieces.push(Piece::Rows(Values::U16(std::mem::take(rows))));
            pieces.push(Piece::Gap(bins - 1));
        }
        self.start = Some(start + bins * self.ticks);
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

    #[test]
    fn bins_are_given_once_they_are_covered() {
        // Ten ticks in a bin of two channels.
        let mut bins = SpikeBins::new(0.01, 1000.0, 2).unwrap();
        assert_eq!(bins.seconds(), 0.01);
        let first = block(100, 15, &[(100, 0), (109, 1), (109, 1), (110, 0), (112, 7)]);
        assert_eq!(taken(&mut bins, &first), [rows(&[1, 2])]);
        assert!(taken(&mut bins, &block(115, 4, &[])).is_empty());
        assert_eq!(
            taken(&mut bins, &block(119, 21, &[])),
            [rows(&[1, 0, 0, 0, 0, 0])]
        );
        // Times of spikes alone: a bin ends with the first spike behind it.
        assert!(taken(&mut bins, &block(141, 0, &[(141, 1), (149, 1)])).is_empty());
        assert_eq!(
            taken(&mut bins, &block(150, 0, &[(150, 1)])),
            [rows(&[0, 2])]
        );
    }

    #[test]
    fn bins_with_a_loss_are_left_out_and_the_time_goes_on() {
        let mut bins = SpikeBins::new(0.01, 1000.0, 1).unwrap();
        assert_eq!(
            taken(&mut bins, &block(0, 15, &[(3, 0), (12, 0)])),
            [rows(&[1])]
        );
        bins.lose(37);
        // Bins at 10, 20 and 30 are not whole.
        assert_eq!(
            taken(&mut bins, &block(37, 13, &[(38, 0), (41, 0)])),
            [Piece::Gap(3), rows(&[1])]
        );
        bins.restart();
        assert_eq!(taken(&mut bins, &block(7, 10, &[(7, 0)])), [rows(&[1])]);
    }

    #[test]
    fn a_jump_of_the_clock_is_a_gap() {
        let mut bins = SpikeBins::new(0.01, 1000.0, 1).unwrap();
        taken(&mut bins, &block(0, 5, &[(0, 0)]));
        let pieces = taken(&mut bins, &block(10_000_000_000, 0, &[(10_000_000_000, 0)]));
        assert_eq!(pieces, [rows(&[1]), Piece::Gap(999_999_999)]);
        assert!(SpikeBins::new(1e-6, 1000.0, 1).is_err());
        assert!(SpikeBins::new(0.01, 1000.0, 0).is_err());
    }
}
