//! Networks of any ONNX operators, run over recordings by [tract](https://docs.rs/tract-onnx).
//!
//! `betz import` makes decoders of chains of layers, which a session steps in microseconds. Other networks, such as
//! attention, are decoded here: offline, with memory allocated in each step and no bound on its time. Nothing that is
//! embedded depends on this crate.
//!
//! The feature `tract` compiles it; without that feature the crate is empty.

#[cfg(feature = "tract")]
mod layout;
#[cfg(feature = "tract")]
mod network;

#[cfg(feature = "tract")]
pub use network::{Network, Options};
