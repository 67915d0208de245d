//! The loop's end of a source: it takes blocks from a thread that hears the source, or from the source itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use betz_base::lock::lock;
use betz_base::ring::ring;
use betz_base::{Error, Result};
use betz_rigs::handoff::{Handoff, Worker};
use betz_rigs::rig::{Arrival, Block, LineEdge, Probe, Rig, RigCounts, Signal, Stamp};
use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

use crate::scheduling::ThreadPlace;

/// Blocks that may wait between the source's thread and the loop: a second of the usual ones.
const ROOM: usize = 1024;
/// Answers about the device's time that may wait.
const PROBES: usize = 64;
/// Changes of digital lines that may wait.
const EDGES: usize = 1 << 14;
/// Interval at which the threads look whether they are to end.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// Time that the source waits for a loop that is behind.
const BEHIND: Duration = Duration::from_millis(1);

/// The loop's end of a source.
pub(crate) struct Ear {
    reader: Reader,
    rate: Option<f64>,
}

enum Reader {
    Thread(ThreadReader),
    Inline(InlineReader),
}

/// A source that is read in the loop, and its next block.
struct InlineReader {
    rig: Box<dyn Rig>,
    next: Option<Block>,
    /// A block whose room is used again.
    spare: Block,
    edges: VecDeque<LineEdge>,
    ended: bool,
    failed: Option<Error>,
}

/// State beside the blocks and counts that the source's thread tells the loop.
#[derive(Default)]
struct SourceState {
    /// Changes of digital lines for which there was no room.
    edges_lost: AtomicU64,
    signal: Mutex<Option<Signal>>,
}

/// The thread that hears the source, and the blocks on their way to the loop and back.
struct ThreadReader {
    shared: Arc<SourceState>,
    full: HeapCons<Block>,
    empty: HeapProd<Block>,
    probes: HeapCons<Probe>,
    edges: HeapCons<LineEdge>,
    thread: Handoff<RigCounts>,
}

impl Ear {
    /// Starts a thread that hears `rig`, at a place that was [checked](crate::scheduling::check).
    ///
    /// # Errors
    /// `Io` if the system cannot start it.
    pub(crate) fn start(rig: Box<dyn Rig>, place: ThreadPlace) -> Result<Self> {
        Ok(Self {
            reader: Reader::Thread(ThreadReader::start(rig, place)?),
            rate: None,
        })
    }

    /// Reads `rig` in the loop: [`Ear::listen`] waits for its blocks.
    pub(crate) fn inline(rig: Box<dyn Rig>) -> Self {
        Self {
            reader: Reader::Inline(InlineReader {
                rig,
                next: None,
                spare: Block::new(),
                edges: VecDeque::new(),
                ended: false,
                failed: None,
            }),
            rate: None,
        }
    }

    pub(crate) fn peek(&mut self) -> Option<&Block> {
        match &mut self.reader {
            Reader::Thread(thread) => thread.full.try_peek(),
            Reader::Inline(inline) => inline.next.as_ref(),
        }
    }

    /// The newest block that waits; `None` for a source that is read in the loop, whose blocks do not wait here.
    pub(crate) fn newest(&self) -> Option<&Block> {
        match &self.reader {
            Reader::Thread(thread) => thread.full.last(),
            Reader::Inline(_) => None,
        }
    }

    pub(crate) fn take(&mut self) -> Option<Block> {
        match &mut self.reader {
            Reader::Thread(thread) => thread.full.try_pop(),
            Reader::Inline(inline) => inline.next.take(),
        }
    }

    pub(crate) fn give_back(&mut self, block: Block) {
        match &mut self.reader {
            Reader::Thread(thread) => {
                // A full ring means that there are blocks enough.
                let _ = thread.empty.try_push(block);
            }
            Reader::Inline(inline) => inline.spare = block,
        }
    }

    /// Waits at most `patience` for a block; false if there was nothing to wait for, and none came.
    pub(crate) fn listen(&mut self, patience: Duration) -> bool {
        match &mut self.reader {
            Reader::Thread(_) => {
                if !patience.is_zero() {
                    std::thread::park_timeout(patience);
                }
            }
            Reader::Inline(inline) => {
                inline.read(patience);
                if inline.next.is_some() || inline.ended {
                    return true;
                }
            }
        }
        !patience.is_zero()
    }

    /// The next answer about the device's time.
    pub(crate) fn take_probe(&mut self) -> Option<Probe> {
        match &mut self.reader {
            Reader::Thread(thread) => thread.probes.try_pop(),
            Reader::Inline(inline) => inline.rig.probe(),
        }
    }

    /// The next change of a digital line.
    pub(crate) fn take_edge(&mut self) -> Option<LineEdge> {
        match &mut self.reader {
            Reader::Thread(thread) => thread.edges.try_pop(),
            Reader::Inline(inline) => inline.edges.pop_front(),
        }
    }

    /// Changes of digital lines for which there was no room.
    pub(crate) fn edges_lost(&self) -> u64 {
        match &self.reader {
            Reader::Thread(thread) => thread.shared.edges_lost.load(Ordering::Relaxed),
            Reader::Inline(_) => 0,
        }
    }

    /// The sender's own number and time of the block that was taken last, if the source is read in the loop and has any.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        match &self.reader {
            Reader::Thread(_) => None,
            Reader::Inline(inline) => inline.rig.stamp(),
        }
    }

    /// Names this thread as the one that is to be woken.
    pub(crate) fn announce(&self) {
        if let Reader::Thread(thread) = &self.reader {
            thread.thread.announce();
        }
    }

    pub(crate) fn signal(&mut self) -> Option<Signal> {
        let signal = match &self.reader {
            Reader::Thread(thread) => lock(&thread.shared.signal).clone(),
            Reader::Inline(inline) => inline.rig.signal(),
        };
        self.rate = signal.as_ref().map(|s| s.rate);
        signal
    }

    pub(crate) fn rate(&self) -> f64 {
        self.rate.unwrap_or(1.0)
    }

    pub(crate) fn counts(&self) -> RigCounts {
        match &self.reader {
            Reader::Thread(thread) => thread.thread.counts(),
            Reader::Inline(inline) => inline.rig.counts(),
        }
    }

    /// True if nothing will come any more.
    ///
    /// # Errors
    /// The error that ended the source, once.
    pub(crate) fn is_over(&mut self) -> Result<bool> {
        match &mut self.reader {
            Reader::Thread(thread) => {
                // Read before the ring: it may have sent a block before it ended.
                if !thread.thread.has_ended() || !thread.full.is_empty() {
                    return Ok(false);
                }
                thread.thread.failure()?;
                Ok(true)
            }
            Reader::Inline(inline) => match inline.failed.take() {
                Some(error) => Err(error),
                None => Ok(inline.ended && inline.next.is_none()),
            },
        }
    }
}

impl InlineReader {
    /// Takes the next block, unless there is one already.
    fn read(&mut self, patience: Duration) {
        if self.next.is_some() || self.ended {
            return;
        }
        let taken = self.rig.take(&mut self.spare, patience);
        let mut edges = Vec::new();
        self.rig.take_edges(&mut edges);
        self.edges.extend(edges);
        match taken {
            Ok(Arrival::Block) => self.next = Some(std::mem::take(&mut self.spare)),
            Ok(Arrival::Nothing) => {}
            Ok(Arrival::Ended) => self.ended = true,
            Err(error) => (self.ended, self.failed) = (true, Some(error)),
        }
    }
}

impl ThreadReader {
    fn start(rig: Box<dyn Rig>, place: ThreadPlace) -> Result<Self> {
        let shared = Arc::new(SourceState::default());
        let (send, full) = ring("blocks", ROOM)?;
        let (empty, back) = ring("blocks", ROOM)?;
        let (answers, probes) = ring("probes", PROBES)?;
        let (changes, edges) = ring("edges", EDGES)?;
        let thread = Handoff::start("betz-source", {
            let shared = Arc::clone(&shared);
            move |worker| {
                // A right that was taken away since the check costs priority, and not the session.
                let _ = place.apply();
                hear(rig, worker, &shared, (send, back), answers, changes);
            }
        })?;
        Ok(Self {
            shared,
            full,
            empty,
            probes,
            edges,
            thread,
        })
    }
}

/// Takes blocks from the source until it ends or is told to stop.
fn hear(
    mut rig: Box<dyn Rig>,
    worker: &Worker<RigCounts>,
    shared: &SourceState,
    (mut full, mut empty): (HeapProd<Block>, HeapCons<Block>),
    mut answers: HeapProd<Probe>,
    mut changes: HeapProd<LineEdge>,
) {
    let mut edges = Vec::new();
    let mut block = Block::new();
    while !worker.is_stopping() {
        let taken = rig.take(&mut block, LOOK);
        // Messages that cannot be read count, even if no block comes.
        worker.publish(rig.counts());
        if let Some(answer) = rig.probe() {
            // One that has no room tells little: others have.
            let _ = answers.try_push(answer);
        }
        // Before their block, so that they are there when it is decoded.
        rig.take_edges(&mut edges);
        for edge in edges.drain(..) {
            if changes.try_push(edge).is_err() {
                shared.edges_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        match taken {
            Ok(Arrival::Nothing) => {}
            Ok(Arrival::Ended) => break,
            Err(error) => {
                worker.fail(error);
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
                    if worker.is_stopping() {
                        break;
                    }
                    std::thread::sleep(BEHIND);
                }
                worker.wake();
            }
        }
    }
}
