//! The noise of each channel, measured before anything may cross.

use betz_base::state::StateBytes;
use betz_base::{Result, memory};

use super::super::MAD;

/// Every so many samples one is counted.
const EVERY: i64 = 8;
/// Counts by the exponent and the first five bits of the mantissa: bins of 3 %, for any gain.
const SHIFT: u32 = 18;
/// From 2⁻¹⁶ to 2¹⁶ microvolts.
const LEAST: u32 = (127 - 16) << 5;
const BINS: usize = 32 << 5;

/// Histograms of |y|.
#[derive(Debug, Clone)]
pub(super) struct Calibration {
    counts: Vec<u32>,
    noise: Vec<f32>,
    taken: u64,
    wanted: u64,
    done: bool,
}

impl Calibration {
    pub(super) fn new(channels: usize, samples: u64) -> Result<Self> {
        Ok(Self {
            counts: memory::filled("calibration", 0, channels * BINS)?,
            noise: vec![0.0; channels],
            taken: 0,
            wanted: samples,
            done: false,
        })
    }

    pub(super) fn state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        state.number(&mut self.done)?;
        state.number(&mut self.taken)?;
        match self.done {
            true => Ok(()),
            false => state.numbers(&mut self.counts),
        }
    }

    pub(super) fn row(&mut self, sample: i64, row: &[f32]) {
        self.taken += 1;
        if sample % EVERY != 0 {
            return;
        }
        for (counts, y) in self.counts.chunks_exact_mut(BINS).zip(row) {
            let bin = (y.abs().to_bits() >> SHIFT).saturating_sub(LEAST);
            counts[(bin as usize).min(BINS - 1)] += 1;
        }
    }

    /// True until the noise is known.
    pub(super) fn is_under_way(&self) -> bool {
        !self.done
    }

    /// Ends it. Keeps its memory, because a front end at work neither takes nor gives any.
    pub(super) fn end(&mut self) {
        self.done = true;
    }

    /// Once enough samples were taken: standard deviations by the median of |y|, 0 for a channel that is silent.
    pub(super) fn noise(&mut self) -> Option<&[f32]> {
        if self.taken < self.wanted {
            return None;
        }
        for (noise, counts) in self.noise.iter_mut().zip(self.counts.chunks_exact(BINS)) {
            let all: u64 = counts.iter().map(|&c| u64::from(c)).sum();
            let (mut below, mut bin) = (0_u64, 0);
            while bin + 1 < BINS && 2 * (below + u64::from(counts[bin])) < all {
                below += u64::from(counts[bin]);
                bin += 1;
            }
            // Silence is in the first bin.
            *noise = 0.0;
            if bin > 0 && counts[bin] > 0 {
                let edge = |bin: usize| f32::from_bits((LEAST + bin as u32) << SHIFT);
                let part = (all as f32 / 2.0 - below as f32) / counts[bin] as f32;
                *noise = (edge(bin) + part * (edge(bin + 1) - edge(bin))) / MAD as f32;
            }
        }
        Some(&self.noise)
    }
}
