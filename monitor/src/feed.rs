//! The session's side: a tap that never waits.

use betz_base::error::Result;
use betz_runtime::stream::{Input, Step, Tap};

use crate::between::*;

/// Words before a step's estimates: tick (2), number (2), latency, what it is, listed.
const HEAD: usize = 7;
/// The listed are (channel, count) pairs.
const PAIRS: u32 = 1;
/// A trial begins with this step.
const TRIAL: u32 = 2;
/// A second model's estimates follow the list.
const BESIDE: u32 = 4;

/// Hands a session's steps to a page. Attach it with `Session::attach`.
///
/// A step is put into a ring if all of it fits, and is counted as *not shown* otherwise: never a part of
/// one, and never a wait. No allocation, no lock, no call of the system.
///
/// The page's clock runs on through a reset: the first step of a trial comes a tick after the last one of
/// the trial before, and is marked.
pub struct Feed {
    ring: HeapProd<u32>,
    /// Head, estimates and list of a step, put together before they are pushed.
    scratch: Box<[u32]>,
    /// Words before the list.
    base: usize,
    /// A second model's estimates, as words.
    beside: Box<[u32]>,
    not_shown: Arc<AtomicU64>,
    lost: u64,
    number: u64,
    /// Taken from the tap's ticks.
    offset: i64,
    last: Option<i64>,
    resting: bool,
}

/// The hub's end of a [`Feed`].
pub(crate) struct FeedReader {
    ring: HeapCons<u32>,
    head: Box<[u32]>,
    not_shown: Arc<AtomicU64>,
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

/// Longest list of spikes that is put together with its head.
const SHORT: usize = 64;

/// A feed of sessions with so many outputs and channels, and its other end; `words` of 4 bytes lie between them.
pub(crate) fn feed(outputs: usize, channels: usize, words: usize) -> Result<(Feed, FeedReader)> {
    let (to, from) = ring::ring("the ring to the page", words)?;
    let not_shown = Arc::new(AtomicU64::new(0));
    let base = HEAD + outputs;
    let list = channels.saturating_mul(2).max(SHORT);
    let scratch = betz_base::memory::filled("a step", 0u32, base.saturating_add(list))?;
    let reader = FeedReader {
        ring: from,
        head: scratch[..base].into(),
        not_shown: not_shown.clone(),
    };
    let beside = betz_base::memory::filled("a step", 0u32, outputs)?;
    let feed = Feed {
        ring: to,
        scratch: scratch.into_boxed_slice(),
        base,
        beside: beside.into_boxed_slice(),
        not_shown,
        lost: 0,
        number: 0,
        offset: 0,
        last: None,
        resting: false,
    };
    Ok((feed, reader))
}

impl Feed {
    /// Puts a step into the ring whose first `listed` words are in the scratch already, `more` follow them.
    #[inline]
    fn put(&mut self, step: &Step<'_>, listed: usize, more: &[u32], flags: u32) {
        let mut flags = flags;
        if self.resting {
            self.resting = false;
            flags |= TRIAL;
            if let Some(last) = self.last {
                self.offset = step.tick.saturating_sub(last).saturating_sub(1);
            }
        }
        let tick = step.tick.saturating_sub(self.offset);
        self.last = Some(tick);
        let number = self.number;
        self.number += 1;
        let words = self.base + listed;
        let beside = match step.beside.len() == self.beside.len() {
            true => self.beside.len(),
            false => 0,
        };
        let behind = more.len().saturating_add(beside);
        // A session that was swapped for one with other outputs is not shown either.
        let fits = step.estimates.len() == self.base - HEAD
            && self.ring.vacant_len() >= words.saturating_add(behind);
        if !fits {
            self.lost += 1;
            self.not_shown.store(self.lost, Ordering::Relaxed);
            // The mark is made on the next step that is shown.
            self.resting = flags & TRIAL != 0;
            return;
        }
        if beside > 0 {
            flags |= BESIDE;
        }
        let head = [
            tick as u32,
            (tick >> 32) as u32,
            number as u32,
            (number >> 32) as u32,
            step.previous_latency_ns,
            flags,
            (listed + more.len()) as u32,
        ];
        self.scratch[..HEAD].copy_from_slice(&head);
        for (to, from) in self.scratch[HEAD..].iter_mut().zip(step.estimates) {
            *to = from.to_bits();
        }
        self.ring.push_slice(&self.scratch[..words]);
        if !more.is_empty() {
            self.ring.push_slice(more);
        }
        if beside > 0 {
            for (to, from) in self.beside.iter_mut().zip(step.beside) {
                *to = (*from as f32).to_bits();
            }
            self.ring.push_slice(&self.beside);
        }
    }

    /// Lists channel and count where there is one.
    fn counts(&mut self, step: &Step<'_>, counts: impl Iterator<Item = u32>) {
        let mut listed = 0;
        let pairs = self.scratch[self.base..].chunks_exact_mut(2);
        let mut pairs = pairs.into_iter();
        for (channel, count) in (0u32..).zip(counts) {
            if count > 0
                && let Some(pair) = pairs.next()
            {
                pair.copy_from_slice(&[channel, count]);
                listed += 2;
            }
        }
        self.put(step, listed, &[], PAIRS);
    }
}

impl Tap for Feed {
    #[inline]
    fn take(&mut self, step: &Step<'_>) {
        match step.input {
            // Short lists, which most are, go in with the head.
            Input::Spikes(channels) => match self.scratch[self.base..].get_mut(..channels.len()) {
                Some(to) => {
                    to.copy_from_slice(channels);
                    self.put(step, channels.len(), &[], 0);
                }
                None => self.put(step, 0, channels, 0),
            },
            Input::Counts(counts) => self.counts(step, counts.iter().map(|&c| u32::from(c))),
            Input::CountsU8(counts) => self.counts(step, counts.iter().map(|&c| u32::from(c))),
            // Rounded; what is not a positive number is no spike.
            Input::CountsF32(counts) => self.counts(step, counts.iter().map(|&c| c.round() as u32)),
            _ => self.put(step, 0, &[], 0),
        }
    }

    fn rest(&mut self) {
        self.resting = true;
    }

    fn name(&self) -> &'static str {
        "page"
    }
}

impl FeedReader {
    /// Steps that did not fit so far.
    pub(crate) fn not_shown(&self) -> u64 {
        self.not_shown.load(Ordering::Relaxed)
    }

    /// The next step, once all of it is there.
    pub(crate) fn take(&mut self, step: &mut Taken) -> bool {
        let words = self.head.len();
        if self.ring.occupied_len() < words {
            return false;
        }
        self.ring.peek_slice(&mut self.head);
        let head = &self.head;
        let listed = head[6] as usize;
        let beside = match head[5] & BESIDE {
            0 => 0,
            _ => words - HEAD,
        };
        if self.ring.occupied_len() < words + listed + beside {
            return false;
        }
        let two = |lo: u32, hi: u32| u64::from(lo) | u64::from(hi) << 32;
        step.tick = two(head[0], head[1]) as i64;
        step.number = two(head[2], head[3]);
        step.previous_latency_ns = head[4];
        step.trial_begins = head[5] & TRIAL != 0;
        let pairs = head[5] & PAIRS != 0;
        step.estimates.clear();
        (step.estimates).extend(head[HEAD..].iter().map(|&w| f32::from_bits(w)));
        self.ring.skip(words);
        step.spikes.clear();
        if pairs {
            for _ in 0..listed / 2 {
                let (Some(channel), Some(count)) = (self.ring.try_pop(), self.ring.try_pop())
                else {
                    break;
                };
                let count = count.min(MOST_OF_A_COUNT) as usize;
                step.spikes.resize(step.spikes.len() + count, channel);
            }
        } else {
            step.spikes.resize(listed, 0);
            self.ring.pop_slice(&mut step.spikes);
        }
        step.beside.clear();
        for _ in 0..beside {
            (step.beside).extend(self.ring.try_pop().map(f32::from_bits));
        }
        true
    }

    /// Whether the session's end is still there.
    pub(crate) fn is_connected(&self) -> bool {
        self.ring.write_is_held()
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
    let (to, from) = ring::ring("the ring of the truth", words)?;
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

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (f.debug_struct("Feed")
            .field("steps", &self.number)
            .field("not_shown", &self.lost))
        .finish_non_exhaustive()
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
