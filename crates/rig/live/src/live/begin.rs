//! The begin of a session at the first block of its source: anew, or where a killed one was.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use betz_base::Result;
use betz_rigs::rig::{Block, Signal, host_ns};
use betz_runtime::model::Decoder;
use betz_train::retained::StoredStatistics;

use super::Live;
use crate::checkpoint::Checkpoint;
use crate::learn::Learner;
use crate::pipeline::Pipeline;
use crate::recalibrate::Recalibrator;
use crate::record::{self, Facts, Recorder, VERSIONS, unix_seconds};
use crate::resume::{OpenRecording, Search};
use crate::swap::model_of;

/// Time between two checkpoints in seconds.
const EVERY: f64 = 1.0;

/// State of a session that is kept.
pub(super) struct Keep {
    /// Steps from one checkpoint to the next.
    every: u64,
    /// Step from which on the next checkpoint is due.
    due: u64,
    unfinished: Option<Box<OpenRecording>>,
    /// Keeps other processes from going on with the recording.
    lock: Option<File>,
    /// The newest checkpoint, and its bytes: their room is used again.
    state: Checkpoint,
    bytes: Vec<u8>,
}

/// Start of a session that is kept: from an earlier one's state, or from rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resumption {
    /// The session goes on with the recording in this folder, if the source sends what it is of.
    Resumes(PathBuf),
    /// The session starts from rest, for this reason.
    StartsAnew(String),
}

impl fmt::Display for Resumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resumes(folder) => write!(f, "goes on with {}", folder.display()),
            Self::StartsAnew(why) => write!(f, "starts from rest: {why}"),
        }
    }
}

impl Live {
    /// Keeps the session: every second it writes a checkpoint into its recording. If the newest recording of the plan's folder is
    /// of the same plan, model and sorter, has not ended as asked, and is not older than `record.resume_within`, the session
    /// goes on with it. Before [`Live::wait`] and [`Live::run`].
    ///
    /// Restored are the decoder, the grid and numbers of the steps, the open step, the front end with its filters and noise, the
    /// counts, and the model that decoded: the outputs are those of a session that lost the rows of the gap. Other sources than
    /// the first begin a new epoch. Not restored are the trainer's statistics, the model to roll back to, the clock of the source,
    /// and latencies. A model that had not taken over yet is given again.
    ///
    /// # Errors
    /// `InvalidArgument` for a plan that does not record; `Io` if recordings cannot be read.
    pub fn keep(&mut self) -> Result<Resumption> {
        let (unfinished, told) = match OpenRecording::find(&self.plan, &self.model)? {
            Search::Found(found) => {
                let folder = found.folder.clone();
                (Some(found), Resumption::Resumes(folder))
            }
            Search::Nothing(why) => (None, Resumption::StartsAnew(why)),
        };
        self.keep = Some(Keep {
            every: ((EVERY / self.model.step_seconds()).round() as u64).max(1),
            due: 0,
            unfinished,
            lock: None,
            state: Checkpoint::default(),
            bytes: Vec::new(),
        });
        Ok(told)
    }

    /// Makes the pipeline and the recorder for the source's first block.
    pub(super) fn begin(&mut self, first: &Block, signal: Signal, voltage: bool) -> Result<()> {
        let unfinished = self.keep.as_mut().and_then(|keep| keep.unfinished.take());
        let mut decodes = None;
        let mut pipeline = match unfinished.filter(|u| u.fits(&signal, voltage)) {
            Some(unfinished) => {
                let (pipeline, model) = self.resume(*unfinished, first)?;
                decodes = Some(model);
                pipeline
            }
            None => self.begin_anew(signal, voltage)?,
        };
        let folder = self.folder().map(ToOwned::to_owned);
        // A model that was given while the session ran need not keep sums: the trainer then begins with those of the start.
        let model = (decodes.as_ref())
            .filter(|model| StoredStatistics::read(model).is_ok())
            .unwrap_or(&self.model);
        if let Some(keep) = &mut self.keep {
            // Here, so that no checkpoint allocates in the loop.
            let spare = pipeline.checkpoint(self.resumed, None, &mut keep.state)?;
            keep.state.reserve(spare, &mut keep.bytes);
        }
        let session = pipeline.session_mut();
        let learner = Learner::start(
            &self.plan,
            model,
            session,
            folder.clone(),
            self.trainer_room,
        )?;
        self.learner = learner;
        let session = pipeline.session_mut();
        self.recalibrator = Recalibrator::start(&self.plan, &self.model, session, folder)?;
        self.pipeline = Some(pipeline);
        Ok(())
    }

    fn begin_anew(&mut self, signal: Signal, voltage: bool) -> Result<Pipeline> {
        let mut pipeline = Pipeline::new(&self.plan, &self.model, &signal, voltage)?;
        if let Some(noise) = &self.noise {
            pipeline.set_noise(noise)?;
        }
        let Some(to) = self.plan.record_path() else {
            return Ok(pipeline);
        };
        let facts = Facts {
            version: VERSIONS[usize::from(self.plan.source.len() > 1)],
            channels: signal.channels,
            rate: signal.rate,
            microvolts: signal.microvolts,
            voltage,
            noise: self.noise.clone(),
            unix_seconds: unix_seconds(),
        };
        let with = (host_ns(), self.recorder_ring.take());
        let started = record::start_with(&to, &self.plan, &self.model, &facts, with);
        let recorder = self.refuse_disk(started)?;
        if let Some(keep) = &mut self.keep {
            keep.lock = record::lock(recorder.folder())?;
        }
        self.recorder = Some(recorder);
        Ok(pipeline)
    }

    /// The pipeline where the killed session was, and the model that decodes.
    fn resume(&mut self, unfinished: OpenRecording, first: &Block) -> Result<(Pipeline, Decoder)> {
        let mut state = unfinished.state(&self.plan, &self.model)?;
        let (folder, facts) = (&unfinished.folder, &unfinished.facts);
        let model = model_of(&self.model, folder, state.head.model)?;
        let mut pipeline = Pipeline::resume(&self.plan, &model, facts, &state)?;
        let before = state.head.binner.first.epoch;
        let epoch = match state.is_followed_by(first, facts.rate) {
            true => before,
            false => before.wrapping_add(1),
        };
        self.first.first_epoch = epoch.wrapping_sub(first.epoch);
        for other in &state.head.binner.others {
            // Its filters start again: an epoch begins.
            if let Some(heard) = self.others.get_mut(other.source - 1) {
                heard.first_epoch = other.lane.epoch.wrapping_add(1);
            }
        }
        let mut from = unfinished.from;
        // Another one than any block's: the first block says its epoch.
        from.epoch = !epoch;
        let ring = self.recorder_ring.take();
        let opened = record::go_on(folder, &self.plan, facts, from, ring);
        let mut recorder = self.refuse_disk(opened)?;
        let step = pipeline.binner().next_step().unwrap_or(0);
        let mut bytes = Vec::new();
        state.write_to(&mut bytes)?;
        recorder.checkpoint(step, &bytes, true, host_ns());
        if let Some(pending) = state.head.pending {
            // It hears as much as it remembers once more.
            recorder.swap(step, pending, host_ns());
            self.swaps.swap_recorded(&mut pipeline, folder, pending)?;
        }
        self.recorder = Some(recorder);
        self.resumed = state.head.resumed;
        if let Some(keep) = &mut self.keep {
            keep.lock = Some(unfinished.lock);
            keep.due = step + keep.every;
        }
        Ok((pipeline, model))
    }

    /// An error of the recorder's start, with file, line and key.
    fn refuse_disk(&self, started: Result<Recorder>) -> Result<Recorder> {
        started.map_err(|e| {
            self.plan
                .refuse("record", "to", e.message())
                .of_kind(e.kind())
        })
    }

    /// Writes the checkpoint that is due, if the session is kept.
    pub(super) fn write_checkpoint(&mut self) -> Result<()> {
        let step = self.open_step();
        let (Some(keep), Some(recorder), Some(pipeline)) =
            (&mut self.keep, &mut self.recorder, &mut self.pipeline)
        else {
            return Ok(());
        };
        if step < keep.due {
            return Ok(());
        }
        keep.due = step + keep.every;
        let (state, bytes) = (&mut keep.state, &mut keep.bytes);
        pipeline.checkpoint(self.resumed, self.swaps.newest(), state)?;
        state.write_to(bytes)?;
        recorder.checkpoint(step, bytes, false, host_ns());
        Ok(())
    }
}
