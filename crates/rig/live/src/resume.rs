//! A session that was killed goes on from its last checkpoint and its recording.
//!
//! A session that is kept writes a checkpoint into its recording every second. The next process reads the end of the
//! recording, takes the newest checkpoint, and runs the blocks and decisions behind it through a pipeline again. The state that
//! this gives is recorded, and a new pipeline is made of it: by the session, and by every replay, so that both give the same bits.

use std::fs::File;
use std::path::PathBuf;
use std::time::SystemTime;

use betz_base::{Error, Result};
use betz_rigs::rig::Signal;
use betz_runtime::model::Decoder;

use crate::checkpoint::Checkpoint;
use crate::pipeline::Pipeline;
use crate::plan::Plan;
use crate::record::{self, Continuation, Facts, Reader, Record, Recording};
use crate::swap::{Swaps, model_of};

/// Seconds of voltage at the end of a recording in which a checkpoint must lie, and the least of them in bytes: reading them
/// takes a part of a second.
const TAIL_SECONDS: f64 = 3.0;
const TAIL: u64 = 16 << 20;

/// A recording that a session goes on with.
pub(crate) struct OpenRecording {
    pub(crate) folder: PathBuf,
    pub(crate) facts: Facts,
    checkpoint: Checkpoint,
    /// Blocks and decisions after the checkpoint.
    rest: Vec<Record>,
    pub(crate) from: Continuation,
    pub(crate) lock: File,
}

/// Result of [`OpenRecording::find`].
pub(crate) enum Search {
    Found(Box<OpenRecording>),
    /// No recording can be gone on with; the reason, in words.
    Nothing(String),
}

impl OpenRecording {
    /// The newest recording of a plan's folder, if a session can go on with it.
    ///
    /// # Errors
    /// `Io` if the recordings cannot be read.
    pub(crate) fn find(plan: &Plan, model: &Decoder) -> Result<Search> {
        let nothing = |why: String| Ok(Search::Nothing(why));
        let (Some(to), Some(settings)) = (plan.record_path(), &plan.record) else {
            return Err(Error::argument(
                "keep: expected a plan that records (record.to), because a session goes on with its recording; got none",
            ));
        };
        let Some(folder) = record::newest(&to)? else {
            return nothing(format!("{} has no recording yet", to.display()));
        };
        let named = folder.display().to_string();
        if !record::is_of(&folder, plan, model)? {
            return nothing(format!("{named} is of another plan, model or sorter"));
        }
        let Some(lock) = record::lock(&folder)? else {
            return nothing(format!("{named} is of a session that runs"));
        };
        let within = settings.resume_within;
        let age = record::last_written(&folder)
            .and_then(|at| SystemTime::now().duration_since(at).ok())
            .map_or(0.0, |age| age.as_secs_f64());
        if age > within.seconds() {
            return nothing(format!(
                "{named} is {age:.0} s old, more than record.resume_within = {within}"
            ));
        }
        // A session that was killed before its first frame was written has nothing to go on with.
        let Ok(Recording { facts, .. }) = Recording::open(&folder) else {
            return nothing(format!("{named} has no facts of its source"));
        };
        let tail = TAIL.max((facts.channels as f64 * facts.rate * 2.0 * TAIL_SECONDS) as u64);
        let mut read = Tail::read(Reader::open_tail(&folder, tail)?)?;
        if read.checkpoint.is_none() {
            read = Tail::read(Reader::open(&folder)?)?;
        }
        match read {
            Tail { ended: true, .. } => nothing(format!("{named} has ended as asked")),
            Tail {
                checkpoint: None, ..
            } => nothing(format!("{named} has no checkpoint")),
            Tail {
                checkpoint: Some(checkpoint),
                rest,
                number,
                ..
            } => Ok(Search::Found(Box::new(Self {
                from: Continuation {
                    segment: record::next_segment(&folder)?,
                    number,
                    epoch: 0,
                },
                folder,
                facts,
                checkpoint,
                rest,
                lock,
            }))),
        }
    }

    /// True if the source sends what the recording is of.
    pub(crate) fn fits(&self, signal: &Signal, voltage: bool) -> bool {
        let of = &self.facts;
        (of.channels, of.rate, of.microvolts, of.voltage)
            == (signal.channels, signal.rate, signal.microvolts, voltage)
    }

    /// The state at the end of the recording.
    ///
    /// # Errors
    /// The errors of [`model_of`], [`Pipeline::resume`] and [`Pipeline::take`].
    pub(crate) fn state(&self, plan: &Plan, start: &Decoder) -> Result<Checkpoint> {
        let model = model_of(start, &self.folder, self.checkpoint.head.model)?;
        let mut pipeline = Pipeline::resume(plan, &model, &self.facts, &self.checkpoint)?;
        let mut swaps = Swaps::default();
        if let Some(pending) = self.checkpoint.head.pending {
            swaps.swap_recorded(&mut pipeline, &self.folder, pending)?;
        }
        for record in &self.rest {
            match record {
                Record::Block(source, block) if pipeline.binner().has_source(*source) => {
                    pipeline.take_from(*source, block, &mut |_| Ok(()))?;
                }
                Record::Configuration(source, json) => {
                    let facts = Facts::from_json(json)?;
                    pipeline.add_source(plan, *source, &facts.signal(), facts.voltage)?;
                }
                Record::Alignment(source, at) if pipeline.binner().has_source(*source) => {
                    pipeline.align(*source, at, &mut |_| Ok(()))?;
                }
                Record::Stale(_) => pipeline.step_stale(&mut |_| Ok(()))?,
                Record::SkipBehind { to, .. } => pipeline.skip_behind(*to, &mut |_| Ok(()))?,
                Record::Swap { fingerprint, .. } => {
                    swaps.swap_recorded(&mut pipeline, &self.folder, *fingerprint)?;
                }
                // The model before is not part of a checkpoint.
                Record::RollBack(_) => {
                    let _ = swaps.roll_back(&mut pipeline);
                }
                _ => {}
            }
        }
        let mut state = Checkpoint::default();
        let resumed = self.checkpoint.head.resumed + 1;
        pipeline.checkpoint(resumed, swaps.newest(), &mut state)?;
        Ok(state)
    }
}

/// The end of a recording.
struct Tail {
    checkpoint: Option<Checkpoint>,
    rest: Vec<Record>,
    /// Number of the next frame.
    number: u64,
    ended: bool,
}

impl Tail {
    fn read(mut reader: Reader) -> Result<Self> {
        let (mut checkpoint, mut rest) = (None, Vec::new());
        while let Some(record) = reader.next_record()? {
            match record {
                Record::Checkpoint { state, .. } => {
                    let state = Checkpoint::from_bytes(&state)?;
                    reader.set_epoch(0, state.head.binner.first.epoch);
                    for other in &state.head.binner.others {
                        reader.set_epoch(other.source, other.lane.epoch);
                    }
                    checkpoint = Some(state);
                    rest.clear();
                }
                Record::Block(..)
                | Record::Configuration(..)
                | Record::Alignment(..)
                | Record::Stale(_)
                | Record::SkipBehind { .. }
                | Record::Swap { .. }
                | Record::RollBack(_)
                    if checkpoint.is_some() =>
                {
                    rest.push(record);
                }
                _ => {}
            }
        }
        Ok(Self {
            checkpoint,
            rest,
            number: reader.next_number(),
            ended: reader.damage().ended,
        })
    }
}
