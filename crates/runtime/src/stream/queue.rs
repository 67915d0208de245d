//! Spikes from an acquisition thread to the decoding thread: bounded, never blocking.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

use super::Session;
use super::ledger::Ledger;
use betz_base::error::{Error, Result};
use betz_base::ring::ring;

/// One spike: when, in ticks of the model's step, and where. Laid out as C's `betz_spike`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spike {
    /// Tick of the acquisition's clock.
    pub tick: i64,
    /// Channel of the model.
    pub channel: u32,
}

/// What becomes of a spike that reaches the session after its tick. It is counted either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LateSpikes {
    /// It is taken in the tick that is decoded now.
    #[default]
    Take,
    /// It is left out.
    Discard,
}

/// The acquisition thread's end of a queue. Nothing here blocks, allocates or calls the system
/// (on Linux the time comes from the vDSO).
pub struct SpikeProducer {
    ring: HeapProd<Spike>,
    ledger: Arc<Ledger>,
    dropped: u64,
    origin: Instant,
}

/// The decoding thread's end of a queue, with the tick that is to be decoded next.
pub struct SpikeConsumer {
    ring: HeapCons<Spike>,
    ledger: Arc<Ledger>,
    /// Channels of this tick's spikes; has room for all the ring may hold.
    channels: Vec<u32>,
    tick: i64,
    late_spikes: LateSpikes,
    /// Drops that the session has been told of.
    drops_reported: u64,
    origin: Instant,
}

/// A queue for one producing and one consuming thread that holds at most `capacity` spikes (20
/// bytes each). Decoding begins at tick 0; see [`SpikeConsumer::set_tick`]. Allocates all that it
/// ever will.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a capacity of 0 or more
/// than 2²⁴; [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory) when the system has no memory
/// for it.
pub fn spike_queue(
    capacity: usize,
    late_spikes: LateSpikes,
) -> Result<(SpikeProducer, SpikeConsumer)> {
    let (send, take) = ring("spike queue", capacity)?;
    let mut channels: Vec<u32> = Vec::new();
    channels
        .try_reserve_exact(capacity)
        .map_err(|_| Error::no_memory("spike queue", capacity * size_of::<u32>()))?;
    let ledger = Arc::new(Ledger::new());
    let origin = Instant::now();
    let producer = SpikeProducer {
        ring: send,
        ledger: Arc::clone(&ledger),
        dropped: 0,
        origin,
    };
    let consumer = SpikeConsumer {
        ring: take,
        ledger,
        channels,
        tick: 0,
        late_spikes,
        drops_reported: 0,
        origin,
    };
    Ok((producer, consumer))
}

impl SpikeProducer {
    /// Puts `spikes` in line, ticks ascending, and gives how many found room: the first so many. The
    /// rest is dropped and counted.
    ///
    /// A tick that goes back is no error here; its spike may reach the session late, and is counted
    /// then.
    pub fn push(&mut self, spikes: &[Spike]) -> usize {
        let taken = self.ring.push_slice(spikes);
        let dropped = (spikes.len() - taken) as u64;
        if dropped > 0 {
            self.dropped += dropped;
            self.ledger.drop_spikes(dropped);
        }
        taken
    }

    /// Says that every spike up to and including `tick` has been pushed: the data's age counts from
    /// here. To be called every tick, also when nothing fired.
    pub fn mark(&mut self, tick: i64) {
        self.ledger.mark(tick, nanoseconds_since(self.origin));
    }

    /// Spikes that found no room, ever. Exact.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether the consumer is still there.
    pub fn is_connected(&self) -> bool {
        self.ring.read_is_held()
    }
}

impl SpikeConsumer {
    /// Decodes one tick: gives the session all spikes up to [`tick`](Self::tick), then moves on to
    /// the next. Never waits; spikes of later ticks stay in line.
    ///
    /// Spikes of earlier ticks are late; spikes dropped by the producer and late ones are counted
    /// in the session's [`Stats`](super::Stats). No allocation, lock or system call.
    ///
    /// # Errors
    /// As [`Session::step_spikes`]. The tick is then to be decoded again; its spikes up to now are
    /// gone and counted as dropped.
    pub fn step(&mut self, session: &mut Session, out: &mut [f32]) -> Result<()> {
        let mut late = 0;
        let mut discarded = 0;
        self.channels.clear();
        // Never more than it has room for, even while the producer goes on filling the ring.
        while self.channels.len() < self.channels.capacity() {
            let Some(spike) = self.ring.try_peek().copied() else {
                break;
            };
            if spike.tick > self.tick {
                break;
            }
            self.ring.skip(1);
            if spike.tick < self.tick {
                late += 1;
                if self.late_spikes == LateSpikes::Discard {
                    discarded += 1;
                    if discarded >= self.channels.capacity() {
                        break;
                    }
                    continue;
                }
            }
            self.channels.push(spike.channel);
        }
        let dropped = self.ledger.read().dropped;
        session.count_losses(dropped - self.drops_reported, late);
        self.drops_reported = dropped;
        if let Some(tap) = session.tap() {
            tap.set_tick(self.tick);
        }
        match session.step_spikes(&self.channels, out) {
            Ok(()) => {
                self.tick += 1;
                Ok(())
            }
            Err(error) => {
                session.count_losses(self.channels.len() as u64, 0);
                Err(error)
            }
        }
    }

    /// The tick that [`step`](Self::step) decodes next.
    pub fn tick(&self) -> i64 {
        self.tick
    }

    /// Sets the tick to decode next: where the acquisition's clock stands at the start, or after a
    /// pause.
    pub fn set_tick(&mut self, tick: i64) {
        self.tick = tick;
    }

    /// Whether the producer has marked the tick to be decoded next: all its spikes are here.
    pub fn is_ready(&self) -> bool {
        (self.ledger.read().marked).is_some_and(|marked| marked >= self.tick)
    }

    /// The newest tick that the producer has marked; `None` before the first.
    pub fn newest_tick(&self) -> Option<i64> {
        self.ledger.read().marked
    }

    /// Time since the producer marked a tick; `None` before the first. Grows when the acquisition
    /// has stopped.
    pub fn newest_age(&self) -> Option<Duration> {
        let entry = self.ledger.read();
        entry.marked?;
        let age = nanoseconds_since(self.origin).saturating_sub(entry.marked_at);
        Some(Duration::from_nanos(age))
    }

    /// Spikes the producer has dropped so far. Those counted before a mark are seen with it.
    pub fn dropped(&self) -> u64 {
        self.ledger.read().dropped
    }

    /// Spikes in line now.
    pub fn waiting(&self) -> usize {
        self.ring.occupied_len()
    }

    /// Whether the producer is still there.
    pub fn is_connected(&self) -> bool {
        self.ring.write_is_held()
    }
}

impl fmt::Debug for SpikeProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("SpikeProducer")
            .field("dropped", &self.dropped))
        .finish_non_exhaustive()
    }
}

impl fmt::Debug for SpikeConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("SpikeConsumer").field("tick", &self.tick)).finish_non_exhaustive()
    }
}

fn nanoseconds_since(origin: Instant) -> u64 {
    origin.elapsed().as_nanos() as u64
}
