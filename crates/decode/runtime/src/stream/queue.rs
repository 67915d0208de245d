//! A bounded queue that carries spikes from an acquisition thread to the decoding thread, without blocking.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::time::{Duration, Instant};

use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

use super::clock::{ClockCopy, SharedClock};
use super::ledger::Ledger;
use super::session::{Form, StepSamples};
use super::{Input, SampleClock, Session, StepRefused, StepStatus};
use betz_base::error::{Error, Result};
use betz_base::ring::ring;

/// One spike: its tick and its channel. Its layout is that of C's `betz_spike`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spike {
    /// Tick of the acquisition's clock.
    pub tick: i64,
    /// Channel of the model.
    pub channel: u32,
}

/// One spike with the sample of the amplifier at which it occurred. Its layout is that of C's `betz_sampled_spike`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledSpike {
    /// Sample, counted by the amplifier.
    pub sample: i64,
    /// Channel of the model.
    pub channel: u32,
}

/// A spike in the ring.
#[derive(Debug, Clone, Copy)]
struct Entry {
    tick: i64,
    channel: u32,
    /// The lowest 32 bits of the spike's sample: the clock gives the rest.
    stamp: u32,
}

/// Treatment of a spike that reaches the session after its tick. It is counted either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LateSpikes {
    /// Decode the spike with the current tick.
    #[default]
    Take,
    /// Discard the spike.
    Discard,
}

/// The acquisition thread's end of a queue. No function here blocks, allocates or calls the system (on Linux the time
/// comes from the vDSO).
pub struct SpikeProducer {
    ring: HeapProd<Entry>,
    ledger: Arc<Ledger>,
    shared_clock: Arc<SharedClock>,
    clock: Option<SampleClock>,
    dropped: u64,
    origin: Instant,
}

/// The decoding thread's end of a queue, with the tick that is to be decoded next.
pub struct SpikeConsumer {
    ring: HeapCons<Entry>,
    ledger: Arc<Ledger>,
    shared_clock: Arc<SharedClock>,
    clock: ClockCopy,
    /// Channels of this tick's spikes; has room for all the ring may hold.
    channels: Vec<u32>,
    tick: i64,
    late_spikes: LateSpikes,
    ahead_seconds: f64,
    /// Dropped and cleared spikes that the session has counted already.
    losses_reported: u64,
    /// Flag of the last step's data.
    last_data: StepStatus,
    /// Total number of cleared spikes.
    cleared: u64,
    origin: Instant,
}

/// Configuration of a queue. The default holds 65,536 spikes, takes late ones and discards spikes more than 10 s ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueConfig {
    /// Capacity in spikes, 1 to 2²⁴; each takes 20 bytes.
    pub capacity: usize,
    /// Treatment of late spikes.
    pub late_spikes: LateSpikes,
    /// Largest time, in seconds, that a spike's tick may lie ahead of the tick that is decoded. Spikes further ahead
    /// point to a fault of the acquisition: they are counted as `future` and discarded, so that they do not block the
    /// queue.
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

/// Policy for the session's filters when its queue continues at another tick ([`SpikeConsumer::resync`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resync {
    /// Let the filters decay exactly by the ticks that passed.
    Decay,
    /// Reset the filters to rest.
    Reset,
}

/// Opens a queue for one producing and one consuming thread that holds at most `capacity` spikes (20 bytes each), with
/// the other defaults of [`QueueConfig`]. Decoding begins at tick 0; see [`SpikeConsumer::set_tick`]. Allocates all
/// memory that the queue will need.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a capacity of 0 or more than 2²⁴;
/// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory) if the system has too little memory.
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

/// Opens a queue with the configuration `config`. Decoding begins at tick 0. Allocates all memory that the queue will
/// need, and writes to each of its pages, so that the system hands none over later.
///
/// # Errors
/// The errors of [`spike_queue`], and [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) unless
/// `ahead_seconds` is above 0.
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
    let (mut send, mut take) = ring("spike queue", capacity)?;
    // Not zeros: the allocator may have pages of zeros that do not exist yet.
    let full = Entry {
        tick: i64::MAX,
        channel: u32::MAX,
        stamp: u32::MAX,
    };
    send.push_iter(core::iter::repeat_n(full, capacity));
    take.clear();
    let mut channels = betz_base::memory::filled("spike queue", u32::MAX, capacity)?;
    channels.clear();
    let ledger = Arc::new(Ledger::new());
    let shared_clock = Arc::new(SharedClock::new());
    let origin = Instant::now();
    let producer = SpikeProducer {
        ring: send,
        ledger: Arc::clone(&ledger),
        shared_clock: Arc::clone(&shared_clock),
        clock: None,
        dropped: 0,
        origin,
    };
    let consumer = SpikeConsumer {
        ring: take,
        ledger,
        shared_clock,
        clock: ClockCopy::default(),
        channels,
        tick: 0,
        late_spikes,
        ahead_seconds,
        losses_reported: 0,
        last_data: StepStatus::STALE,
        cleared: 0,
        origin,
    };
    Ok((producer, consumer))
}

impl SpikeProducer {
    /// Puts `spikes` into the queue, in ascending order of their ticks, and returns the number that entered. If the
    /// queue fills up, the remaining spikes are dropped and counted.
    ///
    /// A tick that goes back is no error here: its spike may reach the session late, and is then counted as late.
    pub fn push(&mut self, spikes: &[Spike]) -> usize {
        let clock = self.clock;
        let mut last = (i64::MIN, 0);
        let taken = self.ring.push_iter(spikes.iter().map(|spike| {
            if let Some(clock) = &clock
                && last.0 != spike.tick
            {
                last = (spike.tick, clock.first_sample(spike.tick) as u32);
            }
            Entry {
                tick: spike.tick,
                channel: spike.channel,
                stamp: last.1,
            }
        }));
        self.count_dropped(spikes.len() - taken);
        taken
    }

    fn count_dropped(&mut self, spikes: usize) {
        if spikes > 0 {
            self.dropped += spikes as u64;
            self.ledger.drop_spikes(spikes as u64);
        }
    }

    /// Sets the clock by which [`push_samples`](Self::push_samples) and [`mark_sample`](Self::mark_sample) convert
    /// samples to ticks. It may be set at any time: when the amplifier turns out to be faster or slower than its
    /// nominal rate, and when it has restarted and counts from 0 again. Spikes that are in the queue keep their ticks.
    pub fn set_clock(&mut self, clock: SampleClock) {
        self.clock = Some(clock);
        self.shared_clock.set(clock);
    }

    /// The clock, if one is set.
    pub fn clock(&self) -> Option<SampleClock> {
        self.clock
    }

    /// Puts spikes that carry samples of the amplifier into the queue, otherwise like [`push`](Self::push). The clock
    /// gives their ticks. Their samples travel with them to the estimate ([`Session::estimate_time`]).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) unless a clock is set.
    pub fn push_samples(&mut self, spikes: &[SampledSpike]) -> Result<usize> {
        let clock = self.expect_clock()?;
        let taken = self.ring.push_iter(spikes.iter().map(|spike| Entry {
            tick: clock.tick_of(spike.sample),
            channel: spike.channel,
            stamp: spike.sample as u32,
        }));
        self.count_dropped(spikes.len() - taken);
        Ok(taken)
    }

    /// Declares that every spike up to and including `sample` has been pushed: [marks](Self::mark) the last tick that
    /// is complete with this sample.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) unless a clock is set.
    pub fn mark_sample(&mut self, sample: i64) -> Result<()> {
        let next = self.expect_clock()?.tick_of(sample.saturating_add(1));
        self.mark(next.saturating_sub(1));
        Ok(())
    }

    fn expect_clock(&self) -> Result<SampleClock> {
        self.clock.ok_or_else(|| {
            Error::argument(
                "spike queue: expected a clock before spikes with samples, got none; set one first",
            )
        })
    }

    /// Declares that every spike up to and including `tick` has been pushed. The age of the data counts from this call.
    /// Call it every tick, also if nothing fired. A tick that goes back by up to 1,000 only renews the time; a tick
    /// further back means that the clock was set back, and is accepted.
    pub fn mark(&mut self, tick: i64) {
        self.ledger.mark(tick, nanoseconds_since(self.origin));
    }

    /// Total number of spikes dropped because the queue was full. Exact.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// True while the consumer exists.
    pub fn is_connected(&self) -> bool {
        self.ring.read_is_held()
    }
}

impl SpikeConsumer {
    /// Decodes one tick: gives the session all spikes up to [`tick`](Self::tick), then moves on to the next tick. Never
    /// waits; spikes of later ticks stay in the queue.
    ///
    /// Spikes of earlier ticks are late; spikes dropped by the producer and late ones are counted
    /// in the session's [`Stats`](super::Stats). No allocation, lock or system call.
    ///
    /// # Errors
    /// The errors of [`Session::step_spikes`]. The queue then stays at this tick; the tick's spikes that had arrived
    /// are discarded and counted as dropped.
    pub fn step(&mut self, session: &mut Session, out: &mut [f32]) -> Result<()> {
        self.try_step(session, out).map_err(StepRefused::into_error)
    }

    /// The same as [`step`](Self::step), but a refusal allocates nothing.
    ///
    /// # Errors
    /// The same as for [`step`](Self::step).
    pub fn try_step(
        &mut self,
        session: &mut Session,
        out: &mut [f32],
    ) -> core::result::Result<(), StepRefused> {
        let (mut late, mut future, mut left_out, mut capped) = (0, 0, 0, 0);
        let mut newest = None;
        let most = session.max_spikes();
        let ahead = self.ahead_seconds / session.model().step_seconds();
        let farthest = self.tick.saturating_add(ahead as i64);
        self.channels.clear();
        // Never more spikes than there is room for, even if the producer fills the ring meanwhile.
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
            if self.channels.len() >= most {
                capped += 1;
                left_out += 1;
                continue;
            }
            self.channels.push(spike.channel);
            newest = newer(newest, spike.stamp);
        }
        let entry = self.ledger.read();
        let losses = entry.dropped + self.cleared;
        session.count_losses(losses - self.losses_reported, late, future);
        self.losses_reported = losses;
        session.count_capped(capped);
        session.set_clock(self.tick);
        self.shared_clock.refresh(&mut self.clock);
        session.set_sampled(StepSamples {
            tick: self.tick,
            clock: self.clock.clock,
            newest,
        });
        // An acquisition that has not begun is as silent as one that has stopped.
        let stale = entry.marked.is_none_or(|marked| marked < self.tick);
        let status = StepStatus::STALE.when(stale);
        self.last_data = status;
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

    /// Gives another session the tick that [`step`](Self::step) has just decoded: the same spikes, clock and flag of stale
    /// data. Several models then share one queue. Call it directly after a step that succeeded, once per further session.
    /// Lost and late spikes are counted by the first session alone. No allocation, lock or system call.
    ///
    /// # Errors
    /// The errors of [`Session::step_spikes`]. The queue has moved on: this session misses the tick.
    pub fn step_again(&mut self, session: &mut Session, out: &mut [f32]) -> Result<()> {
        session.set_clock(self.tick.saturating_sub(1));
        (session.try_step_as(&Input::Spikes(&self.channels), self.last_data, out))
            .map_err(StepRefused::into_error)
    }

    /// Brings code and data of [`step`](Self::step) into the caches and changes nothing, as [`Session::warm`] does for
    /// the session.
    pub fn warm(&mut self, session: &mut Session) {
        self.channels.clear();
        self.channels
            .extend((self.ring.try_peek()).map(|spike| spike.channel));
        self.channels.clear();
        core::hint::black_box((&self.channels, self.ledger.read().dropped));
        session.warm_for(Form::Spikes);
    }

    /// The tick that [`step`](Self::step) decodes next.
    pub fn tick(&self) -> i64 {
        self.tick
    }

    /// Sets the tick to decode next, for example the acquisition's clock at the start. After a pause use
    /// [`resync`](Self::resync), which also updates the session.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for the largest tick, which has no
    /// successor.
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

    /// Continues at `tick` after a pause and updates the session: its filters decay by the ticks in between, or are
    /// reset. An earlier tick resets them in either case. Spikes in the queue stay; those before `tick` are late
    /// ([`clear`](Self::clear) discards them).
    ///
    /// # Errors
    /// The same as for [`set_tick`](Self::set_tick).
    pub fn resync(&mut self, session: &mut Session, tick: i64, how: Resync) -> Result<()> {
        let passed = tick.checked_sub(self.tick).map(u64::try_from);
        self.set_tick(tick)?;
        match (how, passed) {
            (Resync::Decay, Some(Ok(ticks))) => session.skip(ticks),
            _ => session.reset(),
        }
        Ok(())
    }

    /// Discards all spikes that are in the queue now and returns their number. The session counts them as dropped in
    /// its next step.
    pub fn clear(&mut self) -> usize {
        let cleared = self.ring.skip(self.ring.occupied_len());
        self.cleared += cleared as u64;
        cleared
    }

    /// Number of ticks from the last decoded tick to the newest mark: 0 if all marked ticks are decoded, negative if
    /// steps have run ahead of the data; `None` before the first mark.
    pub fn lag(&self) -> Option<i64> {
        let marked = self.ledger.read().marked?;
        Some(marked.saturating_sub(self.tick).saturating_add(1))
    }

    /// True if the producer has marked the next tick, so that all its spikes have arrived.
    pub fn is_ready(&self) -> bool {
        (self.ledger.read().marked).is_some_and(|marked| marked >= self.tick)
    }

    /// The newest tick that the producer has marked; `None` before the first mark.
    pub fn newest_tick(&self) -> Option<i64> {
        self.ledger.read().marked
    }

    /// Time since the producer last marked a tick; `None` before the first mark. It grows when the acquisition has
    /// stopped.
    pub fn newest_age(&self) -> Option<Duration> {
        let entry = self.ledger.read();
        entry.marked?;
        let age = nanoseconds_since(self.origin).saturating_sub(entry.marked_at);
        Some(Duration::from_nanos(age))
    }

    /// Number of spikes that the producer has dropped so far. Spikes dropped before a mark become visible with that
    /// mark.
    pub fn dropped(&self) -> u64 {
        self.ledger.read().dropped
    }

    /// Number of spikes in the queue now.
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

/// The newer of two stamps, which lie less than 2³¹ samples apart.
fn newer(newest: Option<u32>, stamp: u32) -> Option<u32> {
    match newest {
        Some(newest) if (stamp.wrapping_sub(newest) as i32) < 0 => Some(newest),
        _ => Some(stamp),
    }
}

fn nanoseconds_since(origin: Instant) -> u64 {
    origin.elapsed().as_nanos() as u64
}
