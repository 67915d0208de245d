//! `betz adapt`: a recording replayed through a session that is trained while it runs, trial by trial, beside
//! the model that stays as it is.

pub(crate) mod args;

use betz::Progress;
use betz::model::{Decoder, OutputScore};
use betz::recording::{Dataset, Segment};
use betz::stream::{ChannelRules, Session, SessionConfig, Swapper};
use betz::train::online::{Labels, TrainerConfig, Verdict, Worker};
use betz::train::score::score_estimates;
use betz::{Error, Result};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use serde::Serialize;

use crate::data;
use crate::device;
use crate::files::{Files, Kind};
use crate::learning;
use crate::report::{self, Bar, Outcome, Table};
use args::Adapt;

#[derive(Serialize)]
struct AdaptationReport {
    decoder: &'static str,
    trials: usize,
    windows: Vec<Window>,
    events: Vec<Event>,
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
    /// All of the command's time.
    total_seconds: f64,
    #[serde(skip)]
    outputs: Vec<String>,
    /// Reason why a system could not be solved.
    #[serde(skip)]
    failure: Option<String>,
}

/// Trials scored together: each decoded before it was learned from.
#[derive(Serialize)]
struct Window {
    first_trial: usize,
    last_trial: usize,
    /// R² of each output, of the model as it was.
    frozen: Vec<f64>,
    /// Of the one that adapts.
    adapted: Vec<f64>,
}

#[derive(Serialize)]
struct Event {
    /// The trial after which it happened, from 0.
    trial: usize,
    what: &'static str,
    /// Names of the channels that are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<Vec<String>>,
    /// R² of the model in use on the trials that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<f64>,
    /// Of the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<f64>,
}

pub(crate) fn run(args: &Adapt) -> Result<()> {
    Files::new(&args.common)
        .reads("MODEL", &args.model)
        .reads("RECORDING", &args.recording)
        .may_write("--out", args.out.as_deref(), Kind::Model)?;
    let device = device::cpu_for("a session", &args.common.device)?;
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
    let dataset = data::dataset_for(&model, &args.recording, &args.part)?;
    let dataset = dataset.with_outputs(model.outputs())?;
    let label_of = shuffled(args, dataset.segments.len())?;
    // Channels are watched only if the model stores how many spikes are usual.
    let watches = !args.no_watch && model.limits().blanking.is_some();
    let mut replay = Replay::open(&model, config, &dataset, watches)?;
    let adapted = replay.run(&dataset, &label_of, &Bar::new())?;
    let frozen = betz::model::decode(&model, &dataset)?;
    if let Some(path) = &args.out {
        replay.worker.model().save(path)?;
    }
    let state = replay.worker.state();
    let windows = windows(
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
        events: replay.events,
        accepted: state.accepted,
        refused: state.refused,
        rolled_back: state.rolled_back,
        dropped: state.dropped.total(),
        labelled_seconds: state.labelled_seconds,
        effective_steps: state.effective_steps,
        model: args.out.as_ref().map(|path| path.display().to_string()),
        device,
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
    let range = text
        .split_once("..")
        .and_then(|(a, b)| Some(a.trim().parse::<usize>().ok()?..b.trim().parse::<usize>().ok()?));
    let Some(some) = range.and_then(|range| label_of.get_mut(range)) else {
        return Err(Error::argument(format!(
            "--shuffle-labels: expected FIRST..LAST within the {trials} trials, got '{text}'"
        )));
    };
    some.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(args.seed));
    Ok(label_of)
}

/// A session that is trained while a recording runs through it.
struct Replay {
    session: Session,
    swapper: Swapper,
    labels: Labels,
    worker: Worker,
    events: Vec<Event>,
}

impl Replay {
    fn open(
        model: &Decoder,
        config: TrainerConfig,
        dataset: &Dataset,
        watches: bool,
    ) -> Result<Self> {
        // Room for the longest trial, so that none is lost.
        let items = |s: &Segment| {
            let spikes = dataset.spikes.range(s.start, s.stop).len();
            spikes + s.len() * (model.outputs().len() + 2)
        };
        let most = dataset.segments.iter().map(items).max().unwrap_or(0);
        let config = TrainerConfig {
            capacity: (most + 2).max(config.capacity),
            ..config
        };
        let mut session = Session::open(model, SessionConfig::default())?;
        let (tap, labels, worker) = Worker::open(model, config)?;
        session.attach(Box::new(tap), 0)?;
        let mut worker = worker;
        if watches {
            worker.watch(session.watch_channels(model, ChannelRules::default())?);
        }
        Ok(Self {
            swapper: session.swapper()?,
            session,
            labels,
            worker,
            events: Vec::new(),
        })
    }

    /// Every segment from rest, with the labels of the segment that `label_of` names; (steps, outputs)
    /// row-major, NaN outside segments.
    fn run(
        &mut self,
        dataset: &Dataset,
        label_of: &[usize],
        progress: &dyn Progress,
    ) -> Result<Vec<f32>> {
        let width = self.session.outputs();
        let mut decoded = betz::memory::filled(
            "the decoded outputs",
            f32::NAN,
            dataset.steps.saturating_mul(width),
        )?;
        let mut values = vec![0.0_f32; self.session.channels()];
        let weighted = !dataset.spikes.weights.is_empty();
        for (trial, (segment, &other)) in dataset.segments.iter().zip(label_of).enumerate() {
            progress.update("adapting", trial as u64, dataset.segments.len() as u64);
            let labels = &dataset.segments[other];
            self.session.reset();
            for step in segment.start..segment.stop {
                let now = dataset.spikes.range(step, step + 1);
                let row = step as usize * width;
                let out = &mut decoded[row..row + width];
                if weighted {
                    values.fill(0.0);
                    for i in now {
                        values[dataset.spikes.channels[i] as usize] += dataset.spikes.weights[i];
                    }
                    self.session.step_counts_f32(&values, out)?;
                } else {
                    (self.session).step_spikes(&dataset.spikes.channels[now], out)?;
                }
                // A shuffled trial may be longer than the one whose labels it gets.
                let label = labels.start + (step - segment.start);
                if label < labels.stop {
                    let label = label as usize * width;
                    self.labels.label(&dataset.behavior[label..label + width])?;
                }
            }
            self.labels.end_trial(true);
            while let Some(verdict) = self.worker.work()? {
                self.follow(trial, verdict)?;
            }
        }
        Ok(decoded)
    }

    /// Does with the session what the worker decided: between trials, so that nothing is to be warmed up.
    fn follow(&mut self, trial: usize, verdict: Verdict) -> Result<()> {
        let (worker, swapper) = (&self.worker, &mut self.swapper);
        learning::follow(&verdict, worker, swapper, &mut self.session)?;
        let (what, scores) = match verdict {
            Verdict::Accepted { before, after } => ("accepted", Some((before, after))),
            Verdict::Refused { before, after } => ("refused", Some((before, after))),
            Verdict::RolledBack => ("rolled back", None),
            Verdict::Channels { .. } => ("channels left out", None),
            _ => return Ok(()),
        };
        let channels = (what == "channels left out").then(|| {
            let ill = self.worker.ill_channels();
            let names = self.worker.model().channel_names();
            ill.iter().map(|&c| names[c].clone()).collect()
        });
        self.events.push(Event {
            trial,
            what,
            channels,
            before: scores.map(|s| s.0),
            after: scores.map(|s| s.1),
        });
        Ok(())
    }
}

fn windows(
    dataset: &Dataset,
    trials: usize,
    delay_steps: i64,
    frozen: &[f32],
    adapted: &[f32],
) -> Result<Vec<Window>> {
    let mut windows = Vec::new();
    let mut first = 0;
    for segments in dataset.segments.chunks(trials) {
        let view = dataset.view().with_segments(segments);
        let r2 = |estimates: &[f32]| -> Result<Vec<f64>> {
            let scored = score_estimates(view, estimates, delay_steps)?;
            let r2 = |o: &OutputScore| o.r2;
            Ok(scored.outputs.iter().map(r2).collect())
        };
        windows.push(Window {
            first_trial: first,
            last_trial: first + segments.len() - 1,
            frozen: r2(frozen)?,
            adapted: r2(adapted)?,
        });
        first += segments.len();
    }
    Ok(windows)
}
