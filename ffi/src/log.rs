//! The host's log: panics and, if wanted, every failed call.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_void};
use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::last_error;
use crate::status::betz_status;

/// Level of a log: panics in calls, in threads of Betz, and those that end the process.
pub const BETZ_LOG_PANICS: u32 = 1;
/// Level of a log: also every call that fails, with the message that `betz_last_error` gives.
pub const BETZ_LOG_FAILURES: u32 = 2;

grows! {
    /// Where Betz reports what happens in it.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct betz_log {
        /// Size of this struct in bytes in the caller's header.
        pub struct_size: u32,
        /// The most detailed level to report: `BETZ_LOG_PANICS` or `BETZ_LOG_FAILURES`.
        pub level: u32,
        /// Pointer passed to `write` unchanged.
        pub user: *mut c_void,
        /// Receives one report: its level, a `betz_status`, and a text (UTF-8, valid during the call). It runs in the
        /// thread that it reports about, from several at once, and must not unwind or call Betz. With
        /// `BETZ_LOG_FAILURES` this includes the thread that steps: do there what a real-time thread may do.
        pub write: Option<
            unsafe extern "C" fn(user: *mut c_void, level: u32, status: i32, text: *const c_char),
        >,
    }
}

impl Config for betz_log {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            level: BETZ_LOG_PANICS,
            ..grow::zeroed()
        }
    }
}

/// The host's log, written once before `STATE` becomes `SET`.
struct Log(UnsafeCell<Option<betz_log>>);

// SAFETY: written before `STATE` becomes `SET`, and only read from then on. The host promises that its function may run
// in any thread.
unsafe impl Sync for Log {}

static LOG: Log = Log(UnsafeCell::new(None));

const UNSET: u8 = 0;
const SETTING: u8 = 1;
const SET: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNSET);

/// Makes `log` the host's log.
pub(crate) fn set(log: betz_log) -> Result<()> {
    if log.write.is_none() {
        return Err(Failure::Null("log->write"));
    }
    if !(BETZ_LOG_PANICS..=BETZ_LOG_FAILURES).contains(&log.level) {
        return Err(Failure::Argument {
            name: "log->level",
            expected: "BETZ_LOG_PANICS or BETZ_LOG_FAILURES",
        });
    }
    (STATE.compare_exchange(UNSET, SETTING, Ordering::AcqRel, Ordering::Relaxed)).map_err(
        |_| Failure::Argument {
            name: "log",
            expected: "to be set once",
        },
    )?;
    // SAFETY: in this state no other thread reads or writes.
    unsafe { *LOG.0.get() = Some(log) };
    STATE.store(SET, Ordering::Release);
    Ok(())
}

/// Reports this thread's last message, if there is a log of that level. Returns true if there is.
pub(crate) fn report(level: u32, status: betz_status) -> bool {
    if STATE.load(Ordering::Acquire) != SET {
        return false;
    }
    // SAFETY: written before the state said so.
    let Some(log) = (unsafe { *LOG.0.get() }) else {
        return false;
    };
    let (Some(write), true) = (log.write, level <= log.level) else {
        return false;
    };
    last_error::with_text(|text| {
        // SAFETY: the host's promise; the text ends in NUL.
        unsafe { write(log.user, level, status as i32, text) }
    });
    true
}

/// For `betz-library`: reports a panic that no call returns. Returns false if there is no log.
#[doc(hidden)]
pub fn report_panic(panic: &dyn Display) -> bool {
    last_error::set(panic);
    report(BETZ_LOG_PANICS, betz_status::BETZ_ERROR_PANIC)
}
