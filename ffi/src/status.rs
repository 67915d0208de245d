//! The one result type of the C ABI.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use betz::ErrorKind;

use crate::enum_bits::enum_bits;

/// Result of every fallible call. 32 bits; zero is success.
///
/// Codes come in bands of one hundred and never change their meaning: 1xx arguments, 2xx data, 3xx files and the
/// system, 4xx numerics, 5xx devices, 9xx Betz itself. A later version may return codes that are not listed here;
/// treat any non-zero value as failure.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types, clippy::upper_case_acronyms)]
pub enum betz_status {
    /// Success.
    BETZ_OK = 0,
    /// A parameter is outside its documented range.
    BETZ_ERROR_INVALID_ARGUMENT = 100,
    /// Two things that must agree in shape, count, names or clock differ.
    BETZ_ERROR_MISMATCH = 101,
    /// A pointer is NULL that must not be.
    BETZ_ERROR_NULL = 110,
    /// No version of the struct has the given size, or a newer version's struct asks for a feature that this
    /// library does not have.
    BETZ_ERROR_STRUCT_SIZE = 111,
    /// The handle's threads exist only in the parent process, before fork(): open another handle here.
    BETZ_ERROR_FORKED = 112,
    /// The handle is in use by another call, in a second thread or interrupted by a signal; it allows one call at
    /// a time. Nothing has changed.
    BETZ_ERROR_BUSY = 113,
    /// Training data breaks its documented format.
    BETZ_ERROR_INVALID_RECORDING = 200,
    /// The data is well-formed but too small or too empty for the request.
    BETZ_ERROR_INSUFFICIENT_DATA = 201,
    /// The file is damaged, or is not a model file.
    BETZ_ERROR_INVALID_MODEL = 202,
    /// A file was written by a version of Betz that this one cannot read.
    BETZ_ERROR_UNSUPPORTED_VERSION = 203,
    /// The checkpoint is damaged, or is not a session's checkpoint.
    BETZ_ERROR_INVALID_CHECKPOINT = 204,
    /// The operating system refused to read, write or map something.
    BETZ_ERROR_IO = 300,
    /// The progress callback asked a long operation to stop.
    BETZ_ERROR_INTERRUPTED = 301,
    /// The operating system has too little memory.
    BETZ_ERROR_OUT_OF_MEMORY = 302,
    /// A matrix is not positive definite, although it must be (a dead or duplicated channel, no ridge).
    BETZ_ERROR_NOT_POSITIVE_DEFINITE = 400,
    /// A computation produced NaN or infinity from finite input.
    BETZ_ERROR_NON_FINITE = 401,
    /// The requested device is not available.
    BETZ_ERROR_DEVICE_UNAVAILABLE = 500,
    /// The device has too little memory, or the work exceeds the limits of its kernels.
    BETZ_ERROR_DEVICE_MEMORY = 501,
    /// A device call failed.
    BETZ_ERROR_DEVICE_FAILURE = 502,
    /// A kernel did not compile.
    BETZ_ERROR_KERNEL_COMPILE = 503,
    /// A broken invariant inside Betz: a bug, please report it.
    BETZ_ERROR_INTERNAL = 900,
    /// A panic was stopped at the boundary: a bug, please report it. The handle is now poisoned.
    BETZ_ERROR_PANIC = 901,
    /// An earlier panic left this handle in an unknown state: it can only be freed.
    BETZ_ERROR_POISONED = 902,
}

use betz_status::*;

/// Every status with the text of [`betz_status_string`].
const TABLE: [(betz_status, &CStr); 24] = [
    (BETZ_OK, c"success"),
    (BETZ_ERROR_INVALID_ARGUMENT, c"invalid argument"),
    (BETZ_ERROR_MISMATCH, c"mismatch"),
    (BETZ_ERROR_NULL, c"NULL pointer"),
    (BETZ_ERROR_STRUCT_SIZE, c"unknown struct size"),
    (BETZ_ERROR_FORKED, c"forked process"),
    (BETZ_ERROR_BUSY, c"handle in use"),
    (BETZ_ERROR_INVALID_RECORDING, c"invalid recording"),
    (BETZ_ERROR_INSUFFICIENT_DATA, c"insufficient data"),
    (BETZ_ERROR_INVALID_MODEL, c"invalid model"),
    (BETZ_ERROR_UNSUPPORTED_VERSION, c"unsupported version"),
    (BETZ_ERROR_INVALID_CHECKPOINT, c"invalid checkpoint"),
    (BETZ_ERROR_IO, c"input/output"),
    (BETZ_ERROR_INTERRUPTED, c"interrupted"),
    (BETZ_ERROR_OUT_OF_MEMORY, c"out of memory"),
    (BETZ_ERROR_NOT_POSITIVE_DEFINITE, c"not positive definite"),
    (BETZ_ERROR_NON_FINITE, c"non-finite value"),
    (BETZ_ERROR_DEVICE_UNAVAILABLE, c"device unavailable"),
    (BETZ_ERROR_DEVICE_MEMORY, c"device memory"),
    (BETZ_ERROR_DEVICE_FAILURE, c"device failure"),
    (BETZ_ERROR_KERNEL_COMPILE, c"kernel compilation"),
    (BETZ_ERROR_INTERNAL, c"internal error"),
    (BETZ_ERROR_PANIC, c"panic inside Betz"),
    (BETZ_ERROR_POISONED, c"poisoned handle"),
];

impl From<ErrorKind> for betz_status {
    fn from(kind: ErrorKind) -> Self {
        TABLE
            .iter()
            .map(|&(status, _)| status)
            .find(|&status| status as i32 == kind.code())
            .unwrap_or(BETZ_ERROR_INTERNAL)
    }
}

/// A short English name for a status, for logs. Never NULL; "unknown status" for a value that this
/// library does not know. The text is static: do not free it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
#[unsafe(no_mangle)]
pub extern "C" fn betz_status_string(status: MaybeUninit<betz_status>) -> *const c_char {
    // `MaybeUninit` because C may pass any 32 bits, and not every i32 is a `betz_status`.
    let code = enum_bits(&status) as i32;
    TABLE
        .iter()
        .find(|&&(status, _)| status as i32 == code)
        .map_or(c"unknown status", |&(_, text)| text)
        .as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_status() {
        for &kind in ErrorKind::ALL {
            let status = betz_status::from(kind);
            assert_eq!(status as i32, kind.code(), "{kind}");
            let text = TABLE.iter().find(|(s, _)| *s == status).unwrap().1;
            assert_eq!(text.to_str().unwrap(), kind.name());
        }
    }

    #[test]
    fn codes_are_unique() {
        for (i, (a, _)) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|(b, _)| a != b), "{a:?}");
        }
    }

    #[test]
    fn any_number_from_c_has_a_text() {
        for code in [0, 100, 902, -1, 12_345, i32::MIN] {
            let mut status = MaybeUninit::<betz_status>::uninit();
            // SAFETY: as large as an i32.
            unsafe { status.as_mut_ptr().cast::<i32>().write(code) };
            // SAFETY: the function returns static, NUL-terminated text.
            let text = unsafe { CStr::from_ptr(betz_status_string(status)) };
            assert_eq!(text == c"unknown status", ![0, 100, 902].contains(&code));
        }
    }
}
