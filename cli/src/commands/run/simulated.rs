//! `betz run --simulate`: a rig with a known movement, and a decoder trained on a minute of it.

use std::path::Path;

use betz::model::Decoder;
use betz::psc::{Filter, FilterBank};
use betz::recording::OutputInfo;
use betz::train::{Search, TrainOptions, train_validated};
use betz::{Error, Result};
use betz_live::plan::{LearnMode, RecalibrateMode};
use betz_live::{Pace, Part, Plan, Simulation, SimulationOptions, bin};
#[cfg(feature = "lab")]
use betz_rigs::rig::Rig;

use super::args::{RigChoice, Run};
#[cfg(feature = "lab")]
use super::network::{NetworkRequest, NetworkRig};
use crate::report::Bar;

/// Length of a step in seconds.
pub(super) const STEP_SECONDS: f64 = 0.02;

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

/// The rig of a simulated session.
pub(super) enum SimulatedSource {
    /// Voltage of electrodes.
    Voltage(Simulation),
    /// Spikes of a network, which has simulated the part to train on.
    #[cfg(feature = "lab")]
    Network(Box<NetworkRig>),
}

/// True outputs by the row of the source.
type TruthOfRow = Box<dyn Fn(u64) -> [f32; 2]>;

impl SimulatedSource {
    /// Channels, and rows per second.
    pub(super) fn form(&self) -> (usize, f64) {
        match self {
            Self::Voltage(simulation) => {
                let signal = simulation.signal();
                (signal.channels, signal.rate)
            }
            #[cfg(feature = "lab")]
            Self::Network(rig) => rig
                .signal()
                .map_or((0, 0.0), |signal| (signal.channels, signal.rate)),
        }
    }

    /// The movement of a part.
    pub(super) fn truth(&self, part: Part) -> TruthOfRow {
        match self {
            Self::Voltage(simulation) => {
                let simulation = simulation.clone();
                Box::new(move |row| simulation.truth(part, row))
            }
            #[cfg(feature = "lab")]
            Self::Network(rig) => {
                let movement = rig.movement();
                Box::new(move |row| movement.at(row))
            }
        }
    }
}

/// A simulated rig, its plan and the decoder that was trained on it.
pub(super) struct SimulatedSession {
    pub(super) source: SimulatedSource,
    pub(super) plan: Plan,
    pub(super) model: Decoder,
    pub(super) noise: Option<Vec<f32>>,
}

/// Simulates and trains. The voltage has the microvolts per bit of the device, if one is to send it.
pub(super) fn prepare(args: &Run, choice: Option<&RigChoice>) -> Result<SimulatedSession> {
    let plan = match &args.plan {
        Some(file) => Plan::read(file, &args.set)?,
        None => Plan::parse(PLAN, Path::new("simulated.toml"), &args.set)?,
    };
    if plan.records_only() {
        return Err(Error::argument(
            "--simulate: expected a plan with session.model, because a decoder is trained and run; got one that only records",
        ));
    }
    let mut source = open_source(args, choice, &plan)?;
    let (bins, noise) = match &mut source {
        SimulatedSource::Voltage(simulation) => {
            let mut rig = simulation.rig(Part::Train, Pace::Fastest);
            bin(&plan, &mut rig, STEP_SECONDS, None)?
        }
        #[cfg(feature = "lab")]
        SimulatedSource::Network(rig) => {
            let bins = bin(&plan, &mut **rig, STEP_SECONDS, None)?;
            rig.go_on();
            bins
        }
    };
    let truth = source.truth(Part::Train);
    let outputs = ["x", "y"].map(OutputInfo::from).to_vec();
    let recording = bins.into_recording(&plan, outputs, &|_, end| {
        Some(truth(end.saturating_sub(1)).to_vec())
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
        source,
        plan,
        model,
        noise,
    })
}

/// Makes the rig.
fn open_source(args: &Run, choice: Option<&RigChoice>, plan: &Plan) -> Result<SimulatedSource> {
    let mut options = SimulationOptions::default();
    let channels = plan.source().channels;
    #[cfg(not(feature = "lab"))]
    let _ = args;
    #[cfg(feature = "lab")]
    match choice {
        Some(RigChoice::Network(name)) => {
            let asked = NetworkRequest {
                name,
                populations: args.populations.as_deref(),
                movement: args.movement.as_deref(),
                channels,
            };
            return Ok(SimulatedSource::Network(Box::new(NetworkRig::open(
                &asked,
            )?)));
        }
        _ if args.populations.is_some() || args.movement.is_some() => {
            return Err(Error::argument(
                "--populations, --movement: expected --simulate=FILE.json with a spiking network, got another rig",
            ));
        }
        _ => {}
    }
    if let Some(RigChoice::Device(device)) = choice {
        options.microvolts = device.microvolts();
    }
    if let Some(channels) = channels {
        options.channels = channels;
    }
    Simulation::new(&options).map(SimulatedSource::Voltage)
}
