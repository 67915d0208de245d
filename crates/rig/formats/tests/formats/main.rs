//! Formats through the library's doors.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(feature = "nwb")]
mod nwb;
#[cfg(feature = "nwb")]
mod nwb_write;
#[cfg(feature = "voltage")]
mod voltage;
#[cfg(all(feature = "nwb", feature = "voltage"))]
mod voltage_lines;
