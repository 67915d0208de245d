//! A clusterless place decoder at work: spikes with features in, place out.

use std::cell::UnsafeCell;
use std::ffi::{CString, c_char};
use std::sync::Arc;

use betz::train::place::{ClusterlessPlace, ClusterlessSession};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::model::{c_text, expect_readable, expect_room_for_file, name};
use crate::status::betz_status;

/// A running clusterless place decoder, loaded from a file of `betz train --decoder place --marks`: the spikes of a step
/// with their features in, the place out. A channel is an electrode group, such as a tetrode; the features of a spike
/// are those of training, such as its amplitudes on the wires. One thread at a time may use it.
pub struct betz_clusterless {
    model: Arc<ClusterlessPlace>,
    /// Used only by the thread that steps.
    session: UnsafeCell<ClusterlessSession<Arc<ClusterlessPlace>>>,
    max_spikes: usize,
    channel_names: Vec<CString>,
    output_names: Vec<CString>,
    poison: Poison,
}

impl Handle for betz_clusterless {
    const NAME: &'static str = "clusterless";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_clusterless {
    fn open(model: ClusterlessPlace, max_spikes: usize) -> Result<Self> {
        let model = Arc::new(model);
        Ok(Self {
            session: UnsafeCell::new(ClusterlessSession::open(model.clone())?),
            channel_names: model.channel_names().iter().map(|n| c_text(n)).collect(),
            output_names: model.outputs().iter().map(|o| c_text(&o.name)).collect(),
            model,
            max_spikes: match max_spikes {
                0 => usize::MAX,
                most => most,
            },
            poison: Poison::default(),
        })
    }

    /// # Safety
    /// No other thread uses the decoder, and no other reference from this function is alive.
    #[allow(clippy::mut_from_ref)]
    unsafe fn session(&self) -> &mut ClusterlessSession<Arc<ClusterlessPlace>> {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.session.get() }
    }
}

/// Refuses any length but the expected one.
fn expect_exactly(name: &'static str, expected: usize, got: usize) -> Result<()> {
    match got == expected {
        true => Ok(()),
        false => Err(Failure::Length {
            name,
            expected,
            got,
        }),
    }
}

/// Reads the file `path` of a clusterless place decoder into a new decoder at rest, which the caller frees with
/// `betz_clusterless_close`. This call makes all allocations of the decoder.
///
/// `max_spikes` bounds the time of a step: the spikes of a step beyond so many are left out and counted. 0: no bound.
/// `path` is NUL-terminated, in the system's encoding. Fails with `BETZ_ERROR_IO`, `BETZ_ERROR_INVALID_MODEL` or
/// `BETZ_ERROR_UNSUPPORTED_VERSION`; `*out` is then untouched.
///
/// Thread-safe: yes. Realtime-safe: no (reads a file). Allocates: yes.
///
/// # Safety
/// `path` is NULL or a NUL-terminated string; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_load(
    path: *const c_char,
    max_spikes: usize,
    out: *mut *mut betz_clusterless,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (path, out) = unsafe { (cast::path(path, "path")?, cast::out(out, "out")?) };
        expect_readable(path)?;
        let decoder = betz_clusterless::open(ClusterlessPlace::load(path)?, max_spikes)?;
        out.write(cast::into_handle(decoder)?);
        Ok(())
    })
}

/// Reads a decoder like `betz_clusterless_load`, from the `len` bytes of its file in memory, which may be freed after
/// the call.
///
/// Any bytes are safe to pass: damaged bytes are refused.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `data` is NULL or points to `len` bytes; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_load_bytes(
    data: *const u8,
    len: usize,
    max_spikes: usize,
    out: *mut *mut betz_clusterless,
) -> betz_status {
    barrier::run(|| {
        if data.is_null() {
            return Err(Failure::Null("data"));
        }
        // SAFETY: the caller's promise.
        let (data, out) = unsafe { (cast::slice(data, len, "data")?, cast::out(out, "out")?) };
        expect_room_for_file(data.len() as u64)?;
        let decoder = betz_clusterless::open(ClusterlessPlace::from_bytes(data)?, max_spikes)?;
        out.write(cast::into_handle(decoder)?);
        Ok(())
    })
}

/// Runs one step of `betz_clusterless_step_seconds`. `channels` has the channel of each of the `n_spikes` spikes of the
/// step, in any order, and `features` their features, (n_spikes, n_features). Writes one estimate per output to `out`:
/// the mean over the probabilities of all cells.
///
/// Pass `n_spikes` 0 for a step without spikes. Left out and counted are spikes whose channel is unknown or had no
/// spikes in training, spikes with a feature that is not finite, and those beyond `max_spikes`. `n_features` and
/// `n_outputs` must be the decoder's (`BETZ_ERROR_MISMATCH` otherwise). On failure no step is made.
///
/// The time of a step is bounded by its number of spikes: each costs as many multiply-adds as its channel has
/// components times cells at most.
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder that no other thread is using; `channels` points to `n_spikes` values,
/// `features` to `n_spikes` times `n_features`, `out` to `n_outputs` writable ones. None of these overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_step(
    clusterless: *mut betz_clusterless,
    channels: *const u32,
    features: *const f32,
    n_spikes: usize,
    n_features: usize,
    out: *mut f32,
    n_outputs: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(clusterless, |handle| {
            let (model, session) = (&handle.model, handle.session());
            expect_exactly("n_features", model.features(), n_features)?;
            expect_exactly("n_outputs", model.outputs().len(), n_outputs)?;
            let Some(values) = n_spikes.checked_mul(n_features) else {
                return Err(Failure::Argument {
                    name: "n_spikes",
                    expected: "spikes that fit in memory",
                });
            };
            let channels = cast::slice(channels, n_spikes, "channels")?;
            let features = cast::slice(features, values, "features")?;
            let out = cast::slice_mut(out, n_outputs, "out")?;
            let used = n_spikes.min(handle.max_spikes);
            session.leave_out((n_spikes - used) as u64);
            let (mean, _) = session.step(&channels[..used], &features[..used * n_features]);
            for (to, mean) in out.iter_mut().zip(mean) {
                *to = *mean as f32;
            }
            Ok(())
        })
    }
}

/// Copies the probability of every cell after the last step to `out`, which has room for `n` values, the number of
/// cells. They add up to 1; at rest all are 0.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder that no other thread is using; `out` points to `n` writable values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_posterior(
    clusterless: *const betz_clusterless,
    out: *mut f64,
    n: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(clusterless, |handle| {
            let posterior = handle.session().posterior();
            expect_exactly("n", posterior.len(), n)?;
            cast::slice_mut(out, n, "out")?.copy_from_slice(posterior);
            Ok(())
        })
    }
}

/// Copies the outputs in each cell, (cells, outputs), to `out`, which has room for `n` values.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder; `out` points to `n` writable values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_cell_values(
    clusterless: *const betz_clusterless,
    out: *mut f64,
    n: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(clusterless, |handle| {
            let values = &handle.model.place().values;
            expect_exactly("n", values.len(), n)?;
            cast::slice_mut(out, n, "out")?.copy_from_slice(values);
            Ok(())
        })
    }
}

/// Returns the decoder to rest, as at the start of a trial.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder that no other thread is using.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_reset(clusterless: *mut betz_clusterless) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(clusterless, |handle| {
            handle.session().reset();
            Ok(())
        })
    }
}

/// Returns the number of channels (electrode groups); 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_channels(clusterless: *const betz_clusterless) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(clusterless, 0, |c| c.model.channel_names().len() as u32) }
}

/// Returns the number of features per spike; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_features(clusterless: *const betz_clusterless) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(clusterless, 0, |c| c.model.features() as u32) }
}

/// Returns the number of outputs; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_outputs(clusterless: *const betz_clusterless) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(clusterless, 0, |c| c.model.outputs().len() as u32) }
}

/// Returns the number of cells of the posterior; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_cells(clusterless: *const betz_clusterless) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(clusterless, 0, |c| c.model.place().cells.len() as u32) }
}

/// Returns the length of a step in seconds; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_step_seconds(
    clusterless: *const betz_clusterless,
) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(clusterless, 0.0, |c| c.model.step_seconds()) }
}

/// Returns the name of channel `channel` (0 to channels - 1), UTF-8; NULL if there is no such channel. The text belongs
/// to the decoder and is freed with it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_channel_name(
    clusterless: *const betz_clusterless,
    channel: u32,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::query(clusterless, std::ptr::null(), |c| {
            name(&c.channel_names, channel)
        })
    }
}

/// Returns the name of output `output` (0 to outputs - 1), UTF-8; NULL if there is no such output. The text belongs to
/// the decoder and is freed with it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_output_name(
    clusterless: *const betz_clusterless,
    output: u32,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::query(clusterless, std::ptr::null(), |c| {
            name(&c.output_names, output)
        })
    }
}

/// Copies the number of spikes that were left out since the decoder was loaded to `*out`.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder that no other thread is using; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_left_out(
    clusterless: *const betz_clusterless,
    out: *mut u64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(clusterless, |handle| {
            let out = cast::out(out, "out")?;
            out.write(handle.session().spikes_left_out());
            Ok(())
        })
    }
}

/// Closes and frees a decoder; does nothing for NULL. A poisoned decoder can be closed.
///
/// Thread-safe: no (nobody may use the decoder any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `clusterless` is NULL or a live decoder, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_clusterless_close(clusterless: *mut betz_clusterless) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(clusterless) });
}
