//! PSC filters and low-passes on a CUDA device, by their recursions in tiles of steps side by side.
//!
//! Responses are in f32 within 1e-5 of a row's peak (or of a single spike's response where that is
//! larger), at rest at each segment's start, and the same bits however time is cut into slices.

mod layout;
mod low_pass;
mod recursive;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use layout::{DeviceLayout, Layout, Run, THREADS, TILE, tile_bytes};
pub(crate) use low_pass::LowPassScan;
pub(crate) use recursive::{DeviceBank, Recursion, grid};
pub(crate) use shape::{Shape, shapes};
