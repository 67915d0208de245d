//! The thread that hears a source, and the blocks on their way to the loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use betz_base::ring::ring;
use betz_base::{Error, ErrorKind, Result};
use betz_interop::rig::{Arrival, Block, Probe, Rig, RigCounts, Signal};
use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

/// Blocks that may wait between the source's thread and the loop: a second of the usual ones.
const ROOM: usize = 1024;
/// Answers about the device's time that may wait.
const PROBES: usize = 64;
/// Interval at which the threads look whether they are to end.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// Time that the source waits for a loop that is behind.
const BEHIND: Duration = Duration::from_millis(1);

/// State that the source's thread shares with the loop.
#[derive(Default)]
struct SourceState {
    stop: AtomicBool,
    ended: AtomicBool,
    failed: Mutex<Option<Error>>,
    counts: Mutex<RigCounts>,
    signal: Mutex<Option<Signal>>,
    taker: Mutex<Option<Thread>>,
}

/// The thread that hears the source, and the blocks on their way to the loop and back.
pub(crate) struct Ear {
    shared: Arc<SourceState>,
    full: HeapCons<Block>,
    empty: HeapProd<Block>,
    probes: HeapCons<Probe>,
    thread: Option<JoinHandle<()>>,
    rate: Option<f64>,
}

impl Ear {
    pub(crate) fn start(rig: Box<dyn Rig>) -> Result<Self> {
        let shared = Arc::new(SourceState::default());
        let (send, full) = ring("blocks", ROOM)?;
        let (empty, back) = ring("blocks", ROOM)?;
        let (answers, probes) = ring("probes", PROBES)?;
        let thread = std::thread::Builder::new()
            .name("betz-source".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || hear(rig, &shared, send, back, answers)
            })
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting a thread: {e}")))?;
        Ok(Self {
            shared,
            full,
            empty,
            probes,
            thread: Some(thread),
            rate: None,
        })
    }

    pub(crate) fn peek(&mut self) -> Option<&Block> {
        self.full.try_peek()
    }

    pub(crate) fn take(&mut self) -> Option<Block> {
        self.full.try_pop()
    }

    pub(crate) fn give_back(&mut self, block: Block) {
        // A full ring means that there are blocks enough.
        let _ = self.empty.try_push(block);
    }

    /// The next answer about the device's time.
    pub(crate) fn take_probe(&mut self) -> Option<Probe> {
        self.probes.try_pop()
    }

    /// Names this thread as the one that is to be woken.
    pub(crate) fn announce(&self) {
        lock(&self.shared.taker).get_or_insert_with(std::thread::current);
    }

    pub(crate) fn signal(&mut self) -> Option<Signal> {
        let signal = lock(&self.shared.signal).clone();
        self.rate = signal.as_ref().map(|s| s.rate);
        signal
    }

    pub(crate) fn rate(&self) -> f64 {
        self.rate.unwrap_or(1.0)
    }

    pub(crate) fn counts(&self) -> RigCounts {
        *lock(&self.shared.counts)
    }

    /// True if nothing will come any more.
    pub(crate) fn is_over(&self) -> Result<bool> {
        if !self.shared.ended.load(Ordering::Acquire) {
            return Ok(false);
        }
        match lock(&self.shared.failed).take() {
            Some(error) => Err(error),
            // It may have sent a block before it ended.
            None => Ok(self.full.is_empty()),
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the source's thread has been printed by it.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes blocks from the source until it ends or is told to stop.
fn hear(
    mut rig: Box<dyn Rig>,
    shared: &SourceState,
    mut full: HeapProd<Block>,
    mut empty: HeapCons<Block>,
    mut answers: HeapProd<Probe>,
) {
    let mut taker = None;
    let mut block = Block::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let taken = rig.take(&mut block, LOOK);
        // Messages that cannot be read count, even if no block comes.
        *lock(&shared.counts) = rig.counts();
        if let Some(answer) = rig.probe() {
            // One that has no room tells little: others have.
            let _ = answers.try_push(answer);
        }
        match taken {
            Ok(Arrival::Nothing) => {}
            Ok(Arrival::Ended) => break,
            Err(error) => {
                *lock(&shared.failed) = Some(error);
                break;
            }
            Ok(Arrival::Block) => {
                let mut signal = lock(&shared.signal);
                if signal.is_none() {
                    *signal = rig.signal();
                }
                drop(signal);
                let next = empty.try_pop().unwrap_or_default();
                let mut waiting = std::mem::replace(&mut block, next);
                // A loop that is behind makes the source wait: what its system then drops, it counts.
                while let Err(back) = full.try_push(waiting) {
                    waiting = back;
                    if shared.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    std::thread::sleep(BEHIND);
                }
                if taker.is_none() {
                    taker.clone_from(&lock(&shared.taker));
                }
                if let Some(taker) = &taker {
                    taker.unpark();
                }
            }
        }
    }
    shared.ended.store(true, Ordering::Release);
}
