//! `betz solve`: a decoder from sums, or a model's linear part solved again from those that it retains.

pub(crate) mod args;
mod classes;

use std::path::{Path, PathBuf};
use std::time::Instant;

use betz::model::{Decoder, OutputScore};
use betz::train::retained::{Refit, StoredStatistics};
use betz::train::sums::{SolveOptions, Sums};
use betz::train::{MaskPolicy, RidgeChoice};
use betz::{Error, Result};
use serde::Serialize;

use crate::device;
use crate::files::{Files, Kind, first_bytes};
use crate::report::{self, Outcome, Table, count};
use args::Solve;

#[derive(Serialize)]
struct SolveReport {
    model: String,
    decoder: &'static str,
    /// Recordings behind the sums; absent of a model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    channels: usize,
    masked_channels: usize,
    features: usize,
    ridge: f64,
    steps: u64,
    /// Scores on the sums held back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_back: Vec<HeldBack>,
    /// Cross-validated scores: each file decoded from the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    validated: Vec<HeldBack>,
    device: String,
    /// Seconds to solve.
    seconds: f64,
    /// Warnings, also printed on standard error.
    warnings: Vec<String>,
    /// All of the command's time.
    total_seconds: f64,
}

#[derive(Serialize)]
struct HeldBack {
    name: String,
    unit: String,
    r2: f64,
    rmse: f64,
}

pub(crate) fn run(args: &Solve) -> Result<()> {
    let mut files = Files::new(&args.common);
    for path in &args.inputs {
        files = files.reads("SUMS|MODEL", path);
    }
    for path in &args.hold_back {
        files = files.reads("--hold-back", path);
    }
    if let Some(path) = &args.calibrate {
        files = files.reads("--calibrate", path);
    }
    files.writes("--out", &args.out, Kind::Model)?;
    let device = device::cpu_for("solving", &args.common.device)?;
    if let (Some(path), Some(labels)) = (&args.calibrate, &args.labels) {
        return classes::run(args, (path, labels), device);
    }
    classes::check_part(&args.part)?;
    let models = (args.inputs.iter())
        .map(|path| Ok(first_bytes(path)? == *b"BETZMODL"))
        .collect::<Result<Vec<bool>>>()?;
    let mut warnings = Vec::new();
    let (model, parts, scores, seconds) = if models.contains(&true) {
        let [path] = &args.inputs[..] else {
            return Err(Error::argument(format!(
                "expected files of sums, or one model, got {} and among them a model",
                count(args.inputs.len() as u128, "file")
            )));
        };
        let (model, seconds) = again(args, path)?;
        (model, None, Vec::new(), seconds)
    } else {
        let (model, parts, scores, seconds) = of_sums(args, &mut warnings)?;
        (model, Some(parts), scores, seconds)
    };
    model.save(&args.out)?;
    let scores: Vec<HeldBack> = (scores.into_iter())
        .map(|o| HeldBack {
            name: o.name,
            unit: o.unit,
            r2: o.r2,
            rmse: o.rmse,
        })
        .collect();
    let (held_back, validated) = if validates(args) {
        (Vec::new(), scores)
    } else {
        (scores, Vec::new())
    };
    let solved = SolveReport {
        model: args.out.display().to_string(),
        decoder: model.kind(),
        parts,
        channels: model.channels(),
        masked_channels: model.channel_mask().iter().filter(|used| !**used).count(),
        features: model.features(),
        ridge: model.training().ridge,
        steps: model.training().steps,
        held_back,
        validated,
        device,
        seconds,
        warnings,
        total_seconds: report::total_seconds(),
    };
    report::tell(&solved, args.common.json)
}

/// The model at `path`, solved again from the sums that it retains.
fn again(args: &Solve, path: &Path) -> Result<(Decoder, f64)> {
    for (option, given) in [
        ("--noise", args.noise.is_some()),
        ("--hold-back", !args.hold_back.is_empty()),
        ("--validate", args.validate),
        ("--retain", args.retain.is_some()),
        ("--refuse-dead", args.refuse_dead),
    ] {
        if given {
            return Err(Error::argument(format!(
                "{option}: expected sums, got a model, which is solved again by --ridge"
            )));
        }
    }
    let Some(ridge) = args.ridge else {
        return Err(Error::argument(
            "--ridge: expected the ridge at which the model is solved again, got none",
        ));
    };
    let at = |e: Error| e.at(path.display());
    let model = Decoder::load(path)?;
    let retained = StoredStatistics::read(&model).map_err(at)?;
    let started = Instant::now();
    let refit = Refit::new(&model, &retained).map_err(at)?;
    let model = refit.solve(&retained.sums, ridge).map_err(at)?;
    Ok((model, started.elapsed().as_secs_f64()))
}

fn loaded(paths: &[PathBuf]) -> Result<Vec<Sums>> {
    paths.iter().map(|path| Sums::load(path)).collect()
}

fn merged(paths: &[PathBuf]) -> Result<Sums> {
    let mut all: Option<Sums> = None;
    for path in paths {
        let sums = Sums::load(path)?;
        match &mut all {
            Some(all) => all.merge(&sums).map_err(|e| e.at(path.display()))?,
            None => all = Some(sums),
        }
    }
    all.ok_or_else(|| Error::argument("expected files of sums, got none"))
}

/// True if the ridge is cross-validated over the files: on request, and by default for two files or more.
fn validates(args: &Solve) -> bool {
    let given = args.ridge.is_some() || args.noise.is_some() || !args.hold_back.is_empty();
    args.validate || (!given && args.inputs.len() > 1)
}

/// The model, how many recordings it is of, what it scores elsewhere, and seconds to solve.
fn of_sums(
    args: &Solve,
    warnings: &mut Vec<String>,
) -> Result<(Decoder, usize, Vec<OutputScore>, f64)> {
    let mut options = SolveOptions::with(match (args.ridge, args.noise) {
        (Some(ridge), _) => RidgeChoice::Fixed(ridge),
        (None, Some(noise)) => RidgeChoice::RelativeNoise(noise),
        (None, None) => RidgeChoice::Generalised,
    });
    if args.refuse_dead {
        options.mask = MaskPolicy::Refuse;
    }
    options.retain = (args.retain).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if validates(args) {
        let parts = loaded(&args.inputs)?;
        let started = Instant::now();
        let (model, score) = Sums::cross_validate(&parts, &options)?;
        warn_of_masks(&merged(&args.inputs)?, &model, warnings);
        let recordings = parts.iter().map(Sums::parts).sum();
        return Ok((
            model,
            recordings,
            score.outputs,
            started.elapsed().as_secs_f64(),
        ));
    }
    if args.ridge.is_none() && args.noise.is_none() && args.hold_back.is_empty() {
        report::note(
            "ridge by generalised cross-validation: a single file of sums leaves nothing to hold out, so there are no scores; give the recordings' files apart, or --hold-back",
        );
    }
    let sums = merged(&args.inputs)?;
    let held_back = match args.hold_back[..] {
        [] => None,
        _ => Some(merged(&args.hold_back)?),
    };
    let started = Instant::now();
    let (model, scores) = match held_back {
        None => (sums.solve(&options)?, Vec::new()),
        Some(aside) => {
            let (model, score) = sums.solve_held_back(&aside, &options)?;
            (model, score.outputs)
        }
    };
    warn_of_masks(&sums, &model, warnings);
    Ok((model, sums.parts(), scores, started.elapsed().as_secs_f64()))
}

/// Tells which channels `model`, solved from `sums`, leaves out and why.
fn warn_of_masks(sums: &Sums, model: &Decoder, warnings: &mut Vec<String>) {
    if let Some(warning) = sums.masked_warning(model) {
        eprintln!("warning: {warning}");
        warnings.push(warning);
    }
}

impl Outcome for SolveReport {
    fn print(&self) -> Result<()> {
        for (scores, of) in [
            (&self.held_back, "on the sums held back:"),
            (&self.validated, "each file, decoded from the others:"),
        ] {
            if scores.is_empty() {
                continue;
            }
            report::line(of)?;
            let mut table = Table::new(&["output", "R²", "RMSE", "unit"]);
            for o in scores {
                let (r2, rmse) = (format!("{:.4}", o.r2), format!("{:.4}", o.rmse));
                table.row([o.name.clone(), r2, rmse, o.unit.clone()]);
            }
            table.print()?;
        }
        if self.masked_channels > 0 {
            report::line(&format!(
                "{} of {} masked (silent, or copies of others)",
                self.masked_channels,
                count(self.channels as u128, "channel")
            ))?;
        }
        let from = match self.parts {
            Some(parts) => format!("the sums of {}", count(parts as u128, "recording")),
            None => "the sums that the model retains".to_owned(),
        };
        report::line(&format!(
            "{}: {}, ridge {:.4e}, from {from} over {}, solved in {:.2} s on {}",
            self.model,
            self.decoder,
            self.ridge,
            count(self.steps, "step"),
            self.seconds,
            self.device
        ))
    }
}
