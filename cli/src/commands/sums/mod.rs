//! `betz sums`: what training needs of recordings, in a file, and such files merged.

pub(crate) mod args;

use std::path::Path;

use betz::device::Device;
use betz::recording::{AlignReport, OutputInfo};
use betz::team::Alone;
use betz::train::TrainOptions;
use betz::train::long::Work;
use betz::train::sums::{MAGIC, Sums};
use betz::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::bank::{self, FilterShape};
use crate::chunks;
use crate::data;
use crate::device;
use crate::files::{Files, Kind, first_bytes};
use crate::labels;
use crate::report::{self, Bar, Outcome, count, number};
use args::Sums as Arguments;

/// Content of a file of sums.
#[derive(Serialize)]
struct Facts {
    kind: &'static str,
    file: String,
    bytes: u64,
    /// Recordings that were summed.
    parts: usize,
    channels: usize,
    features: usize,
    step_seconds: f64,
    filters: Vec<FilterShape>,
    low_pass_hz: Option<f64>,
    delay_seconds: f64,
    outputs: Vec<String>,
    steps: u64,
    segments: u64,
    spikes: u64,
    artefacts: u64,
    /// True if steps with far more spikes than usual were summed as they are.
    keeps_artefacts: bool,
    /// Report on each recording's behaviour that was left out or interpolated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aligned: Vec<AlignReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// All of the command's time.
    total_seconds: f64,
}

impl Facts {
    fn of(sums: &Sums, path: &Path, bytes: u64) -> Self {
        let form = sums.form();
        let name = |o: &OutputInfo| o.name.clone();
        Self {
            kind: "sums",
            file: path.display().to_string(),
            bytes,
            parts: sums.parts(),
            channels: form.channel_names.len(),
            features: form.features(),
            step_seconds: form.step_seconds,
            filters: bank::shapes(&form.bank),
            low_pass_hz: form.low_pass.map(|l| l.cutoff_hz),
            delay_seconds: form.delay_steps as f64 * form.step_seconds,
            outputs: form.outputs.iter().map(name).collect(),
            steps: sums.steps(),
            segments: sums.segments(),
            spikes: sums.spikes(),
            artefacts: sums.artefacts(),
            keeps_artefacts: sums.keeps_artefacts(),
            aligned: Vec::new(),
            device: None,
            total_seconds: report::total_seconds(),
        }
    }
}

impl Outcome for Facts {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: sums over {} of {}, {} into {}, {} bytes",
            self.file,
            count(self.parts as u128, "recording"),
            count(self.channels as u128, "channel"),
            count(self.features as u128, "feature"),
            count(self.outputs.len() as u128, "output"),
            self.bytes
        ))?;
        report::line(&format!(
            "bank (tau s:order): {}",
            bank::text(&self.filters)
        ))?;
        report::line(&format!(
            "step {} s, delay {} s, low-pass {}",
            number(self.step_seconds),
            number(self.delay_seconds),
            self.low_pass_hz
                .map_or_else(|| "none".to_owned(), |hz| format!("{} Hz", number(hz)))
        ))?;
        report::line(&format!(
            "{}, {} and {}; {}",
            count(self.steps, "step"),
            count(self.segments, "segment"),
            count(self.spikes, "spike"),
            match self.keeps_artefacts {
                true => "artefacts kept".to_owned(),
                false => format!(
                    "{} taken for artefacts (--keep-artefacts keeps them)",
                    count(self.artefacts, "step")
                ),
            }
        ))
    }
}

pub(crate) fn run(args: &Arguments) -> Result<()> {
    let read = |files: Files, path| files.reads("RECORDING|SUMS", path);
    let mut files = (args.inputs.iter()).fold(Files::new(&args.common), |f, p| read(f, p));
    files.writes("--out", &args.out, Kind::Sums)?;
    let device = device::open(&args.common.device)?;
    let mut are_sums = Vec::with_capacity(args.inputs.len());
    for path in &args.inputs {
        are_sums.push(first_bytes(path)? == MAGIC);
    }
    check(args, &are_sums)?;
    let mut all: Option<Sums> = None;
    let mut ran_on = None;
    let mut aligned = Vec::new();
    for (path, is_sums) in args.inputs.iter().zip(are_sums) {
        let sums = if is_sums {
            Sums::load(path)?
        } else {
            let (sums, report) = of_recording(args, &device, path)?;
            aligned.push(report);
            sums
        };
        if let Some(ran) = sums.ran() {
            device::note_fallback(ran, "summing");
            ran_on = Some(ran.device.clone());
        }
        match &mut all {
            Some(all) => all.merge(&sums).map_err(|e| e.at(path.display()))?,
            None => all = Some(sums),
        }
    }
    let Some(sums) = all else {
        return Err(Error::argument("expected a recording or sums, got none"));
    };
    sums.save(&args.out)?;
    let bytes = args.out.metadata().map_or(0, |m| m.len());
    let mut facts = Facts::of(&sums, &args.out, bytes);
    facts.device = ran_on;
    facts.aligned = aligned;
    report::tell(&facts, args.common.json)
}

/// Refuses options that would change nothing, and such as would mean one recording of several.
fn check(args: &Arguments, are_sums: &[bool]) -> Result<()> {
    let recordings = are_sums.iter().filter(|is| !**is).count();
    let part = &args.part;
    let chosen = part.segments.is_some() || part.from.is_some() || part.until.is_some();
    if chosen && recordings != 1 {
        return Err(Error::argument(format!(
            "--segments, --from, --until: expected one recording that they are of, got {recordings}"
        )));
    }
    if args.keep_artefacts && recordings == 0 {
        return Err(Error::argument(
            "--keep-artefacts: expected a recording to sum, got sums, whose artefacts are already kept or left out",
        ));
    }
    if args.labels.is_some() && recordings == 0 {
        return Err(Error::argument(
            "--labels: expected a recording to sum, got sums, whose outputs are fixed",
        ));
    }
    let told = args.bank.is_some() || !args.filter.filters.is_empty();
    if told == (recordings > 0) {
        return Ok(());
    }
    Err(Error::argument(if told {
        "--bank: expected a recording to filter, got sums, whose bank is fixed"
    } else {
        "--bank: expected the bank by which the recording is summed, got none"
    }))
}

/// The sums over the recording at `path`, and the report on its behaviour.
fn of_recording(args: &Arguments, device: &Device, path: &Path) -> Result<(Sums, AlignReport)> {
    if let Some(memory) = args.memory {
        return in_chunks(args, device, path, memory);
    }
    let recording = data::read_recording(path, &args.part.behavior)?;
    let step = args.step.unwrap_or_else(|| data::default_step(&recording));
    let at = |e: Error| e.at(path.display());
    let (dataset, aligned) = data::aligned_dataset(recording, step, &args.part).map_err(at)?;
    let options = options(args, dataset.step_seconds)?;
    let sums = match &args.labels {
        None => Sums::over(device, &dataset, &options, &Bar::new()),
        Some(text) => {
            let labels = labels::read(text, &dataset)?;
            Sums::over_labels(device, &dataset, &labels, &options, &Bar::new())
        }
    };
    Ok((sums.map_err(at)?, aligned))
}

/// The sums over the recording at `path`, read in chunks.
fn in_chunks(
    args: &Arguments,
    device: &Device,
    path: &Path,
    memory: u64,
) -> Result<(Sums, AlignReport)> {
    let (mut file, aligned) = chunks::open(path, &args.part, memory, |stretches| {
        let step = args
            .step
            .unwrap_or_else(|| data::default_step(stretches.outline()));
        Ok((stretches, step))
    })?;
    let outline = file.outline().clone();
    let options = options(args, outline.step_seconds)?;
    let banks = std::slice::from_ref(&options.bank);
    (file.check_chunks(&options, banks)).map_err(|e| e.at(path.display()))?;
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
    let sums = sums.ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "sums: expected those of one process, got none",
        )
    })?;
    Ok((sums, aligned))
}

/// Training options of the sums, on a clock of `step_seconds`.
pub(super) fn options(args: &Arguments, step_seconds: f64) -> Result<TrainOptions> {
    let bank = args.bank.as_deref().unwrap_or("");
    let mut options = TrainOptions::new(args.filter.named(bank, "", step_seconds)?);
    options.low_pass = args.low_pass.as_deref().map(bank::low_pass).transpose()?;
    options.delay_steps = bank::delay_steps(&args.delay, step_seconds)?;
    options.keep_artefacts = args.keep_artefacts;
    Ok(options)
}

/// `betz info` of a file of sums.
pub(super) fn inside(path: &Path, bytes: u64, json: bool) -> Result<()> {
    let sums = Sums::load(path)?;
    report::tell(&Facts::of(&sums, path, bytes), json)
}
