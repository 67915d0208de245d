//! From blocks to the input of each step: a lane per source, and their channels side by side.
//!
//! The clock of the first source makes the steps. Steps wait for the other sources as long as the first one makes
//! `WAIT` more; then they are made without those that are late, which are not waited for until they are in time again.
//! All of this depends on the order of the blocks alone, and not on a clock.

use std::collections::VecDeque;

use betz_base::{Error, Result};
use betz_rigs::rig::{Block, Signal};
use serde::{Deserialize, Serialize};

use crate::event::{BinnerCounts, Content, Event, Give, StepInput};
use crate::grid::Alignment;
use crate::lane::{Lane, LaneState};
use crate::plan::{Gives, Plan, SourcePlan};
use crate::side::{JointStep, OwnedStep, Part, WAIT};

/// State of a [`Binner`] that a session which was killed goes on from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BinnerState {
    #[serde(flatten)]
    pub(crate) first: LaneState,
    /// Steps of the first source that waited for the others, and were lost with their data.
    #[serde(default)]
    behind: u64,
    /// Each other source that had been heard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) others: Vec<PartState>,
}

/// State of a source beside the first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartState {
    /// Number of the source in the plan.
    pub(crate) source: usize,
    rate: f64,
    microvolts: Option<f64>,
    voltage: bool,
    rows_per_step: f64,
    pub(crate) lane: LaneState,
}

/// Front ends and grids of steps at work.
///
/// It never looks at a clock: the steps depend on the blocks, on their alignment and on the calls of [`Binner::step_stale`],
/// in their order.
pub struct Binner {
    first: Lane,
    step_seconds: f64,
    /// The other sources whose channels are decoded.
    parts: Vec<Part>,
    joint: Joint,
}

/// The steps of several sources on their way together.
#[derive(Default)]
struct Joint {
    pending: VecDeque<WaitingEvent>,
    free: Vec<OwnedStep>,
    /// Number of the first source's newest step.
    newest: u64,
    spikes: Vec<u32>,
    values: Vec<f32>,
    /// Mean counts of all channels; empty if they are not known.
    means: Vec<f32>,
    /// Channels of the first source.
    width: usize,
    counts: BinnerCounts,
}

/// An event of the first source that waits for the others.
enum WaitingEvent {
    Restart,
    Skip(u64),
    Step(OwnedStep),
}

impl Binner {
    /// A binner of the sources of a plan, of which the first sends `signal`, into steps of `step_seconds`, at rest; the first is
    /// of `voltage`, or of features and spikes.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key for settings that do not fit the signal.
    pub fn new(plan: &Plan, signal: &Signal, voltage: bool, step_seconds: f64) -> Result<Self> {
        let first = Lane::new(plan, 0, signal, voltage, step_seconds)?;
        let mut offset = first.channels();
        let mut parts = Vec::new();
        for (source, of) in plan.source.iter().enumerate().skip(1) {
            if of.gives == Gives::Input {
                // The plan was refused without this number.
                let channels = of.channels.unwrap_or(0);
                parts.push(Part::new(source, offset, channels));
                offset += channels;
            }
        }
        let joint = Joint {
            values: vec![0.0; offset],
            spikes: Vec::with_capacity(offset * 64),
            width: first.channels(),
            ..Joint::default()
        };
        Ok(Self {
            first,
            step_seconds,
            parts,
            joint,
        })
    }

    /// Makes the lane of another source than the first, which has said what it sends. One that gives lines alone has none.
    ///
    /// # Errors
    /// As [`Binner::new`]; `InvalidArgument` for another number of channels than the plan's.
    pub fn add_source(
        &mut self,
        plan: &Plan,
        source: usize,
        signal: &Signal,
        voltage: bool,
    ) -> Result<()> {
        let gives_lines = |of: &SourcePlan| of.gives == Gives::Lines;
        if plan.source.get(source).is_some_and(gives_lines) {
            return Ok(());
        }
        let mut lane = Lane::new(plan, source, signal, voltage, self.step_seconds)?;
        let part = part(&mut self.parts, source)?;
        if lane.channels() != part.channels {
            let (planned, sent) = (part.channels, lane.channels());
            return Err(plan.refuse_source(
                source,
                "channels",
                format_args!("expected the {sent} channels that the source sends, got {planned}"),
            ));
        }
        // A source whose process was killed is added again: its noise is known.
        if let Some(noise) = part.lane.as_ref().and_then(Lane::noise) {
            lane.set_noise(&noise)?;
        }
        part.lane = Some(lane);
        part.sent = Some((signal.clone(), voltage));
        Ok(())
    }

    /// True once the lane of a source is there.
    pub(crate) fn has_source(&self, source: usize) -> bool {
        source == 0 || (self.parts.iter()).any(|part| part.source == source && part.lane.is_some())
    }

    /// Sets the mean counts of all channels, which stand in for those of a source without data.
    pub(crate) fn set_means(&mut self, means: &[f64]) {
        self.joint.means = means.iter().map(|mean| *mean as f32).collect();
    }

    /// Writes the state, to go on from, to `state` and `bytes`, whose room is used again. Returns how many bytes more a later
    /// state of the same sources may have.
    ///
    /// # Errors
    /// None today.
    pub(crate) fn state_into(
        &mut self,
        state: &mut BinnerState,
        bytes: &mut Vec<u8>,
    ) -> Result<usize> {
        let waits = |pending: &&WaitingEvent| matches!(pending, WaitingEvent::Step(_));
        bytes.clear();
        let mut spare = self.first.state_into(&mut state.first, bytes)?;
        state.behind = self.joint.pending.iter().filter(waits).count() as u64;
        let mut heard = 0;
        for part in &mut self.parts {
            let (Some(lane), Some((signal, voltage))) = (&mut part.lane, &part.sent) else {
                continue;
            };
            if lane.epoch().is_none() {
                continue;
            }
            if state.others.len() == heard {
                state.others.push(PartState::default());
            }
            let other = &mut state.others[heard];
            (other.source, other.voltage) = (part.source, *voltage);
            (other.rate, other.microvolts) = (signal.rate, signal.microvolts);
            other.rows_per_step = lane.place(0).1;
            spare += lane.state_into(&mut other.lane, bytes)?;
            heard += 1;
        }
        Ok(spare)
    }

    /// Goes on from a state and the bytes beside it; `self` has taken no block yet. Returns the steps that are to be skipped.
    ///
    /// # Errors
    /// As [`Binner::set_noise`]; `InvalidCheckpoint` for bytes of other sources.
    pub(crate) fn restore(
        &mut self,
        plan: &Plan,
        state: &BinnerState,
        mut bytes: &[u8],
    ) -> Result<u64> {
        self.first.restore(&state.first, &mut bytes)?;
        self.joint.counts = state.first.counts;
        self.joint.counts.skipped += state.behind;
        for other in &state.others {
            let channels = part(&mut self.parts, other.source)?.channels;
            let signal = Signal {
                channels,
                rate: other.rate,
                microvolts: other.microvolts,
                clock_bits: 64,
            };
            self.add_source(plan, other.source, &signal, other.voltage)?;
            if let Some(lane) = &mut part(&mut self.parts, other.source)?.lane {
                lane.restore(&other.lane, &mut bytes)?;
                lane.set_rows_per_step(other.rows_per_step);
            }
        }
        Ok(state.behind)
    }

    /// Channels of a step's input, of all sources.
    pub fn channels(&self) -> usize {
        self.joint.values.len()
    }

    /// Counts so far, of all sources.
    pub fn counts(&self) -> BinnerCounts {
        let mut counts = self.first.counts();
        if self.parts.is_empty() {
            return counts;
        }
        let joint = &self.joint.counts;
        (counts.steps, counts.stale) = (joint.steps, joint.stale);
        (counts.skipped, counts.partial) = (joint.skipped, joint.partial);
        counts.calibrating = joint.calibrating;
        for of in self.parts.iter().filter_map(|part| part.lane.as_ref()) {
            let of = of.counts();
            counts.rows += of.rows;
            counts.lost += of.lost;
            counts.bounds += of.bounds;
            counts.bridged += of.bridged;
            counts.late += of.late;
        }
        counts
    }

    /// Counts of one source: `steps` are those that it had a part in, `stale` those that were made without it.
    pub fn source_counts(&self, source: usize) -> BinnerCounts {
        match self.parts.iter().find(|part| part.source == source) {
            None if source == 0 => self.first.counts(),
            None => BinnerCounts::default(),
            Some(part) => BinnerCounts {
                stale: part.stale,
                calibrating: 0,
                ..(part.lane.as_ref().map(Lane::counts)).unwrap_or_default()
            },
        }
    }

    /// The number of the step that the first source fills, and the device time of its end; `None` before the first block.
    pub fn open_step(&self) -> Option<(u64, u64)> {
        self.first.open_step()
    }

    /// The number of the next step that is given: it may wait for other sources.
    pub fn next_step(&self) -> Option<u64> {
        let waiting = self.joint.pending.iter().find_map(|pending| match pending {
            WaitingEvent::Step(step) => Some(step.number),
            WaitingEvent::Restart | WaitingEvent::Skip(_) => None,
        });
        waiting.or(self.open_step().map(|(step, _)| step))
    }

    /// Noise of each channel of the first source in microvolts, as the front end tracks it; `None` without voltage or before it
    /// is known.
    pub fn noise(&self) -> Option<Vec<f32>> {
        self.first.noise()
    }

    /// Sets the noise of each channel of the first source, as an earlier session's [`Binner::noise`]; ends the calibration.
    ///
    /// # Errors
    /// The errors of [`BlockFrontEnd::set_noise`](betz_sort::BlockFrontEnd::set_noise); `Mismatch` without voltage.
    pub fn set_noise(&mut self, noise: &[f32]) -> Result<()> {
        self.first.set_noise(noise)
    }

    /// Device time of a step's begin, and rows per step, of the first source or another.
    pub(crate) fn place(&self, source: usize, step: u64) -> Option<(u64, f64)> {
        match source {
            0 => Some(self.first.place(step)),
            _ => self.lane(source).map(|lane| lane.place(step)),
        }
    }

    /// Epoch of a source's newest block.
    pub(crate) fn epoch(&self, source: usize) -> Option<u32> {
        self.lane(source)?.epoch()
    }

    fn lane(&self, source: usize) -> Option<&Lane> {
        let part = self.parts.iter().find(|part| part.source == source)?;
        part.lane.as_ref()
    }

    /// Takes a block of the first source and gives the steps that it completes. Allocates only for rows that are longer than any
    /// before.
    ///
    /// # Errors
    /// `Mismatch` for a block of another kind, or of rows that are not whole; the errors of `give`.
    pub fn take(&mut self, block: &Block, give: &mut Give<'_>) -> Result<()> {
        if self.parts.is_empty() {
            return self.first.take(block, give);
        }
        let joint = &mut self.joint;
        self.first.take(block, &mut |event| joint.hear(event))?;
        joint.drain(&self.first, &mut self.parts, give)
    }

    /// As [`Binner::take`], of any source.
    ///
    /// # Errors
    /// As [`Binner::take`]; `Mismatch` for a source without a lane.
    pub fn take_from(&mut self, source: usize, block: &Block, give: &mut Give<'_>) -> Result<()> {
        if source == 0 {
            return self.take(block, give);
        }
        let next = self.next_step().unwrap_or(0);
        part(&mut self.parts, source)?.take(block, next)?;
        self.joint.drain(&self.first, &mut self.parts, give)
    }

    /// Places the steps in the device time of another source than the first: a decision of whoever looks at the clocks.
    ///
    /// # Errors
    /// `Mismatch` for a source without a lane; the errors of `give`.
    pub fn align(&mut self, source: usize, at: &Alignment, give: &mut Give<'_>) -> Result<()> {
        let next = self.next_step().unwrap_or(0);
        part(&mut self.parts, source)?.align(at, next)?;
        self.joint.drain(&self.first, &mut self.parts, give)
    }

    /// Whole steps from the open one to the row `end` of the first source's `epoch`; `None` if another epoch has begun.
    pub(crate) fn steps_until(&self, epoch: u32, end: u64) -> Option<u64> {
        self.first.steps_until(epoch, end)
    }

    /// Leaves out the steps before `step`, because the decoder is slow: a decision of whoever looks at the clock. Their rows that
    /// come later are late, and the step after them is flagged as `dropped`.
    ///
    /// # Errors
    /// The errors of `give`.
    pub fn skip_behind(&mut self, step: u64, give: &mut Give<'_>) -> Result<()> {
        if self.parts.is_empty() {
            return self.first.skip_behind(step, give);
        }
        let joint = &mut self.joint;
        self.first
            .skip_behind(step, &mut |event| joint.hear(event))?;
        joint.drain(&self.first, &mut self.parts, give)
    }

    /// Makes the first source's open step without its data: a decision of whoever looks at the clock. Its rows that come later are
    /// late.
    ///
    /// # Errors
    /// The errors of `give`.
    pub fn step_stale(&mut self, give: &mut Give<'_>) -> Result<()> {
        if self.parts.is_empty() {
            return self.first.step_stale(give);
        }
        let joint = &mut self.joint;
        self.first.step_stale(&mut |event| joint.hear(event))?;
        joint.drain(&self.first, &mut self.parts, give)
    }
}

fn part(parts: &mut [Part], source: usize) -> Result<&mut Part> {
    (parts.iter_mut().find(|part| part.source == source)).ok_or_else(|| {
        Error::mismatch(format!(
            "block: expected a source of the plan whose channels are decoded, got source {source}"
        ))
    })
}

impl Joint {
    /// Takes an event of the first source.
    fn hear(&mut self, event: Event<'_>) -> Result<()> {
        self.pending.push_back(match event {
            Event::Restart => WaitingEvent::Restart,
            Event::Skip(steps) => WaitingEvent::Skip(steps),
            Event::Step(input) => {
                self.newest = input.number;
                let mut step = self.free.pop().unwrap_or_default();
                step.set(&input);
                WaitingEvent::Step(step)
            }
        });
        Ok(())
    }

    /// Gives what no longer waits.
    fn drain(&mut self, first: &Lane, parts: &mut [Part], give: &mut Give<'_>) -> Result<()> {
        while let Some(pending) = self.pending.front() {
            if let WaitingEvent::Step(step) = pending {
                let timed_out = self.newest >= step.number + WAIT;
                let mut ready = true;
                for part in &mut *parts {
                    ready &= part.is_ready(step.number, timed_out)?;
                }
                if !ready {
                    return Ok(());
                }
            }
            match self.pending.pop_front() {
                Some(WaitingEvent::Step(step)) => {
                    let done = self.give(&step, first, parts, give);
                    self.free.push(step);
                    done?;
                }
                Some(WaitingEvent::Skip(steps)) => {
                    self.counts.skipped += steps;
                    give(Event::Skip(steps))?;
                }
                Some(WaitingEvent::Restart) => give(Event::Restart)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Gives a step with the parts of all sources.
    fn give(
        &mut self,
        step: &OwnedStep,
        first: &Lane,
        parts: &mut [Part],
        give: &mut Give<'_>,
    ) -> Result<()> {
        let facts = JointStep::new(step, first, parts);
        let nothing = facts.nothing;
        self.counts.steps += 1;
        self.counts.stale += u64::from(nothing);
        self.counts.calibrating += u64::from(nothing && facts.calibrates);
        self.counts.partial += u64::from(!nothing && facts.stale);
        match facts.features || facts.counts {
            true => self.fill_values(step, parts),
            false => self.fill_spikes(step, parts),
        }
        let done = give(Event::Step(StepInput {
            number: step.number,
            end: step.end,
            host_ns: facts.host_ns,
            dropped: facts.dropped,
            partial: facts.lacks && !nothing,
            content: match (nothing, facts.features, facts.counts) {
                (true, ..) => Content::Nothing,
                (_, true, _) => Content::Features(&self.values),
                (_, _, true) => Content::Counts(&self.values),
                _ => Content::Spikes(&self.spikes),
            },
        }));
        parts.iter_mut().for_each(|part| part.finish(step.number));
        done
    }

    /// Puts the rows of all sources side by side, with what stands in for those without data.
    fn fill_values(&mut self, step: &OwnedStep, parts: &[Part]) {
        self.values.fill(0.0);
        let first = &mut self.values[..self.width];
        fill(step.content(), first, self.means.get(..self.width));
        for part in parts {
            let at = part.offset..part.offset + part.channels;
            let means = match part.sends_features {
                true => Some(&part.last[..]),
                false => self.means.get(at.clone()),
            };
            fill(content(part, step.number), &mut self.values[at], means);
        }
    }

    /// Lists the spikes of all sources.
    fn fill_spikes(&mut self, step: &OwnedStep, parts: &[Part]) {
        self.spikes.clear();
        if let Content::Spikes(spikes) = step.content() {
            let width = self.width;
            (self.spikes).extend(spikes.iter().map(|channel| beside(*channel, width, 0)));
        }
        for part in parts {
            if let Content::Spikes(spikes) = content(part, step.number) {
                let (width, offset) = (part.channels, part.offset);
                (self.spikes).extend(spikes.iter().map(|channel| beside(*channel, width, offset)));
            }
        }
    }
}

/// A source's part of step `number`.
fn content(part: &Part, number: u64) -> Content<'_> {
    part.step(number)
        .map_or(Content::Nothing, OwnedStep::content)
}

/// The channel of a source among those of all, or one that no model has.
fn beside(channel: u32, channels: usize, offset: usize) -> u32 {
    match (channel as usize) < channels {
        true => channel + offset as u32,
        false => u32::MAX,
    }
}

/// Writes a source's part of a step to its channels; without data what stands in for it.
fn fill(content: Content<'_>, to: &mut [f32], stand_in: Option<&[f32]>) {
    match content {
        Content::Spikes(spikes) => {
            for spike in spikes {
                if let Some(count) = to.get_mut(*spike as usize) {
                    *count += 1.0;
                }
            }
        }
        Content::Counts(row) | Content::Features(row) => to.copy_from_slice(row),
        Content::Nothing => {
            if let Some(row) = stand_in {
                to.copy_from_slice(row);
            }
        }
    }
}
