//! `betz record`: the recordings that `betz run` makes.

pub(crate) mod args;
mod export;

use betz::{Error, Result};
use betz_live::bin_recording;
use betz_live::record::{Damage, Reader, Recording};
use serde::Serialize;

use crate::files::{Files, Kind};
use crate::report::{self, Outcome};
use args::{Bins, Check, Record};

pub(crate) fn run(command: &Record) -> Result<()> {
    match command {
        Record::Check(args) => check(args),
        Record::Bins(args) => bins(args),
        Record::Export(args) => export::run(args),
    }
}

impl Outcome for Damage {
    fn print(&self) -> Result<()> {
        print_damage(self)
    }
}

/// Says what is damaged or missing.
pub(crate) fn print_damage(damage: &Damage) -> Result<()> {
    let whole = report::count(damage.frames, "whole frame");
    report::line(&match damage.is_clean() {
        true => format!("recording: {whole}, none damaged or missing"),
        false => format!(
            "recording: {whole}; {} damaged ({} bytes), {} missing, {} never recorded",
            report::count(damage.places, "place"),
            damage.bytes,
            damage.missing,
            damage.unrecorded
        ),
    })?;
    if damage.ended {
        return Ok(());
    }
    report::line(&format!(
        "the session did not end as asked; its last frame is {}",
        if damage.torn > 0 { "torn" } else { "whole" }
    ))
}

fn check(args: &Check) -> Result<()> {
    let mut reader = Reader::open(&args.folder)?;
    while reader.next_record()?.is_some() {}
    let damage = reader.damage();
    report::tell(&damage, args.json)?;
    if damage.is_clean() {
        return Ok(());
    }
    let got = match (damage.places, damage.missing) {
        (0, 0) => format!(
            "one without {}, for which a full or slow disk had no room",
            report::count(damage.unrecorded, "frame")
        ),
        _ => "a damaged one".into(),
    };
    Err(Error::recording(format!(
        "{}: expected a whole recording, got {got}",
        args.folder.display()
    )))
}

#[derive(Serialize)]
struct BinReport {
    steps: i64,
    labels: usize,
    segments: usize,
    channels: usize,
    damage: Damage,
}

fn bins(args: &Bins) -> Result<()> {
    Files::new(&args.common).writes("--out", &args.out, Kind::Recorded)?;
    let mut recording = Recording::open(&args.folder)?;
    if !args.set.is_empty() {
        recording.change_front_end(&changes(&args.set)?)?;
    }
    let plan = recording.plan.clone();
    let step = args.step.unwrap_or(recording.model.step_seconds());
    let noise = recording.facts.noise.clone();
    let bins = bin_recording(&mut recording, step, noise.as_deref())?;
    // Labels belong to the steps of the session.
    let same_step = step == recording.model.step_seconds();
    let outputs = match same_step && !recording.labels.is_empty() {
        true => recording.model.outputs().to_vec(),
        false => Vec::new(),
    };
    if outputs.is_empty() && !recording.labels.is_empty() {
        eprintln!(
            "betz: the labels are left out: they belong to steps of {} s, and --step is {step} s",
            recording.model.step_seconds()
        );
        recording.labels.clear();
    }
    let made = bins.into_recording(&plan, outputs, &|step, _| {
        recording.labels.get(&step).cloned()
    })?;
    made.write_npz(&args.out)?;
    let binned = BinReport {
        steps: made.ticks,
        // A label of a step that never came is of no use.
        labels: (recording.labels.keys())
            .filter(|step| **step < made.ticks as u64)
            .count(),
        segments: made.segments.len(),
        channels: made.channel_names.len(),
        damage: recording.reader.damage(),
    };
    report::tell(&binned, args.common.json)
}

/// Changes of a front end. A sorter lies where the command runs, and not beside the recording's plan.
fn changes(set: &[String]) -> Result<Vec<String>> {
    let absolute = |change: &String| match change.split_once('=') {
        Some((key, path)) if key.trim() == "voltage.sorter" => {
            let path = std::path::absolute(path.trim_matches('"'))
                .map_err(|e| Error::io("finding", path.as_ref(), &e))?;
            Ok(format!("voltage.sorter={:?}", path.display().to_string()))
        }
        _ => Ok(change.clone()),
    };
    set.iter().map(absolute).collect()
}

impl Outcome for BinReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{} of {} in {}, {}",
            report::count(self.steps as u64, "step"),
            report::count(self.channels as u64, "channel"),
            report::count(self.segments as u64, "segment"),
            report::count(self.labels as u64, "label")
        ))?;
        print_damage(&self.damage)
    }
}
