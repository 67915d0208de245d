//! A recording decoded by a network of any ONNX operators.

use betz::device::Device;
use betz::recording::{Dataset, OutputInfo, Recording};
use betz::train::score::score_estimates_on;
use betz::{Error, Result};
use betz_graph::{Network, Options};
use std::borrow::Cow;

use super::args::Decode;
use super::print::{BehaviorScores, DecodingReport};
use crate::data;
use crate::decoded::{Outputs, Source};
use crate::device;
use crate::report::{self, Bar};

/// Refuses options of ONNX networks for a model of Betz.
pub(super) fn check_unused(args: &Decode) -> Result<()> {
    let given = [
        ("--window", args.network.window.is_some()),
        ("--step", args.network.step.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Error::argument(format!(
            "{option}: expected an ONNX network, got the model {}",
            args.model.display()
        ))),
        None => Ok(()),
    }
}

pub(super) fn run(args: &Decode) -> Result<()> {
    if args.every.is_some() {
        return Err(Error::argument(
            "--every: expected a model of Betz, got an ONNX network, which is decoded at its own step",
        ));
    }
    let device = device::cpu_for("an ONNX network", &args.common.device)?;
    let at = |e: Error| e.at(args.recording.display());
    let mut recording = data::read_recording(&args.recording, &args.part.behavior)?;
    let options = Options {
        window: args.network.window,
    };
    let network = Network::read(&args.model, recording.channels(), options)?;
    if !network.unused_outputs().is_empty() {
        report::note(&format!(
            "not decoded: the outputs {}",
            network.unused_outputs().join(", ")
        ));
    }
    let step = (args.network.step.or(network.step_seconds()))
        .unwrap_or_else(|| data::default_step(&recording));
    let truth = match recording.behavior.is_some() {
        true => truth(args, recording.clone(), step, network.outputs())?,
        false => None,
    };
    // Every step is decoded, also without behaviour.
    recording.behavior = None;
    let steps = data::steps_of(&recording, step);
    let dataset = data::dataset(recording, step, &args.part).map_err(at)?;
    let values = dataset.steps as u128 * network.outputs() as u128;
    betz::memory::plan("the decoded outputs", values * 4)?;
    let estimates = network.decode(&dataset, &Bar::new()).map_err(at)?;
    let infos = match &truth {
        Some(truth) => truth.outputs.clone(),
        None => (0..network.outputs())
            .map(|o| OutputInfo::from(format!("output {o}").as_str()))
            .collect(),
    };
    let outputs = Outputs {
        out: &args.out,
        recording: &args.recording,
        behavior: &args.part.behavior,
        model: &args.model,
        segments: true,
    };
    let source = Source {
        outputs: &infos,
        kind: "onnx",
        version: None,
    };
    outputs.write(source, &dataset, &estimates)?;
    let scored = match truth {
        Some(truth) => Some(BehaviorScores {
            outputs: score_estimates_on(&Device::cpu(), &truth, &estimates, 0)
                .map_err(at)?
                .outputs,
            steps: truth.steps_in_segments(),
            warnings: Vec::new(),
        }),
        None => None,
    };
    let decoded = DecodingReport {
        out: args.out.display().to_string(),
        outputs: scored,
        output_names: infos.into_iter().map(|output| output.name).collect(),
        steps: dataset.steps_in_segments(),
        segments: dataset.segments.len(),
        steps_not_decoded: steps.saturating_sub(dataset.steps_in_segments()),
        rates_hz: None,
        device,
        total_seconds: report::total_seconds(),
    };
    report::tell(&decoded, args.common.json)
}

/// The behaviour that a network's `outputs` estimate; `None`, with a note, if the recording has another number.
fn truth(
    args: &Decode,
    recording: Recording,
    step: f64,
    outputs: usize,
) -> Result<Option<Dataset>> {
    let (dataset, _) = data::aligned(Cow::Owned(recording), step, &args.part)
        .map_err(|e| e.at(args.recording.display()))?;
    if dataset.outputs.len() == outputs {
        return Ok(Some(dataset));
    }
    report::note(&format!(
        "not scored: expected {outputs} outputs of behaviour, as the network has, got {}; --behavior NAME chooses",
        dataset.outputs.len()
    ));
    Ok(None)
}
