//! A bounded queue that carries spikes from an acquisition thread to the thread that steps, without blocking.

use std::mem::{MaybeUninit, offset_of};

use betz::stream::{
    LateSpikes, QueueConfig, Resync, Spike, SpikeConsumer, SpikeProducer, spike_queue_with,
};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::enum_bits::enum_bits;
use crate::exclusive::{Exclusive, ExclusiveGuard};
use crate::failure::Failure;
use crate::grow::{self, Config, grows};
use crate::session::{betz_session, warm_code};
use crate::status::betz_status;

/// One spike: its tick and its channel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct betz_spike {
    /// Time of the spike, in ticks of the model's step.
    pub tick: i64,
    /// Channel of the model.
    pub channel: u32,
}

const _: () = assert!(
    size_of::<betz_spike>() == size_of::<Spike>()
        && align_of::<betz_spike>() == align_of::<Spike>()
        && offset_of!(betz_spike, tick) == offset_of!(Spike, tick)
        && offset_of!(betz_spike, channel) == offset_of!(Spike, channel)
);

/// A bounded queue of spikes in front of a session, for one producing thread (acquisition: `betz_queue_push`,
/// `betz_queue_mark`) and one consuming thread (decoding: all other calls). A second call on one end during a call is
/// refused (`BETZ_ERROR_BUSY`). Only opening and closing block, allocate or enter the system.
pub struct betz_queue {
    /// Used by the producing thread; a call from a second thread is refused.
    producer: Exclusive<SpikeProducer>,
    /// Used by the consuming thread; a call from a second thread is refused.
    consumer: Exclusive<SpikeConsumer>,
    poison: Poison,
}

impl Handle for betz_queue {
    const NAME: &'static str = "queue";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_queue {
    /// Exclusive access to the producing end until the guard is dropped. Fails while another call uses it.
    #[inline]
    pub(crate) fn producer(&self) -> Result<ExclusiveGuard<'_, SpikeProducer>, Failure> {
        self.producer.enter("queue's producing end")
    }

    /// Exclusive access to the consuming end until the guard is dropped. Fails while another call uses it.
    #[inline]
    fn consumer(&self) -> Result<ExclusiveGuard<'_, SpikeConsumer>, Failure> {
        self.consumer.enter("queue's consuming end")
    }
}

/// Policy for spikes that reach the session after their tick. They are counted in both cases (`betz_stats.late`). 32
/// bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_late_spikes {
    /// Decode the spike with the current tick.
    BETZ_LATE_SPIKES_TAKE = 0,
    /// Discard the spike.
    BETZ_LATE_SPIKES_DISCARD = 1,
}

grows! {
    /// State of a queue as the consuming thread sees it.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_queue_state {
        /// The tick that `betz_queue_step` decodes next.
        pub tick: i64,
        /// The newest tick that the producer has marked; INT64_MIN before the first mark.
        pub newest_tick: i64,
        /// Age of the newest data: the time since the producer last marked a tick, in microseconds. It grows when the
        /// acquisition has stopped. INFINITY before the first mark.
        pub newest_age_us: f64,
        /// Total number of spikes dropped because the queue was full. Spikes dropped before a mark become visible with
        /// that mark.
        pub dropped: u64,
        /// Number of spikes in the queue now.
        pub waiting: u64,
        /// Number of ticks from the last decoded tick to the newest mark: 0 if all marked ticks are decoded, negative
        /// if steps have run ahead of the data; INT64_MIN before the first mark.
        pub lag: i64,
    }
}

/// Policy for the session's filters when its queue continues at another tick. 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_resync {
    /// Let the filters decay exactly by the ticks that passed; reset them if the new tick is earlier.
    BETZ_RESYNC_DECAY = 0,
    /// Reset the filters to rest.
    BETZ_RESYNC_RESET = 1,
}

grows! {
    /// Configuration of a queue. Fill it with `betz_queue_config_default`, then change what you need.
    #[repr(C)]
    pub struct betz_queue_config {
        /// Size of this struct in bytes in the caller's header; the default function sets it.
        pub struct_size: u32,
        /// Policy for late spikes. Default: take them.
        pub late_spikes: MaybeUninit<betz_late_spikes>,
        /// Capacity in spikes, 1 to 2^24; each takes 20 bytes. Default: 65,536.
        pub capacity: usize,
        /// Largest time that a spike's tick may lie ahead of the tick that is decoded, in seconds, above 0. Spikes
        /// further ahead point to a fault of the acquisition: they are counted (`betz_stats.future`) and discarded, so
        /// that they do not block the queue. Default: 10.
        pub ahead_seconds: f64,
    }
}

impl Config for betz_queue_config {
    fn defaults() -> Self {
        let config = QueueConfig::default();
        Self {
            struct_size: size_of::<Self>() as u32,
            late_spikes: MaybeUninit::new(betz_late_spikes::BETZ_LATE_SPIKES_TAKE),
            capacity: config.capacity,
            ahead_seconds: config.ahead_seconds,
        }
    }
}

/// Fills a queue's configuration of `size` bytes (pass `sizeof`) with the defaults. Writes nothing beyond `size` bytes.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_config_default(
    config: *mut betz_queue_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}

/// Opens a queue with the configuration `config`, otherwise like `betz_queue_open`. Tick 0 is decoded first.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `config` is NULL or a configuration; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_open_with(
    config: *const betz_queue_config,
    out: *mut *mut betz_queue,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (config, out) = unsafe { (grow::read(config, "config")?, cast::out(out, "out")?) };
        out.write(open(QueueConfig {
            capacity: config.capacity,
            late_spikes: late_spikes(&config.late_spikes, "config->late_spikes")?,
            ahead_seconds: config.ahead_seconds,
        })?);
        Ok(())
    })
}

fn late_spikes(
    given: &MaybeUninit<betz_late_spikes>,
    name: &'static str,
) -> Result<LateSpikes, Failure> {
    match enum_bits(given) {
        0 => Ok(LateSpikes::Take),
        1 => Ok(LateSpikes::Discard),
        _ => Err(Failure::Argument {
            name,
            expected: "a value of betz_late_spikes",
        }),
    }
}

fn open(config: QueueConfig) -> Result<*mut betz_queue, Failure> {
    let (producer, consumer) = spike_queue_with(config)?;
    cast::into_handle(betz_queue {
        producer: Exclusive::new(producer),
        consumer: Exclusive::new(consumer),
        poison: Poison::default(),
    })
}

/// Opens a queue that holds at most `capacity` spikes (1 to 2^24; 20 bytes each). Tick 0 is decoded first. This call
/// makes all allocations of the queue; it fails with `BETZ_ERROR_OUT_OF_MEMORY` if the system has too little memory.
/// The caller frees the queue with `betz_queue_close`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_open(
    capacity: usize,
    late_spikes: MaybeUninit<betz_late_spikes>,
    out: *mut *mut betz_queue,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { cast::out(out, "out")? };
        out.write(open(QueueConfig {
            capacity,
            late_spikes: self::late_spikes(&late_spikes, "late_spikes")?,
            ..QueueConfig::default()
        })?);
        Ok(())
    })
}

/// Puts `n` spikes into the queue, in ascending order of their ticks. If the queue fills up, the remaining spikes are
/// dropped and counted. Writes the number of spikes that entered the queue to `*pushed`.
///
/// A tick that goes back is no error: its spike may reach the session late, and is then counted as late.
///
/// Thread-safe: the one producing thread. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue in which no other thread produces; `spikes` points to `n`
/// spikes; `pushed` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_push(
    queue: *mut betz_queue,
    spikes: *const betz_spike,
    n: usize,
    pushed: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise; `betz_spike` and `Spike` have one layout, as asserted above.
    unsafe {
        barrier::run_on(queue, |queue| {
            let spikes = cast::slice(spikes.cast::<Spike>(), n, "spikes")?;
            let pushed = cast::out(pushed, "pushed")?;
            pushed.write(queue.producer()?.push(spikes));
            Ok(())
        })
    }
}

/// Declares that every spike up to and including `tick` has been pushed. The age of the data counts from this call.
/// Call it every tick, also if nothing fired. Steps whose tick is not marked are flagged (`BETZ_STEP_STALE`), also
/// before the first mark.
///
/// Thread-safe: the one producing thread. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue in which no other thread produces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_mark(queue: *mut betz_queue, tick: i64) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(queue, |queue| {
            queue.producer()?.mark(tick);
            Ok(())
        })
    }
}

/// Decodes one tick: gives `session` all spikes up to the queue's tick, writes one estimate per output to `out`, and
/// moves on to the next tick. Never waits; spikes of later ticks stay in the queue.
///
/// Dropped spikes and late spikes are counted in the session's statistics. Fails like `betz_session_step_spikes`. After
/// a failure the queue stays at this tick; the tick's spikes that had arrived are discarded and counted as dropped.
///
/// Thread-safe: the one consuming thread, which owns the session. Realtime-safe: yes.
/// Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue that no other thread consumes; `session` is NULL or a live
/// session that no other thread is using; `out` points to `outputs` writable values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_step(
    queue: *mut betz_queue,
    session: *mut betz_session,
    out: *mut f32,
    outputs: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(queue, |queue| {
            let (session, _guard) = barrier::second(session)?;
            let out = cast::slice_mut(out, outputs, "out")?;
            Ok(queue.consumer()?.try_step(&mut *session.session()?, out)?)
        })
    }
}

/// Brings the code and the data of `betz_queue_step` into the caches and changes nothing, like `betz_session_warm`. Use
/// it for a session that steps through a queue.
///
/// Thread-safe: the one consuming thread, which owns the session. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue that no other thread consumes; `session` is NULL or a live session that
/// no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_warm(
    queue: *mut betz_queue,
    session: *mut betz_session,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(queue, |queue| {
            let (session, _guard) = barrier::second(session)?;
            queue.consumer()?.warm(&mut *session.session()?);
            warm_code([betz_queue_step as *const u8]);
            Ok(())
        })
    }
}

/// Sets the tick to decode next, for example the acquisition's clock at the start. INT64_MAX is refused
/// (`BETZ_ERROR_INVALID_ARGUMENT`). After a pause use `betz_queue_resync`, which also updates the session.
///
/// Thread-safe: the one consuming thread. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue that no other thread consumes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_set_tick(queue: *mut betz_queue, tick: i64) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { barrier::run_on(queue, |queue| Ok(queue.consumer()?.set_tick(tick)?)) }
}

/// Continues at `tick` after a pause and updates `session`: its filters decay by the ticks in between, at the cost of
/// `betz_session_skip`, or are reset. Spikes in the queue stay; those before `tick` are late (`betz_queue_clear`
/// discards them). INT64_MAX is refused (`BETZ_ERROR_INVALID_ARGUMENT`).
///
/// Thread-safe: the one consuming thread, which owns the session. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue that no other thread consumes; `session` is NULL or a live session that
/// no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_resync(
    queue: *mut betz_queue,
    session: *mut betz_session,
    tick: i64,
    how: MaybeUninit<betz_resync>,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(queue, |queue| {
            let (session, _guard) = barrier::second(session)?;
            let how = match enum_bits(&how) {
                0 => Resync::Decay,
                1 => Resync::Reset,
                _ => {
                    return Err(Failure::Argument {
                        name: "how",
                        expected: "a value of betz_resync",
                    });
                }
            };
            Ok(queue
                .consumer()?
                .resync(&mut *session.session()?, tick, how)?)
        })
    }
}

/// Discards all spikes that are in the queue now and writes their number to `*cleared`. The session counts them as
/// dropped in its next step.
///
/// Thread-safe: the one consuming thread. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue that no other thread consumes; `cleared` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_clear(
    queue: *mut betz_queue,
    cleared: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(queue, |queue| {
            let cleared = cast::out(cleared, "cleared")?;
            cleared.write(queue.consumer()?.clear());
            Ok(())
        })
    }
}

/// Writes the state of the queue to `*out`, whose size in bytes is `size` (pass `sizeof`): the age of the newest data,
/// dropped and waiting spikes. All spikes of the next tick have arrived if `newest_tick >= tick`.
///
/// Thread-safe: the one consuming thread. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue that no other thread consumes; `out` is NULL or writable for
/// `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_get_state(
    queue: *const betz_queue,
    out: *mut betz_queue_state,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(queue, |queue| {
            grow::check_place(out, size, "out")?;
            let consumer = queue.consumer()?;
            let age = consumer.newest_age();
            let state = betz_queue_state {
                tick: consumer.tick(),
                newest_tick: consumer.newest_tick().unwrap_or(i64::MIN),
                newest_age_us: age.map_or(f64::INFINITY, |age| age.as_secs_f64() * 1e6),
                dropped: consumer.dropped(),
                waiting: consumer.waiting() as u64,
                lag: consumer.lag().unwrap_or(i64::MIN),
            };
            grow::write(out, size, "out", state)
        })
    }
}

/// Closes and frees a queue; does nothing for NULL. Neither thread may use it afterwards.
///
/// Thread-safe: no. Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `queue` is NULL or a live queue, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_queue_close(queue: *mut betz_queue) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(queue) });
}
