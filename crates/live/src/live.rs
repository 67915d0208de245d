//! A session at work: a thread that hears the source, and the loop that decodes.

mod begin;

use std::path::{Path, PathBuf};
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};
use betz_interop::bus::Sink;
use betz_interop::rig::notes::NoteContent;
use betz_interop::rig::{Block, Rig, Samples, Signal, host_ns};
use betz_runtime::model::Decoder;
use hdrhistogram::Histogram;

use crate::clock::{Clock, ClockState};
use crate::ear::{Ear, LOOK};
use crate::ends::{Ends, send};
use crate::health::{SessionReport, SourceHealth};
use crate::learn::Learner;
use crate::notes::{NoteCounts, Notes};
use crate::pipeline::{Give, Pipeline, open_session};
use crate::plan::Plan;
use crate::record::Recorder;
use crate::source::open_rig;
use crate::swap::{PreparedSwap, Swaps};
use begin::Keep;
pub use begin::Resumption;

/// Largest number of notes that wait to be shown.
const MOST_SHOWN: usize = 1 << 16;
/// Longest latency that is told, in nanoseconds.
const LONGEST: u64 = 10_000_000_000;

/// Conditions that end a run.
#[derive(Clone, Copy)]
pub struct Until<'a> {
    /// Largest number of steps.
    pub steps: Option<u64>,
    /// Returns true once the run is to stop.
    pub stop: &'a dyn Fn() -> bool,
}

/// Begin or end of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// A trial begins.
    Begin,
    /// A trial ends.
    End,
    /// A trial ends and is not to be learned from.
    Reject,
}

/// A session, from its source to its outputs.
pub struct Live {
    plan: Plan,
    model: Decoder,
    pipeline: Option<Pipeline>,
    noise: Option<Vec<f32>>,
    swaps: Swaps,
    learner: Option<Learner>,
    sinks: Vec<Box<dyn Sink>>,
    ear: Ear,
    notes: Option<Notes>,
    note_counts: NoteCounts,
    /// Notes for whoever shows them; `None` if nobody does.
    shown_notes: Option<Vec<(u64, NoteContent)>>,
    recorder: Option<Recorder>,
    keep: Option<Keep>,
    /// Added to the epochs of the source, which counts its own from 0 in each process.
    first_epoch: u32,
    resumed: u64,
    latency: Histogram<u64>,
    /// The source's clock; device times count from the first row of the epoch.
    clock: Clock,
    origin: Option<(u32, u64)>,
    /// Arrival of the newest block.
    heard_ns: Option<i64>,
    /// Models that the session was given, and times that it went back.
    swapped: u64,
    rolled_back: u64,
    /// Time at which the block after the newest one is due, if the source sends as before.
    next_ns: i64,
    stale_ns: i64,
}

impl Live {
    /// Opens the source and the sinks of a plan.
    ///
    /// # Errors
    /// The errors of the plan, the model, the source and the sinks.
    pub fn open(plan: Plan) -> Result<Self> {
        let model = plan.load_model()?;
        open_session(&plan, &model)?;
        let rig = open_rig(&plan, &model)?;
        Self::with_rig(plan, model, rig)
    }

    /// As [`Live::open`], with a model and a source of the caller's.
    ///
    /// # Errors
    /// As [`Live::open`].
    pub fn with_rig(plan: Plan, model: Decoder, rig: Box<dyn Rig>) -> Result<Self> {
        let Ends { sinks, notes } = Ends::open(&plan, &model)?;
        Ok(Self {
            notes,
            note_counts: NoteCounts::default(),
            shown_notes: None,
            stale_ns: (plan.missing.stale_after.seconds() * 1e9) as i64,
            ear: Ear::start(rig)?,
            pipeline: None,
            noise: None,
            swaps: Swaps::default(),
            learner: None,
            recorder: None,
            keep: None,
            first_epoch: 0,
            resumed: 0,
            latency: Histogram::new_with_bounds(1, LONGEST, 3)
                .map_err(|e| Error::new(ErrorKind::Internal, format!("histogram: {e}")))?,
            clock: Clock::new(plan.source().path.seconds()),
            origin: None,
            heard_ns: None,
            swapped: 0,
            rolled_back: 0,
            next_ns: 0,
            plan,
            model,
            sinks,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The model.
    pub fn model(&self) -> &Decoder {
        &self.model
    }

    /// Sets the noise of each channel, as [`Binner::noise`](crate::Binner::noise) gave it earlier: no calibration is needed then.
    pub fn set_noise(&mut self, noise: Vec<f32>) {
        self.noise = Some(noise);
    }

    /// Waits until the source has sent its first block, and makes the pipeline for it; false if `until` is over before.
    ///
    /// # Errors
    /// The errors of the source; `Mismatch` if the model does not fit it.
    pub fn wait(&mut self, until: &Until<'_>) -> Result<bool> {
        while self.pipeline.is_none() {
            if (until.stop)() {
                return Ok(false);
            }
            let Some(block) = self.ear.peek() else {
                if self.ear.is_over()? {
                    return Ok(false);
                }
                std::thread::park_timeout(LOOK);
                continue;
            };
            let voltage = matches!(block.samples, Samples::Voltage(_));
            let first = Block {
                samples: Samples::Features(Vec::new()),
                ..*block
            };
            let signal = self.ear.signal().ok_or_else(|| {
                Error::new(
                    ErrorKind::Internal,
                    "the source has sent a block and no facts about it",
                )
            })?;
            self.begin(&first, self.completed(signal), voltage)?;
        }
        Ok(true)
    }

    /// A signal with what the plan knows and the source does not say.
    fn completed(&self, signal: Signal) -> Signal {
        Signal {
            microvolts: signal.microvolts.or(self.plan.source().microvolts),
            ..signal
        }
    }

    /// The pipeline, once [`Live::wait`] has returned true: to attach taps to its session, or to swap models.
    pub fn pipeline_mut(&mut self) -> Option<&mut Pipeline> {
        self.pipeline.as_mut()
    }

    /// Decodes until `until` says so or the source has ended; `each` hears every step after its outputs were sent.
    ///
    /// # Errors
    /// The errors of the source, of the sinks and of `each`.
    pub fn run(&mut self, until: &Until<'_>, each: &mut Give<'_>) -> Result<()> {
        if !self.wait(until)? {
            return Ok(());
        }
        let mut made = 0;
        while until.steps.is_none_or(|most| made < most) && !(until.stop)() {
            let before = self.steps();
            self.take_notes()?;
            match self.ear.take() {
                Some(mut block) => {
                    block.epoch = block.epoch.wrapping_add(self.first_epoch);
                    let done = self.decode(&block, each);
                    self.ear.give_back(block);
                    done?;
                }
                None => {
                    if self.ear.is_over()? {
                        break;
                    }
                    self.rest(each)?;
                }
            }
            self.follow_trainer()?;
            self.write_checkpoint()?;
            made += self.steps() - before;
        }
        Ok(())
    }

    /// Takes the labels, marks and trials that have arrived.
    fn take_notes(&mut self) -> Result<()> {
        while let Some(note) = self.notes.as_mut().and_then(Notes::take) {
            let step = note.step.unwrap_or_else(|| self.open_step());
            self.note(step, &note.content, note.host_ns);
        }
        let failure = self.notes.as_ref().and_then(Notes::failure);
        failure.map_or(Ok(()), Err)
    }

    /// Number of the step that is being filled; 0 before the first block.
    pub fn open_step(&self) -> u64 {
        let open = self.pipeline.as_ref().and_then(|p| p.binner().open_step());
        open.map_or(0, |(step, _)| step)
    }

    /// Counts and records a note.
    fn note(&mut self, step: u64, content: &NoteContent, host_ns: i64) {
        let counts = &mut self.note_counts;
        match content {
            NoteContent::Label(values) => {
                let outputs = self.model.outputs().len();
                if values.len() != outputs || values.iter().any(|v| !v.is_finite()) {
                    counts.odd_labels += 1;
                    return;
                }
                counts.labels += 1;
            }
            NoteContent::Mark(_) => counts.marks += 1,
            _ => counts.trials += 1,
        }
        let open = self.open_step();
        if let Some(shown) = &mut self.shown_notes
            && shown.len() < MOST_SHOWN
        {
            shown.push((step, content.clone()));
        }
        if let Some(learner) = &mut self.learner {
            learner.note(step, open, content);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.note(step, content, host_ns);
        }
    }

    /// Labels, marks, and begins and ends of trials since the last call, with their steps, in the order of their arrival.
    /// The first call begins to collect them and returns none. Of more than 65,536 between two calls, the first are
    /// returned.
    pub fn take_notes_to_show(&mut self) -> Vec<(u64, NoteContent)> {
        self.shown_notes.replace(Vec::new()).unwrap_or_default()
    }

    /// Adds the true outputs of a step; of another width, or not finite, they are counted and left out.
    pub fn label(&mut self, step: u64, values: &[f32]) {
        self.note(step, &NoteContent::Label(values.to_vec()), host_ns());
    }

    /// Adds a text at the open step.
    pub fn mark(&mut self, text: &str) {
        self.note(self.open_step(), &NoteContent::Mark(text.into()), host_ns());
    }

    /// Adds the begin or the end of a trial at the open step.
    pub fn trial(&mut self, trial: Trial) {
        let content = match trial {
            Trial::Begin => NoteContent::TrialBegin,
            Trial::End => NoteContent::TrialEnd,
            Trial::Reject => NoteContent::TrialReject,
        };
        self.note(self.open_step(), &content, host_ns());
    }

    fn steps(&self) -> u64 {
        self.pipeline
            .as_ref()
            .map_or(0, |p| p.binner().counts().steps)
    }

    fn decode(&mut self, block: &Block, each: &mut Give<'_>) -> Result<()> {
        if self.origin.is_none_or(|(epoch, _)| epoch != block.epoch) {
            self.origin = Some((block.epoch, block.first));
        }
        self.heard_ns = Some(block.host_ns);
        // The last row of a block arrives with it.
        let last = block.first + block.rows as u64;
        let length = block.rows as f64 / self.ear.rate();
        self.next_ns = block.host_ns.saturating_add((length * 1e9) as i64);
        let device = self.device_seconds(last);
        self.clock.add(device, block.host_ns as f64 * 1e-9);
        let Some(pipeline) = &mut self.pipeline else {
            return Ok(());
        };
        let (sinks, latency) = (&mut self.sinks, &mut self.latency);
        let mut recorder = self.recorder.as_mut();
        if let Some(recorder) = &mut recorder {
            recorder.block(block);
        }
        pipeline.take(block, &mut |step| {
            send(sinks, step)?;
            if let Some(recorder) = &mut recorder {
                recorder.step(step);
            }
            latency.saturating_record((host_ns() - step.host_ns).max(1) as u64);
            each(step)
        })
    }

    /// Device time in seconds since the first row of the epoch.
    fn device_seconds(&self, row: u64) -> f64 {
        let origin = self.origin.map_or(0, |(_, first)| first);
        (row as f64 - origin as f64) / self.ear.rate()
    }

    /// State of the source's clock.
    pub fn clock(&self) -> ClockState {
        self.clock.state()
    }

    /// Gives the session another model, of the same channels, outputs and step. It takes over once it has heard as much as it
    /// remembers; the old one decodes until then. Preparing the model takes time: see [`Live::swap_prepared`].
    ///
    /// # Errors
    /// `InvalidArgument` before the first block; those of [`PreparedSwap::new`] and [`Live::swap_prepared`].
    pub fn swap(&mut self, model: &Decoder) -> Result<()> {
        let swap = PreparedSwap::new(model, self.folder())?;
        self.swap_prepared(&swap)
    }

    /// As [`Live::swap`], with a model that was prepared elsewhere. If the session records, so does its replay: the model was
    /// prepared with [`Live::folder`].
    ///
    /// # Errors
    /// `InvalidArgument` before the first block, or for a model that the recording does not have; those of
    /// [`Swapper::swap_prepared_with`](betz_runtime::stream::Swapper::swap_prepared_with).
    pub fn swap_prepared(&mut self, swap: &PreparedSwap) -> Result<()> {
        let step = self.open_step();
        let pipeline = decoding(&mut self.pipeline, "swap")?;
        if self.recorder.is_some() && !swap.is_stored() {
            return Err(Error::argument(
                "swap: expected a model that was prepared with the folder of the recording, got one without",
            ));
        }
        self.swaps.swap(pipeline, swap)?;
        if let Some(recorder) = &mut self.recorder {
            recorder.swap(step, swap.fingerprint(), host_ns());
        }
        self.swapped += 1;
        Ok(())
    }

    /// Returns to the model before the last swap, at the next step and as if there had been none.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no model to return to.
    pub fn roll_back(&mut self) -> Result<()> {
        let step = self.open_step();
        self.swaps
            .roll_back(decoding(&mut self.pipeline, "roll back")?)?;
        if let Some(recorder) = &mut self.recorder {
            recorder.roll_back(step, host_ns());
        }
        self.rolled_back += 1;
        Ok(())
    }

    /// Gives the session the model that the online trainer proposes (`learn.mode = "propose"`); false if there is none.
    ///
    /// # Errors
    /// As [`Live::swap_prepared`].
    pub fn accept(&mut self) -> Result<bool> {
        match self.learner.as_mut().and_then(Learner::take_proposed) {
            Some(swap) => self.swap_prepared(&swap).map(|()| true),
            None => Ok(false),
        }
    }

    /// The error that keeps the trainer's newest model from being stored; it is tried again every second.
    pub fn not_stored(&self) -> Option<Error> {
        self.learner.as_ref().and_then(Learner::not_stored)
    }

    /// Lets the trainer know the steps that were made, and takes a model that it has made.
    fn follow_trainer(&mut self) -> Result<()> {
        let open = self.open_step();
        let (Some(learner), Some(pipeline)) = (&mut self.learner, &mut self.pipeline) else {
            return Ok(());
        };
        learner.follow(pipeline.session_mut().tick(), open);
        match learner.take() {
            Some(swap) => self.swap_prepared(&swap),
            None => Ok(()),
        }
    }

    /// Waits for the next block, or makes the open step without data if it is overdue.
    fn rest(&mut self, each: &mut Give<'_>) -> Result<()> {
        let open = self.pipeline.as_ref().and_then(|p| p.binner().open_step());
        // A source that sends is not silent, however late it is: its clock may have jumped, or run at another rate.
        let due = match open {
            Some((_, end)) => {
                let arrival = self.clock.arrival(self.device_seconds(end));
                ((arrival * 1e9) as i64).max(self.next_ns) + self.stale_ns
            }
            None => i64::MAX,
        };
        let wait = due.saturating_sub(host_ns());
        if wait > 0 {
            std::thread::park_timeout(LOOK.min(Duration::from_nanos(wait as u64)));
            return Ok(());
        }
        let Some(pipeline) = &mut self.pipeline else {
            return Ok(());
        };
        let sinks = &mut self.sinks;
        let mut recorder = self.recorder.as_mut();
        if let (Some(recorder), Some((step, _))) = (&mut recorder, open) {
            recorder.stale(step, host_ns());
        }
        pipeline.step_stale(&mut |step| {
            send(sinks, step)?;
            if let Some(recorder) = &mut recorder {
                recorder.step(step);
            }
            each(step)
        })
    }

    /// Ends the recording, if there is one: waits until all of it is in its files. Returns its folder.
    ///
    /// # Errors
    /// The first error of the disk.
    pub fn stop(&mut self) -> Result<Option<PathBuf>> {
        let Some(recorder) = &mut self.recorder else {
            return Ok(None);
        };
        recorder.end(host_ns())?;
        Ok(Some(recorder.folder().to_owned()))
    }

    /// The folder of the recording, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.recorder.as_ref().map(Recorder::folder)
    }

    /// The limits of the plan that are crossed, in words.
    pub fn crossed(&self) -> Vec<String> {
        let (limits, counts) = (&self.plan.limits, self.report().input);
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        // The noise has to be measured; that is no failure, unless the session was over before.
        let calibrating = match counts.calibrating == counts.steps {
            true => 0,
            false => counts.calibrating,
        };
        let late = counts.stale - calibrating + counts.skipped;
        let rows = share(counts.lost, counts.lost + counts.rows);
        let steps = share(late, counts.steps - calibrating + counts.skipped);
        let mut crossed = Vec::new();
        if rows > limits.lost {
            let most = limits.lost;
            crossed.push(format!(
                "limits.lost: expected a share of at most {most}, got {rows:.6}"
            ));
        }
        if steps > limits.late_steps {
            let most = limits.late_steps;
            crossed.push(format!(
                "limits.late_steps: expected a share of at most {most}, got {steps:.6}"
            ));
        }
        let missing = self.recorder.as_ref().map_or(0, |r| r.counts().unrecorded);
        if missing > limits.unrecorded {
            let most = limits.unrecorded;
            crossed.push(format!(
                "limits.unrecorded: expected at most {most} frames, got {missing}"
            ));
        }
        crossed
    }

    /// Health of each source, in the order of the plan.
    pub fn sources(&self) -> Vec<SourceHealth> {
        let input = (self.pipeline.as_ref())
            .map(|p| p.binner().counts())
            .unwrap_or_default();
        let (source, clock) = (self.ear.counts(), self.clock());
        let silent = |heard: i64| host_ns().saturating_sub(heard).max(0) as f64 * 1e-6;
        vec![SourceHealth {
            name: self.plan.source().name.clone(),
            lost: input.lost,
            at_least: input.bounds > 0,
            lost_share: input.lost as f64 / (input.lost + input.rows).max(1) as f64,
            drift_ppm: clock.drift_ppm,
            bound_us: clock.bound_us,
            epochs: clock.epoch,
            silent_ms: self.heard_ns.map(silent),
            reconnects: source.reconnects,
            malformed: source.malformed,
            dropped_by_host: source.dropped_by_host,
        }]
    }

    /// Counts and latencies so far.
    pub fn report(&self) -> SessionReport {
        let microseconds = |q: f64| match self.latency.is_empty() {
            true => 0.0,
            false => self.latency.value_at_quantile(q) as f64 / 1e3,
        };
        let source = self.ear.counts();
        SessionReport {
            input: (self.pipeline.as_ref())
                .map(|p| p.binner().counts())
                .unwrap_or_default(),
            notes: NoteCounts {
                malformed: self.notes.as_ref().map_or(0, Notes::malformed),
                ..self.note_counts
            },
            clock: self.clock(),
            learn: self.learner.as_ref().map(Learner::report),
            swapped: self.swapped,
            rolled_back: self.rolled_back,
            resumed: self.resumed,
            recorder: self.recorder.as_ref().map(Recorder::counts),
            unsent: self.sinks.iter().map(|s| s.counts().unsent).sum(),
            p50_us: microseconds(0.5),
            p99_us: microseconds(0.99),
            max_us: microseconds(1.0),
            source_late: source.late,
            source_duplicates: source.duplicates,
            source_malformed: source.malformed,
            source_dropped: source.dropped_by_host,
            source_reconnects: source.reconnects,
        }
    }
}

/// The pipeline of a session that has heard its source.
fn decoding<'p>(pipeline: &'p mut Option<Pipeline>, what: &str) -> Result<&'p mut Pipeline> {
    pipeline.as_mut().ok_or_else(|| unheard(what))
}

pub(crate) fn unheard(what: &str) -> Error {
    Error::argument(format!(
        "{what}: expected a session that decodes, got one that has heard nothing from its source yet"
    ))
}
