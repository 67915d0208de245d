//! Sessions of whole steps: between buses, or on a recording.

use std::path::Path;
use std::time::Duration;

use betz::model::Decoder;
use betz::stream::Session;
use betz::{Error, ErrorKind, Result};
use betz_interop::rig::Rig;
use betz_live::plan::Span;
use betz_live::{FrontEnd, Live, Plan};

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
