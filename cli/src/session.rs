//! Sessions of whole steps: between buses, or on a recording.

use std::path::Path;
use std::time::Duration;

use betz::model::Decoder;
use betz::recording::Dataset;
use betz::stream::Session;
use betz::{Error, ErrorKind, Progress, Result};
use betz_live::plan::Span;
use betz_live::{FrontEnd, Live, Plan};
use betz_rigs::rig::Rig;

use crate::report::Bar;

/// The plan of a session whose steps are made elsewhere: none is made without data.
const PLAN: &str = r#"[session]
model = "MODEL"

[[source]]
name = "in"
from = "in"
sends = "steps"
inline = true

[missing]
stale_after = "10000h"
"#;

/// Opens a session called `name` of the steps that `rig` sends. It is ready before the first one.
///
/// # Errors
/// The errors of [`Live::with_rig`] and [`Live::prepare`].
pub(crate) fn open(
    name: &str,
    model: &Decoder,
    deadline: Option<Duration>,
    rig: Box<dyn Rig>,
) -> Result<Live> {
    let mut plan = Plan::parse(PLAN, Path::new(name), &[])?;
    name.clone_into(&mut plan.session.name);
    plan.outputs.deadline = deadline.map(|d| Span::from_seconds(d.as_secs_f64()));
    // Whoever made the steps has chosen the front end.
    let model = match FrontEnd::of_model(model)? {
        Some(_) => FrontEnd::Source.attach(model.clone())?,
        None => model.clone(),
    };
    let mut live = Live::with_rig(plan, model, rig)?;
    live.prepare()?;
    Ok(live)
}

/// The session of a [`Live`] that is ready.
///
/// # Errors
/// `Internal` if it is not.
pub(crate) fn of(live: &mut Live) -> Result<&mut Session> {
    let pipeline = live.pipeline_mut().ok_or_else(|| {
        let message = "expected a session that is ready before its first step, got none";
        Error::new(ErrorKind::Internal, message)
    })?;
    Ok(pipeline.session_mut())
}

/// Outputs of a recording's steps, row by row; NaN outside segments.
pub(crate) struct DatasetOutputs {
    values: Vec<f32>,
    width: usize,
    done: u64,
    total: u64,
    phase: &'static str,
    bar: Bar,
}

impl DatasetOutputs {
    /// No outputs yet, of `width` per step; `phase` names the work on the progress bar.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn new(dataset: &Dataset, width: usize, phase: &'static str) -> Result<Self> {
        let length = dataset.steps.saturating_mul(width);
        betz::memory::plan("the decoded outputs", length as u128 * 4)?;
        Ok(Self {
            values: betz::memory::filled("the decoded outputs", f32::NAN, length)?,
            width,
            done: 0,
            total: dataset.steps_in_segments() as u64,
            phase,
            bar: Bar::new(),
        })
    }

    /// Takes the outputs of the step that ends with `end`.
    pub(crate) fn add(&mut self, end: u64, values: &[f32]) {
        let row = end.saturating_sub(1) as usize * self.width;
        if let Some(place) = self.values.get_mut(row..row + self.width) {
            place.copy_from_slice(values);
        }
        self.done += 1;
        if self.done.is_multiple_of(4096) {
            self.bar.update(self.phase, self.done, self.total);
        }
    }

    /// The rows, without the bar.
    pub(crate) fn finish(self) -> Vec<f32> {
        self.values
    }
}
