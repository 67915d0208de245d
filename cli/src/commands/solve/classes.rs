//! `betz solve --calibrate`: a decoder of classes from sums over labels.

use std::path::Path;

use betz::model::Decoder;
use betz::recording::AlignReport;
use betz::train::{ClassOptions, ClassReport};
use betz::{Error, Result};
use serde::Serialize;

use super::args::Solve;
use super::merged;
use crate::common_args::Part;
use crate::data;
use crate::labels;
use crate::report::{self, Outcome, count};

#[derive(Serialize)]
struct ClassSolveReport {
    model: String,
    decoder: &'static str,
    /// Recordings behind the sums.
    parts: usize,
    channels: usize,
    masked_channels: usize,
    steps: u64,
    /// Scores on the recording of `--calibrate`.
    classes: ClassReport,
    aligned: AlignReport,
    device: String,
    total_seconds: f64,
}

/// Refuses options of a recording without one.
pub(super) fn check_part(part: &Part) -> Result<()> {
    if part.segments.is_none() && part.from.is_none() && part.until.is_none() {
        return Ok(());
    }
    Err(Error::argument(
        "--segments, --from, --until: expected --calibrate RECORDING that they are of, got none",
    ))
}

/// Solves the sums of `args`, and calibrates on the recording at `path` and the labels that `text` names.
pub(super) fn run(args: &Solve, (path, text): (&Path, &str), device: String) -> Result<()> {
    let sums = merged(&args.inputs)?;
    let recording = data::read_recording(path, &args.part.behavior)?;
    let at = |e: Error| e.at(path.display());
    let step = sums.form().step_seconds;
    let (dataset, aligned) = data::aligned_dataset(recording, step, &args.part).map_err(at)?;
    let labels = labels::read(text, &dataset)?;
    let options = ClassOptions {
        false_alarms: args.false_alarms,
        priors: args.priors.clone(),
        ..ClassOptions::default()
    };
    let (decoder, classes) = sums.solve_classes((&dataset, &labels), &options)?;
    let model: Decoder = labels::marked(decoder, text)?;
    model.save(&args.out)?;
    if let Some(warning) = classes.scores.event_warning() {
        eprintln!("warning: {warning}");
    }
    let solved = ClassSolveReport {
        model: args.out.display().to_string(),
        decoder: model.kind(),
        parts: sums.parts(),
        channels: model.channels(),
        masked_channels: model.channel_mask().iter().filter(|used| !**used).count(),
        steps: sums.steps(),
        classes,
        aligned,
        device,
        total_seconds: report::total_seconds(),
    };
    report::tell(&solved, args.common.json)
}

impl Outcome for ClassSolveReport {
    fn print(&self) -> Result<()> {
        report::line("scores on the recording that calibrates:")?;
        labels::print_training(&self.classes)?;
        report::line(&format!(
            "{}: classes by linear discriminant analysis, {} of {} channels, from the sums of {} over {}",
            self.model,
            self.channels - self.masked_channels,
            self.channels,
            count(self.parts as u128, "recording"),
            count(self.steps, "step")
        ))
    }
}
