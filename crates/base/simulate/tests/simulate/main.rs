//! Simulated recordings: what they promise, and that they are the same everywhere.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod network;
mod noise;
mod population;
