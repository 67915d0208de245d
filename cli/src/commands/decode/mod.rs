//! `betz decode`: the outputs of a whole recording, in a file.

pub(crate) mod args;
#[cfg(feature = "graph")]
mod network;
mod print;

use betz::device::Device;
use betz::model::{Decoder, blanking_warning};
use betz::recording::Recording;
use betz::train::score::score_estimates_on;
use betz::{Error, ErrorKind, Result};
use std::borrow::Cow;

use crate::clusterless;
use crate::data;
use crate::decoded::{self, Outputs};
use crate::device;
use crate::files::Files;
use crate::rates::Rates;
use crate::report;
use args::Decode;
use print::{BehaviorScores, DecodingReport};

pub(crate) fn run(args: &Decode) -> Result<()> {
    let out = args.out.as_path();
    Files::new(&args.common)
        .reads("MODEL", &args.model)
        .reads("RECORDING", &args.recording)
        .writes("--out", out, decoded::kind(out)?)?;
    #[cfg(feature = "rig")]
    decoded::check(Some(out), &args.recording)?;
    if is_network(args) {
        return decode_network(args);
    }
    #[cfg(feature = "graph")]
    network::check_unused(args)?;
    if clusterless::is_one(&args.model) {
        return clusterless::decode(args);
    }
    let device = device::open(&args.common.device)?;
    let model = Decoder::load(&args.model)?;
    let mut recording = data::recording_for(&model, &args.recording, &args.part.behavior)?;
    let with_behavior = recording.behavior.is_some().then(|| recording.clone());
    // Every step is decoded, also without behaviour.
    recording.behavior = None;
    let phases = (args.every).map_or(Ok(1), |every| decoded::phases(&model, every))?;
    let tick = model.step_seconds() / phases as f64;
    let steps = data::steps_of(&recording, tick);
    let decoded = match args.every {
        None => decoded::whole(&device, &model, recording, &args.part),
        Some(_) => {
            let device = device::cpu_for("a session", &args.common.device)?;
            decoded::at_ticks(&model, recording, &args.part, (phases, device))
        }
    }
    .map_err(|e| e.at(args.recording.display()))?;
    let rates = Rates::of(&model, &decoded.dataset);
    if let Some(rates) = &rates {
        rates.warn();
    }
    let outputs = Outputs {
        out,
        recording: &args.recording,
        behavior: &args.part.behavior,
        model: &args.model,
        segments: true,
    };
    outputs.write((&model).into(), &decoded.dataset, &decoded.estimates)?;
    let mut warnings = Vec::new();
    if phases == 1 {
        warnings.extend(blanking_warning(&model, &decoded.dataset));
    }
    warnings.iter().for_each(|w| eprintln!("warning: {w}"));
    let scored = with_behavior
        .map(|recording| {
            scores(
                (args, phases),
                &device,
                &model,
                recording,
                &decoded.estimates,
            )
        })
        .transpose()?
        .flatten();
    let outputs = scored.map(|(outputs, about)| {
        warnings.extend(about);
        outputs
    });
    let steps_in_segments = decoded.dataset.steps_in_segments();
    let report = DecodingReport {
        out: out.display().to_string(),
        outputs,
        output_names: model.outputs().iter().map(|o| o.name.clone()).collect(),
        steps: steps_in_segments,
        segments: decoded.dataset.segments.len(),
        steps_not_decoded: steps.saturating_sub(steps_in_segments),
        rates_hz: rates,
        warnings,
        device: decoded.device,
        total_seconds: report::total_seconds(),
    };
    report::tell(&report, args.common.json)
}

/// True if the model is a network in an ONNX file.
fn is_network(args: &Decode) -> bool {
    let ending = args.model.extension();
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"))
}

#[cfg(feature = "graph")]
use network::run as decode_network;

#[cfg(not(feature = "graph"))]
fn decode_network(args: &Decode) -> Result<()> {
    Err(Error::argument(format!(
        "MODEL: expected a model of Betz, got the ONNX file {}; betz import makes a model of it, and networks that it refuses are decoded by a betz built with --features graph (docs/connect.md)",
        args.model.display()
    )))
}

/// Scores of the steps with behaviour, or of the ticks if a step has several, and warnings about them; `None`, with the reason on standard error, if
/// the behaviour is not the model's.
fn scores(
    (args, phases): (&Decode, usize),
    device: &Device,
    model: &Decoder,
    recording: Recording,
    estimates: &[f32],
) -> Result<Option<(BehaviorScores, Vec<String>)>> {
    let at = |e: Error| e.at(args.recording.display());
    let tick = model.step_seconds() / phases as f64;
    let dataset = data::aligned(Cow::Owned(recording), tick, &args.part)
        .and_then(|(dataset, _)| dataset.with_outputs(model.outputs()));
    let dataset = match dataset {
        Ok(dataset) => dataset,
        Err(e) if matches!(e.kind(), ErrorKind::Mismatch | ErrorKind::InsufficientData) => {
            report::note(&format!("not scored: {}", e.message()));
            return Ok(None);
        }
        Err(e) => return Err(at(e)),
    };
    let delay = model.delay_steps().saturating_mul(phases as i64);
    let scores = score_estimates_on(device, &dataset, estimates, delay).map_err(at)?;
    // Ticks of a session are no steps of training.
    let warnings = match phases {
        1 => report::warn_of_scores(model, &dataset)?,
        _ => Vec::new(),
    };
    let scores = BehaviorScores {
        outputs: scores.outputs,
        steps: dataset.steps_in_segments(),
    };
    Ok(Some((scores, warnings)))
}
