//! One file a command.

pub(crate) mod adapt;
mod bank;
mod chance;
pub(crate) mod demo;
pub(crate) mod drift;
pub(crate) mod drop;
pub(crate) mod evaluate;
pub(crate) mod export;
pub(crate) mod info;
mod inside;
mod listed;
mod live;
pub(crate) mod mine;
pub(crate) mod monitor;
pub(crate) mod network;
mod page;
mod replay;
pub(crate) mod serve;
pub(crate) mod simulate;
mod simulated;
pub(crate) mod solve;
pub(crate) mod som;
pub(crate) mod sort;
pub(crate) mod stream;
pub(crate) mod sums;
pub(crate) mod train;
mod written;
