//! A session at work: a thread that hears the source, and the loop that decodes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use betz_base::ring::ring;
use betz_base::{Error, ErrorKind, Result};
use betz_interop::bus::Sink;
use betz_interop::rig::notes::NoteContent;
use betz_interop::rig::{Arrival, Block, Rig, RigCounts, Samples, Signal, host_ns};
use betz_runtime::model::Decoder;
use betz_runtime::stream::Swapper;
use hdrhistogram::Histogram;
use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};
use serde::Serialize;

use crate::binner::BinnerCounts;
use crate::clock::{Clock, ClockState};
use crate::ends::{Ends, send};
use crate::notes::{NoteCounts, Notes};
use crate::pipeline::{Give, Pipeline, open_session};
use crate::plan::Plan;
use crate::record::{self, Facts, Recorder, RecorderCounts, unix_seconds};
use crate::source::open_rig;

/// Blocks that may wait between the source's thread and the loop: a second of the usual ones.
const ROOM: usize = 1024;
/// Interval at which the threads look whether they are to end.
const LOOK: Duration = Duration::from_millis(50);
/// Time that the source waits for a loop that is behind.
const BEHIND: Duration = Duration::from_millis(1);
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

/// Counts and latencies of a session so far.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SessionReport {
    /// Counts of rows and steps.
    pub input: BinnerCounts,
    /// Counts of the recorder, if there is one.
    pub recorder: Option<RecorderCounts>,
    /// Labels, marks and trials.
    pub notes: NoteCounts,
    /// The source's clock.
    pub clock: ClockState,
    /// Outputs that a sink could not send.
    pub unsent: u64,
    /// Median time from the arrival of a step's last block to the hand-over of its outputs, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of that time.
    pub p99_us: f64,
    /// Longest such time.
    pub max_us: f64,
    /// Blocks, messages and connections that the source counts as late, double, malformed or dropped.
    pub source_late: u64,
    /// Messages that came twice.
    pub source_duplicates: u64,
    /// Messages that could not be read.
    pub source_malformed: u64,
    /// Messages that this host's kernel dropped.
    pub source_dropped: u64,
    /// Connections that were lost and made again.
    pub source_reconnects: u64,
}

/// State that the source's thread shares with the loop.
#[derive(Default)]
struct SourceState {
    stop: AtomicBool,
    ended: AtomicBool,
    failed: Mutex<Option<Error>>,
    counts: Mutex<RigCounts>,
    signal: Mutex<Option<Signal>>,
    taker: Mutex<Option<Thread>>,
}

/// A session, from its source to its outputs.
pub struct Live {
    plan: Plan,
    model: Decoder,
    pipeline: Option<Pipeline>,
    noise: Option<Vec<f32>>,
    swapper: Option<Swapper>,
    sinks: Vec<Box<dyn Sink>>,
    ear: Ear,
    notes: Option<Notes>,
    note_counts: NoteCounts,
    recorder: Option<Recorder>,
    latency: Histogram<u64>,
    /// The source's clock; device times count from the first row of the epoch.
    clock: Clock,
    origin: Option<(u32, u64)>,
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
            stale_ns: (plan.missing.stale_after.seconds() * 1e9) as i64,
            ear: Ear::start(rig)?,
            pipeline: None,
            noise: None,
            swapper: None,
            recorder: None,
            latency: Histogram::new_with_bounds(1, LONGEST, 3)
                .map_err(|e| Error::new(ErrorKind::Internal, format!("histogram: {e}")))?,
            clock: Clock::new(plan.source().path.seconds()),
            origin: None,
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
            let signal = self.ear.signal().ok_or_else(|| {
                Error::new(
                    ErrorKind::Internal,
                    "the source has sent a block and no facts about it",
                )
            })?;
            let signal = self.completed(signal);
            let mut pipeline = Pipeline::new(&self.plan, &self.model, &signal, voltage)?;
            if let Some(noise) = &self.noise {
                pipeline.set_noise(noise)?;
            }
            self.recorder = match self.plan.record_path() {
                None => None,
                Some(to) => {
                    let facts = Facts {
                        version: 1,
                        channels: signal.channels,
                        rate: signal.rate,
                        microvolts: signal.microvolts,
                        voltage,
                        noise: self.noise.clone(),
                        unix_seconds: unix_seconds(),
                    };
                    let started = record::start(&to, &self.plan, &self.model, &facts, host_ns());
                    Some(started.map_err(|e| {
                        self.plan
                            .refuse("record", "to", e.message())
                            .of_kind(e.kind())
                    })?)
                }
            };
            self.pipeline = Some(pipeline);
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
                Some(block) => {
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
        match self.notes.as_ref().and_then(Notes::failure) {
            Some(error) => Err(error),
            None => Ok(()),
        }
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
        if let Some(recorder) = &mut self.recorder {
            recorder.note(step, content, host_ns);
        }
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
    /// remembers; the old one decodes until then.
    ///
    /// # Errors
    /// `InvalidArgument` before the first block; those of [`Swapper::swap`](betz_runtime::stream::Swapper::swap).
    pub fn swap(&mut self, model: &Decoder) -> Result<()> {
        let Some(pipeline) = &mut self.pipeline else {
            return Err(Error::argument(
                "swap: expected a session that decodes, got one that has heard nothing from its source yet",
            ));
        };
        let swapper = match &mut self.swapper {
            Some(swapper) => swapper,
            place => place.insert(pipeline.session_mut().swapper()?),
        };
        swapper.swap(model)
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

/// The thread that hears the source, and the blocks on their way to the loop and back.
struct Ear {
    shared: Arc<SourceState>,
    full: HeapCons<Block>,
    empty: HeapProd<Block>,
    thread: Option<JoinHandle<()>>,
    rate: Option<f64>,
}

impl Ear {
    fn start(rig: Box<dyn Rig>) -> Result<Self> {
        let shared = Arc::new(SourceState::default());
        let (send, full) = ring("blocks", ROOM)?;
        let (empty, back) = ring("blocks", ROOM)?;
        let thread = std::thread::Builder::new()
            .name("betz-source".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || hear(rig, &shared, send, back)
            })
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting a thread: {e}")))?;
        Ok(Self {
            shared,
            full,
            empty,
            thread: Some(thread),
            rate: None,
        })
    }

    fn peek(&mut self) -> Option<&Block> {
        self.announce();
        self.full.try_peek()
    }

    fn take(&mut self) -> Option<Block> {
        self.full.try_pop()
    }

    fn give_back(&mut self, block: Block) {
        // A full ring means that there are blocks enough.
        let _ = self.empty.try_push(block);
    }

    /// Names the thread that is to be woken.
    fn announce(&self) {
        let mut taker = lock(&self.shared.taker);
        if taker.is_none() {
            *taker = Some(std::thread::current());
        }
    }

    fn signal(&mut self) -> Option<Signal> {
        let signal = lock(&self.shared.signal).clone();
        self.rate = signal.as_ref().map(|s| s.rate);
        signal
    }

    fn rate(&self) -> f64 {
        self.rate.unwrap_or(1.0)
    }

    fn counts(&self) -> RigCounts {
        *lock(&self.shared.counts)
    }

    /// True if nothing will come any more.
    fn is_over(&self) -> Result<bool> {
        if !self.shared.ended.load(Ordering::Acquire) {
            return Ok(false);
        }
        match lock(&self.shared.failed).take() {
            Some(error) => Err(error),
            // It may have sent a block before it ended.
            None => Ok(self.full.is_empty()),
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the source's thread has been printed by it.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes blocks from the source until it ends or is told to stop.
fn hear(
    mut rig: Box<dyn Rig>,
    shared: &SourceState,
    mut full: HeapProd<Block>,
    mut empty: HeapCons<Block>,
) {
    let mut taker = None;
    let mut block = Block::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let taken = rig.take(&mut block, LOOK);
        // Messages that cannot be read count, even if no block comes.
        *lock(&shared.counts) = rig.counts();
        match taken {
            Ok(Arrival::Nothing) => {}
            Ok(Arrival::Ended) => break,
            Err(error) => {
                *lock(&shared.failed) = Some(error);
                break;
            }
            Ok(Arrival::Block) => {
                let mut signal = lock(&shared.signal);
                if signal.is_none() {
                    *signal = rig.signal();
                }
                drop(signal);
                let next = empty.try_pop().unwrap_or_default();
                let mut waiting = std::mem::replace(&mut block, next);
                // A loop that is behind makes the source wait: what its system then drops, it counts.
                while let Err(back) = full.try_push(waiting) {
                    waiting = back;
                    if shared.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    std::thread::sleep(BEHIND);
                }
                if taker.is_none() {
                    taker.clone_from(&lock(&shared.taker));
                }
                if let Some(taker) = &taker {
                    taker.unpark();
                }
            }
        }
    }
    shared.ended.store(true, Ordering::Release);
}
