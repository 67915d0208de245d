//! A recording replayed through a session that is trained while it runs, trial by trial.

use super::{Labels, TrainerConfig, Verdict, Worker};
use betz_base::error::{Error, Result};
use betz_base::progress::Progress;
use betz_gram::score::score_estimates;
use betz_recording::{Dataset, Segment};
use betz_runtime::model::{Decoder, OutputScore};
use betz_runtime::stream::{ChannelRules, Session, SessionConfig, SwapOptions, Swapper};

/// Swap without warming up: the next trial starts from rest.
const AT_ONCE: SwapOptions<'_> = SwapOptions {
    warm_up_steps: Some(0),
    cross_fade_steps: 0,
    by_position: false,
    replay: None,
};

/// Scores of consecutive trials, each decoded before the trainer learned from it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ReplayWindow {
    /// First trial of the window, from 0.
    pub first_trial: usize,
    /// Last trial of the window.
    pub last_trial: usize,
    /// R² of each output by the model as it was.
    pub frozen: Vec<f64>,
    /// R² of each output by the model that adapts.
    pub adapted: Vec<f64>,
}

/// Decision of the trainer after a trial.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ReplayEvent {
    /// Trial after which the trainer decided, from 0.
    pub trial: usize,
    /// `accepted`, `refused`, `rolled back` or `channels left out`.
    pub what: &'static str,
    /// Names of the channels that are left out.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub channels: Option<Vec<String>>,
    /// R² of the model in use on the trials that decided.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub before: Option<f64>,
    /// R² of the candidate.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub after: Option<f64>,
}

/// A session that is trained while a recording runs through it.
pub struct Replay {
    session: Session,
    swapper: Swapper,
    labels: Labels,
    worker: Worker,
    events: Vec<ReplayEvent>,
}

impl Replay {
    /// Opens a session with `model` and its trainer, whose rings hold the longest trial of `dataset`.
    /// `watches`: channels that die or scream are left out ([`Worker::watch`]).
    ///
    /// # Errors
    /// As [`Session::open`], [`Worker::open`] and [`Session::watch_channels`].
    pub fn open(
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

    /// Runs every segment from rest, with the labels of the segment that `label_of` names. The estimates are
    /// (steps, outputs), row-major, NaN outside segments; each step is decoded before its trial is learned.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) unless `dataset` has the model's channels and
    /// outputs and `label_of` names one of its segments per segment; as stepping and [`Worker::work`].
    pub fn run(
        &mut self,
        dataset: &Dataset,
        label_of: &[usize],
        progress: &dyn Progress,
    ) -> Result<Vec<f32>> {
        let width = self.session.outputs();
        let segments = dataset.segments.len();
        if (dataset.outputs.len(), dataset.channels()) != (width, self.session.channels())
            || label_of.len() != segments
            || label_of.iter().any(|&of| of >= segments)
        {
            return Err(Error::mismatch(format!(
                "replay: expected {width} outputs, {} channels and the labels of {segments} segments, got {}, {} and {}",
                self.session.channels(),
                dataset.outputs.len(),
                dataset.channels(),
                label_of.len()
            )));
        }
        let mut decoded = betz_base::memory::filled(
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

    /// The trainer, with the model that decodes now.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Decisions of the trainer so far.
    pub fn events(&self) -> &[ReplayEvent] {
        &self.events
    }

    /// Makes the session follow the worker's verdict, and records it.
    fn follow(&mut self, trial: usize, verdict: Verdict) -> Result<()> {
        let (worker, swapper) = (&self.worker, &mut self.swapper);
        follow_verdict(&verdict, worker, swapper, &mut self.session)?;
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
        self.events.push(ReplayEvent {
            trial,
            what,
            channels,
            before: scores.map(|s| s.0),
            after: scores.map(|s| s.1),
        });
        Ok(())
    }
}

/// R² of `frozen` and `adapted` estimates of `dataset`, over windows of `trials` segments.
///
/// # Errors
/// As [`score_estimates`]; [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for windows
/// without trials.
pub fn replay_windows(
    dataset: &Dataset,
    trials: usize,
    delay_steps: i64,
    frozen: &[f32],
    adapted: &[f32],
) -> Result<Vec<ReplayWindow>> {
    if trials == 0 {
        return Err(Error::argument("windows: expected at least 1 trial, got 0"));
    }
    let mut windows = Vec::new();
    let mut first = 0;
    for segments in dataset.segments.chunks(trials) {
        let view = dataset.view().with_segments(segments);
        let r2 = |estimates: &[f32]| -> Result<Vec<f64>> {
            let scored = score_estimates(view, estimates, delay_steps)?;
            let r2 = |o: &OutputScore| o.r2;
            Ok(scored.outputs.iter().map(r2).collect())
        };
        windows.push(ReplayWindow {
            first_trial: first,
            last_trial: first + segments.len() - 1,
            frozen: r2(frozen)?,
            adapted: r2(adapted)?,
        });
        first += segments.len();
    }
    Ok(windows)
}

/// Makes `session` follow `verdict` between two trials: swaps in the model of `worker`, or takes it back.
///
/// # Errors
/// As [`Swapper::swap_with`] and [`Swapper::roll_back`].
pub fn follow_verdict(
    verdict: &Verdict,
    worker: &Worker,
    swapper: &mut Swapper,
    session: &mut Session,
) -> Result<()> {
    match verdict {
        Verdict::Accepted { .. } | Verdict::Channels { .. } => {
            swapper.swap_with(worker.model(), &AT_ONCE)?;
        }
        Verdict::RolledBack => swapper.roll_back()?,
        _ => {}
    }
    session.take_requests();
    Ok(())
}
