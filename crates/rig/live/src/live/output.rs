//! The way of a step out of the session.

use betz_base::Result;
use betz_rigs::bus::Sink;
use betz_rigs::rig::{Stamp, host_ns};

use super::report::{LatencyCounts, StartUp};
use super::score::LabelScore;
use crate::ends::send;
use crate::learn::Learner;
use crate::pipeline::{Give, Step};
use crate::record::Recorder;

/// Receivers of the steps of a session.
pub(super) struct Output<'o> {
    pub(super) sinks: &'o mut [Box<dyn Sink>],
    pub(super) recorder: Option<&'o mut Recorder>,
    pub(super) learner: Option<&'o mut Learner>,
    pub(super) latency: &'o mut LatencyCounts,
    pub(super) startup: &'o mut StartUp,
    pub(super) score: &'o mut LabelScore,
    /// The source's own number and time of the step, if the outputs carry them.
    pub(super) stamp: Option<Stamp>,
}

impl Output<'_> {
    /// Sends and records a step, and gives it to `each`.
    ///
    /// # Errors
    /// The errors of the sinks and of `each`.
    pub(super) fn give(&mut self, step: &Step<'_>, each: &mut Give<'_>) -> Result<()> {
        send(self.sinks, step, self.stamp)?;
        if let Some(recorder) = &mut self.recorder {
            recorder.step(step);
        }
        if let Some(learner) = &mut self.learner {
            learner.made(step);
        }
        if step.host_ns != 0 {
            self.score.made(step.number, step.values);
        }
        // A step without data has no arrival.
        if step.host_ns != 0 {
            let took = host_ns().saturating_sub(step.host_ns).max(1) as u64;
            match self.startup.is_of(step.host_ns) {
                true => self.startup.record(took),
                false => self.latency.record(took),
            }
        }
        each(step)
    }
}
