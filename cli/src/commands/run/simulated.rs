//! `betz run --simulate`: a rig with a known movement, and a decoder trained on a minute of it.

use std::path::Path;

use betz::model::Decoder;
use betz::psc::{Filter, FilterBank};
use betz::recording::OutputInfo;
use betz::train::{Search, TrainOptions, train_validated};
use betz::{Error, Result};
use betz_live::plan::{LearnMode, RecalibrateMode};
use betz_live::{Pace, Part, Plan, Simulation, SimulationOptions, bin};

use crate::commands::emulate::Device;
use crate::report::Bar;

/// Length of a step in seconds.
const STEP_SECONDS: f64 = 0.02;

/// Most bytes of the sums that a model keeps for the online trainer, or for recalibration.
const RETAIN: usize = 64 << 20;

/// The plan of a simulated session, before `--set`. Late steps are counted and no failure: a newcomer's machine is no rig.
const PLAN: &str = r#"[session]
name = "simulated"
model = "simulated.betz"

[[source]]
name = "rig"
from = "simulated"

[voltage]
reference = "median"
feature = "crossings"
noise = { calibrate = "5s", track = "30s" }

[limits]
late_steps = 1
"#;

/// A simulated rig, its plan and the decoder that was trained on it.
pub(super) struct SimulatedSession {
    pub(super) simulation: Simulation,
    pub(super) plan: Plan,
    pub(super) model: Decoder,
    pub(super) noise: Option<Vec<f32>>,
}

/// Simulates and trains. The voltage has the microvolts per bit of `device`, if one is to send it.
pub(super) fn prepare(
    file: Option<&Path>,
    changes: &[String],
    device: Option<Device>,
) -> Result<SimulatedSession> {
    let plan = match file {
        Some(file) => Plan::read(file, changes)?,
        None => Plan::parse(PLAN, Path::new("simulated.toml"), changes)?,
    };
    if plan.records_only() {
        return Err(Error::argument(
            "--simulate: expected a plan with session.model, because a decoder is trained and run; got one that only records",
        ));
    }
    let mut options = SimulationOptions::default();
    if let Some(channels) = plan.source().channels {
        options.channels = channels;
    }
    if let Some(device) = device {
        options.microvolts = device.microvolts();
    }
    let simulation = Simulation::new(&options)?;
    let mut rig = simulation.rig(Part::Train, Pace::Fastest);
    let (bins, noise) = bin(&plan, &mut rig, STEP_SECONDS, None)?;
    let outputs = ["x", "y"].map(OutputInfo::from).to_vec();
    let recording = bins.into_recording(&plan, outputs, &|_, end| {
        Some(
            simulation
                .truth(Part::Train, end.saturating_sub(1))
                .to_vec(),
        )
    })?;
    let bank = FilterBank::new(vec![
        Filter {
            tau_seconds: 0.03,
            order: 1,
        },
        Filter {
            tau_seconds: 0.1,
            order: 1,
        },
    ])?;
    let data = recording.align(STEP_SECONDS)?;
    let keeps_sums =
        plan.learn.mode != LearnMode::Off || plan.recalibrate.mode != RecalibrateMode::Off;
    let options = TrainOptions {
        retain: keeps_sums.then_some(RETAIN),
        ..TrainOptions::new(bank)
    };
    let model = train_validated(&data, &options, &Search::ridge(), &Bar::new())
        .and_then(|model| crate::front_end::attach(recording.meta.as_deref(), model))
        .map_err(|e: Error| e.at("training on the simulated rig"))?;
    Ok(SimulatedSession {
        simulation,
        plan,
        model,
        noise,
    })
}
