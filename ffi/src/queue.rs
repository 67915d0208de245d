//! Spikes from an acquisition thread to the thread that steps: bounded, never blocking.

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

/// One spike: when, in ticks of the model's step, and where.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct betz_spike {
    /// Tick.
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

/// A bounded queue of spikes in front of a session, for one producing thread (acquisition:
/// `betz_queue_push`, `betz_queue_mark`) and one consuming thread (decoding: all else). A second call on one
/// end beside the first is refused (`BETZ_ERROR_BUSY`). No call but open and close blocks, allocates or enters
/// the system.
pub struct betz_queue {
    /// Used by the producing thread; a second one is refused.
    producer: Exclusive<SpikeProducer>,
    /// Used by the consuming thread; a second one is refused.
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
    /// The producing end, until the guard is dropped; refused while another call uses it.
    #[inline]
    fn producer(&self) -> Result<ExclusiveGuard<'_, SpikeProducer>, Failure> {
        self.producer.enter("queue's producing end")
    }

    /// The consuming end, until the guard is dropped; refused while another call uses it.
    #[inline]
    fn consumer(&self) -> Result<ExclusiveGuard<'_, SpikeConsumer>, Failure> {
        self.consumer.enter("queue's consuming end")
    }
}

/// What becomes of a spike that reaches the session after its tick. It is counted either way
/// (`betz_stats.late`). 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_late_spikes {
    /// It is taken in the tick that is decoded now.
    BETZ_LATE_SPIKES_TAKE = 0,
    /// It is left out.
    BETZ_LATE_SPIKES_DISCARD = 1,
}

grows! {
    /// How a queue stands, seen from the consuming thread.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_queue_state {
        /// The tick that `betz_queue_step` decodes next.
        pub tick: i64,
        /// The newest tick that the producer has marked; INT64_MIN before the first.
        pub newest_tick: i64,
        /// Time since the producer marked a tick, in microseconds: the age of the newest data. Grows
        /// when the acquisition has stopped. INFINITY before the first mark.
        pub newest_age_us: f64,
        /// Spikes that found no room, ever. Those dropped before a mark are seen with it.
        pub dropped: u64,
        /// Spikes in line now.
        pub waiting: u64,
        /// Ticks by which the newest mark is ahead of the last tick decoded: 0 when all that is known is
        /// decoded, negative when steps have run ahead of the data; INT64_MIN before the first mark.
        pub lag: i64,
    }
}

/// What becomes of a session whose queue goes on elsewhere. 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_resync {
    /// Its filters decay by the ticks that passed, exactly; a tick that lies back resets them.
    BETZ_RESYNC_DECAY = 0,
    /// It starts from rest.
    BETZ_RESYNC_RESET = 1,
}

grows! {
    /// How a queue is made. Fill it with `betz_queue_config_default`, then change what you need.
    #[repr(C)]
    pub struct betz_queue_config {
        /// Size of this struct in bytes, as the caller was compiled: set by the default.
        pub struct_size: u32,
        /// What becomes of late spikes. Default: they are taken.
        pub late_spikes: MaybeUninit<betz_late_spikes>,
        /// Spikes that it holds at most, 1 to 2^24; 20 bytes each. Default: 65,536.
        pub capacity: usize,
        /// How far ahead of the tick that is decoded a spike's tick may lie, in seconds, above 0. What lies
        /// further is a fault of the acquisition's: it is counted (`betz_stats.future`) and left out, so that it
        /// holds up nothing. Default: 10.
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

/// Fills a queue's configuration of `size` bytes (give `sizeof`) with the defaults. Nothing is written
/// behind `size`.
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

/// Opens a queue as `config` says, with `tick` 0 to be decoded first. Otherwise as `betz_queue_open`.
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

/// Opens a queue that holds at most `capacity` spikes (1 to 2^24; 20 bytes each), with `tick` 0 to
/// be decoded first. All allocation is here; `BETZ_ERROR_OUT_OF_MEMORY` when the system has no memory
/// for it. The caller frees it with `betz_queue_close`.
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

/// Puts `n` spikes in line, ticks ascending. Those that find no room, always the last ones, are
/// dropped and counted; `*pushed` becomes the number of those that did.
///
/// A tick that goes back is no error: its spike may reach the session late, and is counted then.
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
    // SAFETY: the caller's promise; `betz_spike` and `Spike` are one layout, as asserted above.
    unsafe {
        barrier::run_on(queue, |queue| {
            let spikes = cast::slice(spikes.cast::<Spike>(), n, "spikes")?;
            let pushed = cast::out(pushed, "pushed")?;
            pushed.write(queue.producer()?.push(spikes));
            Ok(())
        })
    }
}

/// Says that every spike up to and including `tick` has been pushed: the data's age counts from
/// here. Call it every tick, also when nothing fired. Steps whose tick is not marked are flagged
/// (`BETZ_STEP_STALE`), also before the first mark.
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

/// Decodes one tick: gives `session` all spikes up to the queue's tick, then moves on to the next
/// tick. The estimates go to `out`, one an output. Never waits; spikes of later ticks stay in line.
///
/// Spikes that the producer dropped and spikes that came late are counted in the session's
/// statistics. Fails as `betz_session_step_spikes`; the tick is then to be decoded again, and its
/// spikes up to now are counted as dropped.
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

/// Brings the code and the data of `betz_queue_step` into the caches and changes nothing: as `betz_session_warm`, for
/// a session that steps through a queue.
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

/// Sets the tick to decode next: where the acquisition's clock stands at the start. INT64_MAX is refused
/// (`BETZ_ERROR_INVALID_ARGUMENT`). After a pause `betz_queue_resync` takes the session along.
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

/// Goes on at `tick` after a pause and takes `session` along: its filters decay by the ticks between, at the cost
/// of `betz_session_skip`, or start from rest. Spikes in line stay; those before `tick` are late (`betz_queue_clear` leaves them out).
/// INT64_MAX is refused (`BETZ_ERROR_INVALID_ARGUMENT`).
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

/// Leaves out all spikes that are in line now, and their number goes to `*cleared`; the session counts them
/// as dropped with its next step.
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

/// How the queue stands, to `*out`, whose size in bytes is `size` (give `sizeof`): the age of the newest
/// data, drops, what waits. The next tick's spikes are all here when `newest_tick >= tick`.
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

/// Closes and frees a queue; NULL is nothing to do. Neither thread may use it any more.
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
