//! `betz adapt`: a recording replayed through a session that is trained while it runs, trial by trial, beside
//! the model that stays as it is.

pub(crate) mod args;
mod trials;
mod unlabelled;

use std::sync::Arc;

use betz::model::Decoder;
use betz::recording::AlignReport;
use betz::train::online::{TrainerConfig, Worker};
use betz::{Error, Result};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use serde::Serialize;

use crate::commands::monitor::name_of;
use crate::data;
use crate::device;
use crate::files::{Files, Kind};
use crate::parse;
use crate::report::{self, Outcome, Table};
use args::Adapt;
use trials::{AdaptiveSession, Decision, Window};

#[derive(Serialize)]
struct AdaptationReport {
    decoder: &'static str,
    trials: usize,
    windows: Vec<Window>,
    events: Vec<Decision>,
    accepted: u64,
    refused: u64,
    rolled_back: u64,
    /// Trials that were not learned from.
    dropped: u64,
    labelled_seconds: f64,
    effective_steps: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    device: String,
    /// Report on the behaviour that was left out or interpolated.
    aligned: AlignReport,
    /// All of the command's time.
    total_seconds: f64,
    #[serde(skip)]
    outputs: Vec<String>,
    /// Reason why a system could not be solved.
    #[serde(skip)]
    failure: Option<String>,
}

pub(crate) fn run(args: &Adapt) -> Result<()> {
    Files::new(&args.common)
        .reads("MODEL", &args.model)
        .reads("RECORDING", &args.recording)
        .may_write("--out", args.out.as_deref(), Kind::Model)?;
    let device = device::cpu_for("a session", &args.common.device)?;
    if let Some(mode) = args.no_labels {
        return unlabelled::run(args, mode, device);
    }
    if args.window == 0 {
        return Err(Error::argument(
            "--window: expected at least 1 trial, got 0",
        ));
    }
    let model = Decoder::load(&args.model)?;
    let config = TrainerConfig {
        half_life_seconds: args.half_life,
        batch: args.batch,
        max_change: args.max_change,
        longest_trial_seconds: f64::from(u32::MAX) * model.step_seconds(),
        ..TrainerConfig::default()
    };
    // Refused before the recording is read.
    let at = |e: Error| e.at(args.model.display());
    drop(Worker::open(&model, config.clone()).map_err(at)?);
    let (dataset, aligned) = data::dataset_for(&model, &args.recording, &args.part)?;
    let dataset = dataset.with_outputs(model.outputs())?;
    let label_of = shuffled(args, dataset.segments.len())?;
    // Channels are watched only if the model stores how many spikes are usual.
    let watches = !args.no_watch && model.limits().blanking.is_some();
    let dataset = Arc::new(dataset);
    let name = name_of(&args.model);
    let mut session = AdaptiveSession::open(&name, &model, config, Arc::clone(&dataset), watches)?;
    let adapted = session.run(&label_of)?;
    let frozen = betz::model::decode(&model, &*dataset)?;
    if let Some(path) = &args.out {
        session.worker().model().save(path)?;
    }
    let state = session.worker().state();
    let windows = trials::windows(
        &dataset,
        args.window,
        model.delay_steps(),
        &frozen,
        &adapted,
    )?;
    let facts = AdaptationReport {
        decoder: model.kind(),
        trials: dataset.segments.len(),
        windows,
        events: session.into_decisions(),
        accepted: state.accepted,
        refused: state.refused,
        rolled_back: state.rolled_back,
        dropped: state.dropped.total(),
        labelled_seconds: state.labelled_seconds,
        effective_steps: state.effective_steps,
        model: args.out.as_ref().map(|path| path.display().to_string()),
        device,
        aligned,
        total_seconds: report::total_seconds(),
        outputs: model.outputs().iter().map(|o| o.name.clone()).collect(),
        failure: state.failure.as_ref().map(ToString::to_string),
    };
    report::tell(&facts, args.common.json)
}

impl Outcome for AdaptationReport {
    fn print(&self) -> Result<()> {
        let mut header = vec!["trials".to_owned()];
        for model in ["frozen", "adapted"] {
            header.extend(self.outputs.iter().map(|name| format!("{name} {model}")));
        }
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = Table::new(&header);
        for window in &self.windows {
            let mut row = vec![format!("{}–{}", window.first_trial, window.last_trial)];
            let scores = window.frozen.iter().chain(&window.adapted);
            row.extend(scores.map(|r2| format!("{r2:.4}")));
            table.row(row);
        }
        report::line("R² of trials that were decoded before they were learned from:")?;
        table.print()?;
        for event in self.events.iter().filter(|e| e.what != "refused") {
            let scores = match (event.before, event.after) {
                (Some(before), Some(after)) => {
                    format!(": R² {before:.3} before, {after:.3} then, on the trials that decided")
                }
                _ => event.channels.as_ref().map_or_else(String::new, |names| {
                    match names.as_slice() {
                        [] => ": none".to_owned(),
                        names => format!(": {}", names.join(" ")),
                    }
                }),
            };
            report::line(&format!(
                "after trial {}: {}{scores}",
                event.trial, event.what
            ))?;
        }
        if let Some(failure) = &self.failure {
            eprintln!("a system could not be solved: {failure}");
        }
        report::line(&format!(
            "{} accepted, {} refused, {} rolled back; {} left out; {:.1} s labelled; effective length of the sums: {:.0} steps",
            self.accepted,
            self.refused,
            self.rolled_back,
            report::count(self.dropped, "trial"),
            self.labelled_seconds,
            self.effective_steps
        ))
    }
}

/// Whose labels each trial gets.
fn shuffled(args: &Adapt, trials: usize) -> Result<Vec<usize>> {
    let mut label_of: Vec<usize> = (0..trials).collect();
    let Some(text) = &args.shuffle_labels else {
        return Ok(label_of);
    };
    let Some(range) = parse::range(text, trials) else {
        return Err(Error::argument(format!(
            "--shuffle-labels: expected a half-open range such as 3..9 within {}, got '{text}'",
            report::count(trials as u128, "trial")
        )));
    };
    let some = &mut label_of[range];
    some.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(args.seed));
    Ok(label_of)
}
