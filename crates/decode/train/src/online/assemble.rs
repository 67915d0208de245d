//! Whole trials from the records of the rings.

use std::collections::VecDeque;
use std::ops::Range;

use ringbuf::HeapCons;
use ringbuf::traits::Consumer;

use super::feed::{END, Item, PAUSE};
use betz_recording::{Dataset, OutputInfo, Segment, Spikes};
use betz_runtime::stream::{Spike, StepReader, StepRecord};

/// A trial with its labels, and the steps before it that filters remember.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    /// One segment, from rest. Behaviour outside `labelled` is 0.
    pub(super) data: Dataset,
    /// Runs of steps that have a label.
    pub(super) labelled: Vec<Range<usize>>,
}

impl Trial {
    /// Seconds with a label.
    pub(super) fn seconds(&self) -> f64 {
        let steps: usize = self.labelled.iter().map(Range::len).sum();
        steps as f64 * self.data.step_seconds
    }
}

/// Trials that were not learned from, by why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The ring was full in it.
    pub full: u64,
    /// It was ended with the wish not to keep it, or one of its labels found no room.
    pub unwanted: u64,
    /// No step had a label.
    pub unlabelled: u64,
    /// It was longer than the trainer takes.
    pub long: u64,
    /// The session was reset between its labels.
    pub reset: u64,
    /// There was no memory to hold it or to learn from it.
    pub memory: u64,
}

impl Dropped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.full + self.unwanted + self.unlabelled + self.long + self.reset + self.memory
    }
}

/// Counts above are not replayed spike by spike.
const MOST_AT_ONCE: f32 = 1e4;

/// Steps that are heard between two questions for memory.
const STEPS_AT_ONCE: usize = 1024;

/// Bytes that a step takes while it is heard, and again in its trial: the record, and a few channels.
const STEP_BYTES: usize = 256;

/// Puts trials together.
pub(super) struct Assembler {
    steps: StepReader,
    values: HeapCons<Item>,
    heard: VecDeque<StepRecord>,
    /// Values of labels of the trial that has not ended.
    labels: Vec<Item>,
    /// The trial before ended with this tick; what is labelled there comes too late.
    ended_with: i64,
    long: bool,
    /// Steps of a trial at most, and steps before it.
    most: usize,
    before: usize,
    memory: u64,
    step_seconds: f64,
    channel_names: Vec<String>,
    outputs: Vec<OutputInfo>,
    /// True where there are so many bytes of memory.
    pub(super) has_room: fn(usize) -> bool,
    /// Bytes that learning from a trial takes, besides its steps.
    learning_bytes: usize,
    /// Steps or labels of the trial that has not ended were dropped because memory was short.
    short: bool,
    pub(super) dropped: Dropped,
    /// Labels of trials that had ended.
    pub(super) late: u64,
    /// Ends of trials that came.
    pub(super) ended: u64,
}

/// Shape of trials.
pub(super) struct Shape {
    pub(super) step_seconds: f64,
    pub(super) channel_names: Vec<String>,
    pub(super) outputs: Vec<OutputInfo>,
    /// Steps of a trial at most.
    pub(super) most: usize,
    /// Steps before it that are kept: those that filters remember, if they are not too many.
    pub(super) before: usize,
    /// Steps that filters remember.
    pub(super) memory: u64,
    /// Bytes that learning from a trial takes, besides its steps.
    pub(super) learning_bytes: usize,
    /// True where there are so many bytes of memory.
    pub(super) has_room: fn(usize) -> bool,
}

impl Assembler {
    pub(super) fn new(steps: StepReader, values: HeapCons<Item>, shape: Shape) -> Self {
        Self {
            steps,
            values,
            heard: VecDeque::new(),
            labels: Vec::new(),
            ended_with: i64::MIN,
            long: false,
            most: shape.most,
            before: shape.before,
            memory: shape.memory,
            step_seconds: shape.step_seconds,
            channel_names: shape.channel_names,
            outputs: shape.outputs,
            has_room: shape.has_room,
            learning_bytes: shape.learning_bytes,
            short: false,
            ended: 0,
            dropped: Dropped::default(),
            late: 0,
        }
    }

    /// The next trial that has ended and can be learned from. Where memory is short all trials that have ended
    /// are dropped, and that which has not.
    pub(super) fn next(&mut self) -> Option<Trial> {
        let steps = self.heard.len().saturating_add(STEPS_AT_ONCE);
        let each = STEP_BYTES + 16 * self.outputs.len();
        let learning = self.learning_bytes.saturating_add(steps * each);
        if !(self.has_room)(learning) {
            self.discard();
            return None;
        }
        while let Some(item) = self.values.try_pop() {
            if item.what != END {
                self.labels.push(item);
                continue;
            }
            self.ended += 1;
            // Its steps were pushed before its end, on the same thread.
            self.hear();
            if let Some(trial) = self.end(item.tick, item.value) {
                return Some(trial);
            }
        }
        self.hear();
        if self.heard.len() > self.most + self.before {
            self.long = true;
            let excess = self.heard.len() - self.before;
            self.heard.drain(..excess);
        }
        None
    }

    /// The spikes that filters remember of what was heard last, and the first tick after them. `None` where steps
    /// are missing in there, or counts are no whole numbers.
    pub(super) fn replay(&mut self) -> Option<(Vec<Spike>, i64)> {
        self.hear();
        let steps = self.heard.make_contiguous();
        let first = steps.iter().rposition(|s| s.after_rest).unwrap_or(0);
        let steps = &steps[first..];
        let end = steps.last()?.tick.checked_add(1)?;
        let whole = steps[0].after_rest || end.abs_diff(steps[0].tick) >= self.memory;
        if !whole || steps.iter().any(|s| s.after_gap) {
            return None;
        }
        let mut spikes = Vec::new();
        for step in steps {
            for &(channel, count) in &step.fired {
                if count < 0.0 || count.fract() != 0.0 || count > MOST_AT_ONCE {
                    return None;
                }
                let spike = Spike {
                    tick: step.tick,
                    channel,
                };
                spikes.extend(std::iter::repeat_n(spike, count as usize));
            }
        }
        Some((spikes, end))
    }

    fn hear(&mut self) {
        let channels = self.channel_names.len();
        let mut step = StepRecord::default();
        let mut room = 0_usize;
        while self.steps.take(&mut step) {
            if room == 0 {
                // A list that grows is copied to one of twice its length.
                let longer = 2 * self.heard.len() * size_of::<StepRecord>();
                if !(self.has_room)(longer + STEPS_AT_ONCE * STEP_BYTES) {
                    self.forget_trial();
                    while self.steps.take(&mut step) {}
                    return;
                }
                room = STEPS_AT_ONCE;
            }
            room -= 1;
            (step.fired).retain(|&(channel, _)| (channel as usize) < channels);
            self.heard.push_back(std::mem::take(&mut step));
        }
    }

    /// Drops what has come, in constant memory: trials that have ended, and what there is of the next.
    fn discard(&mut self) {
        let mut step = StepRecord::default();
        let mut heard = !(self.heard.is_empty() && self.labels.is_empty());
        while let Some(item) = self.values.try_pop() {
            heard = item.what != END;
            if !heard {
                self.ended += 1;
                self.ended_with = item.tick;
                self.dropped.memory += u64::from(item.value != PAUSE);
                self.short = false;
            }
        }
        while self.steps.take(&mut step) {
            heard |= step.tick > self.ended_with;
        }
        if heard {
            self.forget_trial();
        } else {
            self.labels = Vec::new();
            self.heard = VecDeque::new();
        }
    }

    /// Gives the memory of the trial that has not ended back: it is dropped when it ends.
    fn forget_trial(&mut self) {
        self.labels = Vec::new();
        self.heard = VecDeque::new();
        self.short = true;
    }

    /// Steps that found no room in the ring.
    pub(super) fn lost_steps(&self) -> u64 {
        self.steps.backlog().lost()
    }

    /// The trial that ends with `tick`.
    fn end(&mut self, tick: i64, value: f32) -> Option<Trial> {
        let count = self.heard.partition_point(|s| s.tick <= tick);
        let labels = std::mem::take(&mut self.labels);
        let before = labels.len();
        let labels: Vec<Item> = (labels.into_iter())
            .filter(|l| l.tick > self.ended_with)
            .collect();
        self.late += ((before - labels.len()) / self.outputs.len().max(1)) as u64;
        self.ended_with = tick;
        let long = std::mem::take(&mut self.long);
        let short = std::mem::take(&mut self.short);
        // The remembered steps begin with the last rest.
        let steps = self.heard.make_contiguous();
        let first = (steps[..count].iter())
            .rposition(|s| s.after_rest)
            .unwrap_or(0);
        let of_trial = &steps[first..count];
        let first_label = labels.iter().map(|l| l.tick).min();
        // Steps are missing inside, or at the end.
        let whole = of_trial.last().is_some_and(|s| s.tick == tick);
        let gap = !whole || of_trial.iter().any(|s| s.after_gap);
        let span = match of_trial {
            [begin, .., end] => end.tick.abs_diff(begin.tick).saturating_add(1),
            [_] => 1,
            [] => 0,
        };
        // A pause is no trial that is dropped.
        let mut pauses = 0;
        let why = if value == PAUSE {
            Some(&mut pauses)
        } else if short {
            Some(&mut self.dropped.memory)
        } else if gap {
            Some(&mut self.dropped.full)
        } else if value == 0.0 {
            Some(&mut self.dropped.unwanted)
        } else if long || span > (self.most + self.before) as u64 {
            Some(&mut self.dropped.long)
        } else if first_label.is_none() {
            Some(&mut self.dropped.unlabelled)
        } else if first_label.is_some_and(|l| l < of_trial[0].tick) {
            Some(&mut self.dropped.reset)
        } else {
            None
        };
        let trial = match why {
            Some(why) => {
                *why += 1;
                None
            }
            None => Some(made(
                of_trial,
                span as usize,
                &labels,
                (self.step_seconds, &self.channel_names, &self.outputs),
            )),
        };
        // Steps of this trial that the filters remember stay for the next one, if none is missing.
        let stay = if gap || short {
            0
        } else {
            count.min(self.before)
        };
        self.heard.drain(..count - stay);
        trial
    }
}

fn made(
    steps: &[StepRecord],
    span: usize,
    labels: &[Item],
    (step_seconds, channel_names, outputs): (f64, &[String], &[OutputInfo]),
) -> Trial {
    let begin = steps.first().map_or(0, |s| s.tick);
    let mut spikes = Spikes::default();
    for step in steps {
        for &(channel, count) in &step.fired {
            spikes.ticks.push(step.tick - begin);
            spikes.channels.push(channel);
            spikes.weights.push(count);
        }
    }
    if spikes.weights.iter().all(|w| *w == 1.0) {
        spikes.weights.clear();
    }
    let n = outputs.len();
    let mut behavior = vec![0.0; span * n];
    let mut has = vec![false; span];
    for label in labels {
        let at = usize::try_from(label.tick - begin).unwrap_or(usize::MAX);
        if let Some(has) = has.get_mut(at) {
            *has = true;
            behavior[at * n + label.what as usize] = label.value;
        }
    }
    let mut labelled = Vec::new();
    let mut at = 0;
    for run in has.chunk_by(|a, b| a == b) {
        if run[0] {
            labelled.push(at..at + run.len());
        }
        at += run.len();
    }
    Trial {
        data: Dataset {
            step_seconds,
            steps: span,
            channel_names: channel_names.to_vec(),
            spikes,
            segments: vec![Segment {
                start: 0,
                stop: span as i64,
            }],
            outputs: outputs.to_vec(),
            behavior,
        },
        labelled,
    }
}
