//! Whole sessions of simulated rigs, their recordings and replays.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod background;
mod bad_input;
mod behind;
mod clock;
mod failures;
mod gaps;
mod inline;
mod killed;
mod labels;
mod late;
mod learn;
mod lines;
mod log;
mod plan;
mod recalibrate;
mod record;
mod record_only;
mod resume;
mod rigs;
mod scheduling;
mod session;
mod shared_line;
mod soak;
mod sources;
mod subscribers;
mod trainer;
