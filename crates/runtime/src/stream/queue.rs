//! Spikes from an acquisition thread to the decoding thread: bounded, never blocking.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

use super::ledger::Ledger;
use super::session::Form;
use super::{Input, Session, StepRefused, StepStatus};
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

/// Treatment of a spike that reaches the session after its tick. It is counted either way.
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
    ahead_seconds: f64,
    /// Drops and cleared spikes that the session has been told of.
    losses_reported: u64,
    /// Spikes that were cleared, ever.
    cleared: u64,
    origin: Instant,
}

/// Configuration of a queue. The default holds 65,536 spikes, takes late ones and leaves out what lies more than
/// 10 s ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueConfig {
    /// Spikes that it holds at most, 1 to 2²⁴; 20 bytes each.
    pub capacity: usize,
    /// Treatment of late spikes.
    pub late_spikes: LateSpikes,
    /// Largest distance, in seconds, of a spike's tick ahead of the tick that is decoded; one further ahead is a
    /// fault of the acquisition's, counted as `future` and left out, so that it holds up nothing.
    pub ahead_seconds: f64,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            capacity: 1 << 16,
            late_spikes: LateSpikes::Take,
            ahead_seconds: 10.0,
        }
    }
}

/// Treatment of a session whose queue goes on elsewhere ([`SpikeConsumer::resync`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resync {
    /// Its filters decay by the ticks that passed, exactly.
    Decay,
    /// It starts from rest.
    Reset,
}

/// A queue for one producing and one consuming thread that holds at most `capacity` spikes (20
/// bytes each) and is otherwise as [`QueueConfig`]'s default. Decoding begins at tick 0; see [`SpikeConsumer::set_tick`]. Allocates all that it
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
    spike_queue_with(QueueConfig {
        capacity,
        late_spikes,
        ..QueueConfig::default()
    })
}

/// A queue made as `config` says. Decoding begins at tick 0. Allocates all that it ever will.
///
/// # Errors
/// As [`spike_queue`], and
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a bound that is not
/// above 0 s.
///
/// ```
/// use betz_runtime::stream::{QueueConfig, Spike, spike_queue_with};
///
/// let (mut producer, consumer) = spike_queue_with(QueueConfig {
///     capacity: 1024,
///     ..QueueConfig::default()
/// })?;
/// assert_eq!(producer.push(&[Spike { tick: 0, channel: 3 }]), 1);
/// producer.mark(0); // all of tick 0 is there
/// assert!(consumer.is_ready());
/// # Ok::<(), betz_base::Error>(())
/// ```
pub fn spike_queue_with(config: QueueConfig) -> Result<(SpikeProducer, SpikeConsumer)> {
    let QueueConfig {
        capacity,
        late_spikes,
        ahead_seconds,
    } = config;
    if ahead_seconds.is_nan() || ahead_seconds <= 0.0 {
        return Err(Error::argument(format!(
            "spike queue: expected spikes to be allowed some time ahead, more than 0 s, got {ahead_seconds}"
        )));
    }
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
        ahead_seconds,
        losses_reported: 0,
        cleared: 0,
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
    /// here. To be called every tick, also when nothing fired. A tick that goes back by up to 1,000 only
    /// renews the time; further back, the clock was set back, and is believed.
    pub fn mark(&mut self, tick: i64) {
        self.ledger.mark(tick, nanoseconds_since(self.origin));
    }

    /// Spikes that found no room, ever. Exact.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// True while the consumer exists.
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
        self.try_step(session, out).map_err(StepRefused::into_error)
    }

    /// As [`step`](Self::step), with a refusal that allocates nothing either.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn try_step(
        &mut self,
        session: &mut Session,
        out: &mut [f32],
    ) -> std::result::Result<(), StepRefused> {
        let (mut late, mut future, mut left_out) = (0, 0, 0);
        let ahead = self.ahead_seconds / session.model().step_seconds();
        let farthest = self.tick.saturating_add(ahead as i64);
        self.channels.clear();
        // Never more than it has room for, even while the producer goes on filling the ring.
        while self.channels.len() < self.channels.capacity() && left_out < self.channels.capacity()
        {
            let Some(spike) = self.ring.try_peek().copied() else {
                break;
            };
            if spike.tick > self.tick {
                if spike.tick <= farthest {
                    break;
                }
                self.ring.skip(1);
                future += 1;
                left_out += 1;
                continue;
            }
            self.ring.skip(1);
            if spike.tick < self.tick {
                late += 1;
                if self.late_spikes == LateSpikes::Discard {
                    left_out += 1;
                    continue;
                }
            }
            self.channels.push(spike.channel);
        }
        let entry = self.ledger.read();
        let losses = entry.dropped + self.cleared;
        session.count_losses(losses - self.losses_reported, late, future);
        self.losses_reported = losses;
        session.set_clock(self.tick);
        // An acquisition that has not begun is as silent as one that has stopped.
        let stale = entry.marked.is_none_or(|marked| marked < self.tick);
        let status = StepStatus::STALE.when(stale);
        match session.try_step_as(&Input::Spikes(&self.channels), status, out) {
            Ok(()) => {
                self.tick = self.tick.saturating_add(1);
                Ok(())
            }
            Err(error) => {
                session.count_losses(self.channels.len() as u64, 0, 0);
                Err(error)
            }
        }
    }

    /// Brings code and data of [`step`](Self::step) into the caches and changes nothing, as [`Session::warm`] does for
    /// the session.
    pub fn warm(&mut self, session: &mut Session) {
        self.channels.clear();
        self.channels
            .extend((self.ring.try_peek()).map(|spike| spike.channel));
        self.channels.clear();
        std::hint::black_box((&self.channels, self.ledger.read().dropped));
        session.warm_for(Form::Spikes);
    }

    /// The tick that [`step`](Self::step) decodes next.
    pub fn tick(&self) -> i64 {
        self.tick
    }

    /// Sets the tick to decode next: where the acquisition's clock stands at the start. After a pause,
    /// [`resync`](Self::resync) takes the session along.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for the last tick there is,
    /// after which no other comes.
    pub fn set_tick(&mut self, tick: i64) -> Result<()> {
        if tick == i64::MAX {
            return Err(Error::argument(format!(
                "tick to decode next: expected one below {}, got it",
                i64::MAX
            )));
        }
        self.tick = tick;
        Ok(())
    }

    /// Goes on at `tick` after a pause, and takes the session along: its filters decay by the ticks
    /// between, or start from rest. A tick that lies back resets in either case. Spikes in line stay;
    /// those before `tick` are late ([`clear`](Self::clear) leaves them out).
    ///
    /// # Errors
    /// As [`set_tick`](Self::set_tick).
    pub fn resync(&mut self, session: &mut Session, tick: i64, how: Resync) -> Result<()> {
        let passed = tick.checked_sub(self.tick).map(u64::try_from);
        self.set_tick(tick)?;
        match (how, passed) {
            (Resync::Decay, Some(Ok(ticks))) => session.skip(ticks),
            _ => session.reset(),
        }
        Ok(())
    }

    /// Leaves out all spikes that are in line now, and says how many; the session counts them as dropped
    /// with its next step.
    pub fn clear(&mut self) -> usize {
        let cleared = self.ring.skip(self.ring.occupied_len());
        self.cleared += cleared as u64;
        cleared
    }

    /// Ticks by which the producer's newest mark is ahead of the last tick decoded: 0 when all that is
    /// known is decoded, negative when steps have run ahead of the data; `None` before the first mark.
    pub fn lag(&self) -> Option<i64> {
        let marked = self.ledger.read().marked?;
        Some(marked.saturating_sub(self.tick).saturating_add(1))
    }

    /// True if the producer has marked the tick to be decoded next: all its spikes are here.
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

    /// True while the producer exists.
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
