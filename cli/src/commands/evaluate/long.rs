//! `betz evaluate --memory`: scores of a recording that is read in chunks.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;

use betz::model::Decoder;
use betz::recording::AlignReport;
use betz::train::long::{self, DecodedRow, Read};
use betz::train::{Evaluation, Overlap, TrainingData};
use betz::{Error, Result, input_form};
use serde::Serialize;

use super::args::Evaluate;
use crate::chunks;
use crate::data;
use crate::device;
use crate::report::{self, Bar, Outcome, Scores};

/// `betz evaluate --memory`.
pub(super) fn run(args: &Evaluate, model: &Decoder, memory: u64) -> Result<()> {
    chunks::refuse(
        &[
            ("--picture", args.picture.is_some()),
            ("--moving", args.moving.is_some()),
            ("--trials", args.trials),
            ("--chance", args.chance.is_some()),
            ("--importance", args.importance),
        ],
        "with --memory: it needs all decoded outputs at once",
    )?;
    let device = device::cpu_for("evaluating in chunks", &args.common.device)?;
    let (mut file, aligned) = chunks::open(&args.recording, &args.part, memory, |stretches| {
        input_form::check(model, stretches.outline().form)?;
        let stretches = stretches.with_channels(model.channel_names())?;
        Ok((stretches, model.step_seconds()))
    })?;
    let outline = file.outline().clone();
    if outline.outputs.is_empty() {
        return Err(Error::recording(format!(
            "{}: expected behaviour to score against, got none",
            args.recording.display()
        )));
    }
    let cuts = file.cuts().to_vec();
    let outputs = model.outputs().to_vec();
    let sample = TrainingData::read(model)?;
    let overlap = Mutex::new(Overlap::default());
    let mut read = |steps| {
        let chunk = file.read(steps)?.with_outputs(&outputs)?;
        if let (Some(sample), Ok(mut overlap)) = (&sample, overlap.lock()) {
            overlap.add(sample.overlap(&chunk));
        }
        Ok(chunk)
    };
    let mut run = |each: Row<'_>| {
        long::evaluate(model, &mut read, &outline, &cuts, each, &Bar::new())
            .map_err(|e| e.at(args.recording.display()))
    };
    let evaluation = match &args.out {
        None => run(&mut |_| Ok(()))?,
        Some(path) => written(path, model, outline.step_seconds, run)?,
    };
    let scores = Scores {
        median_error: None,
        outputs: evaluation.outputs,
        steps: evaluation.steps as usize,
        segments: evaluation.segments as usize,
        device,
        total_seconds: report::total_seconds(),
    };
    let overlap = overlap.into_inner().unwrap_or_default();
    let warnings: Vec<String> = overlap.warning().into_iter().collect();
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    let report = ChunkScores {
        scores,
        aligned,
        warnings,
    };
    report::tell(&report, args.common.json)
}

/// A function that hears each decoded step.
type Row<'a> = &'a mut dyn FnMut(DecodedRow<'_>) -> Result<()>;

/// Writes the decoded outputs that `run` gives to the table at `path`, whole or not at all.
fn written(
    path: &Path,
    model: &Decoder,
    step_seconds: f64,
    mut run: impl FnMut(Row<'_>) -> Result<Evaluation>,
) -> Result<Evaluation> {
    let mut found = None;
    let written = betz::file::write_atomically(path, |file| {
        let mut to = BufWriter::new(file);
        let columns = data::Columns {
            segment: false,
            truth: true,
        };
        data::write_outputs_header(&mut to, model.outputs(), columns)?;
        let mut each = |row: DecodedRow<'_>| {
            let row = data::OutputsRow {
                step: row.step,
                segment: None,
                estimate: row.estimate,
                truth: Some(row.truth),
            };
            data::write_outputs_row(&mut to, step_seconds, &row)
                .map_err(|e| Error::io("writing", path, &e))
        };
        found = Some(run(&mut each));
        match &found {
            // The file is not kept; what went wrong is said below.
            Some(Err(e)) => Err(std::io::Error::other(e.to_string())),
            _ => to.flush(),
        }
    });
    let evaluation = found.unwrap_or_else(|| Err(Error::argument("nothing was decoded")))?;
    written?;
    Ok(evaluation)
}

/// Scores, and the report on the behaviour.
#[derive(Serialize)]
struct ChunkScores {
    #[serde(flatten)]
    scores: Scores,
    aligned: AlignReport,
    /// Doubts about the scores, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Outcome for ChunkScores {
    fn print(&self) -> Result<()> {
        self.scores.print()
    }
}
