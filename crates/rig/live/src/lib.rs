//! A whole session: the source of a rig, front end, decoder, outputs, recorder and replay.
//!
//! A [`Plan`] is read from a TOML file. [`Live`] runs it: blocks of a rig go through the [`Pipeline`], and its steps to the
//! buses. The pipeline never looks at a clock, so that the replay of a recording gives the same bits.

mod background;
pub mod binner;
mod bins;
mod board;
mod check;
mod checkpoint;
mod clock;
mod ear;
mod ends;
mod event;
mod front;
mod front_end;
mod grid;
mod health;
mod lane;
mod learn;
mod live;
mod notes;
mod pace;
pub mod pipeline;
pub mod plan;
mod push;
mod recalibrate;
pub mod record;
mod recorded;
mod replay;
mod resume;
mod scheduling;
mod shared_line;
mod side;
mod simulated;
mod source;
mod swap;

pub use betz_rigs::rig::notes::{Note, NoteContent};
pub use betz_train::unlike::Suggestion;

pub use background::{BackgroundHealth, BackgroundSession, OnStep, Phase};
pub use binner::Binner;
pub use bins::{Bins, bin, bin_recording};
pub use board::{OutputReader, Reading, StepOutput};
pub use check::{Report, check, check_all};
pub use clock::{Clock, ClockState};
pub use event::{BinnerCounts, Content, Event, StepInput};
pub use front_end::FrontEnd;
pub use grid::Alignment;
pub use health::{SessionReport, SinkHealth, SourceHealth};
pub use learn::{LearnReport, OtherModel, RelearnReport};
pub use live::{LatencySpan, Live, Resumption, Trial, Until};
pub use notes::NoteCounts;
pub use pipeline::{Pipeline, Step};
pub use plan::Plan;
pub use push::{PushRig, Pusher, Rows, push_source};
pub use recalibrate::RecalibrateReport;
pub use recorded::{DatasetFeed, DatasetRig};
pub use replay::{Difference, Replay, ReplayReport};
pub use scheduling::ThreadPlace;
pub use shared_line::{FARTHEST_SECONDS, SharedLine, SharedLineReport, nearest_change};
pub use simulated::{Pace, Part, SimulatedRig, Simulation, SimulationOptions};
pub use source::{open_rigs, step_rig};
pub use swap::PreparedSwap;
