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

/// 1 when the library has what `name` says, 0 when it has not or does not know the name; 0 for NULL.
///
/// "train" (`betz_train`), "mine" (`betz_miner`), "network" (`betz_network`), "sort" (`betz_sorter`),
/// "cuda" (training on devices, loaded at run time), "swap-by-position" (`betz_swap_config.by_position`), "allocator" (`betz_set_allocator`). A function of
/// this header that the library lacks is none that a program can link with: ask before `dlsym`.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `name` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_has_feature(name: *const c_char) -> u32 {
    if name.is_null() {
        return 0;
    }
    // SAFETY: not NULL, and the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    u32::from(
        FEATURES
            .iter()
            .any(|&(known, there)| there && known == name),
    )
}

const FEATURES: [(&CStr, bool); 7] = [
    (c"train", cfg!(feature = "train")),
    (c"mine", cfg!(feature = "mine")),
    (c"network", cfg!(feature = "network")),
    (c"sort", cfg!(feature = "sort")),
    (c"cuda", cfg!(feature = "cuda")),
    (c"swap-by-position", true),
    (c"allocator", true),
];
