//! A step of a session, and a call of the host for each.

use std::ffi::c_void;

use crate::grow::grows;
use betz::live::{OnStep, Step};

grows! {
    /// A step of a session.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_live_step {
        /// Number of the step, from 0.
        pub number: u64,
        /// Device time of its end: the first row that is not in it.
        pub end: u64,
        /// Arrival of the block that completed it, in nanoseconds of `CLOCK_MONOTONIC_RAW`; 0 without
        /// data.
        pub host_ns: i64,
        /// Quality of the outputs: `BETZ_STEP_*` flags.
        pub status: u32,
        /// Number of outputs.
        pub outputs: u32,
    }
}

impl betz_live_step {
    pub(crate) fn of(step: &Step<'_>) -> Self {
        Self {
            number: step.number,
            end: step.end,
            host_ns: step.host_ns,
            status: step.status.bits(),
            outputs: step.values.len() as u32,
        }
    }
}

/// Receiver of steps. `values` holds one value per output; both pointers are valid during the call
/// alone. It runs on the session's thread between two steps: it must return soon, must not wait
/// for the session, and must not throw or `longjmp` out of the call, which ends the process.
pub type betz_live_on_step =
    Option<extern "C" fn(user: *mut c_void, step: *const betz_live_step, values: *const f32)>;

/// The first argument of a receiver.
struct User(*mut c_void);

// SAFETY: the caller of `betz_live_open` promises that it may be used from another thread.
unsafe impl Send for User {}

/// A receiver that calls C; none for NULL.
pub(crate) fn receiver(call: betz_live_on_step, user: *mut c_void) -> Option<OnStep> {
    let (call, user) = (call?, User(user));
    Some(Box::new(move |step: &Step<'_>| {
        // The closure holds the whole of it, which may be sent.
        let user: &User = &user;
        let given = betz_live_step::of(step);
        call(user.0, &given, step.values.as_ptr());
    }))
}
