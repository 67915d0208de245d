//! The trials of a recording through a session that is trained while it runs.

use std::sync::Arc;

use betz::Result;
use betz::model::{Decoder, OutputScore};
use betz::recording::{Dataset, Segment};
use betz::stream::{ChannelRules, Swapper};
use betz::train::online::{Labels, TrainerConfig, Verdict, Worker, follow_verdict};
use betz::train::score::score_estimates;
use betz_live::{DatasetFeed, DatasetRig, Live, Until};
use serde::Serialize;

use crate::session::{self, DatasetOutputs};

/// Scores of consecutive trials, each decoded before the trainer learned from it.
#[derive(Serialize)]
pub(super) struct Window {
    /// First trial of the window, from 0.
    pub(super) first_trial: usize,
    /// Last trial of the window.
    pub(super) last_trial: usize,
    /// R² of each output by the model as it was.
    pub(super) frozen: Vec<f64>,
    /// R² of each output by the model that adapts.
    pub(super) adapted: Vec<f64>,
}

/// Decision of the trainer after a trial.
#[derive(Serialize)]
pub(super) struct Decision {
    /// Trial after which the trainer decided, from 0.
    pub(super) trial: usize,
    /// `accepted`, `refused`, `rolled back` or `channels left out`.
    pub(super) what: &'static str,
    /// Names of the channels that are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) channels: Option<Vec<String>>,
    /// R² of the model in use on the trials that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<f64>,
    /// R² of the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<f64>,
}

/// A session of a recording, and its trainer, for which the session waits after each trial. The result depends on the
/// recording alone.
pub(super) struct AdaptiveSession {
    dataset: Arc<Dataset>,
    live: Live,
    swapper: Swapper,
    labels: Labels,
    worker: Worker,
    decisions: Vec<Decision>,
}

impl AdaptiveSession {
    /// Opens a session called `name` with `model` and its trainer, whose rings hold the longest trial of `dataset`.
    /// `watches`: channels that die or scream are left out ([`Worker::watch`]).
    ///
    /// # Errors
    /// As [`session::open`] and [`Worker::open`].
    pub(super) fn open(
        name: &str,
        model: &Decoder,
        config: TrainerConfig,
        dataset: Arc<Dataset>,
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
        let rig = DatasetRig::new(Arc::clone(&dataset), DatasetFeed::default());
        let mut live = session::open(name, model, None, Box::new(rig))?;
        let session = session::of(&mut live)?;
        let (tap, labels, mut worker) = Worker::open(model, config)?;
        session.attach(Box::new(tap), 0)?;
        if watches {
            worker.watch(session.watch_channels(model, ChannelRules::default())?);
        }
        Ok(Self {
            swapper: session.swapper()?,
            dataset,
            live,
            labels,
            worker,
            decisions: Vec::new(),
        })
    }

    /// Runs every trial from rest, with the labels of the trial that `label_of` names, and lets the trainer learn from it.
    /// The estimates are (steps, outputs), row-major, NaN outside trials.
    ///
    /// # Errors
    /// As [`Live::run`] and [`Worker::work`].
    pub(super) fn run(&mut self, label_of: &[usize]) -> Result<Vec<f32>> {
        let dataset = Arc::clone(&self.dataset);
        let width = dataset.outputs.len();
        let mut decoded = DatasetOutputs::new(&dataset, width, "adapting")?;
        for (trial, (segment, &other)) in dataset.segments.iter().zip(label_of).enumerate() {
            let of = &dataset.segments[other];
            let whole = Until {
                steps: Some(segment.len() as u64),
                stop: &|| false,
            };
            let labels = &mut self.labels;
            let mut label = of.start;
            self.live.run(&whole, &mut |step| {
                decoded.add(step.end, step.values);
                // A shuffled trial may be longer than the one whose labels it gets.
                if label < of.stop {
                    let row = label as usize * width;
                    labels.label(&dataset.behavior[row..row + width])?;
                    label += 1;
                }
                Ok(())
            })?;
            self.labels.end_trial(true);
            while let Some(verdict) = self.worker.work()? {
                self.follow(trial, &verdict)?;
            }
        }
        Ok(decoded.finish())
    }

    /// The trainer, with the model that decodes now.
    pub(super) fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Decisions of the trainer.
    pub(super) fn into_decisions(self) -> Vec<Decision> {
        self.decisions
    }

    /// Makes the session follow the trainer's verdict, and notes it.
    fn follow(&mut self, trial: usize, verdict: &Verdict) -> Result<()> {
        let session = session::of(&mut self.live)?;
        follow_verdict(verdict, &self.worker, &mut self.swapper, session)?;
        let (what, scores) = match *verdict {
            Verdict::Accepted { before, after } => ("accepted", Some((before, after))),
            Verdict::Refused { before, after } => ("refused", Some((before, after))),
            Verdict::RolledBack => ("rolled back", None),
            Verdict::Channels { .. } => ("channels left out", None),
            _ => return Ok(()),
        };
        let channels = matches!(verdict, Verdict::Channels { .. }).then(|| {
            let ill = self.worker.ill_channels();
            let names = self.worker.model().channel_names();
            ill.iter().map(|&c| names[c].clone()).collect()
        });
        self.decisions.push(Decision {
            trial,
            what,
            channels,
            before: scores.map(|s| s.0),
            after: scores.map(|s| s.1),
        });
        Ok(())
    }
}

/// R² of `frozen` and `adapted` estimates of `dataset`, over windows of `trials` trials, at least 1.
///
/// # Errors
/// As [`score_estimates`].
pub(super) fn windows(
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
