//! # Betz: an embeddable decoding runtime for brain-machine interfaces
//!
//! Spikes in, movement out, within a bounded time.
//!
//! ```text
//! recording ──► psc ──► train ──► model ──► stream ──► movement
//! ```
//!
//! Time is integer ticks inside; seconds only at the edges.

pub mod device;
pub mod error;
pub mod file;
mod frame;
pub mod progress;

pub mod episode;
pub mod model;
pub mod psc;
pub mod recording;
pub mod simulate;
pub mod stream;
pub mod train;

pub use error::{Error, ErrorKind, Result};
pub use progress::Progress;

/// This version of Betz.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
