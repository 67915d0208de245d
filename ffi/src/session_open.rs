//! Opening and closing sessions, on the heap or in a block of the host's memory.

use std::ffi::c_void;
use std::sync::Arc;

use betz::model::Decoder;

use crate::allocator::expect_room;
use crate::barrier;
use crate::block::{self, Block};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::known::for_steps;
use crate::model::betz_model;
use crate::session::betz_session;
use crate::session_config::{Options, betz_session_config};
use crate::shortage::Shortage;
use crate::status::betz_status;

/// Opens a session that runs `model`, with its filters at rest. This call makes all allocations of the session. The
/// caller frees it with `betz_session_close`; the model may be freed before the session.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `model` is NULL or a live model; `config` is NULL or a configuration whose arrays are as its
/// fields say; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_open(
    model: *const betz_model,
    config: *const betz_session_config,
    out: *mut *mut betz_session,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(model, |model| {
            let decoder = model.decoder();
            expect_room_for(decoder)?;
            let options = Options::read(config, decoder)?;
            let out = cast::out(out, "out")?;
            let known = for_steps(Arc::clone(decoder))?;
            out.write(open(decoder, &known, &options)?);
            Ok(())
        })
    }
}

/// Writes the number of bytes that `betz_session_open_in` needs for this model and configuration to `*size`: whole
/// pages of 4,096 bytes. It is the same for each call with one library.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes (and frees it).
///
/// # Safety
/// `model` is NULL or a live model; `config` is NULL or a configuration whose arrays are as its
/// fields say; `size` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_size(
    model: *const betz_model,
    config: *const betz_session_config,
    size: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(model, |model| {
            let options = Options::read(config, model.decoder())?;
            let size = cast::out(size, "size")?;
            let known = for_steps(Arc::clone(model.decoder()))?;
            size.write(measure(model.decoder(), &known, &options)?);
            Ok(())
        })
    }
}

/// Opens a session whose memory is the `size` bytes at `block`, otherwise like `betz_session_open`: one block with all
/// that its steps touch, such as static memory, locked memory or a huge page.
///
/// `block` is aligned to 4,096 bytes, and `size` is at least that of `betz_session_size` (`BETZ_ERROR_MISMATCH`). The
/// block belongs to the session until `betz_session_close` returns. At most 64 sessions have blocks at once
/// (`BETZ_ERROR_INVALID_ARGUMENT`). A step reads and writes the block, its arguments and its stack.
/// `benches/record/step_cost.md` lists bytes, stack, instructions and cache lines. Models that are swapped in later, checkpoints that are requested, and listeners
/// take memory from the heap.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes (what it needs to measure the session; frees it).
///
/// # Safety
/// `model` is NULL or a live model; `config` is NULL or a configuration whose arrays are as its
/// fields say; `block` is NULL or points to `size` writable bytes that nothing else uses; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_open_in(
    model: *const betz_model,
    config: *const betz_session_config,
    block: *mut c_void,
    size: usize,
    out: *mut *mut betz_session,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(model, |model| {
            let decoder = model.decoder();
            let options = Options::read(config, decoder)?;
            let out = cast::out(out, "out")?;
            cast::check(block, "block")?;
            if !(block as usize).is_multiple_of(block::ALIGNMENT) {
                return Err(Failure::Argument {
                    name: "block",
                    expected: "a block aligned to 4,096 bytes",
                });
            }
            // Copies of the decoder do not belong into the block: steps do not touch them.
            let known = for_steps(Arc::clone(decoder))?;
            // This also makes what the process makes once: it must not lie in the block.
            let expected = measure(decoder, &known, &options)?;
            if size < expected {
                return Err(Failure::Length {
                    name: "size",
                    expected,
                    got: size,
                });
            }
            let block = Block::register(block.cast(), size)?;
            let session = block.fill(
                || open(decoder, &known, &options),
                |session| cast::drop_handle(session),
            )?;
            out.write(session);
            Ok(())
        })
    }
}

/// Closes and frees a session; does nothing for NULL. A poisoned session can be closed.
///
/// Thread-safe: no (nobody may use the session any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `session` is NULL or a live session, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_session_close(session: *mut betz_session) {
    barrier::run_free(|| {
        let block = Block::of(session);
        // SAFETY: the caller's promise.
        unsafe { cast::drop_handle(session) };
        drop(block);
    });
}

fn open(decoder: &Decoder, known: &Arc<Decoder>, options: &Options) -> Result<*mut betz_session> {
    cast::into_handle(betz_session::open(decoder, known, options)?)
}

/// The size of the block that a session needs.
fn measure(decoder: &Decoder, known: &Arc<Decoder>, options: &Options) -> Result<usize> {
    expect_room_for(decoder)?;
    let once = || {
        let (session, size) = block::measure(|| open(decoder, known, options))?;
        // SAFETY: made above, and nobody else has it.
        unsafe { cast::drop_handle(session) };
        Ok(size)
    };
    // The first time may include what the process makes once.
    once()?;
    once()
}

/// Fails if there is too little memory for a session of `decoder`.
fn expect_room_for(decoder: &Decoder) -> Result<()> {
    Shortage::begin();
    expect_room(4 * decoder.weights().len() * size_of::<f64>(), "session")
}
