//! The loop's two ends: a tap that hears the steps, and the labels that belong to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::ring::ring;
use betz_runtime::model::OutputRange;
use betz_runtime::stream::{LentTap, Step, StepReader, StepWriter, Tap, TapLease, lend, step_ring};

/// Item of the ring of labels: a label's value or a trial's end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Item {
    pub(super) tick: i64,
    /// An output, or [`END`].
    pub(super) what: u32,
    /// A value, or what an end says.
    pub(super) value: f32,
}

/// A trial ends; its value is 1 where it is to be kept, or [`PAUSE`] where it is none.
pub(super) const END: u32 = u32::MAX - 1;
/// Value of the end of a pause between trials.
pub(super) const PAUSE: f32 = 2.0;

/// Width in which labels are believed, relative to the range that outputs are kept within: wide enough for a task that
/// changes, and far too narrow for a number that is wrong.
const BELIEVED: f32 = 4.0;

/// Words of the ring for each step or spike that it is asked to hold: a spike in a list takes one, a count
/// two, a step four more.
const WORDS: usize = 2;

/// Counters that both ends share.
#[derive(Debug, Default)]
pub(super) struct FeedCounters {
    /// The last step's tick.
    tick: AtomicI64,
    /// Labels that were refused or found no room.
    pub(super) lost_labels: AtomicU64,
    /// Labels that were left out because they are far outside the range of training.
    pub(super) outliers: AtomicU64,
    /// Ends of trials that found room.
    pub(super) ended: AtomicU64,
    /// Ends of trials that found none.
    pub(super) lost_ends: AtomicU64,
}

impl FeedCounters {
    /// True once the session has made a step.
    pub(super) fn has_stepped(&self) -> bool {
        self.tick.load(Ordering::Relaxed) != i64::MIN
    }
}

/// Hands a session's steps to a trainer. Wait-free: a step is a bounded number of instructions, without
/// allocation, lock or system call; when the ring is full the step is left out, and its trial with it.
pub struct TrainerTap {
    ring: StepWriter,
    shared: Arc<FeedCounters>,
}

/// The labels of a session's steps, from the loop that steps it. Wait-free, as [`TrainerTap`].
pub struct Labels {
    ring: HeapProd<Item>,
    shared: Arc<FeedCounters>,
    outputs: usize,
    /// Range in which labels are believed, one per output; empty for no bounds.
    believed: Vec<OutputRange>,
    /// A label of this trial found no room, or its end did not.
    broken: bool,
    lost: u64,
}

/// The two ends, and the rings' other ends for the worker.
pub(super) struct Ends {
    pub(super) tap: LentTap<TrainerTap>,
    pub(super) lease: TapLease<TrainerTap>,
    pub(super) labels: Labels,
    pub(super) steps: StepReader,
    pub(super) values: HeapCons<Item>,
    pub(super) shared: Arc<FeedCounters>,
}

/// Rings for `capacity` steps and spikes, and as many values of labels, of a decoder with `outputs` that are kept within
/// `ranges`.
pub(super) fn ends(capacity: usize, outputs: usize, ranges: &[OutputRange]) -> Result<Ends> {
    let (mut values_in, mut values) = ring::<Item>("trainer's ring", capacity)?;
    // Every page is touched now, so that no push waits for the system to map it.
    values_in.push_iter(std::iter::repeat_n(Item::default(), capacity));
    values.clear();
    let (mut writer, steps) = step_ring("trainer's ring", capacity, WORDS, None)?;
    // The first step begins a trial.
    writer.rest();
    let shared = Arc::new(FeedCounters::default());
    shared.tick.store(i64::MIN, Ordering::Relaxed);
    let (tap, lease) = lend(TrainerTap {
        ring: writer,
        shared: Arc::clone(&shared),
    });
    Ok(Ends {
        tap,
        lease,
        labels: Labels {
            ring: values_in,
            shared: Arc::clone(&shared),
            outputs,
            believed: ranges.iter().map(believed).collect(),
            broken: false,
            lost: 0,
        },
        steps,
        values,
        shared,
    })
}

/// The range in which labels of an output are believed that is kept within `range`.
fn believed(range: &OutputRange) -> OutputRange {
    let (middle, half) = (
        0.5 * (range.low + range.high),
        0.5 * BELIEVED * (range.high - range.low),
    );
    match half.is_finite() {
        true => OutputRange {
            low: middle - half,
            high: middle + half,
        },
        false => *range,
    }
}

impl Tap for TrainerTap {
    fn take(&mut self, step: &Step<'_>) {
        self.shared.tick.store(step.tick, Ordering::Relaxed);
        self.ring.push(step);
    }

    fn rest(&mut self) {
        self.ring.rest();
    }

    fn name(&self) -> &'static str {
        "trainer"
    }
}

impl Labels {
    /// The label of the step just taken: one value per output. `false` where there is no room for it; its
    /// trial is then left out. A step without a label is decoded and not learned from. A label far outside the range of
    /// training (four times its width) is counted as an outlier: its step stays without a label.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for another number of values; [`ErrorKind::NonFinite`] for one that is not
    /// finite: the step stays without a label, and that is counted; [`ErrorKind::InvalidArgument`] before
    /// the first step. (Only an error's message allocates.)
    pub fn label(&mut self, target: &[f32]) -> Result<bool> {
        let tick = self.shared.tick.load(Ordering::Relaxed);
        self.label_at(tick, target)
    }

    /// The label of the step at `tick`, as the tap heard it, of the trial that has not ended.
    ///
    /// # Errors
    /// The same as for [`label`](Self::label).
    pub fn label_at(&mut self, tick: i64, target: &[f32]) -> Result<bool> {
        let refusal = if !self.shared.has_stepped() {
            Some(Error::argument(
                "label: expected a step before its label, got none; is the trainer's tap attached?",
            ))
        } else if target.len() != self.outputs {
            Some(Error::mismatch(format!(
                "label: expected {} values, one per output, got {}",
                self.outputs,
                target.len()
            )))
        } else if target.iter().any(|v| !v.is_finite()) {
            Some(Error::new(
                ErrorKind::NonFinite,
                "label: expected finite values, got NaN or infinity",
            ))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.count_lost();
            return Err(refusal);
        }
        let is_believed =
            |(range, value): (&OutputRange, &f32)| (range.low..=range.high).contains(value);
        if !self.believed.iter().zip(target).all(is_believed) {
            self.shared.outliers.fetch_add(1, Ordering::Relaxed);
            return Ok(true);
        }
        // One place is left for the trial's end.
        if self.ring.vacant_len() <= self.outputs {
            self.broken = true;
            self.count_lost();
            return Ok(false);
        }
        let values = (0..).zip(target);
        let items = values.map(|(what, &value)| Item { tick, what, value });
        self.ring.push_iter(items);
        Ok(true)
    }

    /// Tick of the step just taken, as the tap heard it; `None` before the first.
    pub fn newest_tick(&self) -> Option<i64> {
        let tick = self.shared.tick.load(Ordering::Relaxed);
        self.shared.has_stepped().then_some(tick)
    }

    /// The trial ends with the step just taken. `keep` is false for one that is not to be learned from
    /// (aborted, distracted). `false` where there is no room: this trial and the next are then left out.
    pub fn end_trial(&mut self, keep: bool) -> bool {
        self.end_trial_at(self.shared.tick.load(Ordering::Relaxed), keep)
    }

    /// The trial ends with the step at `tick`, as the tap heard it; otherwise the same as [`end_trial`](Self::end_trial).
    /// Labels of later steps are given after this call.
    pub fn end_trial_at(&mut self, tick: i64, keep: bool) -> bool {
        let keep = keep && !self.broken;
        self.end_part(tick, f32::from(u8::from(keep)))
    }

    /// A pause between trials ends with the step at `tick`: it is not learned from, and does not count as a trial.
    pub fn end_pause_at(&mut self, tick: i64) -> bool {
        self.end_part(tick, PAUSE)
    }

    fn end_part(&mut self, tick: i64, value: f32) -> bool {
        let end = Item {
            tick,
            what: END,
            value,
        };
        self.broken = self.ring.try_push(end).is_err();
        let ends = if self.broken {
            &self.shared.lost_ends
        } else {
            &self.shared.ended
        };
        ends.fetch_add(1, Ordering::Relaxed);
        !self.broken
    }

    fn count_lost(&mut self) {
        self.lost += 1;
        self.shared.lost_labels.store(self.lost, Ordering::Relaxed);
    }
}
