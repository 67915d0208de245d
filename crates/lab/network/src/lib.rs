//! Correlation networks of thousands of nodes over sliding windows, exact, offline and live, and their
//! graphs.
//!
//! A [`Signal`] holds samples of many nodes: pixels of a video, channels of an array, spike counts in
//! bins. A [`NetworkSpec`] says how alike two nodes must be over a [`Window`] for an edge between them.
//! A [`Plan`] finds the edges of every window:
//!
//! ```
//! use betz_network::graph::{Graph, leiden::Leiden, measures};
//! use betz_network::{NetworkSpec, Plan, Signal, Threshold, Window};
//!
//! // Six nodes: three follow one wave, three another.
//! let samples: Vec<f32> = (0..600_u32)
//!     .flat_map(|t| {
//!         let (slow, fast) = ((f64::from(t) / 40.0).sin(), (f64::from(t) / 13.0).cos());
//!         let noise = move |n: u32| f64::from((t * 7919 + n * 104_729) % 97) / 400.0;
//!         (0..6).map(move |n| (if n < 3 { slow } else { fast } + noise(n)) as f32)
//!     })
//!     .collect();
//! let signal = Signal::new(&samples, 6)?;
//! let spec = NetworkSpec::pearson(Window { length: 200, step: 50 }).threshold(Threshold::Absolute(0.8));
//! let plan = Plan::new(&spec, &signal)?;
//! assert_eq!(plan.estimate().pair_windows, 15.0 * 9.0);
//! let network = plan.run(&signal, &())?;
//! for window in network.windows() {
//!     let graph = Graph::of(&window, network.nodes());
//!     assert_eq!(measures::degrees(&graph), [2; 6]);
//!     assert_eq!(Leiden::default().run(&graph, None)?.communities, [0, 0, 0, 1, 1, 1]);
//! }
//! # Ok::<(), betz_network::Error>(())
//! ```
//!
//! # What is promised
//! - **The edges are those of plain f64 loops** ([`oracle`]): correlations are summed in f32, and whatever
//!   comes within 3·10⁻⁵ of the threshold is computed again in f64 from the samples. Values are within
//!   10⁻⁵ of f64's. Equal values at the threshold, ±1 above all, count to within [`oracle::TIE`].
//! - **The same edges in the same order, and the same bits, for any number of threads.**
//! - **The same edges on a CUDA device** ([`Plan::on`]), by a walk of its own.
//! - **No matrix of all pairs** but where a measure needs one (partial correlation, spike-time tiling,
//!   both for some thousands of nodes): memory is the panels of a chunk of windows and the edges.
//! - **No window crosses a gap**, and nodes that are constant or not finite in a window are reported as
//!   undefined there; no noise is added anywhere.
//!
//! | module | what it has |
//! |---|---|
//! | [`graph`] | measures of a window's graph, communities, and what becomes of them over time |
//! | [`spikes`] | spike trains: counts in bins, spike-time tiling |
//! | [`surrogate`] | thresholds that chance seldom reaches |
//! | [`live`] | networks of counts and of samples as they come |
//! | [`export`] | CSV, GraphML, GEXF, spells |
//! | `file` | networks as `.npz` (feature `npz`) |
//! | [`oracle`] | every measure as plain loops |

// Loops over lanes stand as loops over indices: LLVM then keeps the lanes in registers.
#![allow(clippy::needless_range_loop)]
// Comparisons are written so that NaN falls on the safe side.
#![allow(clippy::neg_cmp_op_on_partial_ord, clippy::manual_clamp)]

mod block;
mod chunk;
mod coherence;
mod cuda;
mod deal;
mod engine;
mod every_pair;
pub mod export;
#[cfg(feature = "npz")]
pub mod file;
pub mod graph;
mod hold;
mod largest;
pub mod live;
mod moments;
mod network;
pub mod oracle;
mod pairs;
mod panel;
mod partial;
mod phase;
mod place;
mod plan;
mod rank;
mod run;
mod scan;
mod shard;
mod signal;
mod spec;
pub mod spikes;
mod step;
pub mod surrogate;
mod taper;
mod team;
mod tile;
mod tiling;
mod warp;
mod window;
mod words;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod measure_tests;
#[cfg(test)]
mod tests;

pub use betz_base::{Error, ErrorKind, Progress, Result};
pub use cuda::DeviceCount;
pub use every_pair::PairValues;
pub use network::{Meta, Network, WindowEdges};
pub use oracle::UndefinedReason;
pub use plan::{Estimate, Plan};
pub use run::Run;
pub use signal::{Signal, SignalData};
pub use spec::{Measure, NetworkSpec, Sign, Taper, Threshold};
pub use spikes::SpikeTrains;
pub use tile::Arch;
pub use window::{Window, WindowGrid};
