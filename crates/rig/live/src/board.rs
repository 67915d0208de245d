//! The newest outputs of a session, for readers on other threads that the loop never waits for.

use betz_base::lock::lock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use betz_runtime::stream::StepStatus;

use crate::pipeline::Step;

/// Steps that are kept for readers.
pub(crate) const KEPT: usize = 4096;
/// Longest sleep of a reader between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Outputs of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutput {
    /// Number of the step, from 0.
    pub number: u64,
    /// Device time of its end: the first row that is not in it.
    pub end: u64,
    /// Arrival of the block that completed it, in nanoseconds of the host's clock; 0 without data.
    pub host_ns: i64,
    /// Quality of the outputs.
    pub status: StepStatus,
    /// One value per output.
    pub values: Vec<f32>,
}

impl StepOutput {
    /// The step, as receivers of steps are given it.
    pub fn as_step(&self) -> Step<'_> {
        Step {
            number: self.number,
            end: self.end,
            host_ns: self.host_ns,
            status: self.status,
            values: &self.values,
        }
    }
}

/// A step in the ring; `turn` is odd while the loop writes.
#[derive(Default)]
struct Slot {
    turn: AtomicU64,
    number: AtomicU64,
    end: AtomicU64,
    host_ns: AtomicU64,
    status: AtomicU32,
}

/// A ring of steps that one thread writes and any number read. Readers that are behind miss the oldest steps.
pub(crate) struct Board {
    slots: Vec<Slot>,
    values: Vec<AtomicU32>,
    outputs: usize,
    /// Steps written so far.
    written: AtomicU64,
    over: AtomicBool,
    waiting: AtomicUsize,
    sleepers: Mutex<()>,
    news: Condvar,
}

impl Board {
    pub(crate) fn new(outputs: usize) -> Self {
        Self {
            slots: (0..KEPT).map(|_| Slot::default()).collect(),
            values: (0..KEPT * outputs).map(|_| AtomicU32::new(0)).collect(),
            outputs,
            written: AtomicU64::new(0),
            over: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            sleepers: Mutex::new(()),
            news: Condvar::new(),
        }
    }

    /// Writes a step. For one thread; waits for nobody.
    pub(crate) fn put(&self, step: &Step<'_>) {
        let turn = self.written.load(Ordering::Relaxed);
        let place = (turn % KEPT as u64) as usize;
        let slot = &self.slots[place];
        slot.turn.store(2 * turn + 1, Ordering::Relaxed);
        // The odd number is seen by whoever sees one of the words.
        fence(Ordering::Release);
        slot.number.store(step.number, Ordering::Relaxed);
        slot.end.store(step.end, Ordering::Relaxed);
        slot.host_ns.store(step.host_ns as u64, Ordering::Relaxed);
        slot.status.store(step.status.bits(), Ordering::Relaxed);
        let row = &self.values[place * self.outputs..(place + 1) * self.outputs];
        for (to, value) in row.iter().zip(step.values) {
            to.store(value.to_bits(), Ordering::Relaxed);
        }
        slot.turn.store(2 * turn + 2, Ordering::Release);
        self.written.store(turn + 1, Ordering::SeqCst);
        self.wake();
    }

    /// Tells readers that no step will come any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.news.notify_all();
        }
    }

    /// Copies step `turn` to `out`; false if it was written over meanwhile.
    fn read(&self, turn: u64, out: &mut StepOutput) -> bool {
        let place = (turn % KEPT as u64) as usize;
        let slot = &self.slots[place];
        if slot.turn.load(Ordering::Acquire) != 2 * turn + 2 {
            return false;
        }
        out.number = slot.number.load(Ordering::Relaxed);
        out.end = slot.end.load(Ordering::Relaxed);
        out.host_ns = slot.host_ns.load(Ordering::Relaxed) as i64;
        out.status = StepStatus::from_bits(slot.status.load(Ordering::Relaxed));
        let row = &self.values[place * self.outputs..(place + 1) * self.outputs];
        out.values.clear();
        (out.values).extend(
            row.iter()
                .map(|v| f32::from_bits(v.load(Ordering::Relaxed))),
        );
        fence(Ordering::Acquire);
        slot.turn.load(Ordering::Relaxed) == 2 * turn + 2
    }

    /// Copies the newest step to `out`; false before the first.
    pub(crate) fn newest(&self, out: &mut StepOutput) -> bool {
        loop {
            match self.written.load(Ordering::Acquire).checked_sub(1) {
                None => return false,
                Some(turn) if self.read(turn, out) => return true,
                Some(_) => std::hint::spin_loop(),
            }
        }
    }

    /// An empty output with room for this board's values.
    pub(crate) fn output(&self) -> StepOutput {
        StepOutput {
            number: 0,
            end: 0,
            host_ns: 0,
            status: StepStatus::OK,
            values: Vec::with_capacity(self.outputs),
        }
    }
}

/// Answer of [`OutputReader::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The step is filled in.
    Step,
    /// No step came in the allowed time.
    Nothing,
    /// The session is over, and every step was read.
    Over,
}

/// Reads the outputs of a session one after another, from any thread.
pub struct OutputReader {
    board: Arc<Board>,
    next: u64,
    missed: u64,
}

impl OutputReader {
    /// A reader of the steps that are kept, and of all that come.
    pub(crate) fn new(board: Arc<Board>) -> Self {
        Self {
            board,
            next: 0,
            missed: 0,
        }
    }

    /// Copies the next step to `out`; waits at most `patience` for it. Steps that were written over before they were
    /// read are counted as missed.
    pub fn next(&mut self, out: &mut StepOutput, patience: Duration) -> Reading {
        let until = Instant::now() + patience.min(Duration::from_secs(1 << 20));
        loop {
            // Looked at before the steps: what was written before the end is read.
            let over = self.board.over.load(Ordering::SeqCst);
            let written = self.board.written.load(Ordering::SeqCst);
            let oldest = written.saturating_sub(KEPT as u64);
            if self.next < oldest {
                self.missed += oldest - self.next;
                self.next = oldest;
            }
            if self.next < written {
                let whole = self.board.read(self.next, out);
                self.next += 1;
                if whole {
                    return Reading::Step;
                }
                self.missed += 1;
                continue;
            }
            if over {
                return Reading::Over;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Reading::Nothing;
            }
            self.sleep(left.min(LOOK));
        }
    }

    /// Sleeps until there is news; the loop notifies without the lock, so that news may be seen a little later.
    fn sleep(&self, most: Duration) {
        let board = &self.board;
        board.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = lock(&board.sleepers);
        if board.written.load(Ordering::SeqCst) == self.next && !board.over.load(Ordering::SeqCst) {
            drop(board.news.wait_timeout(guard, most));
        }
        board.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Steps that were written over before this reader took them.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// An empty output, to be filled by [`OutputReader::next`].
    pub fn output(&self) -> StepOutput {
        self.board.output()
    }
}
