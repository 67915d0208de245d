//! Betz from end to end, through its public paths.

mod batch_and_stream;
mod chunks;
mod kinds;
mod progress;
mod recordings;
