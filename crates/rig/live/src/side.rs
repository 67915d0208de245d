//! A source beside the first one: its lane, and its part of the steps until they are made.

use std::collections::VecDeque;

use betz_base::{Error, Result};
use betz_rigs::rig::{Block, Signal};

use crate::event::{Content, Event, Give, StepInput};
use crate::grid::Alignment;
use crate::lane::Lane;

/// Steps of the first source for which a step waits for the other sources.
pub(crate) const WAIT: u64 = 2;

/// Steps of a source that may wait for the first source. More are those of a first source that is silent and made no steps:
/// the oldest are left out.
const AHEAD: usize = 64;

/// A step's input with contents of its own, to be used again.
#[derive(Default)]
pub(crate) struct OwnedStep {
    pub(crate) number: u64,
    pub(crate) end: u64,
    pub(crate) host_ns: i64,
    pub(crate) dropped: bool,
    kind: OwnedKind,
    spikes: Vec<u32>,
    values: Vec<f32>,
}

#[derive(Default)]
enum OwnedKind {
    #[default]
    Nothing,
    Spikes,
    Counts,
    Features,
}

impl OwnedStep {
    /// Copies a step.
    pub(crate) fn set(&mut self, input: &StepInput<'_>) {
        (self.number, self.end) = (input.number, input.end);
        (self.host_ns, self.dropped) = (input.host_ns, input.dropped);
        self.spikes.clear();
        self.values.clear();
        self.kind = match input.content {
            Content::Nothing => OwnedKind::Nothing,
            Content::Spikes(spikes) => {
                self.spikes.extend(spikes);
                OwnedKind::Spikes
            }
            Content::Counts(values) => {
                self.values.extend(values);
                OwnedKind::Counts
            }
            Content::Features(values) => {
                self.values.extend(values);
                OwnedKind::Features
            }
        };
    }

    pub(crate) fn content(&self) -> Content<'_> {
        match self.kind {
            OwnedKind::Nothing => Content::Nothing,
            OwnedKind::Spikes => Content::Spikes(&self.spikes),
            OwnedKind::Counts => Content::Counts(&self.values),
            OwnedKind::Features => Content::Features(&self.values),
        }
    }
}

/// A source beside the first.
pub(crate) struct Part {
    /// Number in the plan.
    pub(crate) source: usize,
    /// The first of its channels among those of all sources, and their number.
    pub(crate) offset: usize,
    pub(crate) channels: usize,
    /// Absent until the source has said what it sends.
    pub(crate) lane: Option<Lane>,
    /// Its signal, and true for voltage.
    pub(crate) sent: Option<(Signal, bool)>,
    /// Steps that are not made yet, ascending.
    steps: Steps,
    /// True once it has missed a step, until it is in time again.
    late: bool,
    /// Features of the newest step.
    pub(crate) last: Vec<f32>,
    pub(crate) sends_features: bool,
    /// Steps that were made without its data.
    pub(crate) stale: u64,
}

#[derive(Default)]
struct Steps {
    ready: VecDeque<OwnedStep>,
    free: Vec<OwnedStep>,
}

impl Steps {
    fn push(&mut self, input: &StepInput<'_>) {
        let mut step = match self.ready.len() {
            AHEAD => self.ready.pop_front(),
            _ => self.free.pop(),
        }
        .unwrap_or_default();
        step.set(input);
        self.ready.push_back(step);
    }

    /// Leaves out the steps before `step`.
    fn drop_before(&mut self, step: u64) {
        while self.ready.front().is_some_and(|front| front.number < step) {
            self.free.extend(self.ready.pop_front());
        }
    }
}

impl Part {
    pub(crate) fn new(source: usize, offset: usize, channels: usize) -> Self {
        Self {
            source,
            offset,
            channels,
            lane: None,
            sent: None,
            steps: Steps::default(),
            late: false,
            last: vec![0.0; channels],
            sends_features: false,
            stale: 0,
        }
    }

    /// Calls the lane; `next` is the next step that is to be made.
    fn call(
        &mut self,
        next: u64,
        call: impl FnOnce(&mut Lane, &mut Give<'_>) -> Result<()>,
    ) -> Result<()> {
        let source = self.source;
        let lane = self.lane.as_mut().ok_or_else(|| {
            Error::mismatch(format!(
                "block: expected the facts of source {source} before its first block, got none"
            ))
        })?;
        let (steps, late) = (&mut self.steps, &mut self.late);
        call(lane, &mut |event| {
            if let Event::Step(input) = event {
                // In time if a step waits for it.
                *late = input.number + WAIT < next;
                if input.number >= next {
                    steps.push(&input);
                }
            }
            Ok(())
        })
    }

    pub(crate) fn take(&mut self, block: &Block, next: u64) -> Result<()> {
        self.call(next, |lane, give| lane.take(block, give))
    }

    pub(crate) fn align(&mut self, at: &Alignment, next: u64) -> Result<()> {
        self.call(next, |lane, give| lane.align(at, give))
    }

    /// True if step `number` need not wait for this source. If the time for it is over, the source is late; one that tells
    /// nothing but spikes has had none.
    pub(crate) fn is_ready(&mut self, number: u64, timed_out: bool) -> Result<bool> {
        self.steps.drop_before(number);
        let Some(lane) = &self.lane else {
            return Ok(true);
        };
        let passed = lane.open_step().is_some_and(|(open, _)| open > number);
        if passed {
            return Ok(true);
        }
        if lane.sends_spikes() && (timed_out || self.late) && lane.epoch().is_some() {
            self.call(number, |lane, give| lane.close(number, give))?;
            return Ok(true);
        }
        self.late |= timed_out;
        Ok(self.late)
    }

    /// Its part of step `number`, if it came.
    pub(crate) fn step(&self, number: u64) -> Option<&OwnedStep> {
        self.steps
            .ready
            .front()
            .filter(|step| step.number == number)
    }

    pub(crate) fn is_calibrating(&self) -> bool {
        self.lane.as_ref().is_some_and(Lane::is_calibrating)
    }

    /// Takes note that step `number` is made.
    pub(crate) fn finish(&mut self, number: u64) {
        if let Some(step) = self.steps.ready.front()
            && step.number == number
            && let Content::Features(values) = step.content()
        {
            self.last.copy_from_slice(values);
            self.sends_features = true;
        }
        self.steps.drop_before(number + 1);
    }
}

/// Facts of a step that the sources decide together.
pub(crate) struct JointStep {
    /// No source has data.
    pub(crate) nothing: bool,
    /// Some source has none.
    pub(crate) lacks: bool,
    /// Some source sends features, or counts.
    pub(crate) features: bool,
    pub(crate) counts: bool,
    pub(crate) host_ns: i64,
    pub(crate) dropped: bool,
    /// Some source still measures its noise.
    pub(crate) calibrates: bool,
    /// Some source without data does not.
    pub(crate) stale: bool,
}

impl JointStep {
    /// Also counts the step as stale for each of `parts` that lacks it.
    pub(crate) fn new(step: &OwnedStep, first: &Lane, parts: &mut [Part]) -> Self {
        let mut facts = Self {
            nothing: true,
            lacks: false,
            features: false,
            counts: false,
            host_ns: step.host_ns,
            dropped: step.dropped,
            calibrates: false,
            stale: false,
        };
        facts.add(&step.content(), first.is_calibrating());
        for part in parts {
            let of = part.step(step.number);
            facts.host_ns = facts.host_ns.max(of.map_or(0, |of| of.host_ns));
            facts.dropped |= of.is_some_and(|of| of.dropped);
            facts.features |= part.sends_features;
            let content = of.map_or(Content::Nothing, OwnedStep::content);
            let stale = facts.add(&content, part.is_calibrating());
            part.stale += u64::from(stale);
        }
        // A source without data is stood in for by counts.
        facts.counts |= facts.lacks;
        facts
    }

    /// Adds a source's content; true if it lacks data though it does not measure its noise.
    fn add(&mut self, content: &Content<'_>, calibrates: bool) -> bool {
        let lacks = matches!(content, Content::Nothing);
        self.nothing &= lacks;
        self.lacks |= lacks;
        self.features |= matches!(content, Content::Features(_));
        self.counts |= matches!(content, Content::Counts(_));
        self.calibrates |= calibrates;
        self.stale |= lacks && !calibrates;
        lacks && !calibrates
    }
}
