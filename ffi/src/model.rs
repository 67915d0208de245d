//! Trained decoders: loading, saving, querying and sharing models.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::Arc;

use betz::Error;
use betz::model::Decoder;
use betz::stream::PreparedModel;

use crate::allocator::expect_room;
use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow::{self, grows};
use crate::status::betz_status;

/// A trained decoder. Immutable: any number of sessions and threads may share one, and every
/// function that takes a `const betz_model *` may run in several threads at once.
pub struct betz_model {
    decoder: Arc<Decoder>,
    channel_names: Vec<CString>,
    output_names: Vec<CString>,
    output_units: Vec<CString>,
    class_names: Vec<CString>,
    kind: CString,
    poison: Poison,
}

impl Handle for betz_model {
    const NAME: &'static str = "model";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_model {
    pub(crate) fn new(decoder: Decoder) -> Self {
        Self {
            channel_names: decoder.channel_names().iter().map(|n| c_text(n)).collect(),
            output_names: decoder.outputs().iter().map(|o| c_text(&o.name)).collect(),
            output_units: decoder.outputs().iter().map(|o| c_text(&o.unit)).collect(),
            class_names: decoder.class_names().iter().map(|n| c_text(n)).collect(),
            kind: c_text(decoder.kind()),
            decoder: Arc::new(decoder),
            poison: Poison::default(),
        }
    }

    pub(crate) fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }
}

/// The decoder of a model. Fails for NULL and for a poisoned handle.
///
/// # Safety
/// `model` is NULL or a live model.
#[cfg(any(feature = "live", feature = "page"))]
pub(crate) unsafe fn decoder(model: *const betz_model) -> Result<Arc<Decoder>> {
    // SAFETY: the caller's promise.
    let (model, _guard) = unsafe { barrier::second(model)? };
    Ok(Arc::clone(model.decoder()))
}

/// Converts `text` for C; leaves out NULs, which would end the string.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// `error`, with the function that reads a clusterless place decoder if it refuses the file of one.
fn name_clusterless(error: Error) -> Error {
    match error.message().contains("got \"BETZCLUS\"") {
        true => Error::new(
            error.kind(),
            format!("{}; betz_clusterless_load reads it", error.message()),
        ),
        false => error,
    }
}

/// Reads the model file `path` into a new model, which the caller frees with `betz_model_free`.
///
/// `path` is NUL-terminated, in the system's encoding, and names a regular file: pipes and devices are refused at once.
/// Fails with `BETZ_ERROR_IO`, `BETZ_ERROR_INVALID_MODEL` or `BETZ_ERROR_UNSUPPORTED_VERSION`; `*out` is then
/// untouched.
///
/// Thread-safe: yes. Realtime-safe: no (reads a file). Allocates: yes.
///
/// # Safety
/// `path` is NULL or a NUL-terminated string; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_load(
    path: *const c_char,
    out: *mut *mut betz_model,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (path, out) = unsafe { (cast::path(path, "path")?, cast::out(out, "out")?) };
        expect_readable(path)?;
        let decoder = Decoder::load(path).map_err(name_clusterless)?;
        out.write(cast::into_handle(betz_model::new(decoder))?);
        Ok(())
    })
}

/// Reads a model from the `len` bytes of a model file in memory into a new model, which the caller frees with
/// `betz_model_free`. The bytes are copied; they may be freed after the call. They are only read: constant data in flash
/// or a mapped file will do. Each session then has its own table of the weights, scaled by its filters, masked, and
/// padded to whole vectors: no session steps on the file's bytes.
///
/// Any bytes are safe to pass. Damaged bytes are refused with `BETZ_ERROR_INVALID_MODEL` or
/// `BETZ_ERROR_UNSUPPORTED_VERSION`; the memory used stays in proportion to `len`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `data` is NULL or points to `len` bytes; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_load_bytes(
    data: *const u8,
    len: usize,
    out: *mut *mut betz_model,
) -> betz_status {
    barrier::run(|| {
        if data.is_null() {
            return Err(Failure::Null("data"));
        }
        // SAFETY: the caller's promise.
        let (data, out) = unsafe { (cast::slice(data, len, "data")?, cast::out(out, "out")?) };
        expect_room_for_file(data.len() as u64)?;
        let model = betz_model::new(Decoder::from_bytes(data).map_err(name_clusterless)?);
        out.write(cast::into_handle(model)?);
        Ok(())
    })
}

/// Writes the model file `path`, complete or not at all: a new file in the same folder gets this name when it is complete.
/// Fails with `BETZ_ERROR_IO` if `path` exists and is not a regular file: a link, device or folder is not replaced.
///
/// Thread-safe: yes. Realtime-safe: no (writes a file). Allocates: yes.
///
/// # Safety
/// `model` is NULL or a live model; `path` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_save(
    model: *const betz_model,
    path: *const c_char,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(model, |model| {
            let path = cast::path(path, "path")?;
            only_regular(path)?;
            Ok(model.decoder.save(path)?)
        })
    }
}

/// Copies the bytes of the model's file into `buf` and their number into `*len`, for storage without a file system.
///
/// With `buf` NULL and `cap` 0 it only writes `*len`. Fails with `BETZ_ERROR_MISMATCH` if `cap` is too small. The same
/// model always gives the same bytes.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `model` is NULL or a live model; `buf` is NULL or points to `cap` writable bytes; `len` is NULL
/// or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_save_bytes(
    model: *const betz_model,
    buf: *mut u8,
    cap: usize,
    len: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(model, |model| {
            let len = cast::out(len, "len")?;
            let bytes = model.decoder.to_bytes()?;
            cast::copy_out("buf", buf, cap, bytes.len(), len, |room| {
                room.copy_from_slice(&bytes);
                Ok(())
            })
        })
    }
}

/// Frees a model; does nothing for NULL. Sessions that were opened with it continue: they keep the data that they need.
///
/// Thread-safe: yes, as long as no other thread still uses this handle. Realtime-safe: no.
/// Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_free(model: *mut betz_model) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(model) });
}

/// Number of channels; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_channels(model: *const betz_model) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(model, 0, |model| model.channel_names.len() as u32) }
}

/// Number of outputs; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_outputs(model: *const betz_model) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(model, 0, |model| model.output_names.len() as u32) }
}

/// Length of one step (tick) in seconds; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_step_seconds(model: *const betz_model) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(model, 0.0, |model| model.decoder.step_seconds()) }
}

/// Delay in steps: the output at step t estimates the movement at step t - delay (a negative delay
/// looks ahead); 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_delay_steps(model: *const betz_model) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(model, 0, |model| model.decoder.delay_steps()) }
}

/// Writes a number that is equal for models that decode equally to `*out`. `betz_swap_progress.running` shows
/// this number, whatever the session's mask. `betz_health.model` is another one, which depends on the mask, too.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `model` is NULL or a live model; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_fingerprint(
    model: *const betz_model,
    out: *mut u64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(model, |model| {
            let out = cast::out(out, "out")?;
            out.write(PreparedModel::new(&model.decoder, None)?.decoder_fingerprint());
            Ok(())
        })
    }
}

/// Returns the name of channel `channel` (0 to channels - 1), UTF-8; NULL if there is no such channel. The text belongs
/// to the model and is freed with it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_channel_name(
    model: *const betz_model,
    channel: u32,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::query(model, std::ptr::null(), |model| {
            name(&model.channel_names, channel)
        })
    }
}

/// Returns 1 if channel `channel` takes part in decoding; 0 if it is masked (it was dead or redundant in training) or
/// does not exist, and for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_channel_used(model: *const betz_model, channel: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::query(model, 0, |model| {
            let mask = model.decoder.channel_mask();
            u32::from(mask.get(channel as usize).copied().unwrap_or(false))
        })
    }
}

/// Returns the name of output `output` (0 to outputs - 1), UTF-8; NULL if there is no such output. The text belongs to
/// the model and is freed with it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_output_name(
    model: *const betz_model,
    output: u32,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::query(model, std::ptr::null(), |model| {
            name(&model.output_names, output)
        })
    }
}

/// Returns the unit of output `output` (0 to outputs - 1), UTF-8, empty if unknown; NULL if there is no such output.
/// The text belongs to the model and is freed with it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_output_unit(
    model: *const betz_model,
    output: u32,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::query(model, std::ptr::null(), |model| {
            name(&model.output_units, output)
        })
    }
}

/// Returns the name of the model's kind, such as "linear", "lift" or "recurrent"; NULL for NULL. The text belongs to the
/// model and is freed with it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_kind(model: *const betz_model) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(model, std::ptr::null(), |model| model.kind.as_ptr()) }
}

/// Number of classes whose probabilities a step computes (`betz_session_classes`); 0 for a model without classes, and
/// for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_classes(model: *const betz_model) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(model, 0, |model| model.class_names.len() as u32) }
}

/// Returns the name of class `class_index` (0 to classes - 1), UTF-8; NULL if there is no such class. The text belongs
/// to the model and is freed with it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `model` is NULL or a live model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_class_name(
    model: *const betz_model,
    class_index: u32,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::query(model, std::ptr::null(), |model| {
            name(&model.class_names, class_index)
        })
    }
}

grows! {
    /// Cross-validated scores of a model for one output: how well it decodes data that it was not trained on.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_score {
        /// Coefficient of determination, 1 - residual / total sum of squares.
        pub r2: f64,
        /// Root mean square error, in the output's unit.
        pub rmse: f64,
        /// RMSE / (max - min of the truth).
        pub nrmse_range: f64,
        /// RMSE / standard deviation of the truth.
        pub nrmse_std: f64,
    }
}

/// Writes the cross-validated scores of output `output` (0 to outputs - 1), which are stored in the model, to `*out`,
/// whose size in bytes is `size` (pass `sizeof`).
///
/// Fails with `BETZ_ERROR_INSUFFICIENT_DATA` if the model was trained without folds, and with
/// `BETZ_ERROR_INVALID_ARGUMENT` if there is no such output.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: no (a refusal allocates its message).
///
/// # Safety
/// `model` is NULL or a live model; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_model_score(
    model: *const betz_model,
    output: u32,
    out: *mut betz_score,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(model, |model| {
            grow::check_place(out, size, "out")?;
            if output as usize >= model.output_names.len() {
                return Err(Failure::Argument {
                    name: "output",
                    expected: "the number of an output of the model",
                });
            }
            let score = model.decoder.training().scores.get(output as usize);
            let score = score.ok_or_else(|| {
                betz::Error::new(
                    betz::ErrorKind::InsufficientData,
                    "score: expected a model trained with folds, got one without scores",
                )
            })?;
            let score = betz_score {
                r2: score.r2,
                rmse: score.rmse,
                nrmse_range: score.nrmse_range,
                nrmse_std: score.nrmse_std,
            };
            grow::write(out, size, "out", score)
        })
    }
}

/// Fails if there is too little memory for the several copies of the file that reading it takes.
pub(crate) fn expect_room_for_file(len: u64) -> Result<()> {
    let bytes = usize::try_from(len.saturating_mul(4)).unwrap_or(usize::MAX);
    expect_room(bytes, "model")
}

/// Refuses a path that is not a regular file before it is opened: opening a pipe waits for a writer, and a device may
/// never end. Also refuses a file that does not fit into memory. If the file cannot be examined, the later read reports
/// the reason.
pub(crate) fn expect_readable(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            let text = format!(
                "reading {}: expected a regular file, got a folder, a pipe or a device",
                path.display()
            );
            Err(betz::Error::new(betz::ErrorKind::Io, text).into())
        }
        Ok(file) => expect_room_for_file(file.len()),
        Err(_) => Ok(()),
    }
}

/// Refuses to replace anything other than a regular file.
pub(crate) fn only_regular(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            let what = if there.is_symlink() {
                "a link"
            } else {
                "something else"
            };
            let text = format!(
                "writing {}: expected a regular file or nothing there, got {what}",
                path.display()
            );
            Err(betz::Error::new(betz::ErrorKind::Io, text).into())
        }
        // If the path cannot be examined, the later write reports the reason.
        _ => Ok(()),
    }
}

pub(crate) fn name(names: &[CString], index: u32) -> *const c_char {
    names
        .get(index as usize)
        .map_or(std::ptr::null(), |name| name.as_ptr())
}
