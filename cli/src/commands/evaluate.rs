//! `betz evaluate`: score a model on a recording by batch decoding.

use betz::model::{self, Decoder};
use betz::train::evaluate_on;
use betz::train::score::score_estimates_on;
use betz::{Error, Result};

use crate::args::Evaluate;
use crate::data;
use crate::device;
use crate::report::{self, Scores};

pub(crate) fn run(args: &Evaluate) -> Result<()> {
    if let Some(path) = &args.out {
        data::check_output("--out", path, &[])?;
    }
    let device = device::open(&args.common.device)?;
    let model = Decoder::load(&args.model)?;
    let dataset = data::dataset_for(&model, &args.recording, &args.part)?;
    if dataset.outputs.is_empty() {
        return Err(Error::recording(format!(
            "{}: expected behaviour to score against, got none",
            args.recording.display()
        )));
    }
    let dataset = dataset.with_outputs(model.outputs())?;
    let evaluation = if let Some(path) = &args.out {
        let decoded = model::decode_on(&device, &model, &dataset)?;
        data::write_outputs(path, &model, &dataset, &decoded)?;
        score_estimates_on(&device, &dataset, &decoded, model.delay_steps())?
    } else {
        evaluate_on(&device, &model, &dataset)?
    };
    device::note_fallback(&device, "evaluation");
    let scores = Scores {
        outputs: evaluation.outputs,
        steps: dataset.steps_in_segments(),
        segments: dataset.segments.len(),
        device: model::choose_device(&device, &model, &dataset).name(),
    };
    if args.common.json {
        report::json(&scores)
    } else {
        scores.print()
    }
}
