//! The page as a browser asks for it: over its port, from a session at work or from results.

#![allow(clippy::unwrap_used)]

mod common;
mod control;
mod limits;
mod looking;
mod session;

use assert_no_alloc::AllocDisabler;

/// Tells of an allocation where there must be none.
#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;
