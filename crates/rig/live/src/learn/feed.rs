//! Labels and trials of a session, on their way to its trainer.
//!
//! Nothing here looks at a clock: time is counted in steps, so that a replay feeds its trainer the same.

use std::collections::{BTreeMap, VecDeque};

use betz_base::Result;
use betz_rigs::rig::notes::NoteContent;
use betz_runtime::stream::StepStatus;
use betz_train::online::Labels;

use crate::pipeline::Step;
use crate::plan::Span;

/// Steps ahead of the open one that may have a label already.
const AHEAD: u64 = 1024;
/// Ended trials that may wait for labels.
const MOST_ENDS: usize = 64;
/// Newest steps of which it is known whether data were missing. Labels of older ones come too late.
const REMEMBERED: u64 = 1 << 16;

/// End of a part of the session: of a trial, or of the pause before one.
#[derive(Clone, Copy)]
struct PartEnd {
    /// First step after it.
    stop: u64,
    /// Part that ends.
    part: Part,
}

/// A part of the session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A trial to learn from.
    Trial,
    /// A trial that is not to be learned from.
    Rejected,
    /// The pause before a trial.
    Pause,
}

/// Gives a trainer the labels of each trial, and then the trial's end. An ended trial waits for its labels.
pub(super) struct TrialFeed {
    labels: Labels,
    /// Steps for which a trial waits.
    wait: u64,
    /// First step of the epoch, and the tick of the trainer's tap minus the step's number.
    grid: (u64, i64),
    /// First step that no ended part has.
    begin: u64,
    /// The newest step since `begin` that has a label.
    labelled: Option<u64>,
    /// Labels of steps that are not made yet, or that lie after a trial that waits.
    held: BTreeMap<u64, Vec<f32>>,
    ends: VecDeque<PartEnd>,
    quality: StepQuality,
    /// Labels that came too late, or without room.
    pub(super) late: u64,
    /// Labels of steps in which data were missing.
    pub(super) left_out: u64,
}

impl TrialFeed {
    /// The feed behind `labels`, of steps of `step_seconds`; an ended trial waits for its labels as long as `wait`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn new(labels: Labels, wait: Span, step_seconds: f64) -> Result<Self> {
        Ok(Self {
            labels,
            wait: ((wait.seconds() / step_seconds).ceil() as u64).min(REMEMBERED / 2),
            grid: (0, 0),
            begin: 0,
            labelled: None,
            held: BTreeMap::new(),
            ends: VecDeque::with_capacity(MOST_ENDS),
            quality: StepQuality::new()?,
            late: 0,
            left_out: 0,
        })
    }

    /// Takes a label, or the begin or end of a trial; `open` is the step that is being filled.
    pub(super) fn note(&mut self, step: u64, open: u64, content: &NoteContent) {
        // The step of a trial's end is its last one, unless that is still open.
        let stop = if step == open { step } else { step + 1 };
        match content {
            NoteContent::Label(values) => self.take(step, open, values),
            NoteContent::Mark(_) => {}
            // A trial has no part of the pause before it.
            NoteContent::TrialBegin => self.end(step, Part::Pause),
            NoteContent::TrialEnd => self.end(stop, Part::Trial),
            NoteContent::TrialReject => self.end(stop, Part::Rejected),
        }
        self.advance(open);
    }

    fn take(&mut self, step: u64, open: u64, values: &[f32]) {
        let waits = self.ends.front().is_some_and(|end| step >= end.stop);
        if step < open && !waits {
            self.label(step, values);
        } else if step < open.saturating_add(AHEAD) {
            self.held.insert(step, values.to_vec());
        } else {
            self.late += 1;
        }
    }

    fn end(&mut self, stop: u64, part: Part) {
        let stop = stop.max(self.ends.back().map_or(self.begin, |end| end.stop));
        self.ends.push_back(PartEnd { stop, part });
    }

    /// Gives the trainer the ends that wait for nothing more, and the labels of the steps that are made.
    fn advance(&mut self, open: u64) {
        while let Some(&PartEnd { stop, part }) = self.ends.front() {
            if stop > open {
                break;
            }
            self.release(stop);
            // A label of the last step, or of a later one.
            let is_last = self.labelled.is_some_and(|last| last + 1 >= stop);
            let is_over = open >= stop.saturating_add(self.wait) || self.ends.len() > MOST_ENDS;
            if part == Part::Trial && !is_over && !is_last && self.held.is_empty() {
                break;
            }
            self.hand_on(stop, part);
        }
        let stop = self.ends.front().map_or(open, |end| open.min(end.stop));
        self.release(stop);
    }

    /// Gives the trainer the first end.
    fn hand_on(&mut self, stop: u64, part: Part) {
        if part != Part::Pause || self.labelled.is_some() {
            let (first, offset) = self.grid;
            let last = (self.quality.last_made(first, stop))
                .map(|last| (last as i64).saturating_add(offset))
                .or_else(|| self.labels.newest_tick());
            if let Some(tick) = last {
                match part {
                    Part::Pause => self.labels.end_pause_at(tick),
                    _ => self.labels.end_trial_at(tick, part == Part::Trial),
                };
            }
        }
        (self.begin, self.labelled) = (stop, None);
        self.ends.pop_front();
    }

    /// Gives the trainer the labels of the steps before `stop`.
    fn release(&mut self, stop: u64) {
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() >= stop {
                break;
            }
            let (step, values) = entry.remove_entry();
            self.label(step, &values);
        }
    }

    fn label(&mut self, step: u64, values: &[f32]) {
        let (first, offset) = self.grid;
        let tick = (step as i64).saturating_add(offset);
        if step < first || step < self.begin || self.quality.is_forgotten(step) {
            self.late += 1;
            return;
        }
        if self.quality.is_missing(step) {
            self.left_out += 1;
        } else if self.labels.label_at(tick, values).is_err() {
            // The trainer counts what it refuses, too; the values were looked at before.
            self.late += 1;
            return;
        }
        self.labelled = self.labelled.max(Some(step));
    }

    /// Takes note of a step that was made.
    pub(super) fn made(&mut self, step: &Step<'_>) {
        let number = step.number;
        let tick = self.labels.newest_tick().unwrap_or(0);
        let offset = tick.saturating_sub(number as i64);
        if offset != self.grid.1 {
            // The device has started again: what came before has no more labels.
            while let Some(&PartEnd { stop, part }) = self.ends.front() {
                self.release(stop.min(number));
                self.hand_on(stop, part);
            }
            self.grid = (number, offset);
        }
        let flags = StepStatus::STALE | StepStatus::DROPPED;
        self.quality.set(number, step.status.intersects(flags));
    }

    /// Takes note of the steps that were made; `open` is the one that is being filled.
    pub(super) fn follow(&mut self, open: u64) {
        self.advance(open);
    }
}

/// The newest steps that were made of whole data, without some, or not at all.
struct StepQuality {
    /// A bit per step: data were missing, or the step was skipped.
    missing: Vec<u64>,
    /// A bit per step: it was skipped.
    skipped: Vec<u64>,
    newest: Option<u64>,
}

impl StepQuality {
    /// No step yet.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn new() -> Result<Self> {
        let words = (REMEMBERED / 64) as usize;
        Ok(Self {
            missing: betz_base::memory::filled("the trainer's steps", 0, words)?,
            skipped: betz_base::memory::filled("the trainer's steps", 0, words)?,
            newest: None,
        })
    }

    /// The word and the bit of a step.
    fn place(step: u64) -> (usize, u64) {
        let place = step % REMEMBERED;
        ((place / 64) as usize, 1 << (place % 64))
    }

    fn put(&mut self, step: u64, missing: bool, skipped: bool) {
        let (word, bit) = Self::place(step);
        for (bits, is_set) in [(&mut self.missing, missing), (&mut self.skipped, skipped)] {
            match is_set {
                true => bits[word] |= bit,
                false => bits[word] &= !bit,
            }
        }
    }

    /// Takes note of the newest step; those between it and the one before were skipped.
    fn set(&mut self, step: u64, missing: bool) {
        if let Some(newest) = self.newest {
            let oldest = (newest + 1).max(step.saturating_sub(REMEMBERED));
            (oldest..step).for_each(|skipped| self.put(skipped, true, true));
        }
        self.put(step, missing, false);
        self.newest = Some(step);
    }

    fn is_missing(&self, step: u64) -> bool {
        let (word, bit) = Self::place(step);
        self.missing[word] & bit != 0
    }

    /// True for a step that is too old.
    fn is_forgotten(&self, step: u64) -> bool {
        (self.newest).is_some_and(|newest| step.saturating_add(REMEMBERED) <= newest)
    }

    /// The last step from `first` to before `stop` that was made.
    fn last_made(&self, first: u64, stop: u64) -> Option<u64> {
        let newest = self.newest?;
        let oldest = first.max(newest.saturating_sub(REMEMBERED - 1));
        let mut steps = oldest..stop.min(newest + 1);
        steps.rfind(|step| {
            let (word, bit) = Self::place(*step);
            self.skipped[word] & bit == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_data_and_skipped_ones_are_missing_until_they_are_forgotten() -> Result<()> {
        let mut steps = StepQuality::new()?;
        for (step, lacks) in [(10, false), (11, true), (15, false)] {
            steps.set(step, lacks);
        }
        let of = |known: &StepQuality, steps: std::ops::Range<u64>| -> Vec<u64> {
            steps.filter(|step| known.is_missing(*step)).collect()
        };
        assert_eq!(of(&steps, 8..17), [11, 12, 13, 14]);
        assert_eq!(
            [
                steps.last_made(10, 12),
                steps.last_made(10, 15),
                steps.last_made(12, 15)
            ],
            [Some(11), Some(11), None]
        );
        assert!(!steps.is_forgotten(0));
        steps.set(15 + REMEMBERED, false);
        assert!(steps.is_forgotten(15) && !steps.is_forgotten(16));
        // All between were skipped.
        let skipped: Vec<u64> = (16..15 + REMEMBERED).collect();
        assert_eq!(of(&steps, 16..16 + REMEMBERED), skipped);
        Ok(())
    }
}
