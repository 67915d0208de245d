//! Sources and sinks on threads of their own, so that the loop never waits for them.

use betz_base::lock::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use betz_base::ring::ring;
use betz_base::{Error, ErrorKind, Result};
use ringbuf::traits::{Consumer, Producer};
use ringbuf::{HeapCons, HeapProd};

use super::{Counts, Estimate, Frame, Reception, Sink, Source, Tally};

/// Largest number of steps that wait between the threads.
const ROOM: usize = 1024;
/// Interval at which a thread checks whether it is asked to end.
const LOOK: Duration = Duration::from_millis(50);

/// State that both threads share.
#[derive(Default)]
struct WorkerState {
    stop: AtomicBool,
    ended: AtomicBool,
    failed: Mutex<Option<Error>>,
    /// Losses between the threads, in addition to the counts of the source or sink.
    tally: Tally,
    inner: Mutex<Counts>,
    /// Thread that takes the steps, to be woken.
    taker: OnceLock<Thread>,
}

impl WorkerState {
    fn publish(&self, counts: Counts) {
        *lock(&self.inner) = counts;
    }

    fn counts(&self) -> Counts {
        let inner = *lock(&self.inner);
        inner.plus(self.tally.counts())
    }

    fn fail(&self, error: Error) {
        *lock(&self.failed) = Some(error);
    }

    fn failure(&self) -> Result<()> {
        let mut failed = lock(&self.failed);
        failed.take().map_or(Ok(()), Err)
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    (std::thread::Builder::new().name(name.into()))
        .spawn(body)
        .map_err(|e| Error::new(ErrorKind::Io, format!("starting the thread {name}: {e}")))
}

/// A source on a thread of its own. Call [`take`](Source::take) from one thread only. Steps that do not fit into the
/// queue are counted as dropped and skipped.
pub struct SourceThread {
    full: HeapCons<Frame>,
    empty: HeapProd<Frame>,
    shared: Arc<WorkerState>,
    thread: Option<JoinHandle<()>>,
}

impl SourceThread {
    /// Starts `source` for a model of `channels` channels.
    ///
    /// # Errors
    /// An error if the system has no thread or no memory for it.
    pub fn start(mut source: Box<dyn Source>, channels: usize) -> Result<Self> {
        let (mut send, full) = ring("steps of a source", ROOM)?;
        let (mut empty, mut take) = ring("empty steps of a source", ROOM)?;
        for _ in 1..ROOM {
            let _ = empty.try_push(Frame::new(channels));
        }
        let shared = Arc::new(WorkerState::default());
        let mine = Arc::clone(&shared);
        let thread = spawn("betz-source", move || {
            let (mut spare, mut missed) = (Frame::new(channels), 0);
            while !mine.stop.load(Ordering::Relaxed) {
                match source.take(&mut spare, LOOK) {
                    Ok(Reception::Step) => match take.try_pop() {
                        Some(free) => {
                            spare.skipped += std::mem::take(&mut missed);
                            let _ = send.try_push(std::mem::replace(&mut spare, free));
                        }
                        None => {
                            missed += 1 + spare.skipped;
                            mine.tally.dropped.add(1);
                        }
                    },
                    Ok(Reception::Nothing) => {}
                    Ok(Reception::Ended) => break,
                    Err(error) => {
                        mine.fail(error);
                        break;
                    }
                }
                mine.publish(source.counts());
                wake(&mine);
            }
            mine.publish(source.counts());
            mine.ended.store(true, Ordering::Release);
            wake(&mine);
        })?;
        Ok(Self {
            full,
            empty,
            shared,
            thread: Some(thread),
        })
    }
}

fn wake(shared: &WorkerState) {
    if let Some(thread) = shared.taker.get() {
        thread.unpark();
    }
}

impl Source for SourceThread {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        self.shared.taker.get_or_init(std::thread::current);
        let until = Instant::now() + patience;
        loop {
            // Read this before the ring, so that steps from before the end are still taken.
            let ended = self.shared.ended.load(Ordering::Acquire);
            if let Some(next) = self.full.try_pop() {
                let _ = self.empty.try_push(std::mem::replace(frame, next));
                return Ok(Reception::Step);
            }
            if ended {
                self.shared.failure()?;
                return Ok(Reception::Ended);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Reception::Nothing);
            }
            std::thread::park_timeout(left);
        }
    }

    fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

impl Drop for SourceThread {
    fn drop(&mut self) {
        end(&self.shared, &mut self.thread);
    }
}

/// An estimate that owns its values.
struct OwnedEstimate {
    sequence: u64,
    device: u64,
    sent: Option<i64>,
    host_ns: i64,
    status: u32,
    values: Vec<f32>,
}

/// A sink on a thread of its own. Outputs that do not fit into the queue are counted as unsent.
pub struct SinkThread {
    full: HeapProd<OwnedEstimate>,
    empty: HeapCons<OwnedEstimate>,
    shared: Arc<WorkerState>,
    thread: Option<JoinHandle<()>>,
}

impl SinkThread {
    /// Starts `sink` for a model of `outputs` outputs.
    ///
    /// # Errors
    /// An error if the system has no thread or no memory for it.
    pub fn start(mut sink: Box<dyn Sink>, outputs: usize) -> Result<Self> {
        let (full, mut take) = ring::<OwnedEstimate>("outputs of a session", ROOM)?;
        let (mut give_back, empty) = ring("empty outputs of a session", ROOM)?;
        for _ in 0..ROOM {
            let _ = give_back.try_push(OwnedEstimate {
                sequence: 0,
                device: 0,
                sent: None,
                host_ns: 0,
                status: 0,
                values: Vec::with_capacity(outputs),
            });
        }
        let shared = Arc::new(WorkerState::default());
        let mine = Arc::clone(&shared);
        let thread = spawn("betz-sink", move || {
            loop {
                // Read this before the ring, so that outputs from before the end are still sent.
                let stop = mine.stop.load(Ordering::Acquire);
                while let Some(owned) = take.try_pop() {
                    let given = sink.give(&Estimate {
                        sequence: owned.sequence,
                        device: owned.device,
                        sent: owned.sent,
                        host_ns: owned.host_ns,
                        status: owned.status,
                        values: &owned.values,
                    });
                    let _ = give_back.try_push(owned);
                    if let Err(error) = given {
                        mine.fail(error);
                        mine.ended.store(true, Ordering::Release);
                        return;
                    }
                    mine.publish(sink.counts());
                }
                if stop {
                    return;
                }
                sink.attend();
                mine.publish(sink.counts());
                std::thread::park_timeout(LOOK);
            }
        })?;
        Ok(Self {
            full,
            empty,
            shared,
            thread: Some(thread),
        })
    }
}

impl Sink for SinkThread {
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()> {
        if self.shared.ended.load(Ordering::Acquire) {
            self.shared.failure()?;
        }
        let Some(mut owned) = self.empty.try_pop() else {
            self.shared.tally.unsent.add(1);
            return Ok(());
        };
        (owned.sequence, owned.device) = (decoded.sequence, decoded.device);
        (owned.sent, owned.host_ns) = (decoded.sent, decoded.host_ns);
        owned.status = decoded.status;
        owned.values.clear();
        owned.values.extend_from_slice(decoded.values);
        let _ = self.full.try_push(owned);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        Ok(())
    }

    /// Counts of the outputs sent so far; outputs that still wait are in no count.
    fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

impl Drop for SinkThread {
    fn drop(&mut self) {
        end(&self.shared, &mut self.thread);
    }
}

fn end(shared: &WorkerState, thread: &mut Option<JoinHandle<()>>) {
    shared.stop.store(true, Ordering::Release);
    if let Some(thread) = thread.take() {
        thread.thread().unpark();
        // The thread has already reported a panic.
        let _ = thread.join();
    }
}
