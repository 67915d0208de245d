//! The way of a step out of the session.

use betz_base::Result;
use betz_interop::bus::Sink;
use betz_interop::rig::{Stamp, host_ns};
use hdrhistogram::Histogram;

use crate::ends::send;
use crate::learn::Learner;
use crate::pipeline::{Give, Step};
use crate::record::Recorder;

/// Receivers of the steps of a session.
pub(super) struct Output<'o> {
    pub(super) sinks: &'o mut [Box<dyn Sink>],
    pub(super) recorder: Option<&'o mut Recorder>,
    pub(super) learner: Option<&'o mut Learner>,
    pub(super) latency: &'o mut Histogram<u64>,
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
        // A step without data has no arrival.
        if step.host_ns != 0 {
            (self.latency).saturating_record((host_ns() - step.host_ns).max(1) as u64);
        }
        each(step)
    }
}
