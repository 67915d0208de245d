//! Classes of a session: probabilities and events.

use betz::stream::ClassEvent;

use crate::barrier;
use crate::cast;
use crate::session::betz_session;
use crate::status::betz_status;

/// Events that are moved at a time.
const CHUNK: usize = 32;

/// Onset or end of a class.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct betz_event {
    /// Tick of the step, on the session's clock.
    pub tick: i64,
    /// Index of the class.
    pub class_index: u32,
    /// 1 for an onset, 0 for the end.
    pub on: u32,
    /// Probability of the class in that step; 0 if a reset, a skip or a held step ended it.
    pub probability: f32,
    /// Always 0.
    pub reserved: u32,
}

impl From<ClassEvent> for betz_event {
    fn from(event: ClassEvent) -> Self {
        Self {
            tick: event.tick,
            class_index: event.class,
            on: event.on.into(),
            probability: event.probability,
            reserved: 0,
        }
    }
}

/// Writes the number of classes whose probabilities a step computes to `*count`: those of a model of kind `classes`,
/// or of a gated one; 0 for other models.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `count` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_class_count(
    session: *const betz_session,
    count: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let count = cast::out(count, "count")?;
            count.write(handle.session()?.model().classes());
            Ok(())
        })
    }
}

/// Writes the probability of each class in the last step to `out`: 0 before the first step. They are those of the
/// running model, before a clamp, slew limit or hold changes outputs. Fails with `BETZ_ERROR_INSUFFICIENT_DATA` if the
/// model has no classes (`betz train --labels`), and with `BETZ_ERROR_MISMATCH` if `n` is not the number of classes.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `out` is NULL or writable for `n` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_classes(
    session: *const betz_session,
    out: *mut f32,
    n: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session, |handle| {
            let out = cast::slice_mut(out, n, "out")?;
            Ok(handle.session()?.try_classes(out)?)
        })
    }
}

/// Moves at most `capacity` events of the classes to `events`, the oldest first, and writes their number to `*count`;
/// 0 for a model without classes. A session keeps 256 events until they are read; then the oldest are lost
/// (`betz_stats.events_lost`).
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session that no other thread is using; `events` is NULL or writable for `capacity`
/// values; `count` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_events(
    session: *mut betz_session,
    events: *mut betz_event,
    capacity: usize,
    count: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(session.cast_const(), |handle| {
            let count = cast::out(count, "count")?;
            let events = cast::slice_mut(events, capacity, "events")?;
            let mut session = handle.session()?;
            let mut moved = 0;
            for room in events.chunks_mut(CHUNK) {
                let mut chunk = [ClassEvent::default(); CHUNK];
                let length = session.events(&mut chunk[..room.len()]);
                for (to, event) in room.iter_mut().zip(&chunk[..length]) {
                    *to = (*event).into();
                }
                moved += length;
                if length < room.len() {
                    break;
                }
            }
            count.write(moved);
            Ok(())
        })
    }
}
