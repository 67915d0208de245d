//! Recordings: files that are whole, files that are not, and the model's clock.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod archives;
mod clock;
mod reading;
mod refusing;
mod shared_data;
mod writing;
