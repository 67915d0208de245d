//! `betz` as its users run it: every command, what it writes, and what it refuses. One program, so that it is linked
//! once and its tests share the processors.

mod adapt;
mod guide;
mod kinds;
mod mining;
mod monitor;
mod network;
mod outputs;
mod pipeline;
mod sums;
mod trials;
