//! Labels, marks and trials of a session, and the steps that they belong to.

use betz_base::Result;
use betz_rigs::rig::host_ns;
use betz_rigs::rig::notes::{Note, NoteContent};

use super::Live;
use crate::clock::Clock;
use crate::notes::Notes;
use crate::plan::LabelRule;

/// Largest number of notes that wait to be shown.
const MOST_SHOWN: usize = 1 << 16;
/// Bound of the least one-way delay of a note, in seconds.
const PATH: f64 = 0.5e-3;

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

/// The clock of the sender of labels: its time on the host's clock.
pub(super) struct LabelClock {
    clock: Clock,
    /// Its first time in nanoseconds: differences have more digits.
    origin: Option<i64>,
}

impl LabelClock {
    /// A clock that has heard nothing.
    pub(super) fn new() -> Self {
        Self {
            clock: Clock::new(PATH),
            origin: None,
        }
    }

    /// Host time in seconds of the sender's time in nanoseconds, in a note that has arrived at a host time.
    fn host(&mut self, sent: i64, arrival: f64) -> f64 {
        let origin = *self.origin.get_or_insert(sent);
        let sent = sent.saturating_sub(origin) as f64 * 1e-9;
        self.clock.add(sent, arrival);
        // Nothing was sent after it has arrived.
        self.clock.host(sent).min(arrival)
    }
}

impl Live {
    /// Takes the labels, marks and trials that have arrived.
    pub(super) fn take_notes(&mut self) -> Result<()> {
        while let Some(note) = self.notes.as_mut().and_then(Notes::take) {
            self.take_note(&note);
        }
        let failure = self.notes.as_ref().and_then(Notes::failure);
        failure.map_or(Ok(()), Err)
    }

    /// Takes those that had arrived when the session ended, and listens to no more.
    pub(super) fn take_last_notes(&mut self) -> Result<()> {
        let before = self.take_notes();
        if let Some(notes) = &mut self.notes {
            notes.close();
        }
        before.and_then(|()| self.take_notes())
    }

    /// Takes a label, a mark, or the begin or end of a trial as one of the bus: it finds its step by the plan's `labels.by`.
    pub fn take_note(&mut self, note: &Note) {
        let step = self.step_of(note);
        self.note(step, &note.content, note.host_ns);
    }

    /// The step that a note of the bus belongs to.
    fn step_of(&mut self, note: &Note) -> u64 {
        let by = self.plan.labels.by;
        let (sent, arrival) = (note.sent, note.host_ns as f64 * 1e-9);
        let step = match by {
            LabelRule::Step => note.step,
            LabelRule::Time if sent != 0 => {
                let host = self.label_clock.host(sent, arrival);
                self.step_at(host)
            }
            LabelRule::Time | LabelRule::Arrival => self.step_at(arrival),
        };
        step.unwrap_or_else(|| self.open_step())
    }

    /// The step in which a host time lies, by the first source's clock; `None` before its first block.
    pub(super) fn step_at(&self, host: f64) -> Option<u64> {
        let binner = self.pipeline.as_ref()?.binner();
        let (open, _) = binner.open_step()?;
        let (begin, rows_per_step) = binner.place(0, open)?;
        let steps = ((self.first.row(host) - begin as f64) / rows_per_step).floor();
        Some(open.saturating_add_signed(steps as i64))
    }

    /// Counts and records a note.
    pub(super) fn note(&mut self, step: u64, content: &NoteContent, host_ns: i64) {
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
        if let NoteContent::Label(values) = content {
            self.score.label(step, open, values);
        }
        if let Some(shown) = &mut self.shown_notes
            && shown.len() < MOST_SHOWN
        {
            shown.push((step, content.clone()));
        }
        if let Some(learner) = &mut self.learner {
            learner.follow(open);
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
}
