//! `--memory`: training, summing and evaluating on recordings that are read in stretches.

use std::io::{BufWriter, Write};
use std::path::Path;

use betz::device::Device;
use betz::model::Decoder;
use betz::psc::FilterBank;
use betz::recording::{AlignOptions, Dataset, Stretches};
use betz::team::{Alone, Team};
use betz::train::long::{self, Decoded, File, LongOptions, Read, Work};
use betz::train::sums::Sums;
use betz::{Error, ErrorKind, Result, input_form};

use super::{sums as sums_command, train as train_command};
use crate::args::{DecoderKind, Evaluate, Train};
use crate::common_args::Part;
use crate::data;
use crate::device;
use crate::report::{self, Bar, Scores};
use crate::sums_args;

/// Opens the recording at `path`, what `part` names of it, seen as `seen` does, on a clock of the step that it gives.
fn open(
    path: &Path,
    part: &Part,
    memory: u64,
    seen: impl FnOnce(Stretches) -> Result<(Stretches, f64)>,
) -> Result<File> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if !ending.eq_ignore_ascii_case("npz") {
        return Err(Error::argument(format!(
            "--memory: expected a recording that is read in stretches (.npz), got {}",
            path.display()
        )));
    }
    part.behavior.none_in_stretches()?;
    let at = |e: Error| e.at(path.display());
    let mut stretches = Stretches::open(path)?;
    let whole = stretches.outline();
    report::note(&format!(
        "{}: {}, {:.1} s, {}, read in stretches",
        path.display(),
        report::count(whole.channels() as u128, "channel"),
        whole.seconds(),
        report::count(whole.segments.len() as u128, "segment"),
    ));
    if let Some(list) = &part.segments {
        let wanted = data::parse_ranges("--segments", list, whole.segments.len())?;
        let segments = wanted.iter().map(|&i| whole.segments[i]).collect();
        stretches = stretches.with_segments(segments)?;
    }
    data::check_gap(part)?;
    let (mut stretches, step_seconds) = seen(stretches).map_err(at)?;
    let options = AlignOptions {
        step_seconds,
        max_gap_seconds: part.max_gap,
    };
    if part.from.is_some() || part.until.is_some() {
        let (from, until) = (
            part.from.unwrap_or(0.0),
            part.until.unwrap_or(f64::INFINITY),
        );
        stretches = stretches.between(&options, from, until).map_err(at)?;
    }
    File::new(stretches, options, memory).map_err(at)
}

/// The recording of `betz train --memory`, and what is trained on it.
pub(crate) fn prepared(args: &Train, memory: u64) -> Result<(File, LongOptions)> {
    for (option, given) in [
        ("--decoder", args.decoder != DecoderKind::Linear),
        ("--delay auto", args.delay == "auto"),
        ("--variance", args.variance),
    ] {
        if given {
            return Err(Error::argument(format!(
                "{option}: expected none beside --memory, which trains a linear decoder at a given delay in stretches"
            )));
        }
    }
    let file = open(&args.recording, &args.part, memory, |stretches| {
        let step = args
            .step
            .unwrap_or_else(|| data::default_step(stretches.outline()));
        let stretches = match train_command::groups(stretches.outline(), args)? {
            Some(groups) => stretches.combine(&groups)?,
            None => stretches,
        };
        Ok((stretches, step))
    })?;
    let (options, search) = train_command::choices(args, &sizes(&file), &Bar::new())?;
    let options = LongOptions {
        train: options,
        search: (args.folds > 0).then_some(search),
        leave_out_silent: !args.refuse_dead,
    };
    Ok((file, options))
}

/// `betz train --memory`.
pub(crate) fn train(team: &dyn Team, args: &Train, device: &Device, memory: u64) -> Result<()> {
    let (mut file, options) = prepared(args, memory)?;
    let bar = Bar::new();
    let (outline, form) = (file.outline().clone(), file.form());
    let cuts = file.cuts().to_vec();
    let work = Work {
        team,
        device,
        outline: &outline,
        cuts: &cuts,
        memory,
        progress: &bar,
    };
    let trained = (work.train(&mut file, &options)).map_err(|e| e.at(args.recording.display()))?;
    let Some(trained) = trained else {
        return Ok(());
    };
    device::note_fallback(&trained.ran, "training");
    let model = input_form::marked(trained.decoder, form)?;
    model.save(&args.out)?;
    let seconds = bar.seconds();
    drop(bar);
    train_command::print(args, &model, None, trained.ran.device, seconds, None)
}

/// How much there is of a recording, without what it holds.
fn sizes(file: &File) -> Dataset {
    let outline = file.outline();
    Dataset {
        step_seconds: outline.step_seconds,
        steps: usize::try_from(outline.steps).unwrap_or(usize::MAX),
        channel_names: outline.channel_names.clone(),
        spikes: betz::recording::Spikes::default(),
        segments: file.whole_steps(),
        outputs: outline.outputs.clone(),
        behavior: Vec::new(),
    }
}

/// The sums over the recording at `path`, for `betz sums --memory`.
pub(super) fn sums(
    args: &sums_args::Sums,
    device: &Device,
    path: &Path,
    bank: FilterBank,
    memory: u64,
) -> Result<Sums> {
    let mut file = open(path, &args.part, memory, |stretches| {
        let step = args
            .step
            .unwrap_or_else(|| data::default_step(stretches.outline()));
        Ok((stretches, step))
    })?;
    let outline = file.outline().clone();
    let options = sums_command::options(args, bank, outline.step_seconds)?;
    let cuts = file.cuts().to_vec();
    let work = Work {
        team: &Alone,
        device,
        outline: &outline,
        cuts: &cuts,
        memory,
        progress: &Bar::new(),
    };
    let sums = (work.sums(&mut file, &options)).map_err(|e| e.at(path.display()))?;
    sums.ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "sums: expected those of one process, got none",
        )
    })
}

/// `betz evaluate --memory`.
pub(super) fn evaluate(args: &Evaluate, model: &Decoder, memory: u64) -> Result<()> {
    for (option, given) in [
        ("--picture", args.picture.is_some()),
        ("--moving", args.moving.is_some()),
        ("--trials", args.trials),
        ("--chance", args.chance.is_some()),
        ("--importance", args.importance),
    ] {
        if given {
            return Err(Error::argument(format!(
                "{option}: expected none beside --memory: it wants all decoded outputs at once"
            )));
        }
    }
    let device = device::cpu_for("evaluating in stretches", &args.common.device)?;
    let mut file = open(&args.recording, &args.part, memory, |stretches| {
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
    let mut read = |steps| file.read(steps)?.with_outputs(&outputs);
    let mut run = |each: &mut dyn FnMut(Decoded<'_>) -> Result<()>| {
        long::evaluate(model, &mut read, &outline, &cuts, each, &Bar::new())
            .map_err(|e| e.at(args.recording.display()))
    };
    let evaluation = match &args.out {
        None => run(&mut |_| Ok(()))?,
        Some(path) => {
            let mut found = None;
            let written = betz::file::write_atomically(path, |file| {
                let mut to = BufWriter::new(file);
                data::write_outputs_header(&mut to, model, true)?;
                let mut each = |row: Decoded<'_>| {
                    data::write_outputs_row(
                        &mut to,
                        outline.step_seconds,
                        row.step,
                        row.estimate,
                        Some(row.truth),
                    )
                    .map_err(|e| Error::io("writing", path, &e))
                };
                found = Some(run(&mut each));
                match &found {
                    // The file is not kept; what went wrong is said below.
                    Some(Err(e)) => Err(std::io::Error::other(e.to_string())),
                    _ => to.flush(),
                }
            });
            let evaluation =
                found.unwrap_or_else(|| Err(Error::argument("nothing was decoded")))?;
            written?;
            evaluation
        }
    };
    let scores = Scores {
        median_error: None,
        outputs: evaluation.outputs,
        steps: evaluation.steps as usize,
        segments: evaluation.segments as usize,
        device,
        total_seconds: report::total_seconds(),
    };
    if args.common.json {
        return report::json(&scores);
    }
    scores.print()
}
