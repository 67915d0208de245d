//! Versions and features of the library.

use std::ffi::{CStr, c_char};

/// The version of the C ABI that `betz.h` describes. The shared library's soname ends in it.
pub const BETZ_ABI_VERSION: u32 = 2;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"unknown",
    };

/// `text`, or "unknown".
const fn known(text: Option<&'static str>) -> &'static str {
    match text {
        Some(text) if !text.is_empty() => text,
        _ => "unknown",
    }
}

const PARTS: [&str; 16] = [
    "betz ",
    env!("CARGO_PKG_VERSION"),
    " abi 2 commit ",
    known(option_env!("BETZ_COMMIT")),
    " ",
    known(option_env!("BETZ_RUSTC")),
    " ",
    std::env::consts::ARCH,
    if cfg!(feature = "train") {
        " train"
    } else {
        ""
    },
    if cfg!(feature = "mine") { " mine" } else { "" },
    if cfg!(feature = "network") {
        " network"
    } else {
        ""
    },
    if cfg!(feature = "sort") { " sort" } else { "" },
    if cfg!(feature = "live") { " live" } else { "" },
    if cfg!(feature = "page") { " page" } else { "" },
    if cfg!(feature = "spiking") {
        " spiking"
    } else {
        ""
    },
    if cfg!(feature = "cuda") { " cuda" } else { "" },
];

/// The parts joined, and NUL.
const FULL: [u8; 256] = {
    let mut all = [0; 256];
    let (mut part, mut at) = (0, 0);
    while part < PARTS.len() {
        let text = PARTS[part].as_bytes();
        let mut i = 0;
        // One byte is left for NUL.
        while i < text.len() && at < all.len() - 1 {
            all[at] = text[i];
            at += 1;
            i += 1;
        }
        part += 1;
    }
    all
};

const VERSION_FULL: &CStr = match CStr::from_bytes_until_nul(&FULL) {
    Ok(version) => version,
    Err(_) => c"unknown",
};

/// ABI version of the linked library. Compare it with `BETZ_ABI_VERSION`, the version of the header that the program
/// was compiled with.
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

/// The library's version with everything that distinguishes builds, such as "betz 0.1.0 abi 2 commit 1a2b3c rustc
/// 1.95.0 x86_64 train mine network sort cuda". `scripts/install.sh` records commit and compiler; they are "unknown" in
/// other builds. The text is static: do not free it.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
#[unsafe(no_mangle)]
pub extern "C" fn betz_version_full() -> *const c_char {
    VERSION_FULL.as_ptr()
}

/// Returns 1 if the library has the feature `name`; 0 if it does not, if it does not know the name, and for NULL.
///
/// Features: "train" (`betz_train`, `betz_clusterless`), "mine" (`betz_miner`), "network" (`betz_network`), "sort" (`betz_sorter`), "live"
/// (`betz_live.h`), "page" (`betz_page.h`), "spiking" (`betz_spiking.h`), "cuda"
/// (training on devices, loaded at run time), "kinds" (`betz_train_config.decoder`), "swap-by-position" (`betz_swap_config.by_position`), "allocator"
/// (`betz_set_allocator`). A program cannot link with functions of this header that the library lacks: call this
/// function before `dlsym`.
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

const FEATURES: [(&CStr, bool); 11] = [
    (c"train", cfg!(feature = "train")),
    (c"mine", cfg!(feature = "mine")),
    (c"network", cfg!(feature = "network")),
    (c"sort", cfg!(feature = "sort")),
    (c"live", cfg!(feature = "live")),
    (c"page", cfg!(feature = "page")),
    (c"spiking", cfg!(feature = "spiking")),
    (c"cuda", cfg!(feature = "cuda")),
    (c"kinds", cfg!(feature = "kinds")),
    (c"swap-by-position", true),
    (c"allocator", true),
];
