//! The ground floor of Betz: every other crate may use it, and it uses none of them.
//!
//! | module | what it is for |
//! |---|---|
//! | [`error`] | the one error type: a kind for programs, a message for people |
//! | [`mod@file`] | files that are whole or not there |
//! | [`float`] | elementary functions with the same bits on every system |
//! | [`frame`] | magic, version, length and checksum around everything Betz writes as bytes |
//! | [`wire`] | numbers, texts and lists as bytes: one bounded reader, one writer |
//! | `lock` | a mutex that a panic leaves usable |
//! | [`memory`] | how much memory there is, and refusing what needs more |
//! | [`progress`] | how long work says how far it is, and hears that it should stop |
//! | [`ring`] | a ring between two threads, made whole or refused |
//! | [`state`] | the state of something at work as bytes, by one list of its fields |
//! | [`worker`] | a thread of our own at the end of such a ring: waited for, ended |
//! | [`output`] | name and unit of an output |
//! | [`aligned`] | numbers that begin at a cache line |
//! | [`text`] | numbers in messages, as people read them |
//! | [`hash`] | FNV-1a, the hash that is stable for ever |
//!
//! Without its feature `std` the crate is `no_std`: no files, locks, progress, rings, teams or workers.

#![no_std]

#[macro_use]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod aligned;
pub mod error;
#[cfg(feature = "std")]
pub mod file;
pub mod float;
pub mod frame;
pub mod hash;
#[cfg(feature = "std")]
pub mod lock;
pub mod memory;
pub mod output;
#[cfg(feature = "std")]
pub mod progress;
#[cfg(feature = "std")]
pub mod random;
#[cfg(feature = "std")]
pub mod ring;
pub mod state;
#[cfg(feature = "std")]
pub mod team;
pub mod text;
pub mod wire;
#[cfg(feature = "std")]
pub mod worker;

pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "std")]
pub use progress::Progress;
