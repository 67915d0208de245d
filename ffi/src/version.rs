//! Which library this is.

use std::ffi::{CStr, c_char};

/// The version of the C ABI that `betz.h` describes. The shared library's soname ends in it.
pub const BETZ_ABI_VERSION: u32 = 2;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"unknown",
    };

/// The ABI version of the library that is linked: compare it with `BETZ_ABI_VERSION`, the one that
/// was compiled against.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
#[unsafe(no_mangle)]
pub extern "C" fn betz_abi_version() -> u32 {
    BETZ_ABI_VERSION
}

/// The library's version, such as "0.1.0". The text is static: do not free it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
#[unsafe(no_mangle)]
pub extern "C" fn betz_version() -> *const c_char {
    VERSION.as_ptr()
}
