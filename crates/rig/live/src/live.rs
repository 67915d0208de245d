//! A session at work: its sources, heard by a thread each or in the loop, and the loop that decodes.

mod backlog;
mod begin;
mod disk;
mod labels;
mod lines;
mod output;
mod recalibration;
mod report;
mod score;
mod sources;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::bus::Sink;
use betz_rigs::rig::notes::NoteContent;
use betz_rigs::rig::{Block, Rig, Samples, Stamp, host_ns};
use betz_runtime::model::Decoder;
use betz_runtime::stream::StepStatus;

use crate::clock::ClockState;
use crate::ear::LOOK;
use crate::ends::{Ends, send};
use crate::learn::Learner;
use crate::notes::{NoteCounts, Notes};
use crate::pipeline::{Give, Pipeline, Step, open_session};
use crate::plan::{Plan, Sends};
use crate::recalibrate::Recalibrator;
use crate::record::{self, Recorder, RecorderRing};
use crate::scheduling::{self, FineTicks, ThreadPlace};
use crate::shared_line::SharedLineWatch;
use crate::source::open_rigs;
use crate::swap::{PreparedSwap, Swaps};
use backlog::Backlog;
use begin::Keep;
pub use begin::Resumption;
use labels::LabelClock;
pub use labels::Trial;
use output::Output;
pub use report::LatencySpan;
use report::{LatencyCounts, StartUp};
use score::LabelScore;
use sources::LiveSource;
pub(crate) use sources::label_lane;
use watch::Watch;

/// Conditions that end a run.
#[derive(Clone, Copy)]
pub struct Until<'a> {
    /// Largest number of steps.
    pub steps: Option<u64>,
    /// Returns true once the run is to stop.
    pub stop: &'a dyn Fn() -> bool,
}

/// A session, from its source to its outputs.
pub struct Live {
    plan: Plan,
    model: Decoder,
    pipeline: Option<Pipeline>,
    noise: Option<Vec<f32>>,
    swaps: Swaps,
    learner: Option<Learner>,
    recalibrator: Option<Recalibrator>,
    sinks: Vec<Box<dyn Sink>>,
    /// The source whose clock makes the steps, and the others.
    first: LiveSource,
    others: Vec<LiveSource>,
    notes: Option<Notes>,
    label_clock: LabelClock,
    note_counts: NoteCounts,
    /// Notes for whoever shows them; `None` if nobody does.
    shown_notes: Option<Vec<(u64, NoteContent)>>,
    recorder: Option<Recorder>,
    /// The recorder's ring, until it begins: made before the source is heard, if it is known what that sends.
    recorder_ring: Option<RecorderRing>,
    keep: Option<Keep>,
    resumed: u64,
    latency: LatencyCounts,
    /// Outputs against labels.
    score: LabelScore,
    startup: StartUp,
    /// True once the outputs were put at rest.
    is_at_rest: bool,
    /// Models that the session was given, and times that it went back.
    swapped: u64,
    rolled_back: u64,
    stale_ns: i64,
    backlog: Backlog,
    watch: Watch,
    /// A digital line that two sources hear.
    shared_line: Option<SharedLineWatch>,
    /// True if outputs carry the source's own numbers and times.
    echoes: bool,
    /// The trainer's check for memory, if it is not the allocator's.
    trainer_room: Option<fn(usize) -> bool>,
}

impl Live {
    /// Opens the sources and the sinks of a plan.
    ///
    /// # Errors
    /// The errors of the plan, the model, the sources and the sinks.
    pub fn open(plan: Plan) -> Result<Self> {
        let model = plan.load_model()?;
        open_session(&plan, &model)?;
        let rigs = open_rigs(&plan, &model)?;
        Self::with_rigs(plan, model, rigs)
    }

    /// As [`Live::open`], with a model and the only source of the caller's.
    ///
    /// # Errors
    /// As [`Live::with_rigs`].
    pub fn with_rig(plan: Plan, model: Decoder, rig: Box<dyn Rig>) -> Result<Self> {
        Self::with_rigs(plan, model, vec![rig])
    }

    /// As [`Live::open`], with a model and sources of the caller's.
    ///
    /// # Errors
    /// As [`Live::open`]; `InvalidArgument` for another number of sources than the plan's.
    pub fn with_rigs(plan: Plan, model: Decoder, rigs: Vec<Box<dyn Rig>>) -> Result<Self> {
        if rigs.len() != plan.source.len() {
            return Err(Error::argument(format!(
                "expected the {} sources of the plan, got {}",
                plan.source.len(),
                rigs.len()
            )));
        }
        let Ends { sinks, notes } = Ends::open(&plan, &model)?;
        let recorder_ring = make_recorder_ring(&plan, rigs[0].as_ref())?;
        let mut sources = (rigs.into_iter().enumerate())
            .map(|(number, rig)| LiveSource::start(rig, &plan, number))
            .collect::<Result<Vec<_>>>()?;
        let others = sources.split_off(1);
        let first = (sources.pop())
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a plan has a source"))?;
        Ok(Self {
            notes,
            label_clock: LabelClock::new(),
            note_counts: NoteCounts::default(),
            shown_notes: None,
            stale_ns: (plan.missing.stale_after.seconds() * 1e9) as i64,
            watch: Watch::new(&plan),
            backlog: Backlog::new(plan.missing.backlog, model.step_seconds()),
            first,
            others,
            pipeline: None,
            noise: None,
            swaps: Swaps::default(),
            learner: None,
            recalibrator: None,
            recorder: None,
            recorder_ring,
            keep: None,
            resumed: 0,
            latency: LatencyCounts::new()?,
            score: LabelScore::new(model.outputs().len(), model.delay_steps()),
            startup: StartUp::default(),
            is_at_rest: false,
            swapped: 0,
            rolled_back: 0,
            shared_line: watch_shared_line(&plan),
            echoes: false,
            trainer_room: None,
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

    /// Adds a sink to those of the plan.
    pub fn add_sink(&mut self, sink: Box<dyn Sink>) {
        self.sinks.push(sink);
    }

    /// Sends outputs with the source's own numbers and times of the steps, in place of the session's: of a source of whole steps
    /// that is read in the loop (`inline`). Labels by step then have no numbers to refer to.
    pub fn echo(&mut self) {
        self.echoes = true;
    }

    /// Sets the function that the online trainer asks for memory before each trial and candidate, in place of the program's
    /// allocator. Before [`Live::wait`] and [`Live::run`].
    pub fn set_trainer_room(&mut self, has_room: fn(usize) -> bool) {
        self.trainer_room = Some(has_room);
    }

    /// Makes the pipeline before the first block, for taps and pages that are there from the first step; false if the source
    /// has to be heard first. A source of whole steps that is read in the loop (`inline`) need not, unless the session is kept.
    ///
    /// # Errors
    /// As [`Live::wait`].
    pub fn prepare(&mut self) -> Result<bool> {
        let source = self.plan.source();
        if self.pipeline.is_none()
            && source.inline
            && source.form() == Sends::Steps
            && self.keep.is_none()
        {
            let signal = self.first.signal(&self.plan, 0)?;
            self.begin(&Block::new(), signal, false)?;
        }
        Ok(self.pipeline.is_some())
    }

    /// Waits until the first source has sent its first block, and makes the pipeline for it; false if `until` is over before.
    ///
    /// # Errors
    /// The errors of the source; `Mismatch` if the model does not fit it.
    pub fn wait(&mut self, until: &Until<'_>) -> Result<bool> {
        for source in std::iter::once(&self.first).chain(&self.others) {
            source.ear.announce();
        }
        while self.pipeline.is_none() {
            if (until.stop)() {
                return Ok(false);
            }
            self.take_others(&mut |_| Ok(()))?;
            let Some(block) = self.first.ear.peek() else {
                if self.first.ear.is_over()? {
                    return Ok(false);
                }
                self.first.ear.listen(LOOK);
                continue;
            };
            let voltage = matches!(block.samples, Samples::Voltage(_));
            let first = Block {
                samples: Samples::Features(Vec::new()),
                ..*block
            };
            let signal = self.first.signal(&self.plan, 0)?;
            let started = host_ns();
            self.begin(&first, signal, voltage)?;
            self.startup = StartUp::new(started, host_ns());
        }
        Ok(true)
    }

    /// The pipeline, once [`Live::wait`] has returned true: to attach taps to its session, or to swap models.
    pub fn pipeline_mut(&mut self) -> Option<&mut Pipeline> {
        self.pipeline.as_mut()
    }

    /// Decodes until `until` says so or the first source has ended; `each` hears every step after its outputs were sent. The
    /// calling thread takes the priority and the processor that the plan gives the loop, and keeps them.
    ///
    /// # Errors
    /// The errors of the source, of the sinks and of `each`; `InvalidArgument` with file, line and key for a priority or a
    /// processor that the system refuses.
    pub fn run(&mut self, until: &Until<'_>, each: &mut Give<'_>) -> Result<()> {
        let _ticks = FineTicks::begin();
        if !self.wait(until)? {
            return Ok(());
        }
        self.is_at_rest = false;
        let place = ThreadPlace::of_loop(&self.plan);
        (place.apply()).map_err(|refusal| scheduling::refuse(&self.plan, place, &refusal))?;
        let mut made = 0;
        while until.steps.is_none_or(|most| made < most) && !(until.stop)() {
            let before = self.steps();
            self.check_disk(each)?;
            self.take_notes()?;
            self.take_others(each)?;
            self.take_edges();
            self.catch_up(each)?;
            match self.first.ear.take() {
                Some(mut block) => {
                    block.epoch = block.epoch.wrapping_add(self.first.first_epoch);
                    let done = self.decode(&block, each);
                    self.first.ear.give_back(block);
                    done?;
                }
                None => {
                    if self.first.ear.is_over()? {
                        break;
                    }
                    self.startup.end();
                    self.rest(each)?;
                }
            }
            self.follow_trainer()?;
            self.follow_recalibration()?;
            self.write_checkpoint()?;
            self.look();
            made += self.steps() - before;
        }
        Ok(())
    }

    /// Number of the next step that is made; 0 before the first block.
    pub fn open_step(&self) -> u64 {
        let next = self.pipeline.as_ref().and_then(|p| p.binner().next_step());
        next.unwrap_or(0)
    }

    fn steps(&self) -> u64 {
        self.pipeline
            .as_ref()
            .map_or(0, |p| p.binner().counts().steps)
    }

    fn decode(&mut self, block: &Block, each: &mut Give<'_>) -> Result<()> {
        self.first.hear(block);
        let Some(pipeline) = &mut self.pipeline else {
            return Ok(());
        };
        let mut out = Output {
            sinks: &mut self.sinks,
            recorder: self.recorder.as_mut(),
            learner: self.learner.as_mut(),
            latency: &mut self.latency,
            startup: &mut self.startup,
            score: &mut self.score,
            stamp: self.first.ear.stamp().filter(|_| self.echoes),
        };
        if let Some(recorder) = &mut out.recorder {
            recorder.block(0, block);
        }
        pipeline.take(block, &mut |step| out.give(step, each))
    }

    /// State of the first source's clock.
    pub fn clock(&self) -> ClockState {
        self.first.clock.state()
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
        let newest = self.swaps.newest();
        self.swaps
            .roll_back(decoding(&mut self.pipeline, "roll back")?)?;
        if let Some(recalibrator) = &mut self.recalibrator
            && recalibrator.running() == newest
        {
            recalibrator.note_rolled_back();
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.roll_back(step, host_ns());
        }
        self.rolled_back += 1;
        Ok(())
    }

    /// Gives the session the model that waits: the one that the online trainer proposes (`learn.mode = "propose"`), or the one
    /// that the newest window without labels suggests (`recalibrate.mode = "suggest"`): recalibrated, or as it was trained if the
    /// window speaks against the recalibration. False if there is none.
    ///
    /// # Errors
    /// As [`Live::swap_prepared`]; `InvalidArgument` for a recalibration while the session runs another model than the one that it
    /// began with.
    pub fn accept(&mut self) -> Result<bool> {
        if let Some(swap) = self.learner.as_mut().and_then(Learner::take_proposed) {
            return self.swap_prepared(&swap).map(|()| true);
        }
        self.accept_recalibration()
    }

    /// The error that keeps the newest model of the trainer from being stored, which is tried again every second; or the one that kept
    /// the newest recalibrated model from it.
    pub fn not_stored(&self) -> Option<Error> {
        let of_trainer = self.learner.as_ref().and_then(Learner::not_stored);
        of_trainer.or_else(|| self.recalibrator.as_ref()?.not_stored())
    }

    /// Lets the trainer know the steps that were made, and takes a model that it has made.
    fn follow_trainer(&mut self) -> Result<()> {
        let open = self.open_step();
        let Some(learner) = &mut self.learner else {
            return Ok(());
        };
        learner.follow(open);
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
                let arrival = self.first.clock.arrival(self.first.device_seconds(end));
                ((arrival * 1e9) as i64)
                    .max(self.first.next_ns)
                    .saturating_add(self.stale_ns)
            }
            None => i64::MAX,
        };
        let wait = due.saturating_sub(host_ns()).max(0) as u64;
        if self.first.ear.listen(LOOK.min(Duration::from_nanos(wait))) {
            return Ok(());
        }
        let Some(pipeline) = &mut self.pipeline else {
            return Ok(());
        };
        let mut out = Output {
            sinks: &mut self.sinks,
            recorder: self.recorder.as_mut(),
            learner: self.learner.as_mut(),
            latency: &mut self.latency,
            startup: &mut self.startup,
            score: &mut self.score,
            stamp: None,
        };
        if let (Some(recorder), Some((step, _))) = (&mut out.recorder, open) {
            recorder.stale(step, host_ns());
        }
        pipeline.step_stale(&mut |step| out.give(step, each))
    }

    /// Puts the outputs at rest, so that the last command does not stand: every sink, and `each`, is given a step of values 0,
    /// flagged as held and at rest. It is in no recording. A session whose outputs are at rest already gives none.
    ///
    /// # Errors
    /// The errors of the sinks and of `each`.
    pub fn rest_outputs(&mut self, each: &mut Give<'_>) -> Result<()> {
        let Some(binner) = self.pipeline.as_ref().map(Pipeline::binner) else {
            return Ok(());
        };
        if binner.counts().steps == 0 || std::mem::replace(&mut self.is_at_rest, true) {
            return Ok(());
        }
        let (number, end) = binner.open_step().unwrap_or_default();
        let at_rest = Step {
            number,
            end,
            host_ns: 0,
            status: StepStatus::STALE | StepStatus::HELD | StepStatus::AT_REST,
            values: &vec![0.0; self.model.outputs().len()],
        };
        let after = |stamp: Stamp| Stamp {
            sequence: stamp.sequence.wrapping_add(1),
            ..stamp
        };
        let stamp = self.first.ear.stamp().filter(|_| self.echoes).map(after);
        send(&mut self.sinks, &at_rest, stamp)?;
        each(&at_rest)
    }

    /// Ends the session: puts the outputs at rest, takes the notes that have arrived, and ends the recording, if there is one.
    /// Waits until all of it is in its files. Returns its folder.
    ///
    /// # Errors
    /// The first error of the disk; those of the sinks, and of the bus of the notes.
    pub fn stop(&mut self) -> Result<Option<PathBuf>> {
        let rested = self.rest_outputs(&mut |_| Ok(()));
        let noted = self.take_last_notes();
        let folder = self.end_recording()?;
        rested.and(noted).map(|()| folder)
    }

    fn end_recording(&mut self) -> Result<Option<PathBuf>> {
        self.look_last();
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
}

/// Follows the line that two sources of a plan hear, if it names one.
fn watch_shared_line(plan: &Plan) -> Option<SharedLineWatch> {
    let align = plan.align.as_ref()?;
    let sources: Vec<&str> = plan.source.iter().map(|s| s.name.as_str()).collect();
    SharedLineWatch::new(&align.line, align.limit.seconds(), &sources)
}

/// The ring of the recorder of a plan that records, if the first source or the plan says what the source sends.
fn make_recorder_ring(plan: &Plan, first: &dyn Rig) -> Result<Option<RecorderRing>> {
    let source = plan.source();
    let declared = source.channels.zip(source.rate);
    let known = (first.signal()).map_or(declared, |signal| Some((signal.channels, signal.rate)));
    match known.filter(|_| plan.record.is_some()) {
        Some((channels, rate)) => RecorderRing::new(record::ring_bytes(channels, rate)).map(Some),
        None => Ok(None),
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
