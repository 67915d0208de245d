//! `betz evaluate`: score a model on a recording by batch decoding.

use betz::model::{self, Decoder};
use betz::{Error, Result};

use crate::args::Evaluate;
use crate::data;
use crate::device;
use crate::report::{self, Scores};

pub(crate) fn run(args: &Evaluate) -> Result<()> {
    let device = device::cpu_for("evaluate", &args.common.device)?;
    let model = Decoder::load(&args.model)?;
    let dataset = data::dataset_for(&model, &args.recording, &args.part)?;
    if dataset.outputs.is_empty() {
        return Err(Error::recording(format!(
            "{}: expected behaviour to score against, got none",
            args.recording.display()
        )));
    }
    let decoded = model::decode(&model, &dataset)?;
    if let Some(path) = &args.out {
        data::write_outputs(path, &model, &dataset, &decoded)?;
    }
    let scores = Scores {
        outputs: data::score(&model, &dataset, &decoded)?,
        steps: dataset.steps_in_segments(),
        segments: dataset.segments.len(),
        device,
    };
    if args.common.json {
        report::json(&scores)
    } else {
        scores.print()
    }
}
