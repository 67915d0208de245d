//! A ring of steps between a session and a worker thread: whole steps, never a wait, every loss counted.

use super::between::{
    Arc, Backlog, Consumer, HeapCons, HeapProd, Observer, Producer, Result, ring_of,
};
use super::tap::{Input, Step};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Words that every step begins with: its marks, the length of its list, its tick (2).
pub const STEP_WORDS: usize = 4;
/// Words of the details before the estimates: the step's number (2), the latency of the step before.
const DETAIL_WORDS: usize = 3;

/// The session was reset before this step.
const REST: u32 = 1;
/// Steps before this one found no room.
const GAP: u32 = 2;
/// The list has pairs of a channel and the bits of its count; else it has a channel per spike.
const COUNTS: u32 = 4;
/// Number, latency and estimates stand before the list.
const DETAILS: u32 = 8;
/// The estimates of a second model stand behind the first one's.
const AUXILIARY: u32 = 16;

/// A step as it comes out of the ring.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct StepRecord {
    /// The step's tick.
    pub tick: i64,
    /// The session was reset between the last step in the ring and this one.
    pub after_rest: bool,
    /// Steps since the last one in the ring, or since the last reset, found no room.
    pub after_gap: bool,
    /// Channels and their counts, as the step was given them: each spike of a list as a count of 1, counts
    /// that are not 0.
    pub fired: Vec<(u32, f32)>,
    /// Number of steps given to the writer before this one. 0 without details, as all below is then empty.
    pub number: u64,
    /// Latency of the step *before*, in nanoseconds.
    pub previous_latency_ns: u32,
    /// One estimate per output.
    pub estimates: Vec<f32>,
    /// The second model's estimates while a swap runs two.
    pub auxiliary: Vec<f32>,
}

/// The session's end of the ring. Wait-free: a step is a bounded number of instructions, without
/// allocation, lock or call of the system. A step that finds no room is left out whole and counted.
pub struct StepWriter {
    ring: HeapProd<u32>,
    backlog: Arc<Backlog>,
    /// Marks of the next step that finds room.
    marks: u32,
    number: u64,
    pushed: u64,
    lost: u64,
    /// Outputs, where the ring carries details.
    outputs: Option<usize>,
    /// A step's words before its list.
    head: Box<[u32]>,
}

/// The worker's end of the ring.
pub struct StepReader {
    ring: HeapCons<u32>,
    backlog: Arc<Backlog>,
    outputs: usize,
    /// A step's words.
    words: Vec<u32>,
}

/// Opens a ring for `capacity` items of `size` words of 4 bytes each. A step takes [`STEP_WORDS`] words,
/// one more per spike of a list, and two more per channel that has a count. With `outputs` each step also
/// carries its number, its latency and so many estimates (3 words more, and one or two per output).
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use betz_runtime::stream::{Input, StepRecord, step_ring};
///
/// let (mut writer, mut reader) = step_ring("steps", 16, 4, None)?;
/// assert!(writer.push_input(7, Input::Spikes(&[3, 1]))); // the session's thread
/// let mut step = StepRecord::default();
/// assert!(reader.take(&mut step)); // the worker's thread
/// assert_eq!((step.tick, step.fired), (7, vec![(3, 1.0), (1, 1.0)]));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `InvalidArgument` for a capacity of 0 or more than 2²⁴; `OutOfMemory` when there is no memory for it.
pub fn step_ring(
    what: &str,
    capacity: usize,
    size: usize,
    outputs: Option<usize>,
) -> Result<(StepWriter, StepReader)> {
    let (mut to, mut from) = ring_of(what, capacity, size)?;
    // The writer touches every page now, so that no step waits for the system to map one.
    to.push_iter(core::iter::repeat_n(0, capacity.saturating_mul(size)));
    from.clear();
    let backlog = Arc::new(Backlog::default());
    let details = outputs.map_or(0, |outputs| DETAIL_WORDS + 2 * outputs);
    let writer = StepWriter {
        ring: to,
        backlog: Arc::clone(&backlog),
        marks: 0,
        number: 0,
        pushed: 0,
        lost: 0,
        outputs,
        head: vec![0; STEP_WORDS + details].into(),
    };
    let reader = StepReader {
        ring: from,
        backlog,
        outputs: outputs.unwrap_or(0),
        words: Vec::new(),
    };
    Ok((writer, reader))
}

impl StepWriter {
    /// Pushes a step as a [`Tap`](super::Tap) is given it; false where it finds no room, or where it has not
    /// as many estimates as the ring carries.
    #[inline]
    pub fn push(&mut self, step: &Step<'_>) -> bool {
        let mut marks = 0;
        let mut head = STEP_WORDS;
        let mut fits = true;
        if let Some(outputs) = self.outputs {
            fits = step.estimates.len() == outputs;
            let number = self.number;
            let details = [
                number as u32,
                (number >> 32) as u32,
                step.previous_latency_ns,
            ];
            let (to, rest) = self.head[STEP_WORDS..].split_at_mut(DETAIL_WORDS);
            to.copy_from_slice(&details);
            let (to, auxiliary) = rest.split_at_mut(outputs);
            for (to, from) in to.iter_mut().zip(step.estimates) {
                *to = from.to_bits();
            }
            head += DETAIL_WORDS + outputs;
            marks |= DETAILS;
            if step.beside.len() == outputs && outputs > 0 {
                for (to, from) in auxiliary.iter_mut().zip(step.beside) {
                    *to = (*from as f32).to_bits();
                }
                head += outputs;
                marks |= AUXILIARY;
            }
        }
        self.put(step.tick, step.input, head, marks, fits)
    }

    /// Pushes a step that has no details; false where it finds no room.
    #[inline]
    pub fn push_input(&mut self, tick: i64, input: Input<'_>) -> bool {
        self.put(tick, input, STEP_WORDS, 0, true)
    }

    /// Pushes spikes at `tick` as one step: the first ones that find room. Returns how many those are; the
    /// others are counted as lost, one by one.
    pub fn push_some(&mut self, tick: i64, spikes: impl Iterator<Item = u32> + Clone) -> usize {
        let wanted = spikes.clone().count();
        let room = self.ring.vacant_len().saturating_sub(STEP_WORDS);
        let n = wanted.min(room);
        if n > 0 && self.begin(tick, n, STEP_WORDS, 0) {
            self.ring.push_iter(spikes.take(n));
            self.end();
        }
        if n < wanted {
            self.lose((wanted - n) as u64);
        }
        n
    }

    /// Counts items as lost that were not pushed because those before them found no room.
    #[cold]
    pub fn lose(&mut self, items: u64) {
        self.marks |= GAP;
        self.lost += items;
        self.backlog.set_lost(self.lost);
    }

    /// The session was reset: the next step that finds room is marked so.
    pub fn rest(&mut self) {
        // Steps lost before a reset do not matter behind it.
        self.marks = REST;
    }

    /// Steps that found no room so far (of [`push_some`](Self::push_some): spikes).
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Steps given to this writer so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The counts that both ends see.
    pub fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    #[inline]
    fn put(&mut self, tick: i64, input: Input<'_>, head: usize, marks: u32, fits: bool) -> bool {
        let room = self.ring.vacant_len();
        let room = if fits { room } else { 0 };
        let pushed = match input {
            Input::Spikes(channels) => {
                let fits = room >= head.saturating_add(channels.len());
                if fits && self.begin(tick, channels.len(), head, marks) {
                    self.ring.push_slice(channels);
                    true
                } else {
                    false
                }
            }
            Input::Counts(counts) => self.put_counts(tick, counts, head, marks, room),
            Input::CountsU8(counts) => self.put_counts(tick, counts, head, marks, room),
            Input::CountsF32(counts) => self.put_counts(tick, counts, head, marks, room),
        };
        self.number += 1;
        if pushed {
            self.end();
        } else {
            self.lose(1);
        }
        pushed
    }

    fn put_counts<T: Copy + Into<f32>>(
        &mut self,
        tick: i64,
        counts: &[T],
        head: usize,
        marks: u32,
        room: usize,
    ) -> bool {
        let fired = || {
            let all = (0..).zip(counts).map(|(channel, &n)| (channel, n.into()));
            all.filter(|(_, n): &(u32, f32)| *n != 0.0)
        };
        let words = 2 * fired().count();
        let fits = room >= head.saturating_add(words);
        let begun = fits && self.begin(tick, words, head, marks | COUNTS);
        if begun {
            let words = fired().flat_map(|(channel, n)| [channel, n.to_bits()]);
            self.ring.push_iter(words);
        }
        begun
    }

    /// Pushes `head` words, behind which a list of `listed` words is to follow.
    #[inline]
    fn begin(&mut self, tick: i64, listed: usize, head: usize, marks: u32) -> bool {
        let Ok(listed) = u32::try_from(listed) else {
            return false;
        };
        let begin = [self.marks | marks, listed, tick as u32, (tick >> 32) as u32];
        self.head[..STEP_WORDS].copy_from_slice(&begin);
        self.marks = 0;
        self.ring.push_slice(&self.head[..head]);
        true
    }

    #[inline]
    fn end(&mut self) {
        self.pushed += 1;
        self.backlog.set_pushed(self.pushed);
    }
}

impl StepReader {
    /// Takes the next step, once all of it is there; false where there is none.
    pub fn take(&mut self, step: &mut StepRecord) -> bool {
        let mut head = [0; STEP_WORDS];
        if self.ring.peek_slice(&mut head) < STEP_WORDS {
            return false;
        }
        let [marks, listed, low, high] = head;
        let estimates = if marks & DETAILS == 0 {
            0
        } else {
            self.outputs
        };
        let auxiliary = if marks & AUXILIARY == 0 {
            0
        } else {
            self.outputs
        };
        let details = if marks & DETAILS == 0 {
            0
        } else {
            DETAIL_WORDS
        };
        let list = STEP_WORDS + details + estimates + auxiliary;
        let words = list + listed as usize;
        // The words behind the head may still be on their way.
        if self.ring.occupied_len() < words {
            return false;
        }
        self.words.resize(words, 0);
        self.ring.pop_slice(&mut self.words);
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        step.tick = two(low, high) as i64;
        step.after_rest = marks & REST != 0;
        step.after_gap = marks & GAP != 0;
        (step.number, step.previous_latency_ns) = match self.words[STEP_WORDS..list] {
            [low, high, latency, ..] => (two(low, high), latency),
            _ => (0, 0),
        };
        let floats = |to: &mut Vec<f32>, words: &[u32]| {
            to.clear();
            to.extend(words.iter().map(|&w| f32::from_bits(w)));
        };
        let begin = STEP_WORDS + details;
        floats(&mut step.estimates, &self.words[begin..begin + estimates]);
        floats(&mut step.auxiliary, &self.words[begin + estimates..list]);
        step.fired.clear();
        let listed = &self.words[list..];
        if marks & COUNTS == 0 {
            step.fired
                .extend(listed.iter().map(|&channel| (channel, 1.0)));
        } else {
            let pairs = listed.as_chunks::<2>().0.iter();
            (step.fired).extend(pairs.map(|&[channel, n]| (channel, f32::from_bits(n))));
        }
        true
    }

    /// True where the ring is more than half full.
    pub fn is_crowded(&self) -> bool {
        self.ring.occupied_len() > self.ring.capacity().get() / 2
    }

    /// False once the writer is gone. Ask before the ring is emptied: what came before the end is then
    /// taken.
    pub fn is_connected(&self) -> bool {
        self.ring.write_is_held()
    }

    /// The counts that both ends see.
    pub fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }
}

impl core::fmt::Debug for StepWriter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (f.debug_struct("StepWriter")
            .field("number", &self.number)
            .field("lost", &self.lost))
        .finish_non_exhaustive()
    }
}

impl core::fmt::Debug for StepReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (f.debug_struct("StepReader").field("backlog", &self.backlog)).finish_non_exhaustive()
    }
}
