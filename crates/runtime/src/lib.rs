//! The part of Betz that is embedded: load a decoder, step it, and nothing that a controller does not need.
//!
//! ```text
//! psc (filter shapes, streaming filters) ──► model (decoder, its file) ──► stream (session, queue, swap)
//! ```
//!
//! No thread pool, no linear algebra, no FFT, no archive reader, no CUDA.

pub mod model;
pub mod psc;
pub mod stream;
mod width;
