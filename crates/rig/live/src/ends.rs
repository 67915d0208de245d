//! The ends of a session besides its source: sinks, and a receiver of labels.

use betz_base::{Error, Result};
use betz_rigs::bus::{Estimate, Sink, Stream, open_sink};
use betz_rigs::rig::Stamp;
use betz_runtime::model::Decoder;

use crate::learn::open_worker;
use crate::notes::Notes;
use crate::pipeline::{Step, check_stated, open_session};
use crate::plan::{LearnMode, Plan, RecalibrateMode};
use crate::recalibrate;
use crate::scheduling;

/// The sinks of a session, and its receiver of labels.
pub(crate) struct Ends {
    pub(crate) sinks: Vec<Box<dyn Sink>>,
    pub(crate) notes: Option<Notes>,
}

impl Ends {
    /// Opens the ends of a plan. Outputs that the session refuses, and a model that does not fit the plan, are refused before a
    /// socket is opened.
    ///
    /// # Errors
    /// The errors of the session, the sinks and the labels' address, with file, line and key.
    pub(crate) fn open(plan: &Plan, model: &Decoder) -> Result<Self> {
        open_session(plan, model)?;
        scheduling::check(plan)?;
        check_stated(plan, model)?;
        if plan.learn.mode != LearnMode::Off {
            drop(open_worker(plan, model)?);
        }
        if plan.recalibrate.mode != RecalibrateMode::Off {
            drop(recalibrate::open_worker(plan, model)?);
        }
        let outputs: Vec<String> = model.outputs().iter().map(|o| o.name.clone()).collect();
        let stream = Stream {
            channels: model.channels(),
            outputs: &outputs,
            step_seconds: model.step_seconds(),
        };
        let place = |section: &str, key: &str, e: &Error| {
            plan.refuse(section, key, e.message()).of_kind(e.kind())
        };
        let sinks = (plan.outputs.to.iter())
            .map(|address| open_sink(address, &stream).map_err(|e| place("outputs", "to", &e)))
            .collect::<Result<_>>()?;
        let notes = (plan.labels.from.as_ref())
            .map(|from| Notes::open(from).map_err(|e| place("labels", "from", &e)))
            .transpose()?;
        Ok(Self { sinks, notes })
    }
}

/// Sends a step to all sinks, with the number and the time of `stamp` in place of its own.
///
/// # Errors
/// The errors of the sinks.
pub(crate) fn send(
    sinks: &mut [Box<dyn Sink>],
    step: &Step<'_>,
    stamp: Option<Stamp>,
) -> Result<()> {
    // The last row of the step.
    let row = step.end.saturating_sub(1);
    let (sequence, device) = stamp.map_or((step.number, row), |s| (s.sequence, s.sequence));
    for sink in sinks {
        sink.give(&Estimate {
            sequence,
            device,
            sent: stamp.map(|stamp| stamp.sent),
            host_ns: step.host_ns,
            status: step.status.bits(),
            values: step.values,
        })?;
    }
    Ok(())
}
