//! Replay: the recorded blocks and decisions through a pipeline again, compared with the recorded outputs.

use std::collections::VecDeque;
use std::path::Path;

use betz_base::{Error, Result};
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::event::BinnerCounts;
use crate::learn::{RelearnReport, Relearner};
use crate::pipeline::{Give, Pipeline, Step};
use crate::record::{Damage, Facts, Record, Recording};
use crate::swap::{Swaps, model_of};

/// The first step at which a replay differs from its recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Number of the recorded step.
    pub step: u64,
    /// Recorded outputs; empty if no such step was recorded.
    pub recorded: Vec<f32>,
    /// Outputs of the replay; empty if it made no such step.
    pub replayed: Vec<f32>,
}

/// Result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReplayReport {
    /// Rows and steps.
    pub input: BinnerCounts,
    /// Steps whose outputs and status were compared.
    pub compared: u64,
    /// Steps that differ, in any bit.
    pub different: u64,
    /// The first of them.
    pub first: Option<Difference>,
    /// Steps after a gap of the recording, which cannot be compared.
    pub not_compared: u64,
    /// Damage of the recording.
    pub damage: Damage,
    /// Length of the session in seconds.
    pub seconds: f64,
    /// Result of learning again, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relearned: Option<RelearnReport>,
}

/// A replay.
pub struct Replay {
    recording: Recording,
    pipeline: Pipeline,
    swaps: Swaps,
    relearner: Option<Relearner>,
}

/// A step of the replay that waits for the recorded one.
struct PendingStep {
    number: u64,
    status: u32,
    values: Vec<f32>,
}

impl Replay {
    /// Opens the recording in `folder`.
    ///
    /// # Errors
    /// The errors of [`Recording::open`]; `Mismatch` if plan, model and source do not fit each other.
    pub fn open(folder: &Path) -> Result<Self> {
        let recording = Recording::open(folder)?;
        let facts = &recording.facts;
        let mut pipeline = Pipeline::new(
            &recording.plan,
            &recording.model,
            &facts.signal(),
            facts.voltage,
        )?;
        if let Some(noise) = &facts.noise {
            pipeline.set_noise(noise)?;
        }
        Ok(Self {
            recording,
            pipeline,
            swaps: Swaps::default(),
            relearner: None,
        })
    }

    /// Runs the online trainer again, too. Every model that the session was given is compared with those that the trainer
    /// makes. The replay still swaps what was recorded.
    ///
    /// # Errors
    /// `InvalidArgument` for the recording of a session without a trainer; the errors of the trainer.
    pub fn relearn(&mut self) -> Result<()> {
        let Recording { plan, model, .. } = &self.recording;
        let relearner = Relearner::open(plan, model, self.pipeline.session_mut())?;
        self.relearner = Some(relearner);
        Ok(())
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The pipeline, to attach taps to its session; they hear nothing any more where the session went on after a kill.
    pub fn pipeline_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }

    /// Runs to the end as fast as possible; `each` hears every step.
    ///
    /// # Errors
    /// The errors of the disk, of the pipeline and of `each`.
    pub fn run(mut self, each: &mut dyn FnMut(&Step<'_>) -> Result<()>) -> Result<ReplayReport> {
        let mut made: VecDeque<PendingStep> = VecDeque::new();
        let mut replayed = ReplayReport::default();
        let mut relearner = self.relearner.take();
        while let Some(record) = self.recording.reader.next_record()? {
            let damage = self.recording.reader.damage();
            if let (Some(relearner), Record::Swap { step, fingerprint }) = (&mut relearner, &record)
            {
                relearner.compare(*step, *fingerprint);
            }
            let mut give = |step: &Step<'_>| {
                made.push_back(PendingStep {
                    number: step.number,
                    status: step.status.bits(),
                    values: step.values.to_vec(),
                });
                if let Some(relearner) = &mut relearner {
                    relearner.made(step);
                }
                each(step)
            };
            match record {
                Record::Step {
                    number,
                    status,
                    values,
                    ..
                } => {
                    if damage.is_clean() {
                        replayed.compare(&mut made, number, status, values);
                    } else {
                        replayed.not_compared += 1;
                        made.clear();
                    }
                }
                Record::Checkpoint {
                    resumed: true,
                    state,
                } => {
                    // The steps whose outputs were not yet written when the session was killed.
                    made.clear();
                    self.resume(&state, relearner.as_mut())?;
                }
                Record::Note { step, content } => {
                    let open = self.open_step();
                    if let Some(relearner) = &mut relearner {
                        relearner.note(step, open, &content);
                    }
                }
                other => self.take(other, damage.is_clean(), &mut give)?,
            }
            if let Some(relearner) = &mut relearner {
                let open = self.open_step();
                relearner.work(open)?;
            }
        }
        replayed.relearned = relearner.map(|relearner| relearner.report());
        replayed.damage = self.recording.reader.damage();
        if replayed.damage.ended && replayed.damage.is_clean() {
            replayed.unmatched(&made);
        }
        replayed.input = self.pipeline.binner().counts();
        let first = self.pipeline.binner().source_counts(0);
        let rows = (first.rows + first.lost) as f64;
        replayed.seconds = rows / self.recording.facts.rate;
        Ok(replayed)
    }

    /// Number of the next step that is made.
    fn open_step(&self) -> u64 {
        self.pipeline.binner().next_step().unwrap_or(0)
    }

    /// Goes on from a checkpoint, as the session did.
    fn resume(&mut self, state: &[u8], relearner: Option<&mut Relearner>) -> Result<()> {
        let state = Checkpoint::from_bytes(state)?;
        let Recording {
            plan,
            model,
            folder,
            facts,
            ..
        } = &self.recording;
        let decodes = model_of(model, folder, state.head.model)?;
        self.pipeline = Pipeline::resume(plan, &decodes, facts, &state)?;
        self.swaps = Swaps::default();
        if let Some(relearner) = relearner {
            relearner.resume(plan, model, &decodes, self.pipeline.session_mut())?;
        }
        Ok(())
    }

    /// Gives a block or a decision to the pipeline; `is_clean`: nothing of the recording was missing so far.
    fn take(&mut self, record: Record, is_clean: bool, give: &mut Give<'_>) -> Result<()> {
        match record {
            // The facts of a source may be missing, too.
            Record::Block(source, block) if self.pipeline.binner().has_source(source) => {
                self.pipeline.take_from(source, &block, give)
            }
            Record::Configuration(source, json) => {
                let facts = Facts::from_json(&json)?;
                let (plan, signal) = (&self.recording.plan, facts.signal());
                (self.pipeline).add_source(plan, source, &signal, facts.voltage)
            }
            Record::Alignment(source, at) if self.pipeline.binner().has_source(source) => {
                self.pipeline.align(source, &at, give)
            }
            Record::Stale(step) => {
                self.check_decision(step, is_clean)?;
                self.pipeline.step_stale(give)
            }
            Record::SkipBehind { step, to } => {
                self.check_decision(step, is_clean)?;
                self.pipeline.skip_behind(to, give)
            }
            Record::Swap { fingerprint, .. } => {
                let folder = &self.recording.folder;
                (self.swaps).swap_recorded(&mut self.pipeline, folder, fingerprint)
            }
            Record::RollBack(_) => self.swaps.roll_back(&mut self.pipeline),
            _ => Ok(()),
        }
    }

    /// Refuses a decision about another step than the open one, if nothing of the recording was missing so far.
    fn check_decision(&self, step: u64, is_clean: bool) -> Result<()> {
        let open = self.pipeline.binner().open_step().map(|(number, _)| number);
        if open == Some(step) || !is_clean {
            return Ok(());
        }
        Err(Error::recording(format!(
            "recording: expected a decision about the open step {open:?}, got one about step {step}"
        )))
    }
}

impl ReplayReport {
    /// True if every recorded step came again with the same bits, nothing of the recording is damaged, and the trainer, if it
    /// ran, made every model again.
    pub fn is_equal(&self) -> bool {
        let learned = self
            .relearned
            .as_ref()
            .is_none_or(|learned| learned.other == 0);
        self.different == 0 && self.not_compared == 0 && self.damage.is_clean() && learned
    }

    /// Counts steps that a session which ended as asked has not recorded.
    fn unmatched(&mut self, made: &VecDeque<PendingStep>) {
        self.different += made.len() as u64;
        if let Some(step) = made.front() {
            self.first.get_or_insert_with(|| Difference {
                step: step.number,
                recorded: Vec::new(),
                replayed: step.values.clone(),
            });
        }
    }

    fn compare(
        &mut self,
        made: &mut VecDeque<PendingStep>,
        number: u64,
        status: u32,
        recorded: Vec<f32>,
    ) {
        self.compared += 1;
        let mine = made.pop_front();
        let same = mine.as_ref().is_some_and(|mine| {
            mine.number == number
                && mine.status == status
                && mine.values.len() == recorded.len()
                && mine
                    .values
                    .iter()
                    .zip(&recorded)
                    .all(|(a, b)| a.to_bits() == b.to_bits())
        });
        if same {
            return;
        }
        self.different += 1;
        self.first.get_or_insert_with(|| Difference {
            step: number,
            recorded,
            replayed: mine.map(|mine| mine.values).unwrap_or_default(),
        });
    }
}
