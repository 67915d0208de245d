//! libbetz_live.so: libbetz plus a whole session (`include/betz_live.h`).
//!
//! It is a separate library, so that libbetz contains no sockets and no recorder. It also has all
//! functions of libbetz, because a model belongs to one library: link one of the two. The
//! documentation in [`session`], [`step`], [`outputs`], [`report`] and [`recalibrate`] is that of the header:
//! `ffi/tests/header.rs` generates it.
#![allow(
    unsafe_code,
    non_camel_case_types,
    reason = "functions of C, with their contracts"
)]

pub mod outputs;
pub mod recalibrate;
pub mod report;
pub mod session;
pub mod step;

pub use betz_ffi as functions;

/// Keeps the process alive when memory runs out, as in libbetz.
#[global_allocator]
static MEMORY: betz_ffi::BetzAllocator = betz_ffi::BetzAllocator;
