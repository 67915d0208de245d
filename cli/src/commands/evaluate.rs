//! `betz evaluate`: score a model on a recording by batch decoding.

use betz::model::{self, Decoder};
use betz::train::evaluate_on;
use betz::train::score::{place_error, score_estimates_on, while_moving};
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
    let chosen = model::choose_device(&device, &model, &dataset);
    let (evaluation, place) = if args.out.is_none() && args.moving.is_none() && !chosen.is_cpu() {
        (evaluate_on(&device, &model, &dataset)?, None)
    } else {
        let mut decoded = model::decode_on(&device, &model, &dataset)?;
        if let Some(path) = &args.out {
            data::write_outputs(path, &model, &dataset, &decoded)?;
        }
        let delay = model.delay_steps();
        if let Some(least) = args.moving {
            decoded = while_moving(&dataset, decoded, delay, least)?;
        }
        let place = place_error(&dataset, &decoded, delay)?;
        (
            score_estimates_on(&device, &dataset, &decoded, delay)?,
            place,
        )
    };
    device::note_fallback(&device, "evaluation");
    let scores = Scores {
        outputs: evaluation.outputs,
        median_error: place.as_ref().map(|place| place.median),
        steps: match (&place, args.moving) {
            (Some(place), Some(_)) => place.steps as usize,
            _ => dataset.steps_in_segments(),
        },
        segments: dataset.segments.len(),
        device: model::choose_device(&device, &model, &dataset).name(),
    };
    if args.common.json {
        report::json(&scores)
    } else {
        scores.print()?;
        place.map_or(Ok(()), |place| {
            report::line(&format!(
                "median distance from ({}): {:.4} {}",
                place.outputs.join(", "),
                place.median,
                place.unit
            ))
        })
    }
}
