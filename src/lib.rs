//! # Betz: an embeddable decoding runtime for brain-machine interfaces
//!
//! Spikes in, movement out, within a bounded time.
//!
//! ```text
//! recording ──► psc ──► train ──► model ──► stream ──► movement
//! ```
//!
//! Time is integer ticks inside; seconds only at the edges.

pub use betz_base::{error, file, progress};

pub mod device;
pub mod episode;
pub mod model;
pub mod psc;
pub mod recording;
pub mod simulate;
pub mod stream;
pub mod train;

pub(crate) use betz_base::frame;
pub use betz_base::{Error, ErrorKind, Progress, Result};

/// This version of Betz.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
