//! The session's side: a tap that never waits.

use betz_base::error::Result;
use betz_base::ring::{self, ring};
use betz_runtime::stream::{Step, StepReader, StepRecord, StepWriter, Tap, step_ring};
use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

/// Hands a session's steps to a page. Attach it with `Session::attach`.
///
/// A step is put into a ring if all of it fits, and is counted as *not shown* otherwise: never a part of
/// one, and never a wait. No allocation, no lock, no call of the system.
///
/// The page's clock runs on through a reset: the first step of a trial comes a tick after the last one of
/// the trial before, and is marked.
#[derive(Debug)]
pub struct Feed {
    ring: StepWriter,
    /// Taken from the tap's ticks.
    offset: i64,
    last: Option<i64>,
    resting: bool,
}

/// The hub's end of a [`Feed`].
pub(crate) struct FeedReader {
    ring: StepReader,
    step: StepRecord,
}

/// A step as it comes out of the ring.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Taken {
    /// On the page's clock.
    pub(crate) tick: i64,
    /// Counts the steps that the feed heard, shown or not.
    pub(crate) number: u64,
    /// Of the step before.
    pub(crate) previous_latency_ns: u32,
    pub(crate) trial_begins: bool,
    pub(crate) estimates: Vec<f32>,
    /// Of the model beside; empty where one runs alone.
    pub(crate) beside: Vec<f32>,
    /// A channel a spike.
    pub(crate) spikes: Vec<u32>,
}

/// Most spikes that one channel's count in one step is drawn as.
pub(crate) const MOST_OF_A_COUNT: u32 = 64;

/// A feed of sessions with `outputs` outputs, and its other end; `words` of 4 bytes lie between them.
pub(crate) fn feed(outputs: usize, words: usize) -> Result<(Feed, FeedReader)> {
    let (writer, reader) = step_ring("the ring to the page", words, 1, Some(outputs))?;
    let feed = Feed {
        ring: writer,
        offset: 0,
        last: None,
        resting: false,
    };
    let step = StepRecord::default();
    Ok((feed, FeedReader { ring: reader, step }))
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
        self.ring.push(&Step { tick, ..*step });
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
    /// Steps that did not fit so far.
    pub(crate) fn not_shown(&self) -> u64 {
        self.ring.backlog().lost()
    }

    /// The next step, once all of it is there.
    pub(crate) fn take(&mut self, step: &mut Taken) -> bool {
        if !self.ring.take(&mut self.step) {
            return false;
        }
        let record = &mut self.step;
        step.tick = record.tick;
        step.number = record.number;
        step.previous_latency_ns = record.previous_latency_ns;
        step.trial_begins = record.after_rest;
        std::mem::swap(&mut step.estimates, &mut record.estimates);
        std::mem::swap(&mut step.beside, &mut record.auxiliary);
        step.spikes.clear();
        for &(channel, count) in &record.fired {
            // Rounded; a count that is not positive is no spike.
            let count = (count.round() as u32).min(MOST_OF_A_COUNT) as usize;
            step.spikes.resize(step.spikes.len() + count, channel);
        }
        true
    }

    /// Whether the session's end is still there.
    pub(crate) fn is_connected(&self) -> bool {
        self.ring.is_connected()
    }
}

/// What was intended, from the thread that knows: the acquisition's, a task's.
///
/// Rows go with the steps by number: the first row with the first step that the [`Feed`] hears, and so on.
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

/// Steps of truth that may wait for their steps.
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
    /// The intended outputs at the next step; NaN where unknown. Neither waits nor allocates; a row that
    /// does not fit, or has another number of outputs, is lost and counted.
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

    /// Rows that were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl TruthReader {
    /// The next row, if it is not of a step after `number`; what is older is left out.
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
