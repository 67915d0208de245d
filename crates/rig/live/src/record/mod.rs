//! The recording of a session: append-only segments of checked frames in a folder.

mod disk;
mod folder;
pub mod frame;
mod log;
mod reader;
mod segments;
mod writer;

pub use folder::{Facts, Recording, start};
pub(crate) use folder::{
    VERSIONS, check_place, free_bytes, go_on, is_of, last_written, lock, newest, next_segment,
    ring_bytes, start_with, unix_seconds,
};
pub use log::Disk;
pub(crate) use log::LogEvent;
pub use reader::{Damage, Reader, Record};
pub(crate) use writer::{Continuation, RecorderRing};
pub use writer::{Recorder, RecorderCounts, RecorderOptions};
