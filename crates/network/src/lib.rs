//! Correlation networks of thousands of nodes over sliding windows, and their graphs.

mod engine;
mod network;
pub mod oracle;
mod panel;
mod plan;
mod signal;
mod spec;
mod tile;
mod window;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tests;

pub use betz_base::{Error, ErrorKind, Progress, Result};
pub use network::{Meta, Network, WindowEdges};
pub use oracle::Undefined;
pub use plan::{Estimate, Plan};
pub use signal::{Signal, SignalData};
pub use spec::{Measure, NetworkSpec, Sign, Threshold};
pub use tile::Arch;
pub use window::{Window, WindowGrid};
