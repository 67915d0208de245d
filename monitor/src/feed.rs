//! The session's side: a tap that never waits.

use betz_base::error::Result;
use betz_base::ring::{self, ring};
use betz_runtime::stream::{Step, StepReader, StepRecord, StepStatus, StepWriter, Tap, step_ring};
use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

use crate::gate::Gate;

/// Hands a session's steps to a page. Attach it with `Session::attach`.
///
/// A step goes into a ring if all of it fits; otherwise the feed counts it as *not shown*. The feed never writes part
/// of a step and never waits. It makes no allocation, takes no lock and makes no system call.
///
/// The page's clock continues through a reset: the first step of a trial comes one tick after the last step of the
/// trial before, and is marked.
#[derive(Debug)]
pub struct Feed {
    ring: StepWriter,
    /// Subtracted from the tap's ticks to give the page's clock.
    offset: i64,
    last: Option<i64>,
    resting: bool,
    row: StepRow,
}

/// The hub's end of a [`Feed`].
pub(crate) struct FeedReader {
    ring: StepReader,
    outputs: usize,
    step: StepRecord,
}

/// A step as read from the ring.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct FeedStep {
    /// Tick on the page's clock.
    pub(crate) tick: i64,
    /// Number of the step among all that the feed received, shown or not.
    pub(crate) number: u64,
    /// Latency of the previous step.
    pub(crate) previous_latency_ns: u32,
    pub(crate) trial_begins: bool,
    /// Flags of the estimates.
    pub(crate) status: StepStatus,
    pub(crate) estimates: Vec<f32>,
    /// Values of the gate, in the order of [`Gate::fill`]; empty for a model without one.
    pub(crate) gate: Vec<f32>,
    /// Estimates of the second model; empty if only one runs.
    pub(crate) beside: Vec<f32>,
    /// One channel index per spike.
    pub(crate) spikes: Vec<u32>,
}

/// Largest number of spikes drawn for one channel's count in one step.
pub(crate) const MOST_OF_A_COUNT: u32 = 64;

/// Creates a feed for sessions with `outputs` outputs and perhaps a gate, and its reader; their ring holds `words` words of 4
/// bytes.
pub(crate) fn feed(outputs: usize, gate: Option<Gate>, words: usize) -> Result<(Feed, FeedReader)> {
    let row = StepRow::new(gate, outputs);
    let (writer, reader) = step_ring("the ring to the page", words, 1, Some(row.width()))?;
    let feed = Feed {
        ring: writer,
        offset: 0,
        last: None,
        resting: false,
        row,
    };
    let reader = FeedReader {
        ring: reader,
        outputs,
        step: StepRecord::default(),
    };
    Ok((feed, reader))
}

/// Room in which the estimates of a step, the values of its gate and its flags travel together.
#[derive(Debug)]
struct StepRow {
    gate: Option<Gate>,
    /// Number of estimates.
    outputs: usize,
    /// Estimates, the gate's values, and the flags as the bits of the last value.
    values: Box<[f32]>,
    /// Estimates of a second model. It has neither a gate nor flags: NaN.
    beside: Box<[f64]>,
}

impl StepRow {
    fn new(gate: Option<Gate>, outputs: usize) -> Self {
        let width = outputs + gate.as_ref().map_or(0, Gate::width) + 1;
        Self {
            gate,
            outputs,
            values: vec![0.0; width].into(),
            beside: vec![f64::NAN; width].into(),
        }
    }

    /// Number of values that travel with a step.
    fn width(&self) -> usize {
        self.values.len()
    }

    /// The step with all of its values in place of its estimates; without any if it has another number of estimates, so that
    /// the ring refuses it. Allocates nothing.
    #[inline]
    fn widen<'a>(&'a mut self, step: &Step<'a>) -> Step<'a> {
        if step.estimates.len() != self.outputs {
            return Step {
                estimates: &[],
                beside: &[],
                ..*step
            };
        }
        let (estimates, rest) = self.values.split_at_mut(self.outputs);
        estimates.copy_from_slice(step.estimates);
        if let Some((flags, values)) = rest.split_last_mut() {
            *flags = f32::from_bits(step.status.bits());
            if let Some(gate) = &self.gate {
                let open = step.status.contains(StepStatus::CHANNELS);
                gate.fill(step.classes.iter().copied(), open, values);
            }
        }
        let beside: &[f64] = if step.beside.len() == self.outputs {
            self.beside[..self.outputs].copy_from_slice(step.beside);
            &self.beside
        } else {
            &[]
        };
        Step {
            estimates: &self.values,
            beside,
            ..*step
        }
    }
}

impl Tap for Feed {
    #[inline]
    fn take(&mut self, step: &Step<'_>) {
        if self.resting
            && let Some(last) = self.last
        {
            self.offset = step.tick.saturating_sub(last).saturating_sub(1);
        }
        self.resting = false;
        let tick = step.tick.saturating_sub(self.offset);
        self.last = Some(tick);
        let step = Step { tick, ..*step };
        self.ring.push(&self.row.widen(&step));
    }

    fn rest(&mut self) {
        self.resting = true;
        self.ring.rest();
    }

    fn name(&self) -> &'static str {
        "page"
    }
}

impl FeedReader {
    /// Number of steps so far that did not fit into the ring.
    pub(crate) fn not_shown(&self) -> u64 {
        self.ring.backlog().lost()
    }

    /// Reads the next step into `step`; returns false if no complete step is there.
    pub(crate) fn take(&mut self, step: &mut FeedStep) -> bool {
        if !self.ring.take(&mut self.step) {
            return false;
        }
        let record = &mut self.step;
        let flags = record.estimates.pop().map_or(0, f32::to_bits);
        step.status = StepStatus::from_bits(flags);
        let estimates = record.estimates.len().min(self.outputs);
        step.gate.clear();
        step.gate.extend(record.estimates.drain(estimates..));
        record.auxiliary.truncate(self.outputs);
        step.tick = record.tick;
        step.number = record.number;
        step.previous_latency_ns = record.previous_latency_ns;
        step.trial_begins = record.after_rest;
        std::mem::swap(&mut step.estimates, &mut record.estimates);
        std::mem::swap(&mut step.beside, &mut record.auxiliary);
        step.spikes.clear();
        for &(channel, count) in &record.fired {
            // Counts are rounded; a count that is not positive draws no spike.
            let count = (count.round() as u32).min(MOST_OF_A_COUNT) as usize;
            step.spikes.resize(step.spikes.len() + count, channel);
        }
        true
    }

    /// True while the [`Feed`] exists.
    pub(crate) fn is_connected(&self) -> bool {
        self.ring.is_connected()
    }
}

/// Intended outputs, sent by the thread that knows them, such as the acquisition's or a task's.
///
/// Rows are matched to steps by number: the first row to the first step that the [`Feed`] receives, and so on.
pub struct Truth {
    ring: HeapProd<u32>,
    outputs: usize,
    number: u64,
    row: Box<[u32]>,
    lost: u64,
}

pub(crate) struct TruthReader {
    ring: HeapCons<u32>,
    row: Box<[u32]>,
}

/// Number of rows that can wait for their steps.
const TRUTH_ROWS: usize = 16_384;

pub(crate) fn truth(outputs: usize) -> Result<(Truth, TruthReader)> {
    let row = betz_base::memory::filled("a row of the truth", 0u32, 2 + outputs)?;
    let words = (TRUTH_ROWS.saturating_mul(row.len())).min(ring::MAX_CAPACITY);
    let (to, from) = ring("the ring of the truth", words)?;
    let row = row.into_boxed_slice();
    let truth = Truth {
        ring: to,
        outputs,
        number: 0,
        row: row.clone(),
        lost: 0,
    };
    Ok((truth, TruthReader { ring: from, row }))
}

impl Truth {
    /// Sends the intended outputs of the next step; NaN if unknown. Neither waits nor allocates. A row is lost and
    /// counted if it does not fit or has the wrong number of outputs.
    pub fn step(&mut self, values: &[f32]) {
        let number = self.number;
        self.number += 1;
        if values.len() != self.outputs || self.ring.vacant_len() < self.row.len() {
            self.lost += 1;
            return;
        }
        self.row[0] = number as u32;
        self.row[1] = (number >> 32) as u32;
        for (to, from) in self.row[2..].iter_mut().zip(values) {
            *to = from.to_bits();
        }
        self.ring.push_slice(&self.row);
    }

    /// Number of lost rows.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl TruthReader {
    /// Appends the row of step `number` to `values` and drops older rows; returns false if that row is not there.
    pub(crate) fn at(&mut self, number: u64, values: &mut Vec<f32>) -> bool {
        while self.ring.occupied_len() >= self.row.len() {
            self.ring.peek_slice(&mut self.row);
            let row = u64::from(self.row[0]) | u64::from(self.row[1]) << 32;
            if row > number {
                return false;
            }
            self.ring.skip(self.row.len());
            if row == number {
                values.extend(self.row[2..].iter().map(|&w| f32::from_bits(w)));
                return true;
            }
        }
        false
    }
}

impl std::fmt::Debug for Truth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (f.debug_struct("Truth")
            .field("steps", &self.number)
            .field("lost", &self.lost))
        .finish_non_exhaustive()
    }
}
