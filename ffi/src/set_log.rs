//! Setting the host's log.

use crate::barrier;
use crate::grow;
use crate::log::{self, betz_log};
use crate::status::betz_status;

/// Makes Betz report to `log->write`, for the rest of the process. Without a log, a panic in a thread of Betz goes to
/// stderr, and one in a call is only that call's status and message. Fails with `BETZ_ERROR_INVALID_ARGUMENT` for an
/// unknown level and on a second call.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `log` is NULL or a live struct whose function does what it says for the rest of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_set_log(log: *const betz_log) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        log::set(unsafe { grow::read(log, "log")? })
    })
}
