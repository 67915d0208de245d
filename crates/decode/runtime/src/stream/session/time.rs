//! The time that an estimate is of.

use super::Session;
use crate::stream::SampleClock;

/// Time of the last step's estimates, in ticks and, if they came from a queue with a
/// [`SampleClock`], in samples of the amplifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimateTime {
    /// Tick of the step.
    pub tick: i64,
    /// Tick of the behaviour that the estimates are of: the step's tick less the model's delay.
    pub behavior_tick: i64,
    /// Samples of the step; `None` for a step that did not come from a queue with a clock.
    pub samples: Option<EstimateSamples>,
}

/// Samples of an estimate, by the clock that was set when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimateSamples {
    /// First sample of the step's tick.
    pub first: i64,
    /// Last sample of the step's tick.
    pub last: i64,
    /// Last sample of the tick of the behaviour.
    pub behavior: i64,
    /// Newest sample among the step's spikes; `None` if the step had no spike. It lies before `first` if all were late.
    pub newest_spike: Option<i64>,
}

/// Samples of a step, as its queue reports them.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::stream) struct StepSamples {
    pub(in crate::stream) tick: i64,
    pub(in crate::stream) clock: Option<SampleClock>,
    /// The lowest 32 bits of the newest spike's sample.
    pub(in crate::stream) newest: Option<u32>,
}

impl Session {
    /// Time of the last step's estimates; `None` before the first step. No allocation.
    pub fn estimate_time(&self) -> Option<EstimateTime> {
        let tick = self.stepped?;
        let behavior_tick = tick.saturating_sub(self.model().delay_steps());
        let StepSamples {
            tick: of,
            clock,
            newest,
        } = self.sampled;
        let samples = clock.filter(|_| of == tick).map(|clock| {
            let first = clock.first_sample(tick);
            EstimateSamples {
                first,
                last: clock.last_sample(tick),
                behavior: clock.last_sample(behavior_tick),
                newest_spike: newest.map(|stamp| {
                    // The nearest sample to `first` with these bits.
                    let ahead = stamp.wrapping_sub(first as u32) as i32;
                    first.saturating_add(ahead.into())
                }),
            }
        });
        Some(EstimateTime {
            tick,
            behavior_tick,
            samples,
        })
    }

    /// Records the samples of the next step.
    pub(in crate::stream) fn set_sampled(&mut self, sampled: StepSamples) {
        self.sampled = sampled;
    }
}
