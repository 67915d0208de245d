//! Steps to bins: what fired in so many steps in a row is a bin's count.

use betz_runtime::stream::StepRecord;

use super::Live;

/// Numbers of steps, by their fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Steps that were taken.
    pub steps: u64,
    /// Whole bins.
    pub bins: u64,
    /// Windows completed.
    pub windows: u64,
    /// Of these, windows whose edges were not looked for because the line was more than half full: sums
    /// go on, and the next window is whole.
    pub skipped_windows: u64,
    /// Number of gaps: a step did not follow the one before (a reset, steps skipped or lost). The network begins anew
    /// there, and no window holds bins of both sides.
    pub gaps: u64,
    /// Steps before a gap that filled no bin.
    pub partial_steps: u64,
    /// Spikes of channels that the network does not have.
    pub unknown: u64,
    /// Counts of a channel and bin that were no whole number of 0 to 65,535, and became the nearest one.
    pub altered: u64,
}

/// Steps in, windows out.
#[derive(Debug)]
pub(super) struct Bins {
    pub(super) live: Live,
    bin_steps: u32,
    sums: Vec<f64>,
    counts: Vec<u16>,
    /// Steps in the bin that is being filled.
    filled: u32,
    last: Option<i64>,
    /// Tick of the first step since the last gap, and the bins there were then.
    origin: i64,
    origin_bins: u64,
    pub(super) told: LiveCounts,
}

/// Bin or window that a step has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepOutcome {
    Nothing,
    Bin,
    /// A window, whose edges are those of [`Live::newest`].
    Window,
}

impl Bins {
    pub(super) fn new(live: Live, bin_steps: u32) -> Self {
        let channels = live.spec().channels;
        Self {
            live,
            bin_steps,
            sums: vec![0.0; channels],
            counts: vec![0; channels],
            filled: 0,
            last: None,
            origin: 0,
            origin_bins: 0,
            told: LiveCounts::default(),
        }
    }

    /// The next step; `hurry` leaves out the edges of a window that it completes.
    pub(super) fn take(&mut self, step: &StepRecord, hurry: bool) -> StepOutcome {
        self.begin_step(step.tick, step.after_rest || step.after_gap);
        for &(channel, count) in &step.fired {
            match self.sums.get_mut(channel as usize) {
                Some(sum) => *sum += f64::from(count),
                None => self.told.unknown += 1,
            }
        }
        self.end_step(hurry)
    }

    fn begin_step(&mut self, tick: i64, gap: bool) {
        self.told.steps += 1;
        let follows = !gap
            && self
                .last
                .is_some_and(|last| last.checked_add(1) == Some(tick));
        if !follows {
            self.told.gaps += u64::from(self.last.is_some());
            self.told.partial_steps += u64::from(self.filled);
            self.live.gap(0);
            self.sums.fill(0.0);
            self.filled = 0;
            self.origin = tick;
            self.origin_bins = self.told.bins;
        }
        self.last = Some(tick);
    }

    fn end_step(&mut self, hurry: bool) -> StepOutcome {
        self.filled += 1;
        if self.filled < self.bin_steps {
            return StepOutcome::Nothing;
        }
        self.filled = 0;
        self.told.bins += 1;
        for (count, sum) in self.counts.iter_mut().zip(&mut self.sums) {
            // NaN, which a session refuses, becomes 0.
            *count = sum.round() as u16;
            self.told.altered += u64::from(f64::from(*count) != *sum);
            *sum = 0.0;
        }
        let pushed = if hurry {
            self.live.push_only(&self.counts)
        } else {
            self.live.push(&self.counts)
        };
        match pushed {
            Ok(true) => {
                self.told.windows += 1;
                self.told.skipped_windows += u64::from(hurry);
                if hurry {
                    StepOutcome::Bin
                } else {
                    StepOutcome::Window
                }
            }
            // There is a count for each channel: nothing is refused.
            Ok(false) | Err(_) => StepOutcome::Bin,
        }
    }

    /// Ticks of the newest window, half-open; `start` is its first bin of all.
    pub(super) fn ticks(&self, start: u64) -> (i64, i64) {
        let bin = i64::from(self.bin_steps);
        let first = start.saturating_sub(self.origin_bins) as i64;
        let start = self.origin.saturating_add(first.saturating_mul(bin));
        let length = self.live.spec().window.length as i64 * bin;
        (start, start.saturating_add(length))
    }
}
