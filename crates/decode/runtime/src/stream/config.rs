//! A session's configuration and its counters.

use alloc::vec::Vec;
use core::time::Duration;

use super::Hold;
use betz_base::error::{Error, Result};

/// Bounds of one output. NaN never comes out of a session, so none is bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clamp {
    /// Lowest value given out, in output units; −∞ for none.
    pub low: f32,
    /// Highest value given out, in output units; +∞ for none.
    pub high: f32,
}

/// Treatment of a spike whose channel the model does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownChannels {
    /// It is counted and otherwise ignored.
    #[default]
    Ignore,
    /// The step is refused before anything has changed.
    Refuse,
}

/// Configuration of a session. The default: no clamp, no slew limit, no mask, unknown channels ignored, latencies kept, no
/// deadline.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionConfig {
    /// Bounds of the outputs, one entry per output; `None` for no bounds. They hold for whatever is given out,
    /// also for what [`hold`](Self::hold) and [`slew`](Self::slew) make of the estimates.
    pub clamp: Option<Vec<Clamp>>,
    /// False for a channel that is to take no part (an electrode that has gone bad), one entry per
    /// channel; holds for models swapped in as well. A channel the model masks stays masked.
    pub channel_mask: Option<Vec<bool>>,
    /// Policy for spikes of unknown channels.
    pub unknown_channels: UnknownChannels,
    /// True to time every step (20 ns per step). Counters are kept in any case. Needs the crate's feature `std`.
    pub statistics: bool,
    /// Longest time a step should take; longer ones are counted as misses. Needs `statistics`.
    pub deadline: Option<Duration>,
    /// Outputs while data are missing or flagged; `None`: the estimates, whatever they are worth
    /// (the step's [`StepStatus`](super::StepStatus) says so).
    pub hold: Option<Hold>,
    /// Largest change of each output from one step to the next, in output units, one entry per output (+∞: any);
    /// `None` for no limit. An output that would change more goes as far as it may, and the step is flagged
    /// [`SLEWED`](super::StepStatus::SLEWED); what [`hold`](Self::hold) gives out is limited too. The first
    /// step after opening and after a reset is free.
    pub slew: Option<Vec<f32>>,
    /// Largest number of spikes that one step decodes from a list or a queue, which bounds the step's time; `None` for
    /// no limit. Spikes beyond it are counted ([`Stats::capped`]) and left out, the last of the list first, and the
    /// step is flagged [`CAPPED`](super::StepStatus::CAPPED). Binned counts need no limit: their step's time is bounded
    /// by the channels.
    pub max_spikes: Option<usize>,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            clamp: None,
            channel_mask: None,
            unknown_channels: UnknownChannels::Ignore,
            statistics: cfg!(feature = "std"),
            deadline: None,
            hold: None,
            slew: None,
            max_spikes: None,
        }
    }
}

impl SessionConfig {
    /// Checks what does not depend on the model's channels, for a model of `outputs`.
    pub(super) fn check(&self, outputs: usize) -> Result<()> {
        if let Some(hold) = &self.hold {
            hold.check(outputs)?;
        }
        if let Some(clamp) = &self.clamp {
            check_clamp(clamp, outputs)?;
        }
        if let Some(slew) = &self.slew {
            super::slew::check(slew, outputs)?;
        }
        if self.max_spikes == Some(0) {
            return Err(Error::argument(
                "max_spikes: expected at least 1 spike per step, or no limit; got 0",
            ));
        }
        if self.deadline.is_some() && !self.statistics {
            return Err(Error::argument(
                "deadline: expected statistics to be on, or steps are not timed; got a deadline without",
            ));
        }
        Ok(())
    }
}

/// Refuses bounds that are not those of `outputs`.
pub(super) fn check_clamp(clamp: &[Clamp], outputs: usize) -> Result<()> {
    if clamp.len() != outputs {
        return Err(Error::mismatch(format!(
            "clamp: expected {outputs} entries, one per output of the model, got {}",
            clamp.len()
        )));
    }
    for (i, Clamp { low, high }) in clamp.iter().enumerate() {
        // Also refuses NaN, and bounds that let only an infinity through.
        let has_finite = *low < f32::INFINITY && *high > f32::NEG_INFINITY && low <= high;
        if !has_finite {
            return Err(Error::argument(format!(
                "clamp of output {i}: expected low <= high with finite values between them, got [{low}, {high}]"
            )));
        }
    }
    Ok(())
}

/// Counters and latencies of a session: since it was opened, or since
/// [`clear_stats`](super::Session::clear_stats).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stats {
    /// Steps taken.
    pub ticks: u64,
    /// Spikes taken, of all channels the model has, masked ones included.
    pub spikes: u64,
    /// Spikes ignored because the model has no such channel.
    pub unknown_channel_spikes: u64,
    /// Spikes lost before the session: the queue was full, or held them for a step that was refused.
    pub dropped: u64,
    /// Spikes that came to the session after their tick, whether they were still taken or not.
    pub late: u64,
    /// Spikes left out because they lay too far ahead of the tick that was decoded.
    pub future: u64,
    /// Spikes left out because their step had more than [`max_spikes`](SessionConfig::max_spikes). Not in checkpoints.
    pub capped: u64,
    /// Ticks skipped, by [`skip`](super::Session::skip) or a queue's resynchronisation.
    pub skipped: u64,
    /// Steps that took longer than the deadline.
    pub deadline_misses: u64,
    /// Models that have taken over from another, rolling back included.
    pub model_swaps: u64,
    /// Events of classes lost because they were not read in time. Not in checkpoints.
    pub events_lost: u64,
    /// Latencies of the steps; zeros when statistics are off.
    pub latency: Latency,
}

/// Latencies of the steps so far, to 1 % (two significant digits).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latency {
    /// Steps timed.
    pub steps: u64,
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile, in microseconds.
    pub p99_9_us: f64,
    /// The slowest step, in microseconds; what the machine did in between is in it.
    pub max_us: f64,
    /// Mean, in microseconds.
    pub mean_us: f64,
}
