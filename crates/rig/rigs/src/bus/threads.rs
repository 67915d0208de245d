//! Sources and sinks on threads of their own, so that the loop never waits for them.

use std::time::{Duration, Instant};

use betz_base::Result;
use betz_base::ring::ring;
use ringbuf::traits::{Consumer, Producer};
use ringbuf::{HeapCons, HeapProd};

use super::{Counts, Estimate, Frame, Reception, Sink, Source};
use crate::handoff::Handoff;

/// Largest number of steps that wait between the threads.
const ROOM: usize = 1024;
/// Interval at which a thread checks whether it is asked to end.
const LOOK: Duration = Duration::from_millis(50);

/// A source on a thread of its own. Call [`take`](Source::take) from one thread only. Steps that do not fit into the
/// queue are counted as dropped and skipped.
pub struct SourceThread {
    full: HeapCons<Frame>,
    empty: HeapProd<Frame>,
    thread: Handoff<Counts>,
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
        let thread = Handoff::start("betz-source", move |worker| {
            let (mut spare, mut missed, mut dropped) = (Frame::new(channels), 0, 0);
            let publish = |source: &dyn Source, dropped: u64| {
                let mut counts = source.counts();
                counts.dropped += dropped;
                worker.publish(counts);
            };
            while !worker.is_stopping() {
                match source.take(&mut spare, LOOK) {
                    Ok(Reception::Step) => match take.try_pop() {
                        Some(free) => {
                            spare.skipped += std::mem::take(&mut missed);
                            let _ = send.try_push(std::mem::replace(&mut spare, free));
                        }
                        None => {
                            missed += 1 + spare.skipped;
                            dropped += 1;
                        }
                    },
                    Ok(Reception::Nothing) => {}
                    Ok(Reception::Ended) => break,
                    Err(error) => {
                        worker.fail(error);
                        break;
                    }
                }
                publish(&*source, dropped);
                worker.wake();
            }
            publish(&*source, dropped);
        })?;
        Ok(Self {
            full,
            empty,
            thread,
        })
    }
}

impl Source for SourceThread {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        self.thread.announce();
        let until = Instant::now() + patience;
        loop {
            // Read this before the ring, so that steps from before the end are still taken.
            let ended = self.thread.has_ended();
            if let Some(next) = self.full.try_pop() {
                let _ = self.empty.try_push(std::mem::replace(frame, next));
                return Ok(Reception::Step);
            }
            if ended {
                self.thread.failure()?;
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
        self.thread.counts()
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
    /// Outputs that did not fit.
    unsent: u64,
    thread: Handoff<Counts>,
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
        let thread = Handoff::start("betz-sink", move |worker| {
            loop {
                // Read this before the ring, so that outputs from before the end are still sent.
                let stop = worker.is_stopping();
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
                        worker.fail(error);
                        return;
                    }
                    worker.publish(sink.counts());
                }
                if stop {
                    return;
                }
                sink.attend();
                worker.publish(sink.counts());
                std::thread::park_timeout(LOOK);
            }
        })?;
        Ok(Self {
            full,
            empty,
            unsent: 0,
            thread,
        })
    }
}

impl Sink for SinkThread {
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()> {
        if self.thread.has_ended() {
            self.thread.failure()?;
        }
        let Some(mut owned) = self.empty.try_pop() else {
            self.unsent += 1;
            return Ok(());
        };
        (owned.sequence, owned.device) = (decoded.sequence, decoded.device);
        (owned.sent, owned.host_ns) = (decoded.sent, decoded.host_ns);
        owned.status = decoded.status;
        owned.values.clear();
        owned.values.extend_from_slice(decoded.values);
        let _ = self.full.try_push(owned);
        self.thread.wake();
        Ok(())
    }

    /// Counts of the outputs sent so far; outputs that still wait are in no count.
    fn counts(&self) -> Counts {
        let mut counts = self.thread.counts();
        counts.unsent += self.unsent;
        counts
    }
}
