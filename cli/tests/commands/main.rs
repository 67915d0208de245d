//! `betz` as its users run it: every command, what it writes, and what it refuses. One program, so that it is linked
//! once and its tests share the processors.

#![allow(clippy::unwrap_used)] // tests stop where something fails

mod adapt;
mod classes;
mod compare;
mod convert;
mod decode;
mod emulate;
mod filters;
mod fixtures;
mod graph;
mod guide;
#[cfg(target_os = "linux")]
mod interrupts;
mod keep;
mod kinds;
mod labels;
mod long;
mod look;
mod marks;
mod mining;
mod mining_counts;
mod missing;
mod monitor;
mod multiply;
mod network;
#[cfg(target_os = "linux")]
mod odd_files;
mod outputs;
mod phases;
mod pictures;
mod pipeline;
mod program;
mod record_export;
mod reproduce;
mod run;
mod same_bits;
mod shards;
mod som;
mod sort_import;
mod sorting;
mod spiking;
mod sums;
mod trained_on;
mod trials;
mod voltage;
