//! Correlation networks of thousands of nodes over sliding windows, and their graphs.

mod engine;
pub mod export;
pub mod graph;
pub mod live;
mod network;
pub mod oracle;
mod pairs;
mod panel;
mod partial;
mod phase;
mod plan;
mod rank;
mod scan;
mod signal;
mod spec;
pub mod spikes;
pub mod surrogate;
mod tile;
mod window;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod measure_tests;
#[cfg(test)]
mod tests;

pub use betz_base::{Error, ErrorKind, Progress, Result};
pub use network::{Meta, Network, WindowEdges};
pub use oracle::Undefined;
pub use plan::{Estimate, Plan};
pub use signal::{Signal, SignalData};
pub use spec::{Measure, NetworkSpec, Sign, Threshold};
pub use spikes::SpikeTrains;
pub use tile::Arch;
pub use window::{Window, WindowGrid};
