//! Panics on demand, for the tests of the barrier. Not in the header, not in a packaged library.

use crate::barrier;
use crate::miner::betz_miner;
use crate::model::betz_model;
use crate::queue::betz_queue;
use crate::session::betz_session;
#[cfg(feature = "sort")]
use crate::sorter::betz_sorter;
use crate::status::betz_status;

/// Panics in a call on a model.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_test_panic_model(model: *const betz_model) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { barrier::run_on(model, |_| panic!("provoked in a model")) }
}

/// Panics in a call on a model, with a destructor on the way that panics, too: nothing can go on from there.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_test_panic_twice(model: *const betz_model) -> betz_status {
    struct Second(u32);
    impl Drop for Second {
        fn drop(&mut self) {
            assert_eq!(self.0, 0, "provoked in a destructor");
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(model, |_| {
            let _second = Second(2);
            panic!("provoked before a destructor")
        })
    }
}

/// Panics in a call on a session.
///
/// # Safety
/// `session` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_test_panic_session(session: *mut betz_session) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { barrier::run_on(session, |_| panic!("provoked in a session")) }
}

/// Panics in a call on a queue and a session.
///
/// # Safety
/// `queue` is NULL or a live queue; `session` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_test_panic_queue(
    queue: *mut betz_queue,
    session: *mut betz_session,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(queue, |_| {
            let (_session, _guard) = barrier::second(session)?;
            panic!("provoked in a queue's step")
        })
    }
}

/// Panics in a call on a sorter.
///
/// # Safety
/// `sorter` is NULL or a live sorter.
#[cfg(feature = "sort")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_test_panic_sorter(sorter: *mut betz_sorter) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { barrier::run_on(sorter, |_| panic!("provoked in a sorter")) }
}

/// Panics in a call on a miner.
///
/// # Safety
/// `miner` is NULL or a live miner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_test_panic_miner(miner: *mut betz_miner) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe { barrier::run_on(miner, |_| panic!("provoked in a miner")) }
}
