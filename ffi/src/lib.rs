//! The C ABI of Betz, for `libbetz.so`, `libbetz.a` and `betz.h`.
//!
//! One file for each object that C sees ([`model`], [`session`], [`queue`], [`miner`],
//! [`watch_list`], [`network`], [`sorter`], [`clusterless`], `live`, `page`, `spiking`) or each thing done to one ([`train`], [`swap`], [`checkpoint`], [`stats`],
//! [`attach`]). Below them:
//!
//! ```text
//! barrier      every call runs inside it: panics stop here, handles are poisoned, failures become
//!   │          a status and this thread's message
//! cast, grow   every pointer from C becomes a reference here, every struct of another version this one's,
//!   │          or is refused; workers: threads that inherit nothing from the caller's
//! failure ──► status, last_error
//! ```
//!
//! Rules: every fallible function returns [`status::betz_status`]; results are written last, and
//! only on success; a handle that C holds is a `Box` of a `betz_*` struct; an enum that comes from C
//! is read as bits. The documentation here is that of the header: `tests/header.rs` generates it.

#![cfg_attr(
    not(all(feature = "train", feature = "mine", feature = "network")),
    allow(dead_code, reason = "what reads their arguments is left out with them")
)]
// The names are C's.
#![allow(non_camel_case_types)]

mod barrier;
mod block;
mod cast;
mod enum_bits;
mod exclusive;
mod failure;
#[cfg(any(feature = "mine", feature = "network"))]
mod feed;
mod grow;
#[cfg(any(
    feature = "mine",
    feature = "network",
    feature = "live",
    feature = "page"
))]
mod hearing;
mod known;
#[cfg(any(
    feature = "train",
    feature = "mine",
    feature = "network",
    feature = "page"
))]
mod workers;

pub mod allocator;

pub mod log;

pub mod set_log;

pub mod version;

pub mod status;

pub mod last_error;

pub mod model;

#[cfg(feature = "train")]
pub mod train;

#[cfg(feature = "train")]
pub mod train_filters;

#[cfg(feature = "train")]
mod train_kinds;

#[cfg(feature = "train")]
pub mod train_values;

#[cfg(feature = "train")]
pub mod trainer_config;

#[cfg(feature = "train")]
pub mod trainer;

#[cfg(feature = "train")]
pub mod clusterless;

#[cfg(feature = "train")]
pub mod unlike;

pub mod session;

pub mod session_config;

pub mod session_open;

mod shortage;
pub mod stats;

pub mod health;

pub mod swap;
#[cfg(any(feature = "mine", feature = "network"))]
mod threaded;

pub mod checkpoint;

pub mod classes;

pub mod queue;

pub mod samples;

#[cfg(feature = "mine")]
pub mod miner_config;

#[cfg(feature = "mine")]
pub mod miner;

#[cfg(feature = "mine")]
pub mod watch_list;

#[cfg(feature = "mine")]
pub mod attach;

#[cfg(feature = "sort")]
pub mod sorter;

#[cfg(feature = "network")]
pub mod network_config;

#[cfg(feature = "network")]
pub mod network;

#[cfg(feature = "network")]
pub mod attach_network;

#[cfg(feature = "live")]
pub mod live;

#[cfg(feature = "page")]
pub mod page;

#[cfg(feature = "spiking")]
pub mod spiking;

#[cfg(all(feature = "provoke-panic", feature = "mine"))]
pub mod provoke_panic;

pub use allocator::{BetzAllocator, betz_allocator, betz_set_allocator};
#[cfg(feature = "mine")]
pub use attach::*;
#[cfg(feature = "network")]
pub use attach_network::*;
pub use checkpoint::*;
#[cfg(feature = "train")]
pub use clusterless::*;
pub use health::*;
pub use last_error::betz_last_error;
#[cfg(feature = "live")]
pub use live::*;
pub use log::*;
#[cfg(feature = "mine")]
pub use miner::*;
#[cfg(feature = "mine")]
pub use miner_config::*;
pub use model::*;
#[cfg(feature = "network")]
pub use network::*;
#[cfg(feature = "network")]
pub use network_config::*;
#[cfg(feature = "page")]
pub use page::*;
pub use queue::*;
pub use samples::*;
pub use session::*;
pub use session_config::*;
pub use session_open::*;
pub use set_log::*;
#[cfg(feature = "sort")]
pub use sorter::*;
#[cfg(feature = "spiking")]
pub use spiking::*;
pub use stats::*;
pub use status::{betz_status, betz_status_string};
pub use swap::*;
#[cfg(feature = "train")]
pub use train::*;
#[cfg(feature = "train")]
pub use train_filters::*;
#[cfg(feature = "train")]
pub use train_values::*;
#[cfg(feature = "train")]
pub use trainer::*;
#[cfg(feature = "train")]
pub use trainer_config::*;
#[cfg(feature = "train")]
pub use unlike::*;
pub use version::*;
#[cfg(feature = "mine")]
pub use watch_list::*;
