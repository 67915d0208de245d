//! The page's HTTP interface, used over its port, with a running session or with results.

#![allow(clippy::unwrap_used)]

mod common;
mod computing;
mod control;
mod embedded;
mod gate;
mod growing;
mod history;
mod kept;
mod limits;
mod looking;
mod parts;
mod session;
mod windows;

use assert_no_alloc::AllocDisabler;

/// Reports allocations in code that must not allocate.
#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;
