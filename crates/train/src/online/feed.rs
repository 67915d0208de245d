//! The loop's two ends: a tap that hears the steps, and the labels that belong to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ringbuf::traits::{Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

use betz_base::error::{Error, ErrorKind, Result};
use betz_runtime::stream::{Input, Step, Tap};

/// What the rings carry: a step or one of its spikes, a label's value or a trial's end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Item {
    pub(super) tick: i64,
    /// A channel, an output, [`STEP`] or [`END`].
    pub(super) what: u32,
    /// A count, a value, or what a step or an end says.
    pub(super) value: f32,
}

/// A step begins; its value is a sum of [`REST`] and [`GAP`].
pub(super) const STEP: u32 = u32::MAX;
/// A trial ends; its value is 1 where it is to be kept.
pub(super) const END: u32 = u32::MAX - 1;
/// Filters went back to rest before this step.
pub(super) const REST: f32 = 1.0;
/// Steps before this one found no room.
pub(super) const GAP: f32 = 2.0;

/// What both ends know.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The last step's tick.
    tick: AtomicI64,
    /// Steps that found no room.
    pub(super) lost_steps: AtomicU64,
    /// Labels that were refused or found no room.
    pub(super) lost_labels: AtomicU64,
}

/// Hands a session's steps to a trainer. Wait-free: a step is a bounded number of instructions, without
/// allocation, lock or system call; where the ring is full the step is left out, and its trial with it.
pub struct TrainerTap {
    ring: HeapProd<Item>,
    shared: Arc<Shared>,
    channels: u32,
    /// What the next step that finds room says.
    says: f32,
    lost: u64,
}

/// The labels of a session's steps, from the loop that steps it. Wait-free, as [`TrainerTap`].
pub struct Labels {
    ring: HeapProd<Item>,
    shared: Arc<Shared>,
    outputs: usize,
    /// A label of this trial found no room, or its end did not.
    broken: bool,
    lost: u64,
}

/// The two ends, and the rings' other ends for the worker.
pub(super) struct Ends {
    pub(super) tap: TrainerTap,
    pub(super) labels: Labels,
    pub(super) steps: HeapCons<Item>,
    pub(super) values: HeapCons<Item>,
    pub(super) shared: Arc<Shared>,
}

/// Rings for `capacity` steps and spikes, and as many values of labels.
pub(super) fn ends(capacity: usize, channels: usize, outputs: usize) -> Result<Ends> {
    let made = || {
        let (mut send, mut take) = betz_base::ring::ring::<Item>("trainer's ring", capacity)?;
        // Every page is touched now, so that no push waits for the system to map it.
        send.push_iter(std::iter::repeat_n(Item::default(), capacity));
        ringbuf::traits::Consumer::clear(&mut take);
        Ok::<_, Error>((send, take))
    };
    let ((steps_in, steps), (values_in, values)) = (made()?, made()?);
    let shared = Arc::new(Shared::default());
    shared.tick.store(i64::MIN, Ordering::Relaxed);
    Ok(Ends {
        tap: TrainerTap {
            ring: steps_in,
            shared: Arc::clone(&shared),
            channels: u32::try_from(channels).unwrap_or(END).min(END),
            says: REST,
            lost: 0,
        },
        labels: Labels {
            ring: values_in,
            shared: Arc::clone(&shared),
            outputs,
            broken: false,
            lost: 0,
        },
        steps,
        values,
        shared,
    })
}

impl TrainerTap {
    /// Pushes the step and what `entries` gives, all or nothing.
    fn push(&mut self, tick: i64, count: usize, entries: impl Iterator<Item = (u32, f32)>) {
        self.shared.tick.store(tick, Ordering::Relaxed);
        if self.ring.vacant_len() <= count {
            let rests = self.says == REST || self.says == REST + GAP;
            self.says = if rests { REST + GAP } else { GAP };
            self.lost += 1;
            self.shared.lost_steps.store(self.lost, Ordering::Relaxed);
            return;
        }
        let begin = Item {
            tick,
            what: STEP,
            value: self.says,
        };
        self.says = 0.0;
        let channels = self.channels;
        let entries = entries
            .filter(|(channel, _)| *channel < channels)
            .map(|(what, value)| Item { tick, what, value });
        self.ring.push_iter(std::iter::once(begin).chain(entries));
    }
}

impl Tap for TrainerTap {
    fn take(&mut self, step: &Step<'_>) {
        fn counted<T: Copy + Into<f32>>(counts: &[T]) -> impl Iterator<Item = (u32, f32)> {
            (0..)
                .zip(counts)
                .map(|(c, &v)| (c, v.into()))
                .filter(|(_, v)| *v != 0.0)
        }
        match step.input {
            Input::Spikes(channels) => {
                let entries = channels.iter().map(|&c| (c, 1.0));
                self.push(step.tick, channels.len(), entries);
            }
            Input::Counts(c) => self.push(step.tick, counted(c).count(), counted(c)),
            Input::CountsU8(c) => self.push(step.tick, counted(c).count(), counted(c)),
            Input::CountsF32(c) => self.push(step.tick, counted(c).count(), counted(c)),
            // An input of a later version says nothing here: its trial is left out.
            _ => self.push(step.tick, usize::MAX - 1, std::iter::empty()),
        }
    }

    fn rest(&mut self) {
        // What was lost before does not matter any more.
        self.says = REST;
    }

    fn name(&self) -> &'static str {
        "trainer"
    }
}

impl Labels {
    /// The label of the step just taken: one value per output. `false` where there is no room for it; its
    /// trial is then left out. A step without a label is decoded and not learned from.
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
    /// As [`label`](Self::label).
    pub fn label_at(&mut self, tick: i64, target: &[f32]) -> Result<bool> {
        let refusal = if self.shared.tick.load(Ordering::Relaxed) == i64::MIN {
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

    /// The trial ends with the step just taken. `keep` is false for one that is not to be learned from
    /// (aborted, distracted). `false` where there is no room: this trial and the next are then left out.
    pub fn end_trial(&mut self, keep: bool) -> bool {
        let keep = keep && !self.broken;
        let end = Item {
            tick: self.shared.tick.load(Ordering::Relaxed),
            what: END,
            value: f32::from(u8::from(keep)),
        };
        self.broken = self.ring.try_push(end).is_err();
        !self.broken
    }

    fn count_lost(&mut self) {
        self.lost += 1;
        self.shared.lost_labels.store(self.lost, Ordering::Relaxed);
    }
}
